//! What is known of a scenario as text, for the message of a test that failed: the last statuses, then every change
//! of upgrades, reports and works in the order it was seen.

use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::view::{Kind, Known};

/// Clusters whose changes are shown; larger fleets would bury the message.
const MAX_CLUSTERS: usize = 8;
/// Changes that are shown, the latest ones.
const MAX_CHANGES: usize = 150;
/// Rows of a report that are shown.
const MAX_ROWS: usize = 20;

/// See the module.
#[must_use]
pub fn of(known: &Known, namespace: &str, clusters: &[String]) -> String {
    let mut lines = Vec::new();
    for upgrade in known.in_namespace(Kind::Upgrade, namespace) {
        let name = upgrade["metadata"]["name"].as_str().unwrap_or_default();
        lines.push(format!(
            "upgrade {name} generation {}",
            upgrade["metadata"]["generation"]
        ));
        lines.push(format!("{:#}", brief_status(&upgrade["status"])));
        let broken = known.broken(namespace, name).iter();
        lines.extend(broken.map(|rule| format!("BROKEN {rule}")));
    }
    let mut changes: Vec<(DateTime<Utc>, String)> = Vec::new();
    for kind in [Kind::Upgrade, Kind::Report, Kind::Work] {
        let ours = |own: &str| match kind {
            Kind::Upgrade | Kind::Report => own == namespace,
            Kind::Work => clusters.iter().take(MAX_CLUSTERS).any(|cluster| cluster == own),
        };
        for ((_, name), track) in known.tracks(kind).filter(|((own, _), _)| ours(own)) {
            let told = track
                .versions
                .iter()
                .map(|(at, raw)| (*at, format!("{name} {}", told(kind, raw))));
            changes.extend(told);
            changes.extend(track.gone.iter().map(|at| (*at, format!("{name} is gone"))));
        }
    }
    changes.sort_by_key(|(at, _)| *at);
    let skipped = changes.len().saturating_sub(MAX_CHANGES);
    lines.push(format!("{} changes, {skipped} of them not shown:", changes.len()));
    let shown = changes.into_iter().skip(skipped);
    lines.extend(shown.map(|(at, what)| format!("{} {what}", at.format("%H:%M:%S%.3f"))));
    lines.join("\n")
}

fn told(kind: Kind, raw: &Value) -> String {
    let version = raw["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let text = match kind {
        Kind::Upgrade => tell_upgrade(raw),
        Kind::Report => tell_report(raw),
        Kind::Work => tell_work(raw),
    };
    format!("@{version} {text}")
}

fn tell_upgrade(raw: &Value) -> String {
    let status = &raw["status"];
    let counts = &status["clustersSummery"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let holding: Vec<&str> = conditions
        .filter(|one| one["status"] == "True")
        .filter_map(|one| one["type"].as_str())
        .collect();
    format!(
        "generation {}/{} deleted {} retry {} in flight {}/{} counts {counts} True: {}",
        raw["metadata"]["generation"],
        status["observedGeneration"],
        raw["metadata"]["deletionTimestamp"],
        status["observedRetry"],
        status["inFlight"],
        status["effectiveMaxConcurrency"],
        holding.join(" "),
    )
}

fn tell_report(raw: &Value) -> String {
    let rows = raw["rows"].as_array().into_iter().flatten().take(MAX_ROWS);
    let rows: Vec<String> = rows
        .map(|row| {
            let part = |key: &str| row[key].as_str().unwrap_or_default();
            let steps: Vec<String> = row["steps"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|step| {
                    let part = |key: &str| step[key].as_str().unwrap_or("-");
                    format!("{} {}..{}", part("name"), part("startedAt"), part("finishedAt"))
                })
                .collect();
            format!(
                "\n    {} {} {} since {} retry {:?} [{}] {}",
                part("cluster"),
                part("phase"),
                part("reason"),
                part("since"),
                part("retry"),
                steps.join(", "),
                part("message"),
            )
        })
        .collect();
    rows.concat()
}

fn tell_work(raw: &Value) -> String {
    let metadata = &raw["metadata"];
    let notes: Vec<String> = metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let short = key.strip_prefix("cluster.open-cluster-management.io/")?;
            Some(format!(
                "{}={}",
                short.strip_prefix("upgrade-").unwrap_or(short),
                value.as_str()?
            ))
        })
        .collect();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let values: Vec<String> = list(&raw["status"]["resourceStatus"]["manifests"])
        .iter()
        .flat_map(|manifest| list(&manifest["statusFeedback"]["values"]))
        .map(|value| {
            format!(
                "{}:{}",
                value["name"].as_str().unwrap_or_default(),
                value["fieldValue"]
            )
        })
        .collect();
    format!(
        "uid {} generation {} deleted {} {} | {} {}",
        metadata["uid"].as_str().unwrap_or_default(),
        metadata["generation"],
        metadata["deletionTimestamp"],
        notes.join(" "),
        conditions(&raw["status"]),
        values.join(" "),
    )
}

/// Types and statuses of a status' conditions, in one line.
#[must_use]
pub fn conditions(status: &Value) -> String {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let told: Vec<String> = conditions
        .map(|one| {
            format!(
                "{}={}",
                one["type"].as_str().unwrap_or_default(),
                one["status"].as_str().unwrap_or_default()
            )
        })
        .collect();
    told.join(" ")
}

/// A status without the noise of its conditions.
fn brief_status(status: &Value) -> Value {
    let mut brief = status.clone();
    let conditions: Vec<Value> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            let part = |key: &str| one[key].as_str().unwrap_or_default();
            json!(["type", "status", "reason", "message"].map(part).join(" "))
        })
        .collect();
    brief["conditions"] = Value::Array(conditions);
    brief
}
