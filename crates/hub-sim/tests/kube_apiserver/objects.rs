//! The kinds that are tried, and objects of them.

use serde_json::{Value, json};

use crate::random::Random;
use crate::upgrades;

/// A kind and where it is.
#[derive(Debug)]
pub struct Kind {
    pub api_version: &'static str,
    #[expect(clippy::struct_field_names, reason = "the field of this name in every object")]
    pub kind: &'static str,
    pub plural: &'static str,
    pub namespaced: bool,
    pub has_status: bool,
}

const fn kind(api_version: &'static str, kind: &'static str, plural: &'static str, has_status: bool) -> Kind {
    Kind {
        api_version,
        kind,
        plural,
        namespaced: true,
        has_status,
    }
}

/// All of them.
pub const KINDS: [Kind; 12] = [
    kind(
        "work.open-cluster-management.io/v1",
        "ManifestWork",
        "manifestworks",
        true,
    ),
    kind(
        "cluster.open-cluster-management.io/v1beta1",
        "ManagedClustersUpgrade",
        "managedclustersupgrades",
        true,
    ),
    Kind {
        namespaced: false,
        ..kind(
            "cluster.open-cluster-management.io/v1",
            "ManagedCluster",
            "managedclusters",
            true,
        )
    },
    kind(
        "cluster.open-cluster-management.io/v1beta1",
        "PlacementDecision",
        "placementdecisions",
        true,
    ),
    kind("coordination.k8s.io/v1", "Lease", "leases", false),
    kind("v1", "ConfigMap", "configmaps", false),
    kind(
        "cluster.open-cluster-management.io/v1beta1",
        "Placement",
        "placements",
        true,
    ),
    kind(
        "cluster.open-cluster-management.io/v1beta1",
        "ManagedClustersUpgradeReport",
        "managedclustersupgradereports",
        false,
    ),
    Kind {
        namespaced: false,
        ..kind(
            "cluster.open-cluster-management.io/v1beta2",
            "ManagedClusterSet",
            "managedclustersets",
            true,
        )
    },
    kind(
        "cluster.open-cluster-management.io/v1beta2",
        "ManagedClusterSetBinding",
        "managedclustersetbindings",
        true,
    ),
    kind("v1", "Secret", "secrets", false),
    kind(
        "cluster.open-cluster-management.io/v1beta1",
        "ManagedClustersUpgradeApproval",
        "managedclustersupgradeapprovals",
        false,
    ),
];

/// A valid object of a kind without its name.
pub fn valid(kind: &Kind) -> Value {
    match kind.kind {
        "Placement" => json!({"spec": {}}),
        "ManagedClustersUpgrade" => json!({"spec": {"clusterVersion": {"version": "4.15.3"}}}),
        "ManagedClustersUpgradeReport" => json!({"rows": []}),
        "ManagedClustersUpgradeApproval" => {
            json!({"spec": {"upgrade": "a", "checkpoint": "half", "planHash": "1a2b", "approver": "anna"}})
        }
        _ => json!({}),
    }
}

