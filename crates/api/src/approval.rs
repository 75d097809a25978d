//! `ManagedClustersUpgradeApproval` (`mcua`): somebody's approval of the plan of an upgrade at a checkpoint
//! (`docs/design/approvals.md`).
//!
//! Who approves is what the API server knows of the request, not what the client says: an admission policy compares them.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use chrono::{DateTime, Utc};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

/// Longest text about an approval, in characters.
pub const MAX_APPROVAL_MESSAGE: usize = 200;

/// What is approved, and by whom.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[expect(clippy::duplicated_attributes, reason = "columns of the same type")]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "ManagedClustersUpgradeApproval",
    plural = "managedclustersupgradeapprovals",
    singular = "managedclustersupgradeapproval",
    shortname = "mcua",
    category = "ocm",
    category = "open-cluster-management",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "ManagedClustersUpgradeApproval approves the plan of a ManagedClustersUpgrade of the same namespace at a checkpoint, behind which no cluster starts without it.",
    printcolumn(
        name = "Upgrade",
        type_ = "string",
        json_path = ".spec.upgrade",
        description = "The ManagedClustersUpgrade"
    ),
    printcolumn(
        name = "Checkpoint",
        type_ = "string",
        json_path = ".spec.checkpoint",
        description = "The checkpoint that is approved"
    ),
    printcolumn(
        name = "Approver",
        type_ = "string",
        json_path = ".spec.approver",
        description = "Who approved"
    ),
    printcolumn(
        name = "Message",
        type_ = "string",
        json_path = ".spec.message",
        description = "Why, or for which change"
    ),
    printcolumn(
        name = "Expires",
        type_ = "string",
        json_path = ".spec.expires",
        description = "When it ceases to count"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(
        name = "Plan",
        type_ = "string",
        json_path = ".spec.planHash",
        description = "The hash of the plan that was approved",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self == oldSelf").message("an approval cannot be changed: delete it and create another one"))]
pub struct ManagedClustersUpgradeApprovalSpec {
    /// Name of the ManagedClustersUpgrade, in the same namespace.
    #[schemars(length(min = 1, max = 63))]
    pub upgrade: String,
    /// Name of the checkpoint in spec.upgradeStrategy.approvals of the upgrade.
    #[schemars(length(min = 1, max = 63))]
    pub checkpoint: String,
    /// The plan that is approved: planHash of the checkpoint in status.approvals of the upgrade. The approval counts while the plan
    /// has this hash.
    #[schemars(length(min = 1, max = 128))]
    pub plan_hash: String,
    /// Who approves: your user name, as kubectl auth whoami shows it.
    #[schemars(length(min = 1, max = 512))]
    pub approver: String,
    /// Why, or for which change, such as CHG0042.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 200))]
    pub message: String,
    /// When the approval ceases to count. Clusters that have started by then go on. If unset, it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<DateTime<Utc>>,
}
