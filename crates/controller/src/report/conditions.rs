//! The eight conditions of an upgrade (`docs/design/rules.md#eight-conditions`). Five describe the input;
//! Ready, Reconciling and Stalled are those of kstatus. Pure.

use api::ManagedClustersUpgradeStatus;
use api::conditions::{self as types, reason};
use api::message::{count, join};
use api::text::cut;
use api::time::{from_chrono, to_rfc3339};
use api::validate::SpecViolation;
use chrono::{SecondsFormat, TimeDelta};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use resolve::origin::Completed;
use rollout::{FutureStarts, Plan, StallReason, Summary};

use super::approvals;
use super::input::{PreviousStatus, StatusInput};
use super::text::plain;

/// Longest message in bytes. Conditions accept 32 KiB, but the status must stay small.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Why an upgrade whose spec violates rules is not complete.
const INVALID: &str = "The spec is invalid";
/// What to do when clusters are selected, but no canary is.
const CHANGE_CANARIES: &str = "Correct that selector, remove spec.upgradeStrategy.canaryClusters, or label the clusters that are to be canaries";

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
    let left_out = left_out(summary);
    let complete_text = match summary.finished {
        _ if complete && !left_out.is_empty() => {
            format!("{} complete{left_out}", count(summary.finished, "cluster"))
        }
        1 if complete => "1 cluster is complete".to_owned(),
        number if complete => format!("All {number} clusters are complete"),
        number => format!(
            "{number} of {} complete",
            count(summary.clusters.total, "cluster")
        ),
    };
    let (reconciling, stalled) = (reconciling(plan), stalled(plan, input));
    let ready = if complete {
        verdict(types::READY, true, reason::COMPLETE, complete_text.clone())
    } else {
        not_ready(input, plan, &complete_text, &reconciling, &stalled)
    };
    let verdicts = [
        selected(input, plan),
        verdict(
            types::APPLIED,
            applied,
            reason::APPLIED,
            if applied {
                "The upgrade was applied to at least one cluster"
            } else {
                "The upgrade has not been applied to any cluster yet"
            },
        ),
        verdict(
            types::IN_PROGRESS,
            summary.clusters.partial > 0,
            reason::IN_PROGRESS,
            match summary.clusters.partial {
                0 => "No cluster is updating its platform or operators".to_owned(),
                1 => "1 cluster is updating its platform or operators".to_owned(),
                number => format!("{number} clusters are updating their platform or operators"),
            },
        ),
        verdict(types::COMPLETE, complete, reason::COMPLETE, complete_text),
        verdict(
            types::FAILED,
            summary.clusters.failed > 0,
            reason::FAILED,
            match summary.clusters.failed {
                0 => "No cluster failed".to_owned(),
                number => format!("{} failed", count(number, "cluster")),
            },
        ),
        ready,
        reconciling,
        stalled,
    ];
    let skew = match input.skew {
        _ if complete => None,
        Some(skew) => Some(clock_skew(skew)),
        None => plan.future_starts.as_ref().map(starts_in_future),
    };
    verdicts
        .into_iter()
        .chain(skew)
        .map(|verdict| condition(&verdict, input, previous))
        .collect()
}

/// Ready=False says in one condition why the upgrade is not done: what Stalled says if it is stalled, that it is paused, or what
/// Reconciling says. Nobody has asked for the pause of a restored upgrade, so that is not called one.
fn not_ready(
    input: &StatusInput<'_>,
    plan: &Plan,
    complete_text: &str,
    reconciling: &ConditionDraft,
    stalled: &ConditionDraft,
) -> ConditionDraft {
    let restored = plan.outlook.stalled == Some(StallReason::Restored);
    let (reason, text) = if stalled.status && (restored || !input.paused) {
        (stalled.reason, stalled.message.clone())
    } else if input.paused {
        let how = "Set spec.paused to false to continue";
        (
            reason::PAUSED,
            join(["The upgrade is paused", complete_text, how]),
        )
    } else if reconciling.status {
        (reason::RECONCILING, reconciling.message.clone())
    } else if let Some(text) = approvals::asked(plan, complete_text, input.names) {
        (reason::WAITING_FOR_APPROVAL, text)
    } else {
        (reason::RECONCILING, complete_text.to_owned())
    };
    verdict(types::READY, false, reason, text)
}

