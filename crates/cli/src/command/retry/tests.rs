use api::report::{Phase, ReportRow};
use serde_json::json;

use super::*;
use crate::render::fixtures::{running, stalled};

#[test]
fn a_retry_names_what_it_requeues() {
    let text = told(&stalled(), &["edge-17"], "retried");
    assert!(text.ends_with("1 cluster will be retried: edge-17.\n"), "{text}");
    let names: Vec<String> = (0..12).map(|n| format!("c{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let paused = Upgrade {
        paused: true,
        ..stalled()
    };
    let text = told(&paused, &names, "retried");
    assert!(
        text.contains("12 clusters will be retried: c0,") && text.contains("c9 and 2 more.\n"),
        "{text}"
    );
    assert!(text.contains("kubectl mcu resume spring -n upgrades"));
}

#[test]
fn a_retry_that_is_forced_where_nothing_failed_says_that_nothing_is_retried() {
    let text = told(&running(), &[], "asked for a retry, and nothing is retried");
    assert!(
        text.contains("nothing is retried\nNo such cluster is Failed"),
        "{text}"
    );
}

fn row(cluster: &str, phase: Phase, reason: &str) -> ReportRow {
    let row = json!({"cluster": cluster, "phase": phase, "reason": reason, "since": "2026-01-01T00:00:00Z", "revision": "r1"});
    serde_json::from_value(row).unwrap()
}

fn rows() -> Rows {
    Rows {
        rows: vec![
            row("c1", Phase::Failed, "JobFailed"),
            row("c2", Phase::Failed, "ClusterUpgradeTimeout"),
            row("c3", Phase::PreActionDegraded, "JobFailed"),
            row("c4", Phase::Complete, ""),
        ],
        ..Rows::default()
    }
}

fn args(clusters: &[&str], reasons: &[&str]) -> RetryArgs {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    RetryArgs {
        name: "spring".to_owned(),
        clusters: words(clusters),
        reasons: words(reasons),
        dry_run: false,
        force: false,
    }
}

#[test]
fn clusters_are_chosen_by_name_and_by_why_they_failed() {
    let rows = rows();
    let chosen = |clusters: &[&str], reasons: &[&str]| {
        let chosen = concerned(&rows, &args(clusters, reasons)).unwrap();
        chosen.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(chosen(&[], &[]), ["c1", "c2", "c3"]);
    assert_eq!(chosen(&[], &["JobFailed"]), ["c1", "c3"]);
    assert_eq!(chosen(&["c2", "c3"], &[]), ["c2", "c3"]);
    assert_eq!(chosen(&["c2", "c3"], &["JobFailed"]), ["c3"]);
    for (name, text) in [
        ("c4", "c4 is Complete"),
        ("c9", "c9 is not a cluster of the upgrade"),
    ] {
        let error = concerned(&rows, &args(&[name], &[])).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
}

fn upgrade(entries: usize, carried_out: usize) -> Upgrade {
    let ids: Vec<String> = (0..entries).map(|number| format!("r{number}")).collect();
    let list: Vec<Value> = ids.iter().map(|id| json!({"id": id})).collect();
    Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1},
        "spec": {"upgradeStrategy": {"retry": list}},
        "status": {"retries": &ids[..carried_out]},
    }))
}

#[test]
fn an_entry_is_added_and_those_that_were_carried_out_go_only_where_there_is_no_room() {
    let now = DateTime::from_timestamp(1_764_000_000, 0).unwrap();
    let list = with_request(&upgrade(2, 2), &args(&["c2", "c1", "c2"], &["JobFailed"]), now).unwrap();
    let added = json!({"id": "2025-11-24T16-00-00Z", "clusters": ["c1", "c2"], "reasons": ["JobFailed"]});
    assert_eq!(list, [json!({"id": "r0"}), json!({"id": "r1"}), added]);
    let list = with_request(&upgrade(32, 30), &args(&["c1"], &[]), now).unwrap();
    assert_eq!((list.len(), &list[0]), (3, &json!({"id": "r30"})));
    let error = with_request(&upgrade(32, 0), &args(&["c1"], &[]), now).unwrap_err();
    assert!(error.to_string().contains("kubectl mcu check"), "{error}");
    let ids = [
        "2025-11-24T16-00-00Z".to_owned(),
        "2025-11-24T16-00-00Z-2".to_owned(),
    ];
    assert_eq!(free_id(&ids, now), "2025-11-24T16-00-00Z-3");
}

#[test]
fn a_failed_cluster_that_has_left_the_selection_is_not_retried_and_that_is_said() {
    let mut rows = rows();
    rows.rows[0].left_selection = true;
    assert_eq!(concerned(&rows, &args(&[], &[])).unwrap(), ["c2", "c3"]);
    let error = concerned(&rows, &args(&["c1"], &[])).unwrap_err().to_string();
    assert!(
        error.contains("c1 is Failed, and it has left the selection"),
        "{error}"
    );
    assert!(leavers(&rows).contains("1 cluster that failed has left"));
}

#[test]
fn a_retry_while_the_spec_is_invalid_or_the_upgrade_is_restored_says_what_must_happen_first() {
    let text = told(&crate::render::fixtures::invalid(), &["c1"], "retried");
    assert!(text.contains("nothing is retried before it is fixed"), "{text}");
    let restored = Upgrade {
        restored: true,
        ..stalled()
    };
    let text = told(&restored, &["c1"], "retried");
    assert!(
        text.contains("was restored") && text.contains("kubectl mcu resume spring"),
        "{text}"
    );
}

#[test]
fn what_a_retry_means_for_approvals_is_said() {
    let upgrade = |changed: &str| {
        Upgrade::read(json!({
            "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1},
            "status": {"approvals": [{"name": "half", "state": "Approved", "planHash": "1a2b", "changed": changed}]},
        }))
    };
    let mut rows = rows();
    rows.rows[0].canary = true;
    assert!(at_checkpoints(&upgrade(""), &rows, &["c1"]).contains("makes another plan"));
    let stale = at_checkpoints(&upgrade("the spec"), &rows, &["c2"]);
    assert!(
        stale.contains("checkpoint half: kubectl mcu approvals spring -n upgrades"),
        "{stale}"
    );
    assert_eq!(at_checkpoints(&upgrade(""), &rows, &["c2"]), "");
    assert_eq!(at_checkpoints(&running(), &rows, &["c1"]), "");
}
