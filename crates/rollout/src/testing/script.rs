//! What agents report and when, and a seeded generator of choices.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::StepStatus;

/// A small seeded generator (SplitMix64): the same seed gives the same choices.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end` (0 when `end` is 0).
    pub const fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next() % end }
    }

    /// True in `percent` of the cases.
    pub const fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What the agent of a cluster reports about a step, by seconds since it got the work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script(Vec<(i64, ReportedStatus)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ReportedStatus {
    OtherVersion,
    Running,
    Succeeded,
    Failed,
    MaybeFailed,
    Unhealthy,
}

impl Script {
    /// Never reports anything.
    #[must_use]
    pub const fn silent() -> Script {
        Script(Vec::new())
    }

    /// Runs from `running` on and succeeds at `done` (seconds).
    #[must_use]
    pub fn succeeds(running: i64, done: i64) -> Script {
        Script::silent().running(running).succeeded(done)
    }

    fn then(mut self, after: i64, status: ReportedStatus) -> Script {
        self.0.push((after, status));
        self.0.sort_by_key(|(after, _)| *after);
        self
    }

    /// Another version from this time on (seconds).
    #[must_use]
    pub fn other_version(self, after: i64) -> Script {
        self.then(after, ReportedStatus::OtherVersion)
    }

    /// Running from this time on (seconds).
    #[must_use]
    pub fn running(self, after: i64) -> Script {
        self.then(after, ReportedStatus::Running)
    }

    /// Succeeded from this time on (seconds).
    #[must_use]
    pub fn succeeded(self, after: i64) -> Script {
        self.then(after, ReportedStatus::Succeeded)
    }

    /// Failed from this time on (seconds).
    #[must_use]
    pub fn failed(self, after: i64) -> Script {
        self.then(after, ReportedStatus::Failed)
    }

    /// Failed pods and no active ones from this time on (seconds).
    #[must_use]
    pub fn maybe_failed(self, after: i64) -> Script {
        self.then(after, ReportedStatus::MaybeFailed)
    }

    /// Succeeded, but with Failing=True, from this time on (seconds).
    #[must_use]
    pub fn unhealthy(self, after: i64) -> Script {
        self.then(after, ReportedStatus::Unhealthy)
    }

    /// The status at `now`, and the failure that the cluster reports, for a work that the agent got at `epoch`.
    pub(super) fn read(&self, epoch: DateTime<Utc>, now: DateTime<Utc>) -> (StepStatus, Option<Arc<str>>) {
        let elapsed = (now - epoch).num_seconds();
        let Some((after, status)) = self.0.iter().rev().find(|(after, _)| *after <= elapsed) else {
            return (StepStatus::NotYet, None);
        };
        match status {
            ReportedStatus::OtherVersion => (StepStatus::OtherVersion, None),
            ReportedStatus::Running => (StepStatus::Running, None),
            ReportedStatus::Succeeded => (StepStatus::Succeeded, None),
            ReportedStatus::Failed => (StepStatus::Failed(Arc::from("The script fails")), None),
            ReportedStatus::MaybeFailed => {
                (StepStatus::MaybeFailed(epoch + TimeDelta::seconds(*after)), None)
            }
            ReportedStatus::Unhealthy => (StepStatus::Succeeded, Some(Arc::from("The cluster is failing"))),
        }
    }

    /// When the script reports something new after `now`.
    pub(super) fn next(&self, epoch: DateTime<Utc>, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.0
            .iter()
            .map(|(after, _)| epoch + TimeDelta::seconds(*after))
            .find(|at| *at > now)
    }
}
