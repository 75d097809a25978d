//! The eight conditions of an upgrade (`docs/design/rules.md#eight-conditions`). Five describe the input;
//! Ready, Reconciling and Stalled are those of kstatus. Pure.

use api::ManagedClustersUpgradeStatus;
use api::conditions::{self as types, reason};
use api::time::{from_chrono, to_rfc3339};
use api::validate::SpecViolation;
use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rollout::{Plan, StallReason};

use super::input::{PreviousStatus, StatusInput};
use super::text::{cut, plain};
use crate::state::origin::Completed;

/// Longest message in bytes. Conditions accept 32 KiB, but the status must stay small.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Why an upgrade whose spec violates rules is not complete.
const INVALID: &str = "the spec is invalid";

struct ConditionDraft {
    type_: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

fn verdict(
    type_: &'static str,
    status: bool,
    reason: &'static str,
    message: impl Into<String>,
) -> ConditionDraft {
    ConditionDraft {
        type_,
        status,
        reason,
        message: message.into(),
    }
}

/// Conditions of a valid upgrade.
#[must_use]
pub fn of_plan(input: &StatusInput<'_>, plan: &Plan, previous: PreviousStatus<'_>) -> Vec<Condition> {
    let summary = &plan.summary;
    // A record that is not stored does not count, because the next leader would not know it.
    let complete = plan.outlook.complete && input.refused.is_none();
    let applied = summary.applied > 0
        || (is_true(previous.written, types::APPLIED) || is_true(previous.latest, types::APPLIED));
    let complete_text = if complete {
        format!(
            "ManagedClusters upgrade of {} is complete",
            clusters(summary.clusters.complete)
        )
    } else {
        format!(
            "{} of {} ManagedClusters upgrades are complete",
            summary.clusters.complete, summary.clusters.total
        )
    };
    let restored = plan.outlook.stalled == Some(StallReason::Restored);
    let paused = input.paused && !complete;
    let verdicts = [
        selected(input, plan),
        verdict(
            types::APPLIED,
            applied,
            reason::APPLIED,
            if applied {
                "ManagedClusters upgrade applied"
            } else {
                "No ManagedClusters upgrade is applied yet"
            },
        ),
        verdict(
            types::IN_PROGRESS,
            summary.clusters.partial > 0,
            reason::IN_PROGRESS,
            format!(
                "ManagedClusters upgrade is in progress on {}",
                clusters(summary.clusters.partial)
            ),
        ),
        verdict(types::COMPLETE, complete, reason::COMPLETE, complete_text.clone()),
        verdict(
            types::FAILED,
            summary.clusters.failed > 0,
            reason::FAILED,
            format!(
                "ManagedClusters upgrade failed on {}",
                clusters(summary.clusters.failed)
            ),
        ),
        if restored {
            verdict(types::READY, false, reason::RESTORED, restored_text(input))
        } else if paused {
            verdict(
                types::READY,
                false,
                reason::PAUSED,
                format!("Paused; {complete_text}; set spec.paused to false to continue"),
            )
        } else {
            verdict(types::READY, complete, reason::COMPLETE, complete_text)
        },
        reconciling(plan),
        stalled(plan, input),
    ];
    let skew = input.skew.filter(|_| !complete).map(clock_skew);
    verdicts
        .into_iter()
        .chain(skew)
        .map(|verdict| condition(&verdict, input, previous))
        .collect()
}

/// Conditions of an upgrade whose spec violates rules while its clusters continue with the last valid spec.
/// The plan determines the input conditions, the spec determines Complete, Ready, Reconciling and Stalled.
#[must_use]
pub fn of_followed(
    input: &StatusInput<'_>,
    plan: &Plan,
    violations: &[SpecViolation],
    previous: PreviousStatus<'_>,
) -> Vec<Condition> {
    let verdicts = of_broken_rules(
        violations,
        format!(
            "No cluster starts until the spec is fixed. Clusters in flight ({}) continue with the last valid spec.",
            plan.summary.in_flight
        ),
    );
    let mut conditions = of_plan(input, plan, previous);
    for verdict in verdicts {
        let place = conditions
            .iter_mut()
            .find(|condition| condition.type_ == verdict.type_);
        if let Some(place) = place {
            *place = condition(&verdict, input, previous);
        }
    }
    conditions
}

/// The conditions that follow from the invalid spec alone. `progress`: what happens to the clusters
/// meanwhile.
fn of_broken_rules(violations: &[SpecViolation], progress: impl Into<String>) -> [ConditionDraft; 4] {
    let rules: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let text = rules.join("; ");
    [
        verdict(types::COMPLETE, false, reason::COMPLETE, INVALID),
        verdict(types::READY, false, reason::INVALID_SPEC, text.clone()),
        verdict(types::RECONCILING, false, reason::INVALID_SPEC, progress),
        verdict(types::STALLED, true, reason::INVALID_SPEC, text),
    ]
}

/// Conditions of an upgrade whose spec violates rules and that has no known valid spec.
#[must_use]
pub fn of_violations(
    input: &StatusInput<'_>,
    violations: &[SpecViolation],
    previous: PreviousStatus<'_>,
) -> Vec<Condition> {
    let verdicts = of_broken_rules(
        violations,
        "No cluster is started or tracked until the spec is fixed. Updates already running on clusters continue.",
    );
    keep_input_conditions(verdicts, INVALID, input, previous)
}

/// Conditions of an upgrade that was complete before its object was restored.
#[must_use]
pub fn of_completed_before(
    input: &StatusInput<'_>,
    completed: &Completed,
    previous: PreviousStatus<'_>,
) -> Vec<Condition> {
    let text = format!(
        "ManagedClusters upgrade of {} was complete at {}, before this object was restored. It does not run again, and clusters that joined since then are not upgraded. To run it again, edit the spec or set the annotation retry-failed to a new value",
        clusters(completed.clusters as usize),
        to_rfc3339(completed.time)
    );
    let idle = "the upgrade was complete before its object was restored";
    let verdicts = [
        verdict(types::COMPLETE, true, reason::COMPLETED_BEFORE, text.clone()),
        verdict(types::READY, true, reason::COMPLETED_BEFORE, text),
        verdict(types::RECONCILING, false, reason::IDLE, idle),
        verdict(types::STALLED, false, reason::MOVING, idle),
    ];
    keep_input_conditions(verdicts, idle, input, previous)
}

/// Why a restored upgrade starts nothing, and how to continue it.
fn restored_text(input: &StatusInput<'_>) -> String {
    input.restored.map_or_else(
        || "the object was restored or copied; run kubectl mcu resume to continue".to_owned(),
        str::to_owned,
    )
}

/// Conditions of an upgrade that is being deleted. `refused`: why the deletion cannot finish.
#[must_use]
pub fn of_deletion(
    input: &StatusInput<'_>,
    refused: Option<&str>,
    previous: PreviousStatus<'_>,
) -> Vec<Condition> {
    let deleting = "the upgrade is being deleted";
    let removing = refused.map_or("its ManifestWorks are removed first", |_| "see condition Stalled");
    let stalled = match refused {
        Some(text) => verdict(
            types::STALLED,
            true,
            reason::DELETION_REFUSED,
            format!("{text}; the controller retries until it succeeds"),
        ),
        None => verdict(types::STALLED, false, reason::DELETING, deleting),
    };
    let verdicts = [
        verdict(
            types::COMPLETE,
            is_true(previous.latest, types::COMPLETE),
            reason::COMPLETE,
            deleting,
        ),
        verdict(types::READY, false, reason::DELETING, deleting),
        verdict(
            types::RECONCILING,
            refused.is_none(),
            reason::DELETING,
            format!("{deleting}: {removing}"),
        ),
        stalled,
    ];
    keep_input_conditions(verdicts, deleting, input, previous)
}

/// All eight conditions when nothing new is known about the clusters. The input conditions keep their last
/// state, or get the message `otherwise` if they have none; Complete, Ready, Reconciling and Stalled are new.
fn keep_input_conditions(
    [complete, ready, reconciling, stalled]: [ConditionDraft; 4],
    otherwise: &str,
    input: &StatusInput<'_>,
    previous: PreviousStatus<'_>,
) -> Vec<Condition> {
    let kept = |type_: &'static str, reason: &'static str| {
        let mut conditions = previous.latest.conditions.iter();
        let before = conditions.find(|condition| condition.type_ == type_);
        let message = before.map_or(otherwise, |condition| &condition.message);
        verdict(type_, is_true(previous.latest, type_), reason, message)
    };
    let selected = if is_true(previous.latest, types::SELECTED) {
        reason::CLUSTERS_SELECTED
    } else {
        reason::CLUSTERS_NOT_SELECTED
    };
    let verdicts = [
        kept(types::SELECTED, selected),
        kept(types::APPLIED, reason::APPLIED),
        kept(types::IN_PROGRESS, reason::IN_PROGRESS),
        complete,
        kept(types::FAILED, reason::FAILED),
        ready,
        reconciling,
        stalled,
    ];
    verdicts
        .into_iter()
        .map(|verdict| condition(&verdict, input, previous))
        .collect()
}

fn selected(input: &StatusInput<'_>, plan: &Plan) -> ConditionDraft {
    let number = plan.summary.selected;
    let mut message = format!("ManagedClusters upgrade select {number} clusters");
    if plan.outlook.no_canary {
        message.push_str(
            "; spec.upgradeStrategy.canaryClusters.clusterSelector matches no cluster, so no cluster starts",
        );
    }
    for note in input.notes {
        message.push_str("; ");
        message.push_str(note);
    }
    let reason = if number > 0 {
        reason::CLUSTERS_SELECTED
    } else {
        reason::CLUSTERS_NOT_SELECTED
    };
    verdict(types::SELECTED, number > 0, reason, message)
}

/// The condition is present only while the clocks differ. The difference is rounded, because otherwise the
/// message would change every second.
fn clock_skew(skew: TimeDelta) -> ConditionDraft {
    let size = skew.abs();
    let size = match (size.num_hours(), size.num_minutes()) {
        (0, 0..=1) => "more than 30 seconds".to_owned(),
        (0 | 1, minutes) if minutes < 120 => format!("about {} minutes", (minutes + 4) / 5 * 5),
        (hours, _) => format!("about {hours} hours"),
    };
    let direction = if skew > TimeDelta::zero() {
        "ahead of"
    } else {
        "behind"
    };
    verdict(
        types::CLOCK_SKEW,
        true,
        reason::CLOCK_SKEW,
        format!(
            "the clock of the controller is {size} {direction} the clock of the hub's API server, so no deadline fires and no soak ends; synchronize the clocks"
        ),
    )
}

fn reconciling(plan: &Plan) -> ConditionDraft {
    let summary = &plan.summary;
    if plan.outlook.moving {
        let text = format!(
            "{} in flight ({} slots), {} of {} complete, {} pending",
            clusters(summary.in_flight),
            summary.max_concurrency,
            summary.clusters.complete,
            summary.clusters.total,
            summary.clusters.pending
        );
        verdict(types::RECONCILING, true, reason::RECONCILING, text)
    } else {
        verdict(
            types::RECONCILING,
            false,
            reason::IDLE,
            "no cluster is in flight and none will start by itself",
        )
    }
}

fn stalled(plan: &Plan, input: &StatusInput<'_>) -> ConditionDraft {
    let summary = &plan.summary;
    if let Some(refused) = &input.refused {
        let text = format!(
            "{refused}; its last accepted form is kept and the cluster does not continue, but the other clusters do; update the CRDs, or report this bug of the controller"
        );
        return verdict(types::STALLED, true, reason::RECORD_REFUSED, text);
    }
    let Some(stall) = plan.outlook.stalled else {
        return verdict(
            types::STALLED,
            false,
            reason::MOVING,
            "the upgrade is complete, paused or making progress",
        );
    };
    let lost = lost(summary.clusters.failed, summary.degraded);
    let (reason, text) = match stall {
        StallReason::Restored => (reason::RESTORED, restored_text(input)),
        StallReason::NothingSelected if plan.outlook.no_canary => (
            reason::NOTHING_SELECTED,
            "spec.upgradeStrategy.canaryClusters.clusterSelector matches no cluster; fix it or remove it".to_owned(),
        ),
        StallReason::NothingSelected => {
            let notes = if input.notes.is_empty() { "no cluster matches".to_owned() } else { input.notes.join("; ") };
            (reason::NOTHING_SELECTED, format!("no cluster is selected: {notes}"))
        }
        StallReason::CanaryFailed => (
            reason::CANARY_FAILED,
            "a canary failed, so no other cluster starts; see status.failedClusters, fix the cluster and retry (annotation retry-failed), or edit the spec".to_owned(),
        ),
        StallReason::MaxFailuresExceeded => (
            reason::MAX_FAILURES_EXCEEDED,
            format!("{lost}, more than maxFailures allows; fix and retry them (annotation retry-failed), or raise maxFailures"),
        ),
        StallReason::ClustersFailed => (
            reason::CLUSTERS_FAILED,
            format!("{lost}; see status.failedClusters, fix and retry them (annotation retry-failed)"),
        ),
        StallReason::ClustersBlocked => (
            reason::CLUSTERS_BLOCKED,
            format!(
                "{} {} blocked; see status.waitingClusters for each one's cause and remedy",
                clusters(summary.blocked),
                if summary.blocked == 1 { "is" } else { "are" }
            ),
        ),
    };
    verdict(types::STALLED, true, reason, text)
}

/// A number of clusters in words. (The message of Selected is older and has no singular.)
fn clusters(number: usize) -> String {
    format!("{number} cluster{}", if number == 1 { "" } else { "s" })
}

/// Clusters that need a human: failed ones, and those whose pre-action is degraded, which condition Failed
/// does not count.
fn lost(failed: usize, degraded: usize) -> String {
    let degraded_text = match degraded {
        1 => "1 pre-action is degraded".to_owned(),
        number => format!("{number} pre-actions are degraded"),
    };
    match (failed, degraded) {
        (_, 0) => format!("{} failed", clusters(failed)),
        (0, _) => degraded_text,
        _ => format!("{} failed, {degraded_text}", clusters(failed)),
    }
}

fn is_true(status: &ManagedClustersUpgradeStatus, type_: &str) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The transition time changes only when the status changes.
fn condition(verdict: &ConditionDraft, input: &StatusInput<'_>, previous: PreviousStatus<'_>) -> Condition {
    let status = if verdict.status { "True" } else { "False" };
    let same = |known: &&Condition| known.type_ == verdict.type_ && known.status == status;
    let before = previous
        .written
        .conditions
        .iter()
        .find(same)
        .or_else(|| previous.latest.conditions.iter().find(same));
    Condition {
        type_: verdict.type_.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
        message: plain(cut(&verdict.message, MAX_MESSAGE_BYTES)),
        observed_generation: Some(input.generation),
        last_transition_time: before.map_or_else(
            || from_chrono(input.now),
            |known| known.last_transition_time.clone(),
        ),
    }
}

#[cfg(test)]
mod tests;
