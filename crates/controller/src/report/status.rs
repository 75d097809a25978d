//! The status of an upgrade from its plan. Pure.

use api::mcu::{
    ActionSummary, ClusterNote, ClustersSummary, ManagedClustersUpgradeStatus, Truncated, UpgradeState,
};
use api::time::from_chrono;
use api::validate::Violation;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::{ActionCounts, ClusterState, Counts, Phase, Plan, Reason, StallReason};

use super::conditions;
use super::line::is_not_yaml;
use super::rows::to_row_phase;
use crate::restore::Completed;

/// Most clusters in a capped list.
const MOST: usize = 10;
/// Longest message in a capped list, in bytes.
const LONGEST: usize = 256;

/// What the status needs beside the plan.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Generation of the spec.
    pub generation: i64,
    /// The spec says paused.
    pub paused: bool,
    /// Why nothing starts, if the object was restored or copied.
    pub restored: Option<&'a str>,
    /// Why the selection may be smaller than expected.
    pub notes: &'a [String],
    /// Retry token that is being carried out.
    pub retry: Option<&'a str>,
    /// Value to report as observed when no retry is being carried out.
    pub observed_retry: Option<&'a str>,
    /// What of the record the hub refuses to store.
    pub refused: Option<String>,
    /// How far the controller's clock is ahead of the hub's, if that is too far.
    pub skew: Option<TimeDelta>,
    /// Time.
    pub now: DateTime<Utc>,
}

/// Earlier statuses.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// The latest one, written or not.
    pub latest: &'a ManagedClustersUpgradeStatus,
    /// The one that watchers see.
    pub written: &'a ManagedClustersUpgradeStatus,
}

/// Status of a valid upgrade.
#[must_use]
pub fn status(facts: &Facts<'_>, plan: &Plan, past: Past<'_>) -> ManagedClustersUpgradeStatus {
    let summary = &plan.summary;
    let (failed, waiting) = notes(&plan.clusters);
    let truncated = Truncated {
        failed: beyond(failed.len()),
        waiting: beyond(waiting.len()),
    };
    let observed = if plan.retry_done {
        facts.retry
    } else {
        facts.observed_retry
    };
    ManagedClustersUpgradeStatus {
        observed_generation: Some(facts.generation),
        state: Some(state(facts, plan)),
        progress: Some(format!(
            "{}/{}",
            summary.clusters.complete, summary.clusters.total
        )),
        in_flight: Some(count(summary.in_flight)),
        effective_max_concurrency: Some(count(summary.window)),
        pre_upgrade_action_summary: Some(action_summary(&summary.pre_action)),
        canary_clusters_summery: Some(clusters_summary(&summary.canaries)),
        clusters_summery: Some(clusters_summary(&summary.clusters)),
        post_upgrade_action_summary: Some(action_summary(&summary.post_action)),
        failed_clusters: failed.into_iter().take(MOST).map(note).collect(),
        waiting_clusters: waiting.into_iter().take(MOST).map(note).collect(),
        truncated: (truncated != Truncated::default()).then_some(truncated),
        observed_retry: observed.map(str::to_owned),
        conditions: conditions::of_plan(facts, plan, past),
    }
}

/// Status of an upgrade whose spec breaks rules, where no valid one is known: counters stay as they were.
#[must_use]
pub fn invalid(facts: &Facts<'_>, violations: &[Violation], past: Past<'_>) -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus {
        observed_generation: Some(facts.generation),
        state: Some(UpgradeState::Invalid),
        conditions: conditions::of_violations(facts, violations, past),
        ..past.latest.clone()
    }
}

