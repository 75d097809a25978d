//! When a status is due: at once after a quiet second, then at most once a second, and only when something changed.

use std::time::{Duration, Instant};

use api::ManagedClustersUpgradeStatus;

/// Shortest time between two writes of a status.
const INTERVAL: Duration = Duration::from_secs(1);

/// The status of one upgrade: what it should be, and what was written.
#[derive(Debug, Default)]
pub struct StatusState {
    draft: Option<ManagedClustersUpgradeStatus>,
    written: Option<ManagedClustersUpgradeStatus>,
    last: Option<Instant>,
    writing: bool,
}

impl StatusState {
    /// Learns the status that the hub holds, unless this replica knows better because it wrote one.
    pub fn observe(&mut self, status: Option<&ManagedClustersUpgradeStatus>) {
        if self.draft.is_none() {
            self.written = status.cloned();
        }
    }

    /// The status that transitions are measured against: the latest draft, else what the hub holds.
    #[must_use]
    pub fn previous(&self) -> ManagedClustersUpgradeStatus {
        self.draft
            .as_ref()
            .or(self.written.as_ref())
            .cloned()
            .unwrap_or_default()
    }

    /// The status that the hub holds, as far as this replica knows: the one watchers see, so the one that transition
    /// times are measured against.
    #[must_use]
    pub fn written(&self) -> ManagedClustersUpgradeStatus {
        self.written.clone().unwrap_or_default()
    }

    /// Takes what the status should be.
    pub fn set(&mut self, status: ManagedClustersUpgradeStatus) {
        self.draft = Some(status);
    }

    /// Forgets the draft: another replica's status counts from now on.
    pub fn reset(&mut self) {
        self.draft = None;
        self.writing = false;
    }

    fn changed(&self) -> bool {
        self.draft.is_some() && self.draft != self.written
    }

    /// When the status is due, if it is to be written.
    #[must_use]
    pub fn due_at(&self, now: Instant) -> Option<Instant> {
        (self.changed() && !self.writing).then(|| self.last.map_or(now, |last| last + INTERVAL))
    }

    /// Takes the status to write, if it is due; must be answered with [`StatusState::wrote`].
    pub fn due(&mut self, now: Instant) -> Option<ManagedClustersUpgradeStatus> {
        let due = self.due_at(now).is_some_and(|at| at <= now);
        if !due {
            return None;
        }
        self.writing = true;
        self.last = Some(now);
        self.draft.clone()
    }

    /// Notes how a write ended.
    pub fn wrote(&mut self, status: ManagedClustersUpgradeStatus, success: bool) {
        self.writing = false;
        if success {
            self.written = Some(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(text: &str) -> ManagedClustersUpgradeStatus {
        ManagedClustersUpgradeStatus {
            progress: Some(text.to_owned()),
            ..ManagedClustersUpgradeStatus::default()
        }
    }

    #[test]
    fn a_status_is_written_at_once_then_once_a_second_and_only_when_it_changed() {
        let start = Instant::now();
        let mut state = StatusState::default();
        state.set(progress("1/2"));
        let first = state.due(start).unwrap();
        assert_eq!(state.due(start), None, "one write at a time");
        state.wrote(first, true);
        assert_eq!(state.due_at(start), None, "nothing changed");
        state.set(progress("2/2"));
        assert_eq!(state.due(start + Duration::from_millis(500)), None);
        assert!(state.due(start + INTERVAL).is_some());
    }

    #[test]
    fn a_failed_write_is_repeated() {
        let start = Instant::now();
        let mut state = StatusState::default();
        state.set(progress("1/2"));
        let status = state.due(start).unwrap();
        state.wrote(status, false);
        assert!(state.due(start + INTERVAL).is_some());
    }
}
