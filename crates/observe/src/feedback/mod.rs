//! Converts the status of a ManifestWork to the compact form that the planner uses.
//!
//! It evaluates whether the status is current, whether the step succeeded or failed, and why it waits. There
//! is no clock and no history here: the planner decides how long a [`StepStatus::MaybeFailed`] may last, and
//! whether another version is a regression. Nothing here panics or fails on values that an agent writes; a
//! value of an unexpected type is ignored.

mod actions;
mod jobs;
mod platform;
pub mod probe;

use api::checks::subject;
use api::lenient::Lenient;
use api::names::Step;
use api::views::{Condition, ManifestStatus, ManifestWork, WorkStatus, condition};
use chrono::{DateTime, Utc};
use clusterversion::{Cause, Target};
use rollout::StepStatus;

/// Reasons of the causes found here. Those of ClusterVersion are in [`clusterversion::cause::reason`].
pub mod reason {
    /// The status of the work cannot be parsed.
    pub const UNREADABLE_STATUS: &str = "UnreadableStatus";
    /// The work agent has not reported anything about the work.
    pub const AGENT_SILENT: &str = "AgentSilent";
    /// The work agent could not apply a manifest, for example because a permission is missing. It retries.
    pub const NOT_APPLIED: &str = "NotApplied";
    /// The work agent has not processed the latest change of the work.
    pub const STALE_STATUS: &str = "StaleStatus";
    /// An applied object does not exist on the cluster, or its state is unknown.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// The work agent reports no values of the object that shows the progress of the step.
    pub const NO_FEEDBACK: &str = "NoFeedback";
    /// A Job is running.
    pub const JOB_RUNNING: &str = "JobRunning";
    /// A pod of a Job failed and no pod is running.
    pub const JOB_FAILING: &str = "JobFailing";
    /// A Job failed.
    pub const JOB_FAILED: &str = "JobFailed";
    /// A condition rule named Complete does not hold yet.
    pub const INCOMPLETE: &str = "Incomplete";
    /// A condition rule named Degraded holds.
    pub const DEGRADED: &str = "Degraded";

    /// All reasons.
    pub const ALL: [&str; 11] = [
        UNREADABLE_STATUS,
        AGENT_SILENT,
        NOT_APPLIED,
        STALE_STATUS,
        NOT_AVAILABLE,
        NO_FEEDBACK,
        JOB_RUNNING,
        JOB_FAILING,
        JOB_FAILED,
        INCOMPLETE,
        DEGRADED,
    ];
}

/// The evaluated status of a work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkFeedback {
    /// The status of the step.
    pub status: StepStatus,
    /// Whether all manifests are applied in the current generation.
    pub applied: bool,
    /// Why the step is not done. `None` if it is done or if nothing is known.
    pub cause: Option<Cause>,
    /// The error that the platform itself reports (Failing=True), which ends a soak.
    pub unhealthy: Option<Cause>,
    /// Version of the cluster's newest history entry.
    pub version: Option<String>,
    /// Version to which the cluster is reconciling.
    pub desired: Option<String>,
    /// True when the cluster runs another version than the target, and is not asked for any.
    pub is_unasked: bool,
}

impl WorkFeedback {
    fn of(status: StepStatus, cause: Option<Cause>) -> WorkFeedback {
        WorkFeedback {
            status,
            applied: false,
            cause,
            unhealthy: None,
            version: None,
            desired: None,
            is_unasked: false,
        }
    }
}

/// Reads the status of a step's work.
///
/// A platform work is evaluated by the target in its own annotations, so that a work of an earlier revision
/// is never compared with a later spec. `target` is used if the annotations contain none. Other steps ignore
/// it.
#[must_use]
pub fn read(work: &ManifestWork, step: Step, target: &Target<'_>, now: DateTime<Utc>) -> WorkFeedback {
    let status = match &work.status {
        Lenient::Broken(error) => {
            let text = format!("The status of the ManifestWork cannot be read: {error}");
            let cause = Cause::new(reason::UNREADABLE_STATUS, &text);
            return WorkFeedback::of(StepStatus::NotYet, Some(cause));
        }
        Lenient::Good(status) if *status != WorkStatus::default() => status,
        Lenient::Good(_) | Lenient::Absent => {
            let cause = Cause::new(
                reason::AGENT_SILENT,
                "The work agent has not reported on the ManifestWork yet",
            );
            return WorkFeedback::of(StepStatus::NotYet, Some(cause));
        }
    };
    let seen = WorkStatusView {
        work,
        status,
        generation: asked_in(work),
    };
    let mut reading = match step {
        Step::Platform => platform::read(&seen, target),
        Step::Operators => jobs::read_approver(&seen, now),
        Step::PreAction | Step::PostAction => actions::read(&seen),
    };
    reading.applied = seen.is_true("Applied");
    reading
}

