use std::collections::BTreeSet;

use api::names::Step;
use clusterversion::preflight::{PlannedUpdate, PreflightReason};
use rollout::testing::{PolicyBuilder, at, policy, record, work};
use rollout::{Eligibility, Phase, Selection};
use serde_json::{Value, json};

use super::*;
use crate::index::Change;
use crate::testing::{answered, probe, status_of_probe};

mod again;
mod asked;
mod clock;
mod graph;
mod newer;
mod notes;
mod properties;
mod workers;

const UPGRADE: (&str, &str) = ("u1", "ns/u1");

fn asker() -> Asker<'static> {
    Asker {
        uid: UPGRADE.0,
        key: UPGRADE.1,
        agents_can_read: true,
        clock_trusted: true,
        rate: 50,
    }
}

fn question() -> Arc<Question> {
    Arc::new(Question {
        hash: Arc::from("h1"),
        update: PlannedUpdate {
            version: "4.20.4".to_owned(),
            ..PlannedUpdate::default()
        },
        timeout: TimeDelta::minutes(10),
        counts_after: TimeDelta::zero(),
        asks_graph: false,
    })
}

/// The fleet of an upgrade with a preflight.
struct World {
    preflights: Preflights,
    questions: Questions,
    index: Index,
    fleet: Fleet,
    asker: Asker<'static>,
    policy: Policy,
    plan: Plan,
    version: u64,
}

fn world(names: &[&str]) -> World {
    let mut builder = rollout::testing::fleet();
    for name in names {
        builder = builder.cluster(name);
    }
    World {
        preflights: Preflights::default(),
        questions: Questions {
            preflight: Some(question()),
            workers: None,
        },
        index: Index::default(),
        fleet: builder.build(),
        asker: asker(),
        policy: policy().build(),
        plan: Plan::default(),
        version: 1,
    }
}

impl World {
    fn refresh(&mut self, seconds: i64) {
        self.preflights
            .refresh(&self.questions, self.asker, &self.index, at(seconds));
    }

    /// The writes that are due, as lines.
    fn due(&mut self, seconds: i64) -> Vec<String> {
        self.refresh(seconds);
        let (writes, _) = self.preflights.due(
            &self.fleet,
            (&self.policy, &self.plan),
            self.asker,
            &self.index,
            at(seconds),
        );
        let line = |write: &ProbeWrite| match write {
            ProbeWrite::Create(cluster, ProbeKind::Preflight) => format!("create {cluster}"),
            ProbeWrite::Create(cluster, ProbeKind::Workers) => format!("create {cluster} for its pools"),
            ProbeWrite::Delete(cluster, uid) => format!("delete {cluster} {uid}"),
        };
        writes.iter().map(line).collect()
    }

    /// When to look again.
    fn wake(&mut self, seconds: i64) -> Option<DateTime<Utc>> {
        let plan = (&self.policy, &self.plan);
        self.preflights
            .due(&self.fleet, plan, self.asker, &self.index, at(seconds))
            .1
    }

    fn deliver(&mut self, cluster: &str, upgrade: (&str, &str), hash: &str, status: Option<Value>) {
        self.version += 1;
        let mut object = probe(cluster, upgrade, hash, self.version);
        if let Some(status) = status {
            object = answered(object, status, self.version);
        }
        object.metadata.creation_timestamp = None;
        self.index.work(&Change::Applied(object), at(0));
    }

    fn answers(&mut self, cluster: &str, status: Value, seconds: i64) {
        self.deliver(cluster, UPGRADE, "h1", Some(status));
        self.refresh(seconds);
    }

    fn ended(&mut self, cluster: &str, result: ProbeResult, seconds: i64) {
        self.preflights.ended(&Arc::from(cluster), result, at(seconds));
    }

    fn says(&self, cluster: &str, seconds: i64) -> Preflight {
        self.preflights.of(cluster, UPGRADE.0, &self.index, at(seconds))
    }

    fn reason(&self, cluster: &str, seconds: i64) -> Option<(bool, Reason)> {
        match self.says(cluster, seconds) {
            Preflight::Blocked { reason, .. } => Some((true, reason)),
            Preflight::Unknown { reason, .. } => Some((false, reason)),
            Preflight::Ready | Preflight::Stale | Preflight::NotAsked => None,
        }
    }

    fn message(&self, cluster: &str, seconds: i64) -> String {
        match self.says(cluster, seconds) {
            Preflight::Blocked { message, .. } | Preflight::Unknown { message, .. } => message.to_string(),
            Preflight::Ready | Preflight::Stale | Preflight::NotAsked => String::new(),
        }
    }

