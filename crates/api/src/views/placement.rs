//! Placement, PlacementDecision, ManagedClusterSet and ManagedClusterSetBinding.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Condition, owned_meta, resource, slim_meta};
use crate::lenient::Lenient;

/// A Placement (`v1beta1`). Its decisions are in PlacementDecisions.
#[derive(Clone, Debug, Deserialize)]
pub struct Placement {
    /// Name, namespace, UID, deletion time.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// The cluster sets that it may decide from.
    #[serde(default)]
    pub spec: Lenient<PlacementSpec>,
}

resource!(
    Placement,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "Placement",
    "placements"
);

/// Spec of a Placement, with the fields that limit its decisions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PlacementSpec {
    /// Cluster sets to decide from. If empty, all sets that are bound in its namespace.
    #[serde(deserialize_with = "a_few")]
    pub cluster_sets: Vec<String>,
}

/// Largest number of cluster sets of a Placement, more than any hub needs.
const MAX_SETS: usize = 1000;

/// Reads a list of limited length. Tenants write Placements, and OCM's schema sets no limit.
fn a_few<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Few;
    impl<'de> Visitor<'de> for Few {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_SETS} names")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut names: A) -> Result<Self::Value, A::Error> {
            let mut few = Vec::new();
            while let Some(name) = names.next_element()? {
                if few.len() == MAX_SETS {
                    return Err(A::Error::custom(format!("more than {MAX_SETS} names")));
                }
                few.push(name);
            }
            Ok(few)
        }
    }
    deserializer.deserialize_seq(Few)
}

/// A PlacementDecision (`v1beta1`), labelled with the name of its Placement and owned by it.
#[derive(Clone, Debug, Deserialize)]
pub struct PlacementDecision {
    /// Name, namespace, labels, owner references.
    #[serde(deserialize_with = "owned_meta")]
    pub metadata: ObjectMeta,
    /// Decisions. A new object has none yet.
    #[serde(default)]
    pub status: Lenient<PlacementDecisionStatus>,
}

resource!(
    PlacementDecision,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta1",
    "PlacementDecision",
    "placementdecisions"
);

/// Status of a PlacementDecision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PlacementDecisionStatus {
    /// Clusters that were decided; OCM writes at most 100 into one object.
    pub decisions: Vec<Decision>,
}

/// One cluster of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Decision {
    /// Name of the ManagedCluster; may be empty.
    pub cluster_name: String,
}

/// A ManagedClusterSet (`v1beta2`, cluster-scoped).
#[derive(Clone, Debug, Deserialize)]
pub struct ManagedClusterSet {
    /// Name, deletion time.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// How clusters belong to the set.
    #[serde(default)]
    pub spec: Lenient<SetSpec>,
}

resource!(
    ManagedClusterSet,
    ClusterResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta2",
    "ManagedClusterSet",
    "managedclustersets"
);

/// Spec of a ManagedClusterSet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetSpec {
    /// The selector.
    pub cluster_selector: SetSelector,
}

/// `ExclusiveClusterSetLabel` (the default: label `cluster.open-cluster-management.io/clusterset`) or `LabelSelector`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetSelector {
    /// `ExclusiveClusterSetLabel` or `LabelSelector`; empty means the former.
    pub selector_type: String,
    /// Selector of type `LabelSelector`. If absent, it matches nothing; if empty, everything.
    pub label_selector: Option<LabelSelector>,
}

/// A ManagedClusterSetBinding (`v1beta2`). It lets a namespace use a set.
#[derive(Clone, Debug, Deserialize)]
pub struct ManagedClusterSetBinding {
    /// Name, namespace, deletion time.
    #[serde(deserialize_with = "slim_meta")]
    pub metadata: ObjectMeta,
    /// The set that is bound.
    #[serde(default)]
    pub spec: Lenient<BindingSpec>,
    /// Whether OCM accepted the binding; absent without a registration controller.
    #[serde(default)]
    pub status: Lenient<BindingStatus>,
}

resource!(
    ManagedClusterSetBinding,
    NamespaceResourceScope,
    "cluster.open-cluster-management.io",
    "v1beta2",
    "ManagedClusterSetBinding",
    "managedclustersetbindings"
);

/// Spec of a ManagedClusterSetBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingSpec {
    /// Name of the set, equal to the name of the binding.
    pub cluster_set: String,
}

/// Status of a ManagedClusterSetBinding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct BindingStatus {
    /// Condition `Bound`.
    pub conditions: Vec<Condition>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_placement_costs_is_bounded_whatever_its_author_writes() {
        let placement = |sets: usize| -> Placement {
            let names = vec![""; sets];
            serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"clusterSets": names}}))
                .unwrap()
        };
        assert_eq!(
            placement(MAX_SETS).spec.good().unwrap().cluster_sets.len(),
            MAX_SETS
        );
        let error = placement(500_000).spec.error().unwrap().to_owned();
        assert!(error.contains("more than 1000 names"), "{error}");
    }
}
