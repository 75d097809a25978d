use std::collections::BTreeSet;

use clusterversion::preflight::{Gate, Health, Missing, OfferedRisk};
use clusterversion::types::{ClusterOperatorCondition, ConditionStatus};
use serde_json::json;

use super::*;

fn row(cluster: &str, reason: &str, message: &str) -> ReportRow {
    serde_json::from_value(json!({
        "cluster": cluster, "phase": "Blocked", "reason": reason, "message": message,
        "since": "2026-01-01T00:00:00Z", "revision": "r1",
    }))
    .unwrap()
}

fn condition(status: ConditionStatus) -> ClusterOperatorCondition {
    ClusterOperatorCondition {
        status,
        ..ClusterOperatorCondition::default()
    }
}

/// A healthy cluster with these risks and gates.
fn facts(risks: &[(&str, Option<bool>)], gates: &[&str]) -> Facts {
    let risks = risks.iter().map(|(name, applies)| OfferedRisk {
        name: (*name).to_owned(),
        message: format!("{name} is bad."),
        applies: *applies,
    });
    Facts {
        current: Ok("4.19.3".to_owned()),
        channel: Ok("stable-4.20".to_owned()),
        health: Ok(Health {
            progressing: Some(condition(ConditionStatus::False)),
            failing: Some(condition(ConditionStatus::False)),
            retrieved: Some(condition(ConditionStatus::True)),
            ..Health::default()
        }),
        offer: Ok(Offer::Conditional {
            image: "quay.io/r@sha256:a".to_owned(),
            risks: risks.collect(),
        }),
        gates: Ok(gates
            .iter()
            .map(|key| Gate {
                key: (*key).to_owned(),
                text: format!("{key} asks."),
            })
            .collect()),
        ..Facts::missing(&Missing::Pending)
    }
}

fn update() -> PlannedUpdate {
    PlannedUpdate {
        version: "4.20.4".to_owned(),
        accepted_risks: BTreeSet::from(["Known".to_owned()]),
        ..PlannedUpdate::default()
    }
}

fn answers() -> Answers {
    Answers::from([
        ("a".to_owned(), facts(&[("Leak", Some(true)), ("Odd", None)], &[])),
        (
            "b".to_owned(),
            facts(
                &[("Leak", Some(true)), ("Known", Some(true)), ("No", Some(false))],
                &["ack-4.19-x"],
            ),
        ),
    ])
}

#[test]
fn clusters_are_grouped_once_for_each_risk_and_gate() {
    let rows = [
        row("a", "RiskNotAccepted", ""),
        row("b", "RiskNotAccepted", ""),
        row("c", "PreflightUnknown", "Nothing was reported"),
        row("d", "NotOpenShift", "no cause of the preflight"),
    ];
    let found = overview(("upgrades", "spring"), &rows, &answers(), Some(&update()), None);
    let groups: Vec<(&str, &str, &str, usize)> = found
        .groups
        .iter()
        .map(|group| (&*group.reason, &*group.name, group.verdict, group.clusters))
        .collect();
    assert_eq!(
        groups,
        [
            ("RiskNotAccepted", "Leak", "Blocked", 2),
            ("AdminAckRequired", "ack-4.19-x", "Blocked", 1),
            ("PreflightUnknown", "", "Blocked", 1),
            ("RiskUnknown", "Odd", "Unknown", 1),
        ]
    );
    assert_eq!(found.groups[0].message, "Leak: Leak is bad.");
    assert!(
        found.groups[0]
            .remedy
            .contains("kubectl mcu accept spring Leak -n upgrades")
    );
    assert!(
        found.groups[1]
            .remedy
            .contains("kubectl mcu ack spring ack-4.19-x -n upgrades")
    );
}

#[test]
fn without_answers_the_rows_tell_the_first_cause() {
    let rows = [
        row("a", "NotOffered", "It is not offered"),
        row("b", "NotOffered", "It is not offered"),
    ];
    let found = overview(
        ("upgrades", "spring"),
        &rows,
        &Answers::new(),
        Some(&update()),
        None,
    );
    let group = &found.groups[0];
    assert_eq!(
        (group.clusters, &*group.example, &*group.message),
        (2, "a", "It is not offered")
    );
    assert_eq!(found.groups.len(), 1);
}

#[test]
fn what_can_be_consented_to_is_what_applies_or_is_not_evaluated() {
    let risks = reported(Consent::Risk, &answers());
    let names: Vec<(&str, usize)> = risks
        .iter()
        .map(|(name, risk)| (&**name, risk.clusters))
        .collect();
    assert_eq!(names, [("Known", 1), ("Leak", 2), ("Odd", 1)]);
    assert_eq!(risks["Leak"].text, "Leak is bad.");
    let gates = reported(Consent::Gate, &answers());
    assert_eq!(gates["ack-4.19-x"].example, "b");
}

#[test]
fn rows_tell_of_a_name_only_by_the_whole_name() {
    let rows = [
        row("a", "RiskNotAccepted", "LeakMore: text"),
        row("b", "RiskNotAccepted", "Other: x; Leak: text"),
    ];
    let found = reported_by_rows(Consent::Risk, "Leak", &rows).unwrap();
    assert_eq!((found.clusters, &*found.example), (1, "b"));
    assert_eq!(reported_by_rows(Consent::Gate, "Leak", &rows), None);
    assert_eq!(reported_by_rows(Consent::Risk, "text2", &rows), None);
}
