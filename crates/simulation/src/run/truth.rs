//! What must hold when everything is over, by what clusters themselves say and by what is left on the hub.

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::{SELECTED, selected_message};
use api::report::Phase;
use api::time::parse_rfc3339;
use chrono::{DateTime, Utc};
use hub_sim::Object;
use serde_json::Value;

use super::Run;
use crate::fault::Fault;
use crate::names::{RIVAL, TEAM, UPGRADE};
use crate::oracle::Rule;
use crate::world::{fleet, wanted};

/// The patch version of a version.
fn patch_of(version: &str) -> u64 {
    let patch = version.rsplit('.').next();
    patch.and_then(|patch| patch.parse().ok()).unwrap_or_default()
}

/// In what a status does not agree with the rows, if in anything. Rows with words of a newer release are not judged.
fn disagreement(status: &Value, rows: &[Value]) -> Option<String> {
    let of = |row: &Value, field: &str| {
        let value = row.get(field).and_then(Value::as_str);
        value.unwrap_or_default().to_owned()
    };
    let mut phases: BTreeMap<String, u64> = BTreeMap::new();
    let mut causes: BTreeMap<(String, String), u64> = BTreeMap::new();
    let is_known = |row: &Value| Phase::ALL.iter().any(|phase| of(row, "phase") == phase.as_str());
    if !rows.iter().all(is_known) {
        return None;
    }
    for row in rows {
        *phases.entry(of(row, "phase")).or_default() += 1;
        *causes.entry((of(row, "phase"), of(row, "reason"))).or_default() += 1;
    }
    let told = status.get("phases").and_then(Value::as_object);
    let told: BTreeMap<String, u64> = told
        .into_iter()
        .flatten()
        .map(|(phase, number)| (phase.clone(), number.as_u64().unwrap_or_default()))
        .collect();
    if told != phases {
        return Some(format!("its rows say {phases:?}"));
    }
    // Of a cluster that waits, the causes may tell what it says to the update, which no row does.
    let is_asked = status.get("preflight").is_some();
    let groups = status.get("causes").and_then(Value::as_array);
    let groups = groups.into_iter().flatten();
    let mut groups = groups.filter(|group| !is_asked || of(group, "phase") != "Pending");
    let wrong = groups.find(|group| {
        let clusters = causes.get(&(of(group, "phase"), of(group, "reason")));
        group.get("clusters").and_then(Value::as_u64) != clusters.copied()
    });
    let wrong = wrong.map(|group| format!("no such rows as {group}"));
    wrong.or_else(|| miscount(status, rows))
}

