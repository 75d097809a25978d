//! The metrics that alerts and risks read, as samples.
//!
//! This module defines names, labels and values (`docs/design/cvo.md#metrics`). The caller serves them. A scrape configuration
//! must add the labels `job="cluster-version-operator"`, `endpoint="metrics"` and `namespace="openshift-cluster-version"`.

use std::collections::{BTreeMap, BTreeSet};

use clusterversion::types::{
    AVAILABLE, ClusterOperatorCondition, ClusterVersion, ConditionStatus, Conditions, FAILING, HistoryEntry,
    PARTIAL, RETRIEVED_UPDATES, Time,
};
use serde_json::Value;

use crate::upgradeable::OperatorState;

/// One sample of a gauge.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// Name of the metric.
    pub name: &'static str,
    /// Labels.
    pub labels: Vec<(&'static str, String)>,
    /// Value.
    pub value: f64,
}

/// What the metrics need besides the ClusterVersion.
#[derive(Clone, Copy, Debug)]
pub struct MetricsInput<'a> {
    /// Version and image of the running operator.
    pub running: (&'a str, &'a str),
    /// When that release was built.
    pub built: Option<Time>,
    /// The update service given by a flag.
    pub update_service: Option<&'a str>,
    /// When updates were last retrieved. See [`Memory::last_retrieval`](crate::step::Memory::last_retrieval).
    pub last_retrieval: Option<Time>,
    /// `ClusterOperators`.
    pub operators: &'a [OperatorState],
    /// Whether `cluster_version_risk_conditions` is served, which needs the feature gate.
    pub risks: bool,
    /// What installed the cluster.
    pub installer: Option<Installer<'a>>,
    /// Conditions of `ClusterOperators` that changed.
    pub transitions: &'a Transitions,
}

/// What installed the cluster, from the `ConfigMap` openshift-install in namespace openshift-config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installer<'a> {
    /// Version of the installer.
    pub version: &'a str,
    /// Who ran the installer, such as `user`.
    pub invoker: &'a str,
}

/// Counts how often conditions of `ClusterOperators` change their status. The counts are lost when the operator restarts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transitions {
    seen: BTreeMap<String, BTreeMap<String, ConditionStatus>>,
    counts: BTreeMap<(String, String), u32>,
}

impl Transitions {
    /// Compares the operators with the previous call. Conditions that are new or gone do not count as changes.
    pub fn observe(&mut self, operators: &[OperatorState]) {
        let mut now = BTreeMap::new();
        for operator in operators {
            let statuses: BTreeMap<String, ConditionStatus> = operator
                .conditions
                .iter()
                .map(|condition| (condition.kind.clone(), condition.status))
                .collect();
            if let Some(before) = self.seen.get(&operator.name) {
                let kinds: BTreeSet<&String> = before.keys().chain(statuses.keys()).collect();
                for kind in kinds {
                    if before.get(kind) != statuses.get(kind) {
                        let key = (operator.name.clone(), kind.clone());
                        *self.counts.entry(key).or_insert(0) += 1;
                    }
                }
            }
            now.insert(operator.name.clone(), statuses);
        }
        self.seen = now;
    }

    fn samples(&self) -> impl Iterator<Item = MetricSample> {
        self.counts.iter().map(|((name, kind), count)| {
            let labels = [("name", name.as_str()), ("condition", kind.as_str())];
            sample(
                "cluster_operator_condition_transitions",
                labels,
                f64::from(*count),
            )
        })
    }
}

const UP: &str = "cluster_operator_up";

fn sample<const N: usize>(name: &'static str, labels: [(&'static str, &str); N], value: f64) -> MetricSample {
    MetricSample {
        name,
        labels: labels.map(|(key, value)| (key, value.to_owned())).into(),
        value,
    }
}

#[expect(clippy::cast_precision_loss, reason = "seconds since 1970 are far below 2^52")]
fn seconds(at: Option<Time>) -> f64 {
    at.map_or(0.0, |at| at.timestamp() as f64)
}

