//! What clusters are asked before an update (`docs/design/preflight.md`): every rule in use, on recorded objects.

use anyhow::Result;
use clusterversion::preflight::pools::{paused_rule, pools_rule};
use clusterversion::preflight::recipe::{Rule, accept_rule, acks_rule, gates_rule, history_rule, offer_rule};
use clusterversion::types::read_documents;
use repository::data;
use serde_json::{Value, json};

use super::Step::Work;
use super::{Case, config, map, named, strategy, told, widget, work};

/// The version that is asked for in `ConfigMaps`.
const TARGET: &str = "4.20.4";

/// See the module.
///
/// # Errors
/// The recorded objects cannot be read.
pub fn all() -> Result<Vec<Case>> {
    let mut cases = vec![
        gates(),
        pools(),
        paused_pool(),
        feature_gates("preflight-feature-gates", true),
        feature_gates("preflight-no-feature-gates", false),
    ];
    cases.extend(offers(
        &data::sample("clusterversions").join("completed.yaml"),
        "preflight-offers",
    )?);
    if let Some(directory) = data::directory("clusterversions") {
        let real = directory.join("4.14.1-all-recommended-cv.yaml");
        cases.extend(offers(&real, "preflight-real-offers")?);
        let longest = directory.join("4.12.16-longest-not-recommended-cv.yaml");
        cases.extend(offers(&longest, "preflight-longest-offers")?);
    }
    Ok(cases)
}

fn rule(number: usize, rule: &Rule) -> Value {
    json!({
        "type": "CEL", "condition": format!("{}{number}", rule.condition),
        "celExpressions": ["true"], "messageExpression": rule.message,
    })
}

/// Reads an object with these rules.
fn reading(mut config: Value, rules: &[Value]) -> Value {
    config["conditionRules"] = json!(rules);
    config
}

/// The offer of the first versions with and without risks, and of one that is not listed.
fn offers(path: &std::path::Path, name: &'static str) -> Result<Vec<Case>> {
    let text = std::fs::read_to_string(path)?;
    let mut cases = Vec::new();
    for object in read_documents(&text)?.iter().take(1) {
        let status = &object.status;
        let conditional = status.conditional_updates.iter().map(|update| &update.release);
        let listed = status.available_updates.iter().take(3).chain(conditional.take(8));
        let versions = listed.map(|release| release.version.as_str()).chain(["9.9.9"]);
        let rules = versions
            .enumerate()
            .map(|(number, version)| rule(number, &offer_rule(version)));
        let rules: Vec<Value> = rules.chain([rule(0, &history_rule())]).collect();
        let status = serde_json::to_value(object)?["status"].take();
        let read = reading(strategy(name, &json!({"type": "ReadOnly"})), &rules);
        cases.push(Case::new(name, vec![Work(work(&[named(name)], &[read]))]).on(vec![told(name, &status)]));
    }
    Ok(cases)
}

/// Gates and acknowledgments: none, some, more than can be told, and with values that are not acknowledgments.
fn gates() -> Case {
    let name = "preflight-gates";
    let rules: Vec<Value> = [gates_rule(TARGET), acks_rule(TARGET)]
        .iter()
        .flatten()
        .map(|one| rule(0, one))
        .collect();
    let text = "An API is removed.\nSee the notes.";
    let steps = [
        json!({}),
        json!({"ack-4.18-a": "true"}),
        json!({"ack-4.19-b": text, "ack-4.19-a": "true", "other": "true"}),
        json!({"ack-4.19-d": "true", "ack-4.19-c": text, "ack-4.19-b": "false", "ack-4.19-a": "true"}),
        json!({"ack-4.19-e": "", "ack-4.19-d": "true", "ack-4.19-c": text, "ack-4.19-b": "false", "ack-4.19-a": "true"}),
    ];
    let read = config(
        "",
        "configmaps",
        name,
        "updateStrategy",
        &json!({"type": "ReadOnly"}),
    );
    let read = reading(read, &rules);
    let places = steps.iter().map(|data| super::Step::Place(map(name, data)));
    let mut all = vec![Work(work(&[map(name, &json!({}))], &[read]))];
    all.extend(places);
    Case::new(name, all).on(vec![map(name, &json!({}))])
}

/// The worker pools, as the machine-config operator describes them.
fn pools() -> Case {
    let name = "preflight-pools";
    let status = json!({
        "versions": [{"name": "operator", "version": TARGET}],
        "extension": {
            "master": "all 3 nodes are at latest configuration rendered-master-1", "lastSyncError": "x",
            "worker": "<unknown>",
            "infra": "1 (ready 1) out of 3 nodes are updating to latest configuration rendered-infra-1",
            "gpu": "all 2 nodes are at latest configuration rendered-gpu-1",
            "app": "pool is degraded because nodes fail with \"1 nodes are reporting degraded status on sync\"",
        },
    });
    let read = reading(
        strategy(name, &json!({"type": "ReadOnly"})),
        &[rule(0, &pools_rule())],
    );
    Case::new(name, vec![Work(work(&[named(name)], &[read]))]).on(vec![told(name, &status)])
}

/// A pool that does not say whether it is paused, that is paused, with nodes and without, and that is not.
fn paused_pool() -> Case {
    let name = "preflight-paused-pool";
    let pool = |spec: &Value, nodes: i64| {
        let mut pool = widget(name, spec);
        pool["status"] = json!({"machineCount": nodes});
        pool
    };
    let read = reading(
        strategy(name, &json!({"type": "ReadOnly"})),
        &[rule(0, &paused_rule())],
    );
    let (paused, resumed) = (json!({"paused": true}), json!({"paused": false}));
    let places = [(&paused, 3), (&paused, 0), (&resumed, 3)];
    let places = places.map(|(spec, nodes)| super::Step::Place(pool(spec, nodes)));
    let mut all = vec![Work(work(&[named(name)], &[read]))];
    all.extend(places);
    Case::new(name, all).on(vec![pool(&json!({}), 3)])
}

/// The feature gates of a cluster, which are told for each version that it has come through.
fn feature_gates(name: &'static str, has_some: bool) -> Case {
    let gates = |version: &str, enabled: &[&str]| {
        let enabled: Vec<Value> = enabled.iter().map(|gate| json!({"name": gate})).collect();
        json!({"version": version, "enabled": enabled, "disabled": [{"name": "Other"}]})
    };
    let all = json!({"featureGates": [
        gates("4.22.4", &["Another", "ClusterUpdateAcceptRisks"]),
        gates("4.22.3", &[]),
        gates("4.22.2", &["ClusterUpdateAcceptRisks"]),
        {"version": "4.22.1"},
    ]});
    let status = if has_some { all } else { json!({}) };
    let read = reading(
        strategy(name, &json!({"type": "ReadOnly"})),
        &[rule(0, &accept_rule())],
    );
    Case::new(name, vec![Work(work(&[named(name)], &[read]))]).on(vec![told(name, &status)])
}
