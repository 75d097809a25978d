//! What the law is told of the cluster, read from its objects.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use clusterversion::ClusterVersion;
use clusterversion::failure::{ManifestProblem, OperatorProblem, TaskError};
use clusterversion::gates::ConfigMap;
use clusterversion::progressing::{Round, RoundState};
use clusterversion::types::Conditions;
use clusterversion::upgradeable::OperatorState;
use serde_json::{Value, json};

use super::apply::{Problem, Progress};
use crate::fields::{self, Time};
use crate::spoke::fault::Faults;
use crate::spoke::mirror::Mirror;
use crate::spoke::rollout::operators::{Statuses, find};

/// How long the update that runs has been running.
pub(super) fn updating_for(object: &ClusterVersion, now: Time) -> Option<TimeDelta> {
    let first = object
        .status
        .history
        .first()
        .filter(|entry| !entry.is_completed())?;
    Some(now - first.started_time?)
}

/// A round of the apply loop.
pub(super) fn round(
    generation: i64,
    image: &str,
    progress: &Progress,
    statuses: &Statuses,
    faults: &Faults,
    now: Time,
) -> Round {
    let mut errors: Vec<TaskError> = progress
        .waiting
        .iter()
        .map(|waiting| TaskError::Operator {
            name: waiting.name.clone(),
            problem: match waiting.problem {
                Problem::NoVersions => OperatorProblem::NoVersions,
                Problem::NotAvailable => OperatorProblem::NotAvailable,
                Problem::Degraded => OperatorProblem::Degraded,
                Problem::Updating => OperatorProblem::Updating,
            },
            since: waiting.since,
        })
        .collect();
    if !progress.completed && is_down(statuses, faults, now) {
        errors.push(TaskError::Manifest {
            problem: ManifestProblem::ClusterDown,
            task: format!(
                "deployment \"openshift-kube-controller-manager-operator/kube-controller-manager-operator\" ({} of {})",
                progress.done + 1,
                progress.total
            ),
            error: "connect: connection refused".to_owned(),
        });
    }
    Round {
        image: image.to_owned(),
        generation,
        state: if progress.completed {
            RoundState::Reconciling
        } else {
            RoundState::Updating
        },
        done: progress.done,
        total: progress.total,
        version_hash: String::new(),
        completed: progress.completed,
        errors,
    }
}

/// Whether the API servers rolled just now and the apply loop cannot reach them.
fn is_down(statuses: &Statuses, faults: &Faults, now: Time) -> bool {
    let Some(span) = faults.cluster_down() else {
        return false;
    };
    let rolled = statuses
        .get("kube-apiserver")
        .and_then(|status| find(status, "Progressing"))
        .filter(|condition| fields::text(condition, &["status"]) == "False")
        .and_then(|condition| fields::parse_timestamp(fields::text(condition, &["lastTransitionTime"])));
    rolled.is_some_and(|at| now >= at && now < at + span)
}

/// The operators with their conditions, from their objects.
pub fn operators(objects: &[Value]) -> Vec<OperatorState> {
    objects
        .iter()
        .map(|object| {
            let version = fields::list(object, &["status", "versions"])
                .iter()
                .find(|entry| fields::text(entry, &["name"]) == "operator");
            let conditions = object["status"]["conditions"].clone();
            OperatorState {
                name: fields::text(object, &["metadata", "name"]).to_owned(),
                conditions: Conditions(serde_json::from_value(conditions).unwrap_or_default()),
                version: version
                    .map_or("", |entry| fields::text(entry, &["version"]))
                    .to_owned(),
            }
        })
        .collect()
}

/// A `ConfigMap` as the law wants it.
pub(super) fn config_map(mirror: &Mirror, namespace: &str, name: &str) -> ConfigMap {
    match mirror.get(Some(namespace), name) {
        None => ConfigMap::Missing,
        Some(object) => {
            let data = object
                .get("data")
                .and_then(Value::as_object)
                .into_iter()
                .flatten();
            let pairs = data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
            ConfigMap::of(pairs)
        }
    }
}

/// `admin-gates` with these keys.
pub fn admin_gates(keys: &BTreeMap<String, String>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "admin-gates", "namespace": "openshift-config-managed"},
        "data": keys,
    })
}

/// `admin-acks`, empty.
pub fn admin_acks() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "admin-acks", "namespace": "openshift-config",
                     "annotations": {"release.openshift.io/create-only": "true"}},
    })
}
