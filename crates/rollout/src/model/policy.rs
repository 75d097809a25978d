//! What was requested: a spec after validation, reduced to what planning needs.

use std::sync::Arc;

use api::names::Step;
use api::validate::Limit;
use chrono::TimeDelta;

use crate::model::approval::{Checkpoint, KnownApprovals};
use crate::model::retry::PendingRetry;

/// Hash of what a step's work is rendered from. A work with another hash was rendered from another spec.
pub type StepHash = Arc<str>;

/// Why an upgrade starts no cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// `spec.paused`.
    Paused,
    /// The spec was edited and now violates a rule. The policy is that of the last valid revision.
    InvalidSpec,
    /// The object was restored from a backup or copied, and has not been resumed.
    Restored,
}

/// The policy of one upgrade.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches of the spec")]
pub struct Policy {
    /// Revision of the spec: hash over clusterVersion, operators and actions.
    pub revision: Arc<str>,
    /// Hash of each requested step; `None` if the step is not requested.
    pub steps: [Option<StepHash>; 4],
    /// The retry to carry out. It is set until the status says that it was.
    pub retry: Option<PendingRetry>,
    /// Why no cluster starts although slots may be free. Clusters in flight finish all their steps.
    pub hold: Option<Hold>,
    /// True when the upgrade is being deleted. Its works are deleted and nothing else happens.
    pub deleting: bool,
    /// Number of clusters that may hold a slot.
    pub max_concurrency: Limit,
    /// Number of failed clusters that is tolerated, not counting canaries; `None` means any number.
    pub max_failures: Option<Limit>,
    /// Length of the soak; `None` or zero means that there is no soak.
    pub min_success_time: Option<TimeDelta>,
    /// Time limit of the platform step, and of an action if it has none of its own.
    pub cluster_timeout: TimeDelta,
    /// Time limit of an action.
    pub action_timeout: Option<TimeDelta>,
    /// Time limit of the worker pools after the ClusterVersion is updated; `None` if the platform step does not include
    /// them.
    pub worker_pools_timeout: Option<TimeDelta>,
    /// Time limit of the operators step: operatorsUpgradeTimeout + 90 s + the configured grace.
    pub operators_timeout: TimeDelta,
    /// True when canaries are requested, whether or not any cluster matches.
    pub canaries: bool,
    /// False while this process's clock differs from the hub's. No deadline fires and no soak ends then.
    pub clock_trusted: bool,
    /// The requested version, for messages and rows; empty when only an image or only operators are requested.
    pub target: Arc<str>,
    /// `spec.clusterVersion.allowDowngrade`: a cluster that runs a newer version than the target is started as well.
    pub allow_downgrade: bool,
    /// `spec.preflight.mode: Require`: only clusters that would take the update are started.
    pub requires_preflight: bool,
    /// With `spec.preflight.mode: Report`: the form of the request follows from the risks that a cluster tells, so it starts only when
    /// it has answered, or was waited for until the timeout.
    pub awaits_answers: bool,
    /// The points of the rollout at which starts wait for an approval, in the order of the spec.
    pub checkpoints: Vec<Checkpoint>,
    /// How far the approvals are known. Without present ones nothing starts behind a checkpoint.
    pub approvals: KnownApprovals,
    /// Hash of everything in the spec that an approval covers.
    pub spec_hash: Arc<str>,
}

impl Policy {
    /// True when the step is requested.
    #[must_use]
    pub fn wants(&self, step: Step) -> bool {
        self.steps[step.index()].is_some()
    }

    /// True when a cluster begins the step only if it would take the update. `is_pending`: it is still to answer.
    #[must_use]
    pub fn requires_preflight(&self, step: Step, is_pending: bool) -> bool {
        let is_required = self.requires_preflight || (self.awaits_answers && is_pending);
        is_required && self.wants(Step::Platform) && step <= Step::Platform
    }

    /// The soak, if there is one.
    #[must_use]
    pub fn soak(&self) -> Option<TimeDelta> {
        self.min_success_time.filter(|length| *length > TimeDelta::zero())
    }

    /// The time limit of a step.
    #[must_use]
    pub fn timeout(&self, step: Step) -> TimeDelta {
        match step {
            Step::Operators => self.operators_timeout,
            Step::Platform => self.cluster_timeout,
            Step::PreAction | Step::PostAction => self.action_timeout.unwrap_or(self.cluster_timeout),
        }
    }
}
