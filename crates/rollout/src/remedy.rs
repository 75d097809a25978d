//! The next step for a cluster or an upgrade: one text per reason, and one per phase for reasons of newer releases. The status,
//! the reports' readers and the plugin take them from here.
//!
//! A text says who has to act: nobody (the controller continues automatically), the user on the cluster, or the user on the
//! hub. `{name}`, `{namespace}` and `{cluster}` are replaced by the names in question.

use api::conditions::reason;
use api::report::Phase;

use crate::model::Reason;

/// Reasons of report rows and of the lists of the status, in the order of [`Reason`].
const CLUSTERS: &[(Reason, &str)] = &[
    (
        Reason::WaitingForSlot,
        "Nothing to do: the cluster starts when a slot becomes free. To upgrade more clusters at the same time, raise spec.upgradeStrategy.maxConcurrency.",
    ),
    (
        Reason::WaitingForCanaries,
        "Nothing to do: the cluster starts when every canary is complete.",
    ),
    (
        Reason::CanaryFailed,
        "Find out why the canary failed (kubectl mcu clusters {name} -n {namespace} --phase Failed --phase PreActionDegraded), fix it, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::WaitingForApproval,
        "Somebody with role mcu-approver must approve the plan: kubectl mcu approvals -n {namespace} shows what is waiting, kubectl mcu approve {name} CHECKPOINT -n {namespace} approves it.",
    ),
    (
        Reason::NoCanarySelected,
        "Fix spec.upgradeStrategy.canaryClusters.clusterSelector: it matches no cluster of a ManagedClusterSet that is bound to {namespace}.",
    ),
    (
        Reason::InvalidSpec,
        "Fix the spec of {name}: kubectl mcu status {name} -n {namespace} names the invalid field. The cluster then starts automatically.",
    ),
    (
        Reason::Skipped,
        "Nothing to do: the spec skips the cluster. To upgrade it after all, run kubectl mcu unskip {name} {cluster} -n {namespace}.",
    ),
    (
        Reason::Aborting,
        "Nothing to do: the request of the update is withdrawn. If the cluster does not confirm that, check its agents; fields of spec.desiredUpdate that somebody else has set are cleared on the cluster by oc adm upgrade --clear.",
    ),
    (
        Reason::Aborted,
        "Nothing to do: the spec aborts the cluster. To upgrade it after all, remove it from spec.upgradeStrategy.abort of {name} (kubectl mcu unskip {name} {cluster} -n {namespace}).",
    ),
    (Reason::Paused, "Run kubectl mcu resume {name} -n {namespace}."),
    (
        Reason::Restored,
        "The upgrade was restored from a backup, or copied. Check the state of its clusters, then run kubectl mcu resume {name} -n {namespace} to continue, or delete the upgrade.",
    ),
    (
        Reason::MaxFailuresExceeded,
        "Fix the failed clusters and run kubectl mcu retry {name} -n {namespace}, or raise spec.upgradeStrategy.maxFailures.",
    ),
    (
        Reason::WaitingForWindow,
        "Nothing to do: the cluster starts when its maintenance window opens and a slot is free. kubectl mcu windows {name} -n {namespace} shows when. To start it earlier, change spec.maintenance.",
    ),
    (
        Reason::NoWindow,
        "Check spec.maintenance of {name}: give the cluster a window that selects it, that is longer than minimumRemaining, and that no exclusion covers. kubectl mcu windows {name} -n {namespace} shows the windows of each cluster.",
    ),
    (
        Reason::InvalidTimeZone,
        "Fix the time zone of ManagedCluster {cluster} where spec.maintenance.timeZoneFrom reads it: it must be an IANA name such as Europe/Berlin. The cluster then starts automatically.",
    ),
    (
        Reason::ClusterUnavailable,
        "Bring the cluster back: its work agent does not report to the hub. The cluster starts automatically when ManagedCluster {cluster} is Available.",
    ),
    (
        Reason::WaitingForCleanup,
        "Nothing to do while the work agent removes the earlier ManifestWork. If this persists, check the ManifestWorks that are being deleted in namespace {cluster}, and the work agent of the cluster.",
    ),
    (
        Reason::WriteFailed,
        "Nothing to do: the controller retries the write. If this persists, read the message and check the controller's permissions and the hub's admission webhooks.",
    ),
    (
        Reason::WorkRefused,
        "If the message names a field of an action, fix that field in spec.preUpgradeAction or spec.postUpgradeAction; the controller retries as soon as you edit the spec. If a permission or a policy of the hub denies the work, change that. If you did not set the field, the OCM release of the hub is too old. After a change on the hub, the controller retries within 5 minutes, or at once when you run kubectl mcu retry {name} -n {namespace} --force.",
    ),
    (
        Reason::LeftSelection,
        "Nothing to do: the cluster leaves the upgrade, unless a Placement or the cluster selector selects it again.",
    ),
    (
        Reason::InvalidClusterID,
        "Fix the cluster claim id.openshift.io (or the label clusterID) of ManagedCluster {cluster}: it must be the UUID of its ClusterVersion.",
    ),
    (
        Reason::NotOpenShift,
        "Remove the cluster from the selection: only OpenShift clusters can be upgraded. If the cluster does run OpenShift, fix its claim product.open-cluster-management.io or its label vendor.",
    ),
    (
        Reason::ManagedService,
        "Remove the cluster from the selection and upgrade it with the tools of its managed service.",
    ),
    (
        Reason::HostedControlPlane,
        "Remove the cluster from the selection, and upgrade its HostedCluster and NodePools on the cluster that hosts its control plane. The ClusterVersion of such a cluster only follows its HostedCluster.",
    ),
    (
        Reason::LocalCluster,
        "This cluster is the hub itself. To upgrade it, start the controller with --allow-hub and name the cluster in the cluster selector (metadata.name In [{cluster}]). If you are not allowed to, ask for the verb upgrade on managedclusters/local-cluster.",
    ),
    (
        Reason::Conflict,
        "If the message names an upgrade: wait until that upgrade is done with the cluster, or retry, resume, edit or delete it (kubectl mcu status shows what it is waiting for). If the message names a ManifestWork that no upgrade manages: delete that ManifestWork; the controller checks again within 5 minutes.",
    ),
    (
        Reason::NewerThanTarget,
        "The cluster runs a newer version than the requested one. Remove it from the selection, request a newer version, or set spec.clusterVersion.allowDowngrade to downgrade it; with spec.preflight.mode Require that needs spec.clusterVersion.image, too. The cluster then starts automatically.",
    ),
    (
        Reason::PreflightPending,
        "Nothing to do: the cluster is being asked. If this persists, check the work agent (klusterlet) on the cluster.",
    ),
    (
        Reason::PreflightUnsupported,
        "If the work agent of the cluster is of OCM v0.14 or newer, say so by label cluster.open-cluster-management.io/work-agent-version of the ManagedCluster. If the message says that the agent evaluates no rules, or cannot tell all, update it to OCM 1.0 or newer (MCE 2.10). Otherwise update the agent. To start clusters that cannot be asked, name FailedToCompletePrecheck in spec.preflight.ignore or set spec.preflight.mode to Report, and set spec.upgradeStrategy.workerPools to Ignore if the message speaks of worker pools.",
    ),
    (
        Reason::PreflightForbidden,
        "Give the work agent of the cluster the right that the message names. It reads the ConfigMaps admin-gates and admin-acks, and of config.openshift.io clusterversions, featuregates where the spec accepts risks, and clusteroperators for workerPools: Wait, which also needs machineconfigpools of machineconfiguration.openshift.io. With --spoke-rbac=none of the controller, nothing else gives it these rights.",
    ),
    (
        Reason::PreflightUnknown,
        "Run kubectl mcu preflight {name} -n {namespace}, which shows each cause and what to do about it. Fix it on the cluster, or accept it in the spec; the controller checks again when the cluster reports. To start such clusters anyway, set spec.preflight.mode to Report.",
    ),
    (
        Reason::NotOffered,
        "Check version and channel: the cluster offers another set of updates (kubectl mcu updates, or oc adm upgrade on the cluster). A newer version in between may be needed.",
    ),
    (
        Reason::RiskNotAccepted,
        "Read the risk that the message names. Fix its cause on the cluster, choose another version, or accept it by name in spec.clusterVersion.acceptRisks.",
    ),
    (
        Reason::RiskUnknown,
        "If the message names risks that the cluster cannot evaluate: fix its monitoring (oc adm upgrade --include-not-recommended), accept each risk by name (kubectl mcu accept {name} RISK -n {namespace} --reason TEXT), or set spec.preflight.unknownRisks to Accept. If it says that they are evaluated only in another channel, set spec.preflight.setChannel. If it names no risk, update the work agent of the cluster, or set spec.clusterVersion.image.",
    ),
    (
        Reason::AdminAckRequired,
        "Read what the gate asks for, check the cluster, then name its key in spec.clusterVersion.adminAcks, or acknowledge it on the cluster (ConfigMap admin-acks of namespace openshift-config).",
    ),
    (
        Reason::Updating,
        "Wait until the update that runs on the cluster is done. The cluster then starts automatically. To start it anyway, name Progressing in spec.preflight.ignore.",
    ),
    (
        Reason::ChannelDiffers,
        "Set spec.preflight.setChannel, or set the channel of the cluster to spec.clusterVersion.channel by oc adm upgrade channel. The cluster then evaluates the updates of that channel.",
    ),
    (
        Reason::PoolDegraded,
        "Fix the MachineConfigPool that the message names on the cluster (oc get machineconfigpools). The cluster then starts automatically, or continues if it has started.",
    ),
    (
        Reason::PoolPaused,
        "Unpause the MachineConfigPool that the message names on the cluster. The cluster then starts automatically, or continues if it has started.",
    ),
    (
        Reason::UnreadableCluster,
        "Check ManagedCluster {cluster}: the part that the message names does not match the schema of its API.",
    ),
    (
        Reason::UnreadableStatus,
        "Check the ManifestWorks in namespace {cluster}: the status of one of them does not match the schema of its API. Update the work agent of the cluster.",
    ),
    (
        Reason::UnreadableWork,
        "Somebody changed the annotations of a ManifestWork of this upgrade in namespace {cluster}: find out who did. Restore the annotations, or delete the ManifestWork: this does not change the ClusterVersion of the cluster.",
    ),
    (
        Reason::UnreadableRecord,
        "A newer release wrote the report row of the cluster, or somebody edited it. Upgrade the controller; or fix or delete the row in the report (kubectl edit mcur -n {namespace}). Without a row, the cluster counts as not started.",
    ),
    (
        Reason::AgentSilent,
        "Nothing to do if the step has only just begun. If this persists, check the work agent (klusterlet) on the cluster.",
    ),
    (
        Reason::NotApplied,
        "Read the message and fix what makes the cluster reject the work: a missing permission of the work agent, a missing CRD, or an admission webhook. The work agent retries automatically.",
    ),
    (
        Reason::NotAvailable,
        "Check the resources that the message names on the cluster: they are applied, but not available yet.",
    ),
    (Reason::Running, "Nothing to do: the step is running."),
    (
        Reason::NotStarted,
        "Nothing to do if the step has only just begun: the cluster has not picked up the request yet. If this persists, check the conditions of the ClusterVersion on the cluster (oc adm upgrade).",
    ),
    (
        Reason::NoFeedback,
        "Nothing to do if the step has only just begun. If this persists, check the work agent (klusterlet) on the cluster: it applied the work but reports no values.",
    ),
    (
        Reason::StaleStatus,
        "Nothing to do: the work agent has not reported on the newest work yet. If this persists, check the work agent (klusterlet) on the cluster.",
    ),
    (
        Reason::RetrievingRelease,
        "Nothing to do: the cluster is downloading and verifying the release. If this persists, check that the cluster can pull the release image.",
    ),
    (
        Reason::SlowClusterOperator,
        "Nothing to do yet: the cluster operator that the message names takes longer than expected. If this persists, check it on the cluster (oc get clusteroperators).",
    ),
    (Reason::Progressing, "Nothing to do: the cluster is updating."),
    (Reason::JobRunning, "Nothing to do: the Job is running."),
    (
        Reason::JobFailing,
        "Read the log of the Job's failed pods on the cluster. The Job retries until its backoffLimit is reached.",
    ),
    (
        Reason::JobFailed,
        "Read the log of the Job on the cluster, fix the cause, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::Incomplete,
        "Nothing to do while the resource that the message names is making progress. If this persists, check the resource on the cluster.",
    ),
    (
        Reason::Degraded,
        "Check the resource that the message names on the cluster. The step recovers automatically if the resource does.",
    ),
    (
        Reason::PreflightOnly,
        "Remove spec.desiredUpdate.mode from the ClusterVersion of the cluster, for example by oc patch clusterversion version --type=json -p '[{\"op\":\"remove\",\"path\":\"/spec/desiredUpdate/mode\"}]'. The update then starts automatically.",
    ),
    (
        Reason::InvalidUpdate,
        "The ClusterVersion of the cluster reports that the request is invalid. Check that version, channel and image belong together and that the update is recommended for this cluster; otherwise set spec.clusterVersion.image.",
    ),
    (
        Reason::ReleaseNotAccepted,
        "The cluster did not accept the release. Read the message; common causes are a missing signature, an image that cannot be pulled, and a precondition that is not met. If it names AdminAckRequired, acknowledge the gate on the cluster, in ConfigMap admin-acks of namespace openshift-config: kubectl mcu ack reaches only clusters that were not asked for the update yet.",
    ),
    (
        Reason::NotUpgradeable,
        "Fix what the message names on the cluster (Upgradeable=False): often an operator must be updated first, or a gate must be acknowledged (AdminAckRequired: kubectl mcu ack, or ConfigMap admin-acks on a cluster that was asked already). The update then continues automatically.",
    ),
    (
        Reason::Failing,
        "Fix what the message names on the cluster (oc get clusterversion, oc get clusteroperators). The cluster-version operator then continues automatically. A cluster that has not started starts anyway if spec.preflight.ignore names Failing.",
    ),
    (
        Reason::UpdatesNotRetrieved,
        "The cluster cannot download its update graph. Fix its network, its proxy or spec.clusterVersion.upstream, check that the channel exists, or set spec.clusterVersion.image. A cluster that has not started starts anyway if spec.preflight.ignore names CannotRetrieveUpdates.",
    ),
    (
        Reason::ClusterUpgradeTimeout,
        "Check what blocks the update on the cluster (oc adm upgrade, oc get clusteroperators). Once the update can continue, run kubectl mcu retry {name} -n {namespace}. If the cluster is only slow, raise spec.upgradeStrategy.clusterUpgradeTimeout first.",
    ),
    (
        Reason::WorkerPoolsTimeout,
        "Check the MachineConfigPools on the cluster (oc get machineconfigpools): resume a paused pool, fix a degraded one. Once they can be updated, run kubectl mcu retry {name} -n {namespace}. If they are only slow, raise spec.upgradeStrategy.workerPoolsTimeout first.",
    ),
    (
        Reason::OperatorsUpgradeTimeout,
        "Check the Subscriptions and InstallPlans on the cluster, then run kubectl mcu retry {name} -n {namespace}. If the operators are only slow, raise spec.upgradeStrategy.operatorsUpgradeTimeout first.",
    ),
    (
        Reason::OperatorsJobFailed,
        "Read the log of the approval Job on the cluster, fix the operator that it names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::PreActionFailed,
        "Check the Job or resource of the pre-action that the message names on the cluster. The cluster recovers automatically if the work does; otherwise fix the work and run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::PreActionTimeout,
        "The pre-action took longer than spec.upgradeStrategy.actionTimeout (if unset, clusterUpgradeTimeout). If the message says why its ManifestWork could not be created, fix that; otherwise check the work on the cluster. Then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::PostActionFailed,
        "The cluster is upgraded, but its post-action failed. Check the Job or resource that the message names on the cluster, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::PostActionTimeout,
        "The cluster is upgraded, but its post-action took longer than spec.upgradeStrategy.actionTimeout (if unset, clusterUpgradeTimeout). If the message says why its ManifestWork could not be created, fix that; otherwise check the work on the cluster. Then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::RegressedInSoak,
        "The cluster was upgraded but became unhealthy within minSuccessTime. Fix what the message names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        Reason::Soaking,
        "Nothing to do: the cluster is complete when spec.upgradeStrategy.minSuccessTime has passed, if it stays healthy.",
    ),
];

