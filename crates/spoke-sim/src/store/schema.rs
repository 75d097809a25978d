//! Which lists are keyed and which maps are atomic, for server-side apply.
//!
//! Real servers read this from `OpenAPI`. This is the part that matters for manifests of fleets. All other lists are atomic,
//! which is also the rule for custom resources without markers.

use serde_json::Value;

use crate::catalog::split_api_version;
use crate::fields;

/// How the items of a list are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// By the values of these keys.
    Keyed(&'static [&'static str]),
}

/// The merge rules of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    built_in: bool,
}

impl Schema {
    /// The rules for an object, from its apiVersion.
    #[must_use]
    pub fn of(object: &Value) -> Self {
        let (group, _) = split_api_version(fields::text(object, &["apiVersion"]));
        Self {
            built_in: !group.contains('.') || group.ends_with(".k8s.io"),
        }
    }

    /// How the list under a field of this name is merged.
    #[must_use]
    pub fn list(self, field: &str, items: &[Value]) -> ListKind {
        let keys: &[&str] = match field {
            "finalizers" => return ListKind::Set,
            "conditions" => &["type"],
            "ownerReferences" => &["uid"],
            "acceptRisks" => &["name"],
            "overrides" => &["kind", "group", "namespace", "name"],
            "containers"
            | "initContainers"
            | "ephemeralContainers"
            | "volumes"
            | "env"
            | "imagePullSecrets"
            | "secrets"
            | "webhooks"
                if self.built_in =>
            {
                &["name"]
            }
            "volumeMounts" if self.built_in => &["mountPath"],
            "ports" if self.built_in && items.iter().all(|item| item.get("containerPort").is_some()) => {
                &["containerPort", "protocol"]
            }
            "ports" if self.built_in => &["port", "protocol"],
            "hostAliases" if self.built_in => &["ip"],
            _ => return ListKind::Atomic,
        };
        let has_keys = |item: &Value| {
            keys.iter()
                .all(|key| *key == "protocol" || item.get(*key).is_some())
        };
        if items.iter().all(has_keys) {
            ListKind::Keyed(keys)
        } else {
            ListKind::Atomic
        }
    }

    /// Whether the map under a field of this name is merged as one value.
    #[must_use]
    pub fn is_atomic_map(self, field: &str) -> bool {
        self.built_in
            && matches!(
                field,
                "selector"
                    | "labelSelector"
                    | "podSelector"
                    | "namespaceSelector"
                    | "nodeSelector"
                    | "roleRef"
                    | "fieldRef"
                    | "resourceFieldRef"
                    | "configMapKeyRef"
                    | "secretKeyRef"
            )
    }
}
