//! The request that one pass works on.

use std::sync::Arc;
use std::time::Instant;

use api::validate::SpecViolation;
use api::views::Upgrade;
use chrono::{DateTime, TimeDelta, Utc};
use observe::fleet::Observation;
use resolve::origin::Completed;
use resolve::spec::ResolvedSpec;
use rollout::check::Violation;
use rollout::forecast::Profile;
use rollout::{Plan, Policy};

use crate::report::estimate::Estimated;

/// What one pass has to do. `P` is what the steps so far say about the plan: first what to plan, in the end the checked
/// plan.
pub(super) struct ReconcileRequest<P> {
    /// Time of the pass.
    pub now: DateTime<Utc>,
    /// The object that the request was resolved from.
    pub object: Arc<Upgrade>,
    /// What to do.
    pub task: Task<P>,
}

/// What has to be done for an upgrade.
pub(super) enum Task<P> {
    /// Wait for a write of the finalizer or annotations, or for the end of its backoff.
    Wait,
    /// Set the finalizer, before anything else is written.
    WriteFinalizer,
    /// Show the rules that the spec violates. No valid spec is known, so nothing is planned.
    ShowViolations,
    /// Show that the upgrade was complete before it was restored. Nothing is planned for it and it holds no cluster.
    ShowCompleted(Completed),
    /// Observe, plan, check and commit.
    Plan(P),
}

impl<P> ReconcileRequest<P> {
    /// Carries out the next step if a plan is wanted. Every other task goes to the commit as it is.
    pub fn map_plan<Q>(self, step: impl FnOnce(P) -> Q) -> ReconcileRequest<Q> {
        ReconcileRequest {
            now: self.now,
            object: self.object,
            task: match self.task {
                Task::Wait => Task::Wait,
                Task::WriteFinalizer => Task::WriteFinalizer,
                Task::ShowViolations => Task::ShowViolations,
                Task::ShowCompleted(completed) => Task::ShowCompleted(completed),
                Task::Plan(wanted) => Task::Plan(step(wanted)),
            },
        }
    }
}

/// What to plan.
pub(super) struct PlanRequest {
    /// `namespace/name` of the upgrade, for logs.
    pub key: Arc<str>,
    /// The policy.
    pub policy: Policy,
    /// The spec in force; `None` while an upgrade without a valid spec is deleted.
    pub spec: Option<Arc<ResolvedSpec>>,
    /// The rules that the present spec violates, while its clusters continue with the last valid one.
    pub violations: Option<Arc<Vec<SpecViolation>>>,
    /// Clusters with works that carry the upgrade's UID, or where a write may have created one; sorted.
    pub clusters_with_works: Vec<Arc<str>>,
    /// When the feedback that released a slot first arrived since the last pass.
    pub slot_released_at: Option<Instant>,
}

/// A fleet to plan for.
pub(super) struct Observed {
    /// What to plan.
    pub wanted: Box<PlanRequest>,
    /// What was observed.
    pub observation: Observation,
    /// What else is known of each cluster, if the end of the upgrade is to be estimated.
    pub profiles: Option<Vec<Profile>>,
}

/// A plan to check.
pub(super) struct Planned {
    /// What was observed and wanted.
    pub observed: Observed,
    /// The plan.
    pub plan: Plan,
    /// When the upgrade ends, if it was estimated.
    pub estimated: Estimated,
    /// How long the slowest cluster takes that has not started, if that was estimated and is known.
    pub longest: Option<TimeDelta>,
}

/// A plan after the independent check.
pub(super) struct Checked {
    /// What was observed and wanted.
    pub observed: Observed,
    /// The plan if it keeps every safety rule, or the rules that it violates. Then none of it is carried out.
    pub result: Result<Plan, Vec<Violation>>,
    /// When the upgrade ends, if it was estimated.
    pub estimated: Estimated,
    /// How long the slowest cluster takes that has not started, if that was estimated and is known.
    pub longest: Option<TimeDelta>,
}
