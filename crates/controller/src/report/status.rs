//! The status of an upgrade from its plan. Pure.

use api::mcu::{
    ActionSummary, ClusterNote, ClustersSummary, ManagedClustersUpgradeStatus, Truncated, UpgradeState,
};
use api::text::cut;
use api::time::from_chrono;
use resolve::origin::Completed;
use rollout::{ActionCounts, ClusterState, Counts, Phase, Plan, Reason, StallReason};

use super::conditions;
use super::input::{PreviousStatus, Situation, StatusInput};
use super::text::plain;

/// Largest number of clusters in a list.
const MAX_LISTED: usize = 10;
/// Longest message in a list, in bytes.
const MAX_NOTE_BYTES: usize = 256;

/// Drafts the status.
#[must_use]
pub fn draft(
    input: &StatusInput<'_>,
    situation: &Situation<'_>,
    previous: PreviousStatus<'_>,
) -> ManagedClustersUpgradeStatus {
    match *situation {
        Situation::Planned(plan) => of_plan(input, plan, previous),
        Situation::InvalidSpec {
            violations,
            plan: Some(plan),
        } => ManagedClustersUpgradeStatus {
            state: Some(UpgradeState::Invalid),
            conditions: conditions::of_followed(input, plan, violations, previous),
            ..of_plan(input, plan, previous)
        },
        // The counters stay unchanged.
        Situation::InvalidSpec {
            violations,
            plan: None,
        } => ManagedClustersUpgradeStatus {
            observed_generation: Some(input.generation),
            state: Some(UpgradeState::Invalid),
            conditions: conditions::of_violations(input, violations, previous),
            ..previous.latest.clone()
        },
        Situation::CompletedBefore(completed) => of_completed_before(input, completed, previous),
        // The counters stay unchanged.
        Situation::Deleting(refused) => ManagedClustersUpgradeStatus {
            observed_generation: Some(input.generation),
            state: Some(UpgradeState::Deleting),
            conditions: conditions::of_deletion(input, refused, previous),
            ..previous.latest.clone()
        },
    }
}

/// Status of a valid upgrade.
fn of_plan(
    input: &StatusInput<'_>,
    plan: &Plan,
    previous: PreviousStatus<'_>,
) -> ManagedClustersUpgradeStatus {
    let summary = &plan.summary;
    let (failed, waiting) = notes(&plan.clusters);
    let truncated = Truncated {
        failed: beyond(failed.len()),
        waiting: beyond(waiting.len()),
    };
    let observed = if plan.retry_done {
        input.retry
    } else {
        input.observed_retry
    };
    ManagedClustersUpgradeStatus {
        observed_generation: Some(input.generation),
        state: Some(state(input, plan)),
        progress: Some(format!(
            "{}/{}",
            summary.clusters.complete, summary.clusters.total
        )),
        in_flight: Some(count(summary.in_flight)),
        effective_max_concurrency: Some(count(summary.max_concurrency)),
        pre_upgrade_action_summary: Some(action_summary(&summary.pre_action)),
        canary_clusters_summery: Some(clusters_summary(&summary.canaries)),
        clusters_summery: Some(clusters_summary(&summary.clusters)),
        post_upgrade_action_summary: Some(action_summary(&summary.post_action)),
        failed_clusters: failed.into_iter().take(MAX_LISTED).map(note).collect(),
        waiting_clusters: waiting.into_iter().take(MAX_LISTED).map(note).collect(),
        truncated: (truncated != Truncated::default()).then_some(truncated),
        observed_retry: observed.map(str::to_owned),
        conditions: conditions::of_plan(input, plan, previous),
    }
}

/// Status of an upgrade that was complete before its object was restored, from its annotation.
fn of_completed_before(
    input: &StatusInput<'_>,
    completed: &Completed,
    previous: PreviousStatus<'_>,
) -> ManagedClustersUpgradeStatus {
    let clusters = i64::from(completed.clusters);
    ManagedClustersUpgradeStatus {
        observed_generation: Some(input.generation),
        state: Some(UpgradeState::Complete),
        progress: Some(format!("{clusters}/{clusters}")),
        in_flight: Some(0),
        clusters_summery: Some(ClustersSummary {
            total: clusters,
            initialized: clusters,
            complete: clusters,
            ..ClustersSummary::default()
        }),
        observed_retry: input.observed_retry.map(str::to_owned),
        conditions: conditions::of_completed_before(input, completed, previous),
        ..ManagedClustersUpgradeStatus::default()
    }
}

