use serde_json::{Value, json};

use super::*;
use crate::report::Phase;
use crate::views::Report;

fn report(rows: &str) -> Report {
    let text = format!(r#"{{"metadata": {{"name": "up-report-1"}}, "rows": {rows}}}"#);
    serde_json::from_str(&text).unwrap()
}

fn row(cluster: &str, phase: &str) -> Value {
    json!({"cluster": cluster, "phase": phase, "since": "2026-03-01T10:00:00Z", "revision": "r1"})
}

#[test]
fn a_row_that_cannot_be_read_spoils_no_other_and_keeps_its_text() {
    let odd = [
        r#"{"cluster":"c2","phase":"Hibernating","since":"2026-03-01T10:00:00Z","revision":"r1", "n": 1.0}"#,
        r#"{"cluster":"c2","phase":"Failed","since":"2026-03-01T10:00:00Z"}"#,
        r#"{"cluster":"c2","phase":"Failed","since":"yesterday","revision":"r1"}"#,
        r#"{"cluster":"c2","phase":"Failed","since":"2026-03-01T10:00:00Z","revision":"r1","steps":[{"name":"Reboot","startedAt":"2026-03-01T10:00:00Z"}]}"#,
        r#"{"cluster":"c2","phase":"Failed","since":"2026-03-01T10:00:00Z","revision":"r1","steps":[{"name":"Platform","startedAt":"2026-03-01T10:00:00Z","outcome":"Skipped"}]}"#,
        r#"{"cluster":"c2","phase":7,"since":"2026-03-01T10:00:00Z","revision":"r1"}"#,
        r#"{"cluster":"c2"}"#,
    ];
    for text in odd {
        let rows = report(&format!(
            "[{},{text},{}]",
            row("c1", "Complete"),
            row("c3", "Failed")
        ))
        .rows;
        let good: Vec<_> = rows.good().map(|row| row.cluster.as_str()).collect();
        assert_eq!(good, ["c1", "c3"], "{text}");
        assert_eq!(rows.rows[1].text.get(), text);
        assert_eq!(rows.rows[1].cluster(), Some("c2"));
        assert!(rows.error().is_some());
    }
}

#[test]
fn a_row_without_a_readable_name_keeps_its_text_too() {
    for text in [
        r#"{"cluster":7}"#,
        r#"{"phase":"Complete"}"#,
        r#""c2""#,
        "null",
        "[]",
        r#"{"cluster":""}"#,
    ] {
        let rows = report(&format!("[{text},{}]", row("c1", "Complete"))).rows;
        assert_eq!(rows.rows[0].cluster(), None, "{text}");
        assert_eq!(rows.rows[0].text.get(), text);
        assert_eq!(rows.good().count(), 1);
    }
}

#[test]
fn a_row_of_any_depth_spoils_no_other() {
    let deep = format!("{}{}", "{\"a\":".repeat(5000), "1".to_owned() + &"}".repeat(5000));
    let text = format!(r#"{{"cluster":"c2","phase":"Complete","since":{deep},"revision":"r1"}}"#);
    let rows = report(&format!("[{},{text}]", row("c1", "Complete"))).rows;
    assert_eq!(rows.good().count(), 1);
    assert_eq!(rows.rows[1].cluster(), Some("c2"));
    assert_eq!(rows.rows[1].text.get(), text);
    // An unknown field must not prevent reading the others, however deep it is.
    let text = format!(
        r#"{{"cluster":"c2","phase":"Complete","since":"2026-03-01T10:00:00Z","revision":"r1","x":{deep}}}"#
    );
    let rows = report(&format!("[{text}]")).rows;
    assert!(rows.rows[0].has_more);
    assert_eq!(rows.good().next().unwrap().phase, Phase::Complete);
}

#[test]
fn unknown_fields_of_rows_and_steps_are_noticed() {
    let plain = json!([row("c1", "Complete")]);
    assert!(!report(&plain.to_string()).rows.rows[0].has_more);
    let mut more = row("c1", "Complete");
    more["percent"] = json!(3);
    assert!(report(&json!([more]).to_string()).rows.rows[0].has_more);
    let mut more = row("c1", "Complete");
    more["steps"] = json!([{"name": "Platform", "startedAt": "2026-03-01T10:00:00Z", "node": "n1"}]);
    assert!(report(&json!([more]).to_string()).rows.rows[0].has_more);
}

#[test]
fn the_fields_that_are_known_are_those_that_are_written() {
    let mut full = row("c1", "Complete");
    for (name, value) in [
        ("canary", json!(true)),
        ("leftSelection", json!(true)),
        ("reason", json!("r")),
        ("message", json!("m")),
        ("fromVersion", json!("1")),
        ("toVersion", json!("2")),
        ("retry", json!("t")),
        ("attempts", json!(2)),
        (
            "steps",
            json!([{"name": "Platform", "startedAt": "2026-03-01T10:00:00Z", "appliedAt": "2026-03-01T10:00:00Z",
                "finishedAt": "2026-03-01T10:00:00Z", "outcome": "Failed"}]),
        ),
    ] {
        full[name] = value;
    }
    let read: ReportRow = serde_json::from_value(full).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    let names = |value: &Value| {
        let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        names.sort();
        names
    };
    let sorted = |names: &[&str]| {
        let mut names: Vec<String> = names.iter().map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(names(&written), sorted(&ROW));
    assert_eq!(names(&written["steps"][0]), sorted(&STEP));
}

#[test]
fn a_list_that_is_none_and_no_list_at_all_are_told_apart() {
    assert!(report("{\"c1\": {}}").rows.error().is_some());
    assert!(report("null").rows.error().is_none());
    let none: Report = serde_json::from_str(r#"{"metadata": {"name": "up-report-1"}}"#).unwrap();
    assert!(none.rows.error().is_none() && none.rows.rows.is_empty());
}

#[test]
fn rows_are_read_from_whatever_serde_has_buffered() {
    // The type of a watch event may come after its object, and serde then buffers the object.
    let object = json!({"metadata": {"name": "up-report-1"}, "rows": [row("c1", "Complete"), row("c2", "Hibernating")]});
    for text in [
        format!(r#"{{"object": {object}, "type": "ADDED"}}"#),
        format!(r#"{{"type": "ADDED", "object": {object}}}"#),
    ] {
        let event: kube::core::WatchEvent<Report> = serde_json::from_str(&text).unwrap();
        let kube::core::WatchEvent::Added(report) = event else {
            panic!("{text}")
        };
        assert_eq!(report.rows.good().count(), 1);
        assert_eq!(report.rows.rows[1].cluster(), Some("c2"));
    }
    let report: Report = serde_json::from_value(object).unwrap();
    assert_eq!(report.rows.good().count(), 1);
}
