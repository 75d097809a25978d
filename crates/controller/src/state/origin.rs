//! Whether the object of an upgrade is original or was restored from a backup.

use std::sync::Arc;

use chrono::{DateTime, Utc};

/// Whether the object of an upgrade is original or was restored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Nothing indicates a restore, or a user has allowed the upgrade to continue.
    #[default]
    Own,
    /// The upgrade was complete at its present revision before it was restored, so it does not run again.
    CompletedBefore(Completed),
    /// The object was restored or copied, so nothing starts. The text says why and how to continue.
    Restored(Arc<str>),
}

/// The completion of an upgrade, from its annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Revision of the spec.
    pub revision: String,
    /// When it became complete.
    pub time: DateTime<Utc>,
    /// Number of clusters.
    pub clusters: u32,
    /// UID of the restored object to which the completion was transferred, if any.
    pub(crate) carried: Option<String>,
}