    fn cluster(&mut self, at: usize) -> &mut Cluster {
        &mut self.fleet.clusters[at]
    }
}

/// A cluster that offers another version.
fn without_offer() -> Value {
    let mut status = status_of_probe();
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!("offer/1");
    status
}

fn failing() -> Value {
    let mut status = status_of_probe();
    status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"][3]["fieldValue"]["string"] =
        json!("True");
    status
}

#[test]
fn every_reason_of_a_verdict_is_one_that_the_planner_knows() {
    for reason in PreflightReason::ALL {
        assert_eq!(known(reason).as_str(), reason.to_string());
    }
}

#[test]
fn clusters_are_asked_once_canaries_first_and_probes_are_kept_until_the_update_is_requested() {
    let mut world = world(&["c1", "c2", "c3"]);
    world.cluster(2).canary = true;
    assert_eq!(world.due(0), ["create c3", "create c1", "create c2"]);
    assert!(world.due(1).is_empty(), "they are being written");
    for name in ["c1", "c2", "c3"] {
        world.ended(name, ProbeResult::Done, 1);
        world.deliver(name, UPGRADE, "h1", None);
    }
    assert!(world.due(2).is_empty());
    let running = |phase| Some(Arc::new(record(phase).into()));
    world.cluster(0).record = running(Phase::PreAction);
    world.cluster(1).record = running(Phase::Complete);
    assert_eq!(world.due(3), ["delete c2 c2-probe-u1"]);
    let mut asked: rollout::Work = work(0).into();
    asked.hash = world.policy.steps[Step::Platform.index()].clone().unwrap();
    world.cluster(0).works[Step::Platform.index()] = rollout::StepWork::Ours(Arc::new(asked));
    assert_eq!(world.due(4), ["delete c1 c1-probe-u1"]);
}

#[test]
fn whoever_cannot_start_is_not_asked() {
    let mut world = world(&["c1", "c2", "c3", "c4"]);
    world.cluster(0).eligibility = Eligibility::Blocked {
        reason: Reason::NotOpenShift,
        message: "AKS".into(),
    };
    world.cluster(1).selection = Selection::Left(at(0));
    world.cluster(2).gone = true;
    world.cluster(3).record = Some(Arc::new(record(Phase::Failed).into()));
    assert!(world.due(0).is_empty());
}

#[test]
fn no_cluster_is_asked_whose_agent_may_panic_on_it() {
    let mut world = world(&["c1"]);
    world.asker.agents_can_read = false;
    assert!(world.due(0).is_empty());
    assert_eq!(world.reason("c1", 0), Some((true, Reason::PreflightUnsupported)));
    world.deliver("c1", UPGRADE, "h1", None);
    world.refresh(1);
    assert_eq!(world.reason("c1", 1), Some((true, Reason::PreflightUnsupported)));
    world.answers("c1", status_of_probe(), 2);
    assert_eq!(
        world.says("c1", 2),
        Preflight::Ready,
        "its answer proves that its agent can"
    );
}

#[test]
fn a_label_says_of_which_clusters_the_agents_are_new_enough() {
    let labels = ["v0.14.0", "0.15.1", "v1.2.1", "v0.13.3", "2.6.3", "new", ""];
    let names = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];
    let mut world = world(&names);
    world.asker.agents_can_read = false;
    for (name, label) in names.into_iter().zip(labels) {
        let cluster = json!({
            "metadata": {"name": name, "resourceVersion": "1", "labels": {LABEL_AGENT_VERSION: label}},
            "spec": {"hubAcceptsClient": true},
        });
        let cluster = serde_json::from_value(cluster).unwrap();
        world.index.cluster(&Change::Applied(cluster));
    }
    assert_eq!(world.due(0), ["create c0", "create c1", "create c2"]);
    assert_eq!(world.reason("c2", 0), None);
    assert_eq!(world.reason("c4", 0), Some((true, Reason::PreflightUnsupported)));
}

#[test]
fn answers_of_a_cluster_whose_channel_was_just_set_count_after_a_while() {
    let mut world = world(&["c1"]);
    let mut asked = (*question()).clone();
    asked.counts_after = TimeDelta::seconds(120);
    world.questions.preflight = Some(Arc::new(asked));
    world.answers("c1", without_offer(), 10);
    assert_eq!(world.reason("c1", 10), Some((false, Reason::PreflightPending)));
    world.answers("c1", status_of_probe(), 60);
    assert_eq!(world.reason("c1", 60), Some((false, Reason::PreflightPending)));
    let (_, wake) = {
        let World {
            preflights,
            fleet,
            policy,
            asker,
            index,
            ..
        } = &mut world;
        preflights.due(fleet, (policy, &Plan::default()), *asker, index, at(60))
    };
    assert_eq!(wake, Some(at(130)));
    assert_eq!(world.says("c1", 130), Preflight::Ready);
}