/// Whether a status counts other canaries or other selected clusters than its rows, and which these are.
fn miscount(status: &Value, rows: &[Value]) -> Option<String> {
    let number = |field: &str, is: bool| {
        let has = |row: &&Value| row.get(field).and_then(Value::as_bool).unwrap_or_default() == is;
        rows.iter().filter(has).count()
    };
    let canaries = number("canary", true) as u64;
    let told = status
        .pointer("/canaryClustersSummery/total")
        .and_then(Value::as_u64);
    if told.is_some_and(|told| told != canaries) {
        return Some(format!("its rows tell of {canaries} canaries"));
    }
    let selected = selected_message(number("leftSelection", false), []);
    let conditions = status.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let told = conditions.find(|one| one.get("type").and_then(Value::as_str) == Some(SELECTED));
    let told = told.and_then(|one| one.get("message")?.as_str());
    let is_other = told.is_some_and(|told| !told.starts_with(&selected));
    is_other.then(|| format!("by its rows, it should say: {selected}"))
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
            let rows = self.rows_of(&object.uid);
            let names = rows.iter().filter_map(|row| row.get("cluster")?.as_str());
            let twice: Vec<&str> = names.filter(|name| !known.insert(*name)).collect();
            self.oracle.check(Rule::Ends, twice.is_empty(), || {
                format!(
                    "the reports of {name} have more than one row of {}",
                    twice.join(", ")
                )
            });
        }
    }

    /// Phases, causes, canaries and selected clusters of the status are those of the rows.
    pub(super) fn told_as_recorded(&self) {
        for name in [UPGRADE, RIVAL] {
            let Some(object) = self.object(name) else { continue };
            let value = object.value();
            let state = value.pointer("/status/state").and_then(Value::as_str);
            // These tell of an earlier plan, or of an earlier object.
            let is_planned = matches!(state, Some("Complete" | "Stalled" | "Paused"));
            if !is_planned || object.text().contains("CompletedBefore") {
                continue;
            }
            let rows = self.rows_of(&object.uid);
            let wrong = disagreement(value.get("status").unwrap_or(&Value::Null), &rows);
            self.oracle.check(Rule::Told, wrong.is_none(), || {
                let status = value.get("status").unwrap_or(&Value::Null);
                format!("{name}: {}: {status}", wrong.unwrap_or_default())
            });
        }
    }

    /// The rows of all reports of the upgrade with this UID.
    fn rows_of(&self, uid: &str) -> Vec<Value> {
        let group = "cluster.open-cluster-management.io";
        self.hub.read(|state| {
            let reports = state.objects_of(group, "managedclustersupgradereports");
            let reports = reports.into_iter().flat_map(|reports| reports.in_namespace(TEAM));
            let own = reports.filter(|report| report.owners.iter().any(|owner| &**owner == uid));
            let rows = own.flat_map(|report| match report.value().get("rows") {
                Some(Value::Array(rows)) => rows.clone(),
                _ => Vec::new(),
            });
            rows.collect()
        })
    }

    /// What clusters themselves say: each has its `ClusterVersion`, and runs what every upgrade asks for that selects it and is
    /// over, or something newer.
    pub(super) fn truth(&self) {
        self.have_versions(fleet(&self.options));
        self.are_there();
        for name in [UPGRADE, RIVAL] {
            let Some(object) = self.object(name) else { continue };
            // An upgrade that was complete before it was restored, or before its reports were lost, does not run again.
            if self.is_over(&object) && !object.text().contains("CompletedBefore") {
                self.run_target(name, &object);
            }
        }
    }

    /// Each of these clusters has its `ClusterVersion`.
    pub(super) fn have_versions(&self, clusters: impl IntoIterator<Item = String>) {
        for name in clusters {
            let version = self.agents.cluster_version(&name);
            self.oracle.check(Rule::ClusterVersion, version.is_some(), || {
                format!("{name} has no ClusterVersion")
            });
        }
    }

    /// Both upgrades are there that somebody has created, unless somebody has deleted one for good. A storage or a backup that is
    /// older than the second upgrade takes it away. So does a storage of the time in which the first one was deleted, from which
    /// nobody creates it again.
    fn are_there(&self) {
        let strikes = |fault| self.network.may_strike(fault);
        let is_kept = !(strikes(Fault::Rewind) && strikes(Fault::Remove));
        let may_be_lost = [Fault::Rewind, Fault::Restore, Fault::RestoreOld].map(strikes);
        let has_rival = self.options.rival && !self.people.has_withdrawn() && !may_be_lost.contains(&true);
        for name in is_kept
            .then_some(UPGRADE)
            .into_iter()
            .chain(has_rival.then_some(RIVAL))
        {
            let is_there = self.object(name).is_some();
            self.oracle.check(Rule::Ends, is_there, || {
                format!("{name} is gone, and nobody has deleted it")
            });
        }
    }

    /// Since when agents play a cluster: they begin anew when they hear that its ManagedCluster was deleted.
    fn begun(&self, cluster: &str) -> Option<DateTime<Utc>> {
        let version = self.agents.cluster_version(cluster)?;
        parse_rfc3339(version.pointer("/metadata/creationTimestamp")?.as_str()?)
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
        let is_excused = |cluster: &String| {
            let begun = self.begun(cluster);
            self.oracle.is_excused(&object.uid, cluster, begun) || self.people.has_lied(cluster)
        };
        for cluster in clusters.filter(|cluster| !is_excused(cluster)) {
            let version = self.people.version(&cluster).unwrap_or_default();
            self.oracle
                .check(Rule::Complete, patch_of(&version) >= target, || {
                    format!("{name} is {state} and asks for patch {target}, and {cluster} runs {version}")
                });
        }
    }
}
