//! Machines and their pools from one rendered configuration to the next: drain, write, reboot, one after the other.
//!
//! Pure. A machine's state is on its Node, where the real machine-config daemon has it too (annotations
//! `currentConfig`, `desiredConfig`, `state`), plus one annotation with the step and its start, so that a restart
//! finds a machine in the middle of its reboot.

use std::collections::BTreeMap;

use chrono::{SecondsFormat, TimeDelta};
use serde_json::{Value, json};

use super::operators::earlier;
use crate::dice::Dice;
use crate::fields::{self, Time};
use crate::platform::scale;
use crate::spoke::clock::Clock;
use crate::spoke::fault::Faults;
use crate::spoke::setup::Durations;

const CURRENT: &str = "machineconfiguration.openshift.io/currentConfig";
const DESIRED: &str = "machineconfiguration.openshift.io/desiredConfig";
const STATE: &str = "machineconfiguration.openshift.io/state";
const REASON: &str = "machineconfiguration.openshift.io/reason";
/// Step and its start, `drain@<RFC 3339, wall-clock>`.
const STEP: &str = "spoke-sim.mcu/step";
/// A drain may take this long before it counts as failed (the machine-config controller's figure).
const DRAIN_PATIENCE: TimeDelta = TimeDelta::hours(1);
/// A node that is away is noticed after so long.
const NOTICE: TimeDelta = TimeDelta::minutes(2);

/// What a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it runs its configuration.
    Idle,
    /// Its pods are evicted.
    Drain(Time),
    /// The new system is pulled and written.
    Write(Time),
    /// It is away.
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
    /// The configuration it is on its way to.
    pub desired: String,
    /// What it does.
    pub step: Step,
    /// Why it cannot go on.
    pub degraded: Option<String>,
}

/// One pool as its object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name, `master` or `worker`.
    pub name: String,
    /// Whether an admin holds it.
    pub paused: bool,
    /// `spec.maxUnavailable`: a number or a percentage.
    pub max_unavailable: Value,
}

/// What a pass is about.
pub struct Ground<'a> {
    /// The version whose configuration the machines are to run; `None` while its operator has not rendered it.
    pub version: Option<&'a str>,
    /// How long steps take.
    pub durations: &'a Durations,
    /// Largest deviation of them.
    pub jitter: f64,
    /// What is wrong.
    pub faults: &'a Faults,
    /// Whether there is one machine only: its reboots take the API server with them.
    pub single_node: bool,
    /// The cluster's own draws.
    pub dice: Dice,
}

/// What came of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The next instant at which something changes by itself.
    pub wake: Option<Time>,
    /// Whether nobody reaches the API server.
    pub dark: bool,
}

/// The configuration a pool's machines run with a version.
#[must_use]
pub fn rendered(pool: &str, version: &str) -> String {
    let dice = Dice::new(0).of(pool).of(version);
    format!(
        "rendered-{pool}-{:016x}{:016x}",
        dice.nth(0).bits(),
        dice.nth(1).bits()
    )
}

/// Brings the machines up to `now`.
pub fn advance(machines: &mut [Machine], pools: &[Pool], ground: &Ground<'_>, now: Time) -> Seen {
    let mut wake = None;
    for pool in pools {
        let mut own: Vec<&mut Machine> = machines
            .iter_mut()
            .filter(|machine| machine.pool == pool.name)
            .collect();
        wake = earlier(wake, advance_pool(&mut own, pool, ground, now));
    }
    Seen {
        wake,
        dark: machines.iter().any(|machine| is_dark(machine, ground, now)),
    }
}

/// What began goes on, whatever is wanted by now; what is free begins as far as there is room.
fn advance_pool(own: &mut [&mut Machine], pool: &Pool, ground: &Ground<'_>, now: Time) -> Option<Time> {
    let goal = ground
        .version
        .filter(|_| !pool.paused)
        .map(|version| rendered(&pool.name, version));
    let room = unavailable(&pool.max_unavailable, own.len());
    for (n, machine) in own.iter_mut().enumerate() {
        walk(machine, n == 0, ground, now);
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
        wake = earlier(wake, walk(machine, n == 0, ground, now));
    }
    // Steps that take no time leave room again at once.
    let idle = |machine: &&mut Machine| machine.step == Step::Idle;
    let waits =
        |machine: &&mut Machine| idle(machine) && goal.as_ref().is_some_and(|goal| *goal != machine.config);
    let has_room = own.iter().filter(|machine| !idle(machine)).count() < room;
    if has_room && own.iter().any(waits) {
        wake = Some(now);
    }
    wake
}

