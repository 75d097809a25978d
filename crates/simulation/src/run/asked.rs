//! What clusters themselves know of their updates, and what probes leave on them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::names::probe_name;
use api::time::parse_rfc3339;
use chrono::{DateTime, Utc};
use hub_sim::At as _;
use serde_json::Value;
use spoke_sim::Agents;
use spoke_sim::platform::pools::reached;

use super::Run;
use crate::oracle::{Past, Rule};
use crate::time::begin;
use crate::world::{GATE, fleet};

const ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
/// The role that goes with a probe.
const ROLE: &str = "open-cluster-management:mcu-preflight";
const POOLS: &str = "machineconfigpools.machineconfiguration.openshift.io";

/// What a cluster knows of its past. `None` if it is not simulated at the moment, or has no worker pools.
fn past(agents: &Agents, cluster: &str) -> Option<Past> {
    let version = agents.cluster_version(cluster)?;
    let pool = agents.object(cluster, POOLS, "", "worker")?;
    let since = |at: DateTime<Utc>| (at - begin()).to_std().unwrap_or(Duration::ZERO);
    let history = version.at("/status/history").and_then(Value::as_array);
    let entries = history.into_iter().flatten();
    let text = |entry: &Value, field: &str| {
        let value = entry.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let done = entries.filter(|entry| text(entry, "state") == "Completed");
    let done = done.filter_map(|entry| {
        let at = parse_rfc3339(&text(entry, "completionTime"))?;
        Some((text(entry, "version"), since(at)))
    });
    let updated: BTreeMap<String, Duration> = done.collect();
    let known = pool.at("/status/reached").and_then(Value::as_object);
    let known = known.into_iter().flatten().map(|(version, _)| version);
    let followed = known.filter_map(|version| Some((version.clone(), since(reached(&pool, version)?))));
    Some(Past {
        followed: followed.collect(),
        updated,
    })
}

impl Run {
    /// Clusters have what they should have before anybody asks them, and rules may ask them, too.
    pub(super) async fn furnish(&mut self) {
        if !self.options.asks() {
            return;
        }
        let agents = Arc::clone(&self.agents);
        self.oracle
            .believe(Arc::new(move |cluster: &str| past(&agents, cluster)));
        self.agents.ready().await;
        self.people.tend();
    }

    /// Probes leave nothing behind on clusters but acknowledgments and channels that a spec has asked for.
    pub(super) fn probes_left(&self) {
        if !self.options.asks() {
            return;
        }
        for name in fleet(&self.options) {
            // An upgrade that is not complete may still ask.
            let key = format!("{name}/{}", probe_name(&name));
            let is_asked = self.hub.read(|state| {
                let works = state.objects_of("work.open-cluster-management.io", "manifestworks");
                works.is_some_and(|works| works.get(&key).is_some())
            });
            let role = self.agents.object(&name, ROLES, "", ROLE);
            self.oracle.check(Rule::Probes, is_asked || role.is_none(), || {
                format!("{name} still has the role of its probe")
            });
            let keys = self.people.acknowledged_by_works(&name);
            let is_meant = |key: &String| key == GATE && self.oracle.has_ever_acknowledged(key);
            self.oracle.check(Rule::Acks, keys.iter().all(is_meant), || {
                format!("{name} has the acknowledgments {}", keys.join(", "))
            });
        }
    }
}
