//! The only cache: reduced views of everything that the watches deliver. It marks an upgrade dirty when
//! something changes that concerns it, and ignores objects that are older than the cached ones (read your
//! writes).

mod approvals;
mod changes;
mod cluster;
mod installed;
mod intern;
mod placement;
mod probes;
mod request;
mod work;
mod works;

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::views::{
    Approval, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, ManifestWork, Placement,
    PlacementDecision,
};
use chrono::{DateTime, Utc};

pub use approvals::Approvals;
pub use changes::SelectionChanges;
pub use cluster::{Availability, ClusterId, ClusterView, Clusters};
use installed::InstalledVersion;
pub use intern::Pool;
pub use placement::{Decided, Deciding, Key, Placements, key};
pub use probes::ProbeView;
use probes::Probes;
pub use request::WorkRequest;
pub use work::{WorkView, step_of};

/// UID of an upgrade.
pub type Uid = Arc<str>;

/// Works of one cluster, by step. There is only one work per step, because its name is fixed.
pub type ClusterWorks = [Option<Arc<WorkView>>; 4];

/// The cache.
#[derive(Debug, Default)]
pub struct Index {
    /// Shared strings.
    pub pool: Pool,
    /// ManagedClusters by name.
    pub clusters: Clusters,
    /// Clusters that were deleted while this process ran. The watch of works may still report what was theirs.
    deleted: AHashSet<Arc<str>>,
    /// Placements, decisions, sets, bindings.
    pub placements: Placements,
    /// Approvals of upgrades.
    pub approvals: Approvals,
    works: AHashMap<Arc<str>, ClusterWorks>,
    owned: AHashMap<Uid, BTreeSet<Arc<str>>>,
    probes: Probes,
    /// Versions that clusters run although their claims do not show them yet.
    installed: AHashMap<Arc<str>, InstalledVersion>,
    /// Incremented by every change that may alter a selection.
    pub epoch: u64,
    /// What changed since archived upgrades were last informed.
    pub selection_changes: SelectionChanges,
    /// Upgrades whose works changed since the last pass.
    pub dirty: AHashSet<Uid>,
    /// Something changed that may concern every upgrade.
    pub all_dirty: bool,
    /// A work was deleted, or its name now belongs to another upgrade. Upgrades that wait for such a cluster
    /// must be reconciled.
    pub work_released: bool,
    /// Upgrades with a step that was seen to end since the caller last emptied this set. The end of a step releases a slot.
    pub slots_released: BTreeSet<Uid>,
    /// The newest resource version of works that the watch has delivered, in order.
    watched: u64,
    /// Number of lists of works that were started.
    listing: u64,
}

/// A change of a cached object.
#[derive(Debug)]
pub enum Change<K> {
    /// The object exists with this content.
    Applied(K),
    /// The object is gone; this was its last state.
    Deleted(K),
}

impl Index {
    /// Handles a ManagedCluster from a list, or that it is certainly gone.
    pub fn cluster(&mut self, change: &Change<ManagedCluster>) {
        self.change_cluster(change, None);
    }

    /// Handles a change of a ManagedCluster from the watch, which may be behind.
    pub fn watched_cluster(&mut self, change: &Change<ManagedCluster>, now: DateTime<Utc>) {
        self.change_cluster(change, Some(now));
    }

