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
    known.add(
        &facts("OVNIPsecConnectivity", "ack-4.19-removals-in-4.20"),
        &PlannedUpdate::default(),
    );
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
        notes[0].ends_with("is held back by the risk Other of spec.clusterVersion.acceptRisks"),
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
    known.add(&Facts::missing(&Missing::Pending), &PlannedUpdate::default());
    assert_eq!(known.notes(&update), Vec::<String>::new());
}

#[test]
fn a_cluster_that_invents_names_hides_neither_those_of_the_spec_nor_those_of_others() {
    let update = PlannedUpdate {
        accepted_risks: ["Slow".to_owned(), "Slowly".to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut invented = facts("Slo0", "ack-4.19-a-in-4.20");
    if let Ok(Offer::Conditional { risks, .. }) = &mut invented.offer {
        let first = risks[0].clone();
        let more = (1..2000).map(|number| OfferedRisk {
            name: format!("Invented{number}"),
            ..first.clone()
        });
        risks.extend(more);
        risks.push(OfferedRisk {
            name: "Slow".to_owned(),
            ..first
        });
    }
    let mut known = KnownNames::default();
    known.add(&invented, &update);
    known.add(&facts("SlowNodes", "ack-4.19-b-in-4.20"), &update);
    assert!(known.risks.contains("Slow") && known.risks.contains("SlowNodes"));
    assert_eq!(known.risks.len(), MAX_NAMES.1 + 2);
    assert_eq!(known.notes(&update).len(), 1, "of Slowly");
}

#[test]
fn where_no_cluster_has_risks_no_risk_is_taken_for_misspelled() {
    let update = PlannedUpdate {
        accepted_risks: ["Slow".to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut recommended = facts("", "");
    recommended.offer = Ok(Offer::Recommended { image: String::new() });
    let mut known = KnownNames::default();
    known.add(&recommended, &update);
    assert!(known.notes(&update).is_empty());
}
