//! Rules about single writes: what a plan may create, change and delete.

use chrono::{DateTime, Utc};

use super::asked::may_have_gone_on;
use super::proven::{has_succeeded, is_proven, own};
use super::records::tells_of;
use super::{Case, Checker, ViolationKind};
use crate::model::{
    Attempt, Cluster, ClusterState, DeleteReason, Eligibility, Operation, Phase, Preflight, Reason, Record,
    RivalHold, Selection, Stage, Step, StepStatus, StepWork, UpdateKind, Withdrawal, Work,
};

/// True when the operation begins or advances a cluster.
fn moves(operation: &Operation) -> bool {
    matches!(operation, Operation::Create { .. } | Operation::Update { .. })
}

/// True when a cluster in flight that was asked for the update of an earlier spec is asked for another one, and not once more for the one
/// whose start is on record.
pub(super) fn repoints(operation: &Operation, cluster: &Cluster, state: &ClusterState) -> bool {
    let before = cluster.record.as_deref();
    let recorded = before.and_then(|before| before.stage(Stage::Platform));
    let update = cluster.works[Step::Platform.index()].ours();
    let is_same = update
        .zip(recorded)
        .is_some_and(|(work, stage)| work.started == stage.started);
    let is_other = matches!(
        operation,
        Operation::Update {
            kind: UpdateKind::Repoint,
            ..
        }
    );
    let waits = before.is_some_and(|before| matches!(before.phase, Phase::Initialized | Phase::Partial));
    is_other && !is_same && waits && state.record.phase == Phase::Initialized
}

/// True when the operation gives a cluster a slot that it does not hold.
pub(super) fn is_start(operation: &Operation, state: &ClusterState) -> bool {
    let goes_on = state.record.phase.holds_slot() || state.record.phase == Phase::PostAction;
    moves(operation) && !goes_on
}

/// True when the operation requests the update for the first time, after the pre-action.
fn is_first_request(cluster: &Cluster, operation: &Operation) -> bool {
    operation.step() == Step::Platform
        && follows_pre_action(cluster, operation)
        && cluster.unsettled.is_none()
        && cluster.late.is_none()
}

/// True when the operation begins the first step after the pre-action. It counts even if it repeats one of which nobody knows whether it
/// was carried out.
pub(super) fn follows_pre_action(cluster: &Cluster, operation: &Operation) -> bool {
    let record = cluster.record.as_deref();
    let phase = record.map(|record| record.phase);
    let attempt = match operation {
        Operation::Create { attempt, .. } | Operation::Update { attempt, .. } => Some(attempt),
        _ => None,
    };
    let is_begun = match cluster.step_work(operation.step()) {
        StepWork::Absent
        | StepWork::Rival { .. }
        | StepWork::Foreign { .. }
        | StepWork::ForeignTerminating { .. }
        | StepWork::Refused { .. } => false,
        StepWork::Ours(work) => attempt == Some(&work.attempt),
        _ => true,
    };
    // The update has begun since, or the operators have, although no record says so yet.
    let has_begun = |step: Step| {
        let is_told = record.is_some_and(|record| record.stages[Stage::from(step).index()].is_some());
        is_told || own(cluster, step).is_some_and(|work| attempt == Some(&work.attempt))
    };
    let mut earlier = [Step::Platform, Step::Operators].into_iter();
    let is_later = earlier.any(|step| step < operation.step() && has_begun(step));
    moves(operation)
        && operation.step() > Step::PreAction
        && matches!(phase, Some(Phase::PreAction | Phase::PreActionDegraded))
        && !(is_begun || is_later)
}

fn gives_way(cluster: &Cluster) -> bool {
    let hold = cluster.rival.as_ref().map(|rival| rival.hold);
    hold == Some(RivalHold::Yielding)
}

/// True when a creation without a response may create the work of a step once more if that is deleted.
fn may_return(cluster: &Cluster, step: Step) -> bool {
    let doubts = [cluster.unsettled, cluster.late];
    doubts
        .iter()
        .chain(&cluster.also_late)
        .any(|doubt| *doubt == Some(step))
}

