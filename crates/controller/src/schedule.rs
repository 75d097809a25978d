//! When to look at which upgrade, and what begins and ends with a term of leading. No I/O.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use crate::hall::State;
use crate::index::SelectionNews;
use crate::run::LONGEST;

impl State {
    /// Forgets the records of earlier terms: the lists of the new one tell those of the hub.
    pub fn begin_term(&mut self) {
        self.owns_records = false;
        self.index.ended.clear();
        self.index.selection_news = SelectionNews::default();
        for desk in self.desks.values_mut() {
            desk.begin_term();
            desk.archive_as_told();
        }
    }

    /// Forgets what only a leader may believe.
    pub fn end_term(&mut self) {
        self.owns_records = false;
        self.forget_orphans();
        for desk in self.desks.values_mut() {
            desk.status.reset();
            desk.dirty = desk.archive.is_none();
            if let Some(archive) = &mut desk.archive {
                archive.end_term();
            }
        }
    }

    /// Upgrades to look at now, the oldest first. `behind`: a long queue waits for the writers.
    pub fn due(&mut self, wall: DateTime<Utc>, now: Instant, behind: bool) -> Vec<Arc<str>> {
        let all = std::mem::take(&mut self.index.all_dirty);
        let vacated = std::mem::take(&mut self.index.vacated);
        for uid in std::mem::take(&mut self.index.dirty) {
            if let Some(desk) = self.desks.get_mut(&uid) {
                desk.dirty = true;
                if let Some(archive) = &mut desk.archive {
                    archive.want(now);
                }
            }
        }
        let unresolved = self.oldest_unresolved(now);
        let mut due: Vec<_> = Vec::new();
        for desk in self.desks.values_mut() {
            if !self.settings.serves(&desk.namespace) || desk.archive.is_some() {
                desk.dirty = false;
                continue;
            }
            desk.dirty |= all || (vacated && desk.contested);
            desk.dirty |= desk.wake_at.is_some_and(|wake| wake <= wall);
            let waits = desk.is_younger_than(unresolved.as_ref());
            if desk.dirty && !waits && desk.rested(now, behind) {
                due.push((desk.created, Arc::clone(&desk.key), Arc::clone(&desk.uid)));
            }
        }
        due.sort_unstable();
        due.into_iter().map(|(_, _, uid)| uid).collect()
    }

    /// When to turn again, if nothing happens before.
    #[must_use]
    pub fn next(&self, wall: DateTime<Utc>, now: Instant, behind: bool) -> Instant {
        let unresolved = self.oldest_unresolved(now);
        let mut next = self
            .archives_at(now)
            .map_or(now + LONGEST, |at| at.min(now + LONGEST));
        for desk in self
            .desks
            .values()
            .filter(|desk| self.settings.serves(&desk.namespace))
        {
            if desk.dirty {
                // What waits for an older one is looked at when that is known.
                if !desk.is_younger_than(unresolved.as_ref()) {
                    next = next.min(desk.rested_at(now, behind));
                }
            } else if let Some(wake) = desk.wake_at {
                let left = (wake - wall).to_std().unwrap_or(Duration::ZERO);
                next = next.min(now + left);
            }
            // The records of an upgrade that is being deleted are not written any more.
            let rows = desk.rows.due_at().filter(|_| !desk.is_deleting());
            for due in rows.into_iter().chain(desk.status.due_at(now)) {
                next = next.min(due);
            }
        }
        next
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
