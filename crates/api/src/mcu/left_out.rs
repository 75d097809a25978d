//! Clusters that an upgrade leaves out.

// kubectl explain shows these comments; backticks would only clutter them.
#![allow(clippy::doc_markdown)]

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

/// A cluster that the upgrade leaves out although it is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct LeftOutCluster {
    /// Name of the ManagedCluster.
    #[schemars(
        length(max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub cluster: String,
    /// Why it is left out. It is shown as the message of the cluster.
    #[schemars(length(min = 1, max = 200))]
    pub reason: String,
    /// True: the other clusters may start without this canary. A canary without it is not left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acknowledge_canary: bool,
}

/// Most clusters that a spec may skip, and that it may abort.
pub const MAX_LEFT_OUT: usize = 500;
