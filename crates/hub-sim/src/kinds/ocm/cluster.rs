//! ManagedClusters, their sets, and the bindings of sets to namespaces.

use serde_json::{Value, json};

use super::{
    CLUSTER, Names, boolean, condition, conditions, definition, keyed, label_selector, limited, list, object,
    one_of, required, taint_fields, text, with,
};

pub(super) fn managed_cluster() -> Value {
    let [effect, key] = taint_fields();
    let added = (
        "timeAdded",
        json!({"type": "string", "format": "date-time", "nullable": true}),
    );
    let taint = required(
        &["effect", "key"],
        object(&[effect, key, added, ("value", limited(0, 1024, None))]),
    );
    let client = required(&["url"], object(&[("caBundle", text()), ("url", text())]));
    let quantities = json!({"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}});
    let claim = object(&[("name", limited(1, 253, None)), ("value", limited(1, 1024, None))]);
    let namespace = required(
        &["clusterSet", "name"],
        object(&[
            ("clusterSet", text()),
            ("conditions", conditions()),
            ("name", limited(0, 63, None)),
        ]),
    );
    let schema = object(&[
        (
            "spec",
            object(&[
                ("hubAcceptsClient", boolean()),
                ("leaseDurationSeconds", json!({"type": "integer", "default": 60})),
                ("managedClusterClientConfigs", list(client)),
                ("taints", list(taint)),
            ]),
        ),
        (
            "status",
            object(&[
                ("allocatable", quantities.clone()),
                ("capacity", quantities),
                ("clusterClaims", list(claim)),
                ("conditions", conditions()),
                ("managedNamespaces", keyed(&["clusterSet", "name"], namespace)),
                ("version", object(&[("kubernetes", text())])),
            ]),
        ),
    ]);
    let names = Names {
        group: CLUSTER,
        version: "v1",
        kind: "ManagedCluster",
        plural: "managedclusters",
        short: &["mcl", "mcls"],
        scope: "Cluster",
    };
    let columns = [
        ("Hub Accepted", "boolean", ".spec.hubAcceptsClient"),
        (
            "Managed Cluster URLs",
            "string",
            ".spec.managedClusterClientConfigs[*].url",
        ),
        (
            "Joined",
            "string",
            ".status.conditions[?(@.type==\"ManagedClusterJoined\")].status",
        ),
        (
            "Available",
            "string",
            ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status",
        ),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    definition(&names, &columns, &schema)
}

pub(super) fn cluster_set() -> Value {
    const EXCLUSIVE: &str = "ExclusiveClusterSetLabel";
    let kind = with(
        one_of(&[EXCLUSIVE, "LabelSelector"]),
        &json!({"default": EXCLUSIVE}),
    );
    let selector = required(
        &["selectorType"],
        object(&[("labelSelector", label_selector()), ("selectorType", kind)]),
    );
    let selector = with(selector, &json!({"default": {"selectorType": EXCLUSIVE}}));
    let namespaces = keyed(
        &["name"],
        required(&["name"], object(&[("name", limited(0, 63, None))])),
    );
    let spec = object(&[("clusterSelector", selector), ("managedNamespaces", namespaces)]);
    let spec = with(
        spec,
        &json!({"default": {"clusterSelector": {"selectorType": EXCLUSIVE}}}),
    );
    let schema = object(&[
        ("spec", spec),
        ("status", object(&[("conditions", list(condition()))])),
    ]);
    let names = Names {
        group: CLUSTER,
        version: "v1beta2",
        kind: "ManagedClusterSet",
        plural: "managedclustersets",
        short: &["mclset", "mclsets"],
        scope: "Cluster",
    };
    let columns = [
        (
            "Empty",
            "string",
            ".status.conditions[?(@.type==\"ClusterSetEmpty\")].status",
        ),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    definition(&names, &columns, &schema)
}

pub(super) fn set_binding() -> Value {
    let schema = object(&[
        (
            "spec",
            object(&[("clusterSet", json!({"type": "string", "minLength": 1}))]),
        ),
        ("status", object(&[("conditions", list(condition()))])),
    ]);
    let names = Names {
        group: CLUSTER,
        version: "v1beta2",
        kind: "ManagedClusterSetBinding",
        plural: "managedclustersetbindings",
        short: &["mclsetbinding", "mclsetbindings"],
        scope: "Namespaced",
    };
    definition(&names, &[], &schema)
}
