//! Reading of action works (`docs/design/rules.md#action-success`, `docs/design/rules.md#action-degraded`).
//!
//! Owns when an action is done: Available=True and every declared success check passes. Refuses to take Available for
//! success of a Job, since it proves only that the Job exists, and refuses to take the condition rule Complete for it
//! where a count of succeeded pods is reported, since that rule is True for a failed Job too.

use api::views::{ManifestStatus, condition};
use clusterversion::Cause;

use super::jobs::{JobState, is_job, job_failed};
use super::{Outcome, Reading, Seen, named, reason};
use crate::works::ANNOTATION_CHECKS;
use crate::works::action::{Check, Need};

pub(super) fn read(seen: &Seen<'_>) -> Reading {
    if let Some(cause) = degraded(seen) {
        return Reading::of(Outcome::Failed(cause.clone()), Some(cause));
    }
    let open = seen.unapplied().or_else(|| outstanding(seen));
    match open {
        None if seen.is_true("Available") => Reading::of(Outcome::Succeeded, None),
        None => {
            let cause = seen.unavailable().unwrap_or_else(|| {
                Cause::new(
                    reason::NOT_AVAILABLE,
                    "the work agent has not seen all objects of the action yet",
                )
            });
            Reading::of(under_way(seen), Some(cause))
        }
        Some(cause) => Reading::of(under_way(seen), Some(cause)),
    }
}

fn under_way(seen: &Seen<'_>) -> Outcome {
    if seen.is_true("Applied") || seen.is_true("Available") {
        Outcome::Running
    } else {
        Outcome::NotYet
    }
}

/// Degraded=True, of the work or of a manifest: over several manifests a False hides a True. Or a failed Job.
fn degraded(seen: &Seen<'_>) -> Option<Cause> {
    let single = seen.manifests().iter().find_map(|manifest| {
        let own = condition(&manifest.conditions, "Degraded")?;
        (own.status == "True" && seen.is_fresh(own))
            .then(|| Cause::new(reason::DEGRADED, &said(&named(manifest), &own.message)))
    });
    let whole = || {
        seen.fresh("Degraded")
            .filter(|whole| whole.status == "True")
            .map(|whole| Cause::new(reason::DEGRADED, &said("the action", &whole.message)))
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

fn said(subject: &str, message: &str) -> String {
    if message.is_empty() {
        format!("{subject} is degraded")
    } else {
        format!("{subject}: {message}")
    }
}

/// The first success check that does not pass.
fn outstanding(seen: &Seen<'_>) -> Option<Cause> {
    let recorded = seen.annotation(ANNOTATION_CHECKS);
    let checks = recorded.and_then(|text| serde_json::from_str::<Vec<Check<'_>>>(text).ok());
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

fn passes(seen: &Seen<'_>, manifest: Option<&ManifestStatus>, need: Need) -> bool {
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

/// A work without recorded checks is taken by what its status shows: a rule named Complete must hold, and a Job must
/// have succeeded unless its agent says that it has no feedback rules.
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
