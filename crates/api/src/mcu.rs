//! The spec and status of `ManagedClustersUpgrade` (`mcu`). The spellings `clustersSummery` and
//! `canaryClustersSummery` are those of the published API.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::estimate::UpgradeEstimate;
use crate::maintenance::{MaintenanceSpec, MaintenanceSummary};
use crate::preflight::{AcceptedRisk, AdminAck, PreflightSpec, PreflightSummary};
use crate::report::Phase;
use crate::schema;

mod approvals;
mod left_out;
mod retry;
mod strategy;

pub use crate::selector::{ClusterSelector, LabelExpression, LabelOperator};
pub use approvals::{ApprovalCheckpoint, CANARIES_COMPLETE, CheckpointStatus, LastApproval, MAX_CHECKPOINTS};
pub use left_out::{LeftOutCluster, MAX_LEFT_OUT};
pub use retry::{MAX_RETRIES, RetryRequest};
pub use strategy::{UpgradeStrategy, WORKER_POOLS_TIMEOUT, WorkerPoolsMode};

/// Which clusters to upgrade, to which release, and with which precautions.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "ManagedClustersUpgrade",
    plural = "managedclustersupgrades",
    singular = "managedclustersupgrade",
    shortname = "mcu",
    category = "ocm",
    category = "open-cluster-management",
    namespaced,
    status = "ManagedClustersUpgradeStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ManagedClustersUpgrade upgrades a fleet of OpenShift clusters: canaries first, then at most maxConcurrency clusters at a time. Each cluster goes through pre-action, platform, operators and post-action.",
    validation = Rule::new("self.metadata.name.size() <= 63").message("metadata.name must be at most 63 characters, because the labels of its reports contain the name"),
    printcolumn(name = "Target", type_ = "string", json_path = ".status.target", description = "Version to upgrade to, or the release image"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state", description = "State of the upgrade"),
    printcolumn(name = "Done", type_ = "string", json_path = ".status.progress", description = "Complete clusters out of all selected clusters"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.clustersSummery.failed", description = "Failed clusters"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason", description = "Why the upgrade is complete, runs, is paused, or will not continue until a human acts"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Slots", type_ = "string", json_path = ".status.slots", description = "Slots in use out of all slots of maxConcurrency", priority = 1),
    printcolumn(name = "Canaries", type_ = "string", json_path = ".status.canaries", description = "Complete canaries out of all canaries", priority = 1),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].message", description = "What the upgrade is doing, or what to do about it", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.clusterVersion) || (has(self.ocpOperators) && ((has(self.ocpOperators.approveAllUpgrades) && self.ocpOperators.approveAllUpgrades) || (has(self.ocpOperators.include) && self.ocpOperators.include.size() > 0)))").message("nothing to do: set spec.clusterVersion, or spec.ocpOperators.approveAllUpgrades, or name operators in spec.ocpOperators.include"))]
#[x_kube(validation = Rule::new("!has(self.clusterVersion) || !has(self.clusterVersion.acceptRisks) || self.clusterVersion.acceptRisks.size() == 0 || (has(self.preflight) && self.preflight.mode != 'Off')").message("spec.clusterVersion.acceptRisks needs spec.preflight.mode Report or Require: without it, nobody learns which risks apply to a cluster"))]
#[x_kube(validation = Rule::new("!has(self.preflight) || self.preflight.mode == 'Off' || has(self.clusterVersion)").message("spec.preflight.mode needs spec.clusterVersion: clusters are asked what they say to an update"))]
#[x_kube(validation = Rule::new("!has(self.preflight) || !has(self.preflight.setChannel) || !self.preflight.setChannel || (self.preflight.mode != 'Off' && has(self.clusterVersion) && has(self.clusterVersion.channel) && self.clusterVersion.channel != '' && (!has(self.clusterVersion.image) || self.clusterVersion.image == ''))").message("spec.preflight.setChannel needs spec.preflight.mode Report or Require and spec.clusterVersion.channel, and has no effect with spec.clusterVersion.image"))]
pub struct ManagedClustersUpgradeSpec {
    /// Placements whose decisions select clusters. The upgrade covers the union of all their clusters and those of
    /// clusterSelector.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "atomic"))]
    pub placement: Vec<PlacementRef>,

    /// Selects clusters of the ManagedClusterSets that are bound to this namespace. An empty selector selects all of
    /// them; without a selector none is selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<ClusterSelector>,

    /// The release to upgrade to. If unset, only operators are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_version: Option<ClusterVersionSpec>,

    /// OLM operators whose pending InstallPlans are approved after the platform upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ocp_operators: Option<OcpOperators>,

    /// Canaries, concurrency, failure budget, soak and timeouts.
    #[serde(default)]
    pub upgrade_strategy: UpgradeStrategy,

