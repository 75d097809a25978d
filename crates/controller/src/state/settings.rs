//! The settings from the command line that concern planning and rendering.

use std::sync::Arc;

use chrono::TimeDelta;
use resolve::works::WorkFlags;

use crate::graphs::Graphs;

/// The settings from the command line that concern planning and rendering.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Values that are rendered into works.
    pub works: WorkFlags,
    /// Time that is added to the timeout of the operators.
    pub operators_grace: TimeDelta,
    /// A selector sees only clusters of sets that are bound.
    pub require_bindings: bool,
    /// The hub itself may be upgraded.
    pub allow_hub: bool,
    /// All work agents can read objects without writing them.
    pub agents_can_read: bool,
    /// Largest number of clusters that an upgrade asks in a second.
    pub preflight_rate: u32,
    /// The update graph of our own, if any.
    pub graphs: Graphs,
    /// Namespaces whose upgrades are processed; empty: all. Upgrades in other namespaces still hold their
    /// clusters.
    pub namespaces: Vec<Arc<str>>,
}

impl Settings {
    /// True when this controller processes the upgrades of a namespace.
    #[must_use]
    pub fn serves(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|served| **served == *namespace)
    }
}
