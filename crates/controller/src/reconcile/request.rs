//! The request that one pass works on.

use std::sync::Arc;
use std::time::Instant;

use api::validate::SpecViolation;
use api::views::Upgrade;
use chrono::{DateTime, Utc};
use rollout::Policy;

use crate::spec::ResolvedSpec;
use crate::state::origin::Completed;

/// What one pass has to do.
pub(super) struct ReconcileRequest {
    /// Time of the pass.
    pub now: DateTime<Utc>,
    /// The object that the request was resolved from.
    pub view: Arc<Upgrade>,
    /// What to do.
    pub task: Task,
}

/// What has to be done for an upgrade.
pub(super) enum Task {
    /// Wait for a write of the finalizer or annotations, or for the end of its backoff.
    Wait,
    /// Set the finalizer, before anything else is written.
    WriteFinalizer,
    /// Show the rules that the spec violates. No valid spec is known, so nothing is planned.
    ShowViolations,
    /// Show that the upgrade was complete before it was restored. Nothing is planned for it and it holds no cluster.
    ShowCompleted(Completed),
    /// Observe, plan, check and commit.
    Plan(Box<PlanRequest>),
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
