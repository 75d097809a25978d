//! What would move a cluster or an upgrade: one sentence per reason, kept in one table, with a fallback per phase.
//!
//! A sentence says who must do what: nothing (the controller goes on by itself), the user on the cluster, or the user on
//! the hub. `{name}`, `{namespace}` and `{cluster}` stand for the names in question.

use api::conditions::reason;
use api::report::Phase;

/// Reasons of report rows and of the lists of failed and waiting clusters.
const CLUSTERS: &[(&str, &str)] = &[
    (
        "WaitingForSlot",
        "Nothing to do: it starts when a cluster in flight is done. To go faster, raise spec.upgradeStrategy.maxConcurrency.",
    ),
    (
        "WaitingForCanaries",
        "Nothing to do: it starts when every canary is complete.",
    ),
    (
        "CanaryFailed",
        "Find out why the canary failed (kubectl mcu clusters {name} -n {namespace} --phase Failed --phase PreActionDegraded), mend it, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "NoCanarySelected",
        "Mend spec.upgradeStrategy.canaryClusters.clusterSelector: it matches no cluster of a ManagedClusterSet bound to {namespace}.",
    ),
    (
        "InvalidSpec",
        "Mend the spec of {name}: kubectl mcu status {name} -n {namespace} names the field. It starts by itself then.",
    ),
    ("Paused", "Run kubectl mcu resume {name} -n {namespace}."),
    (
        "Restored",
        "The upgrade was restored from a backup, or copied. See where its clusters stand, then run kubectl mcu resume {name} -n {namespace} to go on, or delete it.",
    ),
    (
        "MaxFailuresExceeded",
        "Mend the failed clusters and run kubectl mcu retry {name} -n {namespace}, or raise spec.upgradeStrategy.maxFailures.",
    ),
    (
        "ClusterUnavailable",
        "Bring the cluster back: its work agent does not report to the hub. It starts by itself when ManagedCluster {cluster} is Available.",
    ),
    (
        "WaitingForCleanup",
        "Nothing to do while the agent removes the earlier work. If it lasts, look at the ManifestWorks that are terminating in namespace {cluster} and at the agent of the cluster.",
    ),
    (
        "WriteFailed",
        "Nothing to do: the write is repeated. If it lasts, read the message and check the controller's permissions and the hub's admission webhooks.",
    ),
    (
        "WorkRefused",
        "If the message names a field of the action, correct it in spec.preUpgradeAction or spec.postUpgradeAction; an edit is tried at once. If a permission or a policy of the hub denies the work, change that. If a field is none of yours, the OCM of the hub is too old. After a change of the hub it is tried again within 5 minutes, or at once by kubectl mcu retry {name} -n {namespace} --force.",
    ),
    (
        "LeftSelection",
        "Nothing to do: it is dropped, unless a Placement or the cluster selector selects it again.",
    ),
    (
        "InvalidClusterID",
        "Mend the cluster claim id.openshift.io (or the label clusterID) of ManagedCluster {cluster}: it must be the UUID of its ClusterVersion.",
    ),
    (
        "NotOpenShift",
        "Take the cluster out of the selection: only OpenShift can be upgraded. If it is OpenShift, mend its claim product.open-cluster-management.io or its label vendor.",
    ),
    (
        "ManagedService",
        "Take the cluster out of the selection and upgrade it with the tools of its managed service.",
    ),
    (
        "LocalCluster",
        "This is the hub itself. To upgrade it, start the controller with --allow-hub and name it in the cluster selector (metadata.name In [{cluster}]); ask for the verb upgrade on managedclusters/local-cluster if you are not allowed to.",
    ),
    (
        "Conflict",
        "If the message names an upgrade: wait until it is done with the cluster, or retry, resume, edit or delete it (kubectl mcu status shows what it waits for). If it names a work of nobody's upgrade: delete that work; it is looked for again within 5 minutes.",
    ),
    (
        "NewerThanTarget",
        "The cluster runs a newer version than the one asked for. Take it out of the selection, ask for a newer version, or set spec.clusterVersion.allowDowngrade to insist. It starts by itself then.",
    ),
    (
        "UnreadableCluster",
        "Look at ManagedCluster {cluster}: the part that the message names does not have the form of its API.",
    ),
    (
        "UnreadableStatus",
        "Look at the ManifestWorks in namespace {cluster}: the status of one does not have the form of its API. Update the work agent of the cluster.",
    ),
    (
        "UnreadableWork",
        "The annotations of a ManifestWork of this upgrade in namespace {cluster} were changed; find out by whom. Restore them, or delete that ManifestWork: the ClusterVersion of the cluster stays as it is.",
    ),
    (
        "UnreadableRecord",
        "The row of the cluster was written by a newer release, or edited. Upgrade the controller; or mend or delete the row in the report (kubectl edit mcur -n {namespace}). Without a row the cluster counts as not started.",
    ),
    (
        "AgentSilent",
        "Nothing to do if it has only just begun. If it lasts, check the work agent (klusterlet) on the cluster.",
    ),
    (
        "NotApplied",
        "Read the message and mend what the cluster refuses: permissions of the work agent, a missing CRD, an admission webhook. The agent tries again by itself.",
    ),
    (
        "NotAvailable",
        "Look on the cluster at the resources that the message names; they are applied, but not available yet.",
    ),
    ("Running", "Nothing to do: the step is running."),
    (
        "NotStarted",
        "Nothing to do if it has only just begun: the cluster has not taken the request up yet. If it lasts, look on the cluster at the conditions of its ClusterVersion (oc adm upgrade).",
    ),
    (
        "RetrievingRelease",
        "Nothing to do: the cluster is fetching and verifying the release. If it lasts, check that the cluster can pull the release image.",
    ),
    ("Progressing", "Nothing to do: the cluster is updating."),
    (
        "SlowClusterOperator",
        "Nothing to do yet: the operator that the message names takes longer than expected. If it lasts, look at it on the cluster (oc get clusteroperators).",
    ),
    (
        "NoFeedback",
        "Nothing to do if it has only just begun. If it lasts, check the work agent (klusterlet) on the cluster: it applied the work and reports no values.",
    ),
    (
        "StaleStatus",
        "Nothing to do: the agent has not reported on the newest work yet. If it lasts, check the work agent (klusterlet) on the cluster.",
    ),
    (
        "Incomplete",
        "Nothing to do while the resource that the message names is working. If it lasts, look at it on the cluster.",
    ),
    (
        "Degraded",
        "Look on the cluster at the resource that the message names. It recovers by itself if the resource does.",
    ),
    ("JobRunning", "Nothing to do: the Job is running."),
    (
        "JobFailing",
        "Read the log of the Job's failed pods on the cluster. It tries on by itself until its back-off limit.",
    ),
    (
        "JobFailed",
        "Read the log of the Job on the cluster, mend what it names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "InvalidUpdate",
        "The cluster's ClusterVersion calls the request invalid. Check that version, channel and image belong together and that the update is recommended to this cluster; otherwise give spec.clusterVersion.image.",
    ),
    (
        "ReleaseNotAccepted",
        "The cluster did not accept the release. Read the message; common causes are a missing signature, an image that cannot be pulled, and a precondition that is not met.",
    ),
    (
        "NotUpgradeable",
        "Mend on the cluster what the message names (Upgradeable=False): often an operator that must be updated first, or an API removal to acknowledge. It goes on by itself.",
    ),
    (
        "Failing",
        "Mend on the cluster what the message names (oc get clusterversion, oc get clusteroperators). The cluster-version operator goes on by itself.",
    ),
    (
        "UpdatesNotRetrieved",
        "The cluster cannot fetch its update graph. Mend its network, proxy or spec.clusterVersion.upstream, check that the channel exists, or give spec.clusterVersion.image.",
    ),
    (
        "ClusterUpgradeTimeout",
        "Look on the cluster at what holds the update up (oc adm upgrade, oc get clusteroperators). When it can go on, run kubectl mcu retry {name} -n {namespace}; if the cluster is only slow, raise spec.upgradeStrategy.clusterUpgradeTimeout before.",
    ),
    (
        "OperatorsUpgradeTimeout",
        "Look on the cluster at its Subscriptions and InstallPlans. Then run kubectl mcu retry {name} -n {namespace}; if the operators are only slow, raise spec.upgradeStrategy.operatorsUpgradeTimeout before.",
    ),
    (
        "OperatorsJobFailed",
        "Read the log of the approval Job on the cluster, mend the operator it names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PreActionFailed",
        "Look on the cluster at the Job or resource of the pre-action that the message names. It recovers by itself if the work does; otherwise mend it and run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PreActionTimeout",
        "The pre-action took longer than spec.upgradeStrategy.clusterUpgradeTimeout. If the message says what kept its work from being made, mend that; else look at it on the cluster. Then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PostActionFailed",
        "The cluster is upgraded, its post-action failed. Look on the cluster at the Job or resource that the message names; then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "PostActionTimeout",
        "The cluster is upgraded, its post-action took longer than spec.upgradeStrategy.clusterUpgradeTimeout. If the message says what kept its work from being made, mend that; else look at it on the cluster. Then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "RegressedInSoak",
        "The cluster was upgraded and became unhealthy within minSuccessTime. Mend what the message names, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        "Soaking",
        "Nothing to do: it is complete when spec.upgradeStrategy.minSuccessTime is over, if it stays healthy.",
    ),
];

