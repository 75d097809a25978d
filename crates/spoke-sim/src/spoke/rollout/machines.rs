//! Updates of machines and their pools to the next rendered configuration: drain, write, reboot, one machine after the other.
//!
//! This is a pure state machine. The state of a machine is in annotations of its Node, as with the real machine-config daemon
//! (`currentConfig`, `desiredConfig`, `state`). One more annotation has the step and its start, so that a restarted simulator
//! finds a machine in the middle of its reboot.

use std::collections::BTreeMap;

use chrono::{SecondsFormat, TimeDelta};
use serde_json::{Value, json};

use super::operators::earlier;
use crate::fault::Faults;
use crate::fields::{self, Time};
use crate::platform::scale;
use crate::seeded_rng::SeededRng;
use crate::spoke::clock::Clock;
use crate::spoke::setup::Durations;

const CURRENT: &str = "machineconfiguration.openshift.io/currentConfig";
const DESIRED: &str = "machineconfiguration.openshift.io/desiredConfig";
const STATE: &str = "machineconfiguration.openshift.io/state";
const REASON: &str = "machineconfiguration.openshift.io/reason";
/// Annotation with the step and its start, `drain@<RFC 3339, wall-clock time>`.
const STEP: &str = "spoke-sim.mcu/step";
/// A drain counts as failed after this time, as in the machine-config controller.
const DRAIN_TIMEOUT: TimeDelta = TimeDelta::hours(1);
/// A node counts as not ready after it was away for this time.
const NOT_READY_AFTER: TimeDelta = TimeDelta::minutes(2);

/// What a machine is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It runs its configuration.
    Idle,
    /// Its pods are evicted.
    Drain(Time),
    /// The new system is pulled and written.
    Write(Time),
    /// It reboots.
    Reboot(Time),
}

/// One machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name of its Node.
    pub name: String,
    /// Name of its pool.
    pub pool: String,
    /// The configuration it runs.
    pub config: String,
    /// The configuration it is being updated to.
    pub desired: String,
    /// What it is doing.
    pub step: Step,
    /// Why it cannot continue.
    pub degraded: Option<String>,
}

/// One pool, from its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name, `master` or `worker`.
    pub name: String,
    /// Whether an administrator paused it.
    pub paused: bool,
    /// `spec.maxUnavailable`: a number or a percentage.
    pub max_unavailable: Value,
}

/// Everything that a pass needs.
pub struct MachinesContext<'a> {
    /// The version whose configuration the machines should run; `None` while its operator has not rendered it.
    pub version: Option<&'a str>,
    /// How long steps take.
    pub durations: &'a Durations,
    /// Maximum deviation of the durations, as a fraction.
    pub jitter: f64,
    /// The faults of the cluster.
    pub faults: &'a Faults,
    /// Whether there is only one machine, whose reboots make the API server unavailable.
    pub single_node: bool,
    /// The random numbers of the cluster.
    pub rng: SeededRng,
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// When something next changes without an event.
    pub wake: Option<Time>,
    /// Whether the API server cannot be reached.
    pub dark: bool,
}

/// The name of the configuration that the machines of a pool run with a version.
#[must_use]
pub fn rendered(pool: &str, version: &str) -> String {
    let rng = SeededRng::new(0).of(pool).of(version);
    format!(
        "rendered-{pool}-{:016x}{:016x}",
        rng.nth(0).bits(),
        rng.nth(1).bits()
    )
}

/// Brings the machines up to `now`.
pub fn advance(machines: &mut [Machine], pools: &[Pool], context: &MachinesContext<'_>, now: Time) -> Seen {
    let mut wake = None;
    for pool in pools {
        let mut own: Vec<&mut Machine> = machines
            .iter_mut()
            .filter(|machine| machine.pool == pool.name)
            .collect();
        wake = earlier(wake, advance_pool(&mut own, pool, context, now));
    }
    Seen {
        wake,
        dark: machines.iter().any(|machine| is_dark(machine, context, now)),
    }
}

