use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::rows::Rows;
use crate::upgrade::Upgrade;

/// The current time in every snapshot.
pub(crate) fn now() -> DateTime<Utc> {
    api::time::parse_rfc3339("2026-03-01T12:00:00Z").unwrap()
}

pub(crate) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-03-01T11:30:00Z", "observedGeneration": 2,
    })
}

fn conditions(ready: &Value, stalled: &Value, failed: &Value) -> Value {
    json!([
        condition(
            "Selected",
            "True",
            "ManagedClustersSelected",
            "24 clusters are selected"
        ),
        condition("Applied", "True", "ManagedClustersUpgradeApplied", ""),
        condition(
            "InProgress",
            "True",
            "ManagedClustersUpgradeInProgress",
            "5 clusters"
        ),
        condition("Complete", "False", "ManagedClustersUpgradeComplete", ""),
        failed,
        ready,
        condition("Reconciling", "True", "UpgradeRunning", ""),
        stalled,
    ])
}

fn object(spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgrade",
        "metadata": {
            "name": "spring", "namespace": "upgrades", "uid": "u1", "generation": 2,
            "creationTimestamp": "2026-03-01T10:58:00Z",
            "managedFields": [{"manager": "mcu-controller"}],
        },
        "spec": spec,
        "status": status,
    })
}

fn spec() -> Value {
    json!({
        "clusterVersion": {"version": "4.12.0", "channel": "stable-4.12"},
        "preUpgradeAction": {"manifestWork": {"workload": {"manifests": []}}},
        "upgradeStrategy": {"maxConcurrency": 10},
    })
}

/// An upgrade that is half done.
pub(crate) fn running() -> Upgrade {
    let no_failure = condition("Failed", "False", "ManagedClustersUpgradeFailed", "");
    let ready = condition(
        "Ready",
        "False",
        "UpgradeRunning",
        "12 of 24 clusters are complete",
    );
    let stalled = condition("Stalled", "False", "NotStalled", "");
    Upgrade::read(object(
        &spec(),
        &json!({
            "observedGeneration": 2, "state": "Upgrading", "progress": "12/24", "inFlight": 5, "effectiveMaxConcurrency": 10,
            "target": "4.12.0", "slots": "5/10", "canaries": "2/2",
            "canaryClustersSummery": {"total": 2, "initialized": 2, "partialUpgrade": 0, "complete": 2, "failed": 0, "pending": 0},
            "clustersSummery": {"total": 24, "initialized": 18, "partialUpgrade": 5, "complete": 12, "failed": 0, "pending": 6},
            "preUpgradeActionSummary": {"total": 19, "applied": 19, "available": 18, "progressing": 1, "degraded": 0},
            "waitingClusters": [
                {"name": "edge-20", "phase": "Blocked", "reason": "ManagedService", "message": "The provider of the managed service ROSA upgrades this cluster. Remove the cluster from the selection.", "since": "2026-03-01T10:58:00Z"},
                {"name": "edge-21", "phase": "Pending", "reason": "WaitingForSlot", "message": "", "since": "2026-03-01T10:58:00Z"},
            ],
            "truncated": {"failed": 0, "waiting": 4},
            "conditions": conditions(&ready, &stalled, &no_failure),
        }),
    ))
}

/// A stalled upgrade.
pub(crate) fn stalled() -> Upgrade {
    let ready = condition(
        "Ready",
        "False",
        "ClustersFailed",
        "22 of 24 clusters are complete",
    );
    let stalled = condition(
        "Stalled",
        "True",
        "ClustersFailed",
        "1 cluster failed, 1 cluster is blocked",
    );
    let failed = condition(
        "Failed",
        "True",
        "ManagedClustersUpgradeFailed",
        "1 cluster failed",
    );
    Upgrade::read(object(
        &spec(),
        &json!({
            "observedGeneration": 2, "state": "Stalled", "progress": "22/24", "slots": "0/10", "inFlight": 0, "effectiveMaxConcurrency": 10,
            "clustersSummery": {"total": 24, "initialized": 23, "partialUpgrade": 0, "complete": 22, "failed": 1, "pending": 1},
            "failedClusters": [{"name": "edge-17", "phase": "Failed", "reason": "ClusterUpgradeTimeout", "message": "The step was not done within 3h: Failing: ClusterOperatorDegraded: etcd", "since": "2026-03-01T11:48:00Z"}],
            "waitingClusters": [{"name": "edge-20", "phase": "Blocked", "reason": "ManagedService", "message": "The provider of the managed service ROSA upgrades this cluster. Remove the cluster from the selection.", "since": "2026-03-01T10:58:00Z"}],
            "conditions": conditions(&ready, &stalled, &failed),
        }),
    ))
}