    fn change_cluster(&mut self, change: &Change<ManagedCluster>, heard: Option<DateTime<Utc>>) {
        let changed = match change {
            Change::Applied(object) => match ClusterView::new(object, &mut self.pool) {
                Some(mut view) => {
                    let before = self.clusters.get(&view.name);
                    // The cluster can change its own label. So once the mark was seen, it stays as long as
                    // the object exists.
                    view.hub |= before.is_some_and(|before| before.hub);
                    if let Some(before) = before {
                        view.keep_last_version(before);
                    }
                    let is_new = match before {
                        Some(before) => before.created != view.created,
                        None => self.deleted.remove(&view.name),
                    };
                    let changed = before.is_none_or(|before| **before != view);
                    if changed {
                        let before = before.map(|before| &**before);
                        self.selection_changes.cluster(before, &view, &self.placements);
                        let name = Arc::clone(&view.name);
                        // Also if a list replaces the earlier one, and no event has told of its deletion.
                        if is_new {
                            self.forget_installed_before(&name, view.created);
                        }
                        self.clusters.insert(Arc::clone(&name), Arc::new(view));
                        self.compare_installed(&name, heard);
                        if is_new {
                            self.forget_evidence(&name);
                        }
                    }
                    changed
                }
                None => false,
            },
            Change::Deleted(object) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                self.selection_changes.everything = true;
                self.forget_evidence(name);
                self.drop_cluster(name)
            }
        };
        self.note(changed);
    }

    /// Handles a change of a Placement.
    pub fn placement(&mut self, change: &Change<Placement>) {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        let at = key(object, &mut self.pool);
        let changed = match change {
            Change::Applied(object) => self.placements.apply_placement(object, &mut self.pool),
            Change::Deleted(_) => self.placements.delete_placement(&at),
        };
        if changed {
            self.selection_changes.placement(at);
        }
        self.note(changed);
    }

    /// Handles a change of a PlacementDecision.
    pub fn decision(&mut self, change: &Change<PlacementDecision>) {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        let at = key(object, &mut self.pool);
        let before = self.placements.placement_of(&at);
        let changed = match change {
            Change::Applied(object) => self.placements.apply_decision(object, &mut self.pool),
            Change::Deleted(_) => self.placements.delete_decision(&at),
        };
        if changed {
            let after = self.placements.placement_of(&at);
            for placement in [before, after].into_iter().flatten() {
                self.selection_changes.placement(placement);
            }
        }
        self.note(changed);
    }

    /// Handles a change of a ManagedClusterSet.
    pub fn set(&mut self, change: &Change<ManagedClusterSet>) {
        let changed = match change {
            Change::Applied(object) => self.placements.apply_set(object, &mut self.pool),
            Change::Deleted(object) => self.placements.delete_set(&key(object, &mut self.pool)),
        };
        self.note_everything(changed);
    }

    /// Handles a change of a ManagedClusterSetBinding.
    pub fn binding(&mut self, change: &Change<ManagedClusterSetBinding>) {
        let changed = match change {
            Change::Applied(object) => self.placements.apply_binding(object, &mut self.pool),
            Change::Deleted(object) => self.placements.delete_binding(&key(object, &mut self.pool)),
        };
        self.note_everything(changed);
    }

    /// Handles a change of an approval. Returns `namespace/name` of the upgrades that it concerns.
    pub fn approval(&mut self, change: &Change<Approval>) -> Vec<Arc<str>> {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        let at = key(object, &mut self.pool);
        match change {
            Change::Applied(object) => self.approvals.apply(&at, object),
            Change::Deleted(_) => self.approvals.delete(&at).into_iter().collect(),
        }
    }

    fn note(&mut self, changed: bool) {
        if changed {
            self.epoch += 1;
            self.all_dirty = true;
        }
    }

    /// Records a change that may concern every selection.
    fn note_everything(&mut self, changed: bool) {
        self.selection_changes.everything |= changed;
        self.note(changed);
    }

    /// Removes a cluster; false if it was not known.
    fn drop_cluster(&mut self, name: &str) -> bool {
        let removed = self.clusters.remove_entry(name);
        let is_known = removed.is_some();
        self.deleted.extend(removed.map(|(name, _)| name));
        is_known
    }

    /// Removes clusters that a complete list did not contain.
    pub fn retain_clusters(&mut self, seen: &AHashSet<Key>) {
        let before = self.clusters.len();
        let nowhere: Arc<str> = Arc::from("");
        let is_gone = |name: &Arc<str>| !seen.contains(&(Arc::clone(&nowhere), Arc::clone(name)));
        let gone: Vec<Arc<str>> = self
            .clusters
            .keys()
            .filter(|name| is_gone(name))
            .cloned()
            .collect();
        for name in gone {
            self.forget_evidence(&name);
            self.drop_cluster(&name);
        }
        self.installed.retain(|name, _| self.clusters.contains_key(name));
        let changed = before != self.clusters.len();
        self.note_everything(changed);
    }

    /// Removes Placements that a complete list did not contain.
    pub fn retain_placements(&mut self, seen: &AHashSet<Key>) {
        let changed = self.placements.retain_placements(seen);
        self.note_everything(changed);
    }

    /// Removes PlacementDecisions that a complete list did not contain.
    pub fn retain_decisions(&mut self, seen: &AHashSet<Key>) {
        let changed = self.placements.retain_decisions(seen);
        self.note_everything(changed);
    }

    /// Removes sets that a complete list did not contain.
    pub fn retain_sets(&mut self, seen: &AHashSet<Key>) {
        let changed = self.placements.retain_sets(seen);
        self.note_everything(changed);
    }

    /// Removes bindings that a complete list did not contain.
    pub fn retain_bindings(&mut self, seen: &AHashSet<Key>) {
        let changed = self.placements.retain_bindings(seen);
        self.note_everything(changed);
    }
}

fn version_of(object: &ManifestWork) -> u64 {
    let version = object.metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
