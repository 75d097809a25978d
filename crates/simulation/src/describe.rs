//! Changes of the hub in words, for traces that people read.

use api::names::CLAIM_VERSION;
use hub_sim::{Change, Kind};
use serde_json::Value;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What a change says, for the kinds that matter.
#[must_use]
pub fn describe(kind: &Kind, change: &Change) -> String {
    let value = change.after.value();
    match kind.plural.as_str() {
        "managedclustersupgradereports" => rows(&value),
        "managedclustersupgrades" => upgrade(&value),
        "manifestworks" => work(&value),
        "managedclusters" => cluster(&value),
        "leases" => text(&value, "/spec/holderIdentity").to_owned(),
        "events" => format!("{}: {}", text(&value, "/reason"), text(&value, "/note")),
        _ => String::new(),
    }
}

/// The OpenShift version that a ManagedCluster claims; empty if it claims none.
#[must_use]
pub fn claimed_version(cluster: &Value) -> &str {
    let claims = cluster.pointer("/status/clusterClaims").and_then(Value::as_array);
    let mut claims = claims.into_iter().flatten();
    let claim = claims.find(|claim| text(claim, "/name") == CLAIM_VERSION);
    claim.map_or("", |claim| text(claim, "/value"))
}

fn cluster(cluster: &Value) -> String {
    format!(
        "name={} version={}",
        text(cluster, "/metadata/labels/name"),
        claimed_version(cluster)
    )
}

fn rows(report: &Value) -> String {
    let rows = report.get("rows").and_then(Value::as_array);
    let rows = rows.into_iter().flatten().map(|row| {
        let steps = row.get("steps").and_then(Value::as_array);
        let steps = steps.into_iter().flatten().map(|step| {
            let began = text(step, "/startedAt").get(14..23).unwrap_or_default();
            format!(" {}@{began}{}", text(step, "/name"), text(step, "/outcome"))
        });
        format!(
            "{} {}({}){} {} {}",
            text(row, "/cluster"),
            text(row, "/phase"),
            text(row, "/reason"),
            steps.collect::<String>(),
            text(row, "/revision").get(..4).unwrap_or_default(),
            text(row, "/retry"),
        )
    });
    rows.collect::<Vec<_>>().join(" | ")
}

fn upgrade(upgrade: &Value) -> String {
    let conditions = upgrade.pointer("/status/conditions").and_then(Value::as_array);
    let conditions = conditions
        .into_iter()
        .flatten()
        .filter(|one| text(one, "/status") == "True")
        .map(|one| format!(" {}({})", text(one, "/type"), text(one, "/reason")));
    format!(
        "generation {} {}{} waiting {}",
        upgrade.pointer("/metadata/generation").unwrap_or(&Value::Null),
        text(upgrade, "/status/state"),
        conditions.collect::<String>(),
        upgrade.pointer("/status/waitingClusters").unwrap_or(&Value::Null),
    )
}

/// What a status says about those who wait.
#[must_use]
pub fn brief(upgrade: &Value) -> String {
    let waiting = upgrade
        .pointer("/status/waitingClusters")
        .and_then(Value::as_array);
    let waiting = waiting.into_iter().flatten().map(|one| {
        let (name, phase, reason) = (text(one, "/name"), text(one, "/phase"), text(one, "/reason"));
        format!(" {name} {phase}({reason})")
    });
    format!("{}{}", upgrade["status"]["state"], waiting.collect::<String>())
}

fn work(work: &Value) -> String {
    let notes = work.pointer("/metadata/annotations").and_then(Value::as_object);
    let notes = notes.into_iter().flatten().map(|(name, value)| {
        let name = name.rsplit('/').next().unwrap_or_default();
        format!("{name}={} ", value.as_str().unwrap_or_default())
    });
    let manifests = work
        .pointer("/status/resourceStatus/manifests")
        .and_then(Value::as_array);
    let values = manifests
        .into_iter()
        .flatten()
        .filter_map(|manifest| manifest.pointer("/statusFeedback/values")?.as_array())
        .flatten()
        .filter(|value| matches!(text(value, "/name"), "version" | "state" | "JobSucceeded"))
        .map(|value| format!("{}={} ", text(value, "/name"), text(value, "/fieldValue/string")));
    notes
        .filter(|note| !note.contains("checks"))
        .chain(values)
        .collect()
}
