//! The worker pools of clusters whose version is updated.

use rollout::WorkerPools;

use super::*;
use crate::testing::operator_of_probe;

pub(super) const ASKED: &str = "w1";

fn waiting(phase: Phase) -> World {
    let mut world = world(&["a"]);
    world.questions = Questions {
        preflight: Some(question()),
        workers: Some(Arc::from(ASKED)),
    };
    world.policy = policy().worker_pools(3600).build();
    world.cluster(0).record = Some(Arc::new(record(phase).into()));
    world
}

/// What a cluster says that runs 4.20.4.
pub(super) fn told(pools: &str) -> Value {
    let mut status = status_of_probe();
    let manifests = status["resourceStatus"]["manifests"].as_array_mut().unwrap();
    manifests.truncate(1);
    manifests[0]["statusFeedback"]["values"][0]["fieldValue"]["string"] = json!("4.20.4");
    manifests.push(operator_of_probe(pools));
    status
}

impl World {
    fn tells(&mut self, pools: &str, created: i64) {
        self.version += 1;
        let mut object = answered(
            probe("a", UPGRADE, ASKED, self.version),
            told(pools),
            self.version,
        );
        let created = api::time::from_chrono(at(created));
        object.metadata.creation_timestamp = Some(created);
        self.index.work(&Change::Applied(object), at(0));
    }

    pub(super) fn since(&self) -> Option<DateTime<Utc>> {
        let record = self.fleet.clusters[0].record.as_ref();
        let record = record.filter(|record| record.phase == Phase::Workers);
        record.map(|record| record.since)
    }

    fn pools(&self, seconds: i64) -> (Option<Reason>, String) {
        match self
            .preflights
            .worker_pools("a", UPGRADE.0, self.since(), &self.index, at(seconds))
        {
            WorkerPools::NotAsked => (None, "not asked".to_owned()),
            WorkerPools::Updated => (None, "updated".to_owned()),
            WorkerPools::Behind { reason, message } => (Some(reason), message.to_string()),
        }
    }
}

pub(super) const UPDATED: &str = "pools/1\nversion 4.20.4\ntold\nupdated 1 worker";

#[test]
fn a_cluster_is_asked_for_its_pools_only_while_they_are_waited_for() {
    for (phase, due) in [
        (Phase::Workers, vec!["create a for its pools"]),
        (Phase::Partial, vec![]),
        (Phase::Pending, vec!["create a"]),
    ] {
        assert_eq!(waiting(phase).due(120), due, "{phase:?}");
    }
    let mut edited = waiting(Phase::Workers);
    edited.policy = policy().build();
    assert_eq!(edited.due(120), Vec::<String>::new(), "no longer waited for");

    let mut world = waiting(Phase::Workers);
    world.deliver("a", UPGRADE, "h1", None);
    assert_eq!(
        world.due(0),
        ["delete a a-probe-u1"],
        "what was asked before the update"
    );
    let mut world = waiting(Phase::Workers);
    world.tells(UPDATED, 0);
    assert_eq!(world.due(0), Vec::<String>::new());
    world.cluster(0).record = Some(Arc::new(record(Phase::Complete).into()));
    assert_eq!(world.due(1), ["delete a a-probe-u1"]);
}

#[test]
fn pools_are_updated_when_a_probe_says_so_that_was_created_two_minutes_after_the_update() {
    let mut world = waiting(Phase::Workers);
    world.refresh(0);
    assert_eq!(world.pools(0).1, "not asked");
    assert_eq!(world.due(119), Vec::<String>::new());
    assert_eq!(world.wake(110), Some(at(120)));
    world.tells(UPDATED, 120);
    assert_eq!(world.pools(121), (None, "updated".to_owned()));
    world.tells("pools/1\nversion 4.20.4\ntold\nupdating 1 worker", 120);
    assert_eq!(
        world.pools(300),
        (
            Some(Reason::Running),
            "MachineConfigPool is updating: worker".to_owned()
        )
    );
    world.tells("pools/1\nversion 4.20.4\ntold\npaused 1 worker", 120);
    assert_eq!(world.pools(300).0, Some(Reason::PoolPaused));
    world.tells("pools/1\nversion 4.20.3\ntold\nupdated 1 worker", 120);
    assert_eq!(world.pools(300).0, Some(Reason::Running), "of the version before");
    world.tells("nonsense", 120);
    assert_eq!(world.pools(300).0, Some(Reason::PreflightUnsupported));
}

/// The agent may have stopped reading right after its answer, which stays on the hub.
#[test]
fn what_a_cluster_has_said_right_after_its_update_never_counts_and_it_is_asked_again() {
    for created in [10, 2000] {
        let mut world = waiting(Phase::Workers);
        world.tells(UPDATED, created);
        assert_eq!(world.due(119), Vec::<String>::new(), "{created}");
        assert_eq!(world.pools(500).0, Some(Reason::Running), "{created}");
        assert_eq!(world.due(120), ["delete a a-probe-u1"], "{created}");
    }
    let mut world = waiting(Phase::Workers);
    world.tells("pools/1\nversion 4.20.4\ntold\nupdating 1 worker", 10);
    assert_eq!(world.due(120), Vec::<String>::new(), "it waits anyway");
}

#[test]
fn a_row_from_a_clock_that_was_ahead_does_not_put_off_the_question() {
    let mut world = waiting(Phase::Workers);
    world.cluster(0).record = Some(Arc::new(record(Phase::Workers).since(7200).into()));
    assert_eq!(world.due(100), Vec::<String>::new());
    assert_eq!(world.wake(101), Some(at(220)));
    assert_eq!(world.due(220), ["create a for its pools"]);
    world.tells(UPDATED, 220);
    assert_eq!(world.pools(221).1, "updated");
}