    /// Asks each cluster before it starts whether it would take the update. If unset, clusters are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightSpec>,

    /// When clusters may start: maintenance windows, and times in which nothing starts. If unset, at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceSpec>,

    /// Manifests applied to a cluster before its upgrade. The upgrade starts when they are available and their Jobs
    /// have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_upgrade_action: Option<UpgradeAction>,

    /// Manifests applied to a cluster after its upgrade. The cluster is complete when they are available and their
    /// Jobs have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_upgrade_action: Option<UpgradeAction>,

    /// If true, no further cluster starts. Clusters in flight finish all their steps, and their timeouts keep
    /// running.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Refers to a Placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
pub struct PlacementRef {
    /// Name of the Placement.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')").message("must be the name of a Placement: lower-case letters, digits, dots and dashes"))]
    pub name: String,
    /// Namespace of the Placement; defaults to the namespace of this object. To refer to a Placement in another
    /// namespace you need permission to get it there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    #[x_kube(validation = Rule::new("self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("must be the namespace of a Placement: lower-case letters, digits and -"))]
    pub namespace: Option<String>,
}

/// The update that is requested in each cluster's ClusterVersion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("(has(self.version) && self.version != '') || (has(self.image) && self.image != '')").message("set version (such as 4.20.0) or image"))]
pub struct ClusterVersionSpec {
    /// Update channel, such as stable-4.20. If empty, the cluster keeps its channel.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("!self.matches('[^!-~]')").message("must be a channel such as stable-4.20, in printable ASCII characters without white space"))]
    pub channel: String,
    /// Version to upgrade to, such as 4.20.0. If an image is given as well, the release image must have this version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 128))]
    #[x_kube(validation = Rule::new("self == '' || self.matches('^(0|[1-9][0-9]{0,8})[.](0|[1-9][0-9]{0,8})[.](0|[1-9][0-9]{0,8})(-[0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?([+][0-9A-Za-z-]+([.][0-9A-Za-z-]+)*)?$')").message("must be a full semantic version such as 4.20.0, without a leading v"))]
    pub version: String,
    /// URL of the update service. If empty, the cluster keeps its upstream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = Rule::new("self == '' || self.matches('^https?://[!-~]+$')").message("must be an http or https URL, in printable ASCII characters without white space"))]
    pub upstream: String,
    /// Release image, by digest. Needed for releases that are not recommended to a cluster: the cluster does not
    /// check such a request against its recommended updates.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    #[x_kube(validation = Rule::new("!self.matches('[^!-~]')").message("must be the pull spec of a release image, in printable ASCII characters without white space"))]
    pub image: String,
    /// If true, clusters that run a newer version than the one requested are started as well. Otherwise they are
    /// blocked with reason NewerThanTarget. Clusters themselves reject most downgrades.
    #[serde(default, skip_serializing_if = "is_false")]
    pub allow_downgrade: bool,
    /// Risks of the update that are accepted, by name. Needs preflight.mode Report or Require: a cluster whose risks are all
    /// accepted is asked for the release image that it reports for the version, without force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub accept_risks: Vec<AcceptedRisk>,
    /// Gates that are acknowledged on each cluster, by the key of ConfigMap admin-acks. Exactly these keys are written;
    /// removing one here does not take the acknowledgment back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"]))]
    pub admin_acks: Vec<AdminAck>,
}

/// Which operators to upgrade. The exclude list always wins. With approveAllUpgrades the include list is ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OcpOperators {
    /// Approves the pending InstallPlans of all operators that are not excluded.
    #[serde(default)]
    pub approve_all_upgrades: bool,
    /// Operators to upgrade. A cluster that does not have one of them does not wait for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub include: Vec<OperatorRef>,
    /// Operators that are never upgraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub exclude: Vec<OperatorRef>,
}

/// Names an OLM Subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
pub struct OperatorRef {
    /// Name of the Subscription.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')").message("must be the name of a Subscription: lower-case letters, digits, - and ."))]
    pub name: String,
    /// Namespace of the Subscription.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("must be the namespace of a Subscription: lower-case letters, digits and -"))]
    pub namespace: String,
}

/// Which clusters are canaries.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryClusters {
    /// Selects the canaries. Canaries that the main selection does not contain are added to it. If the selector
    /// matches no cluster, no cluster starts.
    pub cluster_selector: ClusterSelector,
}

/// An action before or after the upgrade.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeAction {
    /// What is applied to each cluster: the spec of a ManifestWork of Open Cluster Management, with a workload and, if
    /// needed, deleteOption, manifestConfigs and executor. The controller creates a ManifestWork with this spec in the
    /// namespace of each cluster, and adds what is needed to see the result of Jobs.
    pub manifest_work: ActionWork,
}

