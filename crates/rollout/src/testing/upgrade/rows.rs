//! The rows of the report of a scenario's upgrade: what its controller writes, what somebody does to them on the hub, and what the next
//! leader finds.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use super::{Upgrade, is_untold};
use crate::model::{Plan, Record, Selection};
use crate::testing::{RowChange, stand_in};

/// How long changes that are not urgent are collected before they are written.
const COALESCE: TimeDelta = TimeDelta::seconds(2);

/// A row that was sent.
#[derive(Clone, Debug)]
pub(super) struct SentRow {
    record: Arc<Record>,
    /// When its answer comes, if it does.
    answered: DateTime<Utc>,
    /// True when the hub has the row, and its answer is lost.
    is_lost: bool,
}

impl Upgrade {
    /// Loses everything that is only in memory. Each row that was sent is or is not carried out. Returns the clusters whose rows somebody
    /// has changed: what the hub has is believed now.
    pub(in crate::testing) fn forget(
        &mut self,
        now: DateTime<Utc>,
        mut is_carried_out: impl FnMut() -> bool,
    ) -> Vec<Arc<str>> {
        for (name, (record, _)) in std::mem::take(&mut self.dropped) {
            self.rows.insert(name, record);
        }
        for (name, record) in std::mem::take(&mut self.unheard) {
            self.rows.insert(name, record);
        }
        for (name, sent) in std::mem::take(&mut self.sent) {
            if sent.is_lost || is_carried_out() {
                self.rows.insert(name, sent.record);
            }
        }
        self.slots_in_doubt.clear();
        let mut changed = Vec::new();
        for (name, row) in std::mem::take(&mut self.changed) {
            match row {
                Some(row) => self.rows.insert(Arc::clone(&name), row),
                None => self.rows.remove(&name),
            };
            changed.push(name);
        }
        self.drafts = self.rows.clone();
        self.due.clear();
        self.writes.clear();
        self.backoff.clear();
        self.unsettled.clear();
        self.read.clear();
        self.blockers.clear();
        self.vanished.clear();
        self.unconfirmed.clear();
        (self.done, self.deaf, self.hears_at) = (None, None, None);
        for selection in self.selection.values_mut() {
            if matches!(selection, Selection::Left(_)) {
                *selection = Selection::Left(now);
            }
        }
        changed
    }

    /// Keeps the plan's records until they are due to be written; `urgent` is how long an urgent one takes.
    pub(in crate::testing) fn adopt(&mut self, plan: &Plan, now: DateTime<Utc>, urgent: TimeDelta) -> bool {
        let mut changed = false;
        for state in &plan.clusters {
            if let Some((record, _)) = self.dropped.remove(&state.name) {
                self.rows.insert(Arc::clone(&state.name), record);
            }
            if self.drafts.get(&state.name) != Some(&state.record) {
                changed = true;
                self.drafts
                    .insert(Arc::clone(&state.name), Arc::clone(&state.record));
            }
            let differs = self.changed.contains_key(&state.name) || self.unheard.contains_key(&state.name);
            if !differs && self.rows.get(&state.name) == Some(&state.record) {
                self.due.remove(&state.name);
                continue;
            }
            let at = now + if state.urgent { urgent } else { COALESCE };
            let due = self.due.entry(Arc::clone(&state.name)).or_insert(at);
            *due = at.min(*due);
        }
        for name in &plan.dropped {
            changed = true;
            self.vanished.retain(|(cluster, _), _| cluster != name);
            if let Some(record) = self.take_row(name) {
                let wait = if record.phase.holds_slot() {
                    urgent
                } else {
                    COALESCE
                };
                self.dropped.insert(Arc::clone(name), (record, now + wait));
            }
        }
        changed
    }

    /// Removes what is known of the row of a cluster that is dropped. Returns the row that the hub may have: one by which the cluster
    /// holds a slot, if there is one.
    fn take_row(&mut self, name: &Arc<str>) -> Option<Arc<Record>> {
        let draft = self.drafts.remove(name);
        self.due.remove(name);
        self.changed.remove(name);
        self.earlier.remove(name);
        self.slots_in_doubt.remove(name);
        let row = self.rows.remove(name);
        let draft = draft.filter(|_| row.is_some());
        let sent = self.sent.remove(name).map(|sent| sent.record);
        let known: Vec<Arc<Record>> = [row, draft, self.unheard.remove(name), sent]
            .into_iter()
            .flatten()
            .collect();
        let slot = known.iter().find(|record| record.phase.holds_slot());
        slot.or(known.first()).cloned()
    }

