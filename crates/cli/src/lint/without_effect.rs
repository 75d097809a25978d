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
    if strategy["workerPools"] == "Wait" && spec["clusterVersion"].is_null() {
        add(
            "spec.upgradeStrategy.workerPools",
            "has no effect without spec.clusterVersion, because no cluster gets a new version; remove it"
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
    found.extend(of_the_request(spec));
    found.extend(without_windows(spec));
    found
}

/// Settings of windows where there are none: clusters start at any time, which their author hardly means.
fn without_windows(spec: &Value) -> Vec<Problem> {
    let maintenance = &spec["maintenance"];
    let is_empty = |list: &str| maintenance[list].as_array().is_none_or(Vec::is_empty);
    if !(is_empty("windows") && is_empty("exclusions")) {
        return Vec::new();
    }
    let set = ["minimumRemaining", "timeZoneFrom"].into_iter();
    let set = set.filter(|field| !maintenance[*field].is_null());
    set.map(|field| {
        Problem::warning(
            format!("spec.maintenance.{field}"),
            "has no effect without spec.maintenance.windows and exclusions, because clusters then start at any time; add windows, or remove it",
        )
    })
    .collect()
}

/// Settings that the form of the request makes useless: a cluster checks a request by image neither against the updates that it offers nor
/// for their risks, and offers no older version to be requested without one.
fn of_the_request(spec: &Value) -> Vec<Problem> {
    let (preflight, target) = (&spec["preflight"], &spec["clusterVersion"]);
    let is_set = |field: &str| target[field].as_str().is_some_and(|text| !text.is_empty());
    let mut found = Vec::new();
    if is_set("image") {
        let by_image =
            "has no effect with spec.clusterVersion.image, because a cluster checks such a request";
        if preflight["unknownRisks"] == "Accept" {
            found.push(Problem::warning(
                "spec.preflight.unknownRisks",
                format!("{by_image} for no risks; remove one of them"),
            ));
        }
        let ignored = preflight["ignore"].as_array().into_iter().flatten();
        for (index, _) in ignored
            .enumerate()
            .filter(|(_, name)| **name == "CannotRetrieveUpdates")
        {
            found.push(Problem::warning(
                format!("spec.preflight.ignore[{index}]"),
                format!("{by_image} against no list of updates; remove it"),
            ));
        }
    } else if is_set("version") && target["allowDowngrade"] == true && preflight["mode"] == "Require" {
        found.push(Problem::warning(
            "spec.clusterVersion.allowDowngrade",
            "has no effect with spec.preflight.mode Require, because a cluster that runs a newer version does not offer this one and stays Blocked (NotOffered); name the release by spec.clusterVersion.image as well, or remove it",
        ));
    }
    found
}
