//! Rules about maintenance windows and approvals. Windows of a run open every few minutes, so that whether one is open follows from
//! the time alone.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::Step;
use hub_sim::{At as _, Change, ChangeKind};
use serde_json::Value;

use super::facts::{DEAF, Facts, ON_ITS_WAY, Record, UNHEARD, Upgrade};
use super::fields::text;
use super::rule::Rule;
use super::schedule::{Approval, Place, list, since_begin};
use super::works::Work;

/// How long after it was planned a start may be sent, if nothing holds it up.
const PLANNED: Duration = Duration::from_secs(2);

impl Facts {
    /// How many clusters of an upgrade, beside this one, have certainly started by an attempt of this revision when a start was sent,
    /// whatever has become of them: their rows say so, or their update was requested and that request is still there. Those that were
    /// away since do not count.
    fn started(
        &self,
        upgrade: &Upgrade,
        cluster: &str,
        (uid, revision): (&str, &str),
        sent: Duration,
    ) -> usize {
        let is_requested = |name: &str| {
            let platform = Step::Platform.work_name(name);
            // Another upgrade may have taken it over, or an edit may have changed it in place.
            let is_left = self.works.values().any(|work| {
                (&*work.owner, &*work.cluster, &*work.revision) == (uid, name, revision)
                    && work.name == platform
            });
            let mut works = self.created.iter().filter(|_| is_left);
            works.any(|((owner, of, work, of_revision, _), created)| {
                (owner.as_str(), of.as_str(), of_revision.as_str()) == (uid, name, revision)
                    && *work == platform
                    && created.deleted.is_none()
                    && created.at + UNHEARD <= sent
            })
        };
        let has_started = |(name, record): &(&String, &Record)| {
            let is_known = self
                .clusters
                .get(*name)
                .is_some_and(|one| one.is_there && (one.changed.is_zero() || one.changed + UNHEARD < sent));
            let told = record.told_at(sent.saturating_sub(ON_ITS_WAY));
            let is_begun = |phase: &str| !matches!(phase, "" | "Pending" | "Blocked" | "Skipped" | "Aborted");
            let is_told = told.is_some_and(|told| is_begun(&told.phase)) && is_begun(record.phase_at(sent));
            let is_same = record.row().is_some_and(|row| row.revision == revision);
            let has_begun = is_told || is_requested(name);
            *name != cluster && is_known && !record.is_edited && is_same && has_begun
        };
        upgrade.records.iter().filter(has_started).count()
    }

    pub(super) fn approval(&mut self, change: &Change) {
        let uid = change.after.uid.to_string();
        if change.kind == ChangeKind::Deleted {
            let now = self.now;
            let known = self.approvals.iter_mut().find(|known| known.uid == uid);
            if let Some(known) = known {
                known.deleted = Some(now);
            }
            return;
        }
        let value = change.after.value();
        let approval = Approval {
            uid,
            upgrade: format!("{}/{}", change.after.namespace(), text(&value, "/spec/upgrade")),
            checkpoint: text(&value, "/spec/checkpoint").to_owned(),
            plan: text(&value, "/spec/planHash").to_owned(),
            since: self.now,
            expires: since_begin(text(&value, "/spec/expires")),
            deleted: None,
        };
        self.approvals.push(approval);
    }

    /// Approvals that were given since count as deleted by the storage that goes back: whoever has read one may not have heard that it
    /// is gone. A plan that was told of a spec that is still there stays told.
    pub(super) fn keep_approvals(&mut self, later: &Self) {
        let now = self.now;
        let is_lost = |one: &&Approval| self.approvals.iter().all(|kept| kept.uid != one.uid);
        let lost = later.approvals.iter().filter(is_lost).map(|one| Approval {
            deleted: one.deleted.or(Some(now)),
            ..one.clone()
        });
        let lost: Vec<Approval> = lost.collect();
        self.approvals.extend(lost);
        for (uid, upgrade) in &mut self.upgrades {
            let newest = upgrade.generations.iter().map(|spec| spec.number).max();
            let told = later.upgrades.get(uid).into_iter().flat_map(|one| &one.plans);
            let told = told.filter(|(number, _)| Some(*number) <= newest);
            upgrade.plans.extend(told.cloned());
        }
    }

