//! Slim views of OCM kinds with only the fields that the controller reads, so that 10,000 clusters and 20,000 works
//! fit into a small memory. A field that does not have the expected shape is kept as an error (see
//! [`crate::lenient`]).

mod approval;
mod cluster;
mod placement;
mod work;

mod upgrade;

pub use approval::Approval;
pub use cluster::{ClusterClaim, ManagedCluster, ManagedClusterSpec, ManagedClusterStatus};
pub use placement::{
    BindingSpec, BindingStatus, Decision, ManagedClusterSet, ManagedClusterSetBinding, Placement,
    PlacementDecision, PlacementDecisionStatus, PlacementSpec, SetSelector, SetSpec,
};
pub use upgrade::{MAX_FINALIZERS, Report, SpecText, Upgrade};
pub use work::{
    FeedbackValue, FieldValue, ManifestStatus, ManifestWork, ResourceMeta, StatusFeedback,
    WorkResourceStatus, WorkStatus,
};

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};

use crate::lenient::Lenient;
use crate::maintenance::may_tell_zone;

/// A condition, with the fields that the controller reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// CamelCase reason.
    pub reason: String,
    /// Text.
    pub message: String,
    /// Generation for which the condition was set; 0 when absent.
    pub observed_generation: i64,
}

/// Finds a condition by type.
#[must_use]
pub fn condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Implements `kube::Resource` for a view with a `metadata` field.
macro_rules! resource {
    ($type:ident, $scope:ident, $group:literal, $version:literal, $kind:literal, $plural:literal) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}
pub(crate) use resource;

/// Metadata without managedFields and other fields that the controller does not read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    generation: Option<i64>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    owner_references: Lenient<Vec<OwnerReference>>,
}

/// Reads metadata without owner references, and with only the annotations of our group.
pub(crate) fn slim_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    SlimMeta::deserialize(deserializer).map(|slim| reduce(slim, |key| key.starts_with(crate::GROUP)).0)
}

/// Like [`slim_meta`], but with the annotations that may tell a time zone instead of those of our group.
pub(crate) fn zoned_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    SlimMeta::deserialize(deserializer).map(|slim| reduce(slim, may_tell_zone).0)
}

/// Like [`slim_meta`], but with owner references, for kinds that count only with their owner.
pub(crate) fn owned_meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::deserialize(deserializer)?;
    let (mut meta, owners) = reduce(slim, |key| key.starts_with(crate::GROUP));
    meta.owner_references = match owners {
        Lenient::Good(owners) => Some(owners),
        Lenient::Absent | Lenient::Broken(_) => None,
    };
    Ok(meta)
}

fn reduce(slim: SlimMeta, keeps: impl Fn(&str) -> bool) -> (ObjectMeta, Lenient<Vec<OwnerReference>>) {
    let annotations = slim.annotations.map(|all| {
        all.into_iter()
            .filter(|(key, _)| keeps(key))
            .collect::<BTreeMap<_, _>>()
    });
    let meta = ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        generation: slim.generation,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        annotations: annotations.filter(|kept| !kept.is_empty()),
        finalizers: slim.finalizers,
        ..ObjectMeta::default()
    };
    (meta, slim.owner_references)
}