/// A spec of a kind: mostly valid, sometimes not.
pub fn spec(kind: &Kind, random: &mut Random) -> Value {
    if kind.kind == "ManagedClustersUpgrade" {
        return upgrades::spec(random);
    }
    let choices = match kind.kind {
        "ManifestWork" => works(),
        "ManagedCluster" => vec![
            json!({"spec": {"hubAcceptsClient": true}}),
            json!({"spec": {"hubAcceptsClient": true, "taints": [{"key": "a", "effect": "NoSelect"}]}}),
            json!({"spec": {"taints": [{"key": "a", "effect": "Never"}]}}),
            json!({"spec": {"leaseDurationSeconds": 5}}),
        ],
        "Placement" => vec![
            json!({"spec": {}}),
            json!({"spec": {"numberOfClusters": 3, "tolerations": [{"key": "a"}]}}),
            json!({"spec": {"prioritizerPolicy": {}}}),
            json!({}),
        ],
        "Lease" => vec![
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}),
            json!({"spec": {"holderIdentity": "b", "leaseTransitions": 2}}),
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:10.123456Z", "leaseTransitions": 0}}),
            json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 0}}),
            json!({"spec": {"leaseTransitions": -1, "renewTime": null}}),
            json!({"spec": {"leaseDurationSeconds": "15"}}),
        ],
        "ConfigMap" => vec![
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"a": "2"}}),
            json!({"data": {"a": "1"}, "immutable": true}),
            json!({"data": {"a/b": "1", "..c": "2"}}),
            json!({"data": {"a": "1"}, "binaryData": {"a": "MQ==", "b c": "MQ=="}}),
            json!({}),
        ],
        "ManagedClustersUpgradeReport" => vec![
            json!({"rows": [{"cluster": "c1", "phase": "Complete", "revision": "1", "since": "2026-01-01T00:00:00Z", "steps": [{"name": "clusterUpgrade", "startedAt": "2026-01-01T00:00:00Z"}]}]}),
            json!({"rows": [{"cluster": "c1", "phase": "Pending", "revision": "1", "since": "2026-01-01T00:00:00Z", "reason": "WaitingForSlot", "canary": true}]}),
            json!({"rows": [{"cluster": "c1"}]}),
            json!({"rows": [], "nonsense": {}}),
            json!({}),
        ],
        "ManagedClustersUpgradeApproval" => vec![
            json!({"spec": {"upgrade": "a", "checkpoint": "half", "planHash": "1a2b", "approver": "anna"}}),
            json!({"spec": {"upgrade": "a", "checkpoint": "half", "planHash": "1a2b", "approver": "anna", "message": "CHG0042", "expires": "2026-12-02T00:00:00Z"}}),
            json!({"spec": {"upgrade": "a", "checkpoint": "half", "planHash": "1a2b", "approver": "anna", "expires": "tomorrow"}}),
            json!({"spec": {"upgrade": "a", "checkpoint": "half", "planHash": "1a2b", "approver": "anna", "expires": "2026-12-02 00:00:00Z"}}),
            json!({"spec": {"upgrade": "a", "checkpoint": "half", "planHash": "1a2b", "approver": "anna", "expires": "2026-12-02T00:00:60Z"}}),
            json!({"spec": {"upgrade": "", "checkpoint": "half", "planHash": "1a2b"}}),
            json!({}),
        ],
        "ManagedClusterSet" => vec![
            json!({"spec": {}}),
            json!({"spec": {"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"a": "b"}}}}}),
            json!({"spec": {"clusterSelector": {"selectorType": "Other"}}}),
            json!({"spec": {"managedNamespaces": [{"name": "n"}, {"name": "n"}]}}),
            json!({}),
        ],
        "ManagedClusterSetBinding" => vec![
            json!({"spec": {"clusterSet": "a"}}),
            json!({"spec": {"clusterSet": ""}}),
            json!({"spec": {}}),
            json!({}),
        ],
        "Secret" => vec![
            json!({"data": {"a": "MQ=="}}),
            json!({"stringData": {"a": "2"}}),
            json!({"stringData": {"a/b": "2"}}),
            json!({"data": {"a": "MQ=="}, "immutable": true}),
            json!({"type": "example.com/other", "data": {"a": "MQ=="}}),
            json!({"type": "Opaque", "data": {"b": "Mg=="}}),
        ],
        _ => vec![json!({})],
    };
    random.pick(choices)
}

fn works() -> Vec<Value> {
    vec![
        json!({"spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"a": "b"}}]}}}),
        json!({"spec": {"deleteOption": {}, "workload": {"manifests": []}}}),
        // As `kubectl create --dry-run=client -o yaml` prints them.
        json!({"spec": {"workload": {"manifests": [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "creationTimestamp": null}, "spec": {"strategy": {}, "template": {"metadata": {"creationTimestamp": null}, "list": [null, {"a": null}]}}, "status": null}]}}}),
        request(),
        request(),
        json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}, "unknown": 1}}),
        json!({"spec": {"deleteOption": {"propagationPolicy": "Sideways"}}}),
        json!({"spec": {"manifestConfigs": [{"resourceIdentifier": {"resource": "jobs", "name": "a", "group": "batch"}, "updateStrategy": {"type": "CreateOnly"}, "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "n", "path": ".status"}]}]}]}}),
        json!({"spec": {"manifestConfigs": [{"feedbackRules": [{"type": "Other"}]}]}}),
        json!({"spec": {"manifestConfigs": "none"}}),
    ]
}

/// A work that requests an update.
fn request() -> Value {
    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"channel": "stable-4.15", "desiredUpdate": {"version": "4.15.3"}}});
    json!({"spec": {"workload": {"manifests": [version]}}})
}

/// A status of a kind.
pub fn status(kind: &Kind, random: &mut Random) -> Value {
    if kind.kind == "ManagedClustersUpgrade" {
        return upgrades::status(random);
    }
    let condition = |status: &str| json!({"type": "Applied", "status": status, "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let choices = match kind.kind {
        "ManifestWork" | "ManagedCluster" | "Placement" => vec![
            json!({"conditions": [condition("True")]}),
            json!({"conditions": [condition("Maybe")]}),
            json!({"conditions": [condition("False"), {"type": "Other", "status": "True", "reason": "Ok", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
            json!({"conditions": [{"type": "Applied"}]}),
            json!({"conditions": []}),
        ],
        "PlacementDecision" => vec![
            json!({"decisions": [{"clusterName": "a", "reason": ""}]}),
            json!({"decisions": []}),
            json!({}),
        ],
        _ => vec![json!({"conditions": []}), json!({})],
    };
    random.pick(choices)
}

/// An event about an object.
pub fn event(random: &mut Random) -> Value {
    let regarding = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": ""});
    let choices = vec![
        json!({"reason": "Done", "action": "Do", "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "c-1"}),
        json!({"reason": "Done", "action": "Do", "type": "Warning", "reportingController": "example.com/c", "reportingInstance": "c-1", "note": "it is", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.5Z"}}),
        json!({"reason": "Done", "action": "Do", "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "c-1", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.500000Z"}}),
        json!({"reason": "Done", "action": "Do", "type": "Odd", "reportingController": "example.com/c", "reportingInstance": "c-1"}),
        json!({"reason": "Done", "action": "Do", "type": "Normal", "reportingController": "example.com/c", "reportingInstance": "c-1"}),
        json!({"action": "Do", "type": "Normal"}),
    ];
    let mut event = random.pick(choices);
    event["regarding"] = regarding;
    event["eventTime"] = "2026-01-01T00:00:00.000001Z".into();
    event
}
