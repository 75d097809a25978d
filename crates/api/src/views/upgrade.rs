//! Our own resources as the controller watches them: the spec stays readable even when it breaks a rule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{resource, slim_meta};
use crate::lenient::Lenient;
use crate::{ManagedClustersUpgradeSpec, ManagedClustersUpgradeStatus, ReportRow};

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
    /// Name, namespace, uid, labels.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// Rows.
    #[serde(default)]
    pub rows: Lenient<Vec<ReportRow>>,
}

resource!(
    Report,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "ManagedClustersUpgradeReport",
    "managedclustersupgradereports"
);
