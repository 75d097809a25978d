//! Checkpoints: points of the rollout behind which no cluster starts without an approval.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Most checkpoints of a spec.
pub const MAX_CHECKPOINTS: usize = 10;

/// The word for the checkpoint behind the canaries.
pub const CANARIES_COMPLETE: &str = "CanariesComplete";

/// A point of the rollout behind which no cluster starts without an approval.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
pub struct ApprovalCheckpoint {
    /// Name of the checkpoint. Approvals name it.
    #[schemars(length(min = 1, max = 63))]
    #[x_kube(validation = Rule::new("self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')").message("must be lower-case letters, digits and -, such as after-canaries"))]
    pub name: String,
    /// Where it is: CanariesComplete, before any cluster other than a canary; or a number of clusters, or a percentage of them, rounded
    /// up: no more start before the approval. With 0 none does.
    #[schemars(schema_with = "schema::checkpoint")]
    pub when: IntOrString,
}

/// What is said of a checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointStatus {
    /// Name of the checkpoint.
    pub name: String,
    /// Ahead: it is not reached, or nobody had approved and either nothing is left to start behind it or the spec is invalid. Waiting: no
    /// further cluster starts before somebody approves. Approved: it is reached and approved. A newer release may write other words.
    #[schemars(schema_with = "schema::word")]
    pub state: String,
    /// The present plan, as an approval names it. Once nothing is left to start, that of who approved last. Empty while the
    /// spec is invalid and nobody had approved.
    pub plan_hash: String,
    /// Since when it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting_since: Option<Time>,
    /// What has changed since the newest approval, if that one is of another plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub changed: String,
    /// Who approved the plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub approver: String,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Time>,
    /// When the approval ceases to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// What the approver said; at most 200 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last approval that counted, if none counts now: it has expired, was deleted, or is of another plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_approval: Option<LastApproval>,
}

/// An approval that does not count any more.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastApproval {
    /// The plan that was approved.
    pub plan_hash: String,
    /// Who approved it.
    pub approver: String,
    /// When that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_at: Option<Time>,
    /// When the approval ceased to count, if it had an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Time>,
    /// What the approver said; at most 200 bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl CheckpointStatus {
    /// The word for a checkpoint that waits for an approval.
    pub const WAITING: &str = "Waiting";
    /// The word for one that is approved.
    pub const APPROVED: &str = "Approved";
    /// The word for one that is ahead.
    pub const AHEAD: &str = "Ahead";

    /// True when no further cluster starts before somebody approves.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.state == Self::WAITING
    }
}
