use super::*;

fn rows() -> Rows {
    let row = |cluster: &str, phase: &str, canary: bool| {
        serde_json::from_value(json!({
            "cluster": cluster, "phase": phase, "canary": canary, "since": "2026-01-01T00:00:00Z", "revision": "r1",
        }))
        .unwrap()
    };
    Rows {
        rows: vec![
            row("c1", "Pending", false),
            row("c2", "Failed", false),
            row("c3", "Partial", false),
            row("c4", "Complete", false),
            row("c5", "Pending", true),
            row("c6", "Initialized", false),
            row("c8", "PostAction", false),
        ],
        ..Rows::default()
    }
}

fn upgrade(strategy: &Value) -> Upgrade {
    Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1},
        "spec": {"upgradeStrategy": strategy},
    }))
}

fn entry(cluster: &str) -> Value {
    json!({"cluster": cluster, "reason": "no power"})
}

fn args(clusters: &[&str], acknowledge_canary: bool) -> LeaveOutArgs {
    LeaveOutArgs {
        name: "spring".to_owned(),
        clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
        reason: " no power ".to_owned(),
        acknowledge_canary,
        dry_run: false,
    }
}

#[test]
fn clusters_are_added_once_and_a_canary_only_if_that_is_acknowledged() {
    let before = upgrade(&json!({"skip": [{"cluster": "c1", "reason": "other"}]}));
    let skip = |args: &LeaveOutArgs| with(&before, &rows(), args, List::Skip);
    let strategy = skip(&args(&["c1", "c2"], false)).unwrap();
    assert_eq!(strategy, json!({"skip": [entry("c1"), entry("c2")]}));
    let strategy = skip(&args(&["c5"], true)).unwrap();
    assert_eq!(strategy["skip"][1]["acknowledgeCanary"], true);
    for (cluster, text) in [
        ("c4", "c4 is complete"),
        ("c5", "--acknowledge-canary"),
        ("c9", "not a cluster of the upgrade"),
    ] {
        let error = skip(&args(&[cluster], false)).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let silent = LeaveOutArgs {
        reason: " ".to_owned(),
        ..args(&["c1"], false)
    };
    assert!(skip(&silent).is_err());
}

#[test]
fn a_cluster_that_has_accepted_the_update_is_not_aborted_and_one_that_is_is_not_skipped_any_more() {
    let before = upgrade(&json!({"skip": [entry("c1"), entry("c2")]}));
    let abort = |cluster: &str| with(&before, &rows(), &args(&[cluster], false), List::Abort);
    let strategy = abort("c1").unwrap();
    assert_eq!(strategy, json!({"abort": [entry("c1")], "skip": [entry("c2")]}));
    assert_eq!(abort("c6").unwrap(), json!({"abort": [entry("c6")]}));
    let error = abort("c3").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("c3 has accepted the update (phase Partial)"),
        "{error}"
    );
}

#[test]
fn clusters_are_removed_from_both_lists_and_one_that_is_in_none_is_an_error() {
    let before = upgrade(&json!({"skip": [entry("c1"), entry("c2")], "abort": [entry("c3")]}));
    let strategy = |clusters: &[&str]| {
        let clusters: Vec<String> = clusters.iter().map(|name| (*name).to_owned()).collect();
        without(&before, &clusters)
    };
    assert_eq!(strategy(&["c1"]).unwrap(), json!({"skip": [entry("c2")]}));
    assert_eq!(
        strategy(&["c3", "c2"]).unwrap(),
        json!({"skip": [entry("c1")], "abort": []})
    );
    let error = strategy(&["c1", "c4"]).unwrap_err();
    assert!(
        error.to_string().contains("c4 is neither skipped nor aborted"),
        "{error}"
    );
}

#[test]
fn what_becomes_of_each_cluster_is_told() {
    let names = ["c1", "c2", "c3"].map(str::to_owned);
    assert_eq!(
        fates(&rows(), &names, List::Skip),
        "c1 is Pending: it does not start.\n\
         c2 is Failed: its failure does not count any more.\n\
         c3 is Partial: what is under way ends first, and its failure does not count.\n"
    );
    let names = ["c1", "c6"].map(str::to_owned);
    assert_eq!(
        fates(&rows(), &names, List::Abort),
        "c1 is Pending: it does not start.\n\
         c6 is Initialized: the request is withdrawn, unless the cluster accepts it before it hears of that; then the update goes on.\n"
    );
    let begun = serde_json::from_value(json!({
        "cluster": "c7", "phase": "Blocked", "since": "2026-01-01T00:00:00Z", "revision": "r1",
        "steps": [{"name": "Platform", "startedAt": "2026-01-01T00:00:00Z"}],
    }));
    let rows = Rows {
        rows: vec![begun.unwrap()],
        ..Rows::default()
    };
    let names = ["c7".to_owned()];
    let skipped = fates(&rows, &names, List::Skip);
    assert!(
        skipped.contains("skipped once nothing of that is under way"),
        "{skipped}"
    );
    let aborted = fates(&rows, &names, List::Abort);
    assert!(aborted.contains("has not accepted is withdrawn"), "{aborted}");
    let mut rows = rows;
    rows.rows[0].phase = Phase::Aborted;
    assert_eq!(
        fates(&rows, &names, List::Skip),
        "c7 is Aborted: it does not start.\n"
    );
}

#[test]
fn a_post_action_may_still_fail_so_its_cluster_may_be_skipped() {
    let leave_out = |list| with(&upgrade(&json!({})), &rows(), &args(&["c8"], false), list);
    assert_eq!(leave_out(List::Skip).unwrap(), json!({"skip": [entry("c8")]}));
    let error = leave_out(List::Abort).unwrap_err().to_string();
    assert!(
        error.contains("c8 has accepted the update (phase PostAction)"),
        "{error}"
    );
}

#[test]
fn a_cluster_whose_row_cannot_be_read_may_be_a_canary_and_its_fate_is_not_known() {
    let owner = json!({"kind": "ManagedClustersUpgrade", "uid": "u1"});
    let shard = json!({"metadata": {"ownerReferences": [owner]}, "rows": [
        {"cluster": "c1", "phase": "Hibernating", "canary": true, "since": "2026-01-01T00:00:00Z", "revision": "r1"},
    ]});
    let rows = Rows::merge(&[shard], "u1");
    let before = upgrade(&json!({}));
    let error = with(&before, &rows, &args(&["c1"], false), List::Skip).unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
    let strategy = with(&before, &rows, &args(&["c1"], true), List::Skip).unwrap();
    assert_eq!(strategy["skip"][0]["acknowledgeCanary"], true);
    let told = fates(&rows, &["c1".to_owned()], List::Abort);
    assert_eq!(
        told,
        "What becomes of c1 is not known, because its report row cannot be read.\n"
    );
}
