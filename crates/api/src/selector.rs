//! Selectors of clusters by sets, labels and expressions.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use std::collections::BTreeMap;

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Selects clusters by set, labels and expressions; a cluster must match all parts that are given. The key
/// `metadata.name` matches the name of the ManagedCluster. The key `name` matches the label of that name, which a
/// cluster can change itself; if a cluster has no such label, it matches the name of the ManagedCluster.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSelector {
    /// ManagedClusterSets to choose from; each must be bound to this namespace. If empty, all bound sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), inner(length(min = 1, max = 253)), extend("x-kubernetes-list-type" = "set"))]
    #[x_kube(validation = Rule::new("self.all(one, one.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))").message("must be names of ManagedClusterSets: lower-case letters, digits, dots and dashes"))]
    pub cluster_sets: Vec<String>,
    /// Labels that a cluster must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub match_labels: BTreeMap<String, String>,
    /// Label expressions that a cluster must satisfy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Vec<LabelExpression>,
}

/// One label expression.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[x_kube(validation = Rule::new("self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : !has(self.values) || self.values.size() == 0").message("values must name at least one value for operator In or NotIn, and must be left out for Exists and DoesNotExist"))]
pub struct LabelExpression {
    /// Label key. `metadata.name` is the name of the ManagedCluster; `name` falls back to it if the cluster has no
    /// such label.
    #[schemars(length(min = 1, max = 317))]
    #[x_kube(validation = Rule::new("self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')").message("must be a label key such as region or example.com/region"))]
    pub key: String,
    /// How the label's value must relate to the values.
    pub operator: LabelOperator,
    /// Values for In and NotIn. Must be empty for Exists and DoesNotExist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000), inner(length(max = 253)), extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Vec<String>,
}

/// Operators of a label expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum LabelOperator {
    /// The label has one of the values.
    In,
    /// The label is absent or has none of the values.
    NotIn,
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
}
