//! Slim views of the hub's objects. Only what the agents use is parsed, and never managedFields.

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A ManifestWork. Spec and status stay unparsed until they are needed.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct WorkView {
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: Option<Box<RawValue>>,
    #[serde(default)]
    pub status: Option<Box<RawValue>>,
}

/// A ManagedCluster.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct ClusterView {
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub status: Option<ClusterStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClusterStatus {
    #[serde(default)]
    pub cluster_claims: Option<Vec<Claim>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Claim {
    pub name: String,
    #[serde(default)]
    pub value: String,
}

impl ClusterView {
    /// The value of a `ClusterClaim`.
    pub fn claim(&self, name: &str) -> Option<&str> {
        let claims = self.status.as_ref()?.cluster_claims.as_ref()?;
        claims
            .iter()
            .find(|claim| claim.name == name)
            .map(|claim| claim.value.as_str())
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slim {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<Time>,
}

fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = Slim::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        labels: slim.labels,
        annotations: slim.annotations,
        finalizers: slim.finalizers,
        deletion_timestamp: slim.deletion_timestamp,
        ..ObjectMeta::default()
    })
}

macro_rules! resource {
    ($view:ty, $scope:ty, $kind:literal, $group:literal, $plural:literal) => {
        impl Resource for $view {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

resource!(
    WorkView,
    NamespaceResourceScope,
    "ManifestWork",
    "work.open-cluster-management.io",
    "manifestworks"
);
resource!(
    ClusterView,
    ClusterResourceScope,
    "ManagedCluster",
    "cluster.open-cluster-management.io",
    "managedclusters"
);
