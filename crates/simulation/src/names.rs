//! Names of the objects of a run.

/// The set whose clusters the team may upgrade.
pub const SET: &str = "fleet";
/// The namespace of the upgrades.
pub const TEAM: &str = "team";
/// A namespace of somebody else.
pub const STRANGERS: &str = "strangers";
/// The upgrade.
pub const UPGRADE: &str = "spring";
/// The second, younger upgrade.
pub const RIVAL: &str = "summer";
/// A cluster that nobody selects.
pub const OUTSIDER: &str = "x00";
/// The hub as a cluster of its own.
pub const HUB: &str = "local-cluster";
/// The Placement.
pub const PLACEMENT: &str = "all";
/// The namespace of the Lease.
pub const NAMESPACE: &str = "mcu-system";
