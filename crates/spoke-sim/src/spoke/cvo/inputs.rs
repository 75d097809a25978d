//! The inputs of the model, read from the objects of the cluster.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use clusterversion::ClusterVersion;
use clusterversion::gates::ConfigMap;
use cvo_model::failure::{ManifestProblem, TaskError};
use cvo_model::progressing::{Round, RoundState};
use serde_json::{Value, json};

use super::apply::Progress;
use super::operator_state::operator;
use crate::fault::Faults;
use crate::fields::{self, Time};
use crate::spoke::informer::Informer;
use crate::spoke::rollout::operators::{Statuses, find};

/// How long the current update has been running.
pub(super) fn updating_for(object: &ClusterVersion, now: Time) -> Option<TimeDelta> {
    let first = object
        .status
        .history
        .first()
        .filter(|entry| !entry.is_completed())?;
    Some(now - first.started_time?)
}

/// The state of the apply loop.
pub(super) fn round(generation: i64, image: &str, progress: &Progress, broken: &[Broken]) -> Round {
    let mut errors: Vec<TaskError> = progress
        .waiting
        .iter()
        .map(|waiting| TaskError::Operator {
            name: waiting.name.clone(),
            problem: waiting.problem,
            since: waiting.since,
        })
        .collect();
    if !progress.completed {
        errors.extend(broken.iter().map(|broken| broken.error(progress)));
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

/// A manifest that fails.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Broken {
    problem: ManifestProblem,
    /// When it stops failing.
    pub until: Time,
}

impl Broken {
    fn error(self, progress: &Progress) -> TaskError {
        let (name, ahead, error) = if self.problem == ManifestProblem::ClusterDown {
            (
                "openshift-kube-controller-manager-operator/kube-controller-manager-operator",
                1,
                "connect: connection refused",
            )
        } else {
            (
                "openshift-machine-api/machine-api-operator",
                2,
                "deployment openshift-machine-api/machine-api-operator is not available",
            )
        };
        TaskError::Manifest {
            problem: self.problem,
            task: format!(
                "deployment \"{name}\" ({} of {})",
                progress.done + ahead,
                progress.total
            ),
            error: error.to_owned(),
        }
    }
}

/// The manifests of a release that fail by a fault, for some time after the API servers rolled.
pub(super) fn broken(statuses: &Statuses, version: &str, faults: &Faults, now: Time) -> Vec<Broken> {
    let Some(rolled) = rolled(statuses, version) else {
        return Vec::new();
    };
    let spans = [
        (ManifestProblem::ClusterDown, faults.cluster_down()),
        (ManifestProblem::Failed, faults.apply_failing()),
    ];
    let all = spans.into_iter().filter_map(|(problem, span)| {
        let until = rolled + span?;
        Some(Broken { problem, until })
    });
    all.filter(|broken| (rolled..broken.until).contains(&now))
        .collect()
}

/// When the API servers rolled to a version; `None` while they report another version or are rolling.
fn rolled(statuses: &Statuses, version: &str) -> Option<Time> {
    const NAME: &str = "kube-apiserver";
    let status = statuses.get(NAME)?;
    let settled = find(status, "Progressing")
        .filter(|condition| fields::text(condition, &["status"]) == "False")
        .filter(|_| operator(NAME, status).version == version)?;
    fields::parse_timestamp(fields::text(settled, &["lastTransitionTime"]))
}

/// A `ConfigMap` in the form that the model needs.
pub(super) fn config_map(informer: &Informer, namespace: &str, name: &str) -> ConfigMap {
    match informer.get(Some(namespace), name) {
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

/// An empty `admin-acks`.
pub fn admin_acks() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "admin-acks", "namespace": "openshift-config",
                     "annotations": {"release.openshift.io/create-only": "true"}},
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{Cond, from_unix};
    use crate::spoke::rollout::operators::{new_status, put};

    #[test]
    fn errors_of_manifests_come_after_the_api_servers_rolled() {
        let rolled = from_unix(600);
        let mut status = new_status("4.14.1", from_unix(0));
        for (status_of, at) in [("True", from_unix(300)), ("False", rolled)] {
            let cond = Cond {
                kind: "Progressing",
                status: status_of,
                reason: "",
                message: "",
            };
            put(&mut status, cond, at);
        }
        let statuses = Statuses::from([("kube-apiserver".to_owned(), status)]);
        let problems_of = |version: &str, faults: &str, minutes: i64| {
            let progress = Progress {
                done: 110,
                total: 859,
                waiting: Vec::new(),
                completed: false,
                wake: None,
            };
            let now = rolled + TimeDelta::minutes(minutes);
            let broken = broken(&statuses, version, &faults.parse().unwrap(), now);
            let round = round(1, "image", &progress, &broken);
            round
                .errors
                .iter()
                .map(|error| match error {
                    TaskError::Manifest { problem, .. } => problem.reason(),
                    TaskError::Operator { .. } => "",
                })
                .collect::<Vec<_>>()
        };
        let problems = |faults: &str, minutes: i64| problems_of("4.14.1", faults, minutes);
        assert_eq!(
            problems_of("4.14.2", "cluster-down;apply-failing=for-ever", 1),
            Vec::<&str>::new(),
            "what rolled was the release before"
        );
        assert_eq!(problems("none", 1), Vec::<&str>::new());
        assert_eq!(problems("cluster-down", 1), ["UpdatePayloadClusterDown"]);
        assert_eq!(problems("apply-failing", 1), ["UpdatePayloadFailed"]);
        assert_eq!(
            problems("cluster-down;apply-failing=5m", 1),
            ["UpdatePayloadClusterDown", "UpdatePayloadFailed"]
        );
        assert_eq!(
            problems("cluster-down;apply-failing=5m", 4),
            ["UpdatePayloadFailed"]
        );
    }
}