fn state(input: &StatusInput<'_>, plan: &Plan) -> UpgradeState {
    let summary = &plan.summary;
    let canaries_running = summary.canaries.total > summary.canaries.complete;
    if plan.outlook.complete && input.refused.is_none() {
        UpgradeState::Complete
    } else if plan.outlook.stalled == Some(StallReason::Restored) {
        UpgradeState::Stalled
    } else if input.paused {
        UpgradeState::Paused
    } else if plan.outlook.stalled.is_some() || (plan.outlook.complete && input.refused.is_some()) {
        UpgradeState::Stalled
    } else if canaries_running {
        UpgradeState::Canary
    } else if summary.in_flight > 0 || summary.clusters.initialized > 0 {
        UpgradeState::Upgrading
    } else {
        UpgradeState::Pending
    }
}

/// Failed and degraded clusters by name; and waiting clusters, first those that need a human, then by name.
fn notes(clusters: &[ClusterState]) -> (Vec<&ClusterState>, Vec<&ClusterState>) {
    let failed = clusters
        .iter()
        .filter(|state| matches!(state.record.phase, Phase::Failed | Phase::PreActionDegraded))
        .collect();
    let mut ranked: [Vec<&ClusterState>; 4] = Default::default();
    for state in clusters {
        if let Some(rank) = rank(state) {
            ranked[rank].push(state);
        }
    }
    (failed, ranked.into_iter().flatten().collect())
}

fn rank(state: &ClusterState) -> Option<usize> {
    let gates = [
        Reason::None,
        Reason::WaitingForSlot,
        Reason::WaitingForCanaries,
        Reason::CanaryFailed,
        Reason::NoCanarySelected,
        Reason::InvalidSpec,
        Reason::Paused,
        Reason::Restored,
        Reason::MaxFailuresExceeded,
    ];
    let blockers = [Reason::Conflict, Reason::WorkRefused];
    let quiet = matches!(
        state.record.reason,
        Reason::Running | Reason::None | Reason::Soaking
    );
    match state.record.phase {
        Phase::Blocked => Some(0),
        Phase::PostAction if blockers.contains(&state.record.reason) => Some(0),
        Phase::PreAction
        | Phase::Initialized
        | Phase::Partial
        | Phase::Operators
        | Phase::PostAction
        | Phase::Soaking => (!quiet).then_some(1),
        Phase::Pending if gates.contains(&state.record.reason) => {
            (state.record.reason != Reason::None).then_some(3)
        }
        Phase::Pending => Some(2),
        Phase::PreActionDegraded | Phase::Complete | Phase::Failed => None,
    }
}

/// The reason of a cluster's cause, which the lists always contain.
fn cause_reason(record: &rollout::Record) -> &str {
    match record.reason_text() {
        "" => Reason::None.as_str(),
        text => text,
    }
}

fn note(state: &ClusterState) -> ClusterNote {
    let record = &state.record;
    ClusterNote {
        name: state.name.to_string(),
        phase: record.phase,
        reason: plain(cause_reason(record)),
        message: plain(cut(&record.message, MAX_NOTE_BYTES)),
        since: Some(from_chrono(record.since)),
    }
}

fn clusters_summary(counts: &Counts) -> ClustersSummary {
    ClustersSummary {
        total: count(counts.total),
        initialized: count(counts.initialized),
        partial_upgrade: count(counts.partial),
        complete: count(counts.complete),
        failed: count(counts.failed),
        pending: count(counts.pending),
    }
}

fn action_summary(counts: &ActionCounts) -> ActionSummary {
    ActionSummary {
        total: count(counts.total),
        applied: count(counts.applied),
        available: count(counts.available),
        progressing: count(counts.progressing),
        degraded: count(counts.degraded),
    }
}

fn beyond(number: usize) -> i64 {
    count(number.saturating_sub(MAX_LISTED))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
