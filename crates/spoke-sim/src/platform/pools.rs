//! A small machine-config operator: after an update it takes the nodes of each worker pool to the configuration of the new version,
//! and tells the state of all pools in `ClusterOperator` `machine-config`.
//!
//! It runs on clusters that have that object. A moment passes between the end of an update and the new configuration: until then
//! the operator tells the new version and calls all pools updated. A pool that is paused or degraded does not follow.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde_json::{Value, json};

use super::controller::{Controller, ControllerContext};
use super::cvo;
use super::pace::scale;
use crate::fields::{self, Time, timestamp};
use crate::store::ObjectKey;

/// Annotation of a `MachineConfigPool` whose nodes cannot be updated: why.
pub const DEGRADED: &str = "spoke-sim.mcu/degraded";
/// Annotation of a `MachineConfigPool`: the name of a configuration that an administrator has added.
pub const ADDED: &str = "spoke-sim.mcu/added";

/// The longest time from the end of an update until the new configurations are there.
const RENDERED_AFTER: TimeDelta = TimeDelta::minutes(1);

/// The key of `ClusterOperator` `machine-config`.
#[must_use]
pub fn operator_key() -> ObjectKey {
    ObjectKey::new("config.openshift.io", "clusteroperators", "", "machine-config")
}

/// The objects of a cluster whose pools run a version: `ClusterOperator` `machine-config`, the pool of the control plane and a pool
/// of workers.
#[must_use]
pub fn objects(version: &str) -> Vec<Value> {
    let pool = |name: &str| {
        json!({
            "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
            "metadata": {"name": name}, "spec": {"paused": false},
            "status": {
                "configuration": {"name": rendered(name, version, "")},
                "reached": {version: timestamp(fields::from_unix(0))},
            },
        })
    };
    let operator = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "machine-config"},
        "status": {"versions": told_version(version), "extension": {}},
    });
    vec![pool("master"), pool("worker"), operator]
}

/// When all nodes of a pool first ran a configuration of a version: the operator notes it in `.status.reached`.
#[must_use]
pub fn reached(pool: &Value, version: &str) -> Option<Time> {
    fields::parse_timestamp(fields::text(pool, &["status", "reached", version]))
}

/// The name of the configuration of a pool with a version and what an administrator has added.
#[must_use]
pub fn rendered(pool: &str, version: &str, added: &str) -> String {
    format!("rendered-{pool}-{version}{added}")
}

fn told_version(version: &str) -> Value {
    json!([{"name": "operator", "version": version}])
}

/// The operator's memory.
#[derive(Clone, Debug, Default)]
pub struct MachineConfigOperator {
    /// The version that it tells.
    version: String,
    /// When the configurations of that version are there.
    rendered_at: Option<Time>,
    /// Pools whose nodes are being updated, and since when.
    begun: BTreeMap<String, Time>,
    /// The state of the cluster that it has seen, and when it next has something to do.
    seen: (u64, Option<Time>),
}

impl Controller for MachineConfigOperator {
    fn advance(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
        context.store.revision_of(&operator_key())?;
        let (revision, due) = self.seen;
        if revision == context.store.revision() && due.is_none_or(|due| due > now) {
            return due;
        }
        self.follow(context, now);
        let due = self.show(context, now);
        self.seen = (context.store.revision(), due);
        due
    }
}

impl MachineConfigOperator {
    /// Takes the version that the cluster has been updated to.
    fn follow(&mut self, context: &ControllerContext<'_>, now: Time) {
        if self.version.is_empty() {
            let operator = context.store.get(&operator_key()).unwrap_or_default();
            let told = fields::list(&operator, &["status", "versions"]).first();
            let told = told.map_or("", |told| fields::text(told, &["version"]));
            told.clone_into(&mut self.version);
        }
        let version = context.store.get(&cvo::key()).unwrap_or_default();
        let Some(latest) = fields::list(&version, &["status", "history"]).first() else {
            return;
        };
        let runs = fields::text(latest, &["version"]);
        if fields::text(latest, &["state"]) == "Completed" && runs != self.version {
            runs.clone_into(&mut self.version);
            let pause = scale(context.pace.machines, context.faults.slowness());
            self.rendered_at = Some(now + pause.min(RENDERED_AFTER));
            self.begun.clear();
        }
    }

    /// Brings the pools up to `now`, and tells their state. Returns when it next changes.
    fn show(&mut self, context: &mut ControllerContext<'_>, now: Time) -> Option<Time> {
        let is_rendered = self.rendered_at.is_none_or(|at| at <= now);
        let mut due = self.rendered_at.filter(|_| !is_rendered);
        let pools = context
            .store
            .keys_of("machineconfiguration.openshift.io", "machineconfigpools");
        let pools: Vec<ObjectKey> = pools.cloned().collect();
        let mut told = fields::Object::new();
        for key in pools {
            let live = context.store.get(&key).unwrap_or_default();
            let mut pool = live.clone();
            let (text, next) = self.advance_pool(&key.name, &mut pool, is_rendered, context, now);
            context.store.set(&key, &live, pool);
            told.insert(key.name.to_string(), text.into());
            due = due.into_iter().chain(next).min();
        }
        let version = told_version(&self.version);
        context.store.amend(&operator_key(), |operator| {
            let status = fields::object_at(operator, &["status"]);
            status.insert("versions".into(), version);
            status.insert("extension".into(), told.into());
        });
        due
    }

    /// Brings one pool up to `now`. Returns what the operator says of it, and when that changes.
    fn advance_pool(
        &mut self,
        name: &str,
        pool: &mut Value,
        is_rendered: bool,
        context: &ControllerContext<'_>,
        now: Time,
    ) -> (String, Option<Time>) {
        let note = |note| fields::text(pool, &["metadata", "annotations", note]);
        let wanted = rendered(name, &self.version, note(ADDED));
        let degraded = note(DEGRADED).to_owned();
        let runs = fields::text(pool, &["status", "configuration", "name"]).to_owned();
        if !degraded.is_empty() {
            self.begun.remove(name);
            let text = format!("pool is degraded because nodes fail with \"{degraded}\"");
            return (text, None);
        }
        let all = |config: &str| format!("all 3 nodes are at latest configuration {config}");
        if runs == wanted || !is_rendered {
            self.begun.remove(name);
            return (all(&runs), None);
        }
        if fields::get(pool, &["spec", "paused"]).and_then(Value::as_bool) == Some(true) {
            self.begun.remove(name);
            return ("<unknown>".to_owned(), None);
        }
        let begun = *self.begun.entry(name.to_owned()).or_insert(now);
        let end = begun + scale(context.pace.machines, context.faults.slowness());
        // An update of the cluster includes its control plane.
        if end > now && name != "master" {
            let text = format!("0 (ready 0) out of 3 nodes are updating to latest configuration {wanted}");
            return (text, Some(end));
        }
        self.begun.remove(name);
        let text = all(&wanted);
        let status = fields::object_at(pool, &["status"]);
        status.insert("configuration".into(), json!({"name": wanted}));
        let reached = fields::object_at(pool, &["status", "reached"]);
        reached
            .entry(self.version.as_str())
            .or_insert_with(|| timestamp(now).into());
        (text, None)
    }
}

#[cfg(test)]
mod tests;