/// Machines that have started continue even if the target changed. Idle machines start as `maxUnavailable` allows.
fn advance_pool(
    own: &mut [&mut Machine],
    pool: &Pool,
    context: &MachinesContext<'_>,
    now: Time,
) -> Option<Time> {
    let goal = context
        .version
        .filter(|_| !pool.paused)
        .map(|version| rendered(&pool.name, version));
    let room = unavailable(&pool.max_unavailable, own.len());
    for (n, machine) in own.iter_mut().enumerate() {
        walk(machine, n == 0, context, now);
    }
    let mut busy = own.iter().filter(|machine| machine.step != Step::Idle).count();
    for machine in own.iter_mut().filter(|machine| machine.step == Step::Idle) {
        if let Some(goal) = goal.as_ref().filter(|goal| **goal != machine.config)
            && busy < room
        {
            machine.desired.clone_from(goal);
            machine.step = Step::Drain(now);
            busy += 1;
        }
    }
    let mut wake = None;
    for (n, machine) in own.iter_mut().enumerate() {
        wake = earlier(wake, walk(machine, n == 0, context, now));
    }
    // Steps without a duration are already finished, so that the next machine can start.
    let idle = |machine: &&mut Machine| machine.step == Step::Idle;
    let waits =
        |machine: &&mut Machine| idle(machine) && goal.as_ref().is_some_and(|goal| *goal != machine.config);
    let has_room = own.iter().filter(|machine| !idle(machine)).count() < room;
    if has_room && own.iter().any(waits) {
        wake = Some(now);
    }
    wake
}

/// Takes one machine through the steps that are due. Returns when the next one is due.
fn walk(machine: &mut Machine, first: bool, context: &MachinesContext<'_>, now: Time) -> Option<Time> {
    loop {
        let (since, step) = match machine.step {
            Step::Idle => return None,
            Step::Drain(since) => (since, context.durations.drain),
            Step::Write(since) => (since, context.durations.write),
            Step::Reboot(since) => (since, reboot(&machine.pool, context)),
        };
        let stuck = match machine.step {
            Step::Drain(_) if first => context.faults.drain_stuck(&machine.pool),
            Step::Write(_) if first => context.faults.pull_failing(&machine.pool),
            _ => None,
        };
        if let Some(span) = stuck
            && now < since + span
        {
            let complain = match machine.step {
                Step::Drain(_) => since + DRAIN_TIMEOUT,
                _ => since,
            };
            machine.degraded = (now >= complain).then(|| complaint(machine));
            return earlier(Some(since + span), Some(complain).filter(|at| *at > now));
        }
        machine.degraded = None;
        let rng = context.rng.of(&machine.name).of(&machine.desired);
        let factor = context.faults.slowness() * (1.0 + rng.between(-context.jitter, context.jitter));
        let due = since + stuck.unwrap_or_default() + scale(step.to_std().unwrap_or_default(), factor);
        if now < due {
            if !matches!(machine.step, Step::Reboot(_)) {
                return Some(due);
            }
            // The node counts as not ready before the reboot ends, and an outage may also end earlier.
            let outage = context.faults.api_outage().map(|span| since + span);
            return [Some(since + NOT_READY_AFTER), outage]
                .into_iter()
                .map(|at| at.filter(|at| *at > now))
                .fold(Some(due), earlier);
        }
        machine.step = match machine.step {
            Step::Drain(_) => Step::Write(due),
            Step::Write(_) => Step::Reboot(due),
            _ => {
                machine.config.clone_from(&machine.desired);
                Step::Idle
            }
        };
    }
}

/// How long a reboot takes: at least as long as an outage by a fault.
fn reboot(pool: &str, context: &MachinesContext<'_>) -> TimeDelta {
    let outage = context.faults.api_outage().filter(|_| pool == "master");
    outage.unwrap_or_default().max(context.durations.reboot)
}

fn is_dark(machine: &Machine, context: &MachinesContext<'_>, now: Time) -> bool {
    let Step::Reboot(since) = machine.step else {
        return false;
    };
    let lasts = match context.faults.api_outage() {
        Some(span) => span,
        None if context.single_node => context.durations.reboot,
        None => return false,
    };
    machine.pool == "master" && (context.single_node || now < since + lasts)
}

fn complaint(machine: &Machine) -> String {
    let name = &machine.name;
    match machine.step {
        Step::Drain(_) => format!(
            "Node {name} is reporting: \"failed to drain node: {name} after 1 hour. Please see \
             machine-config-controller logs for more information\""
        ),
        _ => format!(
            "Node {name} is reporting: \"failed to update OS to the new image: error pulling image: dial tcp: lookup \
             quay.io: no such host\""
        ),
    }
}

