use serde_json::json;

use super::*;
use crate::oracle::generation::Retry;

fn entry(id: &str, clusters: &[&str], reasons: &[&str]) -> Retry {
    let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Retry {
        id: id.to_owned(),
        clusters: all(clusters),
        reasons: all(reasons),
    }
}

fn spec(number: i64, since: u64, retries: &[Retry]) -> Generation {
    Generation {
        number,
        since: Duration::from_secs(since),
        retries: retries.to_vec(),
        ..Generation::default()
    }
}

/// An upgrade whose second spec, of 200 s, has these entries.
fn with(retries: &[Retry]) -> Upgrade {
    Upgrade {
        generations: vec![spec(1, 1, &[]), spec(2, 200, retries)],
        ..Upgrade::default()
    }
}

/// Whether a failure of c1, in an attempt of a retry, is taken back when a start is sent.
fn takes_back(upgrade: &Upgrade, failed: u64, of: &str, sent: u64) -> bool {
    let row = Row {
        phase: "Failed".to_owned(),
        reason: "ClusterUpgradeTimeout".to_owned(),
        retry: of.to_owned(),
        ..Row::default()
    };
    let told = Told::at(Duration::from_secs(failed), "Failed");
    upgrade.takes_back("c1", &row, &told, Duration::from_secs(sent))
}

#[test]
fn an_entry_of_the_spec_takes_back_what_failed_until_it_is_heard_of() {
    let upgrade = with(&[entry("a", &[], &[])]);
    assert!(takes_back(&upgrade, 100, "", 201));
    assert!(takes_back(&upgrade, 275, "", 300));
    assert!(!takes_back(&upgrade, 276, "", 300));
    // The start was sent before it came.
    assert!(!takes_back(&upgrade, 100, "", 199));
    assert!(!takes_back(&with(&[]), 100, "", 201));
}

#[test]
fn an_entry_takes_back_only_failures_of_its_clusters_and_reasons() {
    let is_for = |clusters: &[&str], reasons: &[&str]| {
        takes_back(&with(&[entry("a", clusters, reasons)]), 100, "", 201)
    };
    assert!(is_for(&["c0", "c1"], &[]));
    assert!(!is_for(&["c0"], &[]));
    assert!(is_for(&[], &["ClusterUpgradeTimeout", "JobFailed"]));
    assert!(!is_for(&[], &["JobFailed"]));
    assert!(!is_for(&["c0"], &["ClusterUpgradeTimeout"]));
    assert!(is_for(&["c1"], &["ClusterUpgradeTimeout"]));
}

#[test]
fn an_entry_that_was_carried_out_or_is_gone_takes_nothing_back() {
    let both = with(&[entry("a", &[], &[]), entry("b", &["c0"], &[])]);
    assert!(takes_back(&both, 210, "", 250));
    for of in ["a", "a~", "b"] {
        assert!(!takes_back(&both, 210, of, 250), "{of}");
    }
    // Its id came with an earlier spec.
    let mut upgrade = with(&[entry("a", &[], &[])]);
    upgrade.generations[0] = spec(1, 1, &[entry("a", &[], &[])]);
    assert!(!takes_back(&upgrade, 100, "", 201));
    // A status has told a spec without it.
    let mut upgrade = with(&[entry("a", &[], &[])]);
    upgrade.generations.push(spec(3, 220, &[]));
    upgrade.acknowledged = vec![(Duration::from_secs(230), 3)];
    assert!(takes_back(&upgrade, 100, "", 225));
    assert!(!takes_back(&upgrade, 100, "", 231));
}

#[test]
fn the_annotation_takes_back_every_failure() {
    let mut upgrade = with(&[]);
    upgrade.retried = Some(Duration::from_secs(200));
    assert!(takes_back(&upgrade, 100, "", 201));
    assert!(!takes_back(&upgrade, 276, "", 300));
}

#[test]
fn no_entry_of_an_invalid_spec_counts() {
    let of = |manifests: &[&str]| {
        let manifests = manifests.iter().map(|name| json!({"metadata": {"name": name}}));
        let manifests = manifests.collect::<Vec<_>>();
        Generation::of(&json!({"spec": {
            "preUpgradeAction": {"manifestWork": {"workload": {"manifests": manifests}}},
            "upgradeStrategy": {"retry": [{"id": "a", "clusters": ["c1"], "reasons": ["JobFailed"]}]},
        }}))
    };
    assert_eq!(of(&["x"]).retries, [entry("a", &["c1"], &["JobFailed"])]);
    assert!(of(&["x", "x"]).retries.is_empty());
}
