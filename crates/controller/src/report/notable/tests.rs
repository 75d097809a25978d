use std::sync::Arc;

use super::*;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use rollout::testing::record;

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

fn reasons(previous: &ManagedClustersUpgradeStatus, next: &ManagedClustersUpgradeStatus) -> Vec<EventReason> {
    of_status(previous, next, 0)
        .into_iter()
        .map(|(reason, _)| reason)
        .collect()
}

#[test]
fn a_flip_is_announced_once() {
    let selected = status(&[("Selected", "True", "ManagedClustersSelected")]);
    assert_eq!(reasons(&status(&[]), &selected), [EventReason::Selected]);
    assert_eq!(reasons(&selected, &selected), []);
}

#[test]
fn a_stall_is_announced_by_its_reason_and_again_when_the_reason_changes() {
    let canary = status(&[("Stalled", "True", "CanaryFailed")]);
    let failed = status(&[("Stalled", "True", "ClustersFailed")]);
    assert_eq!(
        reasons(&status(&[("Stalled", "False", "NotStalled")]), &canary),
        [EventReason::CanaryFailed]
    );
    assert_eq!(reasons(&canary, &failed), [EventReason::Stalled]);
    assert_eq!(reasons(&failed, &failed), []);
}

#[test]
fn a_pause_that_ends_in_an_invalid_spec_is_no_resumption() {
    let of = |state| ManagedClustersUpgradeStatus {
        state: Some(state),
        ..status(&[])
    };
    let paused = of(UpgradeState::Paused);
    assert_eq!(
        reasons(&paused, &of(UpgradeState::Upgrading)),
        [EventReason::Resumed]
    );
    assert_eq!(reasons(&paused, &of(UpgradeState::Invalid)), []);
    assert_eq!(reasons(&paused, &of(UpgradeState::Deleting)), []);
}

#[test]
fn an_approval_is_told_once_with_who_gave_it() {
    let at = |state: &str, message: &str| ManagedClustersUpgradeStatus {
        approvals: vec![CheckpointStatus {
            name: "half".to_owned(),
            state: state.to_owned(),
            plan_hash: "1a2b".to_owned(),
            waiting_since: None,
            changed: String::new(),
            approver: "anna".to_owned(),
            approved_at: None,
            expires: None,
            message: message.to_owned(),
            last_approval: None,
        }],
        ..status(&[])
    };
    let (waiting, approved) = (at("Waiting", ""), at("Approved", "CHG0042"));
    let told = |text: &str| Some((EventReason::Approved, text.to_owned()));
    for (before, after, event) in [
        (&waiting, &waiting, None),
        (
            &waiting,
            &approved,
            told("Checkpoint half is approved by anna: CHG0042"),
        ),
        (
            &status(&[]),
            &at("Approved", ""),
            told("Checkpoint half is approved by anna"),
        ),
        (&approved, &approved, None),
        (&approved, &waiting, None),
    ] {
        assert_eq!(of_status(before, after, 0), Vec::from_iter(event));
    }
}

#[test]
fn a_retry_tells_how_many_clusters_it_queued_again_even_if_none() {
    let before = ManagedClustersUpgradeStatus {
        observed_generation: Some(1),
        ..status(&[])
    };
    let after = ManagedClustersUpgradeStatus {
        observed_retry: Some("t".to_owned()),
        ..before.clone()
    };
    for (retried, text) in [
        (
            0,
            "No selected cluster has failed, so the retry changes nothing (annotation cluster.open-cluster-management.io/retry-failed=t)",
        ),
        (
            1,
            "1 failed cluster will be retried (annotation cluster.open-cluster-management.io/retry-failed=t)",
        ),
        (
            2,
            "2 failed clusters will be retried (annotation cluster.open-cluster-management.io/retry-failed=t)",
        ),
    ] {
        assert_eq!(
            of_status(&before, &after, retried),
            [(EventReason::Retrying, text.to_owned())]
        );
        assert_eq!(api::message::violation(text), None, "{text}");
    }
    let by_spec = ManagedClustersUpgradeStatus {
        retries: vec!["a".to_owned()],
        ..after.clone()
    };
    let text = "2 failed clusters will be retried (spec.upgradeStrategy.retry with id a)";
    assert_eq!(
        of_status(&after, &by_spec, 2),
        [(EventReason::Retrying, text.to_owned())]
    );
}

fn change(before: Option<Record>, record: impl Into<Record>) -> PhaseChange {
    PhaseChange {
        cluster: Arc::from("c1"),
        before: before.map(Arc::new),
        record: Arc::new(record.into()),
    }
}

#[test]
fn a_block_is_announced_unless_it_resolves_by_itself() {
    let blocked = change(None, record(Phase::Blocked).reason(rollout::Reason::Conflict));
    assert_eq!(of_change(&blocked, true), None);
    let (reason, text) = of_change(&blocked, false).unwrap();
    assert_eq!(reason, EventReason::ClusterBlocked);
    assert!(text.starts_with("Cluster c1: Conflict: "), "{text}");
    assert!(of_change(&change(None, record(Phase::Failed)), true).is_some());
}

fn reason_of_change(before: Option<Record>, record: impl Into<Record>) -> Option<EventReason> {
    of_change(&change(before, record), false).map(|(reason, _)| reason)
}

#[test]
fn a_start_is_announced_once_per_attempt() {
    let started = Some(EventReason::ClusterStarted);
    let of = |phase| Some(Record::from(record(phase)));
    assert_eq!(reason_of_change(None, record(Phase::Initialized)), started);
    assert_eq!(
        reason_of_change(of(Phase::Pending), record(Phase::PreAction)),
        started
    );
    assert_eq!(
        reason_of_change(of(Phase::PreAction), record(Phase::Initialized)),
        None
    );
    assert_eq!(
        reason_of_change(of(Phase::Initialized), record(Phase::Partial)),
        None
    );
    assert_eq!(
        reason_of_change(of(Phase::PreActionDegraded), record(Phase::Initialized)),
        None
    );
    let edited = record(Phase::Initialized).revision("edited");
    assert_eq!(reason_of_change(of(Phase::Partial), edited), started);
    let retried = record(Phase::Initialized).retry("again");
    assert_eq!(reason_of_change(of(Phase::Failed), retried), started);
}

#[test]
fn a_completion_is_announced_and_a_selection_is_not() {
    let partial = Some(Record::from(record(Phase::Partial)));
    assert_eq!(
        reason_of_change(partial, record(Phase::Complete)),
        Some(EventReason::ClusterCompleted)
    );
    assert_eq!(reason_of_change(None, record(Phase::Pending)), None);
}
