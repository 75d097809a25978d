//! What must hold when everything is over, by what clusters themselves say and by what is left on the hub.

use std::collections::BTreeSet;

use hub_sim::Object;
use serde_json::Value;

use super::Run;
use crate::names::{RIVAL, TEAM, UPGRADE};
use crate::oracle::Rule;
use crate::world::{fleet, wanted};

/// The patch version of a version.
fn patch_of(version: &str) -> u64 {
    let patch = version.rsplit('.').next();
    patch.and_then(|patch| patch.parse().ok()).unwrap_or_default()
}

/// The clusters that the rows of a report name, one by one.
fn clusters_of(report: &Value) -> Vec<String> {
    let rows = report.get("rows").and_then(Value::as_array);
    let names = rows
        .into_iter()
        .flatten()
        .filter_map(|row| row.get("cluster")?.as_str());
    names.map(ToOwned::to_owned).collect()
}

impl Run {
    /// Upgrades that are complete leave no works.
    pub(super) fn works_left(&self) {
        for name in [UPGRADE, RIVAL] {
            let Some(object) = self.object(name) else { continue };
            if !object.text().contains("\"state\":\"Complete\"") {
                continue;
            }
            let left = self.works(|uid| uid == &*object.uid);
            self.oracle.check(Rule::Ends, left.is_empty(), || {
                format!(
                    "{name} is complete, and these works are left: {}",
                    left.join(", ")
                )
            });
        }
    }

    /// No cluster is recorded twice, neither in two reports of an upgrade nor in one.
    pub(super) fn recorded_once(&self) {
        for name in [UPGRADE, RIVAL] {
            let Some(object) = self.object(name) else { continue };
            let mut known = BTreeSet::new();
            let mut twice = self.recorded(&object.uid);
            twice.retain(|cluster| !known.insert(cluster.clone()));
            self.oracle.check(Rule::Ends, twice.is_empty(), || {
                format!(
                    "the reports of {name} have more than one row of {}",
                    twice.join(", ")
                )
            });
        }
    }

    /// The clusters of all rows in all reports of the upgrade with this UID, one for each row.
    fn recorded(&self, uid: &str) -> Vec<String> {
        let group = "cluster.open-cluster-management.io";
        self.hub.read(|state| {
            let reports = state.objects_of(group, "managedclustersupgradereports");
            let reports = reports.into_iter().flat_map(|reports| reports.in_namespace(TEAM));
            let own = reports.filter(|report| report.owners.iter().any(|owner| &**owner == uid));
            own.flat_map(|report| clusters_of(&report.value())).collect()
        })
    }

    /// What clusters themselves say: each has its `ClusterVersion`, and runs what every upgrade asks for that selects it and is
    /// over, or something newer.
    pub(super) fn truth(&self) {
        for name in fleet(&self.options) {
            let version = self.agents.cluster_version(&name);
            self.oracle.check(Rule::ClusterVersion, version.is_some(), || {
                format!("{name} has no ClusterVersion")
            });
        }
        for name in [UPGRADE, RIVAL] {
            let Some(object) = self.object(name) else { continue };
            // An upgrade that was complete before it was restored, or before its reports were lost, does not run again.
            if self.is_over(&object) && !object.text().contains("CompletedBefore") {
                self.run_target(name, &object);
            }
        }
    }

    /// All clusters that an upgrade selects run its present target or something newer, whatever its status and its rows say: also
    /// one whose return, and one whose edited target, the controller has missed. When faults have ended, an upgrade selects again
    /// whom it selected at first.
    fn run_target(&self, name: &str, object: &Object) {
        let value = object.value();
        let target = value
            .pointer("/spec/clusterVersion/version")
            .and_then(Value::as_str);
        let target = patch_of(target.unwrap_or_default());
        let state = value.pointer("/status/state").and_then(Value::as_str);
        let state = state.unwrap_or_default();
        let clusters = wanted(&self.options, name).into_iter();
        for cluster in clusters.filter(|cluster| !self.oracle.is_excused(&object.uid, cluster)) {
            let version = self.people.version(&cluster).unwrap_or_default();
            self.oracle
                .check(Rule::Complete, patch_of(&version) >= target, || {
                    format!("{name} is {state} and asks for patch {target}, and {cluster} runs {version}")
                });
        }
    }
}
