//! The watches, which update the index and the upgrade entries. Every replica runs them, so a follower can
//! take over at once.
//!
//! This file defines how each kind is added to the state; [`source`] lists and watches.

mod source;

use std::sync::Arc;

use ahash::AHashSet;
use api::names::probe_name;
use api::names::{LABEL_MCU, LABEL_MCU_UID};
use api::views::{
    Approval, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, ManifestWork, Placement,
    PlacementDecision, Report, Upgrade,
};
use kube::{Client, Resource};
use observe::index::{Change, Key, step_of};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use crate::metrics::labels::WatchKind;
use crate::state::context::{Context, version};
use crate::state::upgrade::UpgradeEntry;

/// Starts all watches. They never end, so a watch that ends has panicked and delivers nothing any more.
#[must_use]
pub fn start(context: &Arc<Context>, client: &Client) -> JoinSet<()> {
    let mut watches = JoinSet::new();
    let set = &mut watches;
    spawn::<ManagedCluster>(set, context, client, None);
    spawn::<ManifestWork>(set, context, client, Some(LABEL_MCU_UID));
    spawn::<Placement>(set, context, client, None);
    spawn::<PlacementDecision>(set, context, client, None);
    spawn::<ManagedClusterSet>(set, context, client, None);
    spawn::<ManagedClusterSetBinding>(set, context, client, None);
    spawn::<Upgrade>(set, context, client, None);
    spawn::<Report>(set, context, client, Some(LABEL_MCU));
    spawn::<Approval>(set, context, client, None);
    watches
}

fn spawn<K>(watches: &mut JoinSet<()>, context: &Arc<Context>, client: &Client, label: Option<&'static str>)
where
    K: Watched + Resource<DynamicType = ()> + DeserializeOwned + Send + 'static,
{
    let source = source::Source::<K>::new(Arc::clone(context), client.clone(), label);
    watches.spawn(source.run());
}

/// How a kind is added to the state.
pub(crate) trait Watched: Sized {
    /// The error if the object could not be read completely.
    fn unreadable(&self) -> Option<&str>;
    /// The name of the watch.
    const KIND: WatchKind;
    /// A kind that must be listed before this one, because this one is interpreted with its help.
    const AFTER: Option<WatchKind> = None;
    /// True if the watch draws its random pauses from a sequence of its own. The other kinds share one sequence: a further kind that drew
    /// from it would shift their draws, and the stories of the simulation would not replay as recorded.
    const OWN_SEQUENCE: bool = false;
    /// Objects per page of a list. A page must fit into memory even if its objects are large.
    const PAGE: u32 = 500;

    /// The kind, if the object could not be read completely.
    fn error(change: &Change<Self>) -> Option<WatchKind> {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        object.unreadable().map(|_| Self::KIND)
    }

    /// Handles a change.
    fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>);

    /// Prepares for a complete list.
    fn begin_list(_: &mut crate::state::context::State) {}

    /// Handles an object of a list.
    fn listed(state: &mut crate::state::context::State, context: &Context, object: Self) {
        Self::change(state, context, Change::Applied(object));
    }

    /// The resource version at which the state holds this object, or knows of the deletion of one of its name. 0 if it knows neither,
    /// or takes it from each list anew.
    fn known(_: &crate::state::context::State, _object: &Self) -> u64 {
        0
    }

    /// The newest resource version of what the state holds of this kind, also if a response to a write told of it and the watch has
    /// not. 0 if only lists and watches tell of it.
    fn newest(_: &crate::state::context::State) -> u64 {
        0
    }

    /// True if this very object was seen to be deleted, or a newer one to have its name. A list that has it is from an older storage,
    /// whatever its version.
    fn is_ended(_: &crate::state::context::State, _object: &Self) -> bool {
        false
    }

    /// Handles that the kind is listed and watched after it was not, or not for the wanted view.
    fn became_fresh(_: &mut crate::state::context::State) {}

    /// Removes everything that a complete list of version `newest` did not contain.
    fn retain(state: &mut crate::state::context::State, context: &Context, seen: &AHashSet<Key>, newest: u64);
}

/// Kinds that are kept only in the index: objects that are missing from a list are handled as deleted.
macro_rules! indexed {
    ($kind:ty, $watch:expr, $page:expr, $change:ident, $known:ident, |$object:ident| $unreadable:expr) => {
        impl Watched for $kind {
            const KIND: WatchKind = $watch;
            const PAGE: u32 = $page;

            fn unreadable(&self) -> Option<&str> {
                let $object = self;
                $unreadable
            }

            fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>) {
                context.count_unreadable(Self::error(&change));
                state.index.$change(&change);
            }

            fn retain(state: &mut crate::state::context::State, _: &Context, seen: &AHashSet<Key>, _: u64) {
                state.index.$known(seen);
            }
        }
    };
}

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

impl Watched for ManagedCluster {
    const KIND: WatchKind = WatchKind::Cluster;

    fn unreadable(&self) -> Option<&str> {
        self.spec.error().or_else(|| self.status.error())
    }

    fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>) {
        context.count_unreadable(Self::error(&change));
        state.index.watched_cluster(&change, context.now());
    }

    fn listed(state: &mut crate::state::context::State, context: &Context, object: Self) {
        let change = Change::Applied(object);
        context.count_unreadable(Self::error(&change));
        // A list is not behind, but the claims in it may be.
        state.index.watched_cluster(&change, context.now());
    }

    fn retain(state: &mut crate::state::context::State, _: &Context, seen: &AHashSet<Key>, _: u64) {
        state.index.retain_clusters(seen);
    }
}

