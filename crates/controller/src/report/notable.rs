//! Decides which Events a new status and new records cause. Pure.

use api::conditions as types;
use api::mcu::{CheckpointStatus, ManagedClustersUpgradeStatus, UpgradeState};
use api::message::count;
use api::names::ANNOTATION_RETRY_FAILED;
use rollout::{Phase, Record};

use crate::events::EventReason;
use crate::report::rows::PhaseChange;

/// The retry that the next status says to be carried out, and the previous one does not.
fn new_retry(previous: &ManagedClustersUpgradeStatus, next: &ManagedClustersUpgradeStatus) -> Option<String> {
    let token = next.observed_retry.as_deref();
    let by_annotation = token.filter(|token| previous.observed_retry.as_deref() != Some(*token));
    let mut retries = next.retries.iter();
    let by_spec = retries.find(|id| !previous.retries.contains(id));
    by_annotation
        .map(|token| format!("annotation {ANNOTATION_RETRY_FAILED}={token}"))
        .or_else(|| by_spec.map(|id| format!("spec.upgradeStrategy.retry with id {id}")))
}

/// Events about the upgrade itself, for everything that changed between two statuses. `retried` is the number
/// of failed clusters that return to Pending because of a retry. Those that have left the selection do not.
#[must_use]
pub fn of_status(
    previous: &ManagedClustersUpgradeStatus,
    next: &ManagedClustersUpgradeStatus,
    retried: usize,
) -> Vec<(EventReason, String)> {
    let mut found = Vec::new();
    let mut flips = |type_: &str, reason: EventReason| {
        if !is_true(previous, type_) && is_true(next, type_) {
            found.push((reason, message(next, type_)));
        }
    };
    flips(types::SELECTED, EventReason::Selected);
    flips(types::APPLIED, EventReason::Started);
    flips(types::COMPLETE, EventReason::Completed);
    let paused = |status: &ManagedClustersUpgradeStatus| status.state == Some(UpgradeState::Paused);
    if !paused(previous) && paused(next) {
        found.push((EventReason::Paused, message(next, types::READY)));
    } else if paused(previous) && !paused(next) && resumes(next.state) {
        found.push((EventReason::Resumed, message(next, types::RECONCILING)));
    }
    if canaries_complete(next) && !canaries_complete(previous) {
        let number = next.canary_clusters_summery.map_or(0, |canaries| canaries.total);
        found.push((
            EventReason::CanariesComplete,
            if number == 1 {
                "The canary is complete".to_owned()
            } else {
                format!("All {number} canaries are complete")
            },
        ));
    }
    if previous.observed_generation.is_some()
        && let Some(by) = new_retry(previous, next)
    {
        let what = match retried {
            0 => "No selected cluster has failed, so the retry changes nothing".to_owned(),
            number => format!("{} will be retried", count(number, "failed cluster")),
        };
        found.push((EventReason::Retrying, format!("{what} ({by})")));
    }
    found.extend(approvals(previous, next));
    found.extend(stalled(previous, next));
    found
}

/// Checkpoints that somebody has approved. [`Asked`](super::asked::Asked) tells of those that wait.
fn approvals(
    previous: &ManagedClustersUpgradeStatus,
    next: &ManagedClustersUpgradeStatus,
) -> Vec<(EventReason, String)> {
    let is_new = |checkpoint: &&CheckpointStatus| {
        let mut before = previous.approvals.iter();
        let before = before.find(|before| before.name == checkpoint.name);
        checkpoint.state == CheckpointStatus::APPROVED
            && before.is_none_or(|before| before.state != checkpoint.state)
    };
    let told = |checkpoint: &CheckpointStatus| {
        let CheckpointStatus {
            name,
            approver,
            message: why,
            ..
        } = checkpoint;
        let why = if why.is_empty() {
            String::new()
        } else {
            format!(": {why}")
        };
        (
            EventReason::Approved,
            format!("Checkpoint {name} is approved by {approver}{why}"),
        )
    };
    next.approvals.iter().filter(is_new).map(told).collect()
}

/// True when an upgrade continues after a pause: false if it is complete, invalid or being deleted.
fn resumes(state: Option<UpgradeState>) -> bool {
    !matches!(
        state,
        Some(UpgradeState::Complete | UpgradeState::Invalid | UpgradeState::Deleting)
    )
}

fn stalled(
    previous: &ManagedClustersUpgradeStatus,
    next: &ManagedClustersUpgradeStatus,
) -> Option<(EventReason, String)> {
    let why = |status: &ManagedClustersUpgradeStatus| {
        is_true(status, types::STALLED).then(|| reason_of(status, types::STALLED))
    };
    let now = why(next)?;
    if why(previous).as_ref() == Some(&now) {
        return None;
    }
    let reason = match now.as_str() {
        types::reason::INVALID_SPEC => EventReason::InvalidSpec,
        types::reason::CANARY_FAILED => EventReason::CanaryFailed,
        types::reason::RECORD_REFUSED => EventReason::RecordRefused,
        types::reason::MAX_FAILURES_EXCEEDED => EventReason::MaxFailuresExceeded,
        _ => EventReason::Stalled,
    };
    Some((reason, message(next, types::STALLED)))
}

/// The Event about a cluster whose record has a new phase: its attempt starts, fails or is complete, or the cluster is blocked.
/// A block that `resolves` without a human causes none.
#[must_use]
pub fn of_change(change: &PhaseChange, resolves: bool) -> Option<(EventReason, String)> {
    let PhaseChange {
        cluster,
        before,
        record,
    } = change;
    let reason = match record.phase {
        Phase::Failed => EventReason::ClusterFailed,
        Phase::PreActionDegraded => EventReason::PreActionDegraded,
        Phase::Blocked if resolves => return None,
        Phase::Blocked => EventReason::ClusterBlocked,
        Phase::Complete => {
            return Some((
                EventReason::ClusterCompleted,
                format!("Cluster {cluster} is complete"),
            ));
        }
        phase if phase.holds_slot() && is_start(before.as_deref(), record) => {
            return Some((
                EventReason::ClusterStarted,
                format!("Cluster {cluster} has started"),
            ));
        }
        _ => return None,
    };
    Some((
        reason,
        format!("Cluster {cluster}: {}: {}", cause_reason(record), record.message),
    ))
}

/// True when a record that holds a slot is the first of its attempt that does. A degraded pre-action that recovers is no start.
fn is_start(before: Option<&Record>, record: &Record) -> bool {
    before.is_none_or(|before| {
        let began = before.phase.is_at_work() || before.phase == Phase::PreActionDegraded;
        !began || before.attempt != record.attempt
    })
}

/// The reason of a record. A reason that this release does not know is given as it was written.
fn cause_reason(record: &Record) -> &str {
    match record.reason_text() {
        "" => record.reason.as_str(),
        text => text,
    }
}

/// True when the others no longer wait for canaries. The counters of the API count a canary whose post-action runs as complete.
fn canaries_complete(status: &ManagedClustersUpgradeStatus) -> bool {
    let canaries = status.canaries.as_deref().and_then(|text| text.split_once('/'));
    canaries.is_some_and(|(complete, total)| complete == total && total != "0")
}

fn is_true(status: &ManagedClustersUpgradeStatus, type_: &str) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

fn message(status: &ManagedClustersUpgradeStatus, type_: &str) -> String {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .map(|found| found.message.clone())
        .unwrap_or_default()
}

fn reason_of(status: &ManagedClustersUpgradeStatus, type_: &str) -> String {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .map(|found| found.reason.clone())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
