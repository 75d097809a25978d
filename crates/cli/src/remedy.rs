//! The next step for a cluster or an upgrade. The texts are those that the controller writes into the status.

pub use rollout::remedy::{Names, for_cluster, for_upgrade};
