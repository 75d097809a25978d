//! What works report, and which of them hold slots.

use std::time::Duration;

use api::names::{ANNOTATION_SOAK_STARTED_AT, Step};
use hub_sim::{Change, ChangeKind};

use super::Work;
use crate::actor::Role;
use crate::oracle::facts::{Facts, Running, Upgrade};
use crate::oracle::fields::{text, version};
use crate::oracle::memory::Reported;

impl Facts {
    /// Notes which version a platform work reports.
    pub(super) fn note_reported(&mut self, change: &Change, work: &Work) {
        let now = self.now;
        let reported = work.reported("version");
        let reported = reported.and_then(|value| version(text(value, "/string")));
        if let Some(version) = reported.filter(|_| work.step == Some(Step::Platform)) {
            let cluster = self.cluster(&work.cluster);
            let before = cluster.reported.filter(|before| before.version == version);
            cluster.reported = Some(Reported {
                version,
                since: before.map_or(now, |before| before.since),
                is_gone: change.kind == ChangeKind::Deleted,
            });
        }
    }

    /// Notes which works hold slots.
    pub(super) fn note_running(&mut self, change: &Change, work: &Work) {
        let uid = change.after.uid.to_string();
        if change.kind == ChangeKind::Deleted || !work.takes_slot() {
            self.works.remove(&uid);
            return;
        }
        if let Some(before) = change.before.as_ref().filter(|_| self.by_controller()) {
            self.note_soak(&Work::of(before), work);
        }
        // An action runs once, whatever somebody writes into its status afterwards.
        let known = self.works.get(&uid);
        let is_over = work.step == Some(Step::PreAction) && known.is_some_and(|known| !known.goes_on);
        let goes_on = !is_over && !work.is_done() && !change.after.is_deleting;
        let known = known.filter(|known| known.revision == work.revision && known.retry == work.retry);
        let is_taken_back = goes_on && !self.by_controller() && known.is_some_and(|known| !known.goes_on);
        let taken_back = if is_taken_back {
            Some(self.now)
        } else {
            known.and_then(|known| known.taken_back)
        };
        // Who has taken over an agent reports what he likes, and need not be believed.
        let is_by_agents = self.role() == Some(Role::Agents);
        let running = Running {
            name: work.name.clone(),
            owner: work.uid.clone(),
            cluster: work.cluster.clone(),
            revision: work.revision.clone(),
            retry: work.retry.clone(),
            started: work.started.clone(),
            target: work.target.clone(),
            goes_on,
            accepted: known
                .and_then(|known| known.accepted)
                .or_else(|| is_by_agents.then_some(self.now))
                .filter(|_| work.is_accepted()),
            is_unasked: work.is_unasked(),
            taken_back,
        };
        self.works.insert(uid, running);
        // No row can tell of that end any more, unless whoever leads has heard of it.
        let upgrade = self.upgrades.get_mut(&work.uid).filter(|_| is_taken_back);
        if let Some(upgrade) = upgrade.filter(|upgrade| upgrade.finished.contains_key(&work.cluster)) {
            upgrade.taken_back.insert(work.cluster.clone(), self.now);
        }
    }

    /// The controller notes on a work that the soak of its cluster has begun. If agents had reported the end of the last step that
    /// holds a slot, and the storage of the hub has gone back to a time before that, whoever reads this note finds that end by it.
    pub(super) fn note_soak(&mut self, before: &Work, work: &Work) {
        let began = |work: &Work| {
            let notes = work.notes();
            notes
                .and_then(|notes| notes.get(ANNOTATION_SOAK_STARTED_AT))
                .cloned()
        };
        if began(work).is_none() || began(work) == began(before) {
            return;
        }
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let last = if upgrade.wants_operators(self.sent()) {
            Step::Operators
        } else {
            Step::Platform
        };
        let end = upgrade.end(&work.cluster, last, &work.revision);
        if end.is_some_and(|end| end.retry == work.retry) {
            self.finish(work);
        }
    }
}

impl Facts {
    /// Agents report the end of a pre-action. If it came after the end of its attempt's update, no other end is still to come.
    pub(super) fn end_belated(&mut self, work: &Work) {
        let upgrade = self.upgrades.get_mut(&work.uid);
        if upgrade.is_some_and(|upgrade| upgrade.belated.remove(&work.key())) {
            self.finish(work);
        }
    }
}

impl Upgrade {
    /// Notes whether a pre-action that begins was sent before agents reported the end of its attempt's last step that holds a
    /// slot. Its cluster is under way again, until the pre-action has ended.
    pub(in crate::oracle) fn note_belated(&mut self, work: &Work, sent: Duration) {
        let end = self.end(&work.cluster, Step::Platform, &work.revision);
        let has_updated = end.is_some_and(|end| end.retry == work.retry);
        let finished = self.finished.get(&work.cluster);
        let is_sent_before = finished.is_some_and(|finished| sent < *finished);
        if work.is_of(Step::PreAction) && has_updated && is_sent_before {
            self.belated.insert(work.key());
        } else {
            self.belated.remove(&work.key());
        }
    }

    /// Whether a work is that of operators which follow the update that had ended, in the same attempt. The spec of that attempt asks for
    /// them, so that end gave no slot back, although an earlier spec without operators may have been in force then.
    pub(in crate::oracle) fn follows_update(&self, work: &Work, ended: Duration) -> bool {
        let end_of = |step: Step| {
            let end = self.end(&work.cluster, step, &work.revision);
            end.filter(|end| end.retry == work.retry)
        };
        let has_updated = end_of(Step::Platform).is_some_and(|end| end.first <= ended);
        work.is_of(Step::Operators) && has_updated && end_of(Step::Operators).is_none()
    }
}

#[cfg(test)]
mod tests;
