//! Decides when a status is written: at once after a second without a write, otherwise at most once a second,
//! and only if it changed. The completion of an upgrade is written at once, because people wait for it.

use std::time::{Duration, Instant};

use api::ManagedClustersUpgradeStatus;
use api::conditions::COMPLETE;
use api::mcu::UpgradeState;
use api::time::from_chrono;
use chrono::{DateTime, Utc};

use super::status::complete_since;

/// Shortest time between two writes of a status.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait after failed writes.
const MAX_PAUSE: Duration = Duration::from_mins(1);

/// The status of one upgrade: what it should be, and what was written.
#[derive(Debug, Default)]
pub struct StatusState {
    draft: Option<ManagedClustersUpgradeStatus>,
    /// When the draft was made.
    drafted: DateTime<Utc>,
    written: Option<ManagedClustersUpgradeStatus>,
    last: Option<Instant>,
    writing: bool,
    /// Failed writes in a row.
    failures: u32,
    /// The hub's copy as last observed, in the form in which the hub returns it.
    observed: Option<ManagedClustersUpgradeStatus>,
    /// The hub's copy may differ from what was written, because someone changed it or the result of a write
    /// is unknown.
    may_differ: bool,
}

impl StatusState {
    /// Handles the status that the hub holds. A replica that has written one keeps its own, and writes it
    /// again if someone else has changed it.
    pub fn observe(&mut self, status: Option<&ManagedClustersUpgradeStatus>) {
        if self.draft.is_none() {
            self.written = status.cloned();
        } else if !self.writing && self.observed.as_ref() != status {
            self.may_differ = true;
        }
        self.observed = status.cloned();
    }

    /// The status against which transitions are measured: the latest draft or, without one, the status that
    /// the hub holds.
    #[must_use]
    pub fn latest(&self) -> Option<&ManagedClustersUpgradeStatus> {
        self.draft.as_ref().or(self.written.as_ref())
    }

    /// A copy of the latest status; empty if there is none.
    #[must_use]
    pub fn previous(&self) -> ManagedClustersUpgradeStatus {
        self.latest().cloned().unwrap_or_default()
    }

    /// The status that the hub holds, as far as this replica knows. Watchers see this one, so transition
    /// times are measured against it.
    #[must_use]
    pub const fn written(&self) -> Option<&ManagedClustersUpgradeStatus> {
        self.written.as_ref()
    }

    /// True when the latest status says that the spec is invalid.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        self.says(UpgradeState::Invalid)
    }

    /// True when the latest status says that nothing moves before a human acts.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.says(UpgradeState::Stalled)
    }

    fn says(&self, state: UpgradeState) -> bool {
        self.latest().is_some_and(|status| status.state == Some(state))
    }

    /// Sets the desired status.
    pub fn set(&mut self, status: ManagedClustersUpgradeStatus, now: DateTime<Utc>) {
        self.draft = Some(status);
        self.drafted = now;
    }

    /// Discards the draft, because another replica writes the status from now on.
    pub fn reset(&mut self) {
        self.draft = None;
        self.writing = false;
        self.failures = 0;
        self.may_differ = false;
    }

    fn changed(&self) -> bool {
        self.draft.is_some() && (self.may_differ || self.draft != self.written)
    }

    /// When the status must be written, if it must.
    #[must_use]
    pub fn due_at(&self, now: Instant) -> Option<Instant> {
        (self.changed() && !self.writing).then(|| match self.last {
            Some(last) if !self.is_completion() => last + self.pause(),
            _ => now,
        })
    }

    /// A second, doubled with every failure.
    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(1).min(10);
        INTERVAL.saturating_mul(1 << doublings).min(MAX_PAUSE)
    }

    /// True when the change is that the upgrade is complete. It cannot become incomplete again before the
    /// next write a second later.
    fn is_completion(&self) -> bool {
        let complete = |status: &Option<ManagedClustersUpgradeStatus>| {
            let conditions = status.iter().flat_map(|status| &status.conditions);
            conditions
                .filter(|condition| condition.type_ == COMPLETE)
                .any(|condition| condition.status == "True")
        };
        !self.may_differ && complete(&self.draft) && !complete(&self.written)
    }

    /// Returns the status to write if it is due. The result must be reported to [`StatusState::wrote`].
    pub fn due(&mut self, now: Instant) -> Option<ManagedClustersUpgradeStatus> {
        let due = self.due_at(now).is_some_and(|at| at <= now);
        if !due {
            return None;
        }
        let mut status = self.draft.clone()?;
        let base = if self.may_differ {
            self.observed.as_ref()
        } else {
            self.written.as_ref()
        };
        if let Some(base) = base {
            stamp(&mut status, base, self.drafted);
        }
        self.draft = Some(status.clone());
        if !self.may_differ && self.written.as_ref() == Some(&status) {
            // Only times differed: a condition changed and changed back before anyone saw it.
            return None;
        }
        self.writing = true;
        self.may_differ = false;
        self.last = Some(now);
        Some(status)
    }

    /// True when the hub holds the desired status.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        !self.writing && !self.changed()
    }

    /// True while a write is running.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        self.writing
    }

    /// Records the result of a write.
    pub fn wrote(&mut self, status: ManagedClustersUpgradeStatus, success: bool) {
        self.writing = false;
        if success {
            self.failures = 0;
            self.written = Some(status);
        } else {
            self.failures += 1;
            self.may_differ = true;
        }
    }

    /// Handles that somebody else has changed the hub's copy since the write that has just ended.
    pub const fn was_replaced(&mut self) {
        self.may_differ = true;
    }
}

/// Sets the transition times as watchers will see them. A condition with the same status as in `base` keeps
/// its time. The time of a changed one is after that in `base`: it is that of the draft if the draft saw no change, because it was
/// made while `base` was on its way. This happens when a status is sent, because only then it is known which status it replaces.
fn stamp(
    status: &mut ManagedClustersUpgradeStatus,
    base: &ManagedClustersUpgradeStatus,
    drafted: DateTime<Utc>,
) {
    let is_complete_since = status.completed_at.as_ref() == complete_since(status);
    for condition in &mut status.conditions {
        let Some(old) = base.conditions.iter().find(|old| old.type_ == condition.type_) else {
            continue;
        };
        if old.status == condition.status {
            condition.last_transition_time = old.last_transition_time.clone();
        } else if condition.last_transition_time <= old.last_transition_time {
            condition.last_transition_time = from_chrono(drafted).max(old.last_transition_time.clone());
        }
    }
    // Another time is that of a completion before a restore.
    if is_complete_since {
        status.completed_at = complete_since(status).cloned();
    }
}

#[cfg(test)]
mod tests;
