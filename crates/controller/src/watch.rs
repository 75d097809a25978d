//! The watches: they feed the index and nothing else. Every replica runs them, so a follower is warm.
//!
//! This file knows how each kind enters the state; [`source`] lists and watches.

mod source;

use std::sync::Arc;

use ahash::AHashSet;
use api::names::{LABEL_MCU, LABEL_MCU_UID};
use api::views::{
    ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, ManifestWork, Placement, PlacementDecision,
    Report, Upgrade,
};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::hall::Hall;
use crate::index::{Change, Key, step_of};
use crate::telemetry::labels::WatchKind;

/// Object kinds whose lists must have arrived before anything is planned.
pub const KINDS: [WatchKind; 8] = [
    WatchKind::Cluster,
    WatchKind::Work,
    WatchKind::Placement,
    WatchKind::Decision,
    WatchKind::ClusterSet,
    WatchKind::Binding,
    WatchKind::Upgrade,
    WatchKind::Report,
];

/// Starts all watches. None ends by itself: one that does has panicked, and what it would tell is seen no more.
#[must_use]
pub fn start(hall: &Arc<Hall>, client: &Client) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let set = &mut watches;
    spawn::<ManagedCluster>(set, hall, client, None);
    spawn::<ManifestWork>(set, hall, client, Some(LABEL_MCU_UID));
    spawn::<Placement>(set, hall, client, None);
    spawn::<PlacementDecision>(set, hall, client, None);
    spawn::<ManagedClusterSet>(set, hall, client, None);
    spawn::<ManagedClusterSetBinding>(set, hall, client, None);
    spawn::<Upgrade>(set, hall, client, None);
    spawn::<Report>(set, hall, client, Some(LABEL_MCU));
    watches
}

fn spawn<K>(watches: &mut JoinSet<()>, hall: &Arc<Hall>, client: &Client, label: Option<&'static str>)
where
    K: Watched + Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
{
    let source = source::Source::<K>::new(Arc::clone(hall), client.clone(), label);
    watches.spawn(source.run());
}

/// How a kind enters the state.
pub(crate) trait Watched: Sized {
    /// What could not be read of an object.
    fn unreadable(&self) -> Option<&str>;
    /// The watch that tells of it.
    const KIND: WatchKind;
    /// A kind that must be listed before this one, since only with it this one is understood.
    const AFTER: Option<WatchKind> = None;
    /// Objects per page of a list, so that a page fits into memory however large its objects are.
    const PAGE: u32 = 500;

    /// Kind of an object that could not be read in full.
    fn error(change: &Change<Self>) -> Option<WatchKind> {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        object.unreadable().map(|_| Self::KIND)
    }

    /// Takes a change.
    fn change(state: &mut crate::hall::State, hall: &Hall, change: Change<Self>);

    /// A list begins.
    fn begin_list(_: &mut crate::hall::State) {}

    /// Takes an object of a list.
    fn listed(state: &mut crate::hall::State, hall: &Hall, object: Self) {
        Self::change(state, hall, Change::Applied(object));
    }

    /// Forgets what a fresh list of version `newest` did not contain.
    fn retain(state: &mut crate::hall::State, hall: &Hall, seen: &AHashSet<Key>, newest: u64);
}

/// Objects that only the index holds: those missing from a list are told to it as deleted.
macro_rules! indexed {
    ($kind:ty, $watch:expr, $page:expr, $change:ident, $known:ident, |$object:ident| $unreadable:expr) => {
        impl Watched for $kind {
            const KIND: WatchKind = $watch;
            const PAGE: u32 = $page;

            fn unreadable(&self) -> Option<&str> {
                let $object = self;
                $unreadable
            }

            fn change(state: &mut crate::hall::State, hall: &Hall, change: Change<Self>) {
                hall.count_unreadable(Self::error(&change));
                state.index.$change(&change);
            }

            fn retain(state: &mut crate::hall::State, _: &Hall, seen: &AHashSet<Key>, _: u64) {
                state.index.$known(seen);
            }
        }
    };
}

indexed!(
    ManagedCluster,
    WatchKind::Cluster,
    500,
    cluster,
    retain_clusters,
    |object| object.spec.error().or_else(|| object.status.error())
);
indexed!(
    Placement,
    WatchKind::Placement,
    50,
    placement,
    retain_placements,
    |_object| None
);
indexed!(
    PlacementDecision,
    WatchKind::Decision,
    50,
    decision,
    retain_decisions,
    |object| object.status.error()
);
indexed!(
    ManagedClusterSet,
    WatchKind::ClusterSet,
    50,
    set,
    retain_sets,
    |object| object.spec.error()
);
indexed!(
    ManagedClusterSetBinding,
    WatchKind::Binding,
    50,
    binding,
    retain_bindings,
    |object| object.spec.error()
);

impl Watched for ManifestWork {
    const KIND: WatchKind = WatchKind::Work;

    fn unreadable(&self) -> Option<&str> {
        self.status.error()
    }

    fn change(state: &mut crate::hall::State, hall: &Hall, change: Change<Self>) {
        hall.count_unreadable(Self::error(&change));
        state.index.work(&change, hall.now());
    }

    fn begin_list(state: &mut crate::hall::State) {
        state.index.relist_works();
    }

    fn listed(state: &mut crate::hall::State, hall: &Hall, object: Self) {
        if object.unreadable().is_some() {
            hall.count_unreadable(Some(Self::KIND));
        }
        state.index.listed_work(&object, hall.now());
    }

    fn retain(state: &mut crate::hall::State, _: &Hall, seen: &AHashSet<Key>, newest: u64) {
        let steps = seen
            .iter()
            .filter_map(|(namespace, name)| Some((Arc::clone(namespace), step_of(namespace, name)?)))
            .collect();
        state.index.retain_works(&steps, newest);
    }
}

impl Watched for Upgrade {
    const KIND: WatchKind = WatchKind::Upgrade;
    const PAGE: u32 = 16;

    fn unreadable(&self) -> Option<&str> {
        self.spec.error().or_else(|| self.status.error())
    }

    fn change(state: &mut crate::hall::State, hall: &Hall, change: Change<Self>) {
        hall.count_unreadable(Self::error(&change));
        match change {
            Change::Applied(upgrade) => state.apply_upgrade(upgrade),
            Change::Deleted(upgrade) => {
                state.delete_upgrade(upgrade.metadata.uid.as_deref().unwrap_or_default());
            }
        }
    }

    fn retain(state: &mut crate::hall::State, _: &Hall, seen: &AHashSet<Key>, _: u64) {
        state.retain_upgrades(seen);
    }
}

impl Watched for Report {
    const KIND: WatchKind = WatchKind::Report;
    const AFTER: Option<WatchKind> = Some(WatchKind::Upgrade);
    const PAGE: u32 = 50;

    fn unreadable(&self) -> Option<&str> {
        self.rows.error()
    }

    fn change(state: &mut crate::hall::State, hall: &Hall, change: Change<Self>) {
        hall.count_unreadable(Self::error(&change));
        match change {
            Change::Applied(report) => state.observe_report(&report, false, hall.owns_records()),
            Change::Deleted(report) => state.observe_report(&report, true, hall.owns_records()),
        }
    }

    fn retain(state: &mut crate::hall::State, hall: &Hall, seen: &AHashSet<Key>, newest: u64) {
        state.retain_reports(seen, newest, hall.owns_records());
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
