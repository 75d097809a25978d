//! Rules about clusters that the spec leaves out (`docs/design/rules.md#skipped-clusters`,
//! `docs/design/rules.md#aborted-clusters`).

use super::asked::{counts_not, may_be_left_out};
use super::operations::{follows_pre_action, is_start, repoints};
use super::proven::{own, speaks_for};
use super::records::{gives_up_pre_action, tells_of};
use super::{Case, Checker, ViolationKind};
use crate::model::{
    Cluster, ClusterState, Operation, Phase, Record, Selection, Stage, Step, StepStatus, StepWork, Withdrawal,
};

/// True when a cluster is left out by its record, and its pre-action has begun since in the same attempt.
fn has_begun_since(cluster: &Cluster, before: &Record) -> bool {
    let pre_action = cluster.works[Step::PreAction.index()].ours();
    let mut later = cluster.works[Step::Platform.index()..].iter();
    let is_last = !later.any(|work| matches!(work, StepWork::Ours(_)));
    let is_from_before = before.phase.is_left_out() && !gives_up_pre_action(before) && !before.unreadable;
    is_from_before && is_last && pre_action.is_some_and(|work| work.attempt == before.attempt)
}

/// True when the operation asks a cluster that has its pre-action behind it for the update, or for operators alone, or one in flight for
/// another update than the one it was asked for.
fn asks(operation: &Operation, cluster: &Cluster, state: &ClusterState) -> bool {
    let before = cluster.record.as_deref();
    let is_acting = before.is_some_and(|before| before.phase == Phase::PreAction);
    // The row may be from before the update.
    let is_updated = before.zip(own(cluster, Step::Platform));
    let is_updated = is_updated.is_some_and(|(before, work)| speaks_for(work, before, Step::Platform));
    let creates_platform = matches!(
        operation,
        Operation::Create {
            step: Step::Platform,
            ..
        }
    );
    let is_first = creates_platform || (!is_updated && follows_pre_action(cluster, operation));
    (is_acting && is_first) || repoints(operation, cluster, state) || asks_anew(operation, cluster)
}

/// True when a cluster in flight that was asked for nothing by this spec is asked for its update by a new work, because the one of an
/// earlier spec is gone: no start of the update is on record.
pub(super) fn asks_anew(operation: &Operation, cluster: &Cluster) -> bool {
    let is_platform = matches!(
        operation,
        Operation::Create {
            step: Step::Platform,
            ..
        }
    );
    let before = cluster.record.as_deref();
    let waits = |before: &Record| matches!(before.phase, Phase::Initialized | Phase::Partial);
    let was_asked = |before: &Record| before.stages[Stage::Platform.index()].is_some();
    is_platform && before.is_some_and(|before| waits(before) && !was_asked(before))
}

/// True when a record forgets the start of an update that the cluster may have been asked for: the update of an earlier spec has ended, and
/// whether its work was changed since is not known yet.
fn forgets_doubtful_request(cluster: &Cluster, record: &Record) -> bool {
    let platform = Stage::Platform.index();
    let before = cluster.record.as_deref().filter(|before| {
        let is_in_flight = matches!(before.phase, Phase::Initialized | Phase::Partial);
        is_in_flight && before.attempt == record.attempt
    });
    let started = before.and_then(|before| before.stages[platform]);
    let has_ended_earlier = started
        .zip(own(cluster, Step::Platform))
        .is_some_and(|(stage, work)| {
            let is_earlier =
                work.attempt.revision != record.attempt.revision && work.started != stage.started;
            is_earlier && !work.vanished && work.status == StepStatus::Succeeded
        });
    let is_forgotten = record.phase == Phase::Pending && record.stages[platform].is_none();
    has_ended_earlier && is_forgotten && cluster.awaits_start()
}

