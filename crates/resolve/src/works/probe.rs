//! The probe: a work that asks a cluster, before its update, what it would say to it (`docs/design/preflight.md#the-probe`).
//!
//! Its manifests are read and not written, except the acknowledgments that the author lists and, if the author wants that, the
//! channel. A probe is never changed: for another target it is deleted, and another one is created, so that an answer never belongs
//! to another question.

use std::collections::BTreeMap;

use api::mcu::ClusterVersionSpec;
use api::names::{self, PROBE, probe_name};
use clusterversion::feedback::RULES;
use clusterversion::gates;
use clusterversion::preflight::pools;
use clusterversion::preflight::recipe::{self, Rule};
use serde_json::{Value, json};

use super::{SpokeRbac, acks, canonical};

/// Name of the `ClusterRole` that lets the agent read what the probe asks for.
const ROLE: &str = "open-cluster-management:mcu-preflight";

/// The probes of an upgrade: all clusters are asked the same.
#[derive(Clone, Debug)]
pub struct ProbeTemplate {
    hash: String,
    spec: Value,
}

impl ProbeTemplate {
    /// Renders the probe of an update that `api::validate` has accepted. `set_channel`: it also sets the channel. `with_pools`: it
    /// also asks for the worker pools.
    #[must_use]
    pub fn new(target: &ClusterVersionSpec, set_channel: bool, with_pools: bool, rbac: SpokeRbac) -> Self {
        Self::of(spec(target, set_channel, with_pools, rbac))
    }

    /// Renders the probe that asks clusters whose version is updated for their worker pools.
    #[must_use]
    pub fn workers(rbac: SpokeRbac) -> Self {
        let readings = [cluster_version(Vec::new(), Vec::new()), worker_pools()];
        Self::of(work(&readings, role(rbac, false, &readings)))
    }

    fn of(spec: Value) -> Self {
        Self {
            hash: canonical::hash(&spec),
            spec,
        }
    }

    /// Hash (16 hex digits) of what is asked.
    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// The whole work as JSON, to be created by POST with field manager `mcu-controller`. `owner`: `namespace/name` of the upgrade.
    #[must_use]
    pub fn body(&self, cluster: &str, mcu_uid: &str, owner: &str) -> Vec<u8> {
        let body = json!({
            "apiVersion": "work.open-cluster-management.io/v1",
            "kind": "ManifestWork",
            "metadata": {
                "name": probe_name(cluster),
                "namespace": cluster,
                "labels": BTreeMap::from([(names::LABEL_MCU_UID, mcu_uid), (names::LABEL_STEP, PROBE)]),
                "annotations": BTreeMap::from([
                    (names::ANNOTATION_OWNER, owner),
                    (names::ANNOTATION_STEP_HASH, &self.hash),
                ]),
            },
            "spec": self.spec,
        });
        body.to_string().into_bytes()
    }
}

/// One object that is read.
struct Reading {
    group: &'static str,
    resource: &'static str,
    namespace: &'static str,
    name: &'static str,
    manifest: Value,
    strategy: Value,
    paths: Vec<(&'static str, String)>,
    rules: Vec<Rule>,
}

fn read_only() -> Value {
    json!({ "type": "ReadOnly" })
}

/// The channel alone, with a field manager that applies nothing else, so that it takes nothing back.
fn set_to(channel: &str) -> (Value, Value) {
    let spec = json!({ "channel": channel });
    let apply = json!({ "force": true, "fieldManager": "work-agent-mcu-preflight" });
    (
        spec,
        json!({ "type": "ServerSideApply", "serverSideApply": apply }),
    )
}

fn spec(target: &ClusterVersionSpec, set_channel: bool, with_pools: bool, rbac: SpokeRbac) -> Value {
    let mut readings = readings(&target.version);
    if let Some(version) = readings.first_mut()
        && set_channel
    {
        (version.manifest["spec"], version.strategy) = set_to(&target.channel);
    }
    if let Some(acks) = readings.last_mut()
        && !target.admin_acks.is_empty()
    {
        acks.manifest = acks::manifest(&target.admin_acks);
        acks.strategy = acks::strategy(&target.admin_acks);
    }
    if with_pools {
        readings.extend([worker_pools(), worker_pool()]);
    }
    if !target.accept_risks.is_empty() {
        readings.push(feature_gate());
    }
    work(&readings, role(rbac, set_channel, &readings))
}

fn work(readings: &[Reading], role: Option<Value>) -> Value {
    let manifests = readings.iter().map(|reading| reading.manifest.clone());
    let configs: Vec<Value> = readings.iter().map(Reading::config).collect();
    let orphans: Vec<Value> = readings.iter().map(Reading::identifier).collect();
    json!({
        // The agent deletes only what it has created. The rules are there in case that one does not.
        "deleteOption": {
            "propagationPolicy": "SelectivelyOrphan",
            "selectivelyOrphans": { "orphaningRules": orphans },
        },
        "manifestConfigs": configs,
        "workload": { "manifests": manifests.chain(role).collect::<Vec<_>>() },
    })
}

fn readings(target: &str) -> Vec<Reading> {
    let map = |(namespace, name), rule: Option<Rule>| Reading {
        group: "",
        resource: "configmaps",
        namespace,
        name,
        manifest: json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}),
        strategy: read_only(),
        paths: Vec::new(),
        rules: rule.into_iter().collect(),
    };
    let version = cluster_version(
        recipe::paths(target),
        vec![recipe::offer_rule(target), recipe::history_rule()],
    );
    vec![
        version,
        map(gates::GATES, recipe::gates_rule(target)),
        map(gates::ACKS, recipe::acks_rule(target)),
    ]
}

