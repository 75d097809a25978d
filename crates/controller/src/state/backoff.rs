//! Waits after failed writes, blockers of steps, and writes with unknown results.

use std::sync::Arc;
use std::time::Duration;

use api::names::Step;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::Attempt;

use crate::apply::{Category, WriteError, WriteResult};
use crate::observe::index::{Index, Uid};

/// Shortest and longest wait after a failed write.
pub(crate) const BACKOFF: (TimeDelta, TimeDelta) = (TimeDelta::seconds(1), TimeDelta::seconds(60));
/// Shortest and longest wait before a blocked step is tried again (`docs/design/rules.md#foreign-works`).
pub(crate) const BLOCKER_RETRY: (TimeDelta, TimeDelta) = (TimeDelta::seconds(30), TimeDelta::seconds(300));
/// Time after which a write that was given up can no longer take effect. The API server gives up a request 60
/// s after it has received it; the rest is a margin for what its store had accepted by then.
pub(crate) const CERTAIN_AFTER: TimeDelta = TimeDelta::seconds(90);

/// A wait after failed writes.
#[derive(Clone, Debug)]
pub struct Backoff {
    /// The write is not tried again before this time.
    pub until: DateTime<Utc>,
    /// Number of consecutive failures.
    pub failures: u32,
    /// The last error.
    pub text: Arc<str>,
    /// One of the failed writes may have taken effect.
    pub uncertain: bool,
    /// Number of consecutive creations that were forbidden.
    pub forbidden: u32,
}

impl Backoff {
    /// The wait after another failure.
    #[must_use]
    pub fn after(before: Option<&Backoff>, now: DateTime<Utc>, error: &WriteError) -> Backoff {
        let failures = before.map_or(0, |backoff| backoff.failures);
        Backoff {
            until: now + doubled(BACKOFF, failures),
            failures: failures + 1,
            text: Arc::from(error.message.as_str()),
            uncertain: error.category() != Category::Refused
                || before.is_some_and(|backoff| backoff.uncertain),
            forbidden: 0,
        }
    }

    /// The wait after an action that was requested too often.
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

    /// Limits the wait to its maximum, in case the clock was set back.
    pub fn clamp(&mut self, now: DateTime<Utc>) {
        self.until = self.until.min(now + BACKOFF.1);
    }
}

/// Creations or changes of a work that the hub postponed, or that were given up. They may have taken effect
/// and use a slot.
#[derive(Clone, Debug)]
pub struct Unsettled {
    /// The step.
    pub step: Step,
    /// The attempt of the work if the last try took effect.
    pub attempt: Attempt,
    /// When the last try that may have taken effect was given up. `None`: all tries were postponed by the
    /// hub.
    pub given_up: Option<DateTime<Utc>>,
}

impl Unsettled {
    /// True when no try can take effect any more.
    #[must_use]
    pub fn is_over(&self, now: DateTime<Utc>) -> bool {
        self.given_up.is_none_or(|at| at + CERTAIN_AFTER <= now)
    }

    /// True when the work of the last try exists, so no second one can be created.
    #[must_use]
    pub fn has_landed(&self, cluster: &str, uid: &Uid, index: &Index) -> bool {
        index.work_of(cluster, self.step).is_some_and(|view| {
            view.upgrade == *uid && view.work.attempt == self.attempt && !view.work.vanished
        })
    }
}

/// What a result says about whether a write took effect.
pub(crate) enum Certainty {
    Done,
    Refused,
    PutOff,
    Unknown,
    Unsent,
}

pub(crate) fn certainty(outcome: &WriteResult) -> Certainty {
    match outcome {
        WriteResult::Work(_)
        | WriteResult::DeletionAccepted
        | WriteResult::Upgrade(_)
        | WriteResult::Report(_) => Certainty::Done,
        WriteResult::Gone
        | WriteResult::Rival(_)
        | WriteResult::Foreign
        | WriteResult::ForeignTerminating
        | WriteResult::Refused(_)
        | WriteResult::ReportRefused { .. }
        | WriteResult::NamespaceGone => Certainty::Refused,
        WriteResult::NotLeading => Certainty::Unsent,
        WriteResult::Failed(error) => match error.category() {
            Category::Refused => Certainty::Refused,
            Category::PutOff => Certainty::PutOff,
            Category::Unknown => Certainty::Unknown,
        },
        WriteResult::GivenUp => Certainty::Unknown,
    }
}

/// The last time that a work was read from the hub.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastReading {
    pub(crate) step: Step,
    pub(crate) asked: DateTime<Utc>,
    pub(crate) answered: DateTime<Utc>,
}

/// Why a step is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockerKind {
    /// A work that is not managed by any upgrade has the name.
    Foreign,
    /// The same, but that work is being deleted.
    ForeignTerminating,
    /// The hub rejected the work with this message.
    Refused(Arc<str>),
}

/// Blocks a step because of a work that is not ours, or because the hub rejects our work.
#[derive(Clone, Debug)]
pub struct StepBlocker {
    /// Why the step is blocked.
    pub kind: BlockerKind,
    /// When to check again.
    pub retry_at: DateTime<Utc>,
    /// Number of checks so far.
    pub checks: u32,
}

/// A wait that doubles each time, up to its maximum.
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
        assert_eq!(doubled(BLOCKER_RETRY, 40), TimeDelta::seconds(300));
    }
}
