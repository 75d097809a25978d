//! The reasons of Events: a closed set, part of the contract with those who filter and alert on them.

/// Severity of an Event (`type` of events.k8s.io/v1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// For the record.
    Normal,
    /// Somebody should look.
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
        pub enum Reason { $($(#[doc = $doc])+ $name),+ }

        impl Reason {
            /// Every reason with its meaning, for the reference documentation.
            pub const ALL: &'static [(Reason, &'static str)] = &[$((Reason::$name, concat!($($doc),+))),+];

            /// The Event's `reason`.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$name => stringify!($name)),+ }
            }

            /// The Event's `action`: what the controller was doing.
            #[must_use]
            pub const fn action(self) -> &'static str {
                match self { $(Reason::$name => $action),+ }
            }

            /// The Event's `type`.
            #[must_use]
            pub const fn severity(self) -> Severity {
                match self { $(Reason::$name => Severity::$severity),+ }
            }

            /// Whether it is about the upgrade or one cluster.
            #[must_use]
            pub const fn scope(self) -> Scope {
                match self { $(Reason::$name => Scope::$scope),+ }
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
    /// The upgrade was paused: nothing starts, what runs goes on.
    Paused, Upgrade, Normal, "Pause";
    /// The upgrade goes on after a pause.
    Resumed, Upgrade, Normal, "Resume";
    /// Every selected cluster is complete.
    Completed, Upgrade, Normal, "Upgrade";
    /// Failed clusters are tried again.
    Retrying, Upgrade, Normal, "Retry";
    /// A canary failed or is degraded; nothing further starts.
    CanaryFailed, Upgrade, Warning, "Upgrade";
    /// More clusters failed than maxFailures allows; nothing further starts.
    MaxFailuresExceeded, Upgrade, Warning, "Upgrade";
    /// The spec breaks a rule that admission could not check.
    InvalidSpec, Upgrade, Warning, "Validate";
    /// Nothing will move without a human.
    Stalled, Upgrade, Warning, "Upgrade";
    /// The hub refuses to store the record of a cluster; those of the other clusters are stored.
    RecordRefused, Upgrade, Warning, "Record";
    /// The independent check refused a plan and nothing of it was written: a defect of the controller.
    PlanRefused, Upgrade, Warning, "Upgrade";
    /// A cluster failed.
    ClusterFailed, Cluster, Warning, "Upgrade";
    /// A cluster's pre-action failed or timed out.
    PreActionDegraded, Cluster, Warning, "PreAction";
    /// A cluster cannot be upgraded by this upgrade.
    ClusterBlocked, Cluster, Warning, "Select";
}
