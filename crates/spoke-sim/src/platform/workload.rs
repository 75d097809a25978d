//! Deployments, `DaemonSets`, `StatefulSets`, `ReplicaSets` and Pods that become available after a while;
//! namespaces and custom resource definitions that are there at once.

use serde_json::{Value, json};

use super::controller::{Controller, ControllerContext};
use super::pace::scale;
use crate::fields::{self, Cond, Time, set_condition};
use crate::store::ObjectKey;

const KINDS: [(&str, &str); 7] = [
    ("apps", "deployments"),
    ("apps", "daemonsets"),
    ("apps", "statefulsets"),
    ("apps", "replicasets"),
    ("", "pods"),
    ("", "namespaces"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
];

/// Nodes of a simulated cluster that a `DaemonSet` runs on.
const NODES: i64 = 3;

/// The workload controllers and the kubelets.
#[derive(Clone, Debug, Default)]
pub struct Workloads(Vec<Known>);

#[derive(Clone, Debug)]
struct Known {
    key: ObjectKey,
    /// Of the object when it was last read.
    revision: u64,
    /// `metadata.generation` that is being rolled out.
    generation: i64,
    due: Option<Time>,
}

impl Controller for Workloads {
    fn advance(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
        let keys: Vec<ObjectKey> = KINDS
            .iter()
            .flat_map(|(group, resource)| context.store.keys_of(group, resource))
            .cloned()
            .collect();
        self.0.retain(|known| keys.contains(&known.key));
        for key in keys {
            let at = self
                .0
                .iter()
                .position(|known| known.key == key)
                .unwrap_or_else(|| {
                    self.0.push(Known {
                        key,
                        revision: 0,
                        generation: 0,
                        due: None,
                    });
                    self.0.len() - 1
                });
            let known = &mut self.0[at];
            let revision = context.store.revision_of(&known.key).unwrap_or(0);
            if known.revision == revision && known.due.is_none_or(|due| due > now) {
                continue;
            }
            let Some(live) = context.store.get(&known.key) else {
                continue;
            };
            let generation = fields::integer(&live, &["metadata", "generation"]).unwrap_or(1);
            let mut object = live.clone();
            if known.generation != generation {
                known.generation = generation;
                known.due = start(&known.key, &mut object, context, now);
            }
            if known.due.is_some_and(|due| due <= now) {
                known.due = None;
                finish(&known.key, &mut object, now);
            }
            if object != live {
                context.store.amend(&known.key, |stored| *stored = object);
            }
            known.revision = context.store.revision_of(&known.key).unwrap_or(0);
        }
        self.0.iter().filter_map(|known| known.due).min()
    }
}

/// What shows at once; returns when the rest does.
fn start(key: &ObjectKey, object: &mut Value, context: &ControllerContext<'_>, now: Time) -> Option<Time> {
    let generation = object["metadata"]["generation"].clone();
    match key.resource.as_ref() {
        "namespaces" => {
            fields::object_at(object, &["status"]).insert("phase".into(), "Active".into());
            return None;
        }
        "customresourcedefinitions" => {
            for kind in ["NamesAccepted", "Established"] {
                set_condition(
                    object,
                    Cond {
                        kind,
                        status: "True",
                        reason: "InitialNamesAccepted",
                        message: "",
                    },
                    now,
                );
            }
            return None;
        }
        "pods" => {
            fields::object_at(object, &["status"]).insert("phase".into(), "Pending".into());
        }
        "deployments" => {
            fields::object_at(object, &["status"]).insert("observedGeneration".into(), generation);
            let (reason, message) = (
                "MinimumReplicasUnavailable",
                "Deployment does not have minimum availability.",
            );
            set_condition(
                object,
                Cond {
                    kind: "Available",
                    status: "False",
                    reason,
                    message,
                },
                now,
            );
        }
        _ => {
            fields::object_at(object, &["status"]).insert("observedGeneration".into(), generation);
        }
    }
    Some(now + scale(context.pace.rollout, context.faults.slowness()))
}

fn finish(key: &ObjectKey, object: &mut Value, now: Time) {
    let replicas = json!(fields::integer(object, &["spec", "replicas"]).unwrap_or(1));
    let mut put = |names: &[&str], value: &Value| {
        let status = fields::object_at(object, &["status"]);
        for name in names {
            status.insert((*name).to_owned(), value.clone());
        }
    };
    match key.resource.as_ref() {
        "pods" => {
            put(&["phase"], &json!("Running"));
            set_condition(
                object,
                Cond {
                    kind: "Ready",
                    status: "True",
                    reason: "",
                    message: "",
                },
                now,
            );
        }
        "daemonsets" => put(
            &[
                "currentNumberScheduled",
                "desiredNumberScheduled",
                "numberReady",
                "numberAvailable",
                "updatedNumberScheduled",
            ],
            &json!(NODES),
        ),
        "deployments" => {
            put(
                &[
                    "replicas",
                    "updatedReplicas",
                    "readyReplicas",
                    "availableReplicas",
                ],
                &replicas,
            );
            let (reason, message) = ("MinimumReplicasAvailable", "Deployment has minimum availability.");
            set_condition(
                object,
                Cond {
                    kind: "Available",
                    status: "True",
                    reason,
                    message,
                },
                now,
            );
            let message = "ReplicaSet has successfully progressed.";
            let cond = Cond {
                kind: "Progressing",
                status: "True",
                reason: "NewReplicaSetAvailable",
                message,
            };
            set_condition(object, cond, now);
        }
        _ => put(
            &[
                "replicas",
                "readyReplicas",
                "availableReplicas",
                "currentReplicas",
            ],
            &replicas,
        ),
    }
}