/// The ClusterVersion: the values of the platform work, and others.
fn cluster_version(paths: Vec<(&'static str, String)>, rules: Vec<Rule>) -> Reading {
    // The text of the error names the port of each try, so the answers of a disconnected cluster would change all the time.
    let own = RULES
        .iter()
        .filter(|(name, _)| *name != "retrievedUpdatesMessage");
    let own = own.map(|(name, path)| (*name, (*path).to_owned()));
    Reading {
        group: "config.openshift.io",
        resource: "clusterversions",
        namespace: "",
        name: "version",
        manifest: json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        }),
        strategy: read_only(),
        paths: own.chain(paths).collect(),
        rules,
    }
}

/// The operator that tells the state of all pools.
fn worker_pools() -> Reading {
    Reading {
        group: "config.openshift.io",
        resource: "clusteroperators",
        namespace: "",
        name: "machine-config",
        manifest: json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "machine-config"},
        }),
        strategy: read_only(),
        paths: Vec::new(),
        rules: vec![pools::pools_rule()],
    }
}

/// The pool that tells whether it is paused, which the operator does not while its nodes are up to date.
fn worker_pool() -> Reading {
    Reading {
        group: "machineconfiguration.openshift.io",
        resource: "machineconfigpools",
        namespace: "",
        name: pools::WORKER,
        manifest: json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool", "metadata": {"name": pools::WORKER},
        }),
        strategy: read_only(),
        paths: Vec::new(),
        rules: vec![pools::paused_rule()],
    }
}

/// The object that tells whether the cluster accepts risks by name.
fn feature_gate() -> Reading {
    Reading {
        group: "config.openshift.io",
        resource: "featuregates",
        namespace: "",
        name: "cluster",
        manifest: json!({
            "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        }),
        strategy: read_only(),
        paths: Vec::new(),
        rules: vec![recipe::accept_rule()],
    }
}

impl Reading {
    fn identifier(&self) -> Value {
        json!({ "group": self.group, "resource": self.resource, "namespace": self.namespace, "name": self.name })
    }

    fn config(&self) -> Value {
        let mut config = json!({
            "resourceIdentifier": self.identifier(),
            "updateStrategy": self.strategy,
        });
        if !self.paths.is_empty() {
            let paths = self
                .paths
                .iter()
                .map(|(name, path)| json!({ "name": name, "path": path }));
            config["feedbackRules"] =
                json!([{ "type": "JSONPaths", "jsonPaths": paths.collect::<Vec<_>>() }]);
        }
        if !self.rules.is_empty() {
            let rules = self.rules.iter().map(|rule| {
                json!({
                    "type": "CEL",
                    "condition": rule.condition,
                    "celExpressions": ["true"],
                    "messageExpression": rule.message,
                })
            });
            config["conditionRules"] = rules.collect();
        }
        config
    }
}

/// The right to read resources of OpenShift, and to change the ClusterVersion if the channel is set, which an agent does not have by
/// itself. It goes with the probe; the platform work brings more.
fn role(rbac: SpokeRbac, set_channel: bool, readings: &[Reading]) -> Option<Value> {
    let rule = |reading: &Reading| {
        let mut verbs = vec!["get", "list", "watch"];
        if set_channel && reading.resource == "clusterversions" {
            verbs.push("patch");
        }
        json!({ "apiGroups": [reading.group], "resources": [reading.resource], "verbs": verbs })
    };
    let of_openshift = readings.iter().filter(|reading| !reading.group.is_empty());
    let rules: Vec<Value> = of_openshift.map(rule).collect();
    let labels = json!({ "open-cluster-management.io/aggregate-to-work": "true" });
    (rbac != SpokeRbac::None).then(|| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": ROLE, "labels": labels },
            "rules": rules,
        })
    })
}

#[cfg(test)]
mod tests;