/// Status of an upgrade that was complete before its object was restored: what its annotation says.
#[must_use]
pub fn completed_before(
    facts: &Facts<'_>,
    completed: &Completed,
    past: Past<'_>,
) -> ManagedClustersUpgradeStatus {
    let clusters = i64::from(completed.clusters);
    ManagedClustersUpgradeStatus {
        observed_generation: Some(facts.generation),
        state: Some(UpgradeState::Complete),
        progress: Some(format!("{clusters}/{clusters}")),
        in_flight: Some(0),
        clusters_summery: Some(ClustersSummary {
            total: clusters,
            initialized: clusters,
            complete: clusters,
            ..ClustersSummary::default()
        }),
        observed_retry: facts.observed_retry.map(str::to_owned),
        conditions: conditions::of_completed_before(facts, completed, past),
        ..ManagedClustersUpgradeStatus::default()
    }
}

/// Status of an upgrade whose spec breaks rules while its clusters go on by the last valid one.
#[must_use]
pub fn followed(
    facts: &Facts<'_>,
    plan: &Plan,
    violations: &[Violation],
    past: Past<'_>,
) -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus {
        state: Some(UpgradeState::Invalid),
        conditions: conditions::of_followed(facts, plan, violations, past),
        ..status(facts, plan, past)
    }
}

/// Status of an upgrade that is being deleted; `refused`: why its end is kept off. Counters stay as they were.
#[must_use]
pub fn deleting(facts: &Facts<'_>, refused: Option<&str>, past: Past<'_>) -> ManagedClustersUpgradeStatus {
    ManagedClustersUpgradeStatus {
        observed_generation: Some(facts.generation),
        state: Some(UpgradeState::Deleting),
        conditions: conditions::of_deletion(facts, refused, past),
        ..past.latest.clone()
    }
}

fn state(facts: &Facts<'_>, plan: &Plan) -> UpgradeState {
    let summary = &plan.summary;
    let canaries_running = summary.canaries.total > summary.canaries.complete;
    if plan.outlook.complete && facts.refused.is_none() {
        UpgradeState::Complete
    } else if plan.outlook.stalled == Some(StallReason::Restored) {
        UpgradeState::Stalled
    } else if facts.paused {
        UpgradeState::Paused
    } else if plan.outlook.stalled.is_some() || (plan.outlook.complete && facts.refused.is_some()) {
        UpgradeState::Stalled
    } else if canaries_running {
        UpgradeState::Canary
    } else if summary.in_flight > 0 || summary.clusters.initialized > 0 {
        UpgradeState::Upgrading
    } else {
        UpgradeState::Pending
    }
}

/// Failed (and degraded) clusters by name; waiting clusters, those that need a human first, then by name.
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
    let obstacles = [Reason::Conflict, Reason::WorkRefused];
    let quiet = matches!(
        state.record.reason,
        Reason::Running | Reason::None | Reason::Soaking
    );
    match state.record.phase {
        Phase::Blocked => Some(0),
        Phase::PostAction if obstacles.contains(&state.record.reason) => Some(0),
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

/// The cause of a cluster, which lists always name.
fn told(record: &rollout::Record) -> &str {
    match record.reason_text() {
        "" => Reason::None.as_str(),
        text => text,
    }
}

fn note(state: &ClusterState) -> ClusterNote {
    let record = &state.record;
    ClusterNote {
        name: state.name.to_string(),
        phase: to_row_phase(record.phase),
        reason: plain(told(record)),
        message: plain(cut(&record.message, LONGEST)),
        since: Some(from_chrono(record.since)),
    }
}

/// A text without the characters for which the API server would refuse the whole status, which it reads as YAML: clusters say
/// what they like.
#[must_use]
pub fn plain(text: &str) -> String {
    let plain = |char| if is_not_yaml(char) { ' ' } else { char };
    text.chars().map(plain).collect()
}

/// The beginning of a text that takes at most `most` bytes as JSON: clusters tell what they like, and a character may
/// take six bytes there.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    let mut taken = 0;
    for (at, char) in text.char_indices() {
        taken += match char {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            _ => char.len_utf8(),
        };
        if taken > most {
            return &text[..at];
        }
    }
    text
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
    count(number.saturating_sub(MOST))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
#[path = "status_tests.rs"]
mod tests;
