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
        ],
        ..Rows::default()
    }
}

fn upgrade(skip: &Value) -> Upgrade {
    Upgrade::read(json!({
        "metadata": {"name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 1},
        "spec": {"upgradeStrategy": {"skip": skip}},
    }))
}

fn args(clusters: &[&str], acknowledge_canary: bool) -> SkipArgs {
    SkipArgs {
        name: "spring".to_owned(),
        clusters: clusters.iter().map(|name| (*name).to_owned()).collect(),
        reason: " no power ".to_owned(),
        acknowledge_canary,
        dry_run: false,
    }
}

#[test]
fn clusters_are_added_once_and_a_canary_only_if_that_is_acknowledged() {
    let before = upgrade(&json!([{"cluster": "c1", "reason": "other"}]));
    let list = with(&before, &rows(), &args(&["c1", "c2"], false)).unwrap();
    let entry = |cluster: &str| json!({"cluster": cluster, "reason": "no power"});
    assert_eq!(list, [entry("c1"), entry("c2")]);
    let list = with(&before, &rows(), &args(&["c5"], true)).unwrap();
    assert_eq!(list[1]["acknowledgeCanary"], true);
    for (cluster, text) in [
        ("c4", "c4 is complete"),
        ("c5", "--acknowledge-canary"),
        ("c9", "not a cluster of the upgrade"),
    ] {
        let error = with(&before, &rows(), &args(&[cluster], false)).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    let silent = SkipArgs {
        reason: " ".to_owned(),
        ..args(&["c1"], false)
    };
    assert!(with(&before, &rows(), &silent).is_err());
}

#[test]
fn clusters_are_removed_and_one_that_is_not_skipped_is_an_error() {
    let before = upgrade(&json!([{"cluster": "c1", "reason": "a"}, {"cluster": "c2", "reason": "b"}]));
    let list = without(&before, &["c1".to_owned()]).unwrap();
    assert_eq!(list, [json!({"cluster": "c2", "reason": "b"})]);
    let error = without(&before, &["c3".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("c3 is not skipped"), "{error}");
}

#[test]
fn what_becomes_of_each_cluster_is_told() {
    let names = ["c1", "c2", "c3"].map(str::to_owned);
    assert_eq!(
        fates(&rows(), &names),
        "c1 is Pending: it does not start.\n\
         c2 is Failed: its failure does not count any more.\n\
         c3 is Partial: what is under way ends first, and its failure does not count.\n"
    );
}
