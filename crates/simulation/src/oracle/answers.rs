//! What is known of probes, and of what clusters have said to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::said::Said;

/// What a cluster has said for a while.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// UID of the upgrade that asks.
    pub upgrade: String,
    /// When the probe was created.
    pub created: Duration,
    /// When the probe was first answered.
    pub answered: Option<Duration>,
    pub since: Duration,
    pub until: Option<Duration>,
    pub said: Said,
}

/// What a cluster itself knows of its past.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// When it was first updated to which version.
    pub updated: BTreeMap<String, Duration>,
    /// When all its worker pools first ran which version.
    pub followed: BTreeMap<String, Duration>,
}

/// Asks a cluster itself. `None`: it is not simulated at the moment.
pub type Witness = Arc<dyn Fn(&str) -> Option<Past> + Send + Sync>;

/// Asks clusters themselves.
#[derive(Clone, Default)]
pub(super) struct Truth(pub Option<Witness>);

impl fmt::Debug for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Truth")
    }
}

/// What is known of probes.
#[derive(Clone, Debug, Default)]
pub(super) struct Probes {
    /// By cluster.
    pub answers: BTreeMap<String, Vec<Answer>>,
    /// When probes were created, by UID.
    pub created: BTreeMap<String, Duration>,
    /// When probes were first answered, by UID.
    pub answered: BTreeMap<String, Duration>,
    /// The version that the platform work of an upgrade asked a cluster for before the change that is looked at.
    pub asked_for: Option<String>,
    pub truth: Truth,
}

impl Probes {
    pub(super) fn believe(&mut self, truth: Witness) {
        self.truth = Truth(Some(truth));
    }
}