    /// Notes which plans a status tells.
    pub(super) fn note_plans(&mut self, uid: &str, value: &Value) {
        let generation = value.at("/status/observedGeneration").and_then(Value::as_i64);
        let plans = list(value, "/status/approvals").map(|one| text(one, "/planHash").to_owned());
        let plans = plans.map(|plan| (generation.unwrap_or_default(), plan));
        if let Some(upgrade) = self.upgrades.get_mut(uid) {
            upgrade.plans.extend(plans);
        }
    }

    /// Whether clusters of an upgrade may start at a time by the windows of a spec in force; `None` if none of these has windows.
    fn is_open(&self, upgrade: &Upgrade, sent: Duration) -> Option<bool> {
        let specs = || upgrade.in_force(sent).map(|spec| &spec.control);
        let has_windows = specs().any(|control| !control.windows.is_empty());
        has_windows.then(|| specs().any(|control| control.is_open(sent, PLANNED + self.tolerance)))
    }

    /// No cluster starts while the windows of every spec in force are closed, or behind a checkpoint that nobody has approved. The
    /// update of a cluster that comes after its pre-action must fit a window as well.
    pub(super) fn judge_control(&mut self, work: &Work, sent: Duration, may_start: bool) {
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let is_open = self.is_open(upgrade, sent);
        let is_controlled = upgrade
            .in_force(sent)
            .any(|spec| !spec.control.checkpoints.is_empty());
        let closed = self.unapproved(upgrade, work, sent);
        let cluster = &work.cluster;
        if let Some(is_open) = is_open {
            self.check(Rule::Windows, is_open || may_start, || {
                format!("{cluster} started at {sent:?}, outside its windows")
            });
        }
        if is_controlled && !work.is_of(Step::Operators) {
            self.check(Rule::Approvals, closed.is_none() || may_start, || {
                format!(
                    "{cluster} started behind checkpoint {}, which nobody had approved",
                    closed.unwrap_or_default()
                )
            });
        }
    }

    /// The update of a cluster that has ended its pre-action.
    pub(super) fn judge_after_pre_action(&mut self, work: &Work) {
        let sent = self.sent();
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let record = upgrade.records.get(&work.cluster);
        let follows = record.is_some_and(|record| {
            !record.is_edited && record.phase_at(sent) == "PreAction" && record.row().is_some()
        });
        let is_first = !self.created.contains_key(&work.key());
        let is_open = self.is_open(upgrade, sent);
        if let Some(is_open) = is_open.filter(|_| work.is_of(Step::Platform) && follows && is_first) {
            self.check(Rule::Windows, is_open, || {
                format!(
                    "the update of {} was requested at {sent:?}, outside its windows",
                    work.cluster
                )
            });
        }
    }

    /// The checkpoint behind which a start is, by every spec in force, and that nobody had approved.
    fn unapproved(&self, upgrade: &Upgrade, work: &Work, sent: Duration) -> Option<String> {
        let attempt = (work.uid.as_str(), work.revision.as_str());
        let started = self.started(upgrade, &work.cluster, attempt, sent);
        // An edit that is taken back leads to the same plan again.
        let covered: BTreeSet<&str> = upgrade
            .in_force(sent)
            .map(|spec| &*spec.control.covered)
            .collect();
        let same = upgrade.generations.iter();
        let same = same.filter(|spec| covered.contains(&*spec.control.covered));
        let current: BTreeSet<i64> = same.map(|spec| spec.number).collect();
        let is_approved = |checkpoint: &str| {
            self.approvals.iter().any(|approval| {
                let is_of_plan = current
                    .iter()
                    .any(|number| upgrade.plans.contains(&(*number, approval.plan.clone())));
                let has_ended = approval
                    .expires
                    .is_some_and(|end| end + PLANNED + self.tolerance <= sent);
                let is_gone = approval.deleted.is_some_and(|deleted| deleted + DEAF <= sent);
                approval.upgrade == upgrade.key
                    && approval.checkpoint == checkpoint
                    && approval.since <= sent
                    && is_of_plan
                    && !has_ended
                    && !is_gone
            })
        };
        let mut closed = upgrade.in_force(sent).map(|spec| {
            let checkpoints = spec.control.checkpoints.iter();
            let mut behind = checkpoints.filter(|(_, place)| match place {
                Place::Canaries => !spec.canaries.is_empty() && !spec.canaries.contains(&work.cluster),
                Place::Clusters(most) => started >= *most,
            });
            behind
                .find(|(name, _)| !is_approved(name))
                .map(|(name, _)| name.clone())
        });
        let first = closed.next()??;
        closed.all(|one| one.is_some()).then_some(first)
    }
}

#[cfg(test)]
mod tests;