/// How many machines of a pool may be unavailable at a time: at least one, as in the machine-config operator.
fn unavailable(limit: &Value, size: usize) -> usize {
    let number = match limit {
        Value::Number(number) => number.as_u64().and_then(|number| usize::try_from(number).ok()),
        Value::String(text) => text
            .trim_end_matches('%')
            .parse::<usize>()
            .ok()
            .map(|percent| size * percent / 100),
        _ => None,
    };
    number.unwrap_or(1).max(1)
}

/// Masters that have been away long enough to count as not ready, and since when.
#[must_use]
pub fn not_ready(machines: &[Machine], now: Time) -> Vec<(String, Time)> {
    machines
        .iter()
        .filter(|machine| machine.pool == "master")
        .filter_map(|machine| match machine.step {
            Step::Reboot(since) if since + NOT_READY_AFTER <= now => Some((machine.name.clone(), since)),
            _ => None,
        })
        .collect()
}

/// The next status of a pool, with simulated times.
#[must_use]
pub fn pool_status(
    pool: &Pool,
    before: &Value,
    machines: &[Machine],
    context: &MachinesContext<'_>,
    generation: i64,
    now: Time,
) -> Value {
    let own: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.pool == pool.name)
        .collect();
    let current = fields::text(before, &["configuration", "name"]).to_owned();
    let goal = context
        .version
        .map_or(current, |version| rendered(&pool.name, version));
    let count = |test: &dyn Fn(&Machine) -> bool| own.iter().filter(|machine| test(machine)).count();
    let updated = count(&|machine| machine.config == goal && machine.step == Step::Idle);
    let done = updated == own.len();
    let degraded: Vec<&str> = own
        .iter()
        .filter_map(|machine| machine.degraded.as_deref())
        .collect();
    let ready = count(&|machine| machine.config == goal && machine.step == Step::Idle);
    let away = count(&|machine| machine.step != Step::Idle);
    let mut status = before.clone();
    let object = fields::object_at(&mut status, &[]);
    for (key, value) in [
        ("machineCount", own.len()),
        ("updatedMachineCount", updated),
        ("readyMachineCount", ready),
        ("unavailableMachineCount", away),
        ("degradedMachineCount", degraded.len()),
    ] {
        object.insert(key.to_owned(), json!(value));
    }
    object.insert("observedGeneration".to_owned(), json!(generation));
    if done {
        object.insert("configuration".to_owned(), json!({"name": goal}));
    }
    put_conditions(&mut status, pool, &goal, &degraded, done, now);
    status
}

/// What the machine-config operator says of a pool in its `.status.extension`. `None` while it has rendered nothing.
#[must_use]
pub fn description(pool: &Pool, machines: &[Machine], context: &MachinesContext<'_>) -> Option<String> {
    let goal = rendered(&pool.name, context.version?);
    let own = || machines.iter().filter(|machine| machine.pool == pool.name);
    let updated = own()
        .filter(|machine| machine.config == goal && machine.step == Step::Idle)
        .count();
    let all = own().count();
    let degraded: Vec<&str> = own().filter_map(|machine| machine.degraded.as_deref()).collect();
    Some(if !degraded.is_empty() {
        format!(
            "pool is degraded because nodes fail with {:?}",
            format!("{} nodes are reporting degraded status on sync", degraded.len())
        )
    } else if updated == all {
        format!("all {all} nodes are at latest configuration {goal}")
    } else if pool.paused {
        // Neither Updated nor Updating is True.
        "<unknown>".to_owned()
    } else {
        format!("{updated} (ready {updated}) out of {all} nodes are updating to latest configuration {goal}")
    })
}