/// The clock of the hub was behind by an hour when it created the probe, and was set since.
#[test]
fn pools_are_not_updated_by_a_probe_that_was_dated_back() {
    let mut world = waiting(Phase::Workers);
    world.tells(UPDATED, 100);
    world.asker.clock_trusted = false;
    world.refresh(3700);
    assert_eq!(world.wake(3700), None);
    world.asker.clock_trusted = true;
    world.refresh(3701);
    assert_eq!(world.pools(3819).0, Some(Reason::Running));
    assert_eq!(world.wake(3701), Some(at(3821)));
    assert_eq!(world.pools(3821).1, "updated");
}

/// The clocks have differed for longer than the time limit, and nobody was asked meanwhile.
#[test]
fn clusters_are_asked_when_the_clocks_agree_again_before_their_time_is_over() {
    let mut world = waiting(Phase::Workers);
    world.asker.clock_trusted = false;
    assert_eq!(world.due(60), Vec::<String>::new());
    world.asker.clock_trusted = true;
    assert_eq!(world.due(7200), Vec::<String>::new());
    assert_eq!(world.wake(7200), Some(at(7320)), "not by the last plan before");
    assert_eq!(world.due(7320), ["create a for its pools"]);
    assert!(world.preflights.are_pools_unheard(at(7799)));
    assert_eq!(world.wake(7330), Some(at(7800)));
    assert!(!world.preflights.are_pools_unheard(at(7800)));
}

/// Nobody may have led for longer than the time limit, or the clocks may have differed before this term.
#[test]
fn clusters_are_asked_when_a_term_begins_before_their_time_is_over() {
    let mut world = waiting(Phase::Workers);
    assert_eq!(world.due(7200), ["create a for its pools"]);
    assert!(world.preflights.are_pools_unheard(at(7799)));
    assert_eq!(world.wake(7201), Some(at(7800)));
    assert!(!world.preflights.are_pools_unheard(at(7800)));
}

#[test]
fn what_somebody_else_asked_or_another_cluster_said_does_not_count() {
    let mut world = waiting(Phase::Workers);
    world.tells(UPDATED, 120);
    world.refresh(0);
    assert_eq!(world.pools(500).1, "updated");
    let mut registered = crate::testing::cluster("a");
    registered.metadata.creation_timestamp = Some(api::time::from_chrono(at(180)));
    world.index.cluster(&Change::Applied(registered));
    assert_eq!(
        world.pools(500).1,
        "not asked",
        "the cluster was registered anew since"
    );

    let mut world = waiting(Phase::Workers);
    world.deliver("a", ("u2", "ns/u2"), ASKED, Some(told(UPDATED)));
    world.refresh(0);
    assert_eq!(
        world.pools(500),
        (
            Some(Reason::PreflightPending),
            "Upgrade ns/u2 asks the cluster at the moment".to_owned()
        )
    );
}

#[test]
fn it_is_told_why_a_cluster_is_not_asked_for_its_pools() {
    for forged in [(UPGRADE.0, "ns/else"), ("u2", "")] {
        let mut world = waiting(Phase::Workers);
        world.deliver("a", forged, ASKED, Some(told(UPDATED)));
        world.refresh(0);
        assert!(world.pools(500).1.contains("no upgrade manages"), "{forged:?}");
    }
    let mut world = waiting(Phase::Workers);
    let mut ending = probe("a", UPGRADE, "h1", 9);
    ending.metadata.deletion_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(ending), at(1));
    world.refresh(1);
    assert!(world.pools(500).1.contains("has not let go"));
    let mut world = waiting(Phase::Workers);
    world.tells(UPDATED, 10);
    assert_eq!(world.due(120), ["delete a a-probe-u1"]);
    world.ended("a", ProbeResult::Failed("forbidden".to_owned()), 121);
    let (reason, text) = world.pools(122);
    assert_eq!(reason, Some(Reason::PreflightPending));
    assert!(text.ends_with("asked again for its worker pools: forbidden"));
    let mut world = waiting(Phase::Workers);
    world.asker.clock_trusted = false;
    world.refresh(500);
    assert!(world.pools(500).1.contains("clocks"));
}

#[test]
fn a_cluster_whose_agent_is_not_known_is_not_asked_and_says_so() {
    let mut world = waiting(Phase::Workers);
    world.asker.agents_can_read = false;
    assert_eq!(world.due(0), Vec::<String>::new());
    assert_eq!(world.pools(500).0, Some(Reason::PreflightUnsupported));
}

#[test]
fn a_cluster_that_can_never_tell_its_pools_does_not_start() {
    let mut world = waiting(Phase::Pending);
    let bars = |world: &World| world.preflights.cannot_tell_pools("a", &world.index);
    world.refresh(0);
    assert_eq!(bars(&world), None);
    world.asker.agents_can_read = false;
    world.refresh(0);
    let Some(Eligibility::Blocked { reason, message }) = bars(&world) else {
        panic!()
    };
    assert_eq!(reason, Reason::PreflightUnsupported);
    assert!(message.len() <= 256, "it fits into a row: {message}");
    world.cluster(0).eligibility = Eligibility::Blocked { reason, message };
    world.cluster(0).preflight = world.says("a", 0);
    let summary = world.preflights.summary(&world.fleet).unwrap();
    let counts = [
        summary.ready,
        summary.blocked,
        summary.unknown,
        summary.unsupported,
    ];
    assert_eq!(counts, [0, 0, 0, 1]);
    world.questions.workers = None;
    world.refresh(0);
    assert_eq!(bars(&world), None);
}
