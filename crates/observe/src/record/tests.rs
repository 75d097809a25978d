use serde_json::{Value, json};

use super::*;

fn report(number: usize, rows: &Value) -> Report {
    serde_json::from_value(json!({
        "metadata": {
            "name": report_name("spring", number), "namespace": "team", "uid": format!("r{number}"),
            "ownerReferences": [{
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
                "name": "spring", "uid": "u1", "controller": true,
            }],
        },
        "rows": rows,
    }))
    .unwrap()
}

fn row(cluster: &str, phase: &str, since: &str) -> Value {
    json!({
        "cluster": cluster, "phase": phase, "reason": "Running", "since": since, "revision": "r1", "toVersion": "4.14.9",
    })
}

const EARLY: &str = "2026-05-28T10:00:00Z";
const LATE: &str = "2026-05-28T11:00:00Z";

#[test]
fn of_two_rows_of_a_cluster_the_younger_one_counts_and_an_unreadable_one_outweighs_both() {
    let (first, second) = (
        report(
            1,
            &json!([row("c1", "Partial", LATE), row("c2", "Partial", EARLY)]),
        ),
        report(
            2,
            &json!([
                row("c1", "Complete", EARLY),
                row("c2", "Complete", EARLY),
                row("c3", "Later", EARLY)
            ]),
        ),
    );
    let rows = HubRows::read("spring", [&second, &first]);
    let phase = |cluster: &str| rows.by_cluster[cluster].record.phase;
    assert_eq!(phase("c1"), Phase::Partial);
    assert_eq!(
        phase("c2"),
        Phase::Complete,
        "of equal rows that of the later report"
    );
    assert_eq!(&*rows.by_cluster["c1"].target, "4.14.9");
    let unreadable = &rows.by_cluster["c3"].record;
    assert!(unreadable.unreadable && unreadable.reason == Reason::UnreadableRecord);
    assert!(
        unreadable.message.contains("phase \"Later\" is unknown"),
        "{}",
        unreadable.message
    );
    assert!(!rows.is_incomplete);
}

#[test]
fn a_report_without_a_list_of_rows_leaves_the_rows_incomplete() {
    let rows = HubRows::read("spring", [&report(1, &json!("none"))]);
    assert!(rows.is_incomplete);
    let [(name, row)] = rows.by_cluster.iter().collect::<Vec<_>>()[..] else {
        panic!("one placeholder is expected: {rows:?}");
    };
    assert!(name.ends_with("/rows") && row.record.unreadable);
}

#[test]
fn a_report_belongs_to_the_upgrade_that_controls_it() {
    let of = |report: &Report, uid| relation_of(report, "team", "spring", uid);
    let report = report(3, &json!([]));
    assert_eq!(of(&report, "u1"), ReportRelation::Own);
    assert_eq!(of(&report, "u2"), ReportRelation::OtherUid);
    assert_eq!(
        relation_of(&report, "other", "spring", "u1"),
        ReportRelation::Unrelated
    );
    assert_eq!(
        relation_of(&report, "team", "autumn", "u1"),
        ReportRelation::Unrelated
    );
    assert_eq!(shard_of("spring", &report_name("spring", 3)), Some(2));
    assert_eq!(shard_of("spring", "spring-x"), None);
}

#[test]
fn a_row_that_fails_without_a_reason_gets_one() {
    for phase in ["Failed", "PreActionDegraded", "Blocked"] {
        for reason in ["", "None"] {
            let row = json!({"cluster": "c1", "phase": phase, "reason": reason, "since": "2026-05-28T10:00:00Z", "revision": "r1"});
            let record = to_record(&serde_json::from_value(row).unwrap());
            assert_eq!(record.reason, Reason::Other, "{phase} {reason}");
            assert!(!record.reason_text().is_empty());
        }
    }
}
