//! The next step for a cluster or an upgrade: one text per reason, all of them in one table, and one per phase for reasons
//! that the table does not have.
//!
//! A text says who has to act: nobody (the controller continues automatically), the user on the cluster, or the user on the
//! hub. `{name}`, `{namespace}` and `{cluster}` are replaced by the names in question.

use api::conditions::reason;
use api::report::Phase;

/// Reasons of report rows and of the lists of failed and waiting clusters.
const CLUSTERS: &[(&str, &str)] = &[
    (
        "WaitingForSlot",
        "Nothing to do: the cluster starts when a slot becomes free. To upgrade more clusters at the same time, raise spec.upgradeStrategy.maxConcurrency.",
    ),
    (
        "WaitingForCanaries",
        "Nothing to do: the cluster starts when every canary is complete.",
    ),
    (
        "CanaryFailed",
        "Find out why the canary failed (kubectl mcu clusters {name} -n {namespace} --phase Failed --phase PreActionDegraded), fix it, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "NoCanarySelected",
        "Fix spec.upgradeStrategy.canaryClusters.clusterSelector: it matches no cluster of a ManagedClusterSet that is bound to {namespace}.",
    ),
    (
        "InvalidSpec",
        "Fix the spec of {name}: kubectl mcu status {name} -n {namespace} names the invalid field. The cluster then starts automatically.",
    ),
    ("Paused", "Run kubectl mcu resume {name} -n {namespace}."),
    (
        "Restored",
        "The upgrade was restored from a backup, or copied. Check the state of its clusters, then run kubectl mcu resume {name} -n {namespace} to continue, or delete the upgrade.",
    ),
    (
        "MaxFailuresExceeded",
        "Fix the failed clusters and run kubectl mcu retry {name} -n {namespace}, or raise spec.upgradeStrategy.maxFailures.",
    ),
    (
        "ClusterUnavailable",
        "Bring the cluster back: its work agent does not report to the hub. The cluster starts automatically when ManagedCluster {cluster} is Available.",
    ),
    (
        "WaitingForCleanup",
        "Nothing to do while the work agent removes the earlier ManifestWork. If this persists, check the ManifestWorks that are being deleted in namespace {cluster}, and the work agent of the cluster.",
    ),
    (
        "WriteFailed",
        "Nothing to do: the controller retries the write. If this persists, read the message and check the controller's permissions and the hub's admission webhooks.",
    ),
    (
        "WorkRefused",
        "If the message names a field of an action, fix that field in spec.preUpgradeAction or spec.postUpgradeAction; the controller retries as soon as you edit the spec. If a permission or a policy of the hub denies the work, change that. If you did not set the field, the OCM release of the hub is too old. After a change on the hub, the controller retries within 5 minutes, or at once when you run kubectl mcu retry {name} -n {namespace} --force.",
    ),
    (
        "LeftSelection",
        "Nothing to do: the cluster leaves the upgrade, unless a Placement or the cluster selector selects it again.",
    ),
    (
        "InvalidClusterID",
        "Fix the cluster claim id.openshift.io (or the label clusterID) of ManagedCluster {cluster}: it must be the UUID of its ClusterVersion.",
    ),
    (
        "NotOpenShift",
        "Remove the cluster from the selection: only OpenShift clusters can be upgraded. If the cluster does run OpenShift, fix its claim product.open-cluster-management.io or its label vendor.",
    ),
    (
        "ManagedService",
        "Remove the cluster from the selection and upgrade it with the tools of its managed service.",
    ),
    (
        "LocalCluster",
        "This cluster is the hub itself. To upgrade it, start the controller with --allow-hub and name the cluster in the cluster selector (metadata.name In [{cluster}]). If you are not allowed to, ask for the verb upgrade on managedclusters/local-cluster.",
    ),
    (
        "Conflict",
        "If the message names an upgrade: wait until that upgrade is done with the cluster, or retry, resume, edit or delete it (kubectl mcu status shows what it is waiting for). If the message names a ManifestWork that no upgrade manages: delete that ManifestWork; the controller checks again within 5 minutes.",
    ),
    (
        "NewerThanTarget",
        "The cluster runs a newer version than the requested one. Remove it from the selection, request a newer version, or set spec.clusterVersion.allowDowngrade to downgrade it. The cluster then starts automatically.",
    ),
    (
        "UnreadableCluster",
        "Check ManagedCluster {cluster}: the part that the message names does not match the schema of its API.",
    ),
    (
        "UnreadableStatus",
        "Check the ManifestWorks in namespace {cluster}: the status of one of them does not match the schema of its API. Update the work agent of the cluster.",
    ),
    (
        "UnreadableWork",
        "Somebody changed the annotations of a ManifestWork of this upgrade in namespace {cluster}: find out who did. Restore the annotations, or delete the ManifestWork: this does not change the ClusterVersion of the cluster.",
    ),
    (
        "UnreadableRecord",
        "A newer release wrote the report row of the cluster, or somebody edited it. Upgrade the controller; or fix or delete the row in the report (kubectl edit mcur -n {namespace}). Without a row, the cluster counts as not started.",
    ),
    (
        "AgentSilent",
        "Nothing to do if the step has only just begun. If this persists, check the work agent (klusterlet) on the cluster.",
    ),
    (
        "NotApplied",
        "Read the message and fix what makes the cluster reject the work: a missing permission of the work agent, a missing CRD, or an admission webhook. The work agent retries automatically.",
    ),
    (
        "NotAvailable",
        "Check the resources that the message names on the cluster: they are applied, but not available yet.",
    ),
    ("Running", "Nothing to do: the step is running."),
    (
        "NotStarted",
        "Nothing to do if the step has only just begun: the cluster has not picked up the request yet. If this persists, check the conditions of the ClusterVersion on the cluster (oc adm upgrade).",
    ),
    (
        "RetrievingRelease",
        "Nothing to do: the cluster is downloading and verifying the release. If this persists, check that the cluster can pull the release image.",
    ),
    ("Progressing", "Nothing to do: the cluster is updating."),
    (
        "SlowClusterOperator",
        "Nothing to do yet: the cluster operator that the message names takes longer than expected. If this persists, check it on the cluster (oc get clusteroperators).",
    ),
    (
        "NoFeedback",
        "Nothing to do if the step has only just begun. If this persists, check the work agent (klusterlet) on the cluster: it applied the work but reports no values.",
    ),
    (
        "StaleStatus",
        "Nothing to do: the work agent has not reported on the newest work yet. If this persists, check the work agent (klusterlet) on the cluster.",
    ),
    (
        "Incomplete",
        "Nothing to do while the resource that the message names is making progress. If this persists, check the resource on the cluster.",
    ),
    (
        "Degraded",
        "Check the resource that the message names on the cluster. The step recovers automatically if the resource does.",
    ),
    ("JobRunning", "Nothing to do: the Job is running."),
    (
        "JobFailing",
        "Read the log of the Job's failed pods on the cluster. The Job retries until its backoffLimit is reached.",
    ),
    (
        "JobFailed",
        "Read the log of the Job on the cluster, fix the cause, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "InvalidUpdate",
        "The ClusterVersion of the cluster reports that the request is invalid. Check that version, channel and image belong together and that the update is recommended for this cluster; otherwise set spec.clusterVersion.image.",
    ),
    (
        "ReleaseNotAccepted",
        "The cluster did not accept the release. Read the message; common causes are a missing signature, an image that cannot be pulled, and a precondition that is not met.",
    ),
    (
        "NotUpgradeable",
        "Fix what the message names on the cluster (Upgradeable=False): often an operator must be updated first, or an API removal must be acknowledged. The update then continues automatically.",
    ),
    (
        "Failing",
        "Fix what the message names on the cluster (oc get clusterversion, oc get clusteroperators). The cluster-version operator then continues automatically.",
    ),
    (
        "UpdatesNotRetrieved",
        "The cluster cannot download its update graph. Fix its network, its proxy or spec.clusterVersion.upstream, check that the channel exists, or set spec.clusterVersion.image.",
    ),
    (
        "ClusterUpgradeTimeout",
        "Check what blocks the update on the cluster (oc adm upgrade, oc get clusteroperators). Once the update can continue, run kubectl mcu retry {name} -n {namespace}. If the cluster is only slow, raise spec.upgradeStrategy.clusterUpgradeTimeout first.",
    ),
    (
        "OperatorsUpgradeTimeout",
        "Check the Subscriptions and InstallPlans on the cluster, then run kubectl mcu retry {name} -n {namespace}. If the operators are only slow, raise spec.upgradeStrategy.operatorsUpgradeTimeout first.",
    ),
    (
        "OperatorsJobFailed",
        "Read the log of the approval Job on the cluster, fix the operator that it names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PreActionFailed",
        "Check the Job or resource of the pre-action that the message names on the cluster. The cluster recovers automatically if the work does; otherwise fix the work and run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PreActionTimeout",
        "The pre-action took longer than spec.upgradeStrategy.clusterUpgradeTimeout. If the message says why its ManifestWork could not be created, fix that; otherwise check the work on the cluster. Then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PostActionFailed",
        "The cluster is upgraded, but its post-action failed. Check the Job or resource that the message names on the cluster, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PostActionTimeout",
        "The cluster is upgraded, but its post-action took longer than spec.upgradeStrategy.clusterUpgradeTimeout. If the message says why its ManifestWork could not be created, fix that; otherwise check the work on the cluster. Then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "RegressedInSoak",
        "The cluster was upgraded but became unhealthy within minSuccessTime. Fix what the message names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "Soaking",
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
        reason::NOTHING_SELECTED,
        "Check that the Placement has decisions, that the selector matches, and that a ManagedClusterSetBinding in {namespace} binds the ManagedClusterSet of the clusters.",
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
        "Fix what blocks the clusters (kubectl mcu clusters {name} -n {namespace} --phase Blocked --phase PostAction), or remove them from the selection.",
    ),
    (
        reason::RESTORED,
        "The upgrade was restored from a backup, or copied, and starts no cluster until you resume it. Check the state of its clusters (kubectl mcu clusters {name} -n {namespace}), then run kubectl mcu resume {name} -n {namespace} to continue, or delete the upgrade.",
    ),
    (reason::PAUSED, "Run kubectl mcu resume {name} -n {namespace}."),
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

/// The next step for a cluster. A reason that the table does not have gives the text of its phase.
#[must_use]
pub fn for_cluster(reason: &str, phase: Phase, names: Names<'_>) -> String {
    fill(find(CLUSTERS, reason).unwrap_or_else(|| by_phase(phase)), names)
}

/// The next step for a stalled or paused upgrade; `None` for a reason that the table does not have.
#[must_use]
pub fn for_upgrade(reason: &str, names: Names<'_>) -> Option<String> {
    find(UPGRADES, reason).map(|sentence| fill(sentence, names))
}

/// The reasons of report rows that the table has.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    CLUSTERS.iter().map(|(reason, _)| *reason)
}

