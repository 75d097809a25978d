//! `ManagedClustersUpgradeReport` (`mcur`): the per-cluster records of an MCU, in shards of at most 250 rows.
//!
//! Reports are the durable record of finished clusters. The CLI and dashboards read per-cluster state only here
//! (`docs/design/rules.md#report-shards`).

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use std::fmt;

use chrono::{DateTime, Utc};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::names::Step;
use crate::schema;

/// Largest number of rows in one report.
pub const MAX_ROWS: usize = 250;

/// The rows of one shard.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
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
    doc = "ManagedClustersUpgradeReport records the state of each cluster of a ManagedClustersUpgrade, for at most 250 clusters per report.",
    printcolumn(
        name = "Upgrade",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.open-cluster-management\\.io/managedclustersupgrade",
        description = "The ManagedClustersUpgrade this report belongs to"
    ),
    printcolumn(
        name = "Clusters",
        type_ = "integer",
        json_path = ".summary.clusters",
        description = "Clusters of this report"
    ),
    printcolumn(
        name = "Done",
        type_ = "integer",
        json_path = ".summary.complete",
        description = "Complete clusters of this report"
    ),
    printcolumn(
        name = "Failed",
        type_ = "integer",
        json_path = ".summary.failed",
        description = "Failed clusters of this report"
    ),
    printcolumn(
        name = "Attempts",
        type_ = "integer",
        json_path = ".summary.attempts",
        description = "Attempts of all clusters of this report"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct ManagedClustersUpgradeReportRows {
    /// Counts of the rows, for tables. Nothing is decided by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<ReportSummary>,
    /// One row per selected cluster. A cluster stays in the same report.
    #[serde(default)]
    #[schemars(length(max = 250), extend("x-kubernetes-list-type" = "atomic"))]
    pub rows: Vec<ReportRow>,
}

/// Counts of the rows of one report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct ReportSummary {
    /// Rows of the report.
    pub clusters: i64,
    /// Clusters whose upgrade is complete, also while their post-action runs.
    pub complete: i64,
    /// Clusters whose upgrade failed.
    pub failed: i64,
    /// Attempts of all clusters. It exceeds their number when retries or edits of the spec queued clusters again.
    pub attempts: i64,
}

impl ReportSummary {
    /// Counts a row.
    pub fn add(&mut self, phase: Option<Phase>, attempts: Option<i64>) {
        self.clusters += 1;
        self.complete += i64::from(matches!(phase, Some(Phase::Complete | Phase::PostAction)));
        self.failed += i64::from(phase == Some(Phase::Failed));
        self.attempts = self.attempts.saturating_add(attempts.unwrap_or(1));
    }
}

/// The state of one cluster.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReportRow {
    /// Name of the ManagedCluster.
    #[schemars(length(max = 253))]
    pub cluster: String,
    /// Phase of the cluster: Pending, Blocked, PreAction, PreActionDegraded, Initialized, Partial, Workers,
    /// Operators, Soaking, Complete, PostAction, Failed, Skipped or Aborted. A newer release may write other words.
    #[schemars(schema_with = "schema::word")]
    pub phase: Phase,
    /// True for a canary.
    #[serde(default, skip_serializing_if = "is_false")]
    pub canary: bool,
    /// True when the cluster has left the selection but continues, because its upgrade had already started.
    #[serde(default, skip_serializing_if = "is_false")]
    pub left_selection: bool,
    /// Machine-readable cause of the phase.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub reason: String,
    /// What the cluster is waiting for, or what happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub message: String,
    /// The step whose ManifestWork the hub rejected, while the reason is WorkRefused: PreAction, Platform, Operators
    /// or PostAction. A newer release may write other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub refused_step: Option<Stage>,
    /// Version before the upgrade, if known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub from_version: String,
    /// Version that the cluster is upgraded to; empty when the spec requests only an image or only operators.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    pub to_version: String,
    /// Time at which the cluster entered this phase.
    pub since: DateTime<Utc>,
    /// Revision of the MCU's spec that the row is about.
    #[schemars(length(max = 64))]
    pub revision: String,
    /// Value of the retry-failed annotation that queued the cluster last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub retry: String,
    /// How many attempts the cluster has had, including this one. A retry, or an edit of the spec that queues the
    /// cluster again, begins another attempt. Absent in rows of releases that did not count them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<i64>,
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
    /// The step: PreAction, Platform, Operators, Soak or PostAction. A newer release may write other words.
    #[schemars(schema_with = "schema::word")]
    pub name: Stage,
    /// When the step's time began.
    pub started_at: DateTime<Utc>,
    /// When the controller first saw that the cluster had applied the step's ManifestWork.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<DateTime<Utc>>,
    /// When the step ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<DateTime<Utc>>,
    /// How the step ended: Succeeded or Failed. A newer release may write other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::word")]
    pub outcome: Option<Outcome>,
}

/// Stages of a cluster's upgrade, in order: the four steps, and the soak between the operators and the post-action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum Stage {
    /// The user's action before the upgrade.
    PreAction,
    /// The ClusterVersion update.
    Platform,
    /// Approval of the operators' InstallPlans.
    Operators,
    /// The time for which an upgraded cluster must stay healthy.
    Soak,
    /// The user's action after the upgrade.
    PostAction,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Outcome {
    /// The step succeeded.
    Succeeded,
    /// The step failed or ran out of time.
    Failed,
}