/// An upgrade whose spec became invalid while it was running.
pub(crate) fn invalid() -> Upgrade {
    let message = "The spec is invalid: spec.preUpgradeAction.manifestWork.workload.manifests[1]: ConfigMap a appears twice; remove one";
    let ready = condition("Ready", "False", "InvalidSpec", message);
    let stalled = condition("Stalled", "True", "InvalidSpec", message);
    let no_failure = condition("Failed", "False", "ManagedClustersUpgradeFailed", "");
    Upgrade::read(object(
        &spec(),
        &json!({
            "observedGeneration": 2, "state": "Invalid",
            "conditions": conditions(&ready, &stalled, &no_failure),
        }),
    ))
}

/// A finished upgrade.
pub(crate) fn complete() -> Upgrade {
    let ready = condition(
        "Ready",
        "True",
        "ManagedClustersUpgradeComplete",
        "All 24 clusters are complete",
    );
    let stalled = condition("Stalled", "False", "NotStalled", "");
    let no_failure = condition("Failed", "False", "ManagedClustersUpgradeFailed", "");
    Upgrade::read(object(
        &spec(),
        &json!({
            "observedGeneration": 2, "state": "Complete", "progress": "24/24", "inFlight": 0, "effectiveMaxConcurrency": 10,
            "clustersSummery": {"total": 24, "initialized": 24, "partialUpgrade": 0, "complete": 24, "failed": 0, "pending": 0},
            "conditions": conditions(&ready, &stalled, &no_failure),
        }),
    ))
}

/// An upgrade that the controller has not processed yet.
pub(crate) fn unseen() -> Upgrade {
    Upgrade::read(object(
        &json!({"ocpOperators": {"approveAllUpgrades": true}}),
        &Value::Null,
    ))
}

/// Rows of an upgrade, one per kind of phase.
pub(crate) fn rows() -> Rows {
    let step = |name: &str, started: &str, finished: Value, outcome: Value| json!({"name": name, "startedAt": started, "appliedAt": started, "finishedAt": finished, "outcome": outcome});
    let owner = json!({"kind": "ManagedClustersUpgrade", "uid": "u1"});
    let shard = json!({"metadata": {"ownerReferences": [owner]}, "rows": [
        {
            "cluster": "edge-17", "phase": "Failed", "reason": "ClusterUpgradeTimeout", "canary": true,
            "message": "The step was not done within 3h:\nFailing: ClusterOperatorDegraded: etcd",
            "fromVersion": "4.11.9", "toVersion": "4.12.0", "since": "2026-03-01T11:48:00Z", "revision": "r1",
            "steps": [
                step("PreAction", "2026-03-01T08:44:00Z", json!("2026-03-01T08:48:00Z"), json!("Succeeded")),
                step("Platform", "2026-03-01T08:48:00Z", json!("2026-03-01T11:48:00Z"), json!("Failed")),
            ],
        },
        {
            "cluster": "edge-02", "phase": "Partial", "reason": "Running", "message": "Working towards 4.12.0: 512 of 830 done",
            "fromVersion": "4.11.9", "toVersion": "4.12.0", "since": "2026-03-01T11:54:48Z", "revision": "r1", "leftSelection": true,
            "steps": [step("Platform", "2026-03-01T11:50:00Z", Value::Null, Value::Null)],
        },
        {"cluster": "edge-20", "phase": "Blocked", "reason": "ManagedService", "message": "The provider of the managed service ROSA upgrades this cluster. Remove the cluster from the selection.", "since": "2026-03-01T10:58:00Z", "revision": "r1"},
        {
            "cluster": "edge-01", "phase": "Complete", "fromVersion": "4.11.9", "toVersion": "4.12.0",
            "since": "2026-03-01T11:40:00Z", "revision": "r1",
            "steps": [step("Platform", "2026-03-01T11:00:00Z", json!("2026-03-01T11:40:00Z"), json!("Succeeded"))],
        },
    ]});
    Rows::merge(&[shard], "u1")
}