/// A ManifestWorkSpec. Only the manifests are typed here, so that newer fields of OCM are kept.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true, "maxProperties" = 16))]
pub struct ActionWork {
    /// The workload to deploy.
    pub workload: ActionWorkload,
    /// All other fields of the ManifestWorkSpec: deleteOption, manifestConfigs, executor. They count towards the 500
    /// KiB as well.
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: Map<String, Value>,
}

/// The manifests of an action.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ActionWorkload {
    /// Manifests to apply, each with apiVersion, kind and metadata.name. Together with the other fields of
    /// manifestWork they may have at most 500 KiB.
    #[schemars(schema_with = "schema::manifests")]
    pub manifests: Vec<Value>,
}

/// Status of the upgrade. It stays below 16 KiB as JSON, whatever the size of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClustersUpgradeStatus {
    /// Generation of the spec that this status describes. It is -1 until the controller has seen the object, so that
    /// tools do not take a new object for a finished one.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "observed"
    )]
    pub observed_generation: Option<i64>,
    /// State of the upgrade in one word: Invalid, Pending, Canary, Upgrading, Paused,
    /// WaitingForApproval, Stalled, Complete or Deleting.
    /// A newer release may write other words.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    #[schemars(schema_with = "schema::word")]
    pub state: Option<UpgradeState>,
    /// Version to which clusters are upgraded, or the release image if the spec names no version. Absent if only
    /// operators are upgraded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// When the first cluster started. An edit of the spec, a retry or a restart of the controller does not change it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Since when the upgrade is complete. Absent while it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Complete clusters out of all selected ones, such as 12/24.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// Slots in use out of all slots of maxConcurrency, such as 5/10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<String>,
    /// Complete canaries out of all canaries, such as 1/2. Absent if there are no canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canaries: Option<String>,
    /// How many clusters are in each phase, such as Pending: 5, PreAction: 1. The numbers add up to the total of
    /// clustersSummery; a phase without clusters is left out. A newer release may write other phases.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 32))]
    pub phases: BTreeMap<String, i64>,
    /// What the clusters that have not started say to the update. Absent if they are not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preflight: Option<PreflightSummary>,
    /// When the clusters that can move will be done, if no further one fails. Absent while that is not known: the upgrade is
    /// paused, stalled or complete, or nobody knows yet how long one of its steps takes.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::estimate::if_readable"
    )]
    pub estimate: Option<UpgradeEstimate>,
    /// How many clusters wait for their maintenance windows. Absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<MaintenanceSummary>,
    /// The checkpoints of spec.upgradeStrategy.approvals, in their order: which wait, and who approved.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub approvals: Vec<CheckpointStatus>,
    /// Clusters that hold a slot of maxConcurrency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_flight: Option<i64>,
    /// The number of slots that maxConcurrency amounts to now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_max_concurrency: Option<i64>,
    /// Counts of the pre-actions of all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_upgrade_action_summary: Option<ActionSummary>,
    /// Counts of the canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_clusters_summery: Option<ClustersSummary>,
    /// Counts of all clusters, including canaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clusters_summery: Option<ClustersSummary>,
    /// Counts of the post-actions of all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub post_upgrade_action_summary: Option<ActionSummary>,
    /// Why clusters failed or wait, in groups of clusters with the same reason and phase: first the groups that need a
    /// human, and among these the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    #[schemars(length(max = 20), extend("x-kubernetes-list-type" = "atomic"))]
    pub causes: Vec<CauseGroup>,
    /// The first failed clusters by name, with their cause. The reports list all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub failed_clusters: Vec<ClusterNote>,
    /// Some of the clusters that wait or make no progress, with their cause: first those that need a human, then those
    /// whose step is delayed, then those that have not started; each by name. The reports list all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "readable")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub waiting_clusters: Vec<ClusterNote>,
    /// How many entries the lists leave out, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated: Option<Truncated>,
    /// Value of the retry-failed annotation that was handled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_retry: Option<String>,
    /// The retries of spec.upgradeStrategy.retry that were carried out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(max = 64)), extend("x-kubernetes-list-type" = "atomic"))]
    pub retries: Vec<String>,
    /// Conditions Selected, Applied, InProgress, Complete, Failed, Ready, Reconciling and Stalled. ClockSkew is there only while the
    /// clocks of controller and hub differ, or a step has a recorded start in the future.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// Reads a word that this release knows. An unknown word of a newer release counts as none, because the rest of the
/// status must stay readable: above all, which retry was handled last.
fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<UpgradeState>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(UpgradeState::deserialize(value).ok())
}

/// Reads the entries that this release knows. The others are not lost: the controller rewrites the status from its
/// records.
fn readable<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let values = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    let entries = values.into_iter().map(T::deserialize);
    Ok(entries.filter_map(Result::ok).collect())
}

/// Reads the default of the schema, -1, as none: no controller has written a status yet.
fn observed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let observed = Option::<i64>::deserialize(deserializer)?;
    Ok(observed.filter(|generation| *generation >= 0))
}

