//! The kinds that a hub serves: those of Kubernetes that controllers, agents and people use, OCM's, and ours.

mod ocm;

use serde_json::Value;

use crate::kind::Kind;

/// All kinds.
pub(crate) fn all() -> Vec<Kind> {
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
        ..Kind::built_in("", "v1", "Namespace", "namespaces", false)
    };
    let lease = Kind {
        unconditional_update: false,
        create_by_put: true,
        ..Kind::built_in("coordination.k8s.io", "v1", "Lease", "leases", true)
    };
    let event = Kind {
        create_by_put: true,
        short_names: vec!["ev".to_owned()],
        ..Kind::built_in("events.k8s.io", "v1", "Event", "events", true)
    };
    let policy = |kind: &str, plural: &str| Kind {
        has_generation: true,
        unconditional_update: false,
        ..Kind::built_in(ADMISSION, "v1", kind, plural, false)
    };
    vec![
        namespace,
        lease,
        event,
        Kind::built_in("", "v1", "ConfigMap", "configmaps", true),
        Kind::built_in("", "v1", "Secret", "secrets", true),
        Kind::built_in("", "v1", "ServiceAccount", "serviceaccounts", true).keyed(&["secrets"], &["name"]),
        Kind::built_in(RBAC, "v1", "ClusterRole", "clusterroles", false),
        Kind::built_in(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", false),
        Kind::built_in(RBAC, "v1", "Role", "roles", true),
        Kind::built_in(RBAC, "v1", "RoleBinding", "rolebindings", true),
        policy("ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
        policy(
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
        ),
    ]
}
