//! The durable record of a cluster, kept as a row of a report.
//!
//! A restarted controller has only the records and the works. One rule keeps them consistent: the record of a new
//! attempt is always written before a work of that attempt. So a work of the record's attempt is current, and any
//! other work of ours is a leftover. Without a record, the attempt of the work is the current one: only the first
//! attempt of a cluster, which has no leftovers, may begin without a record.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use api::names::Step;
use api::report::{Outcome, Phase, Stage};

use crate::model::reason::Reason;

/// One try to bring a cluster to a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// Revision of the spec.
    pub revision: Arc<str>,
    /// Retry token that caused the attempt, empty for the first attempt. When an edit of the spec is reverted while
    /// works of that earlier revision still exist, a `~` is appended, because these works do not belong to the new
    /// attempt.
    pub retry: Arc<str>,
}

/// Appended to the retry token of an attempt whose revision already has works. When an edit is reverted, these works
/// must not become current again with their old clocks.
pub(crate) const AGAIN: char = '~';

/// Longest retry token of an attempt, in bytes, including every `~`. Works and rows contain it.
pub const MAX_RETRY_BYTES: usize = 256;

impl Attempt {
    /// True when this retry token caused the attempt.
    #[must_use]
    pub fn is_of_retry(&self, token: &str) -> bool {
        *self.retry == *token || self.retry.trim_end_matches(AGAIN) == token
    }
}

/// Times of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// Start of the stage's clock.
    pub started: DateTime<Utc>,
    /// When the controller first saw that the agent had applied the work.
    pub applied: Option<DateTime<Utc>>,
    /// End of the stage.
    pub finished: Option<DateTime<Utc>>,
    /// How the stage ended.
    pub outcome: Option<Outcome>,
}

impl StepRecord {
    /// A stage that starts at this time.
    #[must_use]
    pub const fn started(at: DateTime<Utc>) -> StepRecord {
        StepRecord {
            started: at,
            applied: None,
            finished: None,
            outcome: None,
        }
    }

    /// Ends the stage with success, if it has not ended.
    pub(crate) fn succeed(&mut self, at: DateTime<Utc>) {
        if self.outcome.is_none() {
            self.finished = Some(at);
            self.outcome = Some(Outcome::Succeeded);
        }
    }

    /// True when the stage succeeded.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Some(Outcome::Succeeded)
    }
}

/// The durable state of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The attempt that the record is about.
    pub attempt: Attempt,
    /// Phase.
    pub phase: Phase,
    /// Cause of the phase.
    pub reason: Reason,
    /// The text of [`Reason::Other`]; meaningless with any other reason.
    pub other_reason: Option<Arc<str>>,
    /// The step whose work the hub rejected, with [`Reason::WorkRefused`]; meaningless with any other reason. After a
    /// restart the controller knows about the rejection only from this field.
    pub refused_step: Option<Step>,
    /// What the cluster is waiting for, or what happened; at most 256 bytes.
    pub message: Arc<str>,
    /// Time at which the cluster entered this phase.
    pub since: DateTime<Utc>,
    /// Stages that started within the attempt, or that succeeded in an earlier one and are not repeated.
    pub stages: [Option<StepRecord>; 5],
    /// Version before the upgrade, if known.
    pub from_version: Arc<str>,
    /// True when the record stands for a row that cannot be read. Its attempt is unknown, so nothing may be done
    /// for its cluster. Such a record is never written. Of its stages it has those that the row says to be open.
    pub unreadable: bool,
}

impl Record {
    /// True when it tells of a step, or of the soak.
    #[must_use]
    pub fn tells_a_step(&self) -> bool {
        self.stages.iter().any(Option::is_some)
    }

    /// The reason as rows and lists show it; empty when there is nothing to explain.
    #[must_use]
    pub fn reason_text(&self) -> &str {
        match (self.reason, &self.other_reason) {
            (Reason::None, _) => "",
            (Reason::Other, Some(text)) => text,
            (reason, _) => reason.as_str(),
        }
    }

    /// The record of a stage.
    #[must_use]
    pub const fn stage(&self, stage: Stage) -> Option<&StepRecord> {
        self.stages[stage.index()].as_ref()
    }

    /// True when both records are about the same run of the steps: the same attempt, and the same start of each step that both
    /// have. A cluster that was registered anew runs its steps again in the same attempt.
    #[must_use]
    pub fn is_same_run(&self, other: &Self) -> bool {
        let starts = self.stages.iter().zip(&other.stages);
        let mut both = starts.filter_map(|(own, other)| own.as_ref().zip(other.as_ref()));
        self.attempt == other.attempt && both.all(|(own, other)| own.started == other.started)
    }

    /// True when this record is certainly later than the other one, in whatever order they were written: both are about the same run
    /// of the steps, each step of the other one is in this one, and only this one tells of an end that is never taken back. A
    /// cluster is complete after a step that comes after the pre-action. Without one, somebody else has written Complete.
    #[must_use]
    pub fn is_later_in_run(&self, other: &Self) -> bool {
        let mut both = self.stages.iter().zip(&other.stages);
        let has_all = both.all(|(own, other)| own.is_some() || other.is_none());
        let ended = |stage| self.succeeded(stage) && !other.succeeded(stage);
        let mut stages = Stage::ALL.into_iter();
        let is_upgraded = stages.any(|stage| stage > Stage::PreAction && self.succeeded(stage));
        let completed = is_upgraded && self.phase == Phase::Complete && other.phase != Phase::Complete;
        let tells_more = completed || ended(Stage::Platform) || ended(Stage::Operators);
        other.tells_a_step() && self.is_same_run(other) && has_all && tells_more
    }

    /// True when the upgrade is at work on the cluster, or may be: a row that cannot be read may say so.
    #[must_use]
    pub const fn may_be_at_work(&self) -> bool {
        self.unreadable || self.phase.is_at_work()
    }

    /// True when the stage succeeded.
    #[must_use]
    pub fn succeeded(&self, stage: Stage) -> bool {
        self.stage(stage).is_some_and(StepRecord::succeeded)
    }
}
