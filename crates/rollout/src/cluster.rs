//! The state machine of one cluster (`reference/mcu.md` §3): from what was observed to its phase and its next wish.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::fleet::{Cluster, Reading, RivalHold, Selection, Slot, Standing, Work};
use crate::phase::{Phase, Step};
use crate::plan::{Action, DeleteReason, UpdateKind};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::record::{Outcome, Record, Stage, StepRecord};
use crate::requeue;

/// How long a cluster may be missing from the selection before it counts as gone: PlacementDecisions are rewritten
/// non-atomically (`reference/ocm.md` 2.8).
pub const LEAVE_DEBOUNCE: TimeDelta = TimeDelta::seconds(5);
/// How long a Job must look failed without saying so before it counts as failed (A30).
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

/// The state of one cluster before the window decides who starts.
#[derive(Debug)]
pub(crate) struct Derived {
    pub(crate) record: Record,
    pub(crate) wish: Wish,
    pub(crate) cleanups: Vec<(Step, DeleteReason)>,
    pub(crate) mark_soak: Option<(Step, DateTime<Utc>)>,
    pub(crate) wake: Option<DateTime<Utc>>,
    /// Nothing but a human can move it (Blocked that does not heal by itself).
    pub(crate) stuck: bool,
    pub(crate) dropped: bool,
}

struct Machine<'a> {
    cluster: &'a Cluster,
    policy: &'a Policy,
    now: DateTime<Utc>,
    /// Phase before this plan.
    before: Phase,
    /// The cluster holds a slot.
    holds: bool,
    /// It left the selection a moment ago and may come back.
    leaving: bool,
    out: Derived,
}

/// Derives the state of one cluster.
pub(crate) fn derive(cluster: &Cluster, policy: &Policy, now: DateTime<Utc>) -> Derived {
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
        out: Derived {
            record,
            wish: Wish::Nothing,
            cleanups: Vec::new(),
            mark_soak: None,
            wake: None,
            stuck: false,
            dropped: false,
        },
    };
    machine.run();
    machine.out
}