#[test]
fn at_most_the_rate_is_asked_in_a_second_and_few_at_once() {
    let names: Vec<String> = (0..40).map(|number| format!("c{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = world(&names);
    world.asker.rate = 20;
    assert_eq!(world.due(0).len(), MAX_RUNNING);
    for name in &names[..MAX_RUNNING] {
        world.ended(name, ProbeResult::Done, 0);
        world.deliver(name, UPGRADE, "h1", None);
    }
    world.refresh(0);
    let (writes, wake) = world.preflights.due(
        &world.fleet,
        (&world.policy, &world.plan),
        world.asker,
        &world.index,
        at(0),
    );
    assert_eq!((writes.len(), wake), (4, Some(at(1))));
}

#[test]
fn a_probe_that_asks_something_else_is_deleted_and_tells_nothing() {
    let mut world = world(&["c1"]);
    world.answers("c1", status_of_probe(), 0);
    assert_eq!(world.says("c1", 0), Preflight::Ready);
    let mut other = Question::clone(&question());
    other.hash = Arc::from("h2");
    world.questions.preflight = Some(Arc::new(other));
    assert_eq!(world.due(1), ["delete c1 c1-probe-u1"]);
    assert_eq!(world.says("c1", 1), Preflight::NotAsked);
    world.ended("c1", ProbeResult::Done, 1);
    world.index.remove_probe("c1", "c1-probe-u1");
    assert_eq!(world.due(2), ["create c1"]);
}

#[test]
fn what_the_author_accepts_now_is_judged_anew_without_asking_again() {
    let mut world = world(&["c1"]);
    world.answers("c1", failing(), 0);
    assert_eq!(world.reason("c1", 0), Some((true, Reason::Failing)));
    let mut other = Question::clone(&question());
    other.update.ignore = BTreeSet::from(["Failing".to_owned()]);
    world.questions.preflight = Some(Arc::new(other));
    assert!(world.due(1).is_empty());
    assert_eq!(world.says("c1", 1), Preflight::Ready);
}

#[test]
fn all_probes_go_when_nothing_is_asked_any_more_or_the_upgrade_is_deleted() {
    for deleting in [false, true] {
        let mut world = world(&["c1"]);
        world.answers("c1", status_of_probe(), 0);
        world.deliver("left", UPGRADE, "h1", None);
        world.questions.preflight = None;
        if deleting {
            world.policy = PolicyBuilder::deleting(policy()).build();
        }
        assert_eq!(
            world.due(1),
            ["delete c1 c1-probe-u1", "delete left left-probe-u1"]
        );
        assert!(world.preflights.holds(world.asker, &world.index));
        for name in ["c1", "left"] {
            world.ended(name, ProbeResult::Done, 1);
            world.index.mark_probe(name, &format!("{name}-probe-u1"), true);
        }
        assert!(!world.preflights.holds(world.asker, &world.index));
    }
}

#[test]
fn a_probe_of_a_cluster_that_was_registered_anew_is_deleted_and_tells_nothing() {
    let mut world = world(&["c1"]);
    let registered = |at: &str| {
        let mut cluster = crate::testing::cluster("c1");
        cluster.metadata.creation_timestamp = Some(serde_json::from_value(json!(at)).unwrap());
        Change::Applied(cluster)
    };
    let object = answered(probe("c1", UPGRADE, "h1", 50), status_of_probe(), 50);
    world.index.work(&Change::Applied(object), at(0));
    for (created, is_ready) in [("2026-05-28T09:00:00Z", true), ("2026-05-28T11:00:00Z", false)] {
        world.index.cluster(&registered(created));
        world.refresh(1);
        assert_eq!(world.says("c1", 1) == Preflight::Ready, is_ready, "{created}");
    }
    assert_eq!(world.due(1), ["delete c1 c1-probe-u1"]);
}

#[test]
fn probes_of_others_are_left_alone_and_tell_nothing() {
    let mut world = world(&["c1", "c2"]);
    world.deliver("c1", ("u2", "ns/u2"), "h1", Some(status_of_probe()));
    // Whoever may write works there has copied the UID.
    world.deliver("c2", (UPGRADE.0, "ns/other"), "h1", Some(status_of_probe()));
    assert!(world.due(0).is_empty());
    assert_eq!(world.reason("c1", 0), Some((false, Reason::PreflightPending)));
    let Preflight::Unknown { message, .. } = world.says("c1", 0) else {
        panic!()
    };
    assert_eq!(&*message, "Upgrade ns/u2 asks the cluster at the moment");
    let Preflight::Unknown { message, .. } = world.says("c2", 0) else {
        panic!()
    };
    assert!(message.ends_with("Delete it."), "{message}");
}

#[test]
fn a_cluster_that_cannot_be_asked_is_blocked_after_the_timeout_and_asked_when_the_way_is_free() {
    let mut world = world(&["c1", "c2"]);
    world.deliver("c1", ("u2", ""), "h1", None);
    assert_eq!(world.due(0), ["create c2"]);
    world.ended("c2", ProbeResult::Failed("denied by policy".to_owned()), 1);
    assert!(world.due(1).is_empty());
    let reasons = |world: &World, second| ["c1", "c2"].map(|name| world.reason(name, second));
    let (asked, blocked) = (
        Some((false, Reason::PreflightPending)),
        Some((true, Reason::PreflightUnknown)),
    );
    assert_eq!(reasons(&world, 599), [asked, asked]);
    assert_eq!(reasons(&world, 600), [blocked, asked], "since it was first seen");
    assert_eq!(reasons(&world, 601), [blocked, blocked]);
    assert_eq!(
        world.message("c1", 601),
        "A ManifestWork that no upgrade manages has the name of the preflight's. Delete it. This has been unknown for longer than preflight.timeout (10m)."
    );
    assert_eq!(
        world.message("c2", 601),
        "The cluster cannot be asked: denied by policy. This has been unknown for longer than preflight.timeout (10m)."
    );
    world.index.remove_probe("c1", "c1-probe-u2");
    assert_eq!(world.due(601), ["create c1", "create c2"]);
    assert_eq!(world.says("c1", 601), Preflight::NotAsked);
}

/// Whatever a cluster does, an upgrade has few changes to tell of it.
#[test]
fn a_verdict_that_changes_all_the_time_is_told_ever_less_often() {
    let mut world = world(&["c1"]);
    let mut told = Vec::new();
    for tenth in 0..18_000 {
        let second = tenth / 10;
        let status = if tenth % 2 == 0 {
            without_offer()
        } else {
            failing()
        };
        world.answers("c1", status, second);
        let reason = world.reason("c1", second);
        if told.last() != Some(&reason) {
            told.push(reason);
        }
    }
    assert!((5..16).contains(&told.len()), "{} in half an hour", told.len());
    assert!(world.wake(1800).is_some(), "the newest answer counts later");
}

#[test]
fn what_is_unknown_for_too_long_blocks_until_the_cluster_answers() {
    let mut world = world(&["c1"]);
    world.deliver("c1", UPGRADE, "h1", None);
    assert!(world.due(0).is_empty());
    assert_eq!(world.reason("c1", 599), Some((false, Reason::PreflightPending)));
    assert_eq!(world.reason("c1", 600), Some((true, Reason::PreflightUnknown)));
    let wake = world.wake(5);
    assert_eq!(wake, Some(at(600)));
    world.answers("c1", status_of_probe(), 700);
    assert_eq!(world.says("c1", 700), Preflight::Ready);
}

/// An answer of a cluster that cannot evaluate a risk.
fn of_unknown_risk(text: &str) -> Value {
    let mut status = status_of_probe();
    let offer = format!(
        "offer/1\nupdate Unknown quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nrisk U Slow {text}"
    );
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!(offer);
    status
}

#[test]
fn a_reason_that_says_what_is_missing_stays_after_the_timeout() {
    let mut world = world(&["c1", "c2"]);
    world.answers("c1", of_unknown_risk("It is slow"), 0);
    assert_eq!(world.reason("c1", 599), Some((false, Reason::RiskUnknown)));
    assert_eq!(world.message("c1", 599), "Slow: It is slow");
    assert_eq!(world.reason("c1", 600), Some((true, Reason::RiskUnknown)));
    assert_eq!(
        world.message("c1", 600),
        "Slow: It is slow. This has been unknown for longer than preflight.timeout (10m)."
    );
    // The row has room for the sentence, whatever a cluster writes.
    world.answers("c2", of_unknown_risk(&"\u{e9}".repeat(250)), 0);
    let message = world.message("c2", 600);
    assert!(message.len() <= 256 && message.starts_with("Slow: "), "{message}");
    assert!(message.ends_with("\u{2026} This has been unknown for longer than preflight.timeout (10m)."));
}

#[test]
fn a_cluster_whose_agent_cannot_tell_everything_is_blocked_and_not_one_that_cannot_be_asked() {
    let mut world = world(&["c1", "c2"]);
    world.asker.agents_can_read = false;
    let mut without_rules = status_of_probe();
    let version = &mut without_rules["resourceStatus"]["manifests"][0];
    for (list, length) in [("/conditions", 2), ("/statusFeedback/values", 5)] {
        version
            .pointer_mut(list)
            .unwrap()
            .as_array_mut()
            .unwrap()
            .truncate(length);
    }
    world.answers("c1", without_rules, 0);
    assert_eq!(
        world.reason("c1", 600),
        Some((true, Reason::PreflightUnsupported))
    );
    assert_eq!(
        world.reason("c2", 600),
        Some((true, Reason::PreflightUnsupported))
    );
    for (at, name) in ["c1", "c2"].into_iter().enumerate() {
        world.cluster(at).preflight = world.says(name, 600);
    }
    let summary = world.preflights.summary(&world.fleet).unwrap();
    assert_eq!((summary.blocked, summary.unsupported), (1, 1));
}

#[test]
fn a_cluster_whose_answers_flap_is_not_ready() {
    let mut world = world(&["c1"]);
    world.answers("c1", status_of_probe(), 0);
    for second in 1..30 {
        world.answers("c1", without_offer(), second);
        assert_eq!(world.reason("c1", second), Some((true, Reason::NotOffered)));
        world.answers("c1", status_of_probe(), second);
        assert_ne!(world.says("c1", second), Preflight::Ready);
    }
    world.refresh(29 + 300);
    assert_eq!(
        world.says("c1", 29 + 300),
        Preflight::Ready,
        "it has answered the same for a while"
    );
}

#[test]
fn an_answer_that_stays_the_same_is_not_judged_again() {
    let mut world = world(&["c1"]);
    world.answers("c1", status_of_probe(), 0);
    let before = Arc::clone(world.index.probe("c1").unwrap());
    world.index.dirty.clear();
    world.answers("c1", status_of_probe(), 1);
    assert!(Arc::ptr_eq(&before, world.index.probe("c1").unwrap()));
    assert!(world.index.dirty.is_empty());
}

#[test]
fn a_write_that_fails_is_told_and_tried_again_ever_less_often() {
    let mut world = world(&["c1"]);
    let failed = || ProbeResult::Failed("denied by policy".to_owned());
    let mut tries = Vec::new();
    for second in 0..70 {
        if !world.due(second).is_empty() {
            tries.push(second);
            world.ended("c1", failed(), second);
        }
    }
    assert_eq!(tries, [0, 2, 6, 14, 30, 62]);
    let Preflight::Unknown { message, .. } = world.says("c1", 70) else {
        panic!()
    };
    assert_eq!(&*message, "The cluster cannot be asked: denied by policy");
}

#[test]
fn a_deletion_whose_answer_was_lost_is_forgotten_when_the_probe_is_gone() {
    let mut world = world(&["c1"]);
    world.answers("c1", status_of_probe(), 0);
    world.cluster(0).record = Some(Arc::new(record(Phase::Complete).into()));
    assert_eq!(world.due(1), ["delete c1 c1-probe-u1"]);
    world.ended("c1", ProbeResult::Failed("no response".to_owned()), 1);
    world.index.remove_probe("c1", "c1-probe-u1");
    assert!(world.due(2).is_empty() && !world.preflights.is_idle());
    assert!(world.due(3).is_empty() && world.preflights.is_idle());
}

#[test]
fn huge_answers_are_cut() {
    let mut status = status_of_probe();
    let risk = |number: usize| format!("\nrisk T Risk{number} {}", "x".repeat(400));
    let risks: Vec<String> = (0..60).map(risk).collect();
    let message = format!("offer/1\nupdate False quay.io/r@sha256:b{:063}", risks.concat());
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!(message);
    let mut world = world(&["c1"]);
    world.answers("c1", status, 0);
    let Preflight::Blocked { message, .. } = world.says("c1", 0) else {
        panic!()
    };
    assert!(message.len() < 1005, "{}", message.len());
}

#[test]
fn probes_that_a_complete_list_does_not_contain_are_gone() {
    let mut world = world(&["c1", "c2"]);
    world.answers("c1", status_of_probe(), 0);
    world.answers("c2", status_of_probe(), 0);
    world.index.relist_works();
    world
        .index
        .retain_probes(&[Arc::from("c2")].into_iter().collect(), 100);
    assert!(world.index.probe("c1").is_none());
    world.refresh(1);
    assert_eq!(world.says("c1", 1), Preflight::NotAsked);
    assert_eq!(world.says("c2", 1), Preflight::Ready);
}
