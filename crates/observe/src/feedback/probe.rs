//! Reads the status of a probe: what its cluster says to the planned update (`docs/design/preflight.md#the-probe`).
//!
//! All values come from the cluster. What is missing, or has another form, is not known; it is never taken for a good answer.

use api::lenient::Lenient;
use api::views::{Condition, ManifestStatus, ManifestWork, WorkStatus, condition};
use clusterversion::Era;
use clusterversion::feedback::{Feedback, ReportedValue};
use clusterversion::gates::{ACKS, GATES};
use clusterversion::preflight::pools;
use clusterversion::preflight::recipe::{self, PathValues};
use clusterversion::preflight::{Fact, Facts, Gate, Health, Missing, Offer, Pools};
use clusterversion::types::{ClusterOperatorCondition, ConditionStatus};

use super::platform::typed;
use super::{WorkStatusView, asked_in, is_a, named};

/// Reads what a probe has found out.
#[must_use]
pub fn read(work: &ManifestWork) -> Facts {
    let status = match &work.status {
        Lenient::Good(status) if *status != WorkStatus::default() => status,
        Lenient::Good(_) | Lenient::Absent => return Facts::missing(&Missing::Pending),
        Lenient::Broken(error) => {
            let text = format!("The status of the ManifestWork cannot be read: {error}");
            return Facts::missing(&Missing::Unsupported(text));
        }
    };
    let seen = WorkStatusView {
        work,
        status,
        generation: asked_in(work),
    };
    if !seen.current() {
        return Facts::missing(&Missing::Pending);
    }
    let version = find(
        &seen,
        ("config.openshift.io", "ClusterVersion", "clusterversions"),
        ("", "version"),
    );
    let gates = find(&seen, ("", "ConfigMap", "configmaps"), GATES);
    let acks = find(&seen, ("", "ConfigMap", "configmaps"), ACKS);
    let mut facts = match Object::of(version) {
        Object::Found(manifest) => of_cluster_version(manifest),
        Object::Missing => Facts::missing(&Missing::Unsupported(
            "The cluster has no ClusterVersion, so it is not OpenShift".to_owned(),
        )),
        Object::Unknown(why) => Facts::missing(&why),
    };
    let (gates, acks) = (Object::of(gates), Object::of(acks));
    facts.all_gates = stored_gates(&gates).and_then(|told| recipe::read_all_gates(&told));
    facts.gates = gates_of(&gates, &acks);
    let operator = find(
        &seen,
        ("config.openshift.io", "ClusterOperator", "clusteroperators"),
        ("", "machine-config"),
    );
    let worker = find(
        &seen,
        (
            "machineconfiguration.openshift.io",
            "MachineConfigPool",
            "machineconfigpools",
        ),
        ("", pools::WORKER),
    );
    facts.pools = pools_of(Object::of(operator)).and_then(|told| with_worker(told, worker));
    let gate = find(
        &seen,
        ("config.openshift.io", "FeatureGate", "featuregates"),
        ("", "cluster"),
    );
    facts.accepts_risks = accepts_risks(gate, &facts.current);
    facts
}

/// An object on the cluster.
enum Object<'a> {
    /// It is there, and this is what was reported of it.
    Found(&'a ManifestStatus),
    /// It does not exist.
    Missing,
    /// It is not known.
    Unknown(Missing),
}

impl<'a> Object<'a> {
    fn of(manifest: Option<&'a ManifestStatus>) -> Self {
        let Some(manifest) = manifest else {
            return Object::Unknown(Missing::Pending);
        };
        let get = |kind| condition(&manifest.conditions, kind);
        // Applied tells only that the cluster has the kind. What was reported of an object before it became unavailable stays.
        match (get("Applied"), get("Available")) {
            (Some(applied), _) if applied.status == "False" => Object::Unknown(refused(manifest, applied)),
            (_, Some(available)) if available.status == "True" => Object::Found(manifest),
            (_, Some(available)) if available.status == "False" => Object::Missing,
            (_, Some(available)) => Object::Unknown(refused(manifest, available)),
            (_, None) => Object::Unknown(Missing::Pending),
        }
    }
}

fn find<'a>(
    seen: &WorkStatusView<'a>,
    (group, kind, resource): (&str, &str, &str),
    (namespace, name): (&str, &str),
) -> Option<&'a ManifestStatus> {
    seen.status.resource_status.manifests.iter().find(|manifest| {
        let meta = &manifest.resource_meta;
        is_a(manifest, group, kind, resource) && meta.name == name && meta.namespace == namespace
    })
}

/// Why an object cannot be read.
fn refused(manifest: &ManifestStatus, condition: &Condition) -> Missing {
    let text = format!("{}: {}", named(manifest), condition.message);
    if condition.message.contains("forbidden") {
        Missing::Forbidden(text)
    } else if condition
        .message
        .contains("the server doesn't have a resource type")
    {
        Missing::Unsupported(text)
    } else {
        Missing::Pending
    }
}

fn of_cluster_version(manifest: &ManifestStatus) -> Facts {
    let values = manifest.status_feedback.values.iter();
    let values =
        values.filter_map(|value| Some((value.name.as_str(), shortened(typed(&value.field_value)?))));
    let (feedback, paths): (Feedback<'_>, PathValues<'_>) = (values.clone().collect(), values.collect());
    let current = feedback
        .desired_version
        .filter(|version| clusterversion::version::parse(version).is_some());
    // A path without a result looks like one that was not evaluated, so an answer without a version tells nothing.
    let Some(current) = current else {
        return Facts::missing(&Missing::Pending);
    };
    Facts {
        current: Ok(current.to_owned()),
        channel: Ok(paths.channel.unwrap_or_default().to_owned()),
        health: Ok(health(&feedback, &paths, current)),
        offer: offer(manifest, &paths),
        history: answer(manifest, recipe::HISTORY)
            .unwrap_or_else(|| Err(no_rules()))
            .and_then(recipe::read_history),
        ..Facts::missing(&Missing::Unsupported("The probe does not ask for it".to_owned()))
    }
}

