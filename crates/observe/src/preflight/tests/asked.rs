//! Clusters that somebody else asks.

use rollout::{Rival, RivalHold};

use super::*;

#[test]
fn a_probe_that_an_earlier_upgrade_of_the_same_name_has_left_is_removed() {
    let mut world = world(&["c1", "c2"]);
    world.deliver("c1", ("u0", UPGRADE.1), "h1", Some(status_of_probe()));
    world.deliver("c2", ("u2", "ns/u2"), "h1", None);
    assert_eq!(world.due(0), ["delete c1 c1-probe-u0"]);
    assert!(world.due(1).is_empty(), "it is being deleted");
    world.index.remove_probe("c1", "c1-probe-u0");
    world.ended("c1", ProbeResult::Done, 2);
    assert_eq!(world.due(2), ["create c1"]);
}

#[test]
fn who_waits_for_another_upgrade_is_known_until_its_probe_is_gone() {
    let mut world = world(&["c1"]);
    world.deliver("c1", ("u2", "ns/u2"), "h1", None);
    assert!(world.due(0).is_empty());
    assert!(world.preflights.waits_for_another());
    world.index.remove_probe("c1", "c1-probe-u2");
    assert_eq!(world.due(1), ["create c1"]);
    assert!(!world.preflights.waits_for_another());
}

#[test]
fn a_cluster_that_cannot_be_asked_is_ready_if_the_author_ignores_that() {
    let mut world = world(&["c1"]);
    world.asker.agents_can_read = false;
    world.refresh(0);
    assert_eq!(world.reason("c1", 0), Some((true, Reason::PreflightUnsupported)));
    let ignoring = Question {
        update: PlannedUpdate {
            ignore: BTreeSet::from(["FailedToCompletePrecheck".to_owned()]),
            ..question().update.clone()
        },
        ..Question::clone(&question())
    };
    world.questions.preflight = Some(Arc::new(ignoring));
    world.refresh(1);
    assert_eq!(world.says("c1", 1), Preflight::Ready);
}

#[test]
fn an_upgrade_that_was_restored_asks_nobody_and_a_paused_one_does() {
    let mut world = world(&["c1"]);
    world.policy.hold = Some(rollout::Hold::Restored);
    assert!(world.due(0).is_empty());
    world.policy.hold = Some(rollout::Hold::Paused);
    assert_eq!(world.due(1), ["create c1"]);
}

#[test]
fn beside_an_invalid_spec_only_clusters_in_their_pre_action_are_asked() {
    let mut world = world(&["c1", "c2", "c3", "c4"]);
    world.policy.hold = Some(rollout::Hold::InvalidSpec);
    let phases = [Phase::Pending, Phase::PreAction, Phase::PreActionDegraded];
    for (number, phase) in phases.into_iter().enumerate() {
        world.cluster(number).record = Some(Arc::new(record(phase).into()));
    }
    assert_eq!(world.due(0), ["create c2"]);
    world.policy.hold = None;
    assert_eq!(world.due(1), ["create c1", "create c3", "create c4"]);
}

/// The upgrade does not hold it then.
#[test]
fn another_upgrade_gets_the_name_of_a_probe_beside_an_invalid_spec_or_where_the_hub_knows_a_newer_version() {
    let asked = || {
        let mut world = world(&["c1", "c2"]);
        world.cluster(1).record = Some(Arc::new(record(Phase::PreAction).into()));
        for name in ["c1", "c2"] {
            world.deliver(name, UPGRADE, "h1", Some(status_of_probe()));
        }
        assert!(world.due(0).is_empty());
        world
    };
    let mut world = asked();
    world.policy.hold = Some(rollout::Hold::InvalidSpec);
    assert_eq!(world.due(1), ["delete c1 c1-probe-u1"]);
    let mut world = asked();
    world.cluster(0).version = Arc::from("4.21.3");
    assert_eq!(world.due(1), ["delete c1 c1-probe-u1"]);
    world.index.remove_probe("c1", "c1-probe-u1");
    world.ended("c1", ProbeResult::Done, 2);
    assert!(world.due(2).is_empty(), "it is not asked again");
    world.policy.allow_downgrade = true;
    assert_eq!(world.due(3), ["create c1"]);
}

#[test]
fn a_cluster_that_another_upgrade_has_is_asked_when_that_one_is_done() {
    let mut world = world(&["c1", "c2"]);
    assert_eq!(world.due(0), ["create c1", "create c2"]);
    let mut world = world_with_rival(RivalHold::Active);
    assert_eq!(world.due(0), ["create c2"]);
    // A probe that is there has the name that the other upgrade may need.
    world.deliver("c1", UPGRADE, "h1", Some(status_of_probe()));
    assert_eq!(world.due(60), ["delete c1 c1-probe-u1"]);
    let mut world = world_with_rival(RivalHold::Yielding);
    assert_eq!(world.due(0), ["create c1", "create c2"]);
}

