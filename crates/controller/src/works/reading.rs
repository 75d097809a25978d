//! What a ManifestWork's status says about its step, in the compact form the planner works on.
//!
//! Owns the judgement of a work: whether its status is current, whether its step succeeded or failed, and why it
//! waits. Refuses clocks and history: how long a [`Outcome::Suspect`] lasted, and whether another version is a
//! regression, is for the planner to say. Nothing here panics or fails on what an agent writes; a value of an
//! unexpected type is ignored.

mod actions;
mod jobs;
mod platform;

use api::lenient::Lenient;
use api::names::Step;
use api::views::{Condition, ManifestStatus, ManifestWork, WorkStatus, condition};
use clusterversion::{Cause, Target};

use super::action::subject;

/// Reasons of the causes found here; those of ClusterVersion are in [`clusterversion::cause::reason`].
pub mod reason {
    /// The status of the work has a shape that cannot be read.
    pub const UNREADABLE_STATUS: &str = "UnreadableStatus";
    /// The work agent has not reported on the work at all.
    pub const AGENT_SILENT: &str = "AgentSilent";
    /// The work agent could not apply a manifest, such as for want of permission. It retries.
    pub const NOT_APPLIED: &str = "NotApplied";
    /// The work agent has not acted on the latest change of the work.
    pub const STALE_STATUS: &str = "StaleStatus";
    /// An applied object does not exist on the cluster, or its state is unknown.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// The work agent reports no values of the object that tells how the step goes.
    pub const NO_FEEDBACK: &str = "NoFeedback";
    /// A Job runs.
    pub const JOB_RUNNING: &str = "JobRunning";
    /// A pod of a Job failed and none is active.
    pub const JOB_FAILING: &str = "JobFailing";
    /// A Job failed.
    pub const JOB_FAILED: &str = "JobFailed";
    /// A condition rule named Complete does not hold yet.
    pub const INCOMPLETE: &str = "Incomplete";
    /// A condition rule named Degraded holds.
    pub const DEGRADED: &str = "Degraded";

    /// All of them.
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

/// How a step stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is known, or what is known is stale.
    NotYet,
    /// The platform runs another release than the work asks for. Before the update has begun that is normal.
    OtherVersion,
    /// Under way.
    Running,
    /// Done.
    Succeeded,
    /// Failed; an action may recover while its work exists.
    Failed(Cause),
    /// The approver's Job has failed pods, and none is active: failed once that lasts 15 s.
    Suspect,
}

/// What a work's status says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// How the step stands.
    pub outcome: Outcome,
    /// Whether all manifests are applied in the current generation.
    pub applied: bool,
    /// Why the step is not done; `None` when it is, or when nothing is known.
    pub cause: Option<Cause>,
    /// The platform's own complaint (Failing=True), which ends a soak.
    pub unhealthy: Option<Cause>,
    /// Version of the cluster's newest history entry.
    pub version: Option<String>,
    /// Version the cluster reconciles towards.
    pub desired: Option<String>,
}

impl Reading {
    fn of(outcome: Outcome, cause: Option<Cause>) -> Reading {
        Reading {
            outcome,
            applied: false,
            cause,
            unhealthy: None,
            version: None,
            desired: None,
        }
    }
}

/// Reads the status of a step's work.
///
/// A platform work is judged by the target that its own annotations record, so that one of an earlier revision is
/// never measured by a later spec; `target` is used where it records none. Other steps ignore it.
#[must_use]
pub fn read(work: &ManifestWork, step: Step, target: &Target<'_>) -> Reading {
    let status = match &work.status {
        Lenient::Broken(error) => {
            let text = format!("the status of the work cannot be read: {error}");
            let cause = Cause::new(reason::UNREADABLE_STATUS, &text);
            return Reading::of(Outcome::NotYet, Some(cause));
        }
        Lenient::Good(status) if *status != WorkStatus::default() => status,
        Lenient::Good(_) | Lenient::Absent => {
            let cause = Cause::new(
                reason::AGENT_SILENT,
                "the work agent has not reported on the work yet",
            );
            return Reading::of(Outcome::NotYet, Some(cause));
        }
    };
    let seen = Seen {
        work,
        status,
        generation: work.metadata.generation.unwrap_or_default(),
    };
    let mut reading = match step {
        Step::Platform => platform::read(&seen, target),
        Step::Operators => jobs::read_approver(&seen),
        Step::PreAction | Step::PostAction => actions::read(&seen),
    };
    reading.applied = seen.is_true("Applied");
    reading
}

/// A status with the generation it is measured by.
struct Seen<'a> {
    work: &'a ManifestWork,
    status: &'a WorkStatus,
    generation: i64,
}

impl Seen<'_> {
    /// Whether feedback was reported for the current generation: the one staleness rule.
    fn current(&self) -> bool {
        condition(&self.status.conditions, "Applied").is_none_or(|applied| self.is_fresh(applied))
    }

    fn is_fresh(&self, condition: &Condition) -> bool {
        condition.observed_generation == 0 || condition.observed_generation >= self.generation
    }

    /// A condition of the work, if it speaks of the current generation.
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

    /// Why nothing can be expected of the step yet: not applied, or not in this generation.
    fn unapplied(&self) -> Option<Cause> {
        let refused = self
            .fresh("Applied")
            .filter(|applied| applied.status == "False")
            .map(|applied| Cause::new(reason::NOT_APPLIED, &self.complaint("Applied", applied)));
        refused.or_else(|| {
            (!self.current()).then(|| {
                Cause::new(
                    reason::STALE_STATUS,
                    "the work agent has not acted on the latest change of the work yet",
                )
            })
        })
    }

    /// Available=False or Unknown.
    fn unavailable(&self) -> Option<Cause> {
        self.fresh("Available")
            .filter(|available| available.status != "True")
            .map(|available| Cause::new(reason::NOT_AVAILABLE, &self.complaint("Available", available)))
    }

    /// The first manifest's own complaint, which names the object and the API server's words; else the work's.
    fn complaint(&self, type_: &str, whole: &Condition) -> String {
        let single = self.manifests().iter().find_map(|manifest| {
            let own = condition(&manifest.conditions, type_)?;
            (own.status != "True" && !own.message.is_empty())
                .then(|| format!("{}: {}", named(manifest), own.message))
        });
        single.unwrap_or_else(|| {
            if whole.message.is_empty() {
                format!("{type_}={} on the cluster", whole.status)
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

/// Whether a manifest is of a kind, given as both its names: an agent that is too old for one reports the other.
fn is_a(manifest: &ManifestStatus, group: &str, kind: &str, resource: &str) -> bool {
    let meta = &manifest.resource_meta;
    meta.group == group && (meta.kind == kind || meta.resource == resource)
}

#[cfg(test)]
mod tests;