impl Checker<'_> {
    /// A cluster that is left out does not start, and one that says so is.
    pub(super) fn check_left_out(&mut self, case: &Case<'_>) {
        let Some(state) = case.state else { return };
        let cluster = case.cluster;
        let before = cluster.record.as_deref();
        let phase = state.record.phase;
        let is_new = phase.is_left_out() && before.is_none_or(|before| before.phase != phase);
        let is_founded = before.map_or(counts_not(cluster), |before| {
            may_be_left_out(cluster, before, &state.record)
        });
        let is_named = cluster.is_aborted() == (phase == Phase::Aborted);
        let starts = case.operations.iter().any(|operation| is_start(operation, state));
        // Nothing of it is under way, nor may be.
        let is_untouched = cluster.works.iter().all(|work| *work == StepWork::Absent)
            && !(cluster.busy.is_some() || cluster.is_in_doubt() || cluster.slot_in_doubt);
        let is_out = counts_not(cluster) && cluster.selection == Selection::In;
        if is_new && !(is_founded && is_named) {
            let text = format!("{before:?} became {phase}");
            self.report(ViolationKind::LeftOut, Some(cluster), text);
        }
        let had_failed = before.is_some_and(|before| before.phase.has_failed());
        if is_new && had_failed && cluster.works.contains(&StepWork::Unconfirmed) {
            self.report(
                ViolationKind::LeftOut,
                Some(cluster),
                "one of its works is to be read",
            );
        }
        let is_at_work = before
            .is_some_and(|before| state.record.attempt == before.attempt && has_begun_since(cluster, before));
        if is_new && self.may_have_gone_on(case) {
            self.report(
                ViolationKind::LeftOut,
                Some(cluster),
                "the step after its pre-action may have begun",
            );
        }
        if phase.is_left_out() && is_at_work {
            self.report(
                ViolationKind::LeftOut,
                Some(cluster),
                "its pre-action is under way",
            );
        }
        let mut operations = case.operations.iter();
        if cluster.is_aborted() && operations.any(|operation| asks(operation, cluster, state)) {
            self.report(
                ViolationKind::LeftOut,
                Some(cluster),
                "the cluster is asked for the update",
            );
        }
        if cluster.is_aborted() && forgets_doubtful_request(cluster, &state.record) {
            self.report(
                ViolationKind::LeftOut,
                Some(cluster),
                "it may have been asked for the update of this spec",
            );
        }
        if starts && is_out && is_untouched && before.is_none_or(|before| before.phase.is_queued()) {
            self.report(ViolationKind::LeftOut, Some(cluster), "the cluster starts");
        }
    }

    /// True when a cluster is in its pre-action by its record, and the work of the step after that is to be read or cannot be read.
    fn may_have_gone_on(&self, case: &Case<'_>) -> bool {
        let (Some(before), Some(state)) = (case.cluster.record.as_deref(), case.state) else {
            return false;
        };
        let next = if self.policy.steps[Step::Platform.index()].is_some() {
            Step::Platform
        } else {
            Step::Operators
        };
        let is_unclear = case.cluster.works[next.index()].is_unclear();
        before.phase == Phase::PreAction && before.attempt == state.record.attempt && is_unclear
    }

    /// Only a request is withdrawn that an aborted cluster has not accepted, or one that failed without that, as its row says, and is
    /// skipped.
    pub(super) fn check_withdrawal(&mut self, case: &Case<'_>) {
        let cluster = case.cluster;
        let is_over = |record: &Record| matches!(record.phase, Phase::Failed | Phase::Skipped);
        let has_failed = case.state.is_some_and(|state| {
            let written = cluster.written.as_deref();
            let is_told = written.is_some_and(|written| is_over(written) && tells_of(written, &state.record));
            is_over(&state.record) && is_told
        });
        let is_given_up = cluster.is_aborted() || (cluster.left_out.is_some() && has_failed);
        let is_open = match &cluster.works[Step::Platform.index()] {
            StepWork::Ours(work) => {
                let is_accepted = matches!(work.status, StepStatus::Running | StepStatus::Succeeded);
                !(work.terminating || work.vanished || is_accepted) && work.withdrawal == Withdrawal::None
            }
            _ => false,
        };
        if !(is_given_up && is_open) {
            let text = format!("withdrawn: {:?}", cluster.works[Step::Platform.index()]);
            self.report(ViolationKind::UpdateUnfounded, Some(cluster), text);
        }
    }
}
