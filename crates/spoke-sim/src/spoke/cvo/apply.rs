//! The apply loop of the cluster-version operator: how many manifests of a release are applied, and which operators it waits
//! for.
//!
//! This is a pure state machine. It goes through the run levels from the first manifest to the last, and starts again whenever
//! the operator restarts. That is why the progress of a real update is not monotone (110 of 863 after an hour).

use std::collections::BTreeMap;

use chrono::TimeDelta;
use cvo_model::failure::OperatorProblem;

use super::operator_state::operator;
use crate::fields::Time;
use crate::run_levels::{OPERATORS, RUN_LEVELS, manifests};
use crate::spoke::rollout::operators::Statuses;

/// Time from the first manifest to the first run level if all manifests can be applied.
const UNTIL_FIRST_RUN_LEVEL: TimeDelta = TimeDelta::minutes(2);
/// Time from one run level to the next if all operators of the run level are updated.
const BETWEEN_RUN_LEVELS: TimeDelta = TimeDelta::seconds(15);
/// Time from the last run level to the end.
const AFTER_LAST_RUN_LEVEL: TimeDelta = TimeDelta::minutes(1);
/// How often an applied release is applied again.
const RECONCILE: TimeDelta = TimeDelta::minutes(3);

/// An operator that the apply loop waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub name: String,
    /// What is wrong with it.
    pub problem: OperatorProblem,
    /// Since when the loop has waited for it, even if its problem changed.
    pub since: Time,
}

/// The progress of an apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Manifests applied.
    pub done: u32,
    /// Manifests of the release.
    pub total: u32,
    /// Operators that the loop waits for.
    pub waiting: Vec<Waiting>,
    /// Whether all manifests were applied at least once.
    pub completed: bool,
    /// When something next changes without an event.
    pub wake: Option<Time>,
}

/// The state of an apply.
#[derive(Clone, Debug)]
pub struct Apply {
    version: String,
    started: Time,
    /// The current run level, and since when.
    run_level: usize,
    entered: Time,
    completed: bool,
    since: BTreeMap<String, Time>,
}

impl Apply {
    /// An apply that starts now. `completed`: the release was fully applied before.
    #[must_use]
    pub fn new(version: &str, completed: bool, now: Time) -> Self {
        Self {
            version: version.to_owned(),
            started: now,
            run_level: 0,
            entered: now + UNTIL_FIRST_RUN_LEVEL,
            completed,
            since: BTreeMap::new(),
        }
    }

    /// The version that is being applied.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Advances as far as the operators allow. `held`: a manifest of the release fails at least until this time, so that the apply
    /// stays at its run level (`docs/design/cvo.md#run-levels`).
    pub fn advance(&mut self, statuses: &Statuses, held: Option<Time>, now: Time) -> Progress {
        let total = manifests(&self.version);
        if self.completed {
            let waiting = self.problems(statuses, |_| true, now);
            return Progress {
                done: total,
                total,
                waiting,
                completed: true,
                wake: Some(now + RECONCILE),
            };
        }
        if now < self.entered && self.run_level == 0 {
            let share = ratio(now - self.started, UNTIL_FIRST_RUN_LEVEL) * RUN_LEVELS[0].from;
            return self.partial(share, Vec::new(), Some(now + UNTIL_FIRST_RUN_LEVEL / 8));
        }
        let mut waiting = Vec::new();
        while self.run_level < RUN_LEVELS.len() {
            if now < self.entered {
                return self.partial(RUN_LEVELS[self.run_level].from, Vec::new(), Some(self.entered));
            }
            let run_level = self.run_level;
            waiting = self.problems(statuses, |of| of == run_level, now);
            if !waiting.is_empty() || held.is_some() {
                break;
            }
            self.run_level += 1;
            self.entered += BETWEEN_RUN_LEVELS;
            self.entered = self.entered.max(now);
        }
        if self.run_level < RUN_LEVELS.len() {
            let size = OPERATORS
                .iter()
                .filter(|row| row.run_level == self.run_level)
                .count();
            let run_level = RUN_LEVELS[self.run_level];
            let share =
                run_level.from + (run_level.to - run_level.from) * part(size - waiting.len().min(size), size);
            return self.partial(share, waiting, held);
        }
        let end = self.entered + AFTER_LAST_RUN_LEVEL;
        if now < end || held.is_some() {
            return self.partial(0.99, Vec::new(), held.or(Some(end)));
        }
        self.completed = true;
        self.since.clear();
        self.advance(statuses, None, now)
    }

    fn partial(&self, share: f64, waiting: Vec<Waiting>, wake: Option<Time>) -> Progress {
        let total = manifests(&self.version);
        Progress {
            done: portion(total, share),
            total,
            waiting,
            completed: false,
            wake,
        }
    }

    /// Operators of the given run levels that are not updated or not healthy by the rules of the model.
    fn problems(&mut self, statuses: &Statuses, of: impl Fn(usize) -> bool, now: Time) -> Vec<Waiting> {
        let mut found = Vec::new();
        for row in OPERATORS.iter().filter(|row| of(row.run_level)) {
            let problem = match statuses.get(row.name) {
                Some(status) => OperatorProblem::of(&operator(row.name, status), &self.version, false),
                None => Some(OperatorProblem::NotAvailable),
            };
            if let Some(problem) = problem {
                let since = *self.since.entry(row.name.to_owned()).or_insert(now);
                found.push(Waiting {
                    name: row.name.to_owned(),
                    problem,
                    since,
                });
            } else {
                // If an operator recovers and fails again, the wait starts again.
                self.since.remove(row.name);
            }
        }
        found
    }
}

#[allow(clippy::cast_precision_loss)]
fn ratio(span: TimeDelta, of: TimeDelta) -> f64 {
    (span.num_milliseconds() as f64 / of.num_milliseconds() as f64).clamp(0.0, 1.0)
}

#[allow(clippy::cast_precision_loss)]
fn part(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn portion(total: u32, share: f64) -> u32 {
    (f64::from(total) * share).round() as u32
}

#[cfg(test)]
mod tests;
