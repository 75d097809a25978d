//! A running update: its clock, the plateaus of its progress, and what holds it up.

use chrono::TimeDelta;
use clusterversion::Era;
use cvo_model::failure::{OperatorProblem, TaskError};
use cvo_model::progressing::{self, Round, RoundState};
use serde_json::Value;

use super::object;
use super::request::Release;
use crate::fields::{Cond, Time, set_condition};
use crate::platform::controller::ControllerContext;
use crate::platform::pace::scale;
use crate::run_levels::{OPERATORS, RUN_LEVELS, manifests};

/// (fraction of the update's time, percent done, operators that are waited for)
type Plateau = (f64, u32, &'static str);

/// Progress of a real update.
const PLATEAUS: [Plateau; 6] = [
    (0.0, 0, ""),
    (0.04, 12, "etcd, kube-apiserver"),
    (0.35, 16, "kube-scheduler"),
    (0.5, 79, "authentication, openshift-apiserver"),
    (0.6, 85, "machine-config"),
    (0.97, 99, ""),
];
const SINGLE: [Plateau; 1] = [(0.0, 50, "")];

/// A running update.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Update {
    version: String,
    started: Time,
    until: Time,
    slowness: f64,
    /// Since when a fault has stopped the clock.
    pub(super) held: Option<Time>,
    /// Whether a fault with a duration is over.
    overcome: bool,
    /// When progress was last computed.
    seen: Time,
}

/// Starts an update. Its clock starts when its acceptance was due, so that delays do not add up.
pub(super) fn begin(
    target: &Release,
    context: &ControllerContext<'_>,
    generation: i64,
    due: Time,
    now: Time,
) -> Update {
    let slowness = context.faults.slowness();
    let rng = context.rng.of("update").nth(generation.unsigned_abs());
    let started = if now - due < TimeDelta::seconds(1) {
        due
    } else {
        now
    };
    let until = started + context.pace.deviate(context.pace.update, slowness, rng);
    Update {
        version: target.version.clone(),
        started,
        until,
        slowness,
        held: None,
        overcome: false,
        seen: started,
    }
}

/// What holds an update up.
struct Hold<'a> {
    /// The plateau at which the update stays.
    plateau: usize,
    /// For how long; `None`: until the fault is removed.
    lasts: Option<TimeDelta>,
    /// The operator that the update waits for, and what is wrong with it.
    operator: Option<(&'a str, OperatorProblem)>,
}

impl<'a> Hold<'a> {
    fn of(context: &ControllerContext<'a>, plateaus: &[Plateau]) -> Option<Self> {
        // The last plateau up to the percentage.
        let up_to = |limit: f64| {
            let found = plateaus.iter().rposition(|plateau| f64::from(plateau.1) <= limit);
            found.unwrap_or(0)
        };
        let faults = context.faults;
        if let Some(held) = faults.held_by() {
            let row = OPERATORS.iter().find(|row| row.name == held.operator);
            let begins = row.map_or(0.79, |row| RUN_LEVELS[row.run_level].from);
            let lasts = held.lasts.to_std().unwrap_or_default();
            return Some(Self {
                plateau: up_to(begins * 100.0),
                lasts: Some(scale(lasts, context.pace.time_scale)),
                operator: Some((held.operator, held.problem)),
            });
        }
        let limit = faults.stuck().or_else(|| faults.failing().map(|_| 79.0))?;
        Some(Self {
            plateau: up_to(limit),
            lasts: None,
            operator: None,
        })
    }
}

