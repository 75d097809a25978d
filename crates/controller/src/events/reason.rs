//! The reasons of Events. The set is closed, because people filter and alert on it.

/// Severity of an Event (`type` of events.k8s.io/v1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Informative.
    Normal,
    /// A human should investigate.
    Warning,
}

impl Severity {
    /// The value of the Event's `type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        }
    }
}

/// What an Event concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The upgrade as a whole.
    Upgrade,
    /// One cluster, named in `related`.
    Cluster,
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident, $scope:ident, $severity:ident, $action:literal;)+) => {
        /// Why an Event is published.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum EventReason { $($(#[doc = $doc])+ $name),+ }

        impl EventReason {
            /// Every reason with its meaning, for the reference documentation.
            pub const ALL: &'static [(EventReason, &'static str)] = &[$((EventReason::$name, concat!($($doc),+))),+];

            /// The Event's `reason`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(EventReason::$name => stringify!($name)),+ }
            }

            /// The Event's `action`: what the controller was doing.
            #[must_use]
            pub const fn action(self) -> &'static str {
                match self { $(EventReason::$name => $action),+ }
            }

            /// The Event's `type`.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(EventReason::$name => Severity::$severity),+ }
            }

            /// Whether it is about the upgrade or one cluster.
            #[must_use]
            pub const fn scope(self) -> Scope {
                match self { $(EventReason::$name => Scope::$scope),+ }
            }
        }
    };
}

reasons! {
    /// Clusters were selected.
    Selected, Upgrade, Normal, "Select";
    /// The first cluster was started.
    Started, Upgrade, Normal, "Upgrade";
    /// Every canary is complete; the other clusters may start.
    CanariesComplete, Upgrade, Normal, "Upgrade";
    /// The upgrade was paused: no cluster starts, clusters in flight continue.
    Paused, Upgrade, Normal, "Pause";
    /// The upgrade continues after a pause.
    Resumed, Upgrade, Normal, "Resume";
    /// No further cluster starts until somebody approves the plan.
    ApprovalRequested, Upgrade, Normal, "Approve";
    /// Somebody approved the plan at a checkpoint.
    Approved, Upgrade, Normal, "Approve";
    /// Every selected cluster is complete.
    Completed, Upgrade, Normal, "Upgrade";
    /// Failed clusters are retried.
    Retrying, Upgrade, Normal, "Retry";
    /// A canary failed or is degraded; no other cluster starts.
    CanaryFailed, Upgrade, Warning, "Upgrade";
    /// More clusters failed than maxFailures allows; no other cluster starts.
    MaxFailuresExceeded, Upgrade, Warning, "Upgrade";
    /// The spec violates a rule that admission could not check.
    InvalidSpec, Upgrade, Warning, "Validate";
    /// No cluster will move until a human acts.
    Stalled, Upgrade, Warning, "Upgrade";
    /// The hub rejects the record of a cluster; the records of the other clusters are stored.
    RecordRefused, Upgrade, Warning, "Record";
    /// The planned changes violate a safety rule, so none were made. This is a bug of the controller.
    PlanRefused, Upgrade, Warning, "Upgrade";
    /// A cluster has started. If many start together, one Event says how many.
    ClusterStarted, Cluster, Normal, "Upgrade";
    /// A cluster is complete. If many end together, one Event says how many.
    ClusterCompleted, Cluster, Normal, "Upgrade";
    /// A cluster failed.
    ClusterFailed, Cluster, Warning, "Upgrade";
    /// The pre-action of a cluster failed or timed out.
    PreActionDegraded, Cluster, Warning, "PreAction";
    /// This upgrade cannot upgrade the cluster.
    ClusterBlocked, Cluster, Warning, "Select";
}

impl EventReason {
    /// True for what clusters bring about by their ends, so it is told after them.
    #[must_use]
    pub const fn follows_clusters(self) -> bool {
        match self {
            EventReason::CanariesComplete
            | EventReason::ApprovalRequested
            | EventReason::Completed
            | EventReason::CanaryFailed
            | EventReason::MaxFailuresExceeded
            | EventReason::Stalled => true,
            EventReason::Selected
            | EventReason::Started
            | EventReason::Paused
            | EventReason::Resumed
            | EventReason::Approved
            | EventReason::Retrying
            | EventReason::InvalidSpec
            | EventReason::RecordRefused
            | EventReason::PlanRefused
            | EventReason::ClusterStarted
            | EventReason::ClusterCompleted
            | EventReason::ClusterFailed
            | EventReason::PreActionDegraded
            | EventReason::ClusterBlocked => false,
        }
    }
}