fn world_with_rival(hold: RivalHold) -> World {
    let mut world = world(&["c1", "c2"]);
    world.fleet.clusters[0].rival = Some(Rival {
        upgrade: Arc::from("ns/u2"),
        hold,
    });
    world
}

/// Before the first plan no row says that it is skipped.
#[test]
fn a_cluster_that_is_left_out_is_not_asked_before_its_row_says_so_either() {
    for aborts in [false, true] {
        let mut world = world(&["c1", "c2"]);
        let reason = Arc::from("broken");
        world.cluster(0).left_out = Some(rollout::LeftOut { reason, aborts });
        assert_eq!(world.due(0), ["create c2"]);
        world.cluster(0).left_out = None;
        assert_eq!(world.due(1), ["create c1"]);
    }
}

#[test]
fn a_cluster_whose_earlier_probe_is_not_let_go_is_blocked_after_the_timeout() {
    let mut world = world(&["c1"]);
    world.deliver("c1", UPGRADE, "h0", None);
    assert_eq!(world.due(0), ["delete c1 c1-probe-u1"]);
    world.ended("c1", ProbeResult::Done, 1);
    let mut ending = probe("c1", UPGRADE, "h0", 9);
    ending.metadata.deletion_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(ending), at(1));
    assert!(world.due(1).is_empty(), "its agent has not let go of it");
    assert_eq!(world.reason("c1", 600), Some((false, Reason::PreflightPending)));
    assert!(world.message("c1", 600).contains("has not let go"));
    assert_eq!(world.wake(2), Some(at(601)));
    assert_eq!(world.reason("c1", 601), Some((true, Reason::PreflightUnknown)));
}

#[test]
fn a_cluster_that_cannot_be_asked_from_now_on_is_looked_at_again_at_the_timeout() {
    let mut world = world(&["c1"]);
    world.deliver("c1", ("u2", "ns/u2"), "h1", None);
    world.refresh(1);
    assert_eq!(world.wake(1), Some(at(601)));
    assert_eq!(world.reason("c1", 601), Some((true, Reason::PreflightUnknown)));
}

/// After its pre-action it would keep its slot for ever.
#[test]
fn a_cluster_whose_earlier_probe_cannot_be_deleted_is_blocked_after_the_timeout() {
    let mut world = world(&["c1"]);
    let failed = || ProbeResult::Failed("denied by policy".to_owned());
    world.deliver("c1", UPGRADE, "h0", None);
    assert_eq!(world.due(0), ["delete c1 c1-probe-u1"]);
    world.ended("c1", failed(), 1);
    assert_eq!(world.due(1), Vec::<String>::new());
    assert_eq!(world.due(3), ["delete c1 c1-probe-u1"]);
    world.ended("c1", failed(), 3);
    assert_eq!(world.due(4), Vec::<String>::new());
    assert_eq!(world.reason("c1", 600), Some((false, Reason::PreflightPending)));
    assert_eq!(world.reason("c1", 601), Some((true, Reason::PreflightUnknown)));
    world.index.remove_probe("c1", "c1-probe-u1");
    assert_eq!(world.due(602), ["create c1"]);
}

#[test]
fn the_channel_of_a_cluster_that_is_newer_than_the_target_is_not_set() {
    for (allowed, sets_channel, version, is_asked) in [
        (false, true, "4.21.3", false),
        (false, true, "4.20.4", true),
        (false, true, "", true),
        (true, true, "4.21.3", true),
        (false, false, "4.21.3", true),
    ] {
        let mut world = world(&["c1"]);
        let counts_after = TimeDelta::minutes(if sets_channel { 2 } else { 0 });
        world.questions.preflight = Some(Arc::new(Question {
            counts_after,
            ..Question::clone(&question())
        }));
        world.policy.target = Arc::from("4.20.4");
        world.policy.allow_downgrade = allowed;
        world.cluster(0).newest_version = Arc::from(version);
        let due = world.due(0);
        assert_eq!(!due.is_empty(), is_asked, "{version:?} {due:?}");
    }
}

#[test]
fn who_looks_once_takes_clusters_for_having_answered_when_they_were_asked() {
    let mut world = world(&["a"]);
    world.questions.preflight = Some(Arc::new(Question {
        counts_after: TimeDelta::minutes(2),
        ..Question::clone(&question())
    }));
    let mut object = answered(probe("a", UPGRADE, "h1", 2), status_of_probe(), 2);
    object.metadata.creation_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(object), at(0));
    world.refresh(500);
    assert_eq!(world.reason("a", 500), Some((false, Reason::PreflightPending)));
    world.preflights = Preflights::at_a_glance();
    world.refresh(500);
    assert_eq!(world.says("a", 500), Preflight::Ready);
    world.preflights = Preflights::at_a_glance();
    world.refresh(60);
    assert_eq!(world.reason("a", 60), Some((false, Reason::PreflightPending)));
}
