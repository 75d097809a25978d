//! When names of the spec are told to be misspelled.

use super::*;

/// The author has acknowledged a gate by a key that has one letter more.
fn misspelled(names: &[&str]) -> World {
    let mut world = world(names);
    let mut asked = (*question()).clone();
    asked.update.acks = ["ack-4.19-ab".to_owned()].into();
    world.questions.preflight = Some(Arc::new(asked));
    world.refresh(0);
    world
}

/// An answer of a cluster that has acknowledged its only gate, and one of a cluster that has this gate.
fn with_gate(key: &str) -> Value {
    let mut status = status_of_probe();
    let maps = status["resourceStatus"]["manifests"].as_array_mut().unwrap();
    maps[1]["conditions"][2]["message"] = json!(format!("keys/1\nkey {key} An API is removed."));
    maps[2]["conditions"][2]["message"] = json!(format!("keys/1\nkey {key}"));
    status
}

impl World {
    fn notes(&mut self, seconds: i64) -> Vec<String> {
        self.refresh(seconds);
        for at in 0..self.fleet.clusters.len() {
            let name = Arc::clone(&self.fleet.clusters[at].name);
            self.cluster(at).preflight = self.says(&name, seconds);
        }
        self.preflights.notes(&self.fleet, at(seconds))
    }
}

const NOTE: &str = "No cluster that has answered has the gate ack-4.19-ab of spec.clusterVersion.adminAcks; do you mean ack-4.19-a?";

#[test]
fn a_key_that_no_cluster_knows_is_told_when_all_have_answered_and_stays_when_another_cluster_comes() {
    let mut world = misspelled(&["c1", "c2", "c3"]);
    world.cluster(2).eligibility = Eligibility::Blocked {
        reason: Reason::NotOpenShift,
        message: "AKS".into(),
    };
    assert!(world.notes(0).is_empty());
    world.answers("c1", with_gate("ack-4.19-a"), 1);
    assert!(world.notes(1).is_empty(), "c2 may have it");
    world.deliver("c2", UPGRADE, "h1", None);
    assert!(world.notes(2).is_empty(), "c2 is asked");
    world.answers("c2", status_of_probe(), 3);
    assert_eq!(world.notes(3), [NOTE], "c3 is not asked");
    world.cluster(2).eligibility = Eligibility::Eligible;
    assert_eq!(world.notes(4), [NOTE], "what has been told does not come and go");
    world.answers("c3", with_gate("ack-4.19-ab"), 5);
    assert!(world.notes(5).is_empty(), "an acknowledged gate is known as well");
}

#[test]
fn clusters_that_do_not_answer_are_waited_for_until_the_timeout() {
    let mut world = misspelled(&["c1", "c2", "c3"]);
    world.answers("c1", status_of_probe(), 0);
    world.deliver("c2", UPGRADE, "h1", None);
    world.deliver("c3", ("u2", "ns/u2"), "h1", None);
    assert!(world.due(0).is_empty());
    assert!(world.notes(599).is_empty());
    world.asker.clock_trusted = false;
    assert!(world.notes(600).is_empty(), "the clock is not trusted");
    world.asker.clock_trusted = true;
    assert_eq!(world.notes(600), [NOTE]);
}

#[test]
fn a_cluster_that_is_known_to_be_newer_is_not_waited_for() {
    let mut world = misspelled(&["c1", "c2"]);
    world.answers("c1", status_of_probe(), 0);
    world.cluster(1).version = Arc::from("4.21.3");
    assert!(world.due(0).is_empty(), "it is not asked");
    assert!(world.notes(1).is_empty(), "its row does not say so yet");
    let mut newer = rollout::Record::from(record(Phase::Blocked));
    newer.reason = Reason::NewerThanTarget;
    world.cluster(1).record = Some(Arc::new(newer));
    assert_eq!(world.notes(2), [NOTE]);
}

#[test]
fn names_are_told_only_until_the_first_cluster_has_started() {
    let mut world = misspelled(&["c1", "c2"]);
    for name in ["c1", "c2"] {
        world.answers(name, status_of_probe(), 0);
    }
    assert_eq!(world.notes(0), [NOTE]);
    world.cluster(0).record = Some(Arc::new(record(Phase::Partial).into()));
    assert!(world.notes(1).is_empty());
}