/// Reasons of the condition Stalled, and of Ready while paused.
const UPGRADES: &[(&str, &str)] = &[
    (
        reason::INVALID_SPEC,
        "Fix the field that the message names; kubectl mcu lint -f FILE shows all invalid fields. No cluster starts until then. Clusters in flight continue with the last valid spec. If the controller no longer knows that spec, it leaves these clusters alone and shows their last known state.",
    ),
    (
        reason::DELETION_REFUSED,
        "Read the message: the hub rejects a write that the deletion needs. Check the controller's permissions and the hub's admission webhooks. The controller retries the write until it succeeds.",
    ),
    (
        reason::RECORD_REFUSED,
        "Read the message: it names the cluster and the field that the hub rejects, or what the hub forbids. Permit that, or update the CRDs of the upgrade. The controller tries the record again when it changes and every 5 minutes.",
    ),
    (
        reason::NOTHING_SELECTED,
        "Check that the Placement has decisions, that the selector and that of the canaries match, and that a ManagedClusterSetBinding in {namespace} binds the ManagedClusterSet of the clusters.",
    ),
    (
        reason::CANARY_FAILED,
        "Find out why the canary failed (kubectl mcu why {name} CLUSTER -n {namespace}), fix it, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        reason::MAX_FAILURES_EXCEEDED,
        "Fix the failed clusters and run kubectl mcu retry {name} -n {namespace}, or raise spec.upgradeStrategy.maxFailures.",
    ),
    (
        reason::CLUSTERS_FAILED,
        "Find out why each cluster failed (kubectl mcu why {name} CLUSTER -n {namespace}), fix the causes, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        reason::CLUSTERS_BLOCKED,
        "Fix what blocks the clusters (kubectl mcu clusters {name} -n {namespace}{phases}), or remove them from the selection.",
    ),
    (
        reason::NO_WINDOW,
        "Check spec.maintenance: kubectl mcu windows {name} -n {namespace} shows when each cluster may start. A window must be longer than minimumRemaining, select the cluster, and not be covered by an exclusion.",
    ),
    (
        reason::RESTORED,
        "The upgrade was restored from a backup, or copied, and starts no cluster until you resume it. Check the state of its clusters (kubectl mcu clusters {name} -n {namespace}), then run kubectl mcu resume {name} -n {namespace} to continue, or delete the upgrade.",
    ),
    (reason::PAUSED, "Run kubectl mcu resume {name} -n {namespace}."),
    (
        reason::WAITING_FOR_APPROVAL,
        "Somebody with role mcu-approver must approve the plan: kubectl mcu approvals -n {namespace} shows it, kubectl mcu approve {name} CHECKPOINT -n {namespace} approves it.",
    ),
];

