//! Names on the wire: labels, annotations, finalizer, work names, claims.
//!
//! ManifestWorks are part of the controller's durable record (`docs/design/rules.md#works-and-rows`), so their labels and
//! annotations are part of the contract between controller versions.

use std::fmt;

/// Label on a ManifestWork: UID of the MCU that owns it. The controller watches only works that have this key.
pub const LABEL_MCU_UID: &str = "cluster.open-cluster-management.io/managedclustersupgrade-uid";
/// Label on a ManifestWork: the step that it performs, see [`Step::as_str`].
pub const LABEL_STEP: &str = "cluster.open-cluster-management.io/upgrade-step";
/// Label on a report shard: name of its MCU.
pub const LABEL_MCU: &str = "cluster.open-cluster-management.io/managedclustersupgrade";
/// Annotation on a ManifestWork: `namespace/name` of the owning MCU.
pub const ANNOTATION_OWNER: &str = "cluster.open-cluster-management.io/managedclustersupgrade-owner";
/// Annotation on a ManifestWork: revision of the MCU spec that the work is for.
pub const ANNOTATION_REVISION: &str = "cluster.open-cluster-management.io/upgrade-revision";
/// Annotation on a ManifestWork: the retry token of the attempt, absent for the first one.
pub const ANNOTATION_ATTEMPT: &str = "cluster.open-cluster-management.io/upgrade-retry";
/// Annotation on a ManifestWork: UID of the ManagedCluster for which it was sent. A cluster that is registered anew has another one.
pub const ANNOTATION_CLUSTER_UID: &str = "cluster.open-cluster-management.io/upgrade-cluster-uid";
/// Annotation on a ManifestWork: start of the step's clock (RFC 3339, milliseconds).
pub const ANNOTATION_STARTED_AT: &str = "cluster.open-cluster-management.io/upgrade-started-at";
/// Annotation on a ManifestWork: start of the soak (RFC 3339, milliseconds).
pub const ANNOTATION_SOAK_STARTED_AT: &str = "cluster.open-cluster-management.io/upgrade-soak-started-at";
/// Annotation on a ManifestWork: hash of the part of the MCU spec that the step is rendered from.
pub const ANNOTATION_STEP_HASH: &str = "cluster.open-cluster-management.io/upgrade-step-hash";
/// Annotation on a platform work: the version that it requests; absent when it requests only an image. A work of an
/// earlier revision is evaluated by this target, not by that of the current spec.
pub const ANNOTATION_TARGET_VERSION: &str = "cluster.open-cluster-management.io/upgrade-target-version";
/// Annotation on a platform work: the image that it requests, if any.
pub const ANNOTATION_TARGET_IMAGE: &str = "cluster.open-cluster-management.io/upgrade-target-image";
/// Annotation on a platform work: the release image that its cluster reported for the version and that the work requests, because
/// the cluster would not find the version alone. A later change of the work requests the same image.
pub const ANNOTATION_RELEASE_IMAGE: &str = "cluster.open-cluster-management.io/upgrade-release-image";
/// Annotation on a platform work: the names of the risks that the work asks its cluster to accept, separated by spaces. A later change
/// of the work names the same.
pub const ANNOTATION_ACCEPTED_RISKS: &str = "cluster.open-cluster-management.io/upgrade-accepted-risks";
/// Annotation on a platform work: `true` when it does not request the update any more, because the cluster is aborted
/// (`docs/design/rules.md#aborted-clusters`).
pub const ANNOTATION_WITHDRAWN: &str = "cluster.open-cluster-management.io/upgrade-withdrawn";
/// Annotation on an action work: the success checks that its manifests declare, as JSON
/// (`docs/design/rules.md#action-success`).
pub const ANNOTATION_CHECKS: &str = "cluster.open-cluster-management.io/upgrade-checks";
/// Annotation on a report: the resourceVersion of the copy that its last write has replaced, if that write might have changed nothing
/// else (`docs/design/rules.md#late-report-writes`).
pub const ANNOTATION_REPLACES: &str = "cluster.open-cluster-management.io/report-replaces";
/// Annotation on an MCU: any new value queues its failed clusters again (`docs/design/rules.md#retry`).
pub const ANNOTATION_RETRY_FAILED: &str = "cluster.open-cluster-management.io/retry-failed";
/// Annotation on an MCU: the object's UID when the controller first saw it, written together with the finalizer. If
/// the object has another UID now, it was restored from a backup or copied.
pub const ANNOTATION_UPGRADE_UID: &str = "cluster.open-cluster-management.io/upgrade-uid";
/// Annotation on an MCU that was complete: at which revision, when, and with how many clusters, as JSON.
pub const ANNOTATION_COMPLETED: &str = "cluster.open-cluster-management.io/upgrade-completed";
/// Annotation on an MCU: if it has the object's UID, the upgrade continues although it was restored or copied.
pub const ANNOTATION_RESUME_RESTORED: &str = "cluster.open-cluster-management.io/resume-restored";
/// Annotation on the controller's Lease: the version of the leader that wrote it last.
pub const ANNOTATION_LEADER_VERSION: &str = "cluster.open-cluster-management.io/mcu-version";
/// Finalizer of an MCU.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/managedclustersupgrade";
/// Name and namespace of the approval Job on a cluster, and of everything that it needs
/// (`docs/design/rules.md#approval-job`).
pub const APPROVER: &str = "installplan-approver";
/// Field manager of all server-side applies of the controller.
pub const FIELD_MANAGER: &str = "mcu-controller";

