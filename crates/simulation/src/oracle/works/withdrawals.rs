//! What is withdrawn from clusters that are aborted: no update that a cluster has accepted.

use api::names::Step;
use hub_sim::{At as _, Change};
use serde_json::Value;

use super::Work;
use crate::oracle::facts::{DEAF, Facts, Record, Running};
use crate::oracle::fields::text;
use crate::oracle::generation::Generation;
use crate::oracle::row::Row;
use crate::oracle::rule::Rule;

impl Work {
    /// Whether it asks its cluster for an update.
    fn asks(&self) -> bool {
        let request = "/spec/workload/manifests/0/spec/desiredUpdate";
        self.step == Some(Step::Platform) && self.value.at(request).is_some_and(Value::is_object)
    }

    fn says(&self, name: &str) -> &str {
        self.reported(name).map_or("", |value| text(value, "/string"))
    }

    /// Whether agents report that the update has begun or ended.
    pub(super) fn is_accepted(&self) -> bool {
        let is_begun = matches!(self.says("state"), "Partial" | "Completed");
        self.step == Some(Step::Platform)
            && self.is_current()
            && is_begun
            && self.says("version") == self.target
            && !self.is_behind()
    }

    /// Whether agents report that the cluster runs something else than the target, and is asked for nothing. Both generations tell
    /// that its operator has seen that.
    pub(super) fn is_unasked(&self) -> bool {
        let is_known = ["generation", "observedGeneration"].map(|name| self.reported(name).is_some());
        let is_asked = ["requestedVersion", "requestedImage"].map(|name| !self.says(name).is_empty());
        let is_other = !self.says("version").is_empty() && self.says("version") != self.target;
        !self.asks()
            && self.is_current()
            && is_known == [true, true]
            && is_asked == [false, false]
            && is_other
            && !self.is_behind()
    }

    /// Whether it is left from an attempt before that of its cluster's row, which began when the cluster was not left out any more. Its
    /// request was withdrawn, and the cluster confirms that. Its deletion may have waited since the row said Skipped or Aborted.
    pub(super) fn is_left_of(&self, record: &Record) -> bool {
        let is_other = |row: &Row| (&row.revision, &row.retry) != (&self.revision, &self.retry);
        record.is_taken_up() && record.row().is_some_and(is_other) && self.is_unasked()
    }
}

impl Facts {
    /// A request is withdrawn only from a cluster that is aborted, or that is skipped and has failed, and not when its agents had reported
    /// long before that the update had begun.
    pub(super) fn judge_withdrawal(&mut self, change: &Change, work: &Work) {
        let Some(before) = change.before.as_ref().filter(|_| self.by_controller()) else {
            return;
        };
        if !Work::of(before).asks() || work.asks() || change.after.is_deleting {
            return;
        }
        let sent = self.sent();
        let upgrade = self.upgrades.get(&work.uid);
        let is_named = upgrade.is_some_and(|upgrade| {
            let mut specs = upgrade.valid_in_force(sent);
            let record = upgrade.records.get(&work.cluster);
            let has_failed = record.is_some_and(|record| {
                let told = record.phases.iter().rev().take(2);
                record.is_edited
                    || told
                        .into_iter()
                        .any(|told| matches!(&*told.phase, "Failed" | "Skipped"))
            });
            specs.any(|spec| {
                let is_skipped = spec.left_out.contains(&work.cluster) && has_failed;
                is_skipped || spec.aborted.contains(&work.cluster)
            })
        });
        let is_accepted = self.is_accepted(&change.after.uid);
        self.check(Rule::LeftOut, is_named && !is_accepted, || {
            format!(
                "the request of {} was withdrawn; aborted: {is_named}, accepted: {is_accepted}",
                work.cluster
            )
        });
    }

    /// A row says that a cluster is left out only when a spec in force names it so, or one that the storage has just lost, unless a
    /// rejected report keeps that row. A cluster that has left the selection stays Skipped when the spec aborts it instead, and the
    /// other way round, although no row may have said so before.
    pub(in crate::oracle) fn judge_left_out_row(&mut self, owner: &str, name: &str, row: &Row) {
        let sent = self.sent();
        let upgrade = self.upgrades.get(owner);
        let left = self.clusters.get(name).and_then(|cluster| cluster.left);
        let left = left.filter(|left| row.has_left && *left <= sent);
        let says = |spec: &Generation| {
            let is_aborted = spec.aborted.contains(name);
            spec.left_out.contains(name) && is_aborted == (row.phase == "Aborted")
        };
        let is_named = upgrade.is_some_and(|upgrade| {
            let mut until_left = left.into_iter().flat_map(|left| upgrade.valid_until_left(left));
            let is_still_out = || {
                let mut specs = upgrade.valid_in_force(sent);
                specs.any(|spec| spec.left_out.contains(name))
            };
            upgrade.valid_in_force(sent).any(says) || (until_left.any(says) && is_still_out())
        });
        let is_kept = upgrade.is_some_and(|upgrade| upgrade.is_kept_left_out(name, row));
        self.check(Rule::LeftOut, is_named || is_kept, || {
            format!("the row of {name} says {}, and no spec does", row.phase)
        });
    }

    /// Whether whoever has sent the change that is looked at had to know that the cluster had accepted the update of this work.
    pub(super) fn is_accepted(&self, uid: &str) -> bool {
        let since = self.works.get(uid).and_then(|work| work.accepted);
        since.is_some_and(|since| since + DEAF < self.sent())
    }

    /// Whether the platform work of the attempt of a row was withdrawn, and its cluster confirms that.
    pub(in crate::oracle) fn is_unasked(&self, owner: &str, name: &str, row: &Row) -> bool {
        let platform = Step::Platform.work_name(name);
        self.works.values().any(|work| {
            work.is_unasked
                && (work.owner.as_str(), &work.name) == (owner, &platform)
                && (&work.revision, &work.retry) == (&row.revision, &row.retry)
        })
    }

    /// The start of the update of an earlier spec that a cluster has ended, if a row says that the cluster holds no slot and tells of no
    /// update. Its work was never changed for the attempt of that row. A replica may not have heard yet that the end was taken back.
    pub(in crate::oracle) fn ended_instead(&self, owner: &str, name: &str, row: &Row) -> Option<String> {
        let is_out = matches!(row.phase.as_str(), "Pending" | "Blocked" | "Skipped" | "Aborted");
        let platform = Step::Platform.work_name(name);
        let is_earlier = |work: &&Running| {
            let was_ended = work.taken_back.is_some_and(|at| self.sent() < at + DEAF);
            (work.owner.as_str(), &work.name) == (owner, &platform)
                && work.revision != row.revision
                && (was_ended || !work.goes_on)
        };
        let work = self.works.values().find(is_earlier);
        let work = work.filter(|_| is_out && row.step("Platform").is_none());
        work.map(|work| work.started.clone())
    }
}

#[cfg(test)]
mod tests;
