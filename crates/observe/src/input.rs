//! What observation reads of an upgrade. The controller lends its state, so that nothing is copied per cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::ManagedClustersUpgradeSpec;
use api::names::Step;
use chrono::{DateTime, Utc};
use rollout::Record;

use crate::index::Uid;
use crate::maintenance::KnownCalendars;
use crate::preflight::Preflights;
use crate::selection::Selected;
use crate::writes::{Backoff, BlockerKind, LastReading, RunningWrites, StepBlocker, Unsettled};

/// The row of a cluster, as far as observation reads it. The controller's rows also know how they are reported.
pub trait ClusterRow {
    /// The latest record.
    fn record(&self) -> &Arc<Record>;
    /// The record as last written.
    fn written(&self) -> Option<&Arc<Record>>;
    /// A write of the row that has no response yet may have written one by which the cluster holds a slot.
    fn slot_in_doubt(&self) -> bool;
    /// The cluster is a canary.
    fn is_canary(&self) -> bool;
}

/// The upgrades besides the observed one. They are lent one by one, because a hub may have thousands.
pub trait OtherUpgrades<'a, R: 'a> {
    /// All of them, in any order.
    fn all(&self) -> impl Iterator<Item = UpgradeInput<'a, R>>;
    /// The one with this UID.
    fn get(&self, uid: &str) -> Option<UpgradeInput<'a, R>>;
}

/// Whether an upgrade makes progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It starts clusters, or may do so without a human.
    Moving,
    /// None of its clusters moves before a human acts.
    Stalled,
    /// The present spec is invalid.
    Invalid,
}

impl Standing {
    /// That of an upgrade with a valid spec or an invalid one, whose status says Stalled or does not.
    #[must_use]
    pub fn of(is_valid: bool, is_stalled: bool) -> Self {
        match (is_valid, is_stalled) {
            (false, _) => Self::Invalid,
            (true, true) => Self::Stalled,
            (true, false) => Self::Moving,
        }
    }
}

/// One upgrade, borrowed from the controller's state.
#[derive(Debug)]
pub struct UpgradeInput<'a, R> {
    /// UID.
    pub uid: &'a Uid,
    /// `namespace/name`.
    pub key: &'a Arc<str>,
    /// Creation time. The older of two upgrades has priority.
    pub created: DateTime<Utc>,
    /// The object is being deleted.
    pub is_deleting: bool,
    /// How it stood when it was planned last.
    pub standing: Standing,
    /// The spec with which clusters in flight continue: the present one or, after an invalid edit, the last valid one.
    pub in_force: Option<&'a ManagedClustersUpgradeSpec>,
    /// The calendars of that spec.
    pub calendars: Option<&'a KnownCalendars>,
    /// The selection.
    pub selected: &'a Selected,
    /// Rows by cluster.
    pub rows: &'a BTreeMap<Arc<str>, R>,
    /// Clusters that were dropped and hold slots by their rows on the hub. Of a finished upgrade whose records are not in memory:
    /// clusters on which it is at work by its rows, until it is read.
    pub unreleased: Vec<&'a Arc<str>>,
    /// Clusters that were dropped, sorted, while the hub may still have their rows from before, by which they hold no slots.
    pub unremoved: Vec<&'a Arc<str>>,
    /// The upgrade may have rows that are not known.
    pub is_incomplete: bool,
    /// Since when clusters of the fleet are no longer selected.
    pub left: &'a AHashMap<Arc<str>, DateTime<Utc>>,
    /// Clusters that left the selection while this process ran.
    pub former: &'a AHashSet<Arc<str>>,
    /// Running writes, by cluster.
    pub running: &'a AHashMap<Arc<str>, RunningWrites>,
    /// Waits after failed writes, by cluster.
    pub backoff: &'a AHashMap<Arc<str>, Backoff>,
    /// Writes of works that may have taken effect, or may still do so, by cluster.
    pub unsettled: &'a AHashMap<Arc<str>, Vec<Unsettled>>,
    /// The last time that a work was read, by cluster.
    pub readings: &'a AHashMap<Arc<str>, LastReading>,
    /// Blocked steps.
    pub blockers: &'a AHashMap<(Arc<str>, Step), StepBlocker>,
    /// Clusters whose namespace was found to be missing at this time.
    pub missing: &'a AHashMap<Arc<str>, DateTime<Utc>>,
    /// What clusters say to the update.
    pub preflights: &'a Preflights,
}

impl<'a, R: ClusterRow> UpgradeInput<'a, R> {
    /// Order among upgrades: the older one first, then by namespace and name.
    #[must_use]
    pub fn order(&self) -> (DateTime<Utc>, &'a str) {
        (self.created, self.key)
    }

    /// The latest record of a cluster.
    pub(crate) fn record(&self, cluster: &str) -> Option<&'a Arc<Record>> {
        self.rows.get(cluster).map(ClusterRow::record)
    }

    /// The blocker of a step.
    pub(crate) fn blocker(&self, cluster: &Arc<str>, step: Step) -> Option<&'a StepBlocker> {
        if self.blockers.is_empty() {
            return None;
        }
        self.blockers.get(&(Arc::clone(cluster), step))
    }

    /// True when a step is blocked by a work that is not managed by any upgrade.
    pub(crate) fn has_foreign(&self, cluster: &Arc<str>, step: Step) -> bool {
        self.blocker(cluster, step)
            .is_some_and(|blocker| blocker.kind == BlockerKind::Foreign)
    }
}
