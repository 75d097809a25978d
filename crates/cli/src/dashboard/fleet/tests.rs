use super::*;
use api::report::Phase;
use serde_json::{Value, json, value::to_raw_value};

fn row(cluster: &str, phase: &str, reason: &str) -> Value {
    json!({"cluster": cluster, "phase": phase, "reason": reason, "since": "2026-03-01T11:00:00Z", "revision": "r1"})
}

fn texts(rows: &[Value]) -> Vec<Box<RawValue>> {
    rows.iter().map(|row| to_raw_value(row).unwrap()).collect()
}

fn names<'a>(changes: &Changes<'a>) -> Vec<&'a str> {
    changes.rows.iter().map(|row| row.cluster.as_str()).collect()
}

fn listed(reports: &[(&str, &[Value])]) -> Fleet {
    let mut fleet = Fleet::default();
    fleet.begin_list();
    for (name, rows) in reports {
        fleet.apply(name, texts(rows));
    }
    fleet.end_list();
    fleet
}

#[test]
fn only_rows_whose_text_changed_are_told() {
    let a = row("a", "Pending", "WaitingForSlot");
    let mut fleet = listed(&[("r-1", &[a.clone(), row("b", "Pending", "WaitingForSlot")])]);
    assert!(fleet.is_complete());
    assert_eq!(names(&fleet.since(0)), ["a", "b"]);
    let told = fleet.revision();
    assert!(fleet.since(told).rows.is_empty());

    fleet.apply("r-1", texts(&[a, row("b", "Partial", "Running")]));
    assert_eq!(names(&fleet.since(told)), ["b"]);
    assert_eq!(fleet.row("b").unwrap().phase, Phase::Partial);
}

#[test]
fn a_cluster_without_a_row_is_told_as_gone_until_it_has_one_again() {
    let mut fleet = listed(&[("r-1", &[row("a", "Pending", ""), row("b", "Pending", "")])]);
    let told = fleet.revision();
    fleet.apply("r-1", texts(&[row("a", "Pending", "")]));
    assert_eq!(fleet.since(told).gone, ["b"]);
    fleet.apply("r-1", texts(&[row("a", "Pending", ""), row("b", "Pending", "")]));
    assert!(fleet.since(told).gone.is_empty());
    assert_eq!(names(&fleet.since(told)), ["b"]);
}

#[test]
fn a_report_that_a_later_list_lacks_is_removed_with_its_rows() {
    let mut fleet = listed(&[
        ("r-1", &[row("a", "Pending", "")]),
        ("r-2", &[row("b", "Pending", "")]),
    ]);
    let told = fleet.revision();
    fleet.begin_list();
    fleet.apply("r-1", texts(&[row("a", "Pending", "")]));
    fleet.end_list();
    assert_eq!(fleet.since(told).gone, ["b"]);
    assert!(fleet.row("b").is_none());
}

#[test]
fn of_two_rows_of_a_cluster_the_newer_one_counts_and_the_other_one_follows_it() {
    let mut newer = row("a", "Complete", "");
    newer["since"] = json!("2026-03-01T12:00:00Z");
    let mut fleet = listed(&[("r-1", &[newer]), ("r-2", &[row("a", "Pending", "")])]);
    assert_eq!(fleet.row("a").unwrap().phase, Phase::Complete);
    let told = fleet.revision();
    fleet.remove("r-1");
    assert_eq!(fleet.row("a").unwrap().phase, Phase::Pending);
    assert_eq!(names(&fleet.since(told)), ["a"]);
}

#[test]
fn a_row_that_cannot_be_read_shows_its_cluster_as_blocked() {
    let fleet = listed(&[("r-1", &[row("a", "Teleporting", ""), json!(5)])]);
    let found = fleet.row("a").unwrap();
    assert_eq!(
        (found.phase, found.reason.as_str()),
        (Phase::Blocked, "UnreadableRecord")
    );
    assert_eq!(names(&fleet.since(0)), ["a"]);
}

#[test]
fn failed_clusters_and_degraded_pre_actions_can_be_retried() {
    let mut left = row("d", "Failed", "");
    left["leftSelection"] = json!(true);
    let rows = [
        row("a", "Failed", ""),
        row("b", "PreActionDegraded", ""),
        row("c", "Blocked", ""),
        left,
    ];
    assert_eq!(listed(&[("r-1", &rows)]).retryable(), 2);
}

#[test]
fn rows_that_cannot_be_read_are_counted_until_they_are_gone() {
    let nameless = json!({"phase": "Pending"});
    let unknown_phase = json!({"cluster": "b", "phase": 7});
    let mut fleet = listed(&[(
        "r-1",
        &[row("a", "Pending", ""), nameless.clone(), unknown_phase.clone()],
    )]);
    assert_eq!(names(&fleet.since(0)), ["a", "b"]);
    assert!(
        fleet.trouble().starts_with("2 report rows cannot be read."),
        "{}",
        fleet.trouble()
    );
    // A row that has not changed still counts.
    fleet.apply("r-1", texts(&[row("a", "Pending", ""), unknown_phase]));
    assert!(
        fleet.trouble().starts_with("1 report row cannot be read."),
        "{}",
        fleet.trouble()
    );
    fleet.apply("r-2", texts(&[nameless]));
    fleet.remove("r-2");
    fleet.apply("r-1", texts(&[row("a", "Pending", "")]));
    assert_eq!(fleet.trouble(), "");
}