/// Reasons of the condition Stalled, and of Ready while paused.
const UPGRADES: &[(&str, &str)] = &[
    (
        reason::INVALID_SPEC,
        "Mend the field that the message names; kubectl mcu lint -f FILE shows all of them. Until then nothing starts. Clusters in flight go on by the last valid spec; a controller that does not know it any more leaves them alone and shows them as they were.",
    ),
    (
        reason::DELETION_REFUSED,
        "Read the message: the hub refuses a write that the deletion needs. Check the controller's permissions and the hub's admission webhooks; the write is repeated until it succeeds.",
    ),
    (
        reason::NOTHING_SELECTED,
        "Check that the Placement has decisions, that the selector matches, and that a ManagedClusterSetBinding in {namespace} binds the clusters' set.",
    ),
    (
        reason::CANARY_FAILED,
        "Find out why the canary failed (kubectl mcu why {name} CLUSTER -n {namespace}), mend it, then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        reason::MAX_FAILURES_EXCEEDED,
        "Mend the failed clusters and run kubectl mcu retry {name} -n {namespace}, or raise spec.upgradeStrategy.maxFailures.",
    ),
    (
        reason::CLUSTERS_FAILED,
        "Mend the failed clusters, each with its cause (kubectl mcu why {name} CLUSTER -n {namespace}), then run kubectl mcu retry {name} -n {namespace}.",
    ),
    (
        reason::CLUSTERS_BLOCKED,
        "Mend what blocks the clusters (kubectl mcu clusters {name} -n {namespace} --phase Blocked --phase PostAction), or take them out of the selection.",
    ),
    (
        reason::RESTORED,
        "The object was restored from a backup, or copied, and starts nothing by itself. See where its clusters stand (kubectl mcu clusters {name} -n {namespace}), then run kubectl mcu resume {name} -n {namespace} to go on, or delete it.",
    ),
    (reason::PAUSED, "Run kubectl mcu resume {name} -n {namespace}."),
];

