//! Retries of chosen clusters.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// Clusters that failed and are to be tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
pub struct RetryRequest {
    /// Name of the retry. Each one is carried out once; status.retries has those that were.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = Rule::new("self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$')").message("must be at most 64 letters, digits, ., _ and -, beginning and ending with a letter or digit, such as 2026-11-22-a"))]
    pub id: String,
    /// Names of the clusters. If empty, all clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500), inner(length(max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")), extend("x-kubernetes-list-type" = "set"))]
    pub clusters: Vec<String>,
    /// Reasons for which clusters failed, such as OperatorsJobFailed. If empty, any reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 64), regex(pattern = "^[A-Za-z0-9]+$")), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Vec<String>,
}

/// Most retries of a spec.
pub const MAX_RETRIES: usize = 32;
