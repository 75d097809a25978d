//! ManagedCluster, with the fields that selection and eligibility need.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{Condition, resource, zoned_meta};
use crate::lenient::Lenient;

/// A ManagedCluster (`cluster.open-cluster-management.io/v1`, cluster-scoped).
#[derive(Clone, Debug, Deserialize)]
pub struct ManagedCluster {
    /// Name, labels, deletion time, and the annotations that may tell a time zone.
    #[serde(deserialize_with = "zoned_meta")]
    pub metadata: ObjectMeta,
    /// Spec.
    #[serde(default)]
    pub spec: Lenient<ManagedClusterSpec>,
    /// Status.
    #[serde(default)]
    pub status: Lenient<ManagedClusterStatus>,
}

resource!(
    ManagedCluster,
    ClusterResourceScope,
    "cluster.open-cluster-management.io",
    "v1",
    "ManagedCluster",
    "managedclusters"
);

/// Spec of a ManagedCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterSpec {
    /// False when the hub has not accepted the cluster or has detached it.
    pub hub_accepts_client: bool,
}

/// Status of a ManagedCluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedClusterStatus {
    /// Conditions. The controller reads `ManagedClusterConditionAvailable`.
    pub conditions: Vec<Condition>,
    /// Claims that the cluster makes about itself.
    pub cluster_claims: Vec<ClusterClaim>,
}

/// A claim that a cluster makes about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ClusterClaim {
    /// Name, such as `id.openshift.io`.
    pub name: String,
    /// Value.
    pub value: String,
}

impl ManagedClusterStatus {
    /// Value of a claim.
    #[must_use]
    pub fn claim(&self, name: &str) -> Option<&str> {
        self.cluster_claims
            .iter()
            .find(|claim| claim.name == name)
            .map(|claim| claim.value.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_of_another_shape_does_not_spoil_the_object() {
        let text = r#"{"metadata":{"name":"c1","managedFields":[{"x":1}]},"spec":{"hubAcceptsClient":true},"status":{"conditions":"none"}}"#;
        let cluster: ManagedCluster = serde_json::from_str(text).unwrap();
        assert_eq!(cluster.metadata.name.as_deref(), Some("c1"));
        assert!(cluster.metadata.managed_fields.is_none());
        assert!(cluster.spec.good().unwrap().hub_accepts_client);
        assert!(cluster.status.error().is_some());
    }
}