/// The names that are filled into a text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// Namespace of the upgrade.
    pub namespace: &'a str,
    /// Name of the upgrade.
    pub name: &'a str,
    /// Name of the cluster; empty in a text about an upgrade.
    pub cluster: &'a str,
}

/// The next step for a cluster. A reason that this release does not know gives the text of the phase.
#[must_use]
pub fn for_cluster(reason: &str, phase: Phase, names: Names<'_>) -> String {
    let mut known = CLUSTERS.iter().filter(|(known, _)| known.as_str() == reason);
    let sentence = known
        .next()
        .map_or_else(|| by_phase(phase), |(_, sentence)| *sentence);
    fill(sentence, names)
}

/// The next step for a stalled or paused upgrade; `None` for a reason that the table does not have. `has`: whether a cluster is in a
/// phase.
#[must_use]
pub fn for_upgrade(reason: &str, names: Names<'_>, has: impl Fn(Phase) -> bool) -> Option<String> {
    let mut known = UPGRADES.iter().filter(|(known, _)| *known == reason);
    let (_, sentence) = known.next()?;
    let blocked = [Phase::Blocked, Phase::PostAction];
    let phases: Vec<String> = blocked
        .into_iter()
        .filter(|phase| has(*phase))
        .map(|phase| format!(" --phase {}", phase.as_str()))
        .collect();
    Some(fill(&sentence.replace("{phases}", &phases.concat()), names))
}

const fn by_phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Nothing to do: the cluster starts when its turn comes.",
        Phase::Blocked => "Fix what the message names; the controller checks again when the cluster changes.",
        Phase::PreActionDegraded | Phase::Failed => {
            "Fix what the message names, then run kubectl mcu retry {name} -n {namespace}."
        }
        Phase::PreAction | Phase::Initialized | Phase::Partial | Phase::Operators | Phase::PostAction => {
            "Nothing to do: the step is running."
        }
        Phase::Workers => {
            "Nothing to do while the worker pools are being updated; resume a paused pool and fix a degraded one on the cluster (oc get machineconfigpools)."
        }
        Phase::Soaking => {
            "Nothing to do: the cluster is complete when its soak time has passed, if it stays healthy."
        }
        Phase::Complete => "Nothing to do: the cluster is upgraded.",
        Phase::Skipped | Phase::Aborted => {
            "Nothing to do: to upgrade the cluster after all, run kubectl mcu unskip {name} {cluster} -n {namespace}."
        }
    }
}

fn fill(sentence: &str, names: Names<'_>) -> String {
    sentence
        .replace("{namespace}", names.namespace)
        .replace("{name}", names.name)
        .replace("{cluster}", names.cluster)
}

#[cfg(test)]
mod tests;
