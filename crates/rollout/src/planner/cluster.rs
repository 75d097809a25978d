//! The state machine of one cluster: from the observation to its phase and its next step.
//!
//! [`crate::planner::steps`] evaluates the steps, [`crate::planner::start`] decides whether one may begin, and
//! [`crate::planner::attempts`] decides which attempt the cluster is in.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{
    Cluster, DeleteReason, Operation, Outcome, Phase, Policy, Reason, Record, Selection, Stage, Step,
    StepWork, UpdateKind,
};
use crate::planner::attempts;
use crate::planner::attempts::LEAVE_DEBOUNCE;
use crate::planner::evidence;
use crate::planner::release;
use crate::planner::windows::{NOT_WITHIN_HORIZON, WindowState};
use crate::planner::wording::{UNREAD, cut};

/// How long a Job must look failed before it counts as failed although it does not report a failure
/// (`docs/design/rules.md#approval-job`).
pub const MAYBE_FAILED_GRACE: TimeDelta = TimeDelta::seconds(15);

/// What a cluster does next, if it gets a slot where it needs one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NextStep {
    /// No step is next.
    Nothing,
    /// Take a slot and begin with this step.
    Start(Step),
    /// Begin the step after one that is done, or create its work again that somebody deleted. The cluster keeps its
    /// slot.
    Advance(Step, DateTime<Utc>),
}

/// The state of one cluster before slots are assigned.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one cluster")]
pub(crate) struct Evaluation {
    pub(crate) record: Arc<Record>,
    pub(crate) next: NextStep,
    pub(crate) cleanups: Vec<(Step, DeleteReason)>,
    pub(crate) mark_soak: Option<(Step, DateTime<Utc>)>,
    /// True when the request of the update is taken out of the platform work.
    pub(crate) withdraws: bool,
    /// The step whose work must be read from the hub: a deadline has passed and the watches alone do not prove that it
    /// was missed, or the cluster was registered anew since the work was seen.
    pub(crate) read: Option<Step>,
    pub(crate) wake: Option<DateTime<Utc>>,
    /// True when a failure released the slot and no written record says so yet. Until then no other cluster gets the
    /// slot, because a restarted controller might find this one recovered and in flight.
    pub(crate) releasing: bool,
    /// True when this plan must not write for the cluster.
    pub(crate) held_back: bool,
    pub(crate) dropped: bool,
    /// True when the cluster must be asked again before it starts.
    pub(crate) stale: bool,
    /// True when nothing but its maintenance windows keeps the cluster from asking for a slot, and they open soon.
    pub(crate) opens_soon: bool,
    /// False while the record still has the reason of the previous plan. The cluster waits for a slot, and its reason
    /// depends on whether it gets one.
    pub(crate) reason_is_current: bool,
}

pub(crate) struct ClusterEvaluator<'a> {
    pub(crate) cluster: &'a Cluster,
    /// Whether its maintenance windows are open; `None` if it has none.
    pub(crate) window: Option<&'a WindowState>,
    pub(crate) policy: &'a Policy,
    pub(crate) now: DateTime<Utc>,
    /// Phase before this plan.
    pub(crate) before: Phase,
    /// True when the cluster holds a slot.
    pub(crate) holds: bool,
    /// True when the cluster left the selection before it started. It may come back, or it is dropped soon.
    pub(crate) leaving: bool,
    pub(crate) out: Evaluation,
}

