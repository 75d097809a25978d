//! The status of an upgrade from its plan. Pure.

use std::collections::BTreeMap;

use api::conditions::COMPLETE;
use api::estimate::UpgradeEstimate;
use api::maintenance::MaintenanceSummary;
use api::mcu::{
    ActionSummary, ClusterNote, ClustersSummary, ManagedClustersUpgradeStatus, Truncated, UpgradeState,
};
use api::text::cut;
use api::time::from_chrono;
use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use resolve::origin::Completed;
use rollout::{ActionCounts, ClusterState, Counts, Phase, Plan, StallReason, Summary, Urgency};

use super::approvals;
use super::causes::{self, reason_of};
use super::conditions;
use super::estimate;
use super::input::{PreviousStatus, Situation, StatusInput};
use super::text::{self, plain};

/// Largest number of clusters in a list.
const MAX_LISTED: usize = 10;
/// Longest messages of a status that would be too large with longer ones.
const SHORTER_NOTE_BYTES: [usize; 2] = [128, 64];
/// Longest target, in bytes.
const MAX_TARGET_BYTES: usize = 256;
/// Largest status as JSON, in bytes: somewhat below 16 KiB, so that it stays below also when it is sent with later times.
const MAX_STATUS_BYTES: usize = 16 * 1024 - 128;

/// Drafts the status.
#[must_use]
pub fn draft(
    input: &StatusInput<'_>,
    situation: &Situation<'_>,
    previous: PreviousStatus<'_>,
) -> ManagedClustersUpgradeStatus {
    let mut status = match *situation {
        Situation::Planned(plan) => of_plan(input, plan, previous),
        Situation::InvalidSpec {
            violations,
            plan: Some(plan),
        } => {
            let followed = of_plan(input, plan, previous);
            ManagedClustersUpgradeStatus {
                state: Some(UpgradeState::Invalid),
                approvals: approvals::of_invalid(&followed.approvals),
                conditions: conditions::of_followed(input, plan, violations, previous),
                ..followed
            }
        }
        // The counters stay unchanged.
        Situation::InvalidSpec {
            violations,
            plan: None,
        } => ManagedClustersUpgradeStatus {
            observed_generation: Some(input.generation),
            state: Some(UpgradeState::Invalid),
            estimate: None,
            approvals: approvals::of_invalid(&previous.latest.approvals),
            conditions: conditions::of_violations(input, violations, previous),
            ..previous.latest.clone()
        },
        Situation::CompletedBefore(completed) => of_completed_before(input, completed, previous),
        // The counters stay unchanged.
        Situation::Deleting(refused) => ManagedClustersUpgradeStatus {
            observed_generation: Some(input.generation),
            state: Some(UpgradeState::Deleting),
            estimate: None,
            conditions: conditions::of_deletion(input, refused, previous),
            ..previous.latest.clone()
        },
    };
    status.completed_at = match *situation {
        Situation::CompletedBefore(completed) => Some(from_chrono(completed.time)),
        Situation::Deleting(_) => previous.latest.completed_at.clone(),
        _ => complete_since(&status).cloned(),
    };
    fit(status)
}

/// Status of a valid upgrade.
fn of_plan(
    input: &StatusInput<'_>,
    plan: &Plan,
    previous: PreviousStatus<'_>,
) -> ManagedClustersUpgradeStatus {
    let summary = &plan.summary;
    let (failed, waiting) = notes(&plan.clusters);
    let (causes, other_causes) = causes::groups(&plan.clusters, &input.warned, input.names);
    let truncated = Truncated {
        failed: beyond(failed.len()),
        waiting: beyond(waiting.len()),
        causes: count(other_causes),
    };
    let started_at = previous.latest.started_at.clone();
    let canaries = &summary.canaries;
    let retries = if plan.retry_done {
        &input.retries_after
    } else {
        &input.retries
    };
    ManagedClustersUpgradeStatus {
        observed_generation: Some(input.generation),
        state: Some(state(input, plan)),
        target: target(input),
        started_at: started_at.or_else(|| first_start(&plan.clusters)),
        completed_at: None,
        slots: Some(format!("{}/{}", summary.in_flight, summary.max_concurrency)),
        canaries: (canaries.total > 0).then(|| format!("{}/{}", summary.finished_canaries, canaries.total)),
        phases: phases(&plan.clusters),
        preflight: input.preflight,
        maintenance: maintenance(summary, input.minimum_remaining),
        approvals: approvals::of_plan(plan, previous.latest, input.now),
        estimate: estimated(input, plan, previous),
        causes,
        progress: Some(format!("{}/{}", summary.finished, summary.clusters.total)),
        in_flight: Some(count(summary.in_flight)),
        effective_max_concurrency: Some(count(summary.max_concurrency)),
        pre_upgrade_action_summary: Some(action_summary(&summary.pre_action)),
        canary_clusters_summery: Some(clusters_summary(&summary.canaries)),
        clusters_summery: Some(clusters_summary(&summary.clusters)),
        post_upgrade_action_summary: Some(action_summary(&summary.post_action)),
        failed_clusters: failed.into_iter().take(MAX_LISTED).map(note).collect(),
        waiting_clusters: waiting.into_iter().take(MAX_LISTED).map(note).collect(),
        truncated: (truncated != Truncated::default()).then_some(truncated),
        observed_retry: retries.token.clone(),
        retries: retries.retries.clone(),
        conditions: conditions::of_plan(input, plan, previous),
    }
}

