//! Condition types and reasons of a `ManagedClustersUpgrade` (`docs/design/rules.md#eight-conditions`).
//!
//! Pipelines and dashboards rely on the reasons, so they are a closed set and never built from input.

/// At least one cluster is selected.
pub const SELECTED: &str = "Selected";
/// At least one pre-action or upgrade was applied to a cluster. Stays True.
pub const APPLIED: &str = "Applied";
/// At least one cluster is updating its platform or its operators.
pub const IN_PROGRESS: &str = "InProgress";
/// At least one cluster is selected and all are complete, including their post-actions.
pub const COMPLETE: &str = "Complete";
/// At least one cluster failed.
pub const FAILED: &str = "Failed";
/// Ready for kstatus. Equals Complete.
pub const READY: &str = "Ready";
/// Reconciling for kstatus. A cluster is in flight or will start without a human.
pub const RECONCILING: &str = "Reconciling";
/// Stalled for kstatus. The upgrade is neither complete nor paused, and nothing will move until a human acts.
pub const STALLED: &str = "Stalled";

/// The controller's clock differs from the hub's by more than 30 seconds, so no deadline fires. Listed only while
/// this is the case.
pub const CLOCK_SKEW: &str = "ClockSkew";

/// Every condition type that is always present, in the order in which the status lists them.
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
    /// Complete and Ready: the upgrade was complete before its object was restored, and does not run again.
    pub const COMPLETED_BEFORE: &str = "CompletedBefore";
    /// Stalled=True and Ready=False: the object was restored or copied. No cluster starts until a human resumes it.
    pub const RESTORED: &str = "Restored";
    /// Ready=False while paused.
    pub const PAUSED: &str = "Paused";
    /// Reconciling=True.
    pub const RECONCILING: &str = "UpgradeRunning";
    /// Reconciling=False: no cluster is in flight and none will start without a human.
    pub const IDLE: &str = "NothingToDo";
    /// Stalled=False.
    pub const MOVING: &str = "NotStalled";
    /// Stalled=True, Ready=False and Reconciling=False: the spec violates a rule.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The upgrade is being deleted.
    pub const DELETING: &str = "Deleting";
    /// Stalled=True: the hub refuses a write that the deletion needs.
    pub const DELETION_REFUSED: &str = "DeletionRefused";
    /// Stalled=True: the hub refuses to store the record of a cluster.
    pub const RECORD_REFUSED: &str = "RecordRefused";
    /// Stalled=True: the selection is empty.
    pub const NOTHING_SELECTED: &str = "NothingSelected";
    /// Stalled=True: a canary failed or its pre-action is degraded.
    pub const CANARY_FAILED: &str = "CanaryFailed";
    /// Stalled=True: more clusters failed than `maxFailures` allows.
    pub const MAX_FAILURES_EXCEEDED: &str = "MaxFailuresExceeded";
    /// Stalled=True: all other clusters are done; only failed or degraded ones remain.
    pub const CLUSTERS_FAILED: &str = "ClustersFailed";
    /// `ClockSkew=True`.
    pub const CLOCK_SKEW: &str = "ClockSkew";
    /// Stalled=True: all other clusters are done; only blocked ones remain.
    pub const CLUSTERS_BLOCKED: &str = "ClustersBlocked";
}
