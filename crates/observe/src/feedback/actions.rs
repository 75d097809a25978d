//! Reads the status of action works (`docs/design/rules.md#action-success`,
//! `docs/design/rules.md#action-degraded`).
//!
//! An action is done when Available=True and every declared success check passes. Available does not mean
//! that a Job succeeded, only that it exists. The condition rule Complete does not mean it either if a number
//! of succeeded pods is reported, because the rule is also True for a failed Job.

use std::sync::Arc;

use api::checks::{ActionCheck, Need};
use api::names::ANNOTATION_CHECKS;
use api::views::{ManifestStatus, condition};
use clusterversion::Cause;
use rollout::StepStatus;

use super::jobs::{JobState, is_job, job_failed};
use super::{WorkFeedback, WorkStatusView, named, reason};

pub(super) fn read(seen: &WorkStatusView<'_>) -> WorkFeedback {
    if let Some(cause) = degraded(seen) {
        return WorkFeedback::of(StepStatus::Failed(Arc::from(cause.message.as_str())), Some(cause));
    }
    let open = seen.unapplied().or_else(|| outstanding(seen));
    match open {
        None if seen.is_true("Available") => WorkFeedback::of(StepStatus::Succeeded, None),
        None => {
            let cause = seen.unavailable().unwrap_or_else(|| {
                Cause::new(
                    reason::NOT_AVAILABLE,
                    "The work agent has not reported yet that all objects of the action exist",
                )
            });
            WorkFeedback::of(under_way(seen), Some(cause))
        }
        Some(cause) => WorkFeedback::of(under_way(seen), Some(cause)),
    }
}

fn under_way(seen: &WorkStatusView<'_>) -> StepStatus {
    if seen.is_true("Applied") || seen.is_true("Available") {
        StepStatus::Running
    } else {
        StepStatus::NotYet
    }
}

/// The cause if the work or a manifest has Degraded=True, or a Job failed. Manifests count because with
/// several of them the work may report False although one is True.
fn degraded(seen: &WorkStatusView<'_>) -> Option<Cause> {
    let single = seen.manifests().iter().find_map(|manifest| {
        let own = condition(&manifest.conditions, "Degraded")?;
        (own.status == "True" && seen.is_fresh(own)).then(|| {
            Cause::new(
                reason::DEGRADED,
                &degraded_message(&named(manifest), &own.message),
            )
        })
    });
    let whole = || {
        seen.fresh("Degraded")
            .filter(|whole| whole.status == "True")
            .map(|whole| Cause::new(reason::DEGRADED, &degraded_message("The action", &whole.message)))
    };
    let job = || {
        seen.manifests()
            .iter()
            .filter(|manifest| is_job(manifest))
            .find_map(|manifest| {
                let state = JobState::of(manifest);
                let failed = !state.has_succeeded() && (state.failed_condition || state.has_only_failed());
                failed.then(|| job_failed(manifest, &state))
            })
    };
    single.or_else(whole).or_else(job)
}

fn degraded_message(subject: &str, message: &str) -> String {
    if message.is_empty() {
        format!("{subject} is degraded")
    } else {
        format!("{subject}: {message}")
    }
}

/// The first success check that does not pass.
fn outstanding(seen: &WorkStatusView<'_>) -> Option<Cause> {
    let recorded = seen.annotation(ANNOTATION_CHECKS);
    let checks = recorded.and_then(|text| serde_json::from_str::<Vec<ActionCheck<'_>>>(text).ok());
    let Some(checks) = checks else {
        return seen.manifests().iter().find_map(undeclared);
    };
    checks.iter().find_map(|check| {
        let manifest = seen
            .manifests()
            .iter()
            .find(|manifest| check.is_about(&manifest.resource_meta));
        check
            .needs
            .iter()
            .find(|need| !passes(seen, manifest, **need))
            .map(|need| unmet(*need, &check.subject()))
    })
}

fn passes(seen: &WorkStatusView<'_>, manifest: Option<&ManifestStatus>, need: Need) -> bool {
    let state = manifest.map(JobState::of).unwrap_or_default();
    match need {
        Need::Succeeded => state.has_succeeded(),
        Need::JobComplete => state.complete,
        Need::CompleteRule => {
            let own = manifest.and_then(|manifest| condition(&manifest.conditions, "Complete"));
            let holds = own.or_else(|| seen.fresh("Complete"));
            holds.is_some_and(|rule| rule.status == "True")
                && (state.succeeded.is_none() || state.has_succeeded())
        }
    }
}

fn unmet(need: Need, subject: &str) -> Cause {
    match need {
        Need::Succeeded | Need::JobComplete => {
            Cause::new(reason::JOB_RUNNING, &format!("{subject} has not succeeded yet"))
        }
        Need::CompleteRule => Cause::new(reason::INCOMPLETE, &format!("{subject} is not complete yet")),
    }
}

/// A work without recorded checks is evaluated by its status: a rule named Complete must hold, and a Job must
/// have succeeded unless its agent reports that it has no feedback rules.
fn undeclared(manifest: &ManifestStatus) -> Option<Cause> {
    let state = JobState::of(manifest);
    let rule = condition(&manifest.conditions, "Complete").map(|rule| rule.status == "True");
    if rule == Some(false) {
        return Some(unmet(Need::CompleteRule, &named(manifest)));
    }
    let without_feedback = condition(&manifest.conditions, "StatusFeedbackSynced")
        .is_some_and(|synced| synced.reason == "NoStatusFeedbackSynced");
    let counted = state.succeeded.is_none() && (state.complete || rule == Some(true) || without_feedback);
    let passed = !is_job(manifest) || state.has_succeeded() || counted;
    (!passed).then(|| unmet(Need::Succeeded, &named(manifest)))
}
