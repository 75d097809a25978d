//! How an upgrade limits its risk: canaries, concurrency, time limits, tolerated failures and soak time.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApprovalCheckpoint, CanaryClusters, LeftOutCluster, RetryRequest};
use crate::schema;

/// Limits the risk of the upgrade: canaries, concurrency, time limits, tolerated failures and soak time.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeStrategy {
    /// Clusters from which the request of the update is withdrawn, if they have not accepted it yet. They count as neither complete nor
    /// failed. An update that a cluster has accepted continues. A cluster that is removed from the list is upgraded
    /// after all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub abort: Vec<LeftOutCluster>,
    /// Points of the rollout at which the starts wait until somebody approves the plan by a ManagedClustersUpgradeApproval. An edit
    /// of the spec, another selection or the retry of a canary makes it another plan, which is approved anew.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub approvals: Vec<ApprovalCheckpoint>,
    /// Clusters that are upgraded first; all of them must complete before any other cluster starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_clusters: Option<CanaryClusters>,
    /// Time limit for a cluster's pre-action, and for its post-action, such as 15m. If unset, clusterUpgradeTimeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub action_timeout: Option<String>,
    /// Time limit for a cluster's platform upgrade, and for an action if actionTimeout is unset, such as 90m; 3h by default.
    #[serde(default = "default_cluster_timeout")]
    #[schemars(schema_with = "schema::duration")]
    pub cluster_upgrade_timeout: String,
    /// Clusters that may be in flight at once: a number, or a percentage of all selected clusters, rounded up; 10 by
    /// default.
    #[serde(default = "default_max_concurrency")]
    #[schemars(schema_with = "schema::max_concurrency")]
    pub max_concurrency: IntOrString,
    /// Time limit for a cluster's operator upgrades, such as 1h; 20m by default.
    #[serde(default = "default_operators_timeout")]
    #[schemars(schema_with = "schema::duration")]
    pub operators_upgrade_timeout: String,
    /// How many clusters may fail, or have a degraded pre-action, while other clusters still start: a number, or a
    /// percentage of all clusters of the upgrade, rounded up. If there are more, clusters in flight finish and no
    /// further cluster starts. With 0 the first failure stops the starts. If unset, there is no limit. Canaries do not
    /// count: one failed canary stops the starts, whatever this limit is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::max_failures")]
    pub max_failures: Option<IntOrString>,
    /// How long an upgraded cluster must stay healthy before it counts as complete, such as 30m. If unset, it counts
    /// at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration_or_zero")]
    pub min_success_time: Option<String>,
    /// Clusters that failed, or whose pre-action is degraded, and that are to be tried again, each retry once and in this order. Steps
    /// that succeeded are not repeated, except after RegressedInSoak: then the update and the steps that follow it are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub retry: Vec<RetryRequest>,
    /// Clusters that are not upgraded although they are selected. They count as neither complete nor failed. What is under way on a
    /// cluster ends first, and its failure does not count. A cluster that is removed from the list is upgraded after all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub skip: Vec<LeftOutCluster>,
    /// Ignore: the platform upgrade of a cluster is done when its ClusterVersion says so; its worker nodes may follow
    /// later. Wait: it is done when all worker pools are updated, too. Paused pools are waited for and never resumed.
    #[serde(default, skip_serializing_if = "WorkerPoolsMode::is_default")]
    pub worker_pools: WorkerPoolsMode,
    /// Time limit for the worker pools of a cluster after its ClusterVersion is updated, such as 8h, if workerPools is
    /// Wait. Clusters are asked for them only 2 minutes after that, so a limit below 5m may end before they have answered. If unset, 6h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub worker_pools_timeout: Option<String>,
}

/// Whether the platform upgrade of a cluster includes its worker pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum WorkerPoolsMode {
    /// It is done when the ClusterVersion is updated.
    #[default]
    Ignore,
    /// It is done when the worker pools are updated, too.
    Wait,
}

impl WorkerPoolsMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == WorkerPoolsMode::default()
    }
}

/// The time limit of the worker pools if the spec has none.
pub const WORKER_POOLS_TIMEOUT: &str = "6h";

fn default_cluster_timeout() -> String {
    "3h".to_owned()
}

fn default_operators_timeout() -> String {
    "20m".to_owned()
}

fn default_max_concurrency() -> IntOrString {
    IntOrString::Int(10)
}

impl Default for UpgradeStrategy {
    fn default() -> Self {
        UpgradeStrategy {
            abort: Vec::new(),
            approvals: Vec::new(),
            canary_clusters: None,
            action_timeout: None,
            cluster_upgrade_timeout: default_cluster_timeout(),
            max_concurrency: default_max_concurrency(),
            operators_upgrade_timeout: default_operators_timeout(),
            max_failures: None,
            min_success_time: None,
            retry: Vec::new(),
            skip: Vec::new(),
            worker_pools: WorkerPoolsMode::Ignore,
            worker_pools_timeout: None,
        }
    }
}
