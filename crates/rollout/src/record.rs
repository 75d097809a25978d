//! The durable record of a cluster, kept as a row of a report.
//!
//! A record and the works together are all that a restarted controller has. The rule that tells them apart: a record
//! is always written before a work of a new attempt is, so a work of the record's attempt is current and any other work
//! of ours is a leftover. Where no record exists, the work's own attempt is the current one; only the first attempt of a
//! cluster, which has no leftovers, may begin without a record.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::phase::{Phase, Step};
use crate::reason::Reason;

/// One try to bring a cluster to a revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt {
    /// Revision of the spec.
    pub revision: Arc<str>,
    /// Retry token that caused the attempt, empty for the first one; a `~` is added when an edit of the spec is taken back
    /// while works of that revision are left, for they do not serve the new attempt.
    pub retry: Arc<str>,
}

/// Appended to the token of an attempt that comes back to a revision of which works are left: an edit that is taken back
/// must not revive them with their old clocks.
pub(crate) const AGAIN: char = '~';

/// Longest retry of an attempt, in bytes, every `~` included: works and rows carry it.
pub const LONGEST_RETRY: usize = 256;

impl Attempt {
    /// True when this retry token caused it.
    #[must_use]
    pub fn is_of_retry(&self, token: &str) -> bool {
        *self.retry == *token || self.retry.trim_end_matches(AGAIN) == token
    }
}

/// Stages of a record: the four steps and the soak between operators and post-action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stage {
    /// [`Step::PreAction`].
    PreAction,
    /// [`Step::Platform`].
    Platform,
    /// [`Step::Operators`].
    Operators,
    /// `minSuccessTime`.
    Soak,
    /// [`Step::PostAction`].
    PostAction,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 5] = [
        Stage::PreAction,
        Stage::Platform,
        Stage::Operators,
        Stage::Soak,
        Stage::PostAction,
    ];

    /// Position in [`Stage::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl From<Step> for Stage {
    fn from(step: Step) -> Self {
        match step {
            Step::PreAction => Stage::PreAction,
            Step::Platform => Stage::Platform,
            Step::Operators => Stage::Operators,
            Step::PostAction => Stage::PostAction,
        }
    }
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It did what it should.
    Succeeded,
    /// It failed or ran out of time.
    Failed,
}

/// Times of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRecord {
    /// Start of its clock.
    pub started: DateTime<Utc>,
    /// First seen applied by the agent.
    pub applied: Option<DateTime<Utc>>,
    /// Its end.
    pub finished: Option<DateTime<Utc>>,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

impl StepRecord {
    /// A stage that starts now.
    #[must_use]
    pub const fn started(at: DateTime<Utc>) -> StepRecord {
        StepRecord {
            started: at,
            applied: None,
            finished: None,
            outcome: None,
        }
    }

    /// True when the stage ended well.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == Some(Outcome::Succeeded)
    }
}

/// Where a cluster stands, durably.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The attempt the record speaks of.
    pub attempt: Attempt,
    /// Phase.
    pub phase: Phase,
    /// Cause of the phase.
    pub reason: Reason,
    /// The text of [`Reason::Other`]; without meaning beside any other reason.
    pub other_reason: Option<Arc<str>>,
    /// What it waits for or what happened; at most 256 bytes.
    pub message: Arc<str>,
    /// Since when it is in this phase.
    pub since: DateTime<Utc>,
    /// Stages that started within the attempt (or succeeded in an earlier one and need not be repeated).
    pub stages: [Option<StepRecord>; 5],
    /// Version before the upgrade, where known.
    pub from_version: Arc<str>,
}

impl Record {
    /// The cause as rows and lists show it; empty when there is nothing to explain.
    #[must_use]
    pub fn reason_text(&self) -> &str {
        match (self.reason, &self.other_reason) {
            (Reason::None, _) => "",
            (Reason::Other, Some(text)) => text,
            (reason, _) => reason.as_str(),
        }
    }

    /// True when the record stands for a row that cannot be read, of an attempt that nobody knows: nothing may happen to its
    /// cluster.
    #[must_use]
    pub fn is_unreadable(&self) -> bool {
        self.reason == Reason::UnreadableRecord && self.attempt.revision.is_empty()
    }

    /// The record of a stage.
    #[must_use]
    pub const fn stage(&self, stage: Stage) -> Option<&StepRecord> {
        self.stages[stage.index()].as_ref()
    }

    /// True when the stage ended well.
    #[must_use]
    pub fn succeeded(&self, stage: Stage) -> bool {
        self.stage(stage).is_some_and(StepRecord::succeeded)
    }
}
