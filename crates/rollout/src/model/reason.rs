//! Why a cluster is in its state: a closed set, so that causes can be counted, documented and looked up.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// Machine-readable cause of a cluster's phase.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
            /// A reason that a newer release wrote and this one does not know. The record contains its text.
            Other,
        }

        impl Reason {
            /// Every reason with its meaning, for the reference documentation.
            pub const ALL: &[(Reason, &str)] = &[$((Reason::$name, concat!($($doc),+))),+];

            /// The reason as written in rows and lists.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$name => stringify!($name),)+ Reason::Other => "Other" }
            }

            /// Reads a reason back from a row.
            #[must_use]
            pub fn parse(text: &str) -> Option<Reason> {
                match text { $(stringify!($name) => Some(Reason::$name),)+ _ => None }
            }
        }
    };
}

reasons! {
    /// There is nothing to explain.
    None,
    /// The cluster waits for a free slot of maxConcurrency.
    WaitingForSlot,
    /// The cluster waits until every canary is complete.
    WaitingForCanaries,
    /// A canary failed or is degraded. No further cluster starts until the canary is retried or the spec changes.
    CanaryFailed,
    /// The cluster waits for an approval of the plan.
    WaitingForApproval,
    /// The canary selector matches no cluster, so no cluster starts.
    NoCanarySelected,
    /// The spec of the upgrade violates a rule. No cluster starts until it is fixed.
    InvalidSpec,
    /// spec.upgradeStrategy.skip names the cluster, so it is not upgraded.
    Skipped,
    /// spec.upgradeStrategy.abort names the cluster, and what it was asked for is being withdrawn.
    Aborting,
    /// spec.upgradeStrategy.abort names the cluster. What it was asked for is withdrawn, and it is not upgraded.
    Aborted,
    /// The upgrade is paused.
    Paused,
    /// The upgrade was restored from a backup or copied. No cluster starts until it is resumed.
    Restored,
    /// More clusters failed than maxFailures allows, so no further cluster starts.
    MaxFailuresExceeded,
    /// The cluster waits for its maintenance window.
    WaitingForWindow,
    /// The maintenance windows never open for the cluster, or none selects it.
    NoWindow,
    /// The cluster, or the spec for it, names a time zone that does not exist.
    InvalidTimeZone,
    /// The cluster is not available. It starts when its agent is back.
    ClusterUnavailable,
    /// A work of an earlier attempt is being removed. The step starts when it is gone.
    WaitingForCleanup,
    /// A write to the hub failed and will be repeated.
    WriteFailed,
    /// The hub rejects the step's ManifestWork as invalid. The spec or the hub must change.
    WorkRefused,
    /// The cluster left the selection. It is dropped unless it comes back within seconds.
    LeftSelection,
    /// The cluster's ID is not a UUID.
    InvalidClusterID,
    /// The cluster's product is not OpenShift.
    NotOpenShift,
    /// The cluster's product is a managed service that upgrades itself.
    ManagedService,
    /// The cluster's control plane is hosted on another cluster, which upgrades it.
    HostedControlPlane,
    /// The cluster is the hub itself, and either the controller may not upgrade it or no selector names it.
    LocalCluster,
    /// Another upgrade holds the cluster, or no upgrade manages a ManifestWork of the same name.
    Conflict,
    /// The cluster runs a newer version than the target, and spec.clusterVersion.allowDowngrade is not set.
    NewerThanTarget,
    /// The cluster is asked whether it would take the update, and has not answered yet.
    PreflightPending,
    /// The cluster cannot be asked whether it would take the update.
    PreflightUnsupported,
    /// The work agent may not read what the preflight asks for.
    PreflightForbidden,
    /// The cluster could not be asked, or has not answered, for longer than preflight.timeout.
    PreflightUnknown,
    /// The cluster does not offer the version.
    NotOffered,
    /// A risk of the update applies to the cluster, and nobody accepted it.
    RiskNotAccepted,
    /// It is not known whether a risk of the update applies to the cluster.
    RiskUnknown,
    /// A gate of the cluster asks for an acknowledgment.
    AdminAckRequired,
    /// Another update runs on the cluster.
    Updating,
    /// The cluster evaluates the updates of another channel than the one that the spec names.
    ChannelDiffers,
    /// A worker pool of the cluster is degraded.
    PoolDegraded,
    /// A worker pool of the cluster is paused.
    PoolPaused,
    /// The ManagedCluster cannot be read.
    UnreadableCluster,
    /// The ManifestWork's status cannot be read.
    UnreadableStatus,
    /// The annotations of a ManifestWork of this upgrade are not what the controller writes.
    UnreadableWork,
    /// The row of the cluster in the report cannot be read. It is kept as it is, and nothing is done for the
    /// cluster.
    UnreadableRecord,
    /// The agent has not reported on the ManifestWork yet.
    AgentSilent,
    /// The agent could not apply the ManifestWork.
    NotApplied,
    /// The manifests are applied but not available.
    NotAvailable,
    /// The step is running.
    Running,
    /// The cluster has not accepted the requested update yet.
    NotStarted,
    /// The agent has not reported any feedback values yet.
    NoFeedback,
    /// The agent's report is older than the current ManifestWork.
    StaleStatus,
    /// The cluster is fetching and verifying the release.
    RetrievingRelease,
    /// A cluster operator takes longer than expected.
    SlowClusterOperator,
    /// The cluster is working towards the target.
    Progressing,
    /// The Job is running.
    JobRunning,
    /// The Job has failed pods and retries until its backoffLimit is reached.
    JobFailing,
    /// The Job failed.
    JobFailed,
    /// A declared success check does not hold yet.
    Incomplete,
    /// The work is reported as degraded.
    Degraded,
    /// The request in the cluster's ClusterVersion has mode Preflight, so the cluster only checks the update.
    PreflightOnly,
    /// The cluster rejects the requested update as invalid.
    InvalidUpdate,
    /// The cluster did not accept the release.
    ReleaseNotAccepted,
    /// The cluster reports that it cannot be upgraded.
    NotUpgradeable,
    /// The cluster-version operator reports a failure.
    Failing,
    /// The cluster could not fetch its update graph.
    UpdatesNotRetrieved,
    /// The platform upgrade did not finish within clusterUpgradeTimeout.
    ClusterUpgradeTimeout,
    /// The worker pools were not updated within workerPoolsTimeout.
    WorkerPoolsTimeout,
    /// The operators did not finish within operatorsUpgradeTimeout.
    OperatorsUpgradeTimeout,
    /// The approval Job failed.
    OperatorsJobFailed,
    /// The pre-action failed.
    PreActionFailed,
    /// The pre-action did not finish within actionTimeout, or clusterUpgradeTimeout if that is unset.
    PreActionTimeout,
    /// The post-action failed.
    PostActionFailed,
    /// The post-action did not finish within actionTimeout, or clusterUpgradeTimeout if that is unset.
    PostActionTimeout,
    /// The cluster failed or changed its version within minSuccessTime.
    RegressedInSoak,
    /// The cluster is watched until minSuccessTime has passed.
    Soaking,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