/// Conditions of an upgrade whose spec is invalid while its clusters in flight continue with the last valid spec.
/// Complete, Ready, Reconciling and Stalled report the violations; the other conditions describe the plan.
#[must_use]
pub fn of_followed(
    input: &StatusInput<'_>,
    plan: &Plan,
    violations: &[SpecViolation],
    previous: PreviousStatus<'_>,
) -> Vec<Condition> {
    let in_flight = match plan.summary.in_flight {
        0 => "No cluster is in flight".to_owned(),
        1 => "1 cluster in flight continues with the last valid spec".to_owned(),
        number => format!("{number} clusters in flight continue with the last valid spec"),
    };
    let verdicts = of_broken_rules(
        violations,
        join(["No cluster starts until the spec is fixed", &in_flight]),
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

/// The conditions Complete, Ready, Reconciling and Stalled of an upgrade with an invalid spec. `progress` says
/// what happens to the clusters meanwhile; it is the message of Reconciling.
fn of_broken_rules(violations: &[SpecViolation], progress: impl Into<String>) -> [ConditionDraft; 4] {
    let rules: Vec<String> = violations.iter().map(ToString::to_string).collect();
    let text = format!("{INVALID}: {}", rules.join("; "));
    [
        verdict(types::COMPLETE, false, reason::COMPLETE, INVALID),
        verdict(types::READY, false, reason::INVALID_SPEC, text.clone()),
        verdict(types::RECONCILING, false, reason::INVALID_SPEC, progress),
        verdict(types::STALLED, true, reason::INVALID_SPEC, text),
    ]
}

/// Conditions of an upgrade whose spec is invalid, and for which no earlier valid spec is known.
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
        "The upgrade was complete at {} with {}, and its object was restored later. It does not run again, so clusters that have joined since then are not upgraded. To run it again, edit the spec or retry it (kubectl mcu retry).",
        to_rfc3339(completed.time),
        count(completed.clusters as usize, "cluster")
    );
    let idle = "The upgrade was complete before its object was restored, so it does not run again";
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
        || "The object was restored from a backup, or copied. Run kubectl mcu resume to continue.".to_owned(),
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
    let deleting = "The upgrade is being deleted";
    let progress = match refused {
        Some(_) => "The hub rejects a write that the deletion needs. See condition Stalled.",
        None => "The controller deletes the ManifestWorks of the upgrade first",
    };
    let (reason, text) = match refused {
        Some(text) => {
            let text = join([text, "The controller retries until it succeeds"]);
            (reason::DELETION_REFUSED, text)
        }
        None => (reason::DELETING, deleting.to_owned()),
    };
    let verdicts = [
        verdict(
            types::COMPLETE,
            is_true(previous.latest, types::COMPLETE),
            reason::COMPLETE,
            deleting,
        ),
        verdict(types::READY, false, reason, text.clone()),
        verdict(
            types::RECONCILING,
            refused.is_none(),
            reason::DELETING,
            join([deleting, progress]),
        ),
        verdict(types::STALLED, refused.is_some(), reason, text),
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

/// Why an upgrade with a canary selector starts nothing although clusters are selected. If none is selected, that is the cause.
fn no_canary(plan: &Plan) -> Option<String> {
    let selected = plan.summary.selected;
    (plan.outlook.no_canary && selected > 0).then(|| {
        let none = match selected {
            1 => "does not select the only selected cluster".to_owned(),
            number => format!("selects none of the {number} selected clusters"),
        };
        format!(
            "The canary selector (spec.upgradeStrategy.canaryClusters.clusterSelector) {none}, so no cluster starts"
        )
    })
}

fn selected(input: &StatusInput<'_>, plan: &Plan) -> ConditionDraft {
    let number = plan.summary.selected;
    let no_canary = no_canary(plan);
    let notes = no_canary
        .as_deref()
        .into_iter()
        .chain(input.notes.iter().map(String::as_str));
    let message = types::selected_message(number, notes);
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
            "The controller's clock is {size} {direction} the clock of the hub's API server. No deadline fires and no soak ends until you synchronize the clocks."
        ),
    )
}

/// The condition is present until the last of these starts has passed.
fn starts_in_future(starts: &FutureStarts) -> ConditionDraft {
    let has = if starts.clusters == 1 { "has" } else { "have" };
    verdict(
        types::CLOCK_SKEW,
        true,
        reason::STARTS_IN_FUTURE,
        format!(
            "{} {has} a step whose recorded start is in the future, for example {} at {}. It began while the controller's clock was ahead. Its time limit and its soak count from then. If such a cluster hangs, edit the spec: a new revision starts a new clock.",
            count(starts.clusters, "cluster"),
            starts.example,
            to_rfc3339(starts.started),
        ),
    )
}

/// How many clusters the spec leaves out, such as `, 2 skipped, 1 aborted`; empty if it leaves out none.
fn left_out(summary: &Summary) -> String {
    let part = |number: usize, how: &str| match number {
        0 => String::new(),
        number => format!(", {number} {how}"),
    };
    part(summary.skipped, "skipped") + &part(summary.aborted, "aborted")
}