/// State of an upgrade in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UpgradeState {
    /// The spec violates a rule; see condition Stalled.
    Invalid,
    /// Clusters wait to start and none is in flight.
    Pending,
    /// Canaries are being upgraded.
    Canary,
    /// Clusters are being upgraded.
    Upgrading,
    /// No further cluster starts until the upgrade is resumed.
    Paused,
    /// No further cluster starts until somebody approves the plan.
    WaitingForApproval,
    /// Nothing will move until a human acts; see condition Stalled.
    Stalled,
    /// All clusters are complete.
    Complete,
    /// The object is being deleted.
    Deleting,
}

/// Counts of clusters. The total is always initialized + pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClustersSummary {
    /// Clusters selected.
    pub total: i64,
    /// Clusters whose upgrade has started, now or earlier.
    pub initialized: i64,
    /// Clusters whose upgrade is in progress.
    pub partial_upgrade: i64,
    /// Clusters whose upgrade is complete.
    pub complete: i64,
    /// Clusters whose upgrade failed.
    pub failed: i64,
    /// Clusters whose update has not been requested yet. Besides those that wait, these are the blocked ones, those whose
    /// pre-action is running or degraded, and those that are skipped or aborted.
    pub pending: i64,
}

/// Counts of an action's ManifestWorks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionSummary {
    /// Clusters for which the action was created.
    pub total: i64,
    /// Clusters that have applied the action, now or earlier.
    pub applied: i64,
    /// Clusters where the action is done.
    pub available: i64,
    /// Clusters where the action is running.
    pub progressing: i64,
    /// Clusters where the action failed.
    pub degraded: i64,
}

/// A cluster, with its phase and the cause.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct ClusterNote {
    /// Name of the ManagedCluster.
    pub name: String,
    /// Phase of the cluster: Pending, Blocked, PreAction, PreActionDegraded, Initialized, Partial, Workers, Operators,
    /// Soaking, PostAction or Failed. A newer release may write other words.
    #[schemars(schema_with = "schema::word")]
    pub phase: Phase,
    /// Machine-readable cause.
    pub reason: String,
    /// What happened and how to fix it; at most 256 bytes.
    pub message: String,
    /// Since when the cluster has been in this phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

/// Clusters that failed or wait for the same reason in the same phase.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct CauseGroup {
    /// Machine-readable cause.
    pub reason: String,
    /// What the clusters name as their cause: Gate, Risk, ClusterOperator or MachineConfigPool; absent for other causes. A
    /// newer release may write other words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the gate (its key), risk, operator or pool. Absent if the clusters name several, or none by a word of at most
    /// 128 letters, digits, dots, hyphens and underscores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Phase of the clusters: Pending, Blocked, PreAction, PreActionDegraded, Initialized, Partial, Workers, Operators,
    /// Soaking, PostAction or Failed. Complete, Skipped and Aborted clusters have no cause. A newer release may write other
    /// words.
    #[schemars(schema_with = "schema::word")]
    pub phase: Phase,
    /// Number of clusters.
    pub clusters: i64,
    /// One of these clusters: the first by name of those whose message most of them have.
    pub example: String,
    /// What the example waits for, or what happened to it; at most 256 bytes.
    pub message: String,
    /// Who must do what, if anybody, with the example's name.
    pub remedy: String,
}

/// How many entries the capped lists leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Truncated {
    /// Failed clusters that are missing in failedClusters.
    pub failed: i64,
    /// Waiting clusters that are missing in waitingClusters.
    pub waiting: i64,
    /// Groups that are missing in causes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub causes: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_status_that_only_has_the_default_of_the_schema_counts_as_none() {
        let status: ManagedClustersUpgradeStatus =
            serde_json::from_value(json!({"observedGeneration": -1})).unwrap();
        assert_eq!(status, ManagedClustersUpgradeStatus::default());
    }

    #[test]
    fn words_of_a_newer_release_leave_the_rest_of_a_status_readable() {
        let note = |phase: &str| json!({"name": "c1", "phase": phase, "reason": "r", "message": "m"});
        let status: ManagedClustersUpgradeStatus = serde_json::from_value(json!({
            "state": "Hibernating", "observedRetry": "t1", "observedGeneration": 3,
            "failedClusters": [note("Hibernating"), note("Failed")], "waitingClusters": null,
            "phases": {"Hibernating": 2}, "causes": [{"reason": "r", "phase": "Hibernating"}],
        }))
        .unwrap();
        assert_eq!(status.state, None);
        assert_eq!(status.observed_retry.as_deref(), Some("t1"));
        assert_eq!(status.failed_clusters.len(), 1);
        assert_eq!((status.phases["Hibernating"], status.causes.len()), (2, 0));
    }
}
