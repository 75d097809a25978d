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
mod tests {
    use chrono::TimeDelta;
    use cvo_model::failure::OperatorProblem as Problem;
    use serde_json::json;

    use super::{Apply, Progress};
    use crate::fields::{Cond, Time, from_unix};
    use crate::run_levels::OPERATORS;
    use crate::spoke::rollout::operators::{Statuses, new_status, put};

    const OLD: &str = "4.14.0";
    const NEW: &str = "4.14.1";

    fn all(version: &str) -> Statuses {
        OPERATORS
            .iter()
            .map(|row| (row.name.to_owned(), new_status(version, from_unix(0))))
            .collect()
    }

    fn degrade(statuses: &mut Statuses, name: &str, kind: &'static str, status: &'static str) {
        let cond = Cond {
            kind,
            status,
            reason: "X",
            message: "x",
        };
        put(statuses.get_mut(name).unwrap(), cond, from_unix(0));
    }

    fn percent(progress: &Progress) -> u32 {
        progress.done * 100 / progress.total
    }

    fn after(minutes: i64) -> Time {
        from_unix(0) + TimeDelta::minutes(minutes)
    }

    #[test]
    fn the_count_stands_at_the_plateaus_of_real_updates() {
        let mut statuses = all(OLD);
        let mut apply = Apply::new(NEW, false, after(0));
        let mut plateaus = Vec::new();
        let mut minute = 0;
        for run_level in 0..8 {
            minute += 4;
            let progress = apply.advance(&statuses, None, after(minute));
            assert!(!progress.completed);
            plateaus.push(percent(&progress));
            for row in OPERATORS.iter().filter(|row| row.run_level == run_level) {
                statuses.insert(row.name.to_owned(), new_status(NEW, from_unix(0)));
            }
        }
        assert_eq!(plateaus, [12, 12, 13, 16, 25, 40, 79, 85]);
        assert!(
            !apply.advance(&statuses, None, after(minute)).completed,
            "the rest takes a minute"
        );
        let end = apply.advance(&statuses, None, after(minute + 2));
        assert!(end.completed && end.done == 859 && end.waiting.is_empty());
    }

    #[test]
    fn it_waits_for_the_operators_of_its_own_stage_only() {
        let statuses = all(OLD);
        let mut apply = Apply::new(NEW, false, after(0));
        assert_eq!(apply.advance(&statuses, None, after(1)).waiting, []);
        let progress = apply.advance(&statuses, None, after(3));
        let names: Vec<_> = progress
            .waiting
            .iter()
            .map(|waiting| waiting.name.as_str())
            .collect();
        assert_eq!(names, ["config-operator", "etcd"]);
        assert_eq!(progress.waiting[0].since, after(3));
        assert_eq!(
            apply.advance(&statuses, None, after(9)).waiting[0].since,
            after(3),
            "since the first look"
        );
    }

    #[test]
    fn a_new_count_stops_at_a_degraded_operator_of_a_stage_that_was_passed() {
        let mut statuses = all(NEW);
        statuses.insert("machine-config".into(), new_status(OLD, from_unix(0)));
        let mut apply = Apply::new(NEW, false, after(0));
        for minute in 1..10 {
            apply.advance(&statuses, None, after(minute));
        }
        degrade(&mut statuses, "etcd", "Degraded", "True");
        let progress = apply.advance(&statuses, None, after(10));
        assert_eq!(
            (percent(&progress), progress.waiting[0].problem),
            (85, Problem::Updating)
        );
        let mut again = Apply::new(NEW, false, after(10));
        let progress = again.advance(&statuses, None, after(20));
        assert_eq!(
            (percent(&progress), progress.waiting[0].problem),
            (12, Problem::Degraded)
        );
    }

