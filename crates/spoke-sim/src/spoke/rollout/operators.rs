//! Updates of cluster operators to the next version: when each starts, what it reports, and when it is updated.
//!
//! This is a pure state machine over statuses and simulated time. The state of an operator is in its own conditions and
//! versions, so that a restarted simulator continues from what the API server holds. The memory only keeps times that are finer
//! than the whole seconds written there.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use serde_json::{Value, json};

use crate::fault::{Faults, OperatorFault};
use crate::fields::{self, Cond, Time, set_condition};
use crate::platform::scale;
use crate::run_levels::{MACHINE_CONFIG, OPERATORS, Row, STATIC_PODS};
use crate::seeded_rng::SeededRng;

/// What the cluster-version operator applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The version that every operator should report.
    pub version: String,
    /// Whether the cluster-version operator runs. Without it no operator gets its new Deployment.
    pub up: bool,
}

/// What the machines mean for the operators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// Whether every master runs the target's system.
    pub masters_updated: bool,
    /// Whether any pool is being updated.
    pub pools_updating: bool,
    /// Why a pool is degraded.
    pub degraded: Option<String>,
    /// Masters that count as not ready, with name and since when.
    pub masters_not_ready: Vec<(String, Time)>,
}

/// Everything that a pass needs.
pub struct OperatorsContext<'a> {
    /// The target.
    pub target: &'a Target,
    /// The machines.
    pub machines: &'a Machines,
    /// The faults of the cluster.
    pub faults: &'a Faults,
    /// Factor on the duration of every operator's update.
    pub pace: f64,
    /// Maximum deviation of the durations, as a fraction.
    pub jitter: f64,
    /// The random numbers of the cluster.
    pub rng: SeededRng,
}

/// When operators started their update, by name. This is lost at a restart.
#[derive(Clone, Debug, Default)]
pub struct Operators {
    towards: String,
    began: BTreeMap<String, Time>,
}

/// Statuses by name, with simulated times.
pub type Statuses = BTreeMap<String, Value>;

impl Operators {
    /// Brings all statuses up to `now`. Returns when something next changes without an event.
    pub fn advance(
        &mut self,
        statuses: &mut Statuses,
        context: &OperatorsContext<'_>,
        now: Time,
    ) -> Option<Time> {
        if self.towards != context.target.version {
            self.towards.clone_from(&context.target.version);
            self.began.clear();
        }
        let mut wake = None;
        let mut lower = true;
        let mut run_level = 0;
        let mut whole = true;
        for row in &OPERATORS {
            if row.run_level != run_level {
                run_level = row.run_level;
                lower &= whole;
                whole = true;
            }
            let Some(status) = statuses.get_mut(row.name) else {
                whole = false;
                continue;
            };
            let next = self.one(row, status, lower, context, now);
            whole &= level(status, &context.target.version) && healthy(status);
            wake = earlier(wake, next);
        }
        wake
    }

    fn one(
        &mut self,
        row: &Row,
        status: &mut Value,
        may_begin: bool,
        context: &OperatorsContext<'_>,
        now: Time,
    ) -> Option<Time> {
        show_upgradeable(row, status, context, now);
        if level(status, &context.target.version) {
            settle(row, status, context, now);
            let fault = context.faults.operator_fault(row.name);
            if let Some(lasting) = fault.filter(OperatorFault::lasts_for_ever) {
                show_fault(row, status, Some(lasting), context, now);
            }
            return None;
        }
        let began = match self.began.get(row.name) {
            Some(began) => *began,
            None => match progressing_since(status) {
                Some(since) => since,
                None if may_begin && context.target.up => now,
                None => return None,
            },
        };
        self.began.insert(row.name.to_owned(), began);
        show_progressing(row, status, &context.target.version, now);
        let fault = context.faults.operator_fault(row.name);
        let suffers = match fault {
            Some(OperatorFault::Degraded(span) | OperatorFault::Unavailable(span)) => span,
            None => TimeDelta::zero(),
        };
        let well_at = began + suffers;
        show_fault(row, status, fault.filter(|_| now < well_at), context, now);
        if now < well_at {
            return Some(well_at);
        }
        let due = well_at + context.faults.delay(row.name) + takes(row, context);
        if now < due {
            return Some(due);
        }
        if row.name == MACHINE_CONFIG && !context.machines.masters_updated {
            return None;
        }
        report_version(status, &context.target.version);
        settle(row, status, context, now);
        None
    }
}

/// Whether an operator reports a version or is being updated to it.
#[must_use]
pub fn level_or_begun(operators: &Operators, name: &str, statuses: &Statuses, version: &str) -> bool {
    let begun = operators.towards == version && operators.began.contains_key(name);
    begun || statuses.get(name).is_some_and(|status| level(status, version))
}

/// How long an operator takes, with slowness and random deviation.
fn takes(row: &Row, context: &OperatorsContext<'_>) -> TimeDelta {
    let rng = context.rng.of(row.name).of(&context.target.version);
    let factor =
        context.pace * context.faults.slowness() * (1.0 + rng.between(-context.jitter, context.jitter));
    scale(std::time::Duration::from_secs_f64(row.minutes * 60.0), factor)
}

/// The object of an operator without status.
#[must_use]
pub fn manifest(name: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name}, "spec": {}})
}

