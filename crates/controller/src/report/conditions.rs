//! The eight conditions of an upgrade (`docs/design/rules.md#eight-conditions`). Five tell facts; Ready, Reconciling and
//! Stalled are those of kstatus. Pure.

use api::ManagedClustersUpgradeStatus;
use api::conditions::{self as types, reason};
use api::time::{from_chrono, to_rfc3339};
use api::validate::Violation;
use chrono::TimeDelta;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rollout::{Plan, StallReason};

use super::status::{Facts, Past, cut, plain};
use crate::restore::Completed;

/// Longest message, in bytes; conditions accept 32 KiB, the status must stay small.
const LONGEST: usize = 1024;
/// Why an upgrade whose spec breaks rules is not complete.
const INVALID: &str = "the spec is invalid";

struct Verdict {
    type_: &'static str,
    status: bool,
    reason: &'static str,
    message: String,
}

fn verdict(type_: &'static str, status: bool, reason: &'static str, message: impl Into<String>) -> Verdict {
    Verdict {
        type_,
        status,
        reason,
        message: message.into(),
    }
}

/// Conditions of a valid upgrade.
#[must_use]
pub fn of_plan(facts: &Facts<'_>, plan: &Plan, past: Past<'_>) -> Vec<Condition> {
    let summary = &plan.summary;
    // What is not stored is not done: the next leader would not know of it.
    let complete = plan.outlook.complete && facts.refused.is_none();
    let applied = summary.applied > 0
        || (is_true(past.written, types::APPLIED) || is_true(past.latest, types::APPLIED));
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
    let paused = facts.paused && !complete;
    let verdicts = [
        selected(facts, plan),
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
            verdict(types::READY, false, reason::RESTORED, restored_text(facts))
        } else if paused {
            verdict(
                types::READY,
                false,
                reason::PAUSED,
                format!("Paused; {complete_text}; set spec.paused to false to go on"),
            )
        } else {
            verdict(types::READY, complete, reason::COMPLETE, complete_text)
        },
        reconciling(plan),
        stalled(plan, facts),
    ];
    let skew = facts.skew.filter(|_| !complete).map(clock_skew);
    verdicts
        .into_iter()
        .chain(skew)
        .map(|verdict| condition(&verdict, facts, past))
        .collect()
}

/// Conditions of an upgrade whose spec breaks rules while its clusters go on by the last valid one: the facts are those of
/// the plan, the verdict is that of the spec.
#[must_use]
pub fn of_followed(
    facts: &Facts<'_>,
    plan: &Plan,
    violations: &[Violation],
    past: Past<'_>,
) -> Vec<Condition> {
    let verdicts = of_broken_rules(
        violations,
        format!(
            "nothing starts until the spec is corrected; {} in flight, by the last valid spec",
            clusters(plan.summary.in_flight)
        ),
    );
    let mut conditions = of_plan(facts, plan, past);
    for verdict in verdicts {
        let place = conditions
            .iter_mut()
            .find(|condition| condition.type_ == verdict.type_);
        if let Some(place) = place {
            *place = condition(&verdict, facts, past);
        }
    }
    conditions
}

/// What an invalid spec is worth by itself. `goes_on`: what becomes of the clusters meanwhile.
fn of_broken_rules(violations: &[Violation], goes_on: impl Into<String>) -> [Verdict; 4] {
    let rules: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let text = rules.join("; ");
    [
        verdict(types::COMPLETE, false, reason::COMPLETE, INVALID),
        verdict(types::READY, false, reason::INVALID_SPEC, text.clone()),
        verdict(types::RECONCILING, false, reason::INVALID_SPEC, goes_on),
        verdict(types::STALLED, true, reason::INVALID_SPEC, text),
    ]
}

/// Conditions of an upgrade whose spec breaks rules, where no valid one is known.
#[must_use]
pub fn of_violations(facts: &Facts<'_>, violations: &[Violation], past: Past<'_>) -> Vec<Condition> {
    let verdicts = of_broken_rules(
        violations,
        "nothing is started or followed until the spec is corrected; what clusters have begun goes on there",
    );
    beside_kept(verdicts, INVALID, facts, past)
}

