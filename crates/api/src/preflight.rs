//! The preflight: what clusters are asked before they start, and what the author accepts (`docs/design/preflight.md`).

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;

/// Asks each cluster, before it starts, whether it would take the update. Nothing is written to a cluster for that, except
/// the acknowledgments of clusterVersion.adminAcks, the channel if setChannel is true, and a role that lets the work agent do
/// so. This happens while the upgrade is paused as well.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreflightSpec {
    /// Off: clusters are not asked. Report: the status tells what clusters answer, and nothing is held back. Require: only
    /// clusters that would take the update are started.
    #[serde(default)]
    pub mode: PreflightMode,
    /// Set clusterVersion.channel on the clusters when they are asked, so that they evaluate the updates of that channel.
    /// It stays set, also if the upgrade never starts. If false, a cluster in another channel cannot tell what it says to
    /// the update.
    #[serde(default, skip_serializing_if = "is_false")]
    pub set_channel: bool,
    /// What happens if a cluster cannot evaluate a risk of the update. Wait: it waits, and is blocked after the timeout.
    /// Accept: the risk counts as accepted.
    #[serde(default)]
    pub unknown_risks: UnknownRisks,
    /// Findings that do not count, by the names that oc adm upgrade recommend --accept uses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8), extend("x-kubernetes-list-type" = "set"))]
    pub ignore: Vec<IgnoredFinding>,
    /// How long it may be unknown whether a cluster would take the update, such as 10m. After that the cluster is blocked
    /// until it answers; 10m by default.
    #[serde(default = "default_timeout")]
    #[schemars(schema_with = "schema::duration")]
    pub timeout: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

fn default_timeout() -> String {
    "10m".to_owned()
}

impl Default for PreflightSpec {
    fn default() -> Self {
        Self {
            mode: PreflightMode::Off,
            set_channel: false,
            unknown_risks: UnknownRisks::Wait,
            ignore: Vec::new(),
            timeout: default_timeout(),
        }
    }
}

/// What is done with the answers of the clusters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PreflightMode {
    /// Clusters are not asked.
    #[default]
    Off,
    /// The status tells what clusters answer.
    Report,
    /// Only clusters that would take the update are started.
    Require,
}

/// What happens if a cluster cannot evaluate a risk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum UnknownRisks {
    /// The cluster waits.
    #[default]
    Wait,
    /// The risk counts as accepted.
    Accept,
}

/// A finding that an author may ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum IgnoredFinding {
    /// The cluster reports Failing=True.
    Failing,
    /// Another update runs on the cluster.
    Progressing,
    /// The cluster could not retrieve its updates.
    CannotRetrieveUpdates,
    /// The cluster cannot be asked, or not for everything.
    FailedToCompletePrecheck,
}

impl IgnoredFinding {
    /// The name that `oc adm upgrade recommend --accept` uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "Failing",
            Self::Progressing => "Progressing",
            Self::CannotRetrieveUpdates => "CannotRetrieveUpdates",
            Self::FailedToCompletePrecheck => "FailedToCompletePrecheck",
        }
    }
}

/// A risk of the update that the author accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
pub struct AcceptedRisk {
    /// Name of the risk, as oc adm upgrade --include-not-recommended shows it.
    #[schemars(length(min = 1, max = 256))]
    #[x_kube(validation = Rule::new("self.matches('^[!-~]+$')").message("must be the name of a risk, such as OVNIPsecConnectivity, in printable ASCII characters without white space"))]
    pub name: String,
    /// Why the risk is accepted. It is kept for those who ask later.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// An acknowledgment that the update asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
pub struct AdminAck {
    /// Key of ConfigMap admin-gates, which is written to ConfigMap admin-acks of the clusters.
    #[schemars(length(min = 1, max = 253))]
    #[x_kube(validation = Rule::new("self.matches('^ack-[0-9]+[.][0-9]+-[A-Za-z0-9._-]+$')").message("must be the key of a gate, such as ack-4.19-admissionregistration-v1beta1-api-removals-in-4.20"))]
    pub key: String,
    /// Why the gate is acknowledged. It is kept for those who ask later.
    #[schemars(length(min = 1, max = 1024))]
    pub reason: String,
}

/// What the selected clusters that have not started answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct PreflightSummary {
    /// Clusters that would take the update.
    pub ready: i64,
    /// Clusters that would not take it until somebody removes the cause.
    pub blocked: i64,
    /// Clusters of which that is not known.
    pub unknown: i64,
    /// Clusters that cannot be asked, because it is not known whether their work agents can read objects without writing them.
    #[serde(default)]
    pub unsupported: i64,
}
