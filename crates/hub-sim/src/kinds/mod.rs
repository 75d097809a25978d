//! The kinds that a hub serves: those of Kubernetes that controllers, agents and people use, OCM's, and ours.

mod ocm;

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::kind::{Column, Kind};

/// All kinds. They are parsed once, because a simulation makes thousands of hubs.
pub(crate) fn all() -> &'static [Arc<Kind>] {
    static ALL: LazyLock<Vec<Arc<Kind>>> = LazyLock::new(|| parsed().into_iter().map(Arc::new).collect());
    &ALL
}

fn parsed() -> Vec<Kind> {
    let ours = api::schema::crds();
    let ours = ours.iter().filter_map(|crd| serde_json::to_value(crd).ok());
    let custom: Vec<Value> = ocm::definitions().into_iter().chain(ours).collect();
    let custom = custom.iter().filter_map(|crd| Kind::from_crd(crd).ok());
    built_in().into_iter().chain(custom).collect()
}

fn built_in() -> Vec<Kind> {
    const RBAC: &str = "rbac.authorization.k8s.io";
    const ADMISSION: &str = "admissionregistration.k8s.io";
    let namespace = Kind {
        has_status: true,
        short_names: vec!["ns".to_owned()],
        columns: columns(&[
            ("Status", "string", ".status.phase"),
            ("Age", "string", ".metadata.creationTimestamp"),
        ]),
        ..Kind::built_in("", "v1", "Namespace", "namespaces", false)
    };
    let lease = Kind {
        unconditional_update: false,
        create_by_put: true,
        always: vec![("spec", json!({}))],
        columns: columns(&[
            ("Holder", "string", ".spec.holderIdentity"),
            ("Age", "string", ".metadata.creationTimestamp"),
        ]),
        ..Kind::built_in("coordination.k8s.io", "v1", "Lease", "leases", true).with_schema(&lease_schema())
    };
    let event = Kind {
        create_by_put: true,
        short_names: vec!["ev".to_owned()],
        columns: columns(&[
            ("Last Seen", "string", ".eventTime"),
            ("Type", "string", ".type"),
            ("Reason", "string", ".reason"),
            ("Kind", "string", ".regarding.kind"),
            ("Object", "string", ".regarding.name"),
            ("Message", "string", ".note"),
        ]),
        always: vec![
            ("eventTime", Value::Null),
            ("regarding", json!({})),
            ("deprecatedSource", json!({})),
            ("deprecatedFirstTimestamp", Value::Null),
            ("deprecatedLastTimestamp", Value::Null),
        ],
        ..Kind::built_in("events.k8s.io", "v1", "Event", "events", true).with_schema(&event_schema())
    };
    let policy = |kind: &str, plural: &str| Kind {
        has_generation: true,
        unconditional_update: false,
        ..Kind::built_in(ADMISSION, "v1", kind, plural, false)
    };
    let others = vec![
        namespace,
        lease,
        event,
        Kind::built_in(RBAC, "v1", "ClusterRole", "clusterroles", false),
        Kind::built_in(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", false),
        Kind::built_in(RBAC, "v1", "Role", "roles", true),
        Kind::built_in(RBAC, "v1", "RoleBinding", "rolebindings", true),
        policy("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        policy(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        ),
    ];
    others.into_iter().chain(configuration()).collect()
}

/// What programs in a namespace are configured with.
fn configuration() -> [Kind; 3] {
    [
        Kind {
            short_names: vec!["cm".to_owned()],
            columns: columns(&[
                ("Data", "string", ".data"),
                ("Age", "string", ".metadata.creationTimestamp"),
            ]),
            ..Kind::built_in("", "v1", "ConfigMap", "configmaps", true).with_schema(&config_map_schema())
        },
        Kind {
            columns: columns(&[
                ("Type", "string", ".type"),
                ("Data", "string", ".data"),
                ("Age", "string", ".metadata.creationTimestamp"),
            ]),
            ..Kind::built_in("", "v1", "Secret", "secrets", true).with_schema(&secret_schema())
        },
        Kind {
            short_names: vec!["sa".to_owned()],
            ..Kind::built_in("", "v1", "ServiceAccount", "serviceaccounts", true)
                .keyed(&["secrets"], &["name"])
        },
    ]
}

fn columns(columns: &[(&str, &str, &str)]) -> Vec<Column> {
    let column = |(name, of, path): &(&str, &str, &str)| Column {
        name: (*name).to_owned(),
        of: (*of).to_owned(),
        path: (*path).to_owned(),
        priority: 0,
        is_native: true,
    };
    columns.iter().map(column).collect()
}

fn lease_schema() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "acquireTime": {"type": "string", "format": "micro-time"},
        "holderIdentity": {"type": "string"},
        "leaseDurationSeconds": {"type": "integer", "format": "int32"},
        "leaseTransitions": {"type": "integer", "format": "int32"},
        "preferredHolder": {"type": "string"},
        "renewTime": {"type": "string", "format": "micro-time"},
        "strategy": {"type": "string"},
    }}}})
}

fn secret_schema() -> Value {
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {
        "data": texts(),
        "stringData": texts(),
        "immutable": {"type": "boolean"},
        "type": {"type": "string", "default": "Opaque"},
    }})
}

fn config_map_schema() -> Value {
    let texts = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"type": "object", "properties": {"data": texts(), "binaryData": texts(), "immutable": {"type": "boolean"}}})
}

fn event_schema() -> Value {
    let text = || json!({"type": "string"});
    let time = || json!({"type": "string", "format": "micro-time"});
    let object = || {
        json!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": text(), "fieldPath": text(), "kind": text(), "name": text(), "namespace": text(),
                "resourceVersion": text(), "uid": text(),
            },
        })
    };
    json!({"type": "object", "properties": {
        "action": text(),
        "deprecatedCount": {"type": "integer", "format": "int32"},
        "deprecatedFirstTimestamp": text(),
        "deprecatedLastTimestamp": text(),
        "deprecatedSource": {"type": "object", "properties": {"component": text(), "host": text()}},
        "eventTime": time(),
        "note": text(),
        "reason": text(),
        "regarding": object(),
        "related": object(),
        "reportingController": text(),
        "reportingInstance": text(),
        "series": {"type": "object", "properties": {"count": {"type": "integer", "format": "int32"}, "lastObservedTime": time()}},
        "type": text(),
    }})
}