/// Conditions of an upgrade that was complete before its object was restored.
#[must_use]
pub fn of_completed_before(facts: &Facts<'_>, completed: &Completed, past: Past<'_>) -> Vec<Condition> {
    let text = format!(
        "ManagedClusters upgrade of {} was complete at {}, before this object was restored; it is not run again, and clusters that joined since are not upgraded: edit the spec, or set the annotation retry-failed to a new value, to run it anew",
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
    beside_kept(verdicts, idle, facts, past)
}

/// Why a restored upgrade starts nothing, and how it goes on.
fn restored_text(facts: &Facts<'_>) -> String {
    facts.restored.map_or_else(
        || "the object was restored or copied; run kubectl mcu resume to go on".to_owned(),
        str::to_owned,
    )
}

/// Conditions of an upgrade that is being deleted. `refused`: why its end is kept off.
#[must_use]
pub fn of_deletion(facts: &Facts<'_>, refused: Option<&str>, past: Past<'_>) -> Vec<Condition> {
    let goes = "the upgrade is being deleted";
    let removing = refused.map_or("its ManifestWorks are removed first", |_| "see condition Stalled");
    let stalled = match refused {
        Some(text) => verdict(
            types::STALLED,
            true,
            reason::DELETION_REFUSED,
            format!("{text}; it is tried again until it succeeds"),
        ),
        None => verdict(types::STALLED, false, reason::DELETING, goes),
    };
    let verdicts = [
        verdict(
            types::COMPLETE,
            is_true(past.latest, types::COMPLETE),
            reason::COMPLETE,
            goes,
        ),
        verdict(types::READY, false, reason::DELETING, goes),
        verdict(
            types::RECONCILING,
            refused.is_none(),
            reason::DELETING,
            format!("{goes}: {removing}"),
        ),
        stalled,
    ];
    beside_kept(verdicts, goes, facts, past)
}

/// All eight conditions where nothing new is known of the clusters: the facts stay as they were told, with `otherwise` for a
/// message where they never were, beside new verdicts on Complete, Ready, Reconciling and Stalled.
fn beside_kept(
    [complete, ready, reconciling, stalled]: [Verdict; 4],
    otherwise: &str,
    facts: &Facts<'_>,
    past: Past<'_>,
) -> Vec<Condition> {
    let kept = |type_: &'static str, reason: &'static str| {
        let mut conditions = past.latest.conditions.iter();
        let before = conditions.find(|condition| condition.type_ == type_);
        let message = before.map_or(otherwise, |condition| &condition.message);
        verdict(type_, is_true(past.latest, type_), reason, message)
    };
    let selected = if is_true(past.latest, types::SELECTED) {
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
        .map(|verdict| condition(&verdict, facts, past))
        .collect()
}

fn selected(facts: &Facts<'_>, plan: &Plan) -> Verdict {
    let number = plan.summary.selected;
    let mut message = format!("ManagedClusters upgrade select {number} clusters");
    if plan.outlook.no_canary {
        message.push_str(
            "; spec.upgradeStrategy.canaryClusters.clusterSelector matches no cluster, so nothing starts",
        );
    }
    for note in facts.notes {
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

/// Told while it is so. The difference is told roughly, or each second would be news.
fn clock_skew(skew: TimeDelta) -> Verdict {
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
            "the clock of the controller is {size} {direction} the clock of the hub's API server, so no deadline fires and no soak ends; correct the clocks"
        ),
    )
}

fn reconciling(plan: &Plan) -> Verdict {
    let summary = &plan.summary;
    if plan.outlook.moving {
        let text = format!(
            "{} in flight (window {}), {} of {} complete, {} pending",
            clusters(summary.in_flight),
            summary.window,
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
            "nothing is in flight and nothing starts by itself",
        )
    }
}

fn stalled(plan: &Plan, facts: &Facts<'_>) -> Verdict {
    let summary = &plan.summary;
    if let Some(refused) = &facts.refused {
        let text = format!(
            "{refused}; its last accepted form is kept and the cluster goes no further, the others go on; update the CRDs, or report a defect of the controller"
        );
        return verdict(types::STALLED, true, reason::RECORD_REFUSED, text);
    }
    let Some(stall) = plan.outlook.stalled else {
        return verdict(
            types::STALLED,
            false,
            reason::MOVING,
            "the upgrade is complete, paused or moving",
        );
    };
    let lost = lost(summary.clusters.failed, summary.degraded);
    let (reason, text) = match stall {
        StallReason::Restored => (reason::RESTORED, restored_text(facts)),
        StallReason::NothingSelected if plan.outlook.no_canary => (
            reason::NOTHING_SELECTED,
            "spec.upgradeStrategy.canaryClusters.clusterSelector matches no cluster; correct it or remove it".to_owned(),
        ),
        StallReason::NothingSelected => {
            let notes = if facts.notes.is_empty() { "no cluster matches".to_owned() } else { facts.notes.join("; ") };
            (reason::NOTHING_SELECTED, format!("no cluster is selected: {notes}"))
        }
        StallReason::CanaryFailed => (
            reason::CANARY_FAILED,
            "a canary failed, so no other cluster starts; see status.failedClusters, mend it and retry (annotation retry-failed), or edit the spec".to_owned(),
        ),
        StallReason::MaxFailuresExceeded => (
            reason::MAX_FAILURES_EXCEEDED,
            format!("{lost}, more than maxFailures allows; mend and retry them (annotation retry-failed), or raise maxFailures"),
        ),
        StallReason::ClustersFailed => (
            reason::CLUSTERS_FAILED,
            format!("{lost}; see status.failedClusters, mend and retry them (annotation retry-failed)"),
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

/// Clusters that need a human: failed ones, and those whose pre-action is degraded, which condition Failed leaves out.
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

/// The transition time moves only when the status flips.
fn condition(verdict: &Verdict, facts: &Facts<'_>, past: Past<'_>) -> Condition {
    let status = if verdict.status { "True" } else { "False" };
    let same = |known: &&Condition| known.type_ == verdict.type_ && known.status == status;
    let before = past
        .written
        .conditions
        .iter()
        .find(same)
        .or_else(|| past.latest.conditions.iter().find(same));
    Condition {
        type_: verdict.type_.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
        message: plain(cut(&verdict.message, LONGEST)),
        observed_generation: Some(facts.generation),
        last_transition_time: before.map_or_else(
            || from_chrono(facts.now),
            |known| known.last_transition_time.clone(),
        ),
    }
}

#[cfg(test)]
#[path = "conditions_tests.rs"]
mod tests;
