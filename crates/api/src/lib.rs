//! The vocabulary of the project: our custom resources, slim views of Open Cluster Management (OCM) kinds, labels,
//! annotations, condition types and reasons, and the rules that a spec must obey.
//!
//! This crate has no client and no clock; every type is plain data.

pub mod admission;
pub mod approval;
pub mod checks;
pub mod conditions;
pub mod estimate;
pub mod lenient;
pub mod maintenance;
pub mod mcu;
pub mod message;
pub mod names;
pub mod preflight;
pub mod report;
pub mod schema;
pub mod selector;
pub mod stored;
pub mod text;
pub mod time;
pub mod validate;
pub mod views;

pub use approval::{ManagedClustersUpgradeApproval, ManagedClustersUpgradeApprovalSpec};
pub use mcu::{ManagedClustersUpgrade, ManagedClustersUpgradeSpec, ManagedClustersUpgradeStatus};
pub use report::{ManagedClustersUpgradeReport, ReportRow};

/// API group of our resources and of OCM's cluster kinds.
pub const GROUP: &str = "cluster.open-cluster-management.io";
/// API version of our resources.
pub const VERSION: &str = "v1beta1";