/// Updates the progress to `now`. Returns when it next changes; `None` if the update is done or held until a fault is removed.
pub(super) fn progress(
    update: &mut Update,
    version: &mut Value,
    context: &ControllerContext<'_>,
    now: Time,
) -> Option<Time> {
    let plateaus: &[Plateau] = if context.pace.plateaus { &PLATEAUS } else { &SINGLE };
    let total = update.until - update.started;
    let at = |fraction: f64| update.started + scale(total.to_std().unwrap_or_default(), fraction);
    let reached = plateaus
        .iter()
        .rposition(|plateau| at(plateau.0) <= now)
        .unwrap_or(0);
    let hold = Hold::of(context, plateaus)
        .filter(|hold| reached >= hold.plateau && !(update.overcome && hold.lasts.is_some()));
    if let Some(hold) = hold {
        // A late call must not make the stop later than it was.
        let since = at(plateaus[hold.plateau].0).max(update.seen);
        let begun = *update.held.get_or_insert(since);
        let over = hold.lasts.map(|lasts| begun + lasts);
        if over.is_none_or(|over| over > now) {
            update.seen = now;
            let grace = show_hold(update, version, plateaus[hold.plateau], &hold, context, now);
            return [over, grace].into_iter().flatten().min();
        }
        update.overcome = true;
    }
    update.seen = now;
    if let Some(since) = update.held.take() {
        // The clock was stopped, so the rest takes as long as it would have.
        let pause = now - since;
        update.started += pause;
        update.until += pause;
        return progress(update, version, context, now);
    }
    let slowness = context.faults.slowness();
    if (slowness - update.slowness).abs() > f64::EPSILON {
        stretch(update, slowness / update.slowness, now);
        update.slowness = slowness;
        return progress(update, version, context, now);
    }
    if now >= update.until {
        return None;
    }
    // Here an operator is never called slow. There is a separate fault for that.
    show_plateau(update, version, plateaus[reached], now);
    Some(
        plateaus
            .get(reached + 1)
            .map_or(update.until, |next| at(next.0).max(now)),
    )
}

/// Makes the rest of an update take `factor` times as long and keeps the completed fraction.
fn stretch(update: &mut Update, factor: f64, now: Time) {
    let stretched = |span: TimeDelta| scale(span.to_std().unwrap_or_default(), factor);
    let (done, left) = (now - update.started, update.until - now);
    update.started = now - stretched(done);
    update.until = now + stretched(left);
}

fn round(update: &Update, percent: u32, errors: Vec<TaskError>) -> Round {
    let total = manifests(&update.version);
    Round {
        state: RoundState::Updating,
        done: (total * percent).div_ceil(100),
        total,
        errors,
        ..Round::default()
    }
}

fn show_plateau(update: &Update, version: &mut Value, (_, percent, waiting): Plateau, now: Time) {
    let names = waiting.split(", ").filter(|name| !name.is_empty());
    let errors = names.map(|name| TaskError::Operator {
        name: name.to_owned(),
        problem: OperatorProblem::Updating,
        since: now,
    });
    object::show_round(version, &round(update, percent, errors.collect()), now);
}

/// Reports an update that is held up. Returns when the next grace period ends.
fn show_hold(
    update: &Update,
    version: &mut Value,
    plateau: Plateau,
    hold: &Hold<'_>,
    context: &ControllerContext<'_>,
    now: Time,
) -> Option<Time> {
    let Some((operator, problem)) = hold.operator else {
        show_plateau(update, version, plateau, now);
        if let Some(message) = context.faults.failing() {
            show_failing(version, &update.version, message, now);
        }
        return None;
    };
    // The model counts grace periods in simulated time.
    let speed = 1.0 / context.pace.time_scale.max(1e-6);
    let waited = now - update.held.unwrap_or(now);
    let error = TaskError::Operator {
        name: operator.to_owned(),
        problem,
        since: now - scale(waited.to_std().unwrap_or_default(), speed),
    };
    let round = round(update, plateau.1, vec![error]);
    object::show_round(version, &round, now);
    let grace = progressing::wake_at(now, &round, Era::of(&update.version))? - now;
    Some(now + scale(grace.to_std().unwrap_or_default(), 1.0 / speed))
}

/// Reports a failure with the message of the fault.
fn show_failing(version: &mut Value, target: &str, message: &str, now: Time) {
    let reason = "ClusterOperatorNotAvailable";
    let summary = format!("Unable to apply {target}: {}", object::summary(message));
    for (kind, message) in [("Failing", message), ("Progressing", summary.as_str())] {
        let cond = Cond {
            kind,
            status: "True",
            reason,
            message,
        };
        set_condition(version, cond, now);
    }
}