fn truth(condition: &ClusterOperatorCondition) -> Option<f64> {
    if condition.is_true() {
        Some(1.0)
    } else {
        condition.is_false().then_some(0.0)
    }
}

/// All samples. Without a ClusterVersion, those that report that it is missing.
#[must_use]
pub fn samples(object: Option<&ClusterVersion>, shown: &MetricsInput<'_>) -> Vec<MetricSample> {
    let mut samples = Vec::new();
    let completed = object.and_then(|object| object.status.history.iter().find(|entry| entry.is_completed()));
    let completed_version = completed.map_or("", |entry| entry.version.as_str());
    if let Some(object) = object {
        of_object(object, completed, shown, &mut samples);
    } else {
        let labels = [
            ("name", "version"),
            ("version", ""),
            ("reason", "ClusterVersionNotFound"),
        ];
        samples.push(sample(UP, labels, 0.0));
        let labels = [
            ("name", "version"),
            ("condition", AVAILABLE),
            ("reason", "ClusterVersionNotFound"),
        ];
        samples.push(sample("cluster_operator_conditions", labels, 0.0));
    }
    let (version, image) = shown.running;
    samples.push(release(
        "current",
        version,
        image,
        completed_version,
        seconds(shown.built),
    ));
    for operator in shown.operators {
        let available = operator.conditions.get(AVAILABLE);
        let reason = available.map_or("NoAvailableCondition", |condition| condition.reason.as_str());
        let up = if available.is_some_and(ClusterOperatorCondition::is_true) {
            1.0
        } else {
            0.0
        };
        let labels = [
            ("name", operator.name.as_str()),
            ("version", operator.version.as_str()),
            ("reason", reason),
        ];
        samples.push(sample(UP, labels, up));
        conditions(&operator.name, &operator.conditions, &mut samples);
    }
    samples.extend(shown.transitions.samples());
    // Without the ConfigMap the labels are empty.
    let (kind, version, invoker) = shown.installer.map_or(("", "", ""), |installer| {
        ("openshift-install", installer.version, installer.invoker)
    });
    let labels = [("type", kind), ("version", version), ("invoker", invoker)];
    samples.push(sample("cluster_installer", labels, 1.0));
    if let Some(at) = shown.last_retrieval {
        let name = "cluster_version_operator_update_retrieval_timestamp_seconds";
        samples.push(sample(name, [("name", "")], seconds(Some(at))));
    }
    samples
}

fn release(kind: &str, version: &str, image: &str, from: &str, value: f64) -> MetricSample {
    let labels = [
        ("type", kind),
        ("version", version),
        ("image", image),
        ("from_version", from),
    ];
    sample("cluster_version", labels, value)
}

fn conditions(name: &str, conditions: &Conditions, samples: &mut Vec<MetricSample>) {
    samples.extend(conditions.iter().filter_map(|condition| {
        let labels = [
            ("name", name),
            ("condition", condition.kind.as_str()),
            ("reason", condition.reason.as_str()),
        ];
        truth(condition).map(|value| sample("cluster_operator_conditions", labels, value))
    }));
}