    #[test]
    fn problems_are_told_apart() {
        let mut statuses = all(NEW);
        degrade(&mut statuses, "dns", "Degraded", "True");
        degrade(&mut statuses, "network", "Available", "False");
        degrade(&mut statuses, "etcd", "Degraded", "Unknown");
        // Nothing is known of it, and one does not exist.
        statuses.get_mut("console").unwrap()["conditions"] = json!([{"type": "Available", "status": "True"}]);
        statuses.remove("storage");
        statuses.get_mut("ingress").unwrap()["versions"] = json!([]);
        let mut apply = Apply::new(NEW, true, after(0));
        let found: Vec<_> = apply
            .advance(&statuses, None, after(1))
            .waiting
            .iter()
            .map(|waiting| (waiting.name.clone(), waiting.problem))
            .collect();
        let expected = [
            ("etcd", Problem::Degraded),
            ("console", Problem::Degraded),
            ("ingress", Problem::Updating),
            ("storage", Problem::NotAvailable),
            ("dns", Problem::Degraded),
            ("network", Problem::NotAvailable),
        ];
        assert_eq!(found, expected.map(|(name, problem)| (name.to_owned(), problem)));
    }

    #[test]
    fn an_operator_is_waited_for_since_its_first_problem_until_it_is_well() {
        let mut statuses = all(NEW);
        let mut apply = Apply::new(NEW, false, after(0));
        let mut since = |statuses: &Statuses, minute: i64| {
            let progress = apply.advance(statuses, None, after(minute));
            let first = progress.waiting.first();
            first.map(|waiting| (waiting.problem, waiting.since))
        };
        statuses.insert("etcd".into(), new_status(OLD, from_unix(0)));
        assert_eq!(since(&statuses, 3), Some((Problem::Updating, after(3))));
        degrade(&mut statuses, "etcd", "Degraded", "True");
        assert_eq!(since(&statuses, 23), Some((Problem::Degraded, after(3))));
        degrade(&mut statuses, "etcd", "Available", "False");
        assert_eq!(since(&statuses, 33), Some((Problem::NotAvailable, after(3))));
        degrade(&mut statuses, "etcd", "Available", "True");
        degrade(&mut statuses, "etcd", "Degraded", "False");
        assert_eq!(since(&statuses, 43), Some((Problem::Updating, after(3))));
        statuses.insert("etcd".into(), new_status(NEW, from_unix(0)));
        assert_eq!(since(&statuses, 44), None);
    }

    #[test]
    fn a_manifest_that_fails_holds_the_count_at_its_run_level_until_it_is_applied() {
        let mut statuses = all(OLD);
        for row in OPERATORS.iter().filter(|row| row.run_level < 2) {
            statuses.insert(row.name.to_owned(), new_status(NEW, from_unix(0)));
        }
        let mut apply = Apply::new(NEW, false, after(0));
        for minute in 1..5 {
            apply.advance(&statuses, None, after(minute));
        }
        let statuses = all(NEW);
        let level = percent(&apply.advance(&statuses, Some(after(60)), after(5)));
        for minute in 6..60 {
            let progress = apply.advance(&statuses, Some(after(60)), after(minute));
            assert_eq!((percent(&progress), progress.wake), (level, Some(after(60))));
        }
        let mut minutes = 60..70;
        assert!(minutes.any(|minute| apply.advance(&statuses, None, after(minute)).completed));
    }

    #[test]
    fn a_manifest_that_fails_after_the_last_run_level_keeps_the_release_from_completed() {
        let statuses = all(NEW);
        let mut apply = Apply::new(NEW, false, after(0));
        let mut seconds = (0..).step_by(5).map(from_unix);
        assert!(seconds.any(|now| percent(&apply.advance(&statuses, None, now)) > 90));
        for minute in 10..30 {
            assert!(!apply.advance(&statuses, Some(after(30)), after(minute)).completed);
        }
        assert!(apply.advance(&statuses, None, after(30)).completed);
    }

    #[test]
    fn an_update_does_not_complete_without_an_operator() {
        let mut statuses = all(NEW);
        statuses.remove("etcd");
        let mut apply = Apply::new(NEW, false, after(0));
        for minute in 1..60 {
            assert!(!apply.advance(&statuses, None, after(minute)).completed);
        }
        statuses.insert("etcd".into(), new_status(NEW, from_unix(0)));
        let mut minutes = 60..70;
        assert!(minutes.any(|minute| apply.advance(&statuses, None, after(minute)).completed));
    }
}
