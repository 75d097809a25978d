//! Clusters that the spec leaves out: skipped ones (`docs/design/rules.md#skipped-clusters`) and aborted ones
//! (`docs/design/rules.md#aborted-clusters`).

use crate::model::{
    DeleteReason, LeftOut, Outcome, Phase, Reason, Record, Selection, Stage, Step, StepStatus, StepWork,
    Withdrawal, Work,
};
use crate::planner::attempts::{has_open_step, is_frozen};
use crate::planner::cluster::ClusterEvaluator;
use crate::planner::evidence::is_of;
use crate::planner::withdrawal::withdrawn;
use crate::planner::wording::LEAVING_OUT;

const NOT_REMOVED: &str = "The pre-action was not removed in time";

/// True when the pre-action of an aborted cluster is to be removed and its row does not say so yet. Whoever leads next must find there
/// why it is gone: in the same attempt it would be created again.
pub(crate) fn lacks_reason_of_removal(written: Option<&Record>, record: &Record) -> bool {
    let tells = |record: &Record| record.phase == Phase::PreAction && record.reason == Reason::Aborting;
    tells(record) && !written.is_some_and(|written| tells(written) && written.is_same_run(record))
}

impl ClusterEvaluator<'_> {
    /// True when the cluster is left out now: nothing of its upgrade is under way or may be. What is under way ends first, or is
    /// withdrawn. A failure must be written, so that whoever leads next does not find its step running.
    pub(crate) fn is_left_out(&self) -> bool {
        let (cluster, record) = (self.cluster, &*self.out.record);
        let platform = cluster.step_work(Step::Platform).ours();
        // A cluster that has accepted the update and failed goes on with it.
        let is_withdrawn =
            || !cluster.is_aborted() || platform.is_none_or(|work| work.withdrawal == Withdrawal::Confirmed);
        let is_idle = match record.phase {
            // It may have begun and wait for its next step.
            Phase::Pending => !has_open_step(cluster, record),
            Phase::Blocked => !has_open_step(cluster, record) && (self.is_told() || !record.tells_a_step()),
            Phase::Skipped | Phase::Aborted => true,
            Phase::Failed | Phase::PreActionDegraded => self.is_told() && is_withdrawn(),
            _ => false,
        };
        let is_writing = cluster.busy.is_some() || cluster.is_in_doubt() || cluster.slot_in_doubt;
        // A work that is to be read may be one of a step after the pre-action that has begun since the row was written.
        let is_unread = cluster.unread_work().is_some();
        let is_uncertain = is_writing || is_unread || is_frozen(cluster, record);
        let is_certain = record.phase.is_left_out() || !is_uncertain;
        let is_meant = cluster.left_out.is_some() && cluster.selection == Selection::In;
        is_meant && is_idle && is_certain && !self.gives_slot_back()
    }

    /// True when the cluster was under way in the same attempt before this plan, by its record or by its works. It is queued by this plan,
    /// which gives its slot back, and left out by the next one.
    fn gives_slot_back(&self) -> bool {
        let attempt = &self.out.record.attempt;
        let before = self.cluster.record.as_deref();
        let held = before.is_some_and(|before| before.phase.holds_slot() && before.attempt == *attempt);
        held || self.before.holds_slot()
    }

    /// True when a cluster that was blocked after a step had ended is left out as soon as its row says that it is blocked: its slot is
    /// given back only then. Nothing begins meanwhile.
    pub(crate) fn is_left_out_once_told(&self) -> bool {
        let (cluster, record) = (self.cluster, &*self.out.record);
        let is_meant = cluster.left_out.is_some() && cluster.selection == Selection::In;
        let is_over =
            record.phase == Phase::Blocked && record.tells_a_step() && !has_open_step(cluster, record);
        is_meant && is_over && !self.is_told()
    }

    /// True when the written row has the phase of the record in the same attempt.
    fn is_told(&self) -> bool {
        let (written, record) = (self.cluster.written.as_deref(), &*self.out.record);
        written.is_some_and(|written| written.phase == record.phase && written.is_same_run(record))
    }

    /// The row says why, and how the cluster had failed if it had.
    pub(crate) fn leave_out(&mut self) {
        let Some(LeftOut { reason, aborts }) = &self.cluster.left_out else {
            return;
        };
        let (phase, why) = if *aborts {
            (Phase::Aborted, Reason::Aborted)
        } else {
            (Phase::Skipped, Reason::Skipped)
        };
        let record = &self.out.record;
        let is_told = record.phase.is_left_out() && record.message.starts_with(&**reason);
        let message = if is_told {
            record.message.to_string()
        } else if record.phase.has_failed() {
            format!(
                "{reason} (it had failed: {}: {})",
                record.reason_text(),
                record.message
            )
        } else {
            reason.to_string()
        };
        self.phase(phase, why, &message);
        self.clean_up_aborted();
    }

    /// True when the cluster is left out and still has a platform work whose request is withdrawn.
    pub(crate) fn has_withdrawn_work(&self) -> bool {
        let work = self.cluster.step_work(Step::Platform).ours();
        let is_withdrawn = work.is_some_and(|work| work.withdrawal == Withdrawal::Confirmed);
        self.out.record.phase.is_left_out() && is_withdrawn
    }

    /// Deletes the withdrawn platform work of a cluster that is left out and leaves the selection, once its row says that it is left
    /// out. Nobody would delete it later.
    pub(crate) fn clean_up_withdrawn(&mut self) {
        if self.has_withdrawn_work() && self.is_told() && !self.cluster.may_come_back(Step::Platform) {
            self.out.cleanups.push((Step::Platform, DeleteReason::Aborted));
        }
    }

    /// Deletes what is left of a cluster that is aborted, once its row says so.
    fn clean_up_aborted(&mut self) {
        let (cluster, record) = (self.cluster, &*self.out.record);
        if !self.is_told() {
            return;
        }
        for step in [Step::PreAction, Step::Platform] {
            let is_over = |work: &Work| match step {
                Step::PreAction => record.phase == Phase::Aborted,
                _ => work.withdrawal == Withdrawal::Confirmed,
            };
            let work = cluster.step_work(step).ours();
            if work.is_some_and(is_over) && !cluster.may_come_back(step) {
                self.out.cleanups.push((step, DeleteReason::Aborted));
            }
        }
    }

    /// Withdraws what an aborted cluster was asked for and has not accepted. True while nothing else is done for the cluster.
    pub(crate) fn withdraws(&mut self) -> bool {
        let cluster = self.cluster;
        let phase = self.out.record.phase;
        let is_acting = cluster.is_aborted() && phase == Phase::PreAction;
        // The step after the pre-action may have begun since the row was written. Works of later steps are none of an attempt whose
        // pre-action is being given up.
        let next = if self.policy.wants(Step::Platform) {
            Step::Platform
        } else {
            Step::Operators
        };
        let matters = |step: &Step| !is_acting || *step <= next;
        if Step::ALL
            .into_iter()
            .filter(matters)
            .any(|step| cluster.step_work(step).is_unclear())
        {
            return false;
        }
        if !cluster.is_aborted() {
            self.withdraws_what_failed();
            return self.awaits_withdrawal();
        }
        match phase {
            Phase::PreAction => self.ends_pre_action(),
            Phase::Pending | Phase::Blocked | Phase::Skipped | Phase::Aborted if cluster.is_in_doubt() => {
                self.wait_for_answer();
                true
            }
            Phase::Pending
            | Phase::Blocked
            | Phase::PreActionDegraded
            | Phase::Initialized
            | Phase::Failed
            | Phase::Skipped
            | Phase::Aborted => self.withdraws_request(),
            Phase::Partial
            | Phase::Workers
            | Phase::Operators
            | Phase::Soaking
            | Phase::Complete
            | Phase::PostAction => false,
        }
    }

    /// Withdraws what a cluster was asked for that failed before it accepted that, and is skipped: it would begin the update whenever it
    /// can, without a slot. Nobody waits for it: it may never be back. Its row comes first: whoever leads next and finds it in flight,
    /// asked for nothing, would take it for one that was aborted, and would queue it again.
    fn withdraws_what_failed(&mut self) {
        let cluster = self.cluster;
        let is_over = matches!(self.out.record.phase, Phase::Failed | Phase::Skipped);
        let is_skipped = cluster.left_out.is_some() && cluster.selection == Selection::In;
        let work = cluster.step_work(Step::Platform).ours();
        let is_open = |work: &Work| {
            let is_there = !(work.vanished || work.terminating);
            is_there && !work.is_accepted() && work.withdrawal == Withdrawal::None
        };
        let may_go = is_over && self.is_told() && !cluster.is_in_doubt();
        self.out.withdraws = may_go && is_skipped && work.is_some_and(is_open);
    }

    fn withdraws_request(&mut self) -> bool {
        let is_in_flight = self.out.record.phase == Phase::Initialized;
        // If somebody has deleted the work, it is created again first: the cluster is still asked for the update.
        let Some(work) = self.cluster.step_work(Step::Platform).ours() else {
            return false;
        };
        if work.is_accepted() {
            return false;
        }
        let is_confirmed = work.withdrawal == Withdrawal::Confirmed;
        if is_confirmed && !(is_in_flight && self.cluster.awaits_start()) {
            if is_in_flight {
                self.leave_out();
            }
            return is_in_flight;
        }
        if is_in_flight && self.expired(self.clock(work, Step::Platform), Step::Platform) {
            return false;
        }
        if is_confirmed {
            // An earlier creation of the work may still be carried out.
            self.wait_for_answer();
            return true;
        }
        self.out.withdraws = work.withdrawal == Withdrawal::None;
        if self.out.record.phase != Phase::Failed {
            self.explain_withdrawal();
        }
        true
    }

    fn explain_withdrawal(&mut self) {
        self.wake_at_deadline();
        let text = if self.out.withdraws {
            "The request of the update is being withdrawn"
        } else {
            "The request of the update is withdrawn. The cluster has not confirmed yet that it is not updating"
        };
        self.wait(Reason::Aborting, text);
    }

    /// True when the cluster is aborted and is still to be asked for the update, or for operators alone. It is not asked for that, also
    /// while a work of it is unclear.
    pub(crate) fn is_aborted_before_request(&mut self, step: Step) -> bool {
        if !self.cluster.is_aborted() || step == Step::PostAction {
            return false;
        }
        if self.follows_pre_action(step) {
            self.wait_after_pre_action();
            self.ends_pre_action_by_time(step);
            return true;
        }
        let is_lost = self.has_lost_request(step);
        if step != Step::Platform || !(is_lost || self.repoints(step)) {
            return false;
        }
        let is_over = is_lost || self.has_ended_earlier_update();
        if is_over && self.cluster.awaits_start() {
            // It may have been asked for the update of this spec. Its start is kept until that is known, or its time is over.
            let has_begun = self.out.record.stage(Stage::Platform).is_some();
            if !has_begun || self.clock_without_work(step).is_some() {
                self.wait_for_answer();
            }
        } else if is_over {
            // It has accepted the update of an earlier spec, which is over, or nothing is left to be withdrawn. It is left out in the
            // next plan.
            self.forget(Stage::Platform);
            self.holds = false;
            self.phase(Phase::Pending, Reason::WaitingForCleanup, LEAVING_OUT);
        } else if self.clock_without_work(step).is_some() {
            // Its request is withdrawn when nothing is unclear any more.
            self.phase(Phase::Initialized, Reason::Aborting, LEAVING_OUT);
        }
        true
    }

    /// The pre-action of an aborted cluster has succeeded, and a work of it stays unclear. A work that cannot be read must not hold a slot
    /// for ever, and one that is still to be read holds it until it was read. Neither is a failure: the cluster is blocked or queued, as in
    /// the next plan, and is left out once its row says so and nothing is uncertain.
    fn ends_pre_action_by_time(&mut self, next: Step) {
        let Some(stage) = self.out.record.stage(Stage::PreAction) else {
            return;
        };
        let (started, is_over) = (stage.started, stage.succeeded());
        if is_over && self.expired(started, Step::PreAction) {
            self.forget(next.into());
            self.holds = false;
            self.phase(Phase::Pending, Reason::None, "");
            self.ask_to_start(next);
        } else if is_over {
            self.wake_at(started + self.policy.timeout(Step::PreAction));
        }
    }

    fn ends_pre_action(&mut self) -> bool {
        let cluster = self.cluster;
        let work = match cluster.step_work(Step::PreAction) {
            StepWork::Ours(work) if !work.vanished => Some(&**work),
            _ => None,
        };
        let is_over = self.is_pre_action_over(work);
        if !is_over && self.is_pre_action_overdue(work) {
            return true;
        }
        // The request of the update may be on its way, or an earlier creation of the pre-action may still be carried out.
        if cluster.awaits_start() {
            self.wait_for_answer();
            return true;
        }
        let Some(work) = work else {
            self.leave_out();
            return true;
        };
        let started = self.clock(work, Step::PreAction);
        if is_over && self.expired(started, Step::PreAction) {
            // It does not run any more, and its removal must not hold a slot for ever.
            self.leave_out();
            return true;
        }
        self.wake_at(started + self.policy.timeout(Step::PreAction));
        self.wait(Reason::Aborting, "The pre-action is being removed");
        let is_untold = lacks_reason_of_removal(cluster.written.as_deref(), &self.out.record);
        if !(work.terminating || is_untold) {
            self.out.cleanups.push((Step::PreAction, DeleteReason::Aborted));
        }
        true
    }

    /// True when the pre-action has succeeded. What its work tells is noted.
    fn is_pre_action_over(&mut self, work: Option<&Work>) -> bool {
        if let Some(work) = work.filter(|work| is_of(work, &self.out.record, Step::PreAction)) {
            self.note_work(Step::PreAction, work);
            if work.status == StepStatus::Succeeded {
                self.finish(Stage::PreAction, Outcome::Succeeded);
            }
        }
        self.out.record.succeeded(Stage::PreAction)
    }

    /// True when the time of the pre-action has passed before it was removed. It is degraded then.
    fn is_pre_action_overdue(&mut self, work: Option<&Work>) -> bool {
        match work {
            Some(work) if self.expired(self.clock(work, Step::PreAction), Step::PreAction) => {
                self.phase(Phase::PreActionDegraded, Reason::PreActionTimeout, NOT_REMOVED);
            }
            None if self.cluster.awaits_start() => {
                self.clock_without_work(Step::PreAction);
            }
            _ => {}
        }
        self.out.record.phase != Phase::PreAction
    }

    /// Waits until a cluster that is not aborted any more confirms that its request is withdrawn. It is queued then.
    fn awaits_withdrawal(&mut self) -> bool {
        let Some(work) = withdrawn(self.cluster, &self.out.record) else {
            return false;
        };
        if self.expired(self.clock(work, Step::Platform), Step::Platform) {
            return false;
        }
        self.explain_withdrawal();
        true
    }
}