/// Longest text of a value that is kept, in bytes: what a condition says is cut later on, when it is told.
const MAX_VALUE: usize = 4096;

fn shortened(value: ReportedValue<'_>) -> ReportedValue<'_> {
    match value {
        ReportedValue::Text(text) => ReportedValue::Text(&text[..text.floor_char_boundary(MAX_VALUE)]),
        other => other,
    }
}

fn health(feedback: &Feedback<'_>, paths: &PathValues<'_>, current: &str) -> Health {
    let condition = |kind: &str, [status, reason, message]: [Option<&str>; 3]| {
        status.map(|status| ClusterOperatorCondition {
            kind: kind.to_owned(),
            status: match status {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            },
            reason: reason.unwrap_or_default().to_owned(),
            message: message.unwrap_or_default().to_owned(),
            ..ClusterOperatorCondition::default()
        })
    };
    let of = feedback;
    let failing = [of.failing, of.failing_reason, of.failing_message];
    let upgradeable = [of.upgradeable, of.upgradeable_reason, of.upgradeable_message];
    let retrieved = [
        of.retrieved_updates,
        of.retrieved_updates_reason,
        of.retrieved_updates_message,
    ];
    Health {
        progressing: condition("Progressing", [paths.progressing, None, of.message]),
        failing: condition("Failing", failing),
        retrieved: condition("RetrievedUpdates", retrieved),
        upgradeable: condition("Upgradeable", upgradeable),
        blocks_patch_updates: paths.overrides.is_some() && Era::of(current).overrides_block_patches(),
    }
}

/// The message of a rule. An error of the rule has the status False.
fn answer<'a>(manifest: &'a ManifestStatus, rule: &str) -> Option<Fact<&'a str>> {
    condition(&manifest.conditions, rule).map(|told| match told.status.as_str() {
        "True" => Ok(told.message.as_str()),
        _ => Err(Missing::Unsupported(format!(
            "The agent could not evaluate {rule}: {}",
            told.message
        ))),
    })
}

fn offer(manifest: &ManifestStatus, paths: &PathValues<'_>) -> Fact<Offer> {
    match answer(manifest, recipe::OFFER) {
        Some(message) => recipe::read_offer(message?),
        None => paths.offer().ok_or_else(no_rules),
    }
}

fn no_rules() -> Missing {
    Missing::Unsupported("The agent evaluates no rules, which it does from version 1.0 of OCM on".to_owned())
}

fn pools_of(operator: Object<'_>) -> Fact<Pools> {
    match operator {
        Object::Found(manifest) => answer(manifest, pools::POOLS)
            .unwrap_or_else(|| Err(no_rules()))
            .and_then(pools::read_pools),
        Object::Missing => Err(Missing::Unsupported(
            "The cluster has no ClusterOperator machine-config, so it tells nothing of its worker pools"
                .to_owned(),
        )),
        Object::Unknown(why) => Err(why),
    }
}

/// Clusters are asked for the pool only before their update.
fn with_worker(told: Pools, worker: Option<&ManifestStatus>) -> Fact<Pools> {
    let worker_is_paused = match worker.map(|manifest| Object::of(Some(manifest))) {
        None | Some(Object::Missing) => false,
        Some(Object::Found(manifest)) => answer(manifest, pools::PAUSED)
            .unwrap_or_else(|| Err(no_rules()))
            .and_then(pools::read_paused)?,
        Some(Object::Unknown(why)) => return Err(why),
    };
    Ok(Pools {
        worker_is_paused,
        ..told
    })
}

/// Clusters are asked for it only where risks are to be accepted.
fn accepts_risks(gate: Option<&ManifestStatus>, current: &Fact<String>) -> Fact<bool> {
    let current = current.as_ref().map_err(Clone::clone)?;
    match Object::of(gate) {
        Object::Found(manifest) => answer(manifest, recipe::ACCEPT)
            .unwrap_or_else(|| Err(no_rules()))
            .and_then(|message| recipe::read_accept(message, current)),
        Object::Missing => Ok(false),
        Object::Unknown(why) => Err(why),
    }
}

/// The message of a rule about a `ConfigMap`; `None` if there is no such map.
fn keys_of(map: &Object<'_>, rule: &str) -> Fact<Option<String>> {
    match map {
        Object::Found(manifest) => answer(manifest, rule)
            .unwrap_or_else(|| Err(no_rules()))
            .map(|message| Some(message.to_owned())),
        Object::Missing => Ok(None),
        Object::Unknown(why) => Err(why.clone()),
    }
}

/// The cluster-version operator creates the map of the gates; that of the acknowledgments may be missing.
fn stored_gates(gates: &Object<'_>) -> Fact<String> {
    keys_of(gates, recipe::GATES)?.ok_or(Missing::Pending)
}

fn gates_of(gates: &Object<'_>, acks: &Object<'_>) -> Fact<Vec<Gate>> {
    let gates = stored_gates(gates)?;
    recipe::read_gates(&gates, keys_of(acks, recipe::ACKS)?.as_deref())
}

#[cfg(test)]
mod tests;