/// Sets the conditions of a pool. `degraded`: what its degraded machines say; `done`: all machines run `goal`.
fn put_conditions(status: &mut Value, pool: &Pool, goal: &str, degraded: &[&str], done: bool, now: Time) {
    let bad = !degraded.is_empty();
    let syncing = if bad {
        "1 nodes are reporting degraded status on sync"
    } else {
        ""
    };
    let updated = if done {
        format!("All nodes are updated with MachineConfig {goal}")
    } else {
        String::new()
    };
    let updating = match (done, pool.paused) {
        (false, false) => format!("All nodes are updating to MachineConfig {goal}"),
        (false, true) => format!("Pool is paused; will not update to {goal}"),
        (true, _) => String::new(),
    };
    for (kind, on, reason, message) in [
        ("RenderDegraded", false, "", ""),
        ("NodeDegraded", bad, syncing, degraded.join(", ").as_str()),
        ("Degraded", bad, "", ""),
        ("Updated", done, "", updated.as_str()),
        ("Updating", !done && !pool.paused, "", updating.as_str()),
    ] {
        let cond = fields::Cond {
            kind,
            status: if on { "True" } else { "False" },
            reason,
            message,
        };
        super::operators::put(status, cond, now);
    }
}

/// Reads a machine from its Node. `None` for a node that the simulator did not create.
#[must_use]
pub fn read(node: &Value, clock: &Clock) -> Option<Machine> {
    let annotation = |name: &str| fields::text(node, &["metadata", "annotations", name]);
    let config = annotation(CURRENT);
    let rest = config.strip_prefix("rendered-")?;
    let (pool, _) = rest.rsplit_once('-')?;
    let step = annotation(STEP).split_once('@').and_then(|(step, since)| {
        let since = clock.simulated(fields::parse_timestamp(since)?);
        match step {
            "drain" => Some(Step::Drain(since)),
            "write" => Some(Step::Write(since)),
            "reboot" => Some(Step::Reboot(since)),
            _ => None,
        }
    });
    let degraded = Some(annotation(REASON)).filter(|reason| !reason.is_empty());
    Some(Machine {
        name: fields::text(node, &["metadata", "name"]).to_owned(),
        pool: pool.to_owned(),
        config: config.to_owned(),
        desired: match annotation(DESIRED) {
            "" => config.to_owned(),
            desired => desired.to_owned(),
        },
        step: step.unwrap_or(Step::Idle),
        degraded: degraded.map(str::to_owned),
    })
}

/// The merge patch for annotations and spec of a machine's Node.
#[must_use]
pub fn node_patch(machine: &Machine, clock: &Clock) -> Value {
    let stamp = |name: &str, since| {
        let since = clock.wall(since).to_rfc3339_opts(SecondsFormat::Millis, true);
        json!(format!("{name}@{since}"))
    };
    let step = match machine.step {
        Step::Idle => Value::Null,
        Step::Drain(since) => stamp("drain", since),
        Step::Write(since) => stamp("write", since),
        Step::Reboot(since) => stamp("reboot", since),
    };
    let state = match (&machine.degraded, machine.step) {
        (Some(_), _) => "Degraded",
        (None, Step::Idle) => "Done",
        (None, _) => "Working",
    };
    let cordoned = machine.step != Step::Idle;
    json!({
        "metadata": {"annotations": {
            CURRENT: machine.config, DESIRED: machine.desired, STATE: state, STEP: step,
            REASON: machine.degraded.clone().unwrap_or_default(),
        }},
        "spec": {"unschedulable": if cordoned { json!(true) } else { Value::Null }},
    })
}

/// The next status of a Node, with simulated times.
#[must_use]
pub fn node_status(machine: &Machine, before: &Value, now: Time) -> Value {
    let mut status = before.clone();
    let (flag, reason, message) = match machine.step {
        Step::Reboot(_) => ("False", "KubeletNotReady", "the node reboots"),
        _ => ("True", "KubeletReady", "kubelet is posting ready status"),
    };
    let cond = fields::Cond {
        kind: "Ready",
        status: flag,
        reason,
        message,
    };
    super::operators::put(&mut status, cond, now);
    status
}

/// The Node of a new machine.
#[must_use]
pub fn new_node(name: &str, pool: &str, roles: &[&str], version: &str) -> Value {
    let mut labels = BTreeMap::from([("kubernetes.io/hostname", name), ("kubernetes.io/os", "linux")]);
    let roles: Vec<String> = roles
        .iter()
        .map(|role| format!("node-role.kubernetes.io/{role}"))
        .collect();
    for role in &roles {
        labels.insert(role, "");
    }
    let config = rendered(pool, version);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {
            CURRENT: config, DESIRED: config, STATE: "Done", REASON: ""}},
        "spec": {},
    })
}

#[cfg(test)]
mod tests;