/// Label of a ManagedCluster: name of its (exclusive) ManagedClusterSet.
pub const LABEL_CLUSTER_SET: &str = "cluster.open-cluster-management.io/clusterset";
/// Label of a PlacementDecision: name of its Placement.
pub const LABEL_PLACEMENT: &str = "cluster.open-cluster-management.io/placement";
/// Label of the ManagedCluster that is the hub itself.
pub const LABEL_LOCAL_CLUSTER: &str = "local-cluster";
/// Label that has a cluster's name by convention. Plain OCM does not set it, so selectors fall back to
/// `metadata.name` (`docs/design/rules.md#name-key`).
pub const LABEL_NAME: &str = "name";
/// Selector key that matches the name of the ManagedCluster and never a label, because a cluster can write its
/// labels.
pub const KEY_METADATA_NAME: &str = "metadata.name";
/// Usual name of the ManagedCluster that is the hub itself.
pub const LOCAL_CLUSTER: &str = "local-cluster";
/// Label that has the cluster ID if there is no claim.
pub const LABEL_CLUSTER_ID: &str = "clusterID";
/// Label that has the product if there is no claim.
pub const LABEL_VENDOR: &str = "vendor";
/// Label that has the OpenShift version if there is no claim.
pub const LABEL_OPENSHIFT_VERSION: &str = "openshiftVersion";
/// Label with the OCM version of a cluster's work agent, such as `v1.2.1`. Whoever installs agents sets it.
pub const LABEL_AGENT_VERSION: &str = "cluster.open-cluster-management.io/work-agent-version";
/// Cluster claim with the OpenShift cluster ID.
pub const CLAIM_ID: &str = "id.openshift.io";
/// Cluster claim with the product.
pub const CLAIM_PRODUCT: &str = "product.open-cluster-management.io";
/// Cluster claim that says where the control plane runs; see [`TOPOLOGY_EXTERNAL`].
pub const CLAIM_CONTROL_PLANE_TOPOLOGY: &str = "controlplanetopology.openshift.io";
/// Value of the claim when the control plane is hosted on another cluster.
pub const TOPOLOGY_EXTERNAL: &str = "External";
/// Cluster claim with the OpenShift version.
pub const CLAIM_VERSION: &str = "version.openshift.io";

/// Longest MCU name. It is the longest label value, because the labels of the reports contain the name.
pub const MAX_MCU_NAME: usize = 63;

/// A step of a cluster's upgrade. One ManifestWork per cluster carries it out.
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
    /// All steps, in the order in which a cluster goes through them.
    pub const ALL: [Step; 4] = [Step::PreAction, Step::Platform, Step::Operators, Step::PostAction];

    /// Position in [`Step::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Value of [`LABEL_STEP`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Step::PreAction => "pre-upgrade-action",
            Step::Platform => "cluster-upgrade",
            Step::Operators => "operators-upgrade",
            Step::PostAction => "post-upgrade-action",
        }
    }

    /// Reads a value of [`LABEL_STEP`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Step> {
        Step::ALL.into_iter().find(|step| step.as_str() == text)
    }

    /// Name of the step's ManifestWork in the cluster's namespace, `<cluster>-<step>`.
    #[must_use]
    pub fn work_name(self, cluster: &str) -> String {
        format!("{cluster}-{}", self.as_str())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Value of [`LABEL_STEP`] on the probe: the work that asks a cluster, before its update, what it would say to it. It is no step.
pub const PROBE: &str = "upgrade-preflight";

/// Name of the probe in the namespace of a cluster.
#[must_use]
pub fn probe_name(cluster: &str) -> String {
    format!("{cluster}-{PROBE}")
}

/// A work of an upgrade in the namespace of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkKind {
    /// The work of a step.
    Step(Step),
    /// The probe.
    Probe,
}

impl WorkKind {
    /// Name of the work in the namespace of a cluster.
    #[must_use]
    pub fn work_name(self, cluster: &str) -> String {
        match self {
            Self::Step(step) => step.work_name(cluster),
            Self::Probe => probe_name(cluster),
        }
    }
}

/// Name of the n-th report shard of an MCU (n from 1), as OCM names PlacementDecisions.
#[must_use]
pub fn report_name(mcu: &str, shard: usize) -> String {
    format!("{mcu}-report-{shard}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_names_are_the_cluster_and_what_its_step_does() {
        let names: Vec<_> = Step::ALL.iter().map(|step| step.work_name("spoke1")).collect();
        assert_eq!(
            names,
            [
                "spoke1-pre-upgrade-action",
                "spoke1-cluster-upgrade",
                "spoke1-operators-upgrade",
                "spoke1-post-upgrade-action"
            ]
        );
    }

    #[test]
    fn a_step_label_reads_back() {
        for step in Step::ALL {
            assert_eq!(Step::parse(step.as_str()), Some(step));
        }
        assert_eq!(Step::parse("rollback"), None);
        assert_eq!(Step::parse(PROBE), None);
    }
}
