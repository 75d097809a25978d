//! Approvals as the controller watches them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{resource, slim_meta};
use crate::approval::ManagedClustersUpgradeApprovalSpec;
use crate::lenient::Lenient;

/// A `ManagedClustersUpgradeApproval` whose spec may have another shape than today's CRD says.
#[derive(Clone, Debug, Deserialize)]
pub struct Approval {
    /// Name, namespace, creation and deletion time.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// What is approved. An approval that cannot be read approves nothing.
    #[serde(default)]
    pub spec: Lenient<ManagedClustersUpgradeApprovalSpec>,
}

resource!(
    Approval,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "ManagedClustersUpgradeApproval",
    "managedclustersupgradeapprovals"
);