/// The status of an operator after its installation.
#[must_use]
pub fn new_status(version: &str, at: Time) -> Value {
    let mut object = json!({"status": {"conditions": [], "extension": null, "relatedObjects": [],
        "versions": [{"name": "operator", "version": version}]}});
    set_condition(&mut object, well("Degraded", "False"), at);
    set_condition(&mut object, well("Progressing", "False"), at);
    set_condition(&mut object, well("Available", "True"), at);
    set_condition(&mut object, well("Upgradeable", "True"), at);
    object["status"].take()
}

fn well(kind: &'static str, status: &'static str) -> Cond<'static> {
    Cond {
        kind,
        status,
        reason: "AsExpected",
        message: "All is well",
    }
}

/// Whether an operator reports a version.
#[must_use]
pub fn level(status: &Value, version: &str) -> bool {
    fields::list(status, &["versions"]).iter().any(|entry| {
        fields::text(entry, &["name"]) == "operator" && fields::text(entry, &["version"]) == version
    })
}

/// Whether an operator is available and known not to be degraded.
#[must_use]
pub fn healthy(status: &Value) -> bool {
    condition(status, "Available") == "True" && condition(status, "Degraded") == "False"
}

/// The status of a condition, `""` when absent.
#[must_use]
pub fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    find(status, kind).map_or("", |condition| fields::text(condition, &["status"]))
}

/// A condition.
#[must_use]
pub fn find<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    fields::list(status, &["conditions"])
        .iter()
        .find(|condition| fields::text(condition, &["type"]) == kind)
}

fn progressing_since(status: &Value) -> Option<Time> {
    let condition = find(status, "Progressing").filter(|found| fields::text(found, &["status"]) == "True")?;
    fields::parse_timestamp(fields::text(condition, &["lastTransitionTime"]))
}

fn report_version(status: &mut Value, version: &str) {
    status["versions"] = json!([{"name": "operator", "version": version}]);
}

/// Sets a condition in a status.
pub fn put(status: &mut Value, cond: Cond<'_>, now: Time) {
    let mut object = json!({"status": status.take()});
    set_condition(&mut object, cond, now);
    *status = object["status"].take();
}

fn show_progressing(row: &Row, status: &mut Value, version: &str, now: Time) {
    let (reason, message) = if STATIC_PODS.contains(&row.name) {
        (
            "NodeInstaller",
            "NodeInstallerProgressing: 1 node is at the old revision; 0 nodes have achieved the new revision"
                .to_owned(),
        )
    } else {
        ("Updating", format!("Working towards {version}"))
    };
    let cond = Cond {
        kind: "Progressing",
        status: "True",
        reason,
        message: &message,
    };
    put(status, cond, now);
}

fn show_fault(
    row: &Row,
    status: &mut Value,
    fault: Option<OperatorFault>,
    context: &OperatorsContext<'_>,
    now: Time,
) {
    let unavailable = matches!(fault, Some(OperatorFault::Unavailable(_)));
    let degraded = matches!(fault, Some(OperatorFault::Degraded(_)));
    let available = if unavailable {
        Cond {
            kind: "Available",
            status: "False",
            reason: "NoPodsAvailable",
            message: "no pods are available on any node",
        }
    } else {
        well("Available", "True")
    };
    put(status, available, now);
    if degraded {
        let cond = Cond {
            kind: "Degraded",
            status: "True",
            reason: "UpdateStalled",
            message: "a workload of the operator makes no progress",
        };
        put(status, cond, now);
    } else {
        show_machines(row, status, context, now);
    }
}

/// Sets Degraded by the state of the machines.
fn show_machines(row: &Row, status: &mut Value, context: &OperatorsContext<'_>, now: Time) {
    let machines = context.machines;
    let message = if STATIC_PODS.contains(&row.name) && !machines.masters_not_ready.is_empty() {
        let nodes: Vec<String> = machines
            .masters_not_ready
            .iter()
            .map(|(name, since)| {
                let since = since.format("%Y-%m-%d %H:%M:%S +0000 UTC");
                format!("node \"{name}\" not ready since {since} because KubeletNotReady (the node reboots)")
            })
            .collect();
        let nodes = nodes.join(", ");
        Some((
            "NodeController_MasterNodesReady",
            format!("NodeControllerDegraded: The master nodes not ready: {nodes}"),
        ))
    } else if row.name == MACHINE_CONFIG {
        machines.degraded.as_ref().map(|why| {
            let version = &context.target.version;
            (
                "RequiredPoolsFailed",
                format!("Failed to resync {version} because: {why}"),
            )
        })
    } else {
        None
    };
    match message {
        Some((reason, message)) => {
            let cond = Cond {
                kind: "Degraded",
                status: "True",
                reason,
                message: &message,
            };
            put(status, cond, now);
        }
        None => put(status, well("Degraded", "False"), now),
    }
}

fn settle(row: &Row, status: &mut Value, context: &OperatorsContext<'_>, now: Time) {
    put(status, well("Available", "True"), now);
    put(status, well("Progressing", "False"), now);
    show_machines(row, status, context, now);
}

fn show_upgradeable(row: &Row, status: &mut Value, context: &OperatorsContext<'_>, now: Time) {
    let updating = row.name == MACHINE_CONFIG && context.machines.pools_updating;
    let why = context.faults.not_upgradeable(row.name).or(updating.then_some((
        "PoolUpdating",
        "One or more machine config pools are updating, please see `oc get mcp` for further details",
    )));
    let cond = match why {
        Some((reason, message)) => Cond {
            kind: "Upgradeable",
            status: "False",
            reason,
            message,
        },
        None => well("Upgradeable", "True"),
    };
    put(status, cond, now);
}

/// The earlier of two times, each of which may be missing.
#[must_use]
pub fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
