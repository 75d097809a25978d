use super::*;
use serde_json::json;

fn row(cluster: &str, phase: &str, since: &str) -> Value {
    json!({"cluster": cluster, "phase": phase, "since": since, "revision": "r1"})
}

fn shard(uid: &str, rows: &Value) -> Value {
    json!({
        "metadata": {"name": "spring-report-1", "ownerReferences": [{"kind": "ManagedClustersUpgrade", "uid": uid}]},
        "rows": rows,
    })
}

#[test]
fn rows_of_all_shards_are_sorted_by_cluster() {
    let one = shard(
        "u",
        &json!([
            row("c", "Failed", "2026-03-01T10:00:00Z"),
            row("a", "Pending", "2026-03-01T10:00:00Z")
        ]),
    );
    let two = shard(
        "u",
        &json!([row("b", "PreActionDegraded", "2026-03-01T10:00:00Z"), {"cluster": "x"}]),
    );
    let rows = Rows::merge(&[one, two], "u");
    let names: Vec<_> = rows.rows.iter().map(|row| row.cluster.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "x"]);
    assert_eq!(rows.unreadable, 1);
    assert_eq!(rows.retryable(), ["b", "c"]);
    assert_eq!(rows.in_phases(&[Phase::Pending]).len(), 1);
}

#[test]
fn a_row_of_a_newer_release_is_shown_as_blocked_and_spoils_no_other() {
    let rows = [
        row("a", "Hibernating", "2026-03-01T10:00:00Z"),
        row("a", "Complete", "2026-03-01T11:00:00Z"),
        row("b", "Complete", "2026-03-01T10:00:00Z"),
        json!({"phase": "Complete"}),
    ];
    let rows = Rows::merge(&[shard("u", &json!(rows))], "u");
    assert_eq!(rows.unreadable, 2);
    let a = rows.of("a").unwrap();
    assert_eq!((a.phase, a.reason.as_str()), (Phase::Blocked, "UnreadableRecord"));
    assert!(a.message.contains("Hibernating"), "{}", a.message);
    assert_eq!(rows.of("b").unwrap().phase, Phase::Complete);
    assert_eq!(rows.rows.len(), 2);
}

#[test]
fn shards_of_an_older_upgrade_of_the_same_name_or_of_nobody_do_not_count() {
    let old = shard("old", &json!([row("a", "Failed", "2026-03-01T10:00:00Z")]));
    let mut unowned = old.clone();
    unowned["metadata"]["ownerReferences"] = Value::Null;
    let mut other = shard("new", &old["rows"]);
    other["metadata"]["ownerReferences"][0]["kind"] = json!("ConfigMap");
    assert_eq!(Rows::merge(&[old, unowned, other], "new"), Rows::default());
}

#[test]
fn the_newer_of_two_rows_for_one_cluster_counts() {
    let one = shard("u", &json!([row("a", "Initialized", "2026-03-01T10:00:00Z")]));
    let two = shard("u", &json!([row("a", "Complete", "2026-03-01T11:00:00Z")]));
    let rows = Rows::merge(&[one, two], "u");
    assert_eq!(rows.rows.len(), 1);
    assert_eq!(rows.rows[0].phase, Phase::Complete);
}

#[test]
fn a_row_with_a_name_that_no_cluster_can_have_is_unreadable_and_gives_no_name() {
    let since = "2026-03-01T10:00:00Z";
    let forged = [
        "edge-2\nedge-3",
        "Edge",
        "edge 4",
        "edge-5\u{200b}",
        "edge/6",
        "-",
    ];
    let mut rows = vec![row("edge-1", "Complete", since)];
    rows.extend(forged.map(|name| row(name, "Complete", since)));
    // A row of a newer release is named, but not by such a name.
    rows.push(row("edge-7", "Hibernating", since));
    rows.push(row("edge-8\nedge-9", "Hibernating", since));
    for row in &rows {
        let read = super::row(serde_json::value::to_raw_value(row).unwrap());
        let is_named = row["cluster"] == "edge-1" || row["cluster"] == "edge-7";
        assert_eq!(read.0.is_some(), is_named, "{row}");
    }
    let rows = Rows::merge(&[shard("u", &json!(rows))], "u");
    let names: Vec<_> = rows.rows.iter().map(|row| row.cluster.as_str()).collect();
    assert_eq!(names, ["edge-1", "edge-7"]);
    assert_eq!(rows.unreadable, forged.len() + 2);
}

#[test]
fn rows_that_the_status_counts_and_no_report_has_are_told() {
    let upgrade = crate::render::fixtures::running();
    let rows = crate::render::fixtures::rows();
    let told = missing_text(&upgrade, &rows);
    assert!(
        told.starts_with("the status counts 24 clusters, and the reports have rows of 4."),
        "{told}"
    );
    assert_eq!(
        missing_text(&crate::render::fixtures::unseen(), &Rows::default()),
        ""
    );
}
