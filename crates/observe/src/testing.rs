//! Objects as the hub would return them, for unit tests of this crate and of the controller.

use api::names::{
    ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_STARTED_AT, ANNOTATION_STEP_HASH, APPROVER,
    CLAIM_VERSION, LABEL_MCU_UID, LABEL_STEP, PROBE, Step, probe_name,
};
use api::views::{ManagedCluster, ManifestWork};
use serde_json::{Value, json};

use crate::index::{Change, Index};

/// An index with these clusters, which are accepted and available.
#[must_use]
pub fn index(clusters: &[&str]) -> Index {
    let mut index = Index::default();
    for name in clusters {
        index.cluster(&Change::Applied(cluster(name)));
    }
    index
}

/// A cluster that is accepted and available.
#[must_use]
pub fn cluster(name: &str) -> ManagedCluster {
    read(json!({
        "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
        "status": {"conditions": available()},
    }))
}

/// The conditions of a cluster that is available.
#[must_use]
pub fn available() -> Value {
    json!([{"type": "ManagedClusterConditionAvailable", "status": "True"}])
}

/// A cluster that is accepted and available, and claims this version.
#[must_use]
pub fn claimed(name: &str, version: &str) -> ManagedCluster {
    let mut cluster = cluster(name);
    cluster.status = read(json!({
        "clusterClaims": [{"name": CLAIM_VERSION, "value": version}], "conditions": available(),
    }));
    cluster
}

/// A platform work whose cluster reports that it runs this version.
#[must_use]
pub fn reporting(mut work: ManifestWork, version: &str) -> ManifestWork {
    work.status = read(json!({
        "conditions": [{"type": "Applied", "status": "True", "observedGeneration": 1}],
        "resourceStatus": {"manifests": [{
            "resourceMeta": {"ordinal": 0, "group": "config.openshift.io", "kind": "ClusterVersion",
                "resource": "clusterversions", "name": "version"},
            "statusFeedback": {"values": [
                {"name": "version", "fieldValue": {"type": "String", "string": version}},
                {"name": "state", "fieldValue": {"type": "String", "string": "Completed"}},
            ]},
        }]},
    }));
    work
}

/// A work of the first attempt at revision `r1`.
#[must_use]
pub fn work(cluster: &str, step: Step, upgrade: &str, version: u64) -> ManifestWork {
    read(json!({
        "metadata": {
            "name": step.work_name(cluster), "namespace": cluster, "uid": format!("{cluster}-{step}-{upgrade}"),
            "resourceVersion": version.to_string(), "generation": 1,
            "labels": {LABEL_MCU_UID: upgrade, LABEL_STEP: step.as_str()},
            "annotations": {
                ANNOTATION_OWNER: format!("ns/{upgrade}"),
                ANNOTATION_REVISION: "r1",
                ANNOTATION_STARTED_AT: "2026-05-28T10:00:00.000Z",
            },
        },
    }))
}

/// An operators work whose Job is complete.
#[must_use]
pub fn finished(cluster: &str, upgrade: &str, version: u64) -> ManifestWork {
    let mut work = work(cluster, Step::Operators, upgrade, version);
    work.status = read(json!({
        "conditions": [{"type": "Applied", "status": "True", "observedGeneration": 1}],
        "resourceStatus": {"manifests": [{
            "resourceMeta": {"ordinal": 4, "group": "batch", "kind": "Job", "resource": "jobs",
                "name": APPROVER, "namespace": APPROVER},
            "statusFeedback": {"values": [
                {"name": "succeeded", "fieldValue": {"type": "Integer", "integer": 1}},
                {"name": "jobComplete", "fieldValue": {"type": "String", "string": "True"}},
            ]},
        }]},
    }));
    work
}

#[expect(clippy::unwrap_used, reason = "only tests use this module")]
fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

/// The probe of an upgrade that asks a cluster. It is created when the upgrades of tests are, and not answered yet.
#[must_use]
pub fn probe(cluster: &str, (uid, key): (&str, &str), hash: &str, version: u64) -> ManifestWork {
    read(json!({
        "metadata": {
            "name": probe_name(cluster), "namespace": cluster, "uid": format!("{cluster}-probe-{uid}"), "generation": 1,
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-05-28T10:00:00Z",
            "labels": {LABEL_MCU_UID: uid, LABEL_STEP: PROBE},
            "annotations": {ANNOTATION_OWNER: key, ANNOTATION_STEP_HASH: hash},
        },
    }))
}

/// The same work with a status.
#[must_use]
pub fn answered(mut probe: ManifestWork, status: Value, version: u64) -> ManifestWork {
    probe.metadata.resource_version = Some(version.to_string());
    probe.status = read(status);
    probe
}

/// A cluster at 4.20.3 in stable-4.20 with nothing to complain about, to which 4.20.4 is recommended.
#[must_use]
pub fn status_of_probe() -> Value {
    let value =
        |name: &str, text: &str| json!({"name": name, "fieldValue": {"type": "String", "string": text}});
    json!({
        "conditions": [{"type": "Applied", "status": "True", "observedGeneration": 1}],
        "resourceStatus": {"manifests": [
            {
                "resourceMeta": {"group": "config.openshift.io", "kind": "ClusterVersion", "resource": "clusterversions", "name": "version"},
                "conditions": [
                    {"type": "Applied", "status": "True"},
                    {"type": "Available", "status": "True"},
                    {"type": "UpgradeOffer", "status": "True", "message": "offer/1\nlisted quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},
                ],
                "statusFeedback": {"values": [
                    value("desiredVersion", "4.20.3"), value("channel", "stable-4.20"), value("progressing", "False"),
                    value("failing", "False"), value("retrievedUpdates", "True"), value("targetImage", "quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
                ]},
            },
            map_of_probe("openshift-config-managed", "admin-gates", "UpgradeGates", "keys/1\nkey ack-4.19-a An API is removed."),
            map_of_probe("openshift-config", "admin-acks", "UpgradeAcks", "keys/1"),
        ]},
    })
}

/// What is reported of `ClusterOperator` `machine-config`.
#[must_use]
pub fn operator_of_probe(pools: &str) -> Value {
    json!({
        "resourceMeta": {"group": "config.openshift.io", "kind": "ClusterOperator", "resource": "clusteroperators", "name": "machine-config"},
        "conditions": [
            {"type": "Applied", "status": "True"},
            {"type": "Available", "status": "True"},
            {"type": "UpgradeWorkerPools", "status": "True", "message": pools},
        ],
    })
}

/// What is reported of a `ConfigMap` with one rule.
#[must_use]
pub fn map_of_probe(namespace: &str, name: &str, rule: &str, message: &str) -> Value {
    json!({
        "resourceMeta": {"group": "", "kind": "ConfigMap", "resource": "configmaps", "namespace": namespace, "name": name},
        "conditions": [
            {"type": "Applied", "status": "True"},
            {"type": "Available", "status": "True"},
            {"type": rule, "status": "True", "message": message},
        ],
    })
}
