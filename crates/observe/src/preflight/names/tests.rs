use clusterversion::preflight::{Gate, Missing};

use super::*;

fn facts(risk: &str, gate: &str) -> Facts {
    let mut facts = Facts::missing(&Missing::Pending);
    let risk = OfferedRisk {
        name: risk.to_owned(),
        message: String::new(),
        applies: Some(true),
    };
    facts.offer = Ok(Offer::Conditional {
        image: String::new(),
        risks: vec![risk],
    });
    facts.gates = Ok(vec![Gate {
        key: gate.to_owned(),
        text: String::new(),
    }]);
    facts
}

fn told(risk: &str, key: &str) -> Vec<String> {
    let update = PlannedUpdate {
        accepted_risks: [risk.to_owned()].into(),
        acks: [key.to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut known = KnownNames::default();
    known.add(&facts("OVNIPsecConnectivity", "ack-4.19-removals-in-4.20"));
    known.notes(&update)
}

#[test]
fn a_misspelled_risk_or_gate_is_told_with_the_nearest_name() {
    assert_eq!(
        told("OVNIPsecConnectivity", "ack-4.19-removals-in-4.20"),
        Vec::<String>::new()
    );
    let notes = told("OVNIpsecConectivity", "ack-4.19-removal-in-4.20");
    assert!(
        notes[0].ends_with("acceptRisks; do you mean OVNIPsecConnectivity?"),
        "{notes:?}"
    );
    assert!(
        notes[1].ends_with("do you mean ack-4.19-removals-in-4.20?"),
        "{notes:?}"
    );
}

#[test]
fn a_risk_that_is_like_no_other_is_told_without_a_name_and_a_key_that_is_may_be_acknowledged_already() {
    let notes = told("Other", "ack-4.18-something-else");
    assert_eq!(notes.len(), 1);
    assert!(
        notes[0].ends_with("knows the risk Other of spec.clusterVersion.acceptRisks"),
        "{notes:?}"
    );
}

#[test]
fn nothing_is_misspelled_before_a_cluster_has_answered() {
    let update = PlannedUpdate {
        accepted_risks: ["Other".to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut known = KnownNames::default();
    known.add(&Facts::missing(&Missing::Pending));
    assert_eq!(known.notes(&update), Vec::<String>::new());
}
