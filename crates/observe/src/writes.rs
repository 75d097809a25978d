//! What the controller remembers about its own writes for one cluster. Observation adds it to the fleet, because the planner
//! must not repeat a write that is running, has failed or may still take effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::Step;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::{Attempt, Busy, ClusterBackoff, StepWork};

use crate::index::{Index, Uid};

/// Time after which a write that was given up can no longer take effect. The API server gives up a request 60
/// s after it has received it; the rest is a margin for what its store had accepted by then.
const CERTAIN_AFTER: Duration = Duration::from_secs(90);
/// What has been forbidden for this long must be permitted by a human.
const LASTING_AFTER: TimeDelta = TimeDelta::seconds(60);
/// How long a cluster whose namespace is missing is left out before it is tried again.
pub const MISSING_RETRY: TimeDelta = TimeDelta::seconds(60);
/// How long the result of reading a work counts as current.
const READING_MAX_AGE: TimeDelta = TimeDelta::seconds(60);

/// Running writes of one cluster.
#[derive(Clone, Debug, Default)]
pub struct RunningWrites {
    /// Number of writes.
    pub count: usize,
    /// The attempt of one that starts a step that holds a slot.
    pub starting: Option<Attempt>,
}

impl RunningWrites {
    /// The same in the form that the planner uses.
    #[must_use]
    pub const fn busy(&self) -> Busy {
        if self.starting.is_some() {
            Busy::Starting
        } else {
            Busy::Other
        }
    }
}

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
    /// Creations and changes of works are forbidden.
    pub start_forbidden: Option<Forbidden>,
    /// Deletions of works are forbidden.
    pub deletion_forbidden: Option<Forbidden>,
}

/// When the hub first and last forbade writes of one sort that have had no other result since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forbidden {
    /// The first time.
    pub first: DateTime<Utc>,
    /// The last time.
    pub last: DateTime<Utc>,
}

impl Forbidden {
    /// True when only a human can change it.
    fn is_lasting(self) -> bool {
        self.last - self.first >= LASTING_AFTER
    }
}

impl Backoff {
    /// True when the hub has forbidden writes of one sort for so long that only a human can change it.
    #[must_use]
    pub fn is_lasting(&self) -> bool {
        let mut forbidden = self.start_forbidden.into_iter().chain(self.deletion_forbidden);
        forbidden.any(Forbidden::is_lasting)
    }

    /// The same in the form that the planner uses.
    pub(crate) fn of_cluster(&self) -> ClusterBackoff {
        ClusterBackoff {
            until: self.until,
            error: Arc::clone(&self.text),
            lasting: self.start_forbidden.is_some_and(Forbidden::is_lasting),
            deletion_lasting: self.deletion_forbidden.is_some_and(Forbidden::is_lasting),
        }
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
    /// The attempt of the last creation without a response. It may create the work, even if a later write succeeded and the work was
    /// deleted since.
    pub created: Option<Attempt>,
    /// When the last try that may have taken effect was given up, or 30 s after that if the term ended before its time limit: it may
    /// still have been on its way. By a clock that nobody sets. `None`: all tries were postponed by the hub.
    pub given_up: Option<Instant>,
}

impl Unsettled {
    /// For how long a try may still take effect.
    #[must_use]
    pub fn left(&self, now: Instant) -> Duration {
        let over = self.given_up.map(|at| at + CERTAIN_AFTER);
        over.map_or(Duration::ZERO, |over| over.saturating_duration_since(now))
    }

    /// True when no try can take effect any more.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        self.left(now).is_zero()
    }

    /// True when the work of the last try exists, so no second one can be created.
    #[must_use]
    pub fn has_landed(&self, cluster: &str, uid: &Uid, index: &Index) -> bool {
        index.work_of(cluster, self.step).is_some_and(|view| {
            view.upgrade == *uid && view.work.attempt == self.attempt && !view.work.vanished
        })
    }
}

/// What is in doubt at one cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Doubts<'a> {
    /// The work may or may not have been created or changed.
    pub open: Option<&'a Unsettled>,
    /// Of another step. Its work is there, and an earlier creation may still take effect if the work is deleted.
    pub late: Option<&'a Unsettled>,
    /// Further ones of this sort.
    pub also_late: [Option<&'a Unsettled>; 3],
}

impl<'a> Doubts<'a> {
    /// Reads what is in doubt from the writes that are not settled.
    #[must_use]
    pub fn new(known: &'a [Unsettled], cluster: &str, uid: &Uid, index: &Index) -> Doubts<'a> {
        let open = known
            .iter()
            .find(|unsettled| !unsettled.has_landed(cluster, uid, index));
        let mut late = known
            .iter()
            .filter(|unsettled| open.is_none_or(|open| open.step != unsettled.step));
        Doubts {
            open,
            late: late.next(),
            also_late: [late.next(), late.next(), late.next()],
        }
    }

    /// The attempt of a start that may create a work.
    pub(crate) fn start(self) -> Option<&'a Attempt> {
        let all = [self.open, self.late].into_iter().chain(self.also_late).flatten();
        let mut starts = all.filter(|unsettled| unsettled.step != Step::PostAction);
        starts.find_map(|unsettled| unsettled.created.as_ref())
    }
}

/// The last time that a work was read from the hub.
#[derive(Clone, Copy, Debug)]
pub struct LastReading {
    /// The step.
    pub step: Step,
    /// When the read was requested.
    pub asked: DateTime<Utc>,
    /// When its result arrived.
    pub answered: DateTime<Utc>,
}

impl LastReading {
    /// The step, and when the read was requested, as long as the result is current.
    #[must_use]
    pub fn current(&self, now: DateTime<Utc>) -> Option<(Step, DateTime<Utc>)> {
        (now <= self.answered + READING_MAX_AGE).then_some((self.step, self.asked))
    }
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

impl StepBlocker {
    /// The same in the form that the planner uses.
    pub(crate) fn step_work(&self) -> StepWork {
        let retry_at = self.retry_at;
        match &self.kind {
            BlockerKind::Foreign => StepWork::Foreign { retry_at },
            BlockerKind::ForeignTerminating => StepWork::ForeignTerminating { retry_at },
            BlockerKind::Refused(message) => StepWork::Refused {
                retry_at,
                message: Arc::clone(message),
            },
        }
    }
}