fn reconciling(plan: &Plan) -> ConditionDraft {
    let summary = &plan.summary;
    if plan.outlook.moving {
        let text = format!(
            "{} in flight ({}), {} of {} complete, {} pending{}",
            count(summary.in_flight, "cluster"),
            count(summary.max_concurrency, "slot"),
            summary.finished,
            summary.clusters.total,
            summary.clusters.pending - summary.skipped - summary.aborted,
            left_out(summary),
        );
        let text = match summary.next_opening {
            Some(opens) => format!(
                "{text}; {} for maintenance windows, the next of which opens at {}",
                if summary.waiting_for_window == 1 {
                    "1 waits".to_owned()
                } else {
                    format!("{} wait", summary.waiting_for_window)
                },
                opens.to_rfc3339_opts(SecondsFormat::Secs, true)
            ),
            None => text,
        };
        let text = join([text.as_str(), &approvals::waiting(plan).unwrap_or_default()]);
        verdict(types::RECONCILING, true, reason::RECONCILING, text)
    } else {
        verdict(
            types::RECONCILING,
            false,
            reason::IDLE,
            approvals::waiting(plan)
                .unwrap_or_else(|| "No cluster is moving, and the controller has none to start".to_owned()),
        )
    }
}

fn stalled(plan: &Plan, input: &StatusInput<'_>) -> ConditionDraft {
    let summary = &plan.summary;
    if let Some(refused) = &input.refused {
        let text = join([
            refused.as_str(),
            "The affected clusters do not continue until the hub accepts their records; all others do",
            "If the hub forbids the report, for example by a quota or because a permission is missing, permit it. Otherwise update the CRDs of the upgrade. If they are up to date, please report this bug.",
        ]);
        return verdict(types::STALLED, true, reason::RECORD_REFUSED, text);
    }
    let Some(stall) = plan.outlook.stalled else {
        return verdict(
            types::STALLED,
            false,
            reason::MOVING,
            if plan.summary.waiting_for_approval > 0 && !plan.outlook.moving {
                "The upgrade waits for an approval"
            } else {
                "The upgrade is complete, paused or making progress"
            },
        );
    };
    let lost = lost(summary.clusters.failed, summary.degraded);
    let (reason, text) = match stall {
        StallReason::Restored => (reason::RESTORED, restored_text(input)),
        StallReason::NothingSelected => (reason::NOTHING_SELECTED, nothing_selected_text(plan, input)),
        StallReason::CanaryFailed => (
            reason::CANARY_FAILED,
            "A canary failed, so no other cluster starts. See status.failedClusters, then fix and retry the canary (kubectl mcu retry), or edit the spec.".to_owned(),
        ),
        StallReason::MaxFailuresExceeded => (
            reason::MAX_FAILURES_EXCEEDED,
            format!("{lost}, which is more than maxFailures allows. Fix the cause and retry (kubectl mcu retry), or raise maxFailures."),
        ),
        StallReason::ClustersFailed => (
            reason::CLUSTERS_FAILED,
            format!("{lost}. See status.failedClusters, then fix the cause and retry (kubectl mcu retry)."),
        ),
        StallReason::ClustersBlocked => (
            reason::CLUSTERS_BLOCKED,
            format!(
                "{} {} blocked. See status.waitingClusters for the cause of each, and what to do.",
                count(summary.blocked, "cluster"),
                if summary.blocked == 1 { "is" } else { "are" }
            ),
        ),
        StallReason::NoWindow => (
            reason::NO_WINDOW,
            format!(
                "The maintenance windows do not open within 400 days for {}. Check spec.maintenance; status.waitingClusters has the cause of each.",
                count(summary.blocked, "cluster"),
            ),
        ),
    };
    verdict(types::STALLED, true, reason, text)
}

fn nothing_selected_text(plan: &Plan, input: &StatusInput<'_>) -> String {
    if let Some(no_canary) = no_canary(plan) {
        return join([no_canary.as_str(), CHANGE_CANARIES]);
    }
    let unmatched = input
        .notes
        .is_empty()
        .then_some("Check spec.placement and spec.clusterSelector");
    let notes = input.notes.iter().map(String::as_str).chain(unmatched);
    types::selected_message(0, notes)
}

/// Clusters that need a human: failed ones, and those whose pre-action is degraded, which condition Failed
/// does not count.
fn lost(failed: usize, degraded: usize) -> String {
    let degraded_text = match degraded {
        1 => "1 pre-action is degraded".to_owned(),
        number => format!("{number} pre-actions are degraded"),
    };
    match (failed, degraded) {
        (_, 0) => format!("{} failed", count(failed, "cluster")),
        (0, _) => degraded_text,
        _ => format!("{} failed and {degraded_text}", count(failed, "cluster")),
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
