//! Condition types and reasons of a `ManagedClustersUpgrade` (`docs/design/rules.md#eight-conditions`).
//!
//! Reasons are part of the contract with pipelines and dashboards: a closed set, never built from input.

/// At least one cluster is selected.
pub const SELECTED: &str = "Selected";
/// At least one pre action or upgrade configuration was applied; stays True.
pub const APPLIED: &str = "Applied";
/// At least one cluster is in partial upgrade.
pub const IN_PROGRESS: &str = "InProgress";
/// At least one cluster is selected and all are complete, post actions included.
pub const COMPLETE: &str = "Complete";
/// At least one cluster failed.
pub const FAILED: &str = "Failed";
/// kstatus: equals Complete.
pub const READY: &str = "Ready";
/// kstatus: something is in flight or will start without a human.
pub const RECONCILING: &str = "Reconciling";
/// kstatus: neither complete nor paused, and nothing will move without a human.
pub const STALLED: &str = "Stalled";

/// The controller's clock differs from the hub's by more than 30 seconds, so no deadline fires. Listed only while it is so.
pub const CLOCK_SKEW: &str = "ClockSkew";

/// Every condition type that is always there, in the order in which the status lists them.
pub const TYPES: [&str; 8] = [
    SELECTED,
    APPLIED,
    IN_PROGRESS,
    COMPLETE,
    FAILED,
    READY,
    RECONCILING,
    STALLED,
];

/// Reasons of the conditions.
pub mod reason {
    /// Selected=True.
    pub const CLUSTERS_SELECTED: &str = "ManagedClustersSelected";
    /// Selected=False.
    pub const CLUSTERS_NOT_SELECTED: &str = "ManagedClustersNotSelected";
    /// Applied.
    pub const APPLIED: &str = "ManagedClustersUpgradeApplied";
    /// `InProgress`.
    pub const IN_PROGRESS: &str = "ManagedClustersUpgradeInProgress";
    /// Complete and Ready.
    pub const COMPLETE: &str = "ManagedClustersUpgradeComplete";
    /// Failed.
    pub const FAILED: &str = "ManagedClustersUpgradeFailed";
    /// Complete and Ready: it was complete before the object was restored, and is not run again.
    pub const COMPLETED_BEFORE: &str = "CompletedBefore";
    /// Stalled=True and Ready=False: the object was restored or copied, and starts nothing until it is resumed.
    pub const RESTORED: &str = "Restored";
    /// Ready=False while paused.
    pub const PAUSED: &str = "Paused";
    /// Reconciling=True.
    pub const RECONCILING: &str = "UpgradeRunning";
    /// Reconciling=False: nothing is in flight and nothing starts by itself.
    pub const IDLE: &str = "NothingToDo";
    /// Stalled=False.
    pub const MOVING: &str = "NotStalled";
    /// Stalled=True, Ready=False and Reconciling=False: the spec breaks a rule.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The upgrade is being deleted.
    pub const DELETING: &str = "Deleting";
    /// Stalled=True: a write that the deletion needs is refused.
    pub const DELETION_REFUSED: &str = "DeletionRefused";
    /// Stalled=True: the hub refuses to store the record of a cluster.
    pub const RECORD_REFUSED: &str = "RecordRefused";
    /// Stalled=True: the selection is empty.
    pub const NOTHING_SELECTED: &str = "NothingSelected";
    /// Stalled=True: a canary failed or its pre action is degraded.
    pub const CANARY_FAILED: &str = "CanaryFailed";
    /// Stalled=True: more clusters failed than `maxFailures` allows.
    pub const MAX_FAILURES_EXCEEDED: &str = "MaxFailuresExceeded";
    /// Stalled=True: only failed or degraded clusters are left.
    pub const CLUSTERS_FAILED: &str = "ClustersFailed";
    /// `ClockSkew=True`.
    pub const CLOCK_SKEW: &str = "ClockSkew";
    /// Stalled=True: only blocked clusters are left.
    pub const CLUSTERS_BLOCKED: &str = "ClustersBlocked";
}