impl Watched for ManifestWork {
    const KIND: WatchKind = WatchKind::Work;

    fn unreadable(&self) -> Option<&str> {
        self.status.error()
    }

    fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>) {
        context.count_unreadable(Self::error(&change));
        state.update_works(|index| index.work(&change, context.now()));
    }

    fn begin_list(state: &mut crate::state::context::State) {
        state.index.relist_works();
    }

    fn listed(state: &mut crate::state::context::State, context: &Context, object: Self) {
        if object.unreadable().is_some() {
            context.count_unreadable(Some(Self::KIND));
        }
        state.update_works(|index| index.listed_work(&object, context.now()));
    }

    fn known(state: &crate::state::context::State, object: &Self) -> u64 {
        state.index.version_of(object)
    }

    fn newest(state: &crate::state::context::State) -> u64 {
        state.index.newest_work()
    }

    fn retain(
        state: &mut crate::state::context::State,
        context: &Context,
        seen: &AHashSet<Key>,
        newest: u64,
    ) {
        let steps = seen
            .iter()
            .filter_map(|(namespace, name)| Some((Arc::clone(namespace), step_of(namespace, name)?)))
            .collect();
        let probes = seen
            .iter()
            .filter(|(namespace, name)| **name == *probe_name(namespace));
        let probes = probes.map(|(namespace, _)| Arc::clone(namespace)).collect();
        state.index.retain_works(&steps, newest, context.now());
        state.index.retain_probes(&probes, newest);
    }
}

impl Watched for Upgrade {
    const KIND: WatchKind = WatchKind::Upgrade;
    const PAGE: u32 = 16;

    fn unreadable(&self) -> Option<&str> {
        self.spec.error().or_else(|| self.status.error())
    }

    fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>) {
        context.count_unreadable(Self::error(&change));
        match change {
            Change::Applied(upgrade) => state.apply_upgrade(upgrade),
            Change::Deleted(upgrade) => {
                state.delete_upgrade(upgrade.metadata.uid.as_deref().unwrap_or_default());
            }
        }
    }

    fn known(state: &crate::state::context::State, object: &Self) -> u64 {
        let uid = object.metadata.uid.as_deref().unwrap_or_default();
        state.upgrades.get(uid).map_or(0, |entry| version(&entry.object))
    }

    fn newest(state: &crate::state::context::State) -> u64 {
        let versions = state.upgrades.values().map(|entry| version(&entry.object));
        versions.max().unwrap_or(0)
    }

    fn is_ended(state: &crate::state::context::State, object: &Self) -> bool {
        state.has_ended(object.metadata.uid.as_deref().unwrap_or_default()) || state.is_replaced(object)
    }

    fn retain(state: &mut crate::state::context::State, _: &Context, seen: &AHashSet<Key>, _: u64) {
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

    fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>) {
        context.count_unreadable(Self::error(&change));
        let leads = context.owns_records();
        // The earlier of the two times has certainly been reached: no row is too old by a clock that is ahead.
        let certain = context.now() - context.skew().unwrap_or_default().abs();
        match change {
            Change::Applied(report) => state.observe_report(&report, false, leads, certain),
            Change::Deleted(report) => state.observe_report(&report, true, leads, certain),
        }
    }

    fn known(state: &crate::state::context::State, object: &Self) -> u64 {
        state.version_of_report(object)
    }

    fn newest(state: &crate::state::context::State) -> u64 {
        let upgrades = state.upgrades.values();
        upgrades
            .flat_map(UpgradeEntry::report_versions)
            .max()
            .unwrap_or(0)
    }

    fn retain(
        state: &mut crate::state::context::State,
        context: &Context,
        seen: &AHashSet<Key>,
        newest: u64,
    ) {
        state.retain_reports(seen, newest, context.owns_records());
    }
}

impl Watched for Approval {
    const KIND: WatchKind = WatchKind::Approval;
    const OWN_SEQUENCE: bool = true;

    fn unreadable(&self) -> Option<&str> {
        self.spec.error()
    }

    fn change(state: &mut crate::state::context::State, context: &Context, change: Change<Self>) {
        context.count_unreadable(Self::error(&change));
        let concerned = state.index.approval(&change);
        plan_again(state, &concerned);
    }

    /// What was planned meanwhile went by no approval, also where the upgrade has none.
    fn became_fresh(state: &mut crate::state::context::State) {
        for entry in state.upgrades.values_mut() {
            let spec = entry.in_force();
            let has_checkpoints = spec.is_some_and(|spec| !spec.policy.checkpoints.is_empty());
            entry.dirty |= entry.archive.is_none() && has_checkpoints;
        }
    }

    fn retain(state: &mut crate::state::context::State, _: &Context, seen: &AHashSet<Key>, _: u64) {
        let concerned = state.index.approvals.retain(seen);
        plan_again(state, &concerned);
    }
}

/// Marks these upgrades, by `namespace/name`, so that they are reconciled. An archived one is complete, and nobody needs to approve it.
fn plan_again(state: &mut crate::state::context::State, upgrades: &[Arc<str>]) {
    for entry in state.upgrades.values_mut() {
        entry.dirty |= entry.archive.is_none() && upgrades.contains(&entry.key);
    }
}

#[cfg(test)]
mod tests;