/// The generation in which a work got what it asks for now. A deletion counts as one more, and changes nothing of that: what was
/// reported before stays true, and an agent that is away may never process the deletion.
fn asked_in(work: &ManifestWork) -> i64 {
    let deletion = i64::from(work.metadata.deletion_timestamp.is_some());
    work.metadata.generation.unwrap_or_default() - deletion
}

/// A status with the generation of its work.
struct WorkStatusView<'a> {
    work: &'a ManifestWork,
    status: &'a WorkStatus,
    generation: i64,
}

impl WorkStatusView<'_> {
    /// True if feedback was reported for the current generation. This is the only rule for staleness.
    fn current(&self) -> bool {
        condition(&self.status.conditions, "Applied").is_none_or(|applied| self.is_fresh(applied))
    }

    fn is_fresh(&self, condition: &Condition) -> bool {
        condition.observed_generation == 0 || condition.observed_generation >= self.generation
    }

    /// A condition of the work, if it is about the current generation.
    fn fresh(&self, type_: &str) -> Option<&Condition> {
        condition(&self.status.conditions, type_).filter(|condition| self.is_fresh(condition))
    }

    fn is_true(&self, type_: &str) -> bool {
        self.fresh(type_)
            .is_some_and(|condition| condition.status == "True")
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.work.metadata.annotations.as_ref()?;
        annotations
            .get(key)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }

    fn manifests(&self) -> &[ManifestStatus] {
        &self.status.resource_status.manifests
    }

    /// Why the step cannot have made progress yet: the work is not applied, or not in this generation.
    fn unapplied(&self) -> Option<Cause> {
        let refused = self
            .fresh("Applied")
            .filter(|applied| applied.status == "False")
            .map(|applied| Cause::new(reason::NOT_APPLIED, &self.complaint("Applied", applied)));
        refused.or_else(|| {
            (!self.current()).then(|| {
                Cause::new(
                    reason::STALE_STATUS,
                    "The work agent has not processed the latest change of the ManifestWork yet",
                )
            })
        })
    }

    /// The cause if Available is False or Unknown.
    fn unavailable(&self) -> Option<Cause> {
        self.fresh("Available")
            .filter(|available| available.status != "True")
            .map(|available| Cause::new(reason::NOT_AVAILABLE, &self.complaint("Available", available)))
    }

    /// The message of the first manifest whose condition has the same status, which names the object and
    /// contains the error of the API server; otherwise the message of the work.
    fn complaint(&self, type_: &str, whole: &Condition) -> String {
        let single = self.manifests().iter().find_map(|manifest| {
            let own = condition(&manifest.conditions, type_)?;
            (own.status != "True" && !own.message.is_empty())
                .then(|| format!("{}: {}", named(manifest), own.message))
        });
        single.unwrap_or_else(|| {
            if whole.message.is_empty() {
                format!("The work agent reports {type_}={}", whole.status)
            } else {
                whole.message.clone()
            }
        })
    }
}

/// `Kind namespace/name` of a manifest.
fn named(manifest: &ManifestStatus) -> String {
    let meta = &manifest.resource_meta;
    let kind = if meta.kind.is_empty() {
        &meta.resource
    } else {
        &meta.kind
    };
    subject(kind, &meta.namespace, &meta.name)
}

/// Whether a manifest is of a kind. Both names of the kind are given because old agents report only one of
/// them.
fn is_a(manifest: &ManifestStatus, group: &str, kind: &str, resource: &str) -> bool {
    let meta = &manifest.resource_meta;
    meta.group == group && (meta.kind == kind || meta.resource == resource)
}

#[cfg(test)]
mod tests;
