//! Random specs of upgrades: valid and invalid values of every field that our definition has a rule for.

use serde_json::{Value, json};

use crate::random::Random;

/// A spec, of which most fields are absent and most others valid.
pub fn spec(random: &mut Random) -> Value {
    let mut spec = json!({});
    if random.chance(85) {
        spec["clusterVersion"] = cluster_version(random);
    }
    if random.chance(30) {
        spec["upgradeStrategy"] = strategy(random);
    }
    if random.chance(20) {
        spec["clusterSelector"] = selector(random);
    }
    if random.chance(20) {
        spec["ocpOperators"] = operators(random);
    }
    if random.chance(15) {
        spec["placement"] = random.pick(vec![
            json!([{"name": "p"}]),
            json!([{"name": "p", "namespace": ""}, {"name": "p.q", "namespace": "n"}]),
            json!([{"name": "P"}]),
            json!([{"name": "p", "namespace": "a.b"}]),
            json!([{"namespace": "n"}]),
            json!([]),
        ]);
    }
    if random.chance(10) {
        spec["preUpgradeAction"] = action(random);
    }
    if random.chance(10) {
        spec["postUpgradeAction"] = action(random);
    }
    if random.chance(20) {
        let (name, value) = random.pick(vec![
            ("paused", json!(true)),
            ("paused", json!("yes")),
            ("color", json!("red")),
            ("clusters", json!([{"name": "c1"}])),
        ]);
        spec[name] = value;
    }
    json!({"spec": spec})
}

fn cluster_version(random: &mut Random) -> Value {
    let mut version = json!({"version": random.pick(vec!["4.15.3", "4.15.3", "4.15.3", "4.16.0-rc.1", "four", "v4.15.3", ""])});
    if random.chance(30) {
        let (name, value) = random.pick(vec![
            ("channel", json!("stable-4.15")),
            ("channel", json!("stable 4.15")),
            ("channel", json!("x".repeat(129))),
            ("image", json!("quay.io/r@sha256:0")),
            ("image", json!("é")),
            ("upstream", json!("https://example.com/graph")),
            ("upstream", json!("ftp://example.com")),
            ("upstream", json!("")),
            ("allowDowngrade", json!(true)),
        ]);
        version[name] = value;
    }
    version
}

fn strategy(random: &mut Random) -> Value {
    let mut strategy = json!({});
    for _ in 0..random.between(1, 2) {
        let (name, value) = random.pick(vec![
            ("maxConcurrency", json!(5)),
            ("maxConcurrency", json!("25%")),
            ("maxConcurrency", json!(0)),
            ("maxConcurrency", json!("101%")),
            ("maxConcurrency", json!(true)),
            ("maxConcurrency", json!(1_000_001)),
            ("maxConcurrency", json!("x".repeat(65))),
            ("maxFailures", json!(0)),
            ("maxFailures", json!("5%")),
            ("maxFailures", json!(-1)),
            ("actionTimeout", json!("15m")),
            ("actionTimeout", json!("0s")),
            ("actionTimeout", json!(null)),
            ("clusterUpgradeTimeout", json!("1h30m")),
            ("clusterUpgradeTimeout", json!("2d")),
            ("clusterUpgradeTimeout", json!("0s")),
            ("clusterUpgradeTimeout", json!("8761h")),
            ("operatorsUpgradeTimeout", json!("999ms")),
            ("operatorsUpgradeTimeout", json!(20)),
            ("minSuccessTime", json!("0")),
            ("minSuccessTime", json!("10m")),
            ("minSuccessTime", json!("10")),
            (
                "canaryClusters",
                json!({"clusterSelector": {"matchLabels": {"canary": "true"}}}),
            ),
            ("canaryClusters", json!({})),
        ]);
        strategy[name] = value;
    }
    strategy
}

fn selector(random: &mut Random) -> Value {
    random.pick(vec![
        json!({"matchLabels": {"a": "b"}}),
        json!({"matchLabels": {"a": 1}}),
        json!({"clusterSets": ["one", "two"]}),
        json!({"clusterSets": ["one", "one"]}),
        json!({"clusterSets": ["One"]}),
        json!({"clusterSets": [""]}),
        json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "example.com/a", "operator": "Exists"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "In"}]}),
        json!({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
        json!({"matchExpressions": [{"key": "a b", "operator": "Near"}]}),
        json!({"matchExpressions": [{"operator": "Exists"}]}),
    ])
}

fn operators(random: &mut Random) -> Value {
    random.pick(vec![
        json!({"approveAllUpgrades": true, "exclude": [{"name": "a", "namespace": "b"}]}),
        json!({"include": [{"name": "a", "namespace": "b"}, {"name": "a", "namespace": "c"}]}),
        json!({"include": [{"name": "a", "namespace": "b"}, {"name": "a", "namespace": "b"}]}),
        json!({"include": [{"name": "A", "namespace": "b.c"}]}),
        json!({"include": [{"name": "a"}]}),
        json!({"include": []}),
        json!({"approveAllUpgrades": "no"}),
    ])
}

fn action(random: &mut Random) -> Value {
    let manifest = |metadata: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}});
    random.pick(vec![
        json!({"manifestWork": {"workload": {"manifests": [manifest(json!({"name": "a"}))]}, "executor": {"any": 1}}}),
        json!({"manifestWork": {"workload": {"manifests": [manifest(json!({"generateName": "a"}))]}}}),
        json!({"manifestWork": {"workload": {"manifests": [manifest(json!({}))]}}}),
        json!({"manifestWork": {"workload": {"manifests": []}}}),
        json!({"manifestWork": {"workload": {"manifests": [{"metadata": {"name": "a"}}]}}}),
        json!({"manifestWork": {}}),
    ])
}

/// A status as the controller applies it, and others.
pub fn status(random: &mut Random) -> Value {
    random.pick(vec![
        json!({"state": "InProgress", "observedGeneration": 1, "inFlight": 1}),
        json!({"observedGeneration": 2}),
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}], "progress": "1/2"}),
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Done", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}, {"type": "Stalled", "status": "False", "reason": "No", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "today"}]}),
        json!({"state": "not a state", "nonsense": true}),
        json!({"inFlight": "two"}),
    ])
}