    /// Sends the rows that are due. `answer`: how long the answer to one takes, and whether it is lost. Returns true when anything
    /// was to be done.
    pub(in crate::testing) fn flush(
        &mut self,
        now: DateTime<Utc>,
        mut answer: impl FnMut() -> (TimeDelta, bool),
    ) -> bool {
        let due = self.due.iter().filter(|(_, at)| **at <= now);
        let due: Vec<_> = due
            .map(|(name, _)| Arc::clone(name))
            .filter(|name| !self.sent.contains_key(name))
            .collect();
        for name in &due {
            self.due.remove(name);
            let Some(record) = self.drafts.get(name).cloned() else {
                continue;
            };
            if record.phase.holds_slot() {
                self.slots_in_doubt.insert(Arc::clone(name));
            }
            let (wait, is_lost) = answer();
            let sent = SentRow {
                record,
                answered: now + wait,
                is_lost,
            };
            self.sent.insert(Arc::clone(name), sent);
        }
        let has_heard = self.hear_of_rows(now);
        let before = self.dropped.len();
        self.dropped.retain(|_, (_, at)| *at > now);
        let rows = &self.rows;
        self.vanished
            .retain(|(name, step), work| is_untold(rows.get(name), *step, work));
        let done = self.done.take();
        let retried = done.is_some();
        if let Some(retry) = done {
            self.note_retry(retry);
        }
        !due.is_empty() || has_heard || self.dropped.len() < before || retried
    }

    /// Takes the answers to rows that are due. A row whose answer is lost is sent again. Returns true when there were any.
    fn hear_of_rows(&mut self, now: DateTime<Utc>) -> bool {
        let answered = self.sent.iter().filter(|(_, sent)| sent.answered <= now);
        let answered: Vec<_> = answered.map(|(name, _)| Arc::clone(name)).collect();
        for name in &answered {
            let Some(sent) = self.sent.remove(name) else {
                continue;
            };
            if sent.is_lost {
                self.unheard.insert(Arc::clone(name), sent.record);
                self.due.entry(Arc::clone(name)).or_insert(now + COALESCE);
            } else {
                self.slots_in_doubt.remove(name);
                self.write_row(name, sent.record);
            }
        }
        !answered.is_empty()
    }

    /// When the next row is sent or answered.
    pub(super) fn next_row(&self) -> Option<DateTime<Utc>> {
        let due = self.due.iter().filter(|(name, _)| !self.sent.contains_key(*name));
        let answers = self.sent.values().map(|sent| sent.answered);
        due.map(|(_, at)| *at).chain(answers).min()
    }

    /// True when a cluster was dropped and holds a slot by a row that the hub may have.
    pub(super) fn is_unreleased(&self, name: &str) -> bool {
        let dropped = self.dropped.get(name);
        dropped.is_some_and(|(record, _)| record.phase.holds_slot())
    }

    /// The hub has this row now, whatever somebody had done to the one before.
    fn write_row(&mut self, name: &Arc<str>, record: Arc<Record>) {
        self.changed.remove(name);
        self.unheard.remove(name);
        if let Some(before) = self.rows.insert(Arc::clone(name), record) {
            self.earlier.insert(Arc::clone(name), before);
        }
    }

    /// Somebody changes the row of a cluster on the hub. The controller knows better and writes it again, and until then what the hub has
    /// counts as written, unless the cluster holds a slot by the row that was there before.
    pub(in crate::testing) fn change_row(&mut self, name: &str, change: RowChange, now: DateTime<Utc>) {
        let known = self.rows.get_key_value(name);
        let known = known.filter(|(name, row)| !row.unreadable && self.drafts.contains_key(*name));
        let Some((name, row)) = known.map(|(name, row)| (Arc::clone(name), Arc::clone(row))) else {
            return;
        };
        let held = match change {
            RowChange::Lost => None,
            RowChange::Earlier => self.earlier.get(&name).cloned(),
            RowChange::Unreadable => Some(Arc::new(stand_in(&row))),
        };
        match held.clone().filter(|held| !held.unreadable) {
            Some(held) if goes_back(&row, &held) => {}
            Some(held) => {
                self.rows.insert(Arc::clone(&name), held);
            }
            None => {
                self.rows.remove(&name);
            }
        }
        if change == RowChange::Unreadable {
            self.readable.insert(Arc::clone(&name), row);
        }
        self.unheard.remove(&name);
        self.changed.insert(Arc::clone(&name), held);
        let at = now + COALESCE;
        let due = self.due.entry(name).or_insert(at);
        *due = at.min(*due);
    }

    /// Somebody fixes the row of a cluster that cannot be read, or deletes it. Returns true when there is such a row.
    pub(in crate::testing) fn mend_row(&mut self, name: &str, deletes: bool) -> bool {
        if !self.rows.get(name).is_some_and(|row| row.unreadable) {
            return false;
        }
        if let Some(row) = self.readable.remove(name).filter(|_| !deletes) {
            let name: Arc<str> = Arc::from(name);
            self.drafts.insert(Arc::clone(&name), Arc::clone(&row));
            self.rows.insert(name, row);
        } else {
            self.drafts.remove(name);
            self.rows.remove(name);
        }
        true
    }
}

/// True when a cluster holds a slot by the row that the hub accepted last, and none by the one that it has instead.
fn goes_back(accepted: &Record, held: &Record) -> bool {
    accepted.phase.holds_slot() && accepted.attempt == held.attempt && !held.phase.holds_slot()
}