fn maintenance(summary: &Summary, minimum: Option<TimeDelta>) -> Option<MaintenanceSummary> {
    let is_told = summary.waiting_for_window > 0 || minimum.is_some();
    is_told.then(|| MaintenanceSummary {
        waiting: count(summary.waiting_for_window),
        next_opening: summary.next_opening.map(from_chrono),
        minimum_remaining: minimum.map(rollout::duration),
    })
}

/// When the upgrade ends, while it has an end to be estimated.
fn estimated(input: &StatusInput<'_>, plan: &Plan, previous: PreviousStatus<'_>) -> Option<UpgradeEstimate> {
    let moves = estimate::moves_if_approved(plan) && !input.paused && input.restored.is_none();
    let shown = || {
        estimate::shown(
            previous.latest.estimate.as_ref(),
            input.estimated.clone(),
            input.now,
        )
    };
    moves.then(shown).flatten()
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
        target: target(input),
        phases: BTreeMap::from([(Phase::Complete.to_string(), clusters)]),
        progress: Some(format!("{clusters}/{clusters}")),
        in_flight: Some(0),
        clusters_summery: Some(ClustersSummary {
            total: clusters,
            initialized: clusters,
            complete: clusters,
            ..ClustersSummary::default()
        }),
        observed_retry: input.retries.token.clone(),
        retries: input.retries.retries.clone(),
        conditions: conditions::of_completed_before(input, completed, previous),
        ..ManagedClustersUpgradeStatus::default()
    }
}

fn target(input: &StatusInput<'_>) -> Option<String> {
    let target = plain(cut(input.target, MAX_TARGET_BYTES));
    (!target.is_empty()).then_some(target)
}

fn state(input: &StatusInput<'_>, plan: &Plan) -> UpgradeState {
    let summary = &plan.summary;
    let canaries_running = summary.canaries.total > summary.finished_canaries + summary.left_out_canaries;
    if plan.outlook.complete && input.refused.is_none() {
        UpgradeState::Complete
    } else if plan.outlook.stalled == Some(StallReason::Restored) {
        UpgradeState::Stalled
    } else if input.paused {
        UpgradeState::Paused
    } else if plan.outlook.stalled.is_some() || (plan.outlook.complete && input.refused.is_some()) {
        UpgradeState::Stalled
    } else if summary.waiting_for_approval > 0 && !plan.outlook.moving {
        UpgradeState::WaitingForApproval
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
    let mut failed = Vec::new();
    let mut waiting: [Vec<&ClusterState>; 4] = Default::default();
    for state in clusters {
        match Urgency::of(state.record.phase, state.record.reason) {
            Some(Urgency::Failed) => failed.push(state),
            Some(urgency) => waiting[urgency.place()].push(state),
            None => {}
        }
    }
    (failed, waiting.into_iter().flatten().collect())
}

/// How many clusters are in each phase.
fn phases(clusters: &[ClusterState]) -> BTreeMap<String, i64> {
    let mut counts = BTreeMap::new();
    for state in clusters {
        *counts.entry(state.record.phase).or_insert(0) += 1;
    }
    let named = counts
        .into_iter()
        .map(|(phase, number)| (phase.to_string(), number));
    named.collect()
}

/// When the first of the clusters started a step.
fn first_start(clusters: &[ClusterState]) -> Option<Time> {
    let stages = clusters
        .iter()
        .flat_map(|state| state.record.stages.iter().flatten());
    stages.map(|stage| stage.started).min().map(from_chrono)
}

/// Since when the conditions say that the upgrade is complete.
pub(super) fn complete_since(status: &ManagedClustersUpgradeStatus) -> Option<&Time> {
    let mut conditions = status.conditions.iter();
    let complete = conditions.find(|condition| condition.type_ == COMPLETE && condition.status == "True")?;
    Some(&complete.last_transition_time)
}

/// Shortens the messages of the lists, and leaves out causes, then clusters that wait and clusters that failed, until the status has its
/// largest size.
fn fit(mut status: ManagedClustersUpgradeStatus) -> ManagedClustersUpgradeStatus {
    let is_too_large = |status: &ManagedClustersUpgradeStatus| {
        serde_json::to_vec(status).is_ok_and(|text| text.len() > MAX_STATUS_BYTES)
    };
    for most in SHORTER_NOTE_BYTES {
        if !is_too_large(&status) {
            return status;
        }
        let notes = status
            .failed_clusters
            .iter_mut()
            .chain(&mut status.waiting_clusters);
        let messages = notes.map(|note| &mut note.message);
        let causes = status.causes.iter_mut().map(|cause| &mut cause.message);
        let approvals = status.approvals.iter_mut().flat_map(|checkpoint| {
            let last = checkpoint.last_approval.as_mut().map(|last| &mut last.message);
            last.into_iter().chain([&mut checkpoint.message])
        });
        for message in messages.chain(causes).chain(approvals) {
            *message = cut(message, most).to_owned();
        }
    }
    while is_too_large(&status) {
        let truncated = status.truncated.get_or_insert_default();
        let left_out = if status.causes.pop().is_some() {
            &mut truncated.causes
        } else if status.waiting_clusters.pop().is_some() {
            &mut truncated.waiting
        } else if status.failed_clusters.pop().is_some() {
            &mut truncated.failed
        } else {
            break;
        };
        *left_out += 1;
    }
    status
}

fn note(state: &ClusterState) -> ClusterNote {
    let record = &state.record;
    ClusterNote {
        name: state.name.to_string(),
        phase: record.phase,
        reason: plain(reason_of(record)),
        message: text::note(&record.message),
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
