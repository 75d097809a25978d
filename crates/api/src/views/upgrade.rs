//! Our own resources as the controller watches them: the spec stays readable even when it breaks a rule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde::Deserialize;

use super::{owned_meta, resource, slim_meta};
use crate::lenient::Lenient;
use crate::stored::StoredRows;
use crate::{ManagedClustersUpgradeSpec, ManagedClustersUpgradeStatus};

/// A `ManagedClustersUpgrade` whose spec may be of another shape than today's CRD.
#[derive(Clone, Debug, Deserialize)]
pub struct Upgrade {
    /// Name, namespace, uid, generation, our annotations, finalizers.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: Lenient<ManagedClustersUpgradeSpec>,
    /// Status.
    #[serde(default)]
    pub status: Lenient<ManagedClustersUpgradeStatus>,
}

resource!(
    Upgrade,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "ManagedClustersUpgrade",
    "managedclustersupgrades"
);

/// A `ManagedClustersUpgradeReport` whose rows may be unreadable.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// Name, namespace, uid, labels, the controlling owner.
    #[serde(deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// Rows, each read by itself.
    #[serde(default)]
    pub rows: StoredRows,
}

impl Report {
    /// The upgrade that owns the report: its controlling owner, if that is one.
    #[must_use]
    pub fn owner(&self) -> Option<&OwnerReference> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        owners.find(|owner| {
            owner.controller == Some(true)
                && owner.kind == "ManagedClustersUpgrade"
                && owner.api_version.split('/').next() == Some(crate::GROUP)
        })
    }
}

resource!(
    Report,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "ManagedClustersUpgradeReport",
    "managedclustersupgradereports"
);
