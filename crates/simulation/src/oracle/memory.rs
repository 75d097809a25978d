//! What rules remember of refusals, of reported versions and of deleted pre-actions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A version as `(major, minor, patch)`.
pub(super) type Version = (u64, u64, u64);

/// The writes of one cluster's works that the hub forbids a replica.
#[derive(Clone, Debug)]
pub(super) struct Forbidden {
    pub by: Arc<str>,
    pub since: Duration,
    pub last: Duration,
}

/// Writes of works that the hub forbids, by UID of the upgrade and cluster.
pub(super) type AllForbidden = BTreeMap<(String, String), Forbidden>;

/// What the hub forbids.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals {
    pub creations: AllForbidden,
    /// Deletions of what another upgrade has left, for which the cluster waits.
    pub deletions: AllForbidden,
}

/// A platform work that came when the replica that had created it did not lead any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Straggler {
    pub sent: Duration,
    pub at: Duration,
    /// The version that it asks for.
    pub target: Version,
}

/// The version that a platform work of a cluster reported last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reported {
    pub version: Version,
    /// Since when.
    pub since: Duration,
    /// That work is gone. Only whoever saw it before knows of the version.
    pub is_gone: bool,
}

/// A pre-action that the controller deleted before a row told of it.
#[derive(Clone, Debug)]
pub(super) struct Withdrawn {
    /// When.
    pub at: Duration,
    pub revision: String,
    pub retry: String,
    /// The start that it named.
    pub started: String,
}
