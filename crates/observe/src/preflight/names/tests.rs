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
    facts.all_gates = Ok(vec![Gate {
        key: gate.to_owned(),
        text: String::new(),
    }]);
    facts
}

fn c(number: usize) -> Arc<str> {
    Arc::from(format!("c{number}"))
}

/// What is known when all clusters have answered.
fn complete() -> KnownNames {
    let mut known = KnownNames::default();
    known.complete(|| true);
    known
}

fn told(risk: &str, key: &str) -> Vec<String> {
    let update = PlannedUpdate {
        accepted_risks: [risk.to_owned()].into(),
        acks: [key.to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut known = complete();
    known.add(
        &c(0),
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
fn a_name_that_is_like_no_other_is_told_without_another_one() {
    assert_eq!(
        told("Other", "ack-4.18-something-else"),
        [
            "No cluster that has answered is held back by the risk Other of spec.clusterVersion.acceptRisks",
            "No cluster that has answered has the gate ack-4.18-something-else of spec.clusterVersion.adminAcks",
        ]
    );
}

#[test]
fn a_key_of_a_gate_is_known_even_if_it_is_long_and_like_another_one() {
    let long = format!("ack-4.19-{}-in-4.20", "x".repeat(200));
    let update = PlannedUpdate {
        acks: [long.clone(), "ack-4.19-b-in-4.20".to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut known = complete();
    for key in [&*long, "ack-4.19-a-in-4.20", "ack-4.19-b-in-4.20"] {
        known.add(&c(0), &facts("", key), &update);
    }
    assert_eq!(known.notes(&update), Vec::<String>::new());
}

#[test]
fn where_no_cluster_tells_its_gates_no_key_is_taken_for_misspelled() {
    let update = PlannedUpdate {
        acks: ["ack-4.19-x-in-4.20".to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut known = complete();
    known.add(
        &c(0),
        &Facts::missing(&Missing::Unsupported(String::new())),
        &update,
    );
    assert!(known.notes(&update).is_empty());
    let mut none = Facts::missing(&Missing::Pending);
    none.all_gates = Ok(Vec::new());
    known.add(&c(1), &none, &update);
    assert_eq!(known.notes(&update).len(), 1);
}

#[test]
fn nothing_is_misspelled_before_a_cluster_has_answered() {
    let update = PlannedUpdate {
        accepted_risks: ["Other".to_owned()].into(),
        ..PlannedUpdate::default()
    };
    let mut known = complete();
    known.add(
        &c(0),
        &Facts::missing(&Missing::Pending),
        &PlannedUpdate::default(),
    );
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
    let mut known = complete();
    known.add(&c(0), &invented, &update);
    known.add(&c(1), &facts("SlowNodes", "ack-4.19-b-in-4.20"), &update);
    assert!(known.risks.names.contains("Slow") && known.risks.names.contains("SlowNodes"));
    assert_eq!(known.risks.names.len(), MAX_NAMES.1 + 2);
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
    let mut known = complete();
    known.add(&c(0), &recommended, &update);
    assert!(known.notes(&update).is_empty());
}

#[test]
fn a_cluster_that_invents_names_in_each_answer_leaves_room_for_those_of_others() {
    let update = PlannedUpdate::default();
    let mut known = complete();
    for number in 0..500 {
        let invented = facts(&format!("Risk{number}"), &format!("ack-4.19-{number}-in-4.20"));
        known.add(&c(0), &invented, &update);
    }
    assert_eq!(
        (known.risks.names.len(), known.gates.names.len()),
        (MAX_NAMES.1, MAX_NAMES.1)
    );
    known.add(&c(1), &facts("SlowNodes", "ack-4.19-b-in-4.20"), &update);
    assert!(known.risks.names.contains("SlowNodes"));
    assert!(known.gates.names.contains("ack-4.19-b-in-4.20"));
    assert_eq!(known.risks.by_cluster.len(), 2);
}
