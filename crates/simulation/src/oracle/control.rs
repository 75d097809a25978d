//! Rules about maintenance windows and approvals. Windows of a run open every few minutes, so that whether one is open follows from
//! the time alone.

use std::collections::BTreeSet;
use std::time::Duration;

use api::names::Step;
use hub_sim::{At as _, Change, ChangeKind};
use serde_json::Value;

use super::facts::{DEAF, Facts, ON_ITS_WAY, Record, UNHEARD, Upgrade};
use super::fields::text;
use super::generation::Generation;
use super::rule::Rule;
use super::schedule::{Approval, Place, list, since_begin};
use super::works::Work;

/// How long after it was planned a start may be sent, if nothing holds it up.
const PLANNED: Duration = Duration::from_secs(2);

impl Upgrade {
    /// The specs by which clusters in flight may go on at a time: of those in force the valid ones and, where the first of them is
    /// invalid, the last valid one before it.
    pub(super) fn goes_on_by(&self, at: Duration) -> impl Iterator<Item = &Generation> {
        let first = self.in_force(at).min_by_key(|spec| spec.number);
        let invalid = first.filter(|spec| spec.is_invalid).map(|spec| spec.number);
        let mut earlier = self.generations.iter().rev();
        let last_valid =
            invalid.and_then(|number| earlier.find(|spec| spec.number < number && !spec.is_invalid));
        let valid = self.in_force(at).filter(|spec| !spec.is_invalid);
        valid.chain(last_valid)
    }
}

/// Whether a row says that its cluster has started.
fn is_begun(phase: &str) -> bool {
    !matches!(phase, "" | "Pending" | "Blocked" | "Skipped" | "Aborted")
}

/// Whether a cluster is behind a checkpoint when so many others have started.
fn is_behind(spec: &Generation, cluster: &str, started: usize, place: Place) -> bool {
    match place {
        Place::Canaries => !spec.canaries.is_empty() && !spec.canaries.contains(cluster),
        Place::Clusters(most) => started >= most,
    }
}

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

    /// Notes which plans a status tells, and which of them it asks somebody to approve.
    pub(super) fn note_plans(&mut self, uid: &str, value: &Value) {
        let generation = value.at("/status/observedGeneration").and_then(Value::as_i64);
        let plans = list(value, "/status/approvals").map(|one| text(one, "/planHash").to_owned());
        let plans = plans.map(|plan| (generation.unwrap_or_default(), plan));
        let asked = list(value, "/status/approvals").filter(|one| text(one, "/state") == "Waiting");
        let asked = asked.map(|one| (text(one, "/name").to_owned(), text(one, "/planHash").to_owned()));
        if let Some(upgrade) = self.upgrades.get_mut(uid) {
            upgrade.plans.extend(plans);
            upgrade.asked = asked.collect();
        }
    }

    /// Whether a queued cluster is behind a checkpoint of the present spec of which the status says that it waits, and nobody has
    /// approved the plan that the status tells, or such an approval may not count any more.
    pub(super) fn lacks_approval(
        &self,
        (uid, upgrade): (&str, &Upgrade),
        cluster: &str,
        now: Duration,
    ) -> bool {
        let row = upgrade.records.get(cluster).and_then(Record::row);
        let row = row.filter(|row| row.phase == "Pending");
        let Some((spec, row)) = upgrade.generations.last().zip(row) else {
            return false;
        };
        // A row that somebody has edited counts for the controller as well.
        let others = upgrade.records.iter().filter(|(name, _)| *name != cluster);
        let rows = others.filter_map(|(_, record)| record.row());
        let told = rows.filter(|row| is_begun(&row.phase)).count();
        let started = told.max(self.started(upgrade, cluster, (uid, row.revision.as_str()), now));
        let counts = |approval: &Approval, plan: &str| {
            approval.upgrade == upgrade.key
                && approval.plan == plan
                && approval.deleted.is_none()
                && approval.expires.is_none_or(|end| now + self.tolerance < end)
        };
        let mut asked = upgrade.asked.iter();
        asked.any(|(checkpoint, plan)| {
            let mut places = spec.control.checkpoints.iter();
            let is_closed =
                places.any(|(name, place)| name == checkpoint && is_behind(spec, cluster, started, *place));
            let mut given = self.approvals.iter();
            is_closed && !given.any(|one| one.checkpoint == *checkpoint && counts(one, plan))
        })
    }

    /// Whether clusters may start at a time by the windows of one of these specs; `None` if none of them has windows.
    fn is_open(&self, specs: &[&Generation], sent: Duration) -> Option<bool> {
        let has_windows = specs.iter().any(|spec| !spec.control.windows.is_empty());
        let tolerance = PLANNED + self.tolerance;
        has_windows.then(|| specs.iter().any(|spec| spec.control.is_open(sent, tolerance)))
    }

    /// No cluster starts while the windows of every spec in force are closed, or behind a checkpoint that nobody has approved. The
    /// update of a cluster that comes after its pre-action must fit a window as well.
    pub(super) fn judge_control(&mut self, work: &Work, sent: Duration, may_start: bool) {
        let Some(upgrade) = self.upgrades.get(&work.uid) else {
            return;
        };
        let specs: Vec<&Generation> = upgrade.in_force(sent).collect();
        let is_open = self.is_open(&specs, sent);
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

    /// The update of a cluster that has ended its pre-action. While the spec is invalid, it goes by the windows of the last valid one.
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
        let specs: Vec<&Generation> = upgrade.goes_on_by(sent).collect();
        let is_open = self.is_open(&specs, sent);
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
            let mut behind = checkpoints.filter(|(_, place)| is_behind(spec, &work.cluster, started, *place));
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
