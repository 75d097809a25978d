//! A cluster in flight that an edit has reached while it was still asked for the update of the earlier spec
//! (`docs/design/rules.md#spec-edits`).

use crate::model::{Phase, Reason, Stage, Step, StepStatus, StepWork, Work};
use crate::planner::cluster::ClusterEvaluator;

impl ClusterEvaluator<'_> {
    /// True when the cluster began the update to the old target just before its work could be changed. It finishes
    /// that update first. A report that is missing for a while does not say that it has ended, nor does a clock that is not trusted.
    pub(crate) fn is_in_earlier_update(&mut self) -> bool {
        let Some(work) = self.cluster.step_work(Step::Platform).ours() else {
            return false;
        };
        // Agents can edit their works, so a start on the work does not count if it is later than the recorded one.
        let record = &self.out.record;
        let recorded = record
            .stage(Stage::Platform)
            .map_or(record.since, |stage| stage.started);
        let until = recorded.min(work.started) + self.policy.timeout(Step::Platform);
        let may_run = match work.status {
            StepStatus::Running => true,
            StepStatus::NotYet => self.before == Phase::Partial,
            _ => false,
        };
        let updating = work.attempt.revision != record.attempt.revision && may_run && !self.is_over(until);
        if updating {
            self.wake_at(until);
            self.phase(
                Phase::Partial,
                Reason::Running,
                "The cluster finishes the update to the earlier target first",
            );
            // A clock that is not trusted does not end the wait at that time. A later start may be on record.
            self.wake_at_deadline();
        }
        updating
    }

    /// True when a cluster that was asked for an update by an earlier spec, and may still begin it or has finished it, would be asked for
    /// another one. A work with the start that is on record asks for this one, whatever else somebody has written into it.
    pub(crate) fn repoints(&self, step: Step) -> bool {
        let work = self.cluster.step_work(step).ours();
        let record = self.cluster.record.as_deref();
        let recorded = record.and_then(|record| record.stage(step.into()));
        let is_other = |work: &Work| {
            let revision = &self.out.record.attempt.revision;
            work.attempt.revision != *revision && recorded.is_none_or(|stage| stage.started != work.started)
        };
        step == Step::Platform
            && matches!(self.before, Phase::Initialized | Phase::Partial)
            && work.is_some_and(|work| !work.vanished && is_other(work))
    }

    /// True when somebody has deleted the work by which a cluster was asked for the update of an earlier spec, before the cluster was asked
    /// for this one: no start of this one is on record.
    pub(crate) fn has_lost_request(&self, step: Step) -> bool {
        let is_gone = match self.cluster.step_work(step) {
            StepWork::Absent => true,
            StepWork::Foreign { retry_at }
            | StepWork::ForeignTerminating { retry_at }
            | StepWork::Refused { retry_at, .. } => *retry_at <= self.now,
            StepWork::Ours(work) => work.vanished || work.terminating,
            _ => false,
        };
        let record = self.cluster.record.as_deref();
        let was_asked = record.is_none_or(|record| record.stage(step.into()).is_some());
        step == Step::Platform
            && matches!(self.before, Phase::Initialized | Phase::Partial)
            && is_gone
            && !was_asked
    }

    /// True when the update of the earlier spec has ended, so that the cluster is asked for nothing any more.
    pub(crate) fn has_ended_earlier_update(&self) -> bool {
        let work = self.cluster.step_work(Step::Platform).ours();
        self.repoints(Step::Platform) && work.is_some_and(|work| work.status == StepStatus::Succeeded)
    }
}
