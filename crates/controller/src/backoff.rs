//! Waits after failed writes, what stands in the way of steps, and writes whose outcome is not known.

use std::sync::Arc;
use std::time::Duration;

use api::names::Step;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::Attempt;

use crate::apply::Outcome;
use crate::index::{Index, Uid};
use crate::telemetry::labels::WriteOutcome;

/// First and longest wait after a failed write.
pub(crate) const BACKOFF: (TimeDelta, TimeDelta) = (TimeDelta::seconds(1), TimeDelta::seconds(60));
/// First and longest wait before a step with an obstacle is tried again (`docs/design/rules.md#foreign-works`).
pub(crate) const OBSTACLE: (TimeDelta, TimeDelta) = (TimeDelta::seconds(30), TimeDelta::seconds(300));
/// So long after the last try was given up on a write is certainly not carried out any more. The API server gives up by itself
/// 60 s after it has received a request; the rest is for what its store had taken by then.
pub(crate) const SETTLED: TimeDelta = TimeDelta::seconds(90);

/// A wait after failed writes.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// Not again before.
    pub until: DateTime<Utc>,
    /// Failures in a row.
    pub failures: u32,
    /// The last error.
    pub text: Arc<str>,
    /// One of the failed writes may have been carried out all the same.
    pub uncertain: bool,
    /// Creations in a row that were forbidden.
    pub forbidden: u32,
}

impl Backoff {
    /// After one more failure.
    #[must_use]
    pub fn after(before: Option<&Backoff>, now: DateTime<Utc>, text: &str, counted: WriteOutcome) -> Backoff {
        let failures = before.map_or(0, |backoff| backoff.failures);
        Backoff {
            until: now + doubled(BACKOFF, failures),
            failures: failures + 1,
            text: Arc::from(text),
            uncertain: !counted.is_refusal() || before.is_some_and(|backoff| backoff.uncertain),
            forbidden: 0,
        }
    }

    /// After an action that was asked for too often.
    #[must_use]
    pub fn held_off(before: Option<&Backoff>, now: DateTime<Utc>, text: &str, wait: Duration) -> Backoff {
        Backoff {
            until: now + TimeDelta::from_std(wait).unwrap_or(BACKOFF.1),
            failures: before.map_or(0, |backoff| backoff.failures),
            text: Arc::from(text),
            uncertain: before.is_some_and(|backoff| backoff.uncertain),
            forbidden: before.map_or(0, |backoff| backoff.forbidden),
        }
    }

    /// Waits no longer than a wait can be, whatever the clock does.
    pub fn clamp(&mut self, now: DateTime<Utc>) {
        self.until = self.until.min(now + BACKOFF.1);
    }
}

/// Creations of a work, or changes of one, that the hub put off or that were given up on. They may have taken a slot.
#[derive(Clone, Debug)]
pub struct Unsettled {
    /// The step.
    pub step: Step,
    /// The attempt that the work carries if the last try was carried out.
    pub attempt: Attempt,
    /// When the last try that may have been carried out was given up on; `None`: all were put off.
    pub given_up: Option<DateTime<Utc>>,
}

impl Unsettled {
    /// True when what is not there now does not come any more.
    #[must_use]
    pub fn is_over(&self, now: DateTime<Utc>) -> bool {
        self.given_up.is_none_or(|at| at + SETTLED <= now)
    }

    /// True when the work of the last try is there: no other can be created beside it.
    #[must_use]
    pub fn has_landed(&self, cluster: &str, uid: &Uid, index: &Index) -> bool {
        index.work_of(cluster, self.step).is_some_and(|view| {
            view.upgrade == *uid && view.work.attempt == self.attempt && !view.work.vanished
        })
    }
}

/// What an answer says of whether a write was carried out.
pub(crate) enum Certainty {
    Done,
    Refused,
    PutOff,
    Unknown,
    Unsent,
}

pub(crate) fn certainty(outcome: &Outcome) -> Certainty {
    match outcome {
        Outcome::Work(_) | Outcome::Doomed | Outcome::Upgrade(_) | Outcome::Report(_) => Certainty::Done,
        Outcome::Gone
        | Outcome::Rival(_)
        | Outcome::Foreign
        | Outcome::ForeignTerminating
        | Outcome::Refused(_)
        | Outcome::ReportRefused { .. }
        | Outcome::NamespaceGone => Certainty::Refused,
        Outcome::NotLeading => Certainty::Unsent,
        Outcome::Failed(_, WriteOutcome::Overloaded | WriteOutcome::Unreachable) => Certainty::PutOff,
        Outcome::Failed(_, counted) if counted.is_refusal() => Certainty::Refused,
        Outcome::GivenUp | Outcome::Failed(..) => Certainty::Unknown,
    }
}

/// A work was read from the hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastReading {
    pub(crate) step: Step,
    pub(crate) asked: DateTime<Utc>,
    pub(crate) answered: DateTime<Utc>,
}

/// What stands in the way of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObstacleKind {
    /// Somebody else's work has the name.
    Foreign,
    /// The same, but that work is being deleted.
    ForeignTerminating,
    /// The hub refused the work; what it said.
    Refused(Arc<str>),
}

/// A work that is not ours, or the hub's refusal of ours.
#[derive(Clone, Debug)]
pub struct Obstacle {
    /// What it is.
    pub kind: ObstacleKind,
    /// Look again then.
    pub retry_at: DateTime<Utc>,
    /// Looks so far.
    pub looks: u32,
}

/// A wait that doubles with each time, up to its bound.
pub(crate) fn doubled((first, most): (TimeDelta, TimeDelta), times: u32) -> TimeDelta {
    first.checked_mul(1 << times.min(10)).unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let waits: Vec<i64> = (0..9)
            .map(|times| doubled(BACKOFF, times).num_seconds())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(doubled(OBSTACLE, 40), TimeDelta::seconds(300));
    }
}
