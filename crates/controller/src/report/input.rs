//! The input for drafting a status.

use api::mcu::ManagedClustersUpgradeStatus;
use api::preflight::PreflightSummary;
use api::validate::SpecViolation;
use chrono::{DateTime, TimeDelta, Utc};
use resolve::origin::Completed;
use resolve::retry::CarriedOut;
use rollout::remedy::Names;
use rollout::{Plan, Reason};

use super::estimate::Estimated;

/// The input for drafting a status, in addition to the plan.
#[derive(Clone, Debug)]
pub struct StatusInput<'a> {
    /// Generation of the spec.
    pub generation: i64,
    /// Namespace and name of the upgrade, for texts that name commands.
    pub names: Names<'a>,
    /// Version, or else image, to which the spec in force upgrades; empty if there is neither.
    pub target: &'a str,
    /// spec.paused is true.
    pub paused: bool,
    /// Why no cluster starts, if the object was restored or copied.
    pub restored: Option<&'a str>,
    /// Why the selection may be smaller than expected.
    pub notes: &'a [String],
    /// The retries that were carried out.
    pub retries: CarriedOut,
    /// The same once the present one, if there is one, is carried out.
    pub retries_after: CarriedOut,
    /// The record that the hub rejects, if any, with its message.
    pub refused: Option<String>,
    /// How far the controller's clock is ahead of the hub's, if the difference is too large.
    pub skew: Option<TimeDelta>,
    /// What clusters say that have not started; `None` if they are not asked.
    pub preflight: Option<PreflightSummary>,
    /// Clusters that wait for their turn, and what they would refuse the update for, where that holds nobody back; sorted by name.
    pub warned: Vec<Warned<'a>>,
    /// When the upgrade ends, if this pass has estimated it.
    pub estimated: Estimated,
    /// How much of a maintenance window must remain for a start, if the spec leaves that to the estimate.
    pub minimum_remaining: Option<TimeDelta>,
    /// The current time.
    pub now: DateTime<Utc>,
}

/// What a cluster says to the update that is told, and does not keep it from starting (`preflight.mode: Report`).
#[derive(Clone, Copy, Debug)]
pub struct Warned<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// The cause.
    pub reason: Reason,
    /// What it says.
    pub message: &'a str,
}

/// Earlier statuses.
#[derive(Clone, Copy, Debug)]
pub struct PreviousStatus<'a> {
    /// The latest status, whether or not it is written.
    pub latest: &'a ManagedClustersUpgradeStatus,
    /// The status that watchers see.
    pub written: &'a ManagedClustersUpgradeStatus,
}

/// The situation that a status shows.
#[derive(Clone, Copy, Debug)]
pub enum Situation<'a> {
    /// A plan for a valid spec.
    Planned(&'a Plan),
    /// The spec violates rules. With a plan, clusters in flight continue with the last valid spec.
    InvalidSpec {
        /// The rules.
        violations: &'a [SpecViolation],
        /// The plan for the last valid spec.
        plan: Option<&'a Plan>,
    },
    /// The upgrade was complete before its object was restored.
    CompletedBefore(&'a Completed),
    /// The upgrade is being deleted. The text says which write the hub rejects, if any.
    Deleting(Option<&'a str>),
}
