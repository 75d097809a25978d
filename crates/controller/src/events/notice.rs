//! An Event that is not sent yet, and the object that it is about.

use super::reason::{EventReason, Severity};

/// The upgrade an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Regarding {
    /// Namespace of the upgrade, and of the Event.
    pub namespace: String,
    /// Name of the upgrade.
    pub name: String,
    /// UID of the upgrade.
    pub uid: String,
}

/// One Event that is not sent yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Notice {
    pub(super) regarding: Regarding,
    pub(super) cluster: Option<String>,
    pub(super) reason: EventReason,
    pub(super) note: String,
}

impl Notice {
    /// True when it says that a cluster goes well.
    pub(super) fn is_routine(&self) -> bool {
        self.cluster.is_some() && self.reason.severity() == Severity::Normal
    }
}