fn find(table: &'static [(&str, &str)], reason: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|(known, _)| *known == reason)
        .map(|(_, sentence)| *sentence)
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
        Phase::Soaking => {
            "Nothing to do: the cluster is complete when its soak time has passed, if it stays healthy."
        }
        Phase::Complete => "Nothing to do: the cluster is upgraded.",
    }
}

fn fill(sentence: &str, names: Names<'_>) -> String {
    sentence
        .replace("{namespace}", names.namespace)
        .replace("{name}", names.name)
        .replace("{cluster}", names.cluster)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names {
        namespace: "upgrades",
        name: "spring",
        cluster: "dev1",
    };

    #[test]
    fn every_reason_to_be_stalled_has_a_sentence() {
        for reason in [
            reason::INVALID_SPEC,
            reason::DELETION_REFUSED,
            reason::NOTHING_SELECTED,
            reason::CANARY_FAILED,
            reason::MAX_FAILURES_EXCEEDED,
            reason::CLUSTERS_FAILED,
            reason::CLUSTERS_BLOCKED,
            reason::RESTORED,
        ] {
            assert!(for_upgrade(reason, NAMES).is_some(), "{reason}");
        }
        assert_eq!(for_upgrade("SomethingNew", NAMES), None);
    }

    /// A remedy is advice that stands by itself, so it always ends with a period.
    #[test]
    fn every_remedy_is_made_of_whole_sentences() {
        let phases = Phase::ALL.map(by_phase);
        let tables = CLUSTERS.iter().chain(UPGRADES).map(|(_, sentence)| *sentence);
        for sentence in tables.chain(phases) {
            assert!(sentence.starts_with(char::is_uppercase), "{sentence}");
            assert!(sentence.ends_with('.'), "{sentence}");
        }
    }

    #[test]
    fn names_are_filled_in_and_an_unknown_reason_falls_back_to_its_phase() {
        assert_eq!(
            for_cluster("Paused", Phase::Pending, NAMES),
            "Run kubectl mcu resume spring -n upgrades."
        );
        assert_eq!(
            for_cluster("SomethingNew", Phase::Failed, NAMES),
            "Fix what the message names, then run kubectl mcu retry spring -n upgrades."
        );
        for phase in Phase::ALL {
            assert!(!for_cluster("", phase, NAMES).contains('{'));
        }
        for (reason, _) in CLUSTERS {
            assert!(
                !for_cluster(reason, Phase::Pending, NAMES).contains('{'),
                "{reason}"
            );
        }
    }
}
