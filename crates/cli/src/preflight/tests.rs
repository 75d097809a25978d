use std::collections::BTreeSet;

use clusterversion::preflight::{Gate, Health, Missing, Offer, OfferedRisk};
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
            image: "quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                .to_owned(),
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
    let found = overview(("upgrades", "spring"), &rows, (Some(&answers()), &update()), None);
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

/// The request of an earlier attempt accepts the risk, and the spec does not any more.
#[test]
fn a_risk_that_only_an_earlier_request_accepts_is_told_by_the_row() {
    let mut ready = facts(&[], &[]);
    ready.offer = Ok(Offer::Cleared {
        risks: vec!["Leak".to_owned()],
    });
    let rows = [row("a", "RiskNotAccepted", "Leak: It was accepted before")];
    let answers = Answers::from([("a".to_owned(), ready)]);
    let found = overview(("upgrades", "spring"), &rows, (Some(&answers), &update()), None);
    let groups = found.groups.iter();
    let groups: Vec<(&str, &str)> = groups.map(|group| (&*group.reason, &*group.name)).collect();
    assert_eq!(groups, [("RiskNotAccepted", "Leak")]);
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
        (Some(&Answers::new()), &update()),
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
fn without_answers_clusters_are_grouped_by_the_risk_and_gate_that_their_rows_name() {
    let key = "ack-4.19-x";
    let rows = [
        row("a", "RiskNotAccepted", "Leak: It leaks.; Other: It is odd."),
        row("b", "RiskNotAccepted", "Leak: It leaks."),
        row("c", "RiskNotAccepted", "Other: It is odd."),
        row("d", "AdminAckRequired", "ack-4.19-x: An API goes."),
        row(
            "e",
            "Failing",
            "ClusterOperatorDegraded: Cluster operator etcd is degraded",
        ),
    ];
    let found = overview(("upgrades", "spring"), &rows, (None, &update()), None);
    let groups: Vec<(&str, &str, usize)> = found
        .groups
        .iter()
        .map(|group| (&*group.reason, &*group.name, group.clusters))
        .collect();
    assert_eq!(
        groups,
        [
            ("RiskNotAccepted", "Leak", 2),
            ("AdminAckRequired", key, 1),
            ("Failing", "", 1),
            ("RiskNotAccepted", "Other", 1),
        ]
    );
    assert!(
        found.groups[1]
            .remedy
            .contains("kubectl mcu ack spring ack-4.19-x -n upgrades")
    );
}

#[test]
fn clusters_that_have_not_answered_are_counted_by_the_reason_of_their_rows() {
    let rows = [
        row("c", "Conflict", "Another upgrade has it"),
        row("d", "Conflict", "Another upgrade has it"),
        row("e", "Paused", ""),
        row("f", "PreflightUnsupported", "It cannot be asked"),
    ];
    let none = Answers::new();
    let of = |answers| overview(("upgrades", "spring"), &rows, (answers, &update()), None);
    let found = of(Some(&none));
    let silent: Vec<(&str, usize)> = found
        .unanswered
        .iter()
        .map(|group| (&*group.reason, group.clusters))
        .collect();
    assert_eq!(silent, [("Conflict", 2), ("Paused", 1)]);
    assert_eq!(found.unanswered_clusters(), 3);
    assert_eq!(found.groups.len(), 1);
    // Whoever may not read the answers does not know who has answered.
    assert_eq!(of(None).unanswered, []);
}

#[test]
fn the_message_of_a_group_is_what_most_of_its_clusters_say() {
    let mut known = Answers::new();
    for cluster in ["a", "b", "c"] {
        let mut facts = facts(&[("Leak", Some(true))], &[]);
        if cluster == "a"
            && let Ok(Offer::Conditional { risks, .. }) = &mut facts.offer
        {
            risks[0].message = "Harmless.".to_owned();
        }
        known.insert(cluster.to_owned(), facts);
    }
    let rows = ["a", "b", "c"].map(|cluster| row(cluster, "RiskNotAccepted", ""));
    let found = overview(("upgrades", "spring"), &rows, (Some(&known), &update()), None);
    let group = &found.groups[0];
    assert_eq!((group.clusters, group.differing), (3, 1));
    assert_eq!((&*group.example, &*group.message), ("b", "Leak: Leak is bad."));
}

#[test]
fn one_cluster_with_thousands_of_gates_does_not_flood_the_overview() {
    let keys: Vec<String> = (0..3200).map(|number| format!("ack-4.19-{number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let known = Answers::from([("a".to_owned(), facts(&[], &keys))]);
    let found = overview(
        ("upgrades", "spring"),
        &[row("a", "AdminAckRequired", "")],
        (Some(&known), &update()),
        None,
    );
    assert!(found.groups.len() <= 66, "{}", found.groups.len());
    let size = serde_json::to_string(&found).unwrap().len();
    assert!(size < 100_000, "{size}");
}

#[test]
fn a_hostile_name_gives_no_command() {
    let known = Answers::from([("a".to_owned(), facts(&[("--as=root", Some(true))], &["$(id)"]))]);
    let found = overview(
        ("upgrades", "spring"),
        &[row("a", "RiskNotAccepted", "")],
        (Some(&known), &update()),
        None,
    );
    assert_eq!(found.groups.len(), 2);
    for group in &found.groups {
        assert!(!group.remedy.contains("kubectl mcu"), "{}", group.remedy);
    }
}

#[test]
fn what_can_be_consented_to_is_what_applies_or_is_not_evaluated() {
    let known = answers();
    assert_eq!(names(Consent::Risk, &known, "4.20.4"), ["Known", "Leak", "Odd"]);
    let risk = reported(Consent::Risk, "Leak", &known, "4.20.4");
    assert_eq!(
        risk,
        [ShownText {
            text: "Leak is bad.".to_owned(),
            clusters: 2,
            example: "a".to_owned()
        }]
    );
    let gate = reported(Consent::Gate, "ack-4.19-x", &known, "4.20.4");
    assert_eq!(gate[0].example, "b");
    assert_eq!(reported(Consent::Gate, "ack-4.19-x", &known, "4.19.9"), []);
}

#[test]
fn a_gate_that_stayed_from_an_earlier_version_cannot_be_consented_to() {
    let mut facts = facts(&[], &["ack-4.22-a", "ack-4.23-a"]);
    facts.current = Ok("4.23.1".to_owned());
    let known = Answers::from([("a".to_owned(), facts)]);
    assert_eq!(names(Consent::Gate, &known, "5.0.1"), ["ack-4.23-a"]);
    assert_eq!(reported(Consent::Gate, "ack-4.22-a", &known, "5.0.1"), []);
    assert!(names(Consent::Gate, &known, "4.23.5").is_empty());
}

#[test]
fn rows_tell_of_a_name_only_by_the_whole_name() {
    let rows = [
        row("a", "RiskNotAccepted", "LeakMore: text"),
        row("b", "RiskNotAccepted", "Other: x; Leak: text"),
    ];
    let found = reported_by_rows(Consent::Risk, "Leak", &rows);
    assert_eq!((found[0].clusters, &*found[0].example), (1, "b"));
    assert_eq!(reported_by_rows(Consent::Gate, "Leak", &rows), []);
    assert_eq!(reported_by_rows(Consent::Risk, "text2", &rows), []);
}
