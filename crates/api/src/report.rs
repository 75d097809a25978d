//! `ManagedClustersUpgradeReport` (`mcur`): the per-cluster record of an MCU, in shards of at most 250 rows.
//!
//! The report is the durable record of finished clusters and the only place where CLI and dashboards read per-cluster
//! state (`docs/design/rules.md#report-shards`).

// These comments are what kubectl explain shows; backticks would be noise there.
#![allow(clippy::doc_markdown)]

use std::fmt;

use chrono::{DateTime, Utc};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most rows of one report.
pub const MAX_ROWS: usize = 250;

/// Rows of one shard.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "ManagedClustersUpgradeReport",
    plural = "managedclustersupgradereports",
    singular = "managedclustersupgradereport",
    shortname = "mcur",
    category = "ocm",
    category = "open-cluster-management",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq",
    doc = "ManagedClustersUpgradeReport records where each cluster of a ManagedClustersUpgrade stands, at most 250 clusters each.",
    printcolumn(
        name = "Upgrade",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.open-cluster-management\\.io/managedclustersupgrade",
        description = "The ManagedClustersUpgrade this report belongs to"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ManagedClustersUpgradeReportRows {
    /// One row per selected cluster; a cluster keeps its report.
    #[serde(default)]
    #[schemars(length(max = 250), extend("x-kubernetes-list-type" = "atomic"))]
    pub rows: Vec<ReportRow>,
}

/// Where one cluster stands.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportRow {
    /// Name of the ManagedCluster.
    #[schemars(length(max = 253))]
    pub cluster: String,
    /// Phase of the cluster: Pending, Blocked, PreAction, PreActionDegraded, Initialized, Partial, Operators, Soaking, Complete,
    /// PostAction or Failed. A newer release may write others.
    #[schemars(schema_with = "schema::word")]
    pub phase: Phase,
    /// True for a canary.
    #[serde(default, skip_serializing_if = "is_false")]
    pub canary: bool,
    /// True when the cluster has left the selection and goes on because its upgrade had started.
    #[serde(default, skip_serializing_if = "is_false")]
    pub left_selection: bool,
    /// Machine-readable cause of the phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub reason: String,
    /// What the cluster waits for, or what happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// Version before the upgrade, where known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub from_version: String,
    /// Version the cluster is upgraded to; empty when only an image or only operators are asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub to_version: String,
    /// Since when the cluster has been in this phase.
    pub since: DateTime<Utc>,
    /// Revision of the MCU's spec that the row speaks of.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// Value of the retry-failed annotation that requeued the cluster last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub retry: String,
    /// Steps that have started, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5), extend("x-kubernetes-list-type" = "atomic"))]
    pub steps: Vec<ReportStep>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Times of one step of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportStep {
    /// The step: PreAction, Platform, Operators, Soak or PostAction. A newer release may write others.
    #[schemars(schema_with = "schema::word")]
    pub name: StepName,
    /// Start of the step's clock.
    pub started_at: DateTime<Utc>,
    /// When the cluster was first seen to have applied the step's ManifestWork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<DateTime<Utc>>,
    /// End of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// How the step ended: Succeeded or Failed. A newer release may write others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub outcome: Option<StepOutcome>,
}

/// Steps of a cluster, the soak included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StepName {
    /// The user's action before the upgrade.
    PreAction,
    /// The ClusterVersion update.
    Platform,
    /// Approval of the operators' InstallPlans.
    Operators,
    /// The time an upgraded cluster must stay healthy.
    Soak,
    /// The user's action after the upgrade.
    PostAction,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum StepOutcome {
    /// It did what it should.
    Succeeded,
    /// It failed or ran out of time.
    Failed,
}

/// Phase of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Selected, not started.
    Pending,
    /// Cannot start; the reason says why.
    Blocked,
    /// The pre-action runs.
    PreAction,
    /// The pre-action failed or timed out.
    PreActionDegraded,
    /// The update is requested; the cluster has not accepted it yet.
    Initialized,
    /// The cluster is updating.
    Partial,
    /// Operators are being upgraded.
    Operators,
    /// Upgraded, and watched for minSuccessTime.
    Soaking,
    /// Upgraded.
    Complete,
    /// Upgraded; the post-action runs.
    PostAction,
    /// Failed; the reason says why.
    Failed,
}

impl Phase {
    /// All phases, in the order a cluster goes through them.
    pub const ALL: [Phase; 11] = [
        Phase::Pending,
        Phase::Blocked,
        Phase::PreAction,
        Phase::PreActionDegraded,
        Phase::Initialized,
        Phase::Partial,
        Phase::Operators,
        Phase::Soaking,
        Phase::Complete,
        Phase::PostAction,
        Phase::Failed,
    ];

    /// The phase as written in rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Blocked => "Blocked",
            Phase::PreAction => "PreAction",
            Phase::PreActionDegraded => "PreActionDegraded",
            Phase::Initialized => "Initialized",
            Phase::Partial => "Partial",
            Phase::Operators => "Operators",
            Phase::Soaking => "Soaking",
            Phase::Complete => "Complete",
            Phase::PostAction => "PostAction",
            Phase::Failed => "Failed",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
