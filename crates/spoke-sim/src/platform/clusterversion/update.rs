//! An update under way: its clock, the plateaus of its progress, and what holds it up.

use chrono::TimeDelta;
use clusterversion::Era;
use clusterversion::failure::{OperatorProblem, TaskError};
use clusterversion::progressing::{self, Round, RoundState};
use serde_json::Value;

use super::object;
use super::request::Release;
use crate::fields::{Cond, Time, set_condition};
use crate::platform::{Ground, scale};
use crate::spoke::rollout::table::{OPERATORS, STAGES, manifests};

/// (fraction of an update's time, percent done, operators waited for)
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

/// An update under way.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Update {
    version: String,
    started: Time,
    until: Time,
    slowness: f64,
    /// Since when a fault stops the clock.
    pub(super) held: Option<Time>,
    /// A fault that lasts its time is over.
    overcome: bool,
    /// When progress was last looked at.
    seen: Time,
}

/// An update's clock starts when its acceptance was due, so that late ticks do not add up.
pub(super) fn begin(target: &Release, ground: &Ground<'_>, generation: i64, due: Time, now: Time) -> Update {
    let slowness = ground.faults.slowness();
    let dice = ground.dice.of("update").nth(generation.unsigned_abs());
    let started = if now - due < TimeDelta::seconds(1) {
        due
    } else {
        now
    };
    let until = started + ground.pace.deviate(ground.pace.update, slowness, dice);
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
    /// The plateau it stays on.
    plateau: usize,
    /// For how long; `None`: until the fault is gone.
    lasts: Option<TimeDelta>,
    /// The operator that is waited for, and what is wrong with it.
    operator: Option<(&'a str, OperatorProblem)>,
}

impl<'a> Hold<'a> {
    fn of(ground: &Ground<'a>, plateaus: &[Plateau]) -> Option<Self> {
        // The last plateau that is not beyond the percentage.
        let up_to = |limit: f64| {
            let found = plateaus.iter().rposition(|plateau| f64::from(plateau.1) <= limit);
            found.unwrap_or(0)
        };
        let faults = ground.faults;
        if let Some(wait) = faults.wait() {
            let row = OPERATORS.iter().find(|row| row.name == wait.operator);
            let begins = row.map_or(0.79, |row| STAGES[row.stage].from);
            let lasts = wait.lasts.to_std().unwrap_or_default();
            return Some(Self {
                plateau: up_to(begins * 100.0),
                lasts: Some(scale(lasts, ground.pace.time_scale)),
                operator: Some((wait.operator, wait.problem)),
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

/// Shows the progress of `now`. Returns the next instant at which it changes; `None` when done or held for good.
pub(super) fn progress(
    update: &mut Update,
    version: &mut Value,
    ground: &Ground<'_>,
    now: Time,
) -> Option<Time> {
    let plateaus: &[Plateau] = if ground.pace.plateaus { &PLATEAUS } else { &SINGLE };
    let total = update.until - update.started;
    let at = |fraction: f64| update.started + scale(total.to_std().unwrap_or_default(), fraction);
    let reached = plateaus
        .iter()
        .rposition(|plateau| at(plateau.0) <= now)
        .unwrap_or(0);
    let hold = Hold::of(ground, plateaus)
        .filter(|hold| reached >= hold.plateau && !(update.overcome && hold.lasts.is_some()));
    if let Some(hold) = hold {
        // A late look must not make the stop later than it was.
        let since = at(plateaus[hold.plateau].0).max(update.seen);
        let begun = *update.held.get_or_insert(since);
        let over = hold.lasts.map(|lasts| begun + lasts);
        if over.is_none_or(|over| over > now) {
            update.seen = now;
            let grace = show_hold(update, version, plateaus[hold.plateau], &hold, ground, now);
            return [over, grace].into_iter().flatten().min();
        }
        update.overcome = true;
    }
    update.seen = now;
    if let Some(since) = update.held.take() {
        // Time stood still; the rest takes as long as it would have.
        let pause = now - since;
        update.started += pause;
        update.until += pause;
        return progress(update, version, ground, now);
    }
    let slowness = ground.faults.slowness();
    if (slowness - update.slowness).abs() > f64::EPSILON {
        stretch(update, slowness / update.slowness, now);
        update.slowness = slowness;
        return progress(update, version, ground, now);
    }
    if now >= update.until {
        return None;
    }
    // An operator that is waited for is never called slow here: that is a fault of its own.
    show_plateau(update, version, plateaus[reached], now);
    Some(
        plateaus
            .get(reached + 1)
            .map_or(update.until, |next| at(next.0).max(now)),
    )
}

/// Makes what is left of an update take `factor` times as long, keeping the fraction done.
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

/// Shows an update that is held up. Returns when the law's next grace ends.
fn show_hold(
    update: &Update,
    version: &mut Value,
    plateau: Plateau,
    hold: &Hold<'_>,
    ground: &Ground<'_>,
    now: Time,
) -> Option<Time> {
    let Some((operator, problem)) = hold.operator else {
        show_plateau(update, version, plateau, now);
        if let Some(message) = ground.faults.failing() {
            show_failing(version, &update.version, message, now);
        }
        return None;
    };
    // The law counts its graces in simulated time.
    let speed = 1.0 / ground.pace.time_scale.max(1e-6);
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

/// A failure in the words of the fault.
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