/// Takes one machine through the steps that are due. Returns when the next is.
fn walk(machine: &mut Machine, first: bool, ground: &Ground<'_>, now: Time) -> Option<Time> {
    loop {
        let (since, step) = match machine.step {
            Step::Idle => return None,
            Step::Drain(since) => (since, ground.durations.drain),
            Step::Write(since) => (since, ground.durations.write),
            Step::Reboot(since) => (since, reboot(&machine.pool, ground)),
        };
        let stuck = match machine.step {
            Step::Drain(_) if first => ground.faults.drain_stuck(&machine.pool),
            Step::Write(_) if first => ground.faults.pull_failing(&machine.pool),
            _ => None,
        };
        if let Some(span) = stuck
            && now < since + span
        {
            let complain = match machine.step {
                Step::Drain(_) => since + DRAIN_PATIENCE,
                _ => since,
            };
            machine.degraded = (now >= complain).then(|| complaint(machine));
            return earlier(Some(since + span), Some(complain).filter(|at| *at > now));
        }
        machine.degraded = None;
        let dice = ground.dice.of(&machine.name).of(&machine.desired);
        let factor = ground.faults.slowness() * (1.0 + dice.between(-ground.jitter, ground.jitter));
        let due = since + stuck.unwrap_or_default() + scale(step.to_std().unwrap_or_default(), factor);
        if now < due {
            if !matches!(machine.step, Step::Reboot(_)) {
                return Some(due);
            }
            // A node that is away long enough is noticed, and an outage may end before its reboot does.
            let outage = ground.faults.api_outage().map(|span| since + span);
            return [Some(since + NOTICE), outage]
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

/// How long a reboot takes: as long as the outage that a fault asks for.
fn reboot(pool: &str, ground: &Ground<'_>) -> TimeDelta {
    let outage = ground.faults.api_outage().filter(|_| pool == "master");
    outage.unwrap_or_default().max(ground.durations.reboot)
}

fn is_dark(machine: &Machine, ground: &Ground<'_>, now: Time) -> bool {
    let Step::Reboot(since) = machine.step else {
        return false;
    };
    let lasts = match ground.faults.api_outage() {
        Some(span) => span,
        None if ground.single_node => ground.durations.reboot,
        None => return false,
    };
    machine.pool == "master" && (ground.single_node || now < since + lasts)
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

/// How many machines of a pool may be away at one time: at least one, the machine-config operator's own rule.
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

/// Masters that have been away for long enough to be noticed.
#[must_use]
pub fn not_ready(machines: &[Machine], now: Time) -> Vec<(String, Time)> {
    machines
        .iter()
        .filter(|machine| machine.pool == "master")
        .filter_map(|machine| match machine.step {
            Step::Reboot(since) if since + NOTICE <= now => Some((machine.name.clone(), since)),
            _ => None,
        })
        .collect()
}

/// The status of a pool (times simulated), from the one before.
#[must_use]
pub fn pool_status(
    pool: &Pool,
    before: &Value,
    machines: &[Machine],
    ground: &Ground<'_>,
    generation: i64,
    now: Time,
) -> Value {
    let own: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.pool == pool.name)
        .collect();
    let current = fields::text(before, &["configuration", "name"]).to_owned();
    let goal = ground
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
    let flag = |on: bool| if on { "True" } else { "False" };
    let updating = !done && !pool.paused;
    let message = degraded.join(", ");
    let all_updated = format!("All nodes are updated with MachineConfig {goal}");
    let some_updating = format!("All nodes are updating to MachineConfig {goal}");
    let paused = format!("Pool is paused; will not update to {goal}");
    let bad = !degraded.is_empty();
    for (kind, on, reason, message) in [
        ("RenderDegraded", false, "", ""),
        (
            "NodeDegraded",
            bad,
            if bad {
                "1 nodes are reporting degraded status on sync"
            } else {
                ""
            },
            message.as_str(),
        ),
        ("Degraded", bad, "", ""),
        ("Updated", done, "", if done { all_updated.as_str() } else { "" }),
        (
            "Updating",
            updating,
            "",
            if updating {
                some_updating.as_str()
            } else if done {
                ""
            } else {
                paused.as_str()
            },
        ),
    ] {
        let cond = fields::Cond {
            kind,
            status: flag(on),
            reason,
            message,
        };
        super::operators::put(&mut status, cond, now);
    }
    status
}

/// Reads a machine from its Node; `None` for a node that is not ours.
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

/// The merge patch that makes a Node show its machine, annotations and spec.
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

/// The status of a Node (times simulated), from the one before.
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

/// A Node as it is installed.
#[must_use]
pub fn newborn(name: &str, pool: &str, roles: &[&str], version: &str) -> Value {
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
#[path = "machines_tests.rs"]
mod tests;