impl Machine<'_> {
    fn run(&mut self) {
        if self.cluster.gone || self.has_left() {
            self.out.dropped = true;
            self.clean_up_leaver();
            return;
        }
        let failed_for_good = self.before == Phase::Failed && !self.failed_in_post_action();
        if self.before == Phase::Complete || failed_for_good {
            self.clean_up_finished();
            return;
        }
        if self.out.record.attempt.revision == self.policy.revision {
            self.take_steps();
        } else {
            self.finish_old_revision();
        }
        self.clean_up_leftovers();
        self.clean_up_finished();
        if self.leaving && self.out.wish != Wish::Nothing {
            self.wait(Reason::LeftSelection, "the cluster is not selected any more");
            self.out.wish = Wish::Nothing;
        }
    }

    fn failed_in_post_action(&self) -> bool {
        matches!(
            self.out.record.reason,
            Reason::PostActionFailed | Reason::PostActionTimeout
        )
    }

    /// R7b: a cluster that left the selection before its upgrade started is dropped, after a debounce.
    fn has_left(&mut self) -> bool {
        let Selection::Left(since) = self.cluster.selection else {
            return false;
        };
        let upgrading = [Step::Platform, Step::Operators, Step::PostAction]
            .into_iter()
            .any(|step| self.cluster.slot(step).ours().is_some());
        if self.before.is_started() || upgrading {
            return false;
        }
        let until = since + LEAVE_DEBOUNCE;
        self.leaving = self.now < until;
        if self.leaving {
            self.wake_at(until);
        }
        !self.leaving
    }

    fn clean_up_leaver(&mut self) {
        if !self.cluster.gone && self.cluster.slot(Step::PreAction).ours().is_some() {
            self.out
                .cleanups
                .push((Step::PreAction, DeleteReason::LeftSelection));
        }
    }

    /// The record says it is complete and is written: platform and operators works may go (A19).
    fn clean_up_finished(&mut self) {
        let upgraded = |phase: Phase, reason: Reason| {
            matches!(phase, Phase::Complete | Phase::PostAction)
                || (phase == Phase::Failed
                    && matches!(reason, Reason::PostActionFailed | Reason::PostActionTimeout))
        };
        let record = &self.out.record;
        let written = self.cluster.written.as_deref().is_some_and(|written| {
            written.attempt == record.attempt && upgraded(written.phase, written.reason)
        });
        if !written || !upgraded(record.phase, record.reason) {
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
        let announced = self
            .cluster
            .written
            .as_deref()
            .is_none_or(|written| written.attempt == record.attempt);
        if !announced || record.attempt.revision != self.policy.revision {
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

    /// Walks the steps of the current attempt up to the first that is not done.
    fn take_steps(&mut self) {
        self.note_version();
        for step in [Step::PreAction, Step::Platform, Step::Operators] {
            if !self.policy.wants(step) || self.out.record.succeeded(step.into()) {
                continue;
            }
            let Some(work) = requeue::current(self.cluster, &self.out.record, self.policy, step) else {
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

    fn judge_pre_action(&mut self, work: &Work) -> bool {
        match &work.reading {
            Reading::Succeeded => true,
            Reading::Failed(text) => {
                self.phase(Phase::PreActionDegraded, Reason::PreActionFailed, text);
                false
            }
            _ if self.expired(work, Step::PreAction) => {
                let message = self.timeout_text(work, Step::PreAction);
                self.phase(Phase::PreActionDegraded, Reason::PreActionTimeout, &message);
                false
            }
            _ if self.before == Phase::PreActionDegraded => false,
            _ => {
                self.run_phase(Phase::PreAction, work);
                false
            }
        }
    }

    fn judge_platform(&mut self, work: &Work) -> bool {
        let phase = match work.reading {
            Reading::Succeeded => return true,
            Reading::Running => Phase::Partial,
            Reading::OtherVersion => Phase::Initialized,
            _ if self.before == Phase::Partial => Phase::Partial,
            _ => Phase::Initialized,
        };
        if self.expired(work, Step::Platform) {
            let message = self.timeout_text(work, Step::Platform);
            self.fail(Stage::Platform, Reason::ClusterUpgradeTimeout, &message);
        } else {
            self.run_phase(phase, work);
        }
        false
    }

    fn judge_operators(&mut self, work: &Work) -> bool {
        match &work.reading {
            Reading::Succeeded => return true,
            Reading::Failed(text) => self.fail(Stage::Operators, Reason::OperatorsJobFailed, text),
            Reading::Suspect(since) if self.now >= *since + SUSPECT_GRACE => {
                self.fail(
                    Stage::Operators,
                    Reason::OperatorsJobFailed,
                    "the approval Job has failed pods and none is active",
                );
            }
            _ if self.expired(work, Step::Operators) => {
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
        let Some(length) = self.policy.soak() else {
            return true;
        };
        if self.out.record.succeeded(Stage::Soak) || matches!(self.before, Phase::PostAction | Phase::Failed)
        {
            return true;
        }
        let carrier = if self.policy.wants(Step::Platform) {
            Step::Platform
        } else {
            Step::Operators
        };
        let work = self.cluster.slot(carrier).ours();
        let recorded = self.out.record.stage(Stage::Soak).map(|stage| stage.started);
        let started = recorded
            .or_else(|| work.and_then(|work| work.soak_started))
            .unwrap_or(self.now);
        self.out.record.stages[Stage::Soak.index()].get_or_insert(StepRecord::started(started));
        if let Some(work) = work.filter(|_| carrier == Step::Platform) {
            let text = match (&work.unhealthy, &work.reading) {
                (Some(text), _) => Some(Arc::clone(text)),
                (None, Reading::OtherVersion) => Some(Arc::from(format!(
                    "the cluster runs version {} again",
                    self.cluster.version
                ))),
                _ => None,
            };
            if let Some(text) = text {
                self.fail(Stage::Soak, Reason::RegressedInSoak, &text);
                return false;
            }
        }
        let until = started + length;
        if self.now >= until {
            self.finish(Stage::Soak, Outcome::Succeeded);
            return true;
        }
        if work.is_some_and(|work| work.soak_started.is_none()) {
            self.out.mark_soak = Some((carrier, started));
        }
        self.wake_at(until);
        self.phase(Phase::Soaking, Reason::Soaking, "");
        false
    }

    /// R9, R10: after the upgrade, without a slot.
    fn post_action(&mut self) {
        if !self.policy.wants(Step::PostAction) || self.out.record.succeeded(Stage::PostAction) {
            self.phase(Phase::Complete, Reason::None, "");
            return;
        }
        let Some(work) = requeue::current(self.cluster, &self.out.record, self.policy, Step::PostAction)
        else {
            if self.before != Phase::Failed {
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
            _ if self.expired(work, Step::PostAction) => {
                let message = self.timeout_text(work, Step::PostAction);
                self.phase(Phase::Failed, Reason::PostActionTimeout, &message);
            }
            _ if self.before == Phase::Failed => {}
            _ => self.run_phase(Phase::PostAction, work),
        }
    }

    /// The step's work does not exist: it is to be created, once nothing stands in its way.
    fn enter(&mut self, step: Step) {
        let done = matches!(self.before, Phase::Soaking | Phase::Complete | Phase::PostAction);
        let goes_on = self.holds || (step == Step::PostAction && done);
        if !goes_on {
            self.out.record.stages[Stage::from(step).index()] = None;
            self.phase(Phase::Pending, Reason::None, "");
            self.ask_to_start(step);
            return;
        }
        let started = self
            .out
            .record
            .stage(step.into())
            .map_or(self.now, |stage| stage.started);
        if self.now >= started + self.policy.timeout(step) {
            self.time_out_without_work(step);
            return;
        }
        if step == Step::PostAction {
            self.phase(Phase::PostAction, Reason::Running, "");
        } else {
            self.keep_phase();
        }
        if step <= Step::Platform
            && let Standing::Blocked { reason, message } = &self.cluster.standing
        {
            self.block(*reason, message, true);
        } else if self.way_is_free(step) {
            self.out.wish = Wish::Advance(step, started);
        }
    }

    fn time_out_without_work(&mut self, step: Step) {
        let message = format!(
            "the step's ManifestWork was deleted and its time ({}) is over",
            text(self.policy.timeout(step))
        );
        match step {
            Step::PreAction => self.phase(Phase::PreActionDegraded, Reason::PreActionTimeout, &message),
            Step::Platform => self.fail(Stage::Platform, Reason::ClusterUpgradeTimeout, &message),
            Step::Operators => self.fail(Stage::Operators, Reason::OperatorsUpgradeTimeout, &message),
            Step::PostAction => self.phase(Phase::Failed, Reason::PostActionTimeout, &message),
        }
    }

    /// Not started: everything that can keep a cluster from starting, the strongest first.
    fn ask_to_start(&mut self, step: Step) {
        if let Standing::Blocked { reason, message } = &self.cluster.standing {
            self.block(*reason, message, true);
            return;
        }
        if let Some(rival) = &self.cluster.rival {
            let text = match rival.hold {
                RivalHold::Yielding => None,
                RivalHold::Active => Some(format!(
                    "upgrade {} holds the cluster; it starts when that one is done",
                    rival.upgrade
                )),
                RivalHold::Stuck => Some(format!(
                    "upgrade {} holds the cluster and is stuck there; retry, edit or delete that upgrade",
                    rival.upgrade
                )),
            };
            if let Some(text) = text {
                self.block(Reason::Conflict, &text, rival.hold == RivalHold::Stuck);
                return;
            }
        }
        if !self.way_is_free(step) {
            return;
        }
        if let Standing::Unavailable { reason, message } = &self.cluster.standing {
            self.wait(*reason, message);
            return;
        }
        self.out.wish = Wish::Start(step);
    }

    /// False, with the reason, when something under the work's name must go first.
    fn way_is_free(&mut self, step: Step) -> bool {
        match self.cluster.slot(step) {
            Slot::Foreign { retry_at } if self.now < *retry_at => {
                self.wake_at(*retry_at);
                let text = format!(
                    "a ManifestWork of the same name that belongs to nobody's upgrade stands in the way of step {step:?}; delete or rename it"
                );
                if step == Step::PostAction {
                    self.wait(Reason::Conflict, &text);
                } else {
                    self.block(Reason::Conflict, &text, true);
                }
                false
            }
            Slot::Ours(work) if work.terminating => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "the ManifestWork of an earlier attempt is being deleted",
                );
                false
            }
            Slot::Rival { terminating: true } => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "the ManifestWork of another upgrade is being deleted",
                );
                false
            }
            Slot::Ours(work) if !work.vanished && step != Step::Platform => {
                self.wait(
                    Reason::WaitingForCleanup,
                    "the ManifestWork of an earlier attempt is to be deleted first",
                );
                false
            }
            _ => true,
        }
    }

    /// A cluster in flight on an earlier revision finishes its step and is queued again.
    fn finish_old_revision(&mut self) {
        let step = if self.before == Phase::Operators {
            Step::Operators
        } else {
            Step::Platform
        };
        if !self.before.holds_slot() {
            return;
        }
        let Some(work) = self
            .cluster
            .slot(step)
            .ours()
            .filter(|work| work.attempt == self.out.record.attempt)
        else {
            self.out.record = requeue::queued_again(self.out.record.clone(), self.policy, self.now);
            return;
        };
        self.note_work(step, work);
        let done = if step == Step::Operators {
            self.judge_operators(work)
        } else {
            self.judge_platform(work)
        };
        if !done {
            return;
        }
        self.finish(step.into(), Outcome::Succeeded);
        if self.cluster.selection == Selection::In {
            self.out.record = requeue::queued_again(self.out.record.clone(), self.policy, self.now);
        } else {
            self.phase(Phase::Complete, Reason::None, "");
        }
    }

    fn note_version(&mut self) {
        let record = &mut self.out.record;
        let version = &self.cluster.version;
        if record.from_version.is_empty() && !version.is_empty() && *version != self.policy.target {
            record.from_version = Arc::clone(version);
        }
    }

    fn note_work(&mut self, step: Step, work: &Work) {
        let stage = self.out.record.stages[Stage::from(step).index()]
            .get_or_insert(StepRecord::started(work.started));
        if stage.started != work.started {
            *stage = StepRecord::started(work.started);
        }
        if work.applied && stage.applied.is_none() {
            stage.applied = Some(self.now);
        }
    }

    fn finish(&mut self, stage: Stage, outcome: Outcome) {
        let now = self.now;
        let entry = self.out.record.stages[stage.index()].get_or_insert(StepRecord::started(now));
        if entry.outcome != Some(outcome) {
            entry.finished = Some(now);
            entry.outcome = Some(outcome);
        }
    }

    fn fail(&mut self, stage: Stage, reason: Reason, message: &str) {
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
        self.wake_at(work.started + self.policy.timeout(step));
        match &work.cause {
            Some((reason, message)) => self.phase(phase, *reason, message),
            None => self.phase(phase, Reason::Running, ""),
        }
    }

    fn expired(&self, work: &Work, step: Step) -> bool {
        self.now >= work.started + self.policy.timeout(step)
    }

    fn timeout_text(&self, work: &Work, step: Step) -> String {
        let limit = text(self.policy.timeout(step));
        match &work.cause {
            Some((reason, message)) => format!("not done within {limit}: {reason}: {message}"),
            None => format!("not done within {limit}"),
        }
    }

    fn keep_phase(&mut self) {
        self.phase(self.before, Reason::Running, "");
    }

    fn wait(&mut self, reason: Reason, message: &str) {
        let phase = self.out.record.phase;
        self.phase(phase, reason, message);
    }

    fn block(&mut self, reason: Reason, message: &str, stuck: bool) {
        self.out.stuck = stuck;
        self.phase(Phase::Blocked, reason, message);
    }

    fn phase(&mut self, phase: Phase, reason: Reason, message: &str) {
        let record = &mut self.out.record;
        if record.phase != phase {
            record.since = self.now;
        }
        record.phase = phase;
        record.reason = reason;
        if *record.message != *message {
            record.message = Arc::from(cut(message));
        }
    }

    fn wake_at(&mut self, at: DateTime<Utc>) {
        if at > self.now {
            self.out.wake = Some(self.out.wake.map_or(at, |wake| wake.min(at)));
        }
    }
}

impl Derived {
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

/// At most 256 bytes, cut on a character boundary.
pub(crate) fn cut(text: &str) -> &str {
    const MOST: usize = 256;
    if text.len() <= MOST {
        return text;
    }
    let end = (0..=MOST)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    &text[..end]
}

/// A duration as Go writes it, in whole seconds: `3h`, `21m50s`.
pub(crate) fn text(length: TimeDelta) -> String {
    let seconds = length.num_seconds();
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let text: String = parts
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    if text.is_empty() { "0s".to_owned() } else { text }
}