/// Evaluates one cluster.
pub(crate) fn evaluate(
    cluster: &Cluster,
    window: Option<&WindowState>,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Evaluation {
    let evaluation = evaluate_once(cluster, window, policy, now);
    let record = &evaluation.record;
    let before = cluster.record.as_deref().map(|before| before.phase);
    let has_ended = !record.phase.holds_slot() && before != Some(record.phase);
    let is_edited = record.attempt.revision != policy.revision;
    // An edit that waited until nothing is left of what an aborted cluster was asked for reaches it in the same plan. So does one that
    // waited until the time of a step was over, although its work cannot be read.
    let was_waited_for = has_ended && (cluster.is_aborted() || record.phase.has_failed());
    if was_waited_for && cluster.selection == Selection::In && is_edited && !evaluation.dropped {
        let ended = Cluster {
            record: Some(Arc::clone(record)),
            ..cluster.clone()
        };
        return evaluate_once(&ended, window, policy, now);
    }
    evaluation
}

fn evaluate_once(
    cluster: &Cluster,
    window: Option<&WindowState>,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Evaluation {
    // If the record cannot be read, the cluster stays as it is until the row can be read or is gone. But it may hold a slot by a
    // work that is to be read.
    if let Some(record) = cluster.record.as_ref().filter(|record| record.unreadable) {
        let mut evaluation = Evaluation::of(Arc::clone(record));
        evaluation.read = cluster.unread_work();
        // Without the cluster the plan is another one, for which the approvals of this one do not count.
        evaluation.wake = match cluster.selection {
            Selection::Left(since) => Some(since + LEAVE_DEBOUNCE).filter(|left| now < *left),
            Selection::In => None,
        };
        return evaluation;
    }
    let settled = attempts::catch_up(cluster, policy, now);
    let holds = settled.phase.holds_slot();
    let record = attempts::requeue(cluster, settled, policy, window, now);
    let mut evaluator = ClusterEvaluator {
        cluster,
        window,
        policy,
        now,
        before: record.phase,
        holds: holds && record.phase.holds_slot(),
        leaving: false,
        out: Evaluation::of(record),
    };
    evaluator.run();
    evaluator.wake_for_edit();
    // Phases that are passed within one plan do not count: if a cluster ends in the phase it had, it has been there
    // all along.
    if let Some(before) = cluster.record.as_deref() {
        let record = &mut evaluator.out.record;
        let same = before.phase == record.phase && before.attempt == record.attempt;
        if same && record.since != before.since {
            Arc::make_mut(record).since = before.since;
        }
    }
    evaluator.out.releasing = release::is_releasing(cluster, &evaluator.out.record, policy);
    if evaluator.out.next == NextStep::Nothing {
        // Also that of a step that is over: only a work that was read is deleted in the end.
        let unread = || cluster.unread_work().or_else(|| cluster.former_step());
        evaluator.out.read = evaluator.out.read.or_else(unread);
    }
    evaluator.out
}

/// The step that runs in a phase, if one does.
pub(crate) const fn running_step(phase: Phase) -> Option<Step> {
    match phase {
        Phase::PreAction => Some(Step::PreAction),
        Phase::Initialized | Phase::Partial | Phase::Workers => Some(Step::Platform),
        Phase::Operators => Some(Step::Operators),
        Phase::PostAction => Some(Step::PostAction),
        _ => None,
    }
}

/// True when the record says that platform and operators are done.
pub(crate) fn is_upgraded(record: &Record) -> bool {
    matches!(record.phase, Phase::Complete | Phase::PostAction) || has_failed_after(record)
}

/// True when only the post-action failed. A cluster can recover from that (`docs/design/rules.md#post-action`).
pub(crate) fn has_failed_after(record: &Record) -> bool {
    record.phase == Phase::Failed
        && matches!(
            record.reason,
            Reason::PostActionFailed | Reason::PostActionTimeout
        )
}

impl ClusterEvaluator<'_> {
    fn run(&mut self) {
        if self.cluster.gone && self.notes_untold_start() {
            return;
        }
        if self.cluster.gone || self.has_left() {
            self.out.dropped = true;
            return;
        }
        if self.withdraws() {
            return;
        }
        if self.is_left_out() {
            self.leave_out();
            return;
        }
        if self.is_left_out_once_told() {
            return;
        }
        if self.out.record.phase.is_left_out() {
            // Its row tells what it had begun. Without that, it would do so twice in one attempt: if it is back before it is dropped, or
            // once it is known that nothing of it is under way. Then it is queued in another attempt.
            if self.cluster.selection == Selection::In {
                self.wait_for_answer();
            } else if self.leaving {
                self.clean_up_leaver();
                self.clean_up_withdrawn();
            }
            return;
        }
        let failed_for_good = self.before == Phase::Failed && !has_failed_after(&self.out.record);
        if self.before == Phase::Complete || failed_for_good {
            self.clean_up_finished();
            return;
        }
        let record = Arc::clone(&self.out.record);
        if attempts::is_frozen(self.cluster, &self.out.record) && !self.serves_policy() {
            self.wait_for_answer();
        } else if self.serves_policy() {
            self.take_steps();
        } else {
            self.finish_old_revision();
        }
        if self.leaving {
            // It ends with its selection. So nothing that could not begin fails by its time.
            if self.out.record.phase.is_started() {
                self.out.record = record;
            }
            // A blocker of its next step no longer concerns the cluster.
            let phase = match self.out.record.phase {
                Phase::Blocked => Phase::Pending,
                phase => phase,
            };
            self.phase(phase, Reason::LeftSelection, "The cluster is no longer selected");
            self.out.next = NextStep::Nothing;
            return self.clean_up_leaver();
        }
        // If it is aborted and has just failed by time, the request that it may still accept is withdrawn at once.
        if self.out.record.phase == Phase::Failed {
            self.withdraws();
        }
        self.clean_up_leftovers();
        self.clean_up_finished();
    }

    /// Notes the start of a cluster that is gone, if no row tells of it. Whoever leads when the cluster is back, and finds the row that
    /// says that it is queued, takes it for the same cluster and finds its start by the work. So it holds its slot until that row is
    /// removed: by this record, with which it is dropped in the next pass.
    fn notes_untold_start(&mut self) -> bool {
        let told = self.cluster.record.as_deref();
        let is_queued = told.is_some_and(|record| record.phase.is_queued());
        if !is_queued || self.cluster.written.is_none() || !attempts::shows_a_start(self.cluster) {
            return false;
        }
        self.wake_at(self.now + TimeDelta::seconds(1));
        if self.out.record.phase.holds_slot() {
            return true;
        }
        let has_work = |step: Step| self.cluster.step_work(step).ours().is_some();
        let phase = if has_work(Step::Operators) {
            Phase::Operators
        } else if has_work(Step::Platform) {
            Phase::Initialized
        } else {
            Phase::PreAction
        };
        self.phase(phase, Reason::Running, "");
        true
    }

    /// A cluster in flight that has not begun the update of an earlier spec is asked for another one when its windows open.
    fn wake_for_edit(&mut self) {
        if self.out.record.phase == Phase::Initialized && !self.serves_policy() {
            self.wake_at_opening();
        }
    }

    /// The cluster is looked at again when its windows open, if they are closed.
    pub(crate) fn wake_at_opening(&mut self) {
        if let Some(WindowState::Closed(closed)) = self.window {
            self.wake_at(closed.opens.unwrap_or(self.now + NOT_WITHIN_HORIZON));
        }
    }

    /// The step that the cluster is in is looked at again when its time is over.
    pub(crate) fn wake_at_deadline(&mut self) {
        if self.out.record.phase == Phase::Workers {
            self.wake_at(self.workers_deadline());
            return;
        }
        let Some(step) = running_step(self.out.record.phase) else {
            return;
        };
        let stage = self.out.record.stage(step.into());
        let started = stage
            .filter(|stage| stage.outcome.is_none())
            .map(|stage| stage.started);
        if let Some(started) = started {
            self.wake_at(started + self.policy.timeout(step));
        }
    }

    /// Waits until it is known whether a start of an earlier revision was carried out. If it was, the cluster
    /// continues from there; otherwise it is queued again.
    pub(crate) fn wait_for_answer(&mut self) {
        self.wake_at_deadline();
        if !self.cluster.is_in_doubt() {
            if self.cluster.unread_work().is_some() {
                self.wait(Reason::WaitingForCleanup, UNREAD);
            }
            return;
        }
        let failed = self.cluster.backoff.as_ref();
        let error = failed.map_or("", |backoff| &*backoff.error);
        let text = format!("It is not known yet whether the last write was carried out: {error}");
        self.wait(Reason::WriteFailed, text.trim_end_matches(": "));
    }

    /// True when the record's attempt is at the policy's revision.
    pub(crate) fn serves_policy(&self) -> bool {
        self.out.record.attempt.revision == self.policy.revision
    }

    /// True when the cluster is to be dropped. That is the case some seconds after it left the selection, unless its
    /// upgrade has started (`docs/design/rules.md#leavers`).
    fn has_left(&mut self) -> bool {
        let Selection::Left(since) = self.cluster.selection else {
            return false;
        };
        let until = since + LEAVE_DEBOUNCE;
        if self.now < until {
            self.wake_at(until);
        }
        if self.before.is_started() || attempts::is_under_way(self.cluster, &self.out.record) {
            return false;
        }
        // A work that cannot be read may be upgrading the cluster.
        if self.cluster.unreadable_work().is_some() {
            return false;
        }
        let has_pre_action = self.cluster.step_work(Step::PreAction).ours().is_some();
        // A dropped cluster is no longer watched. If a deletion that is in progress failed, nobody would repeat it.
        let writing = self.cluster.busy.is_some() || self.cluster.is_in_doubt();
        // A work that is to be read may be upgrading the cluster.
        let unread = self.cluster.unread_work().is_some();
        // One whose request was withdrawn, and that is not aborted any more, is queued first. Then it leaves like any other.
        let record = self.cluster.record.as_deref();
        let was_started = record.is_some_and(|record| record.phase.is_started());
        if was_started {
            self.wake_at(self.now + TimeDelta::seconds(1));
        }
        let has_work = has_pre_action || self.has_withdrawn_work();
        self.leaving = self.now < until || writing || has_work || unread || was_started;
        !self.leaving
    }

    /// Deletes the pre-action of a leaver. Only when the deletion is accepted is the cluster dropped and its slot
    /// released. While the step after it may have begun, it stays: the cluster would go on with that step.
    fn clean_up_leaver(&mut self) {
        let is_over =
            matches!(self.cluster.selection, Selection::Left(since) if self.now >= since + LEAVE_DEBOUNCE);
        let may_have_begun =
            |step: Step| self.cluster.may_come_back(step) || self.cluster.step_work(step).is_unclear();
        let has_gone_on = [Step::Platform, Step::Operators].into_iter().any(may_have_begun);
        if is_over && !has_gone_on && self.cluster.step_work(Step::PreAction).ours().is_some() {
            self.out
                .cleanups
                .push((Step::PreAction, DeleteReason::LeftSelection));
        }
    }

    /// Deletes the platform and operators works once the written record says that the cluster is complete
    /// (`docs/design/rules.md#terminal-row-first`).
    fn clean_up_finished(&mut self) {
        let record = &self.out.record;
        let written = self
            .cluster
            .written
            .as_deref()
            .is_some_and(|written| written.is_same_run(record) && is_upgraded(written));
        if !written || !is_upgraded(record) {
            return;
        }
        for step in [Step::Platform, Step::Operators] {
            let is_leftover = self.out.cleanups.iter().any(|(due, _)| *due == step);
            let stays = is_leftover || self.cluster.may_come_back(step);
            if !stays && self.cluster.step_work(step).ours().is_some() {
                self.out.cleanups.push((step, DeleteReason::Complete));
            }
        }
    }

    /// Deletes works of an earlier attempt. Actions and Jobs are immutable or must run again, so they are deleted
    /// before their step can begin. The platform work is never deleted in mid-upgrade; it is updated in place.
    fn clean_up_leftovers(&mut self) {
        let record = &self.out.record;
        if !attempts::is_announced(self.cluster, record) || !self.serves_policy() {
            return;
        }
        for step in [Step::PreAction, Step::Operators, Step::PostAction] {
            let leftover = self.cluster.step_work(step).ours().is_some()
                && attempts::work_of_attempt(self.cluster, record, self.policy, step).is_none()
                && !record.succeeded(step.into());
            if leftover {
                self.out.cleanups.push((step, DeleteReason::Leftover));
            }
        }
    }

    /// Continues a cluster in flight on an earlier revision. It finishes its step and is queued again. A cluster that
    /// has left the selection finishes all steps, because it does not get the new revision.
    fn finish_old_revision(&mut self) {
        let selected = self.cluster.selection == Selection::In;
        if !selected && !self.before.holds_slot() {
            self.take_steps();
            return;
        }
        let is_to_be_read = |step: Step| *self.cluster.step_work(step) == StepWork::Unconfirmed;
        let is_next_unread = self.cluster.unread_step().is_some() && !is_to_be_read(Step::PreAction);
        if self.before == Phase::PreAction && self.holds && is_next_unread {
            self.wait_after_pre_action();
            return;
        }
        let is_next_unreadable = self.cluster.step_work(Step::Platform).is_unreadable();
        if self.before == Phase::PreAction && self.holds && is_next_unreadable && !self.is_pre_action_done() {
            return;
        }
        let step = match self.before {
            Phase::PreAction if is_to_be_read(Step::PreAction) => Step::PreAction,
            Phase::Operators => Step::Operators,
            _ => Step::Platform,
        };
        let Some(work) = evidence::work_with_evidence(self.cluster, &self.out.record, step) else {
            let has_ended = self.out.record.succeeded(step.into());
            let is_unreadable = self.cluster.step_work(step).is_unreadable() && !has_ended;
            if (is_unreadable || is_to_be_read(step)) && self.holds {
                self.wait_for_unreadable(step);
            } else if !selected && has_ended {
                // The work is gone or tells nothing, but its end is on record.
                self.take_steps();
            } else if !selected && self.before.is_started() {
                // The work of its step is gone, and it gets neither that step of the new spec nor its revision. If it were queued, it would
                // be dropped in the middle of its update.
                self.end_without(step);
            } else {
                self.queue_again();
            }
            return;
        };
        self.note_work(step, work);
        let done = if self.out.record.succeeded(step.into()) {
            // Its end is on record. It counts within its attempt, whatever the work tells since.
            true
        } else if step == Step::Operators {
            self.evaluate_operators(work)
        } else {
            self.evaluate_platform(work)
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

    /// Queues the cluster again for the new revision. If its next step may be on its way, it waits for that answer first:
    /// in a new attempt that step's work would count as a leftover, which holds no slot.
    fn queue_again(&mut self) {
        if self.cluster.awaits_start() && self.out.record.phase != Phase::Failed {
            // That answer may never come. When the time of the step is over, the cluster is queued all the same.
            let step = running_step(self.out.record.phase);
            let step = step.filter(|step| !self.out.record.succeeded((*step).into()));
            if step.is_none_or(|step| self.clock_without_work(step).is_some()) {
                self.wait_for_answer();
                return;
            }
        }
        let record = Record::clone(&self.out.record);
        let queued = attempts::queued_again(self.cluster, record, self.policy, self.now);
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
        self.out.reason_is_current = true;
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

    /// Removes a stage from the record.
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

impl Evaluation {
    /// An evaluation with this record and no next step.
    fn of(record: Arc<Record>) -> Evaluation {
        Evaluation {
            record,
            next: NextStep::Nothing,
            cleanups: Vec::new(),
            mark_soak: None,
            withdraws: false,
            read: None,
            wake: None,
            releasing: false,
            held_back: false,
            dropped: false,
            stale: false,
            opens_soon: false,
            reason_is_current: true,
        }
    }

    /// Sets the reason why the cluster does not move.
    pub(crate) fn explain(&mut self, reason: Reason, message: &str) {
        self.reason_is_current = true;
        let message = cut(message);
        if self.record.reason == reason && *self.record.message == *message {
            return;
        }
        let record = Arc::make_mut(&mut self.record);
        record.reason = reason;
        record.other_reason = None;
        record.refused_step = None;
        if *record.message != *message {
            record.message = Arc::from(message);
        }
    }

    /// The operation for the next step, at the time of the plan.
    pub(crate) fn operation(&self, cluster: &Cluster, step: Step, started: DateTime<Utc>) -> Operation {
        let attempt = self.record.attempt.clone();
        let name = Arc::clone(&cluster.name);
        let kind = match cluster.step_work(step) {
            StepWork::Ours(work) if step == Step::Platform && !work.vanished => {
                let is_retried = work.attempt.revision == attempt.revision;
                Some(if is_retried {
                    UpdateKind::Retry
                } else {
                    UpdateKind::Repoint
                })
            }
            StepWork::Rival { .. } if step == Step::Platform => Some(UpdateKind::TakeOver),
            _ => None,
        };
        match kind {
            Some(kind) => Operation::Update {
                cluster: name,
                attempt,
                started,
                kind,
            },
            None => Operation::Create {
                cluster: name,
                step,
                attempt,
                started,
            },
        }
    }
}