/// True when a work is deleted because its step is over.
const fn cleans_up(why: DeleteReason) -> bool {
    matches!(
        why,
        DeleteReason::Complete
            | DeleteReason::AllComplete
            | DeleteReason::OthersStalled
            | DeleteReason::Aborted
    )
}

fn live(cluster: &Cluster, step: Step) -> Option<&Work> {
    match &cluster.works[step.index()] {
        StepWork::Ours(work) if !work.terminating && !work.vanished => Some(work),
        _ => None,
    }
}

/// True when the record says that platform and operators are done.
fn is_upgraded(record: &Record) -> bool {
    let after = matches!(
        record.reason,
        Reason::PostActionFailed | Reason::PostActionTimeout
    );
    matches!(record.phase, Phase::Complete | Phase::PostAction) || (record.phase == Phase::Failed && after)
}

impl Checker<'_> {
    /// While the upgrade is being deleted, only its own works may be deleted and nothing else may happen.
    pub(super) fn check_deleting(&mut self, case: &Case<'_>) {
        self.check_free(case);
        for operation in &case.operations {
            let slot = &case.cluster.works[operation.step().index()];
            let unknown = matches!(
                slot,
                StepWork::Unconfirmed
                    | StepWork::Former(_)
                    | StepWork::Unreadable {
                        terminating: false,
                        ..
                    }
            );
            let own = unknown || live(case.cluster, operation.step()).is_some();
            let deletes = matches!(
                operation,
                Operation::Delete {
                    why: DeleteReason::UpgradeDeleted,
                    ..
                }
            );
            if matches!(operation, Operation::Read { .. }) {
                continue;
            }
            if !deletes {
                let text = format!("{operation:?} while the upgrade is being deleted");
                self.report(ViolationKind::ActionWhileDeleting, Some(case.cluster), text);
            } else if !own {
                let text = format!("{operation:?} of a work that is not ours");
                self.report(ViolationKind::ForeignTouched, Some(case.cluster), text);
            }
        }
    }

    pub(super) fn check_actions(&mut self, case: &Case<'_>) {
        self.check_free(case);
        if case
            .operations
            .iter()
            .filter(|operation| moves(operation))
            .count()
            > 1
        {
            let text = format!("{:?}", case.operations);
            self.report(ViolationKind::DoubleStart, Some(case.cluster), text);
        }
        for operation in &case.operations {
            let Some(state) = case.state else {
                if matches!(operation, Operation::Read { .. }) {
                    continue;
                }
                let text = format!("{operation:?} of a dropped cluster");
                self.report(ViolationKind::StartedBarred, Some(case.cluster), text);
                continue;
            };
            match operation {
                Operation::Create {
                    step,
                    attempt,
                    started,
                    ..
                } => {
                    self.check_place(case.cluster, *step);
                    self.check_move(case.cluster, state, operation, attempt, *started);
                }
                Operation::Update {
                    attempt,
                    started,
                    kind,
                    ..
                } => {
                    self.check_update(case.cluster, *kind);
                    self.check_earlier_update(case.cluster, state, operation);
                    self.check_move(case.cluster, state, operation, attempt, *started);
                }
                Operation::Withdraw { .. } => self.check_withdrawal(case),
                Operation::MarkSoak { step, started, .. } => {
                    self.check_mark(case.cluster, state, *step, *started);
                }
                Operation::Delete { step, why, .. } => {
                    self.check_delete(case.cluster, state, *step, *why);
                }
                Operation::Read { .. } => {}
            }
        }
    }

    fn check_free(&mut self, case: &Case<'_>) {
        if case.operations.is_empty() {
            return;
        }
        if case.cluster.busy.is_some() {
            let text = format!("{:?} while another write is in progress", case.operations);
            self.report(ViolationKind::BusyTouched, Some(case.cluster), text);
        }
        if case
            .cluster
            .backoff
            .as_ref()
            .is_some_and(|backoff| self.now < backoff.until)
        {
            let text = format!("{:?} inside a backoff", case.operations);
            self.report(ViolationKind::BackoffIgnored, Some(case.cluster), text);
        }
    }

    /// A creation needs a name that is free, as far as is known.
    fn check_place(&mut self, cluster: &Cluster, step: Step) {
        let free = match &cluster.works[step.index()] {
            StepWork::Absent => true,
            StepWork::Ours(work) => work.vanished,
            StepWork::Foreign { retry_at }
            | StepWork::ForeignTerminating { retry_at }
            | StepWork::Refused { retry_at, .. } => *retry_at <= self.now,
            StepWork::Rival { .. }
            | StepWork::Unreadable { .. }
            | StepWork::Unconfirmed
            | StepWork::Former(_) => false,
        };
        if !free {
            let text = format!(
                "{step:?} is created where there is {:?}",
                cluster.works[step.index()]
            );
            self.report(ViolationKind::WorkOverwritten, Some(cluster), text);
        }
    }

    fn check_update(&mut self, cluster: &Cluster, kind: UpdateKind) {
        let founded = match &cluster.works[Step::Platform.index()] {
            StepWork::Ours(work) => !work.terminating && !work.vanished && kind != UpdateKind::TakeOver,
            StepWork::Rival { terminating: false } => gives_way(cluster) && kind == UpdateKind::TakeOver,
            _ => false,
        };
        if !founded {
            let text = format!("{kind:?} of {:?}", cluster.works[Step::Platform.index()]);
            self.report(ViolationKind::UpdateUnfounded, Some(cluster), text);
        }
    }

    /// A cluster in flight that has begun the update of an earlier spec finishes it first, unless its time is certainly over. That the
    /// cluster reports nothing for a while does not end it.
    fn check_earlier_update(&mut self, cluster: &Cluster, state: &ClusterState, operation: &Operation) {
        let before = cluster.record.as_deref();
        let before = before.filter(|_| repoints(operation, cluster, state));
        let Some((before, work)) = before.zip(live(cluster, Step::Platform)) else {
            return;
        };
        let may_run = match work.status {
            StepStatus::Running => true,
            StepStatus::NotYet => before.phase == Phase::Partial,
            _ => false,
        };
        let recorded = before.stages[Stage::Platform.index()].map(|stage| stage.started);
        let began = recorded.unwrap_or(before.since).min(work.started);
        let is_over = self.policy.clock_trusted && began + self.length(Step::Platform) <= self.now;
        if may_run && !is_over {
            let text = format!("{operation:?} interrupts the update of {:?}", work.attempt);
            self.report(ViolationKind::UpdateUnfounded, Some(cluster), text);
        }
    }

    /// Rules that every creation and update must obey.
    fn check_move(
        &mut self,
        cluster: &Cluster,
        state: &ClusterState,
        operation: &Operation,
        attempt: &Attempt,
        started: DateTime<Utc>,
    ) {
        let step = operation.step();
        if cluster.unsettled.is_some_and(|unsettled| unsettled != step) {
            let text = format!("{step:?} while {:?} is not settled", cluster.unsettled);
            self.report(ViolationKind::UnsettledPassed, Some(cluster), text);
        }
        let recorded = cluster.record.as_ref().map(|record| &record.attempt.revision);
        if cluster.selection != Selection::In
            && recorded.is_some_and(|revision| *revision != self.policy.revision)
        {
            let text = format!("{step:?} belongs to a spec under which the cluster was never selected");
            self.report(ViolationKind::StartedBarred, Some(cluster), text);
        }
        self.check_announced(cluster, state, attempt);
        self.check_order(cluster, state, step);
        self.check_version(cluster, step);
        let clock = state.record.stages[Stage::from(step).index()].map(|stage| stage.started);
        if started != self.now && Some(started) != clock {
            let text = format!("{step:?} has a clock that starts at {started}");
            self.report(ViolationKind::ClockReset, Some(cluster), text);
        }
        if is_start(operation, state) {
            if let Some(late) = cluster.late {
                let text = format!("{step:?} starts while a creation of {late:?} may still be carried out");
                self.report(ViolationKind::UnsettledPassed, Some(cluster), text);
            }
            self.check_may_start(cluster, state, step);
        } else {
            self.check_first_request(cluster, operation);
            if clock.is_some_and(|clock| clock != started) {
                let text = format!("{step:?} has a clock that starts at {started} instead of {clock:?}");
                self.report(ViolationKind::ClockReset, Some(cluster), text);
            }
        }
    }

    /// On a cluster that runs a newer version than the target, neither the pre-action nor the update may begin.
    fn check_version(&mut self, cluster: &Cluster, step: Step) {
        let leads_to_target = matches!(step, Step::PreAction | Step::Platform)
            && self.policy.steps[Step::Platform.index()].is_some();
        if self.policy.allow_downgrade || !leads_to_target {
            return;
        }
        let known = |text: &str| semver::Version::parse(text).ok();
        let newer = known(&cluster.newest_version)
            .zip(known(&self.policy.target))
            .is_some_and(|(runs, target)| target.cmp_precedence(&runs).is_lt());
        if newer {
            let text = format!(
                "{step:?} leads to {}, but the cluster runs {}",
                self.policy.target, cluster.newest_version
            );
            self.report(ViolationKind::Downgrade, Some(cluster), text);
        }
    }

    fn check_announced(&mut self, cluster: &Cluster, state: &ClusterState, attempt: &Attempt) {
        let first = || {
            let mut works = Step::ALL.into_iter().filter_map(|step| live(cluster, step));
            let mut all = cluster.works.iter();
            attempt.retry.is_empty()
                && works.all(|work| work.attempt == *attempt)
                && !all.any(|work| matches!(work, StepWork::Former(_)))
        };
        let announced = cluster
            .written
            .as_deref()
            .map_or_else(first, |written| written.attempt == *attempt);
        if !announced || *attempt != state.record.attempt {
            let text = format!("{attempt:?} is not the attempt of the written record");
            self.report(ViolationKind::Unannounced, Some(cluster), text);
        }
    }

    fn check_order(&mut self, cluster: &Cluster, state: &ClusterState, step: Step) {
        let Some(before) = step.index().checked_sub(1) else {
            self.check_requested(cluster, step);
            return;
        };
        self.check_requested(cluster, step);
        // If an edit adds a step before the one that the cluster had reached, the added step is not required.
        let reached = |phase: Phase| match phase {
            Phase::Initialized | Phase::Partial | Phase::Workers => Step::Platform.index(),
            Phase::Operators => Step::Operators.index(),
            Phase::Soaking | Phase::PostAction => Step::PostAction.index(),
            _ => 0,
        };
        let had = cluster
            .record
            .as_deref()
            .map_or(0, |record| reached(record.phase));
        let reached = had.max(if cluster.record.is_none() {
            reached(state.record.phase)
        } else {
            0
        });
        let (policy, now) = (self.policy, self.now);
        let is_done = |one: Step| is_proven(policy, cluster, &state.record, one.into(), now);
        // The same holds for a cluster that is retried after the platform or its operators: they began only when all before had succeeded.
        let is_followed = |earlier: Step| {
            let mut later = [Step::Platform, Step::Operators].into_iter();
            later.any(|later| earlier < later && later < step && is_done(later))
        };
        for earlier in &Step::ALL[..=before] {
            let is_needed = policy.steps[earlier.index()].is_some() && earlier.index() >= reached;
            if is_needed && !is_followed(*earlier) && !is_done(*earlier) {
                let text = format!("{step:?} before {earlier:?} succeeded");
                self.report(ViolationKind::StepOrder, Some(cluster), text);
            }
        }
    }

    fn check_requested(&mut self, cluster: &Cluster, step: Step) {
        if self.policy.steps[step.index()].is_none() {
            let text = format!("{step:?} is not requested");
            self.report(ViolationKind::StepOrder, Some(cluster), text);
        }
    }

    /// Gates that concern only this cluster. Gates of the fleet are in [`super::fleetwide`].
    fn check_may_start(&mut self, cluster: &Cluster, state: &ClusterState, step: Step) {
        let under_way = [Step::Platform, Step::Operators, Step::PostAction]
            .into_iter()
            .any(|step| is_proven(self.policy, cluster, &state.record, step.into(), self.now));
        let unreadable = cluster
            .works
            .iter()
            .any(|slot| matches!(slot, StepWork::Unreadable { .. }));
        let barred = if unreadable {
            Some("one of its works cannot be read")
        } else if cluster.gone {
            Some("the cluster is gone")
        } else if cluster.selection != Selection::In && !under_way {
            Some("the cluster is not selected")
        } else if cluster.eligibility != Eligibility::Eligible {
            Some("the cluster is blocked or unavailable")
        } else if cluster.rival.is_some() && !gives_way(cluster) {
            Some("another upgrade holds the cluster")
        } else if !self.may_be_asked_for(cluster, step) {
            Some("the cluster has not said that it would take the update")
        } else {
            None
        };
        if let Some(text) = barred {
            self.report(ViolationKind::StartedBarred, Some(cluster), text);
        }
    }

    /// The update is requested after the pre-action, and the cluster may have said something else since.
    fn check_first_request(&mut self, cluster: &Cluster, operation: &Operation) {
        if is_first_request(cluster, operation) && !self.may_be_asked_for(cluster, operation.step()) {
            let text = "the cluster has not said since that it would take the update";
            self.report(ViolationKind::StartedBarred, Some(cluster), text);
        }
    }

    /// False when the step leads to an update that no work asks the cluster for yet, and that it must be ready for. An image that it told
    /// long ago is not used in any mode.
    fn may_be_asked_for(&self, cluster: &Cluster, step: Step) -> bool {
        let leads_to_update = matches!(step, Step::PreAction | Step::Platform);
        let wanted = self.policy.steps[Step::Platform.index()].as_ref();
        // What it said before a retry counts no more, unless it has begun the update since.
        let attempt = cluster.record.as_deref().map(|record| &record.attempt);
        let goes_on = |work: &Work| {
            let is_accepted = matches!(work.status, StepStatus::Running | StepStatus::Succeeded);
            is_accepted || attempt.is_none_or(|attempt| work.attempt == *attempt)
        };
        let is_asked_for =
            live(cluster, Step::Platform).is_some_and(|work| Some(&work.hash) == wanted && goes_on(work));
        if !leads_to_update || wanted.is_none() || is_asked_for {
            return true;
        }
        match cluster.preflight {
            Preflight::Ready => true,
            Preflight::Stale if step == Step::PreAction => true,
            Preflight::Stale => {
                let is_awaited = self.policy.requires_preflight || self.policy.awaits_answers;
                !is_awaited && !self.policy.clock_trusted
            }
            Preflight::NotAsked
            | Preflight::Unknown {
                reason: Reason::PreflightPending,
                ..
            } if self.policy.awaits_answers => false,
            _ if self.policy.requires_preflight => false,
            _ => step == Step::PreAction || !cluster.has_stale_image || !self.policy.clock_trusted,
        }
    }

    fn check_mark(&mut self, cluster: &Cluster, state: &ClusterState, step: Step, started: DateTime<Utc>) {
        let soaks = state.record.phase == Phase::Soaking;
        let clock = state.record.stages[Stage::Soak.index()].map(|stage| stage.started);
        let carrier = matches!(step, Step::Platform | Step::Operators);
        if !soaks || clock != Some(started) || !carrier || live(cluster, step).is_none() {
            let text = format!("soak of {step:?} from {started} in {:?}", state.record.phase);
            self.report(ViolationKind::SoakUnfounded, Some(cluster), text);
        }
    }

    fn check_delete(&mut self, cluster: &Cluster, state: &ClusterState, step: Step, why: DeleteReason) {
        let Some(work) = live(cluster, step) else {
            let superseded = why == DeleteReason::Superseded
                && step != Step::Platform
                && gives_way(cluster)
                && matches!(
                    cluster.works[step.index()],
                    StepWork::Rival { terminating: false }
                );
            if !superseded {
                let text = format!("{why:?} of {step:?}: {:?}", cluster.works[step.index()]);
                self.report(ViolationKind::ForeignTouched, Some(cluster), text);
            }
            return;
        };
        if cleans_up(why) && may_return(cluster, step) {
            let text = format!("{why:?} of {step:?}, which a creation without a response may bring back");
            self.report(ViolationKind::DeletedUnfinished, Some(cluster), text);
        }
        let written = cluster
            .written
            .as_deref()
            .filter(|written| tells_of(written, &state.record));
        if step == Step::Platform {
            let done = written.is_some_and(is_upgraded) && is_upgraded(&state.record);
            let is_left_out = |record: &Record| record.phase.is_left_out();
            let is_withdrawn = work.withdrawal == Withdrawal::Confirmed
                && written.is_some_and(is_left_out)
                && is_left_out(&state.record);
            let is_grounded = match why {
                DeleteReason::Complete => done,
                DeleteReason::Aborted => is_withdrawn,
                _ => false,
            };
            if !is_grounded {
                let text = format!("{why:?}, written: {:?}", cluster.written);
                self.report(ViolationKind::PlatformDeleted, Some(cluster), text);
            }
            return;
        }
        let grounded = match why {
            DeleteReason::Complete => {
                step == Step::Operators && written.is_some_and(is_upgraded) && is_upgraded(&state.record)
            }
            DeleteReason::AllComplete => self.all_complete(step),
            DeleteReason::OthersStalled => {
                let is_complete = |record: &Record| record.phase == Phase::Complete;
                written.is_some_and(is_complete) && is_complete(&state.record) && self.is_at_rest()
            }
            DeleteReason::Leftover => !self.serves(cluster, state, step, work),
            DeleteReason::LeftSelection => {
                step == Step::PreAction
                    && !may_have_gone_on(cluster)
                    && cluster.selection != Selection::In
                    && !state.record.phase.is_started()
            }
            DeleteReason::Aborted => {
                // Whoever leads next must not create it again in this attempt.
                let tells = |record: &Record| match record.phase {
                    Phase::PreAction => record.reason == Reason::Aborting,
                    phase => phase == Phase::Aborted,
                };
                let is_told = tells(&state.record) && written.is_some_and(tells);
                step == Step::PreAction && cluster.is_aborted() && is_told
            }
            DeleteReason::Superseded | DeleteReason::UpgradeDeleted => false,
        };
        if !grounded {
            let text = format!("{why:?} of {step:?} in {:?}", state.record.phase);
            self.report(ViolationKind::DeletedUnfinished, Some(cluster), text);
        }
    }

    /// True when every listed cluster is complete and its written record says so
    /// (`docs/design/rules.md#action-clean-up`).
    fn all_complete(&self, step: Step) -> bool {
        self.plan.clusters.iter().all(|state| {
            state.record.phase.is_done()
                || (state.record.phase == Phase::PostAction && step == Step::PreAction)
        })
    }

    /// True when the upgrade is Stalled and no cluster is in flight (`docs/design/rules.md#action-clean-up`).
    fn is_at_rest(&self) -> bool {
        let mut states = self.plan.clusters.iter();
        self.policy.hold.is_none()
            && self.plan.outlook.stalled.is_some()
            && !states.any(|state| state.record.phase.holds_slot())
    }

    /// True when the work belongs to the attempt and its step still needs it.
    fn serves(&self, cluster: &Cluster, state: &ClusterState, step: Step, work: &Work) -> bool {
        if self.policy.steps[step.index()].is_none() {
            return has_succeeded(&state.record, step.into());
        }
        let announced = match cluster.written.as_deref() {
            Some(written) => written.attempt == state.record.attempt,
            None => true,
        };
        let running = work.attempt == state.record.attempt && work.status != StepStatus::Succeeded;
        !announced || running || has_succeeded(&state.record, step.into())
    }
}