/// Phase of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// The cluster is selected and has not started.
    Pending,
    /// The cluster cannot start; the reason says why.
    Blocked,
    /// The pre-action is running.
    PreAction,
    /// The pre-action failed or timed out.
    PreActionDegraded,
    /// The update is requested, and the cluster has not accepted it yet.
    Initialized,
    /// The cluster is updating.
    Partial,
    /// The ClusterVersion is updated, and the worker pools are not all updated yet. Only with workerPools: Wait.
    Workers,
    /// The cluster's operators are being upgraded.
    Operators,
    /// The cluster is upgraded and is watched for minSuccessTime.
    Soaking,
    /// The cluster is upgraded.
    Complete,
    /// The cluster is upgraded and its post-action is running.
    PostAction,
    /// The upgrade of the cluster failed; the reason says why.
    Failed,
    /// The cluster is not upgraded, because spec.upgradeStrategy.skip names it.
    Skipped,
    /// The cluster is not upgraded, because spec.upgradeStrategy.abort names it. What it was asked for is withdrawn.
    Aborted,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Stage; 5] = [
        Stage::PreAction,
        Stage::Platform,
        Stage::Operators,
        Stage::Soak,
        Stage::PostAction,
    ];

    /// Position in [`Stage::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The step of the stage; `None` for the soak.
    #[must_use]
    pub const fn step(self) -> Option<Step> {
        match self {
            Stage::PreAction => Some(Step::PreAction),
            Stage::Platform => Some(Step::Platform),
            Stage::Operators => Some(Step::Operators),
            Stage::Soak => None,
            Stage::PostAction => Some(Step::PostAction),
        }
    }
}

impl From<Step> for Stage {
    fn from(step: Step) -> Self {
        match step {
            Step::PreAction => Stage::PreAction,
            Step::Platform => Stage::Platform,
            Step::Operators => Stage::Operators,
            Step::PostAction => Stage::PostAction,
        }
    }
}

impl Phase {
    /// All phases, in the order a cluster goes through them.
    pub const ALL: [Phase; 14] = [
        Phase::Pending,
        Phase::Blocked,
        Phase::PreAction,
        Phase::PreActionDegraded,
        Phase::Initialized,
        Phase::Partial,
        Phase::Workers,
        Phase::Operators,
        Phase::Soaking,
        Phase::Complete,
        Phase::PostAction,
        Phase::Failed,
        Phase::Skipped,
        Phase::Aborted,
    ];

    /// The phase as it is written in rows.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Blocked => "Blocked",
            Phase::PreAction => "PreAction",
            Phase::PreActionDegraded => "PreActionDegraded",
            Phase::Initialized => "Initialized",
            Phase::Partial => "Partial",
            Phase::Workers => "Workers",
            Phase::Operators => "Operators",
            Phase::Soaking => "Soaking",
            Phase::Complete => "Complete",
            Phase::PostAction => "PostAction",
            Phase::Failed => "Failed",
            Phase::Skipped => "Skipped",
            Phase::Aborted => "Aborted",
        }
    }
}

impl Phase {
    /// True while the cluster holds a slot of `maxConcurrency` (`docs/design/rules.md#slots`).
    #[must_use]
    pub const fn holds_slot(self) -> bool {
        matches!(
            self,
            Phase::PreAction | Phase::Initialized | Phase::Partial | Phase::Workers | Phase::Operators
        )
    }

    /// True when the upgrade of the cluster has failed, or its pre-action is degraded: what a retry concerns.
    #[must_use]
    pub const fn has_failed(self) -> bool {
        matches!(self, Phase::Failed | Phase::PreActionDegraded)
    }

    /// True while no step is under way, none has ended the upgrade of the cluster, and its pre-action is not degraded.
    #[must_use]
    pub const fn is_queued(self) -> bool {
        matches!(self, Phase::Pending | Phase::Blocked) || self.is_left_out()
    }

    /// True when the spec leaves the cluster out.
    #[must_use]
    pub const fn is_left_out(self) -> bool {
        matches!(self, Phase::Skipped | Phase::Aborted)
    }

    /// True when an upgrade is complete as far as the cluster is concerned: it is upgraded, or it is left out.
    #[must_use]
    pub const fn is_done(self) -> bool {
        matches!(self, Phase::Complete) || self.is_left_out()
    }

    /// True from the start of the cluster's first step to the end of its last one.
    #[must_use]
    pub const fn is_at_work(self) -> bool {
        self.holds_slot() || matches!(self, Phase::Soaking | Phase::PostAction)
    }

    /// True when the update itself has started. Status counters count such a cluster as initialized and the others as
    /// pending. If it leaves the selection, it continues (`docs/design/rules.md#leavers`).
    #[must_use]
    pub const fn is_started(self) -> bool {
        matches!(
            self,
            Phase::Initialized
                | Phase::Partial
                | Phase::Workers
                | Phase::Operators
                | Phase::Soaking
                | Phase::Complete
                | Phase::PostAction
                | Phase::Failed
        )
    }

    /// True when the phase is final within the attempt, unless the post-action recovers
    /// (`docs/design/rules.md#terminal-phases`).
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Phase::Complete | Phase::Failed)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
