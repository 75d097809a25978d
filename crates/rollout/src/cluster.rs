//! The state machine of one cluster: from what was observed to its phase and its next wish.
//! The steps are judged in [`crate::steps`], their beginnings in [`crate::start`]; attempts are [`crate::requeue`]'s.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::fleet::{Cluster, Selection, Slot};
use crate::phase::{Phase, Step};
use crate::plan::{Action, DeleteReason, UpdateKind};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::record::{Outcome, Record, Stage};
use crate::requeue;
use crate::wording::cut;

/// How long a cluster may be missing from the selection before it counts as gone: PlacementDecisions are rewritten
/// non-atomically (`docs/design/rules.md#leave-debounce`).
pub const LEAVE_DEBOUNCE: TimeDelta = TimeDelta::seconds(5);
/// How long a Job must look failed without saying so before it counts as failed
/// (`docs/design/rules.md#approval-job`).
pub const SUSPECT_GRACE: TimeDelta = TimeDelta::seconds(15);

/// What a cluster asks the window for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wish {
    /// Nothing.
    Nothing,
    /// To take a slot and begin with this step.
    Start(Step),
    /// The step after one that is done (or its work, deleted by hand); the slot is held.
    Advance(Step, DateTime<Utc>),
}

/// Which plan the record's reason is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// This one.
    Now,
    /// The one before: the cluster waits for the window, which is to say why.
    Before,
}

/// The state of one cluster before the window decides who starts.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) record: Arc<Record>,
    pub(crate) wish: Wish,
    pub(crate) cleanups: Vec<(Step, DeleteReason)>,
    pub(crate) mark_soak: Option<(Step, DateTime<Utc>)>,
    /// A deadline has passed, and what the watches told is to be confirmed by reading the step's work before it counts.
    pub(crate) read: Option<Step>,
    pub(crate) wake: Option<DateTime<Utc>>,
    /// Its failure gave a slot back, but no written record says so yet: until one does the slot is not given away, for a
    /// restarted controller might find the cluster recovered and in flight.
    pub(crate) releasing: bool,
    /// Nothing may be written for it in this plan.
    pub(crate) held_back: bool,
    pub(crate) dropped: bool,
    pub(crate) told: Told,
}

pub(crate) struct Machine<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) policy: &'a Policy,
    pub(crate) now: DateTime<Utc>,
    /// Phase before this plan.
    pub(crate) before: Phase,
    /// The cluster holds a slot.
    pub(crate) holds: bool,
    /// It left the selection a moment ago and may come back.
    leaving: bool,
    pub(crate) out: Derived,
}

