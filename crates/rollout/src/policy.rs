//! What was asked for: a spec that was validated and broken down to what planning needs.

use std::sync::Arc;

use chrono::TimeDelta;

use crate::phase::Step;

/// Hash of what a step is rendered from; a work with another hash serves another spec.
pub type StepHash = Arc<str>;

/// Why an upgrade starts nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// `spec.paused`.
    Paused,
    /// The spec has been edited into one that breaks a rule; the policy is that of its last valid revision.
    InvalidSpec,
    /// The object was restored from a backup, or copied, and nobody has said yet that it is to go on.
    Restored,
}

/// The policy of one upgrade.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Revision of the spec: hash over clusterVersion, operators and actions.
    pub revision: Arc<str>,
    /// Hash of each requested step; `None`: the step is not requested.
    pub steps: [Option<StepHash>; 4],
    /// The retry token to carry out: set while it differs from the one the status has observed.
    pub retry: Option<Arc<str>>,
    /// Why nothing starts although slots may be free; what is in flight runs all its steps.
    pub hold: Option<Hold>,
    /// True: the upgrade is being deleted; its works go, nothing else happens.
    pub deleting: bool,
    /// Clusters that may hold a slot.
    pub max_concurrency: Limit,
    /// Failed clusters, canaries excluded, that are allowed; `None`: any number.
    pub max_failures: Option<Limit>,
    /// Length of the soak; `None` or zero: no such phase.
    pub min_success_time: Option<TimeDelta>,
    /// Longest time of the platform step and of an action.
    pub cluster_timeout: TimeDelta,
    /// Longest time of the operators step: operatorsUpgradeTimeout + 90 s + the configured grace.
    pub operators_timeout: TimeDelta,
    /// True: canaries are asked for, whether or not any cluster matches.
    pub canaries: bool,
    /// False while the clock that the plan is made by differs from the hub's: then no deadline fires and no soak ends.
    pub clock_trusted: bool,
    /// Version asked for, for texts and rows; empty when only an image or only operators are asked for.
    pub target: Arc<str>,
    /// `spec.clusterVersion.allowDowngrade`: a cluster that runs a newer version than the target is started all the same.
    pub allow_downgrade: bool,
}

impl Policy {
    /// True when the step is requested.
    #[must_use]
    pub fn wants(&self, step: Step) -> bool {
        self.steps[step.index()].is_some()
    }

    /// The soak, if there is one.
    #[must_use]
    pub fn soak(&self) -> Option<TimeDelta> {
        self.min_success_time.filter(|length| *length > TimeDelta::zero())
    }

    /// Time a step may take.
    #[must_use]
    pub fn timeout(&self, step: Step) -> TimeDelta {
        match step {
            Step::Operators => self.operators_timeout,
            Step::PreAction | Step::Platform | Step::PostAction => self.cluster_timeout,
        }
    }
}

/// A number of clusters, or a percentage of them, rounded up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Clusters.
    Count(u32),
    /// Percent of all selected clusters.
    Percent(u32),
}

impl Limit {
    /// The number in force for `total` clusters (percent: ceil).
    #[must_use]
    pub fn of(self, total: usize) -> usize {
        match self {
            Limit::Count(count) => count as usize,
            Limit::Percent(percent) => (total * percent as usize).div_ceil(100),
        }
    }
}
