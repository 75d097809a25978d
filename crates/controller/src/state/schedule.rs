//! When to reconcile which upgrade, and what starts and ends with a term. No I/O.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use observe::index::SelectionChanges;

use crate::state::context::State;

/// Longest sleep of the loop, because it must regularly report that it is alive.
pub(crate) const MAX_SLEEP: Duration = Duration::from_secs(15);

impl State {
    /// Forgets the records of earlier terms, because the new term lists those on the hub.
    pub fn begin_term(&mut self) {
        self.owns_records = false;
        self.slots_released_at.clear();
        self.index.selection_changes = SelectionChanges::default();
        for entry in self.upgrades.values_mut() {
            entry.begin_term();
            entry.archive_by_status();
        }
    }

    /// Forgets the state that only a leader may use.
    pub fn end_term(&mut self) {
        self.owns_records = false;
        self.forget_orphans();
        for entry in self.upgrades.values_mut() {
            entry.status.reset();
            entry.dirty = entry.archive.is_none();
            if let Some(archive) = &mut entry.archive {
                archive.end_term();
            }
        }
    }

    /// Upgrades to reconcile now, the oldest first. `behind`: the writers are overloaded.
    pub fn due(&mut self, wall: DateTime<Utc>, now: Instant, behind: bool) -> Vec<Arc<str>> {
        let all = std::mem::take(&mut self.index.all_dirty);
        let work_released = std::mem::take(&mut self.index.work_released);
        for uid in std::mem::take(&mut self.index.dirty) {
            if let Some(entry) = self.upgrades.get_mut(&uid) {
                entry.dirty = true;
                if let Some(archive) = &mut entry.archive {
                    archive.want(now);
                }
            }
        }
        let unresolved = self.oldest_unresolved(now);
        let mut due: Vec<_> = Vec::new();
        for entry in self.upgrades.values_mut() {
            if !self.settings.serves(&entry.namespace) || entry.archive.is_some() {
                entry.dirty = false;
                continue;
            }
            let waits_for_work = entry.has_conflicts || entry.preflights.waits_for_another();
            entry.dirty |= all || (work_released && waits_for_work);
            entry.dirty |= entry.wake_at.is_some_and(|wake| wake <= wall);
            let waits = entry.is_younger_than(unresolved.as_ref());
            if entry.dirty && !waits && entry.may_reconcile(now, behind) {
                due.push((entry.created, Arc::clone(&entry.key), Arc::clone(&entry.uid)));
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, _, uid)| uid).collect()
    }

    /// When the loop must run again if nothing happens before.
    #[must_use]
    pub fn next(&self, wall: DateTime<Utc>, now: Instant, behind: bool) -> Instant {
        let unresolved = self.oldest_unresolved(now);
        let mut next = self
            .archives_at(now)
            .map_or(now + MAX_SLEEP, |at| at.min(now + MAX_SLEEP));
        for entry in self
            .upgrades
            .values()
            .filter(|entry| self.settings.serves(&entry.namespace))
        {
            if entry.dirty {
                // An upgrade that waits for an older one is reconciled when that one is known.
                if !entry.is_younger_than(unresolved.as_ref()) {
                    next = next.min(entry.next_allowed_at(now, behind));
                }
            } else if let Some(wake) = entry.wake_at {
                let left = (wake - wall).to_std().unwrap_or(Duration::ZERO);
                next = next.min(now + left);
            }
            // What is due but never sent must not wake the loop, which would not sleep any more.
            let rows = entry.rows.due_at().filter(|_| entry.takes_rows());
            let status = entry.status.due_at(now).filter(|_| entry.takes_status());
            for due in rows.into_iter().chain(status) {
                next = next.min(due);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests;
