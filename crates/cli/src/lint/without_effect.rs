//! Settings that are valid and change nothing, so that their author probably meant something else.

use clusterversion::preflight::recipe::gate_prefix;
use serde_json::Value;

use super::schema::Problem;

/// Warns about each of them. `object`: as written, without defaults.
pub(super) fn settings(object: &Value) -> Vec<Problem> {
    let spec = &object["spec"];
    let mut found = Vec::new();
    let mut add = |field: &str, message: String| found.push(Problem::warning(field, message));
    let strategy = &spec["upgradeStrategy"];
    if !strategy["workerPoolsTimeout"].is_null() && strategy["workerPools"] != "Wait" {
        add(
            "spec.upgradeStrategy.workerPoolsTimeout",
            "has no effect, because nobody waits for worker pools; set workerPools to Wait, or remove it"
                .to_owned(),
        );
    }
    let checkpoints = strategy["approvals"].as_array().into_iter().flatten();
    for (index, _) in checkpoints
        .enumerate()
        .filter(|(_, checkpoint)| checkpoint["when"] == "100%")
    {
        add(
            &format!("spec.upgradeStrategy.approvals[{index}].when"),
            "has no effect, because all clusters start before anybody is asked; use a smaller share, a number of clusters or CanariesComplete"
                .to_owned(),
        );
    }
    let preflight = &spec["preflight"];
    let is_asked = preflight["mode"] == "Report" || preflight["mode"] == "Require";
    let has_ignored = preflight["ignore"]
        .as_array()
        .is_some_and(|list| !list.is_empty());
    for (field, is_set) in [
        ("ignore", has_ignored),
        ("unknownRisks", preflight["unknownRisks"] == "Accept"),
    ] {
        if is_set && !is_asked {
            add(
                &format!("spec.preflight.{field}"),
                "has no effect, because clusters are not asked; set mode to Report or Require, or remove it"
                    .to_owned(),
            );
        }
    }
    let target = &spec["clusterVersion"];
    let version = target["version"].as_str().unwrap_or_default();
    let acks = target["adminAcks"].as_array().into_iter().flatten();
    for (index, ack) in acks.enumerate() {
        let key = ack["key"].as_str().unwrap_or_default();
        if let Some(prefix) = gate_prefix(version).filter(|prefix| !key.starts_with(prefix.as_str())) {
            add(
                &format!("spec.clusterVersion.adminAcks[{index}].key"),
                format!(
                    "{key:?} is no gate of an update to {version}, whose keys begin with {prefix:?}; check version and key"
                ),
            );
        }
    }
    found
}