/// The names that a sentence may carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// Namespace of the MCU.
    pub namespace: &'a str,
    /// Name of the MCU.
    pub name: &'a str,
    /// Name of the cluster; empty where an upgrade is meant.
    pub cluster: &'a str,
}

/// What would move a cluster. A reason that the table does not know gives the sentence of its phase.
#[must_use]
pub fn for_cluster(reason: &str, phase: Phase, names: Names<'_>) -> String {
    fill(find(CLUSTERS, reason).unwrap_or_else(|| by_phase(phase)), names)
}

/// What would move a stalled or paused upgrade; `None` for a reason that the table does not know.
#[must_use]
pub fn for_upgrade(reason: &str, names: Names<'_>) -> Option<String> {
    find(UPGRADES, reason).map(|sentence| fill(sentence, names))
}

/// The reasons of rows that have a sentence of their own.
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
        Phase::Pending => "Nothing to do: it starts when it is its turn.",
        Phase::Blocked => "Mend what the message names; it is looked at again when the cluster changes.",
        Phase::PreActionDegraded | Phase::Failed => {
            "Mend what the message names, then run kubectl mcu retry {name} -n {namespace}."
        }
        Phase::PreAction | Phase::Initialized | Phase::Partial | Phase::Operators | Phase::PostAction => {
            "Nothing to do: the step is running."
        }
        Phase::Soaking => "Nothing to do: it is complete when its soak is over, if it stays healthy.",
        Phase::Complete => "Nothing to do: it is upgraded.",
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

    #[test]
    fn names_are_filled_in_and_an_unknown_reason_falls_back_to_its_phase() {
        assert_eq!(
            for_cluster("Paused", Phase::Pending, NAMES),
            "Run kubectl mcu resume spring -n upgrades."
        );
        assert_eq!(
            for_cluster("SomethingNew", Phase::Failed, NAMES),
            "Mend what the message names, then run kubectl mcu retry spring -n upgrades."
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
