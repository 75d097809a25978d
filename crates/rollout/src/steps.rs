//! The steps of a cluster, judged by their works: done, running, failed, out of time.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::cluster::{LEAVE_DEBOUNCE, Machine, SUSPECT_GRACE, has_failed_after};
use crate::fleet::{Reading, Selection, Work};
use crate::phase::{Phase, Step};
use crate::reason::Reason;
use crate::record::{Outcome, Stage, StepRecord};
use crate::requeue;
use crate::wording::duration;

impl Machine<'_> {
    /// Walks the steps of the current attempt up to the first that is not done.
    pub(crate) fn take_steps(&mut self) {
        self.note_version();
        let reached = self.reached();
        for step in [Step::PreAction, Step::Platform, Step::Operators] {
            let passed = reached.is_none_or(|reached| step < reached);
            if passed || !self.policy.wants(step) || self.out.record.succeeded(step.into()) {
                continue;
            }
            let Some(work) = requeue::current(self.cluster, &self.out.record, self.policy, step) else {
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
                Step::PreAction => self.judge_pre_action(work),
                Step::Platform => self.judge_platform(work),
                Step::Operators | Step::PostAction => self.judge_operators(work),
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

    /// True when the spec has changed and the cluster had left the selection before it could be given the new one: whoever
    /// edits a spec must not reach clusters that it does not select.
    fn is_only_asked_for_since_it_left(&self) -> bool {
        self.cluster.selection != Selection::In && !self.serves_policy()
    }

    /// Ends a cluster that may not be given a step. It may have left for a moment only, so that is waited for.
    fn end_without(&mut self, step: Step) {
        let Selection::Left(since) = self.cluster.selection else {
            return;
        };
        let until = since + LEAVE_DEBOUNCE;
        if self.now < until {
            self.wake_at(until);
            self.wait(Reason::LeftSelection, "the cluster is not selected any more");
            return;
        }
        let text = format!(
            "the cluster left the selection and the spec has changed since then, so it is not given step {step:?} of the new spec"
        );
        self.fail(step.into(), Reason::LeftSelection, &text);
    }

    /// The step the cluster was in; `None`: it is past the operators. An edit of the spec that adds an earlier step does
    /// not send it back.
    fn reached(&self) -> Option<Step> {
        match self.before {
            Phase::Initialized | Phase::Partial => Some(Step::Platform),
            Phase::Operators => Some(Step::Operators),
            Phase::Soaking | Phase::PostAction | Phase::Complete | Phase::Failed => None,
            Phase::Pending | Phase::Blocked | Phase::PreAction | Phase::PreActionDegraded => {
                Some(Step::PreAction)
            }
        }
    }

    fn judge_pre_action(&mut self, work: &Work) -> bool {
        match &work.reading {
            Reading::Succeeded => true,
            Reading::Failed(text) => {
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

    pub(crate) fn judge_platform(&mut self, work: &Work) -> bool {
        let phase = match work.reading {
            Reading::Succeeded => return true,
            Reading::Running => Phase::Partial,
            Reading::OtherVersion => Phase::Initialized,
            _ if self.before == Phase::Partial => Phase::Partial,
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

    pub(crate) fn judge_operators(&mut self, work: &Work) -> bool {
        match &work.reading {
            Reading::Succeeded => return true,
            Reading::Failed(text) => self.fail(Stage::Operators, Reason::OperatorsJobFailed, text),
            Reading::Suspect(since) if self.is_over(*since + SUSPECT_GRACE) => {
                self.fail(
                    Stage::Operators,
                    Reason::OperatorsJobFailed,
                    "the approval Job has failed pods and none is active",
                );
            }
            _ if self.expired(self.clock(work, Step::Operators), Step::Operators) => {
                let message = self.timeout_text(work, Step::Operators);
                self.fail(Stage::Operators, Reason::OperatorsUpgradeTimeout, &message);
            }
            reading => {
                if let Reading::Suspect(since) = reading {
                    self.wake_at(*since + SUSPECT_GRACE);
                }
                self.run_phase(Phase::Operators, work);
            }
        }
        false
    }

    /// Watches an upgraded cluster for `minSuccessTime`; true when that is over.
    fn soak(&mut self) -> bool {
        if self.out.record.succeeded(Stage::Soak) || matches!(self.before, Phase::PostAction | Phase::Failed)
        {
            return true;
        }
        let length = self.policy.soak();
        let carrier = requeue::soak_carrier(self.policy);
        let (Some(length), Some(carrier)) = (length, carrier) else {
            if self.out.record.stage(Stage::Soak).is_some() {
                self.finish(Stage::Soak, Outcome::Succeeded);
            }
            return true;
        };
        let work = self.cluster.slot(carrier).ours();
        let started = self
            .out
            .record
            .stage(Stage::Soak)
            .map(|stage| stage.started)
            .or_else(|| work.and_then(|work| requeue::soak_note(work, &self.out.record, carrier)))
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
        if work.is_some_and(|work| work.soak_started != Some(started)) {
            self.out.mark_soak = Some((carrier, started));
        }
        self.wake_at(until);
        let text = format!("watched for {}", duration(length));
        self.phase(Phase::Soaking, Reason::Soaking, &text);
        false
    }

    /// When a soak starts that no note tells of: now, but after the clock of the step whose work carries the note, which an
    /// earlier leader may have set by a clock that was ahead. An earlier note would count as one of an earlier attempt and
    /// be asked for again at every plan.
    fn soak_start(&self, work: Option<&Work>, carrier: Step) -> DateTime<Utc> {
        let clock = work.map(|work| requeue::clock(work, &self.out.record, carrier));
        let after = clock.map(|clock| clock + TimeDelta::milliseconds(1));
        after.map_or(self.now, |after| after.max(self.now))
    }

    fn regress_text(&self, work: &Work) -> Option<Arc<str>> {
        match (&work.unhealthy, &work.reading) {
            (Some(text), _) => Some(Arc::clone(text)),
            (None, Reading::OtherVersion) => Some(Arc::from(format!(
                "the cluster runs version {}",
                self.cluster.version
            ))),
            _ => None,
        }
    }

    /// The post-action comes after the upgrade and takes no slot (`docs/design/rules.md#post-action`).
    fn post_action(&mut self) {
        let failed = has_failed_after(&self.out.record);
        if !self.policy.wants(Step::PostAction) || self.out.record.succeeded(Stage::PostAction) {
            if !failed {
                self.phase(Phase::Complete, Reason::None, "");
            }
            return;
        }
        let Some(work) = requeue::current(self.cluster, &self.out.record, self.policy, Step::PostAction)
        else {
            if !failed && self.is_only_asked_for_since_it_left() {
                self.phase(Phase::Complete, Reason::None, "");
            } else if !failed {
                self.enter(Step::PostAction);
            }
            return;
        };
        self.note_work(Step::PostAction, work);
        match &work.reading {
            Reading::Succeeded => {
                self.finish(Stage::PostAction, Outcome::Succeeded);
                self.phase(Phase::Complete, Reason::None, "");
            }
            Reading::Failed(text) => self.phase(Phase::Failed, Reason::PostActionFailed, text),
            _ if failed => {}
            _ if self.expired(self.clock(work, Step::PostAction), Step::PostAction) => {
                let message = self.timeout_text(work, Step::PostAction);
                self.phase(Phase::Failed, Reason::PostActionTimeout, &message);
            }
            _ => self.run_phase(Phase::PostAction, work),
        }
    }

    fn note_version(&mut self) {
        let version = &self.cluster.version;
        let unknown = self.out.record.from_version.is_empty();
        if unknown && !version.is_empty() && *version != self.policy.target {
            Arc::make_mut(&mut self.out.record).from_version = Arc::clone(version);
        }
    }

    pub(crate) fn note_work(&mut self, step: Step, work: &Work) {
        let stage = Stage::from(step);
        let known = self.out.record.stage(stage);
        // Within an attempt a clock never moves, whatever a work says later: agents can edit their works. Nor does one
        // begin later than now.
        let same = work.attempt == self.out.record.attempt;
        let keeps = |known: &StepRecord| same || known.started == work.started;
        if known.is_some_and(|known| keeps(known) && (known.applied.is_some() || !work.applied)) {
            return;
        }
        let now = self.now;
        let started = work.started.min(now);
        let stage = self.stage(stage, started);
        if !keeps(stage) {
            *stage = StepRecord::started(started);
        }
        if work.applied && stage.applied.is_none() {
            stage.applied = Some(now);
        }
    }

    /// The record's stage, to be changed; one that has not begun begins at the time given.
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

    /// A running phase, with what the cluster or its agent says it waits for.
    fn run_phase(&mut self, phase: Phase, work: &Work) {
        let step = match phase {
            Phase::PreAction => Step::PreAction,
            Phase::Operators => Step::Operators,
            Phase::PostAction => Step::PostAction,
            _ => Step::Platform,
        };
        self.wake_at(self.clock(work, step) + self.policy.timeout(step));
        match &work.cause {
            Some((reason, message)) => self.phase(phase, *reason, message),
            None => self.phase(phase, Reason::Running, ""),
        }
    }

    /// Start of a step's clock: the record's, which nobody but the controller writes, else the work's.
    fn clock(&self, work: &Work, step: Step) -> DateTime<Utc> {
        requeue::clock(work, &self.out.record, step)
    }

    /// True when a time is over for sure: a clock that cannot be trusted proves nothing.
    fn is_over(&self, time: DateTime<Utc>) -> bool {
        self.policy.clock_trusted && self.now >= time
    }

    /// True when the time of a step that began then is over. The only place where time alone decides anything against a
    /// cluster, so what the watches told does not do: a watch may be silent without saying so. The step's work must have been
    /// read from the hub after the deadline; until then the step goes on and the reading is asked for.
    pub(crate) fn expired(&mut self, started: DateTime<Utc>, step: Step) -> bool {
        let deadline = started + self.policy.timeout(step);
        // A write whose outcome is not known may still begin the step. What then runs must not have been given up on.
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
            Some((reason, message)) => format!("not done within {limit}: {reason}: {message}"),
            None => format!("not done within {limit}"),
        }
    }
}