/// Derives the state of one cluster.
pub(crate) fn derive(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Derived {
    // What cannot be read is not judged: the cluster stays as it is until the row can be read or is gone.
    if let Some(record) = cluster.record.as_ref().filter(|record| record.is_unreadable()) {
        return Derived::of(Arc::clone(record));
    }
    let settled = requeue::settle(cluster, policy, now);
    let holds = settled.phase.holds_slot();
    let record = requeue::requeue(cluster, settled, policy, now);
    let mut machine = Machine {
        cluster,
        policy,
        now,
        before: record.phase,
        holds: holds && record.phase.holds_slot(),
        leaving: false,
        out: Derived::of(record),
    };
    machine.run();
    // What a plan only passes through does not count: a cluster that ends where it stood has stood there all along.
    if let Some(before) = cluster.record.as_deref() {
        let record = &mut machine.out.record;
        let same = before.phase == record.phase && before.attempt == record.attempt;
        if same && record.since != before.since {
            Arc::make_mut(record).since = before.since;
        }
    }
    machine.out.releasing = is_releasing(cluster, &machine.out.record);
    machine.out
}

/// What a restarted controller would not necessarily find again: a failure, or somebody else's work in the way. (An upgrade
/// that is done will be found done again.)
fn is_releasing(cluster: &Cluster, record: &Record) -> bool {
    let gave_slot_back = match record.phase {
        Phase::PreActionDegraded => true,
        Phase::Failed => matches!(
            record.reason,
            Reason::ClusterUpgradeTimeout | Reason::OperatorsUpgradeTimeout | Reason::OperatorsJobFailed
        ),
        Phase::Blocked => requeue::is_under_way(cluster, record),
        _ => false,
    };
    let queued = matches!(record.phase, Phase::Pending | Phase::Blocked);
    match cluster.written.as_deref() {
        None => gave_slot_back,
        Some(written) if written.attempt == record.attempt => {
            (gave_slot_back && written.phase != record.phase) || (queued && written.phase.holds_slot())
        }
        Some(written) => gave_slot_back || (written.phase.holds_slot() && !record.phase.holds_slot()),
    }
}

/// True when the record says that the platform and the operators are done for good.
pub(crate) fn is_upgraded(record: &Record) -> bool {
    matches!(record.phase, Phase::Complete | Phase::PostAction) || has_failed_after(record)
}

/// True when only the post-action failed, from which a cluster may recover (`docs/design/rules.md#post-action`).
pub(crate) fn has_failed_after(record: &Record) -> bool {
    record.phase == Phase::Failed
        && matches!(
            record.reason,
            Reason::PostActionFailed | Reason::PostActionTimeout
        )
}

impl Machine<'_> {
    fn run(&mut self) {
        if self.cluster.gone || self.has_left() {
            self.out.dropped = true;
            return;
        }
        let failed_for_good = self.before == Phase::Failed && !has_failed_after(&self.out.record);
        if self.before == Phase::Complete || failed_for_good {
            self.clean_up_finished();
            return;
        }
        if requeue::is_frozen(self.cluster, &self.out.record) && !self.serves_policy() {
            self.wait_for_answer();
        } else if self.serves_policy() {
            self.take_steps();
        } else {
            self.finish_old_revision();
        }
        if self.leaving {
            // What is in the way of its next step does not concern it any more.
            let phase = match self.out.record.phase {
                Phase::Blocked => Phase::Pending,
                phase => phase,
            };
            self.phase(
                phase,
                Reason::LeftSelection,
                "the cluster is not selected any more",
            );
            self.out.wish = Wish::Nothing;
            return self.clean_up_leaver();
        }
        self.clean_up_leftovers();
        self.clean_up_finished();
    }

    /// A start of an earlier revision may have come about: the cluster goes on from there, or is queued anew, when that is
    /// known.
    fn wait_for_answer(&mut self) {
        if !self.cluster.is_in_doubt() {
            return;
        }
        let failed = self.cluster.backoff.as_ref();
        let error = failed.map_or("", |backoff| &*backoff.error);
        let text = format!("it is not known yet whether the last write was carried out: {error}");
        self.wait(Reason::WriteFailed, text.trim_end_matches(": "));
    }

    /// True when the attempt is one at the policy's revision.
    pub(crate) fn serves_policy(&self) -> bool {
        self.out.record.attempt.revision == self.policy.revision
    }

    /// A cluster that left the selection before its upgrade started is dropped, after a debounce
    /// (`docs/design/rules.md#leavers`).
    fn has_left(&mut self) -> bool {
        let Selection::Left(since) = self.cluster.selection else {
            return false;
        };
        if self.before.is_started() || requeue::is_under_way(self.cluster, &self.out.record) {
            return false;
        }
        // A work that cannot be read may be upgrading the cluster.
        if self.cluster.unreadable_work().is_some() {
            return false;
        }
        let until = since + LEAVE_DEBOUNCE;
        if self.now < until {
            self.wake_at(until);
        }
        let has_pre_action = self.cluster.slot(Step::PreAction).ours().is_some();
        // Without its record the cluster is out of sight: a deletion under way may still fail and be needed again.
        let writing = self.cluster.busy.is_some() || self.cluster.is_in_doubt();
        self.leaving = self.now < until || writing || has_pre_action;
        !self.leaving
    }

    /// It is dropped, and its slot given away, only when its pre-action is on its way out.
    fn clean_up_leaver(&mut self) {
        let is_over =
            matches!(self.cluster.selection, Selection::Left(since) if self.now >= since + LEAVE_DEBOUNCE);
        if is_over && self.cluster.slot(Step::PreAction).ours().is_some() {
            self.out
                .cleanups
                .push((Step::PreAction, DeleteReason::LeftSelection));
        }
    }

    /// The record says that the cluster is complete, and is written: platform and operators works may go
    /// (`docs/design/rules.md#terminal-row-first`).
    fn clean_up_finished(&mut self) {
        let record = &self.out.record;
        let written = self
            .cluster
            .written
            .as_deref()
            .is_some_and(|written| written.attempt == record.attempt && is_upgraded(written));
        if !written || !is_upgraded(record) {
            return;
        }
        for step in [Step::Platform, Step::Operators] {
            if self.cluster.slot(step).ours().is_some() {
                self.out.cleanups.push((step, DeleteReason::Complete));
            }
        }
    }

    /// Works of an earlier attempt: actions and Jobs are immutable or must run again, so they go before their step can
    /// begin; the platform work is never deleted mid-upgrade, only updated in place.
    fn clean_up_leftovers(&mut self) {
        let record = &self.out.record;
        if !requeue::is_announced(self.cluster, record) || !self.serves_policy() {
            return;
        }
        for step in [Step::PreAction, Step::Operators, Step::PostAction] {
            let leftover = self.cluster.slot(step).ours().is_some()
                && requeue::current(self.cluster, record, self.policy, step).is_none()
                && !record.succeeded(step.into());
            if leftover {
                self.out.cleanups.push((step, DeleteReason::Leftover));
            }
        }
    }

    /// A cluster in flight on an earlier revision finishes its step and is queued again; one that left the selection
    /// goes on to its end, for it will not be given the new revision.
    fn finish_old_revision(&mut self) {
        let selected = self.cluster.selection == Selection::In;
        if !selected && !self.before.holds_slot() {
            self.take_steps();
            return;
        }
        let step = if self.before == Phase::Operators {
            Step::Operators
        } else {
            Step::Platform
        };
        let Some(work) = requeue::served(self.cluster, &self.out.record, step) else {
            if self.cluster.slot(step).is_unreadable() && self.holds {
                self.wait_for_unreadable(step);
            } else {
                self.queue_again();
            }
            return;
        };
        self.note_work(step, work);
        let done = if step == Step::Operators {
            self.judge_operators(work)
        } else {
            self.judge_platform(work)
        };
        if done {
            self.finish(step.into(), Outcome::Succeeded);
        }
        let ended = done || self.out.record.phase == Phase::Failed;
        if ended && selected {
            self.queue_again();
        } else if done {
            self.take_steps();
        }
    }

    fn queue_again(&mut self) {
        let record = Record::clone(&self.out.record);
        let queued = requeue::queued_again(self.cluster, record, self.policy, self.now);
        self.out.record = Arc::new(queued);
        if let Selection::Left(since) = self.cluster.selection {
            self.leaving = true;
            self.wake_at(since + LEAVE_DEBOUNCE);
        }
        self.before = Phase::Pending;
        self.holds = false;
        self.take_steps();
    }

    pub(crate) fn wait(&mut self, reason: Reason, message: &str) {
        let phase = self.out.record.phase;
        self.phase(phase, reason, message);
    }

    pub(crate) fn block(&mut self, reason: Reason, message: &str) {
        self.phase(Phase::Blocked, reason, message);
    }

    pub(crate) fn phase(&mut self, phase: Phase, reason: Reason, message: &str) {
        self.out.told = Told::Now;
        let record = &*self.out.record;
        if record.phase == phase && record.reason == reason && *record.message == *cut(message) {
            return;
        }
        let record = Arc::make_mut(&mut self.out.record);
        if record.phase != phase {
            record.since = self.now;
        }
        record.phase = phase;
        self.out.explain(reason, message);
    }

    /// Takes a stage out of the record.
    pub(crate) fn forget(&mut self, stage: Stage) {
        if self.out.record.stage(stage).is_some() {
            Arc::make_mut(&mut self.out.record).stages[stage.index()] = None;
        }
    }

    pub(crate) fn wake_at(&mut self, at: DateTime<Utc>) {
        if at > self.now {
            self.out.wake = Some(self.out.wake.map_or(at, |wake| wake.min(at)));
        }
    }
}

