//! Which clusters a retry is for, and which the spec leaves out.

use super::proven::{has_succeeded, speaks_for};
use crate::model::{
    Cluster, PendingRetry, Phase, Reason, Record, Stage, Step, StepStatus, StepWork, Withdrawal, Work,
};

/// True when a retry is for a cluster that failed: by its name, by why it failed, and as no later retry has reached it.
pub(super) fn is_asked_for(retry: &PendingRetry, cluster: &Cluster, before: &Record) -> bool {
    let Some(scope) = &retry.scope else { return true };
    let is_listed = scope.clusters.is_empty() || scope.clusters.contains(&cluster.name);
    let mut reasons = scope.reasons.iter();
    let has_reason = scope.reasons.is_empty() || reasons.any(|reason| **reason == *before.reason_text());
    let token = before.attempt.retry.trim_end_matches('~');
    is_listed && has_reason && !scope.later.iter().any(|later| **later == *token)
}

/// True when a cluster counts neither as a failure nor as a canary, because the spec leaves it out.
pub(super) fn counts_not(cluster: &Cluster) -> bool {
    cluster.left_out.is_some()
}

/// True when a step after the pre-action may have begun, and nobody knows that yet.
pub(super) fn may_have_gone_on(cluster: &Cluster) -> bool {
    let mut later = [Step::Platform, Step::Operators].into_iter();
    later.any(|step| cluster.may_come_back(step) || cluster.works[step.index()].is_unclear())
}

/// True when a record may say that its cluster is left out after this one.
pub(super) fn may_be_left_out(cluster: &Cluster, before: &Record, record: &Record) -> bool {
    // In another attempt, to which an edit leads, it would have to start again.
    let is_over = !before.phase.holds_slot() && before.phase != Phase::Complete;
    let is_queued = before.attempt != record.attempt;
    counts_not(cluster) && (is_over || is_queued || is_withdrawn(cluster, before))
}

/// True when nothing is left of what a cluster in flight was asked for, and that was to be withdrawn.
fn is_withdrawn(cluster: &Cluster, before: &Record) -> bool {
    let is_over = match before.phase {
        Phase::PreAction => match &cluster.works[Step::PreAction.index()] {
            // One that has succeeded does not run any more, and its removal may never end.
            StepWork::Ours(work) => {
                let has_ended =
                    work.status == StepStatus::Succeeded && speaks_for(work, before, Step::PreAction);
                work.vanished || has_ended || has_succeeded(before, Stage::PreAction)
            }
            StepWork::Unconfirmed | StepWork::Unreadable { .. } => false,
            _ => true,
        },
        Phase::Initialized => match &cluster.works[Step::Platform.index()] {
            StepWork::Ours(work) => is_confirmed(work),
            StepWork::Unconfirmed | StepWork::Unreadable { .. } => false,
            _ => true,
        },
        _ => false,
    };
    let is_over = is_over || is_confirmed_before_row(cluster, before);
    cluster.is_aborted() && !cluster.awaits_start() && is_over
}

/// True when a cluster has confirmed that it is not asked for the update of a work.
fn is_confirmed(work: &Work) -> bool {
    work.withdrawal == Withdrawal::Confirmed && work.status == StepStatus::OtherVersion
}

/// True when the platform work shows that a cluster in flight has confirmed that it is not asked for the update, whatever its row says:
/// the row may be from before that work, but it is of the same attempt and tells no end of the update.
fn is_confirmed_before_row(cluster: &Cluster, before: &Record) -> bool {
    let own = |step: Step| {
        let work = cluster.works[step.index()].ours();
        work.filter(|work| speaks_for(work, before, step))
    };
    let is_behind = matches!(before.phase, Phase::Pending | Phase::Blocked) || before.phase.holds_slot();
    let update = before.stage(Stage::Platform);
    let has_ended = update.is_some_and(|stage| stage.finished.is_some());
    let is_followed = own(Step::Operators).is_some() || own(Step::PostAction).is_some();
    is_behind && own(Step::Platform).is_some_and(is_confirmed) && !has_ended && !is_followed
}

/// True when a new attempt may follow because the cluster is not left out any more.
pub(super) fn is_taken_up(cluster: &Cluster, before: &Record, record: &Record) -> bool {
    let platform = &cluster.works[Step::Platform.index()];
    let has_ended = match before.phase {
        Phase::PreAction => before.reason == Reason::Aborting,
        Phase::Initialized => {
            matches!(platform, StepWork::Ours(work) if is_confirmed(work)) && !cluster.awaits_start()
        }
        _ => false,
    };
    let has_ended = has_ended || (is_confirmed_before_row(cluster, before) && !cluster.awaits_start());
    let is_taken_up =
        (has_ended && !cluster.is_aborted()) || (before.phase.is_left_out() && !counts_not(cluster));
    is_taken_up && before.attempt.revision == record.attempt.revision
}
