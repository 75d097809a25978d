//! What works report, and which of them hold slots.

use api::names::Step;
use hub_sim::{Change, ChangeKind};

use super::Work;
use crate::oracle::facts::{Facts, Running};
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
        let running = Running {
            name: work.name.clone(),
            owner: work.uid.clone(),
            cluster: work.cluster.clone(),
            revision: work.revision.clone(),
            retry: work.retry.clone(),
            started: work.started.clone(),
            target: work.target.clone(),
            goes_on,
            taken_back,
        };
        self.works.insert(uid, running);
        // No row can tell of that end any more, unless whoever leads has heard of it.
        let upgrade = self.upgrades.get_mut(&work.uid).filter(|_| is_taken_back);
        if let Some(upgrade) = upgrade.filter(|upgrade| upgrade.finished.contains_key(&work.cluster)) {
            upgrade.taken_back.insert(work.cluster.clone(), self.now);
        }
    }
}