impl Derived {
    /// A record as it is, and no wish.
    fn of(record: Arc<Record>) -> Derived {
        Derived {
            record,
            wish: Wish::Nothing,
            cleanups: Vec::new(),
            mark_soak: None,
            read: None,
            wake: None,
            releasing: false,
            held_back: false,
            dropped: false,
            told: Told::Now,
        }
    }

    /// Gives the reason why the cluster does not move.
    pub(crate) fn explain(&mut self, reason: Reason, message: &str) {
        self.told = Told::Now;
        let message = cut(message);
        if self.record.reason == reason && *self.record.message == *message {
            return;
        }
        let record = Arc::make_mut(&mut self.record);
        record.reason = reason;
        record.other_reason = None;
        if *record.message != *message {
            record.message = Arc::from(message);
        }
    }

    /// The action that carries out a wish at the time of the plan.
    pub(crate) fn action(&self, cluster: &Cluster, step: Step, started: DateTime<Utc>) -> Action {
        let attempt = self.record.attempt.clone();
        let name = Arc::clone(&cluster.name);
        let kind = match cluster.slot(step) {
            Slot::Ours(work) if step == Step::Platform && !work.vanished => {
                let retried = work.attempt.revision == attempt.revision;
                Some(if retried {
                    UpdateKind::Retry
                } else {
                    UpdateKind::Repoint
                })
            }
            Slot::Rival { .. } if step == Step::Platform => Some(UpdateKind::TakeOver),
            _ => None,
        };
        match kind {
            Some(kind) => Action::Update {
                cluster: name,
                attempt,
                started,
                kind,
            },
            None => Action::Create {
                cluster: name,
                step,
                attempt,
                started,
            },
        }
    }
}