fn of_object(
    object: &ClusterVersion,
    completed: Option<&HistoryEntry>,
    shown: &MetricsInput<'_>,
    samples: &mut Vec<MetricSample>,
) {
    let status = &object.status;
    releases(object, completed, shown, samples);
    let retrieved = status.conditions.is_true(RETRIEVED_UPDATES);
    if !object.spec.upstream.is_empty() || !status.available_updates.is_empty() || retrieved {
        let upstream = match (shown.update_service, object.spec.upstream.as_str()) {
            (Some(flag), _) => flag,
            (None, "") => "<default>",
            (None, upstream) => upstream,
        };
        let labels = [("upstream", upstream), ("channel", object.spec.channel.as_str())];
        let count = u32::try_from(status.available_updates.len()).unwrap_or(u32::MAX);
        samples.push(sample(
            "cluster_version_available_updates",
            labels,
            f64::from(count),
        ));
    }
    let version = completed.map_or("", |entry| entry.version.as_str());
    if let Some(available) = status.conditions.get(AVAILABLE)
        && let Some(up) = truth(available)
    {
        let labels = [
            ("name", "version"),
            ("version", version),
            ("reason", available.reason.as_str()),
        ];
        samples.push(sample(UP, labels, up));
    }
    conditions("version", &status.conditions, samples);
    for update in &status.conditional_updates {
        for condition in &update.conditions {
            let labels = [
                ("version", update.release.version.as_str()),
                ("condition", condition.kind.as_str()),
                ("status", condition.status.as_str()),
                ("reason", condition.reason.as_str()),
            ];
            let name = "cluster_version_conditional_update_condition_seconds";
            samples.push(sample(name, labels, seconds(condition.last_transition_time)));
        }
    }
    for risk in status.conditional_update_risks.iter().filter(|_| shown.risks) {
        for condition in &risk.conditions {
            let labels = [
                ("condition", condition.kind.as_str()),
                ("risk", risk.name.as_str()),
                ("reason", condition.reason.as_str()),
            ];
            let value = truth(condition).unwrap_or(-1.0);
            samples.push(sample("cluster_version_risk_conditions", labels, value));
        }
    }
    capabilities(object, samples);
}

fn releases(
    object: &ClusterVersion,
    completed: Option<&HistoryEntry>,
    shown: &MetricsInput<'_>,
    samples: &mut Vec<MetricSample>,
) {
    let status = &object.status;
    let (version, image) = shown.running;
    let from = completed.map_or("", |entry| entry.version.as_str());
    if let Some(entry) = completed {
        let mut older = status
            .history
            .iter()
            .skip_while(|other| !std::ptr::eq(*other, entry))
            .skip(1);
        let before = older
            .find(|other| other.is_completed())
            .map_or("", |other| other.version.as_str());
        let at = seconds(entry.completion_time);
        samples.push(release("completed", &entry.version, &entry.image, before, at));
    }
    let created = object
        .metadata
        .other
        .get("creationTimestamp")
        .and_then(Value::as_str);
    let created = created.and_then(|text| text.parse::<Time>().ok());
    let (first, first_image) = status
        .history
        .last()
        .map_or(("", ""), |entry| (entry.version.as_str(), entry.image.as_str()));
    samples.push(release("initial", first, first_image, "", seconds(created)));
    let installed = if completed.is_some() { first } else { "" };
    samples.push(release("cluster", version, image, installed, seconds(created)));
    let desired = object
        .spec
        .desired_update
        .as_ref()
        .filter(|update| update.image != image);
    if let Some(update) = desired {
        let times = status
            .history
            .iter()
            .flat_map(|entry| [entry.started_time, entry.completion_time]);
        let newest = times.flatten().max().or(created);
        samples.push(release(
            "desired",
            &update.version,
            &update.image,
            from,
            seconds(newest),
        ));
    }
    if let Some(failing) = status
        .conditions
        .get(FAILING)
        .filter(|condition| condition.is_true())
    {
        let (version, image) = desired.map_or((version, image), |update| {
            (update.version.as_str(), update.image.as_str())
        });
        samples.push(release(
            "failure",
            version,
            image,
            from,
            seconds(failing.last_transition_time),
        ));
    }
    if let Some(entry) = status.history.first().filter(|entry| entry.state == PARTIAL) {
        let at = seconds(entry.started_time);
        samples.push(release("updating", &entry.version, &entry.image, from, at));
    }
}

fn capabilities(object: &ClusterVersion, samples: &mut Vec<MetricSample>) {
    let list = |key: &str| {
        let names = object
            .status
            .other
            .get("capabilities")
            .and_then(|all| all.get(key));
        let names = names.and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let enabled = list("enabledCapabilities");
    let known = list("knownCapabilities");
    let all = known
        .iter()
        .chain(enabled.iter().filter(|name| !known.contains(name)));
    samples.extend(all.map(|name| {
        let value = if enabled.contains(name) { 1.0 } else { 0.0 };
        sample("cluster_version_capability", [("name", *name)], value)
    }));
}

#[cfg(test)]
mod tests;
