//! The steps of a cluster, evaluated by their works: done, running, failed or timed out.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{
    Outcome, Phase, Reason, Selection, Stage, Step, StepRecord, StepStatus, Work, WorkerPools,
};
use crate::planner::attempts;
use crate::planner::attempts::LEAVE_DEBOUNCE;
use crate::planner::cluster::{ClusterEvaluator, MAYBE_FAILED_GRACE, has_failed_after, running_step};
use crate::planner::evidence;
use crate::planner::soak_notes;
use crate::planner::wording::duration;

impl ClusterEvaluator<'_> {
    /// Goes through the steps of the current attempt up to the first that is not done.
    pub(crate) fn take_steps(&mut self) {
        self.note_version();
        self.go_through_steps();
        // A request that was about to be sent may not be any more.
        self.note_version();
    }

    fn go_through_steps(&mut self) {
        let reached = Self::reached(self.before);
        for step in [Step::PreAction, Step::Platform, Step::Operators] {
            let passed = reached.is_none_or(|reached| step < reached);
            if passed
                || self.is_past(step)
                || !self.policy.wants(step)
                || self.out.record.succeeded(step.into())
            {
                continue;
            }
            let Some(work) = attempts::work_of_attempt(self.cluster, &self.out.record, self.policy, step)
            else {
                if self.is_only_asked_for_since_it_left() {
                    self.end_without(step);
                    return;
                }
                // A degraded action whose work somebody removed stays degraded until it is retried.
                if self.before != Phase::PreActionDegraded || step != Step::PreAction {
                    self.enter(step);
                }
                return;
            };
            self.note_work(step, work);
            let done = match step {
                Step::PreAction => self.evaluate_pre_action(work),
                Step::Platform => self.evaluate_platform(work),
                Step::Operators | Step::PostAction => self.evaluate_operators(work),
            };
            if !done {
                return;
            }
            self.finish(step.into(), Outcome::Succeeded);
        }
        if self.soak() {
            self.post_action();
        }
    }

    /// True when a later step of the attempt has succeeded. The retry of a cluster whose post-action failed does not send it back
    /// to a step that an edit has added since.
    fn is_past(&self, step: Step) -> bool {
        let mut later = [Step::Platform, Step::Operators].into_iter();
        later.any(|later| step < later && self.out.record.succeeded(later.into()))
    }

    /// True when the spec changed after the cluster had left the selection. An author must not reach clusters that
    /// the edited spec does not select.
    fn is_only_asked_for_since_it_left(&self) -> bool {
        self.cluster.selection != Selection::In && !self.serves_policy()
    }

    /// Fails a cluster that has left the selection and would have to be given this step of the new spec, because it has no work of it.
    /// Within the debounce time it only waits, because it may come back. So it does while a creation may still begin the step: the
    /// cluster must not have failed already when the step then runs.
    pub(crate) fn end_without(&mut self, step: Step) {
        let Selection::Left(since) = self.cluster.selection else {
            return;
        };
        let until = since + LEAVE_DEBOUNCE;
        let waits = self.now < until || self.cluster.awaits_start();
        let has_begun =
            running_step(self.out.record.phase) == Some(step) && self.out.record.stage(step.into()).is_some();
        // The time of a step that has begun runs on meanwhile.
        if waits && has_begun && self.clock_without_work(step).is_none() {
            return;
        }
        if self.now < until {
            self.wait(Reason::LeftSelection, "The cluster is no longer selected");
            return;
        }
        if self.cluster.awaits_start() {
            self.wait_for_answer();
            return;
        }
        let text = format!(
            "The cluster is no longer selected, and its attempt has no ManifestWork of step {step:?}. It is not given that of the new spec"
        );
        self.fail(step.into(), Reason::LeftSelection, &text);
    }

    /// The step that the cluster was in; `None` if it is past the operators. An edit of the spec that adds an earlier
    /// step does not send it back.
    fn reached(phase: Phase) -> Option<Step> {
        match phase {
            Phase::Initialized | Phase::Partial | Phase::Workers => Some(Step::Platform),
            Phase::Operators => Some(Step::Operators),
            Phase::Soaking | Phase::PostAction | Phase::Complete | Phase::Failed => None,
            Phase::Pending
            | Phase::Blocked
            | Phase::Skipped
            | Phase::Aborted
            | Phase::PreAction
            | Phase::PreActionDegraded => Some(Step::PreAction),
        }
    }

    fn evaluate_pre_action(&mut self, work: &Work) -> bool {
        match &work.status {
            StepStatus::Succeeded => true,
            StepStatus::Failed(text) => {
                self.phase(Phase::PreActionDegraded, Reason::PreActionFailed, text);
                false
            }
            _ if self.before == Phase::PreActionDegraded => false,
            _ if self.expired(self.clock(work, Step::PreAction), Step::PreAction) => {
                let message = self.timeout_text(work, Step::PreAction);
                self.phase(Phase::PreActionDegraded, Reason::PreActionTimeout, &message);
                false
            }
            _ => {
                self.run_phase(Phase::PreAction, work);
                false
            }
        }
    }

    /// False while the pre-action goes on, or its work is missing: then only its time counts.
    pub(crate) fn is_pre_action_done(&mut self) -> bool {
        if self.out.record.succeeded(Stage::PreAction) {
            return true;
        }
        let work = evidence::work_with_evidence(self.cluster, &self.out.record, Step::PreAction);
        let Some(work) = work else {
            self.wait_for_unreadable(Step::PreAction);
            return false;
        };
        self.note_work(Step::PreAction, work);
        let done = self.evaluate_pre_action(work);
        if done {
            self.finish(Stage::PreAction, Outcome::Succeeded);
        }
        done
    }

    pub(crate) fn evaluate_platform(&mut self, work: &Work) -> bool {
        let phase = match work.status {
            StepStatus::Succeeded => return self.evaluate_workers(work),
            StepStatus::Running => Phase::Partial,
            StepStatus::OtherVersion => Phase::Initialized,
            // A report that is missing for a while is no update that takes too long.
            _ if self.before == Phase::Workers && self.policy.worker_pools_timeout.is_some() => {
                return self.evaluate_workers(work);
            }
            _ if matches!(self.before, Phase::Partial | Phase::Workers) => Phase::Partial,
            _ => Phase::Initialized,
        };
        if self.expired(self.clock(work, Step::Platform), Step::Platform) {
            let message = self.timeout_text(work, Step::Platform);
            self.fail(Stage::Platform, Reason::ClusterUpgradeTimeout, &message);
        } else {
            self.run_phase(phase, work);
        }
        false
    }

    /// True when the worker pools follow, or need not. The cluster's own word that its version is updated is required in
    /// any case (`docs/design/rules.md#worker-pools`).
    fn evaluate_workers(&mut self, work: &Work) -> bool {
        let is_updated = work.status == StepStatus::Succeeded;
        let Some(limit) = self.policy.worker_pools_timeout else {
            return is_updated;
        };
        if is_updated && !self.cluster.awaits_pools(self.policy) {
            return true;
        }
        let deadline = self.workers_deadline();
        if !self.cluster.pools_unheard && self.is_missed(deadline, Step::Platform) {
            let mut message = format!("The worker pools were not updated within {}", duration(limit));
            if let WorkerPools::Behind { message: cause, .. } = &self.cluster.worker_pools {
                message = format!("{message}: {cause}");
            }
            self.fail(Stage::Platform, Reason::WorkerPoolsTimeout, &message);
            return false;
        }
        self.wake_at(deadline);
        match (&self.cluster.worker_pools, &work.cause) {
            (_, Some((reason, message))) if !is_updated => self.phase(Phase::Workers, *reason, message),
            (WorkerPools::Behind { reason, message }, _) => self.phase(Phase::Workers, *reason, message),
            (WorkerPools::Updated | WorkerPools::NotAsked, _) => self.phase(
                Phase::Workers,
                Reason::Running,
                "The cluster is asked for the state of its worker pools",
            ),
        }
        false
    }

    /// When the worker pools must be updated: the limit counts from the beginning of the phase.
    pub(crate) fn workers_deadline(&self) -> DateTime<Utc> {
        let record = &self.out.record;
        let began = if record.phase == Phase::Workers {
            record.since
        } else {
            self.now
        };
        began + self.policy.worker_pools_timeout.unwrap_or_default()
    }

    pub(crate) fn evaluate_operators(&mut self, work: &Work) -> bool {
        match &work.status {
            StepStatus::Succeeded => return true,
            StepStatus::Failed(text) => self.fail(Stage::Operators, Reason::OperatorsJobFailed, text),
            StepStatus::MaybeFailed(since) if self.is_over(*since + MAYBE_FAILED_GRACE) => {
                self.fail(
                    Stage::Operators,
                    Reason::OperatorsJobFailed,
                    "The approval Job has failed pods and no active ones",
                );
            }
            _ if self.expired(self.clock(work, Step::Operators), Step::Operators) => {
                let message = self.timeout_text(work, Step::Operators);
                self.fail(Stage::Operators, Reason::OperatorsUpgradeTimeout, &message);
            }
            status => {
                if let StepStatus::MaybeFailed(since) = status {
                    self.wake_at(*since + MAYBE_FAILED_GRACE);
                }
                self.run_phase(Phase::Operators, work);
            }
        }
        false
    }

    /// Watches an upgraded cluster for `minSuccessTime`. Returns true when that time has passed.
    fn soak(&mut self) -> bool {
        if self.out.record.succeeded(Stage::Soak) || matches!(self.before, Phase::PostAction | Phase::Failed)
        {
            return true;
        }
        let length = self.policy.soak();
        let carrier = soak_notes::soak_carrier(self.policy);
        let (Some(length), Some(carrier)) = (length, carrier) else {
            if self.out.record.stage(Stage::Soak).is_some() {
                self.finish(Stage::Soak, Outcome::Succeeded);
            }
            return true;
        };
        let work = self.cluster.step_work(carrier).ours();
        let started = self
            .out
            .record
            .stage(Stage::Soak)
            .map(|stage| stage.started)
            .or_else(|| {
                work.and_then(|work| soak_notes::soak_note(work, &self.out.record, carrier, self.now))
            })
            .unwrap_or_else(|| self.soak_start(work, carrier));
        self.stage(Stage::Soak, started);
        let regress = work
            .filter(|_| carrier == Step::Platform)
            .and_then(|work| self.regress_text(work));
        if let Some(text) = regress {
            self.fail(Stage::Soak, Reason::RegressedInSoak, &text);
            return false;
        }
        let until = started + length;
        if self.is_over(until) {
            self.finish(Stage::Soak, Outcome::Succeeded);
            return true;
        }
        if work.is_some_and(|work| !soak_notes::is_noted(work, started)) {
            self.out.mark_soak = Some((carrier, started));
        }
        self.wake_at(until);
        let text = format!("Watching the cluster for {}", duration(length));
        self.phase(Phase::Soaking, Reason::Soaking, &text);
        false
    }

    /// The start of a soak that has no note yet: now, but later than the clock of the step whose work gets the note.
    /// An earlier leader whose clock was ahead may have set that clock. A note that is not later would count as one
    /// of an earlier attempt, and every plan would write it again.
    fn soak_start(&self, work: Option<&Work>, carrier: Step) -> DateTime<Utc> {
        let clock = work.map(|work| evidence::clock(work, &self.out.record, carrier));
        let after = clock.map(|clock| clock + TimeDelta::milliseconds(1));
        after.map_or(self.now, |after| after.max(self.now))
    }

    fn regress_text(&self, work: &Work) -> Option<Arc<str>> {
        match (&work.unhealthy, &work.status) {
            (Some(text), _) => Some(Arc::clone(text)),
            (None, StepStatus::OtherVersion) => Some(Arc::from(format!(
                "The cluster runs version {}",
                self.cluster.version
            ))),
            _ => None,
        }
    }

    /// Runs the post-action, which comes after the upgrade and takes no slot (`docs/design/rules.md#post-action`).
    fn post_action(&mut self) {
        let failed = has_failed_after(&self.out.record);
        if !self.policy.wants(Step::PostAction) || self.out.record.succeeded(Stage::PostAction) {
            if !failed {
                self.phase(Phase::Complete, Reason::None, "");
            }
            return;
        }
        let Some(work) =
            attempts::work_of_attempt(self.cluster, &self.out.record, self.policy, Step::PostAction)
        else {
            if !failed && self.is_only_asked_for_since_it_left() {
                self.phase(Phase::Complete, Reason::None, "");
            } else if !failed {
                self.enter(Step::PostAction);
            }
            return;
        };
        self.note_work(Step::PostAction, work);
        match &work.status {
            StepStatus::Succeeded => {
                self.finish(Stage::PostAction, Outcome::Succeeded);
                self.phase(Phase::Complete, Reason::None, "");
            }
            StepStatus::Failed(text) => self.phase(Phase::Failed, Reason::PostActionFailed, text),
            _ if failed => {}
            _ if self.expired(self.clock(work, Step::PostAction), Step::PostAction) => {
                let message = self.timeout_text(work, Step::PostAction);
                self.phase(Phase::Failed, Reason::PostActionTimeout, &message);
            }
            _ => self.run_phase(Phase::PostAction, work),
        }
    }

    /// Notes the version before the update. What shows only after the update is not that version: the row would prove an update
    /// that never happened. Before the request, somebody else may update the cluster, such as the upgrade that it waits for.
    fn note_version(&mut self) {
        let version = &self.cluster.version;
        let record = &self.out.record;
        let reached = Self::reached(record.phase);
        let is_updated =
            record.succeeded(Stage::Platform) || reached.is_none_or(|reached| reached > Step::Platform);
        let is_requested = record.stage(Stage::Platform).is_some()
            || reached != Some(Step::PreAction)
            || self.cluster.step_work(Step::Platform).ours().is_some();
        if is_updated || version.is_empty() || (is_requested && !record.from_version.is_empty()) {
            return;
        }
        let noted = if *version == self.policy.target {
            Arc::from("")
        } else {
            Arc::clone(version)
        };
        if noted != record.from_version {
            Arc::make_mut(&mut self.out.record).from_version = noted;
        }
    }

    pub(crate) fn note_work(&mut self, step: Step, work: &Work) {
        let stage = Stage::from(step);
        let known = self.out.record.stage(stage);
        // Within an attempt a clock never moves, whatever a work says later, because agents can edit their works.
        let same = work.attempt == self.out.record.attempt;
        let keeps = |known: &StepRecord| same || known.started == work.started;
        if known.is_some_and(|known| keeps(known) && (known.applied.is_some() || !work.applied)) {
            return;
        }
        let now = self.now;
        let started = evidence::recorded_start(work, now);
        let stage = self.stage(stage, started);
        if !keeps(stage) {
            *stage = StepRecord::started(started);
        }
        if work.applied && stage.applied.is_none() {
            stage.applied = Some(now);
        }
    }

    /// The record's stage, for changes. A stage that has not begun begins at the given time.
    pub(crate) fn stage(&mut self, stage: Stage, started: DateTime<Utc>) -> &mut StepRecord {
        let record = Arc::make_mut(&mut self.out.record);
        record.stages[stage.index()].get_or_insert(StepRecord::started(started))
    }

    pub(crate) fn finish(&mut self, stage: Stage, outcome: Outcome) {
        let now = self.now;
        let entry = self.stage(stage, now);
        if entry.outcome != Some(outcome) {
            entry.finished = Some(now);
            entry.outcome = Some(outcome);
        }
    }

    pub(crate) fn fail(&mut self, stage: Stage, reason: Reason, message: &str) {
        self.finish(stage, Outcome::Failed);
        self.phase(Phase::Failed, reason, message);
    }

    /// Sets a running phase, with what the cluster or its agent says that it is waiting for.
    fn run_phase(&mut self, phase: Phase, work: &Work) {
        let step = running_step(phase).unwrap_or(Step::Platform);
        self.wake_at(self.clock(work, step) + self.policy.timeout(step));
        match &work.cause {
            Some((reason, message)) => self.phase(phase, *reason, message),
            None => self.phase(phase, Reason::Running, ""),
        }
    }

    /// Start of a step's clock: that of the record, which only the controller writes, otherwise that of the work.
    pub(crate) fn clock(&self, work: &Work, step: Step) -> DateTime<Utc> {
        evidence::clock(work, &self.out.record, step)
    }

    /// True when a time has certainly passed. A clock that is not trusted proves nothing.
    pub(crate) fn is_over(&self, time: DateTime<Utc>) -> bool {
        self.policy.clock_trusted && self.now >= time
    }

    /// True when the time limit of a step that began then has passed. Nowhere else does time alone count against a
    /// cluster, so a report of the watches is not enough here: a watch may be silent without an error. The step's
    /// work must have been read from the hub after the deadline. Until then the step continues and the plan asks for
    /// that reading.
    pub(crate) fn expired(&mut self, started: DateTime<Utc>, step: Step) -> bool {
        self.is_missed(started + self.policy.timeout(step), step)
    }

    /// As [`ClusterEvaluator::expired`], for a deadline.
    pub(crate) fn is_missed(&mut self, deadline: DateTime<Utc>, step: Step) -> bool {
        // A write whose outcome is unknown may still begin the step. The cluster must not have failed already when it
        // then runs.
        if !self.is_over(deadline) || self.cluster.unsettled.is_some() {
            return false;
        }
        let confirmed = matches!(self.cluster.read, Some((read, at)) if read == step && at >= deadline);
        if !confirmed {
            self.out.read = Some(step);
        }
        confirmed
    }

    fn timeout_text(&self, work: &Work, step: Step) -> String {
        let limit = duration(self.policy.timeout(step));
        match &work.cause {
            Some((reason, message)) => format!("The step was not done within {limit}: {reason}: {message}"),
            None => format!("The step was not done within {limit}"),
        }
    }
}
