//! Which Events a new status and new records are worth. Pure.

use api::conditions as types;
use api::mcu::{ManagedClustersUpgradeStatus, UpgradeState};
use rollout::{Phase, Record};

use crate::events::Reason;

/// Events about the upgrade itself: what flipped between two statuses.
#[must_use]
pub fn of_status(
    previous: &ManagedClustersUpgradeStatus,
    next: &ManagedClustersUpgradeStatus,
) -> Vec<(Reason, String)> {
    let mut found = Vec::new();
    let mut flips = |type_: &str, reason: Reason| {
        if !is_true(previous, type_) && is_true(next, type_) {
            found.push((reason, message(next, type_)));
        }
    };
    flips(types::SELECTED, Reason::Selected);
    flips(types::APPLIED, Reason::Started);
    flips(types::COMPLETE, Reason::Completed);
    let paused = |status: &ManagedClustersUpgradeStatus| status.state == Some(UpgradeState::Paused);
    if !paused(previous) && paused(next) {
        found.push((Reason::Paused, message(next, types::READY)));
    } else if paused(previous) && !paused(next) && next.state != Some(UpgradeState::Complete) {
        found.push((Reason::Resumed, message(next, types::RECONCILING)));
    }
    if canaries_complete(next) && !canaries_complete(previous) {
        let number = next.canary_clusters_summery.map_or(0, |canaries| canaries.total);
        found.push((
            Reason::CanariesComplete,
            format!("all {number} canaries are complete"),
        ));
    }
    if previous.observed_generation.is_some()
        && next.observed_retry.is_some()
        && next.observed_retry != previous.observed_retry
    {
        let token = next.observed_retry.as_deref().unwrap_or_default();
        found.push((
            Reason::Retrying,
            format!("failed clusters are queued again (retry-failed={token})"),
        ));
    }
    found.extend(stalled(previous, next));
    found
}

fn stalled(
    previous: &ManagedClustersUpgradeStatus,
    next: &ManagedClustersUpgradeStatus,
) -> Option<(Reason, String)> {
    let why = |status: &ManagedClustersUpgradeStatus| {
        is_true(status, types::STALLED).then(|| reason_of(status, types::STALLED))
    };
    let now = why(next)?;
    if why(previous).as_ref() == Some(&now) {
        return None;
    }
    let reason = match now.as_str() {
        types::reason::INVALID_SPEC => Reason::InvalidSpec,
        types::reason::CANARY_FAILED => Reason::CanaryFailed,
        types::reason::MAX_FAILURES_EXCEEDED => Reason::MaxFailuresExceeded,
        _ => Reason::Stalled,
    };
    Some((reason, message(next, types::STALLED)))
}

/// The Event about a cluster whose record has just taken this phase, if it is worth one: failures only.
#[must_use]
pub fn of_record(cluster: &str, record: &Record) -> Option<(Reason, String)> {
    let reason = match record.phase {
        Phase::Failed => Reason::ClusterFailed,
        Phase::PreActionDegraded => Reason::PreActionDegraded,
        Phase::Blocked => Reason::ClusterBlocked,
        _ => return None,
    };
    Some((
        reason,
        format!("{cluster}: {}: {}", record.reason, record.message),
    ))
}

fn canaries_complete(status: &ManagedClustersUpgradeStatus) -> bool {
    status
        .canary_clusters_summery
        .is_some_and(|canaries| canaries.total > 0 && canaries.complete == canaries.total)
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
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use k8s_openapi::jiff::Timestamp;

    fn status(conditions: &[(&str, &str, &str)]) -> ManagedClustersUpgradeStatus {
        let conditions = conditions
            .iter()
            .map(|(type_, status, reason)| Condition {
                type_: (*type_).to_owned(),
                status: (*status).to_owned(),
                reason: (*reason).to_owned(),
                message: String::new(),
                observed_generation: None,
                last_transition_time: Time(Timestamp::UNIX_EPOCH),
            })
            .collect();
        ManagedClustersUpgradeStatus {
            conditions,
            ..ManagedClustersUpgradeStatus::default()
        }
    }

    fn reasons(previous: &ManagedClustersUpgradeStatus, next: &ManagedClustersUpgradeStatus) -> Vec<Reason> {
        of_status(previous, next)
            .into_iter()
            .map(|(reason, _)| reason)
            .collect()
    }

    #[test]
    fn a_flip_is_announced_once() {
        let selected = status(&[("Selected", "True", "ManagedClustersSelected")]);
        assert_eq!(reasons(&status(&[]), &selected), [Reason::Selected]);
        assert_eq!(reasons(&selected, &selected), []);
    }

    #[test]
    fn a_stall_is_announced_by_its_reason_and_again_when_the_reason_changes() {
        let canary = status(&[("Stalled", "True", "CanaryFailed")]);
        let failed = status(&[("Stalled", "True", "ClustersFailed")]);
        assert_eq!(
            reasons(&status(&[("Stalled", "False", "NotStalled")]), &canary),
            [Reason::CanaryFailed]
        );
        assert_eq!(reasons(&canary, &failed), [Reason::Stalled]);
        assert_eq!(reasons(&failed, &failed), []);
    }
}
