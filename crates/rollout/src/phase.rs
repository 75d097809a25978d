//! Steps and phases of a cluster.

/// A step carried out by one ManifestWork, in the order a cluster takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// The user's action before the upgrade.
    PreAction,
    /// The ClusterVersion update.
    Platform,
    /// Approval of the operators' InstallPlans.
    Operators,
    /// The user's action after the upgrade.
    PostAction,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 4] = [Step::PreAction, Step::Platform, Step::Operators, Step::PostAction];

    /// Position in [`Step::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Where a cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Selected, not started.
    Pending,
    /// Cannot start; the reason says why.
    Blocked,
    /// The pre-action runs.
    PreAction,
    /// The pre-action failed or timed out; it recovers by itself if its work does.
    PreActionDegraded,
    /// The platform work exists; the cluster has not taken the target yet.
    Initialized,
    /// The cluster is updating to the target.
    Partial,
    /// The operators' Job runs.
    Operators,
    /// Upgraded and watched for `minSuccessTime`.
    Soaking,
    /// Platform and operators are done, the soak is over; no post-action is left to do.
    Complete,
    /// Complete, the post-action runs.
    PostAction,
    /// Failed; the reason says why.
    Failed,
}

impl Phase {
    /// True while the cluster holds a slot of `maxConcurrency` (`docs/design/rules.md#slots`).
    #[must_use]
    pub const fn holds_slot(self) -> bool {
        matches!(
            self,
            Phase::PreAction | Phase::Initialized | Phase::Partial | Phase::Operators
        )
    }

    /// True when the cluster counts as initialized; the others count as pending.
    #[must_use]
    pub const fn is_initialized(self) -> bool {
        matches!(
            self,
            Phase::Initialized
                | Phase::Partial
                | Phase::Operators
                | Phase::Soaking
                | Phase::Complete
                | Phase::PostAction
                | Phase::Failed
        )
    }

    /// True when the upgrade proper has started: such a cluster goes on when it leaves the selection
    /// (`docs/design/rules.md#leavers`).
    #[must_use]
    pub const fn is_started(self) -> bool {
        self.is_initialized()
    }

    /// True when nothing further happens to the cluster within its attempt, unless its post-action recovers
    /// (`docs/design/rules.md#terminal-phases`).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Phase::Complete | Phase::Failed)
    }
}
