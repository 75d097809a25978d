//! Reads the feedback of Jobs, and the status of the approval Job (`docs/design/rules.md#approval-job`).
//!
//! Succeeded, failed and active pods are evaluated together, in whatever order they are reported. Values of
//! unexpected types are ignored.

use std::sync::Arc;

use api::checks::JobValue;
use api::message::count;
use api::names::APPROVER;
use api::views::{FieldValue, ManifestStatus};
use chrono::{DateTime, Utc};
use clusterversion::Cause;
use rollout::StepStatus;

use super::{WorkFeedback, WorkStatusView, is_a, named, reason};

/// The reported values of a Job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct JobState {
    /// Number of pods that succeeded, if reported.
    pub(super) succeeded: Option<i64>,
    /// Whether condition Complete is True.
    pub(super) complete: bool,
    /// Number of pods that failed.
    pub(super) failed: i64,
    /// Whether condition Failed is True.
    pub(super) failed_condition: bool,
    /// Number of pods that are running.
    pub(super) active: i64,
}

impl JobState {
    pub(super) fn of(manifest: &ManifestStatus) -> JobState {
        let mut state = JobState::default();
        for value in &manifest.status_feedback.values {
            match (JobValue::named(&value.name), &value.field_value) {
                (Some(JobValue::Succeeded), FieldValue::Integer(count)) => {
                    state.succeeded = state.succeeded.max(Some(*count));
                }
                (Some(JobValue::Active), FieldValue::Integer(count)) => {
                    state.active = *count;
                }
                (Some(JobValue::Failed | JobValue::FailedCondition), FieldValue::Integer(count)) => {
                    state.failed = *count;
                }
                (Some(JobValue::Complete), FieldValue::String(status)) => {
                    state.complete |= status == "True";
                }
                (Some(JobValue::Failed | JobValue::FailedCondition), FieldValue::String(status)) => {
                    state.failed_condition |= status == "True";
                }
                _ => {}
            }
        }
        state
    }

    pub(super) fn has_succeeded(&self) -> bool {
        self.succeeded.is_some_and(|count| count >= 1)
    }

    /// True when pods failed, none is running or succeeded, and the Job does not count as complete.
    pub(super) fn has_only_failed(&self) -> bool {
        self.failed >= 1 && self.active < 1 && !self.has_succeeded() && !self.complete
    }
}

/// Whether a manifest is a batch Job.
pub(super) fn is_job(manifest: &ManifestStatus) -> bool {
    is_a(manifest, "batch", "Job", "jobs")
}

/// Number of failed pods, for a message. Agents may report any number.
fn failed_pods(state: &JobState) -> usize {
    usize::try_from(state.failed).unwrap_or_default()
}

/// The cause for a failed Job.
pub(super) fn job_failed(manifest: &ManifestStatus, state: &JobState) -> Cause {
    let subject = named(manifest);
    let text = if state.failed >= 1 {
        format!("{subject} failed ({})", count(failed_pods(state), "failed pod"))
    } else {
        format!("{subject} failed")
    };
    Cause::new(reason::JOB_FAILED, &text)
}

/// Reads the status of the operators work.
pub(super) fn read_approver(seen: &WorkStatusView<'_>, now: DateTime<Utc>) -> WorkFeedback {
    let job = seen.manifests().iter().find(|manifest| {
        is_job(manifest)
            && manifest.resource_meta.name == APPROVER
            && manifest.resource_meta.namespace == APPROVER
    });
    let state = job.map(JobState::of).unwrap_or_default();
    let Some(job) = job.filter(|_| seen.current() && state != JobState::default()) else {
        return WorkFeedback::of(StepStatus::NotYet, Some(waiting(seen)));
    };
    let cause_of_job = |reason, text: &str| Some(Cause::new(reason, &format!("{} {text}", named(job))));
    if state.has_succeeded() {
        WorkFeedback::of(StepStatus::Succeeded, None)
    } else if state.failed_condition {
        let cause = approver_failed(job, &state);
        WorkFeedback::of(StepStatus::Failed(Arc::from(cause.message.as_str())), Some(cause))
    } else if state.complete {
        WorkFeedback::of(StepStatus::Succeeded, None)
    } else if state.has_only_failed() {
        let text = format!(
            "has {} and no active one",
            count(failed_pods(&state), "failed pod")
        );
        WorkFeedback::of(
            StepStatus::MaybeFailed(now),
            cause_of_job(reason::JOB_FAILING, &text),
        )
    } else if state.active >= 1 {
        let cause = cause_of_job(reason::JOB_RUNNING, "is approving InstallPlans");
        WorkFeedback::of(StepStatus::Running, cause)
    } else {
        WorkFeedback::of(StepStatus::NotYet, Some(waiting(seen)))
    }
}

fn approver_failed(job: &ManifestStatus, state: &JobState) -> Cause {
    let hint = "Either it lacks a permission, or some InstallPlans were not approved in time. See its log.";
    Cause::new(
        reason::JOB_FAILED,
        &format!("{}. {hint}", job_failed(job, state).message),
    )
}

fn waiting(seen: &WorkStatusView<'_>) -> Cause {
    seen.unapplied()
        .or_else(|| seen.unavailable())
        .unwrap_or_else(|| {
            Cause::new(
                reason::NO_FEEDBACK,
                "The work agent has not reported the state of the approval Job yet",
            )
        })
}
