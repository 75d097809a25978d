//! Placements, their decisions, cluster sets and their bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::GROUP;
use api::lenient::Lenient;
use api::names::LABEL_PLACEMENT;
use api::views::{
    ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision, SetSelector, condition,
};
use kube::Resource;

use super::intern::Pool;

/// Namespace and name.
pub type Key = (Arc<str>, Arc<str>);

/// Everything that selects clusters, except the clusters themselves.
#[derive(Debug, Default)]
pub struct Placements {
    known: AHashMap<Key, Deciding>,
    decisions: AHashMap<Key, DecidedClusters>,
    sets: BTreeMap<Arc<str>, SetSelector>,
    bindings: BTreeMap<Key, Binding>,
}

/// The fields of a Placement that limit its decisions.
#[derive(Debug, PartialEq, Eq)]
pub struct Deciding {
    uid: Arc<str>,
    /// Sets from which it decides (empty: all sets that are bound in its namespace), or why they cannot be
    /// read.
    pub sets: Result<Vec<String>, String>,
}

#[derive(Debug, PartialEq, Eq)]
struct DecidedClusters {
    placement: Arc<str>,
    /// UIDs of the owners that are Placements with that name.
    owners: Vec<Arc<str>>,
    clusters: Vec<Arc<str>>,
}

/// The clusters that were decided for a Placement.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Decided<'a> {
    /// Union of the clusters in its decisions.
    pub clusters: BTreeSet<&'a Arc<str>>,
    /// Number of PlacementDecisions that have its label but are not owned by it. Anyone may have written
    /// them.
    pub unowned: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct Binding {
    set: Arc<str>,
    bound: bool,
}

/// Namespace and name of an object; cluster-scoped objects have an empty namespace.
pub fn key<K: Resource>(object: &K, pool: &mut Pool) -> Key {
    let meta = object.meta();
    (
        pool.share(meta.namespace.as_deref().unwrap_or_default()),
        pool.share(meta.name.as_deref().unwrap_or_default()),
    )
}

impl Placements {
    /// Adds or updates a Placement. Returns true if anything changed.
    pub fn apply_placement(&mut self, placement: &Placement, pool: &mut Pool) -> bool {
        let key = key(placement, pool);
        if placement.metadata.deletion_timestamp.is_some() {
            return self.known.remove(&key).is_some();
        }
        let entry = Deciding {
            uid: pool.share(placement.metadata.uid.as_deref().unwrap_or_default()),
            sets: match &placement.spec {
                Lenient::Good(spec) => Ok(spec.cluster_sets.clone()),
                Lenient::Absent => Ok(Vec::new()),
                Lenient::Broken(error) => Err(error.clone()),
            },
        };
        let changed = self.known.get(&key) != Some(&entry);
        self.known.insert(key, entry);
        changed
    }

    /// Removes a Placement.
    pub fn delete_placement(&mut self, key: &Key) -> bool {
        self.known.remove(key).is_some()
    }

    /// Adds or updates a PlacementDecision. If its status cannot be read, it keeps its earlier decisions: an
    /// unreadable status does not mean that they are gone.
    pub fn apply_decision(&mut self, decision: &PlacementDecision, pool: &mut Pool) -> bool {
        let key = key(decision, pool);
        let labels = decision.metadata.labels.as_ref();
        let Some(placement) = labels.and_then(|labels| labels.get(LABEL_PLACEMENT)) else {
            return self.decisions.remove(&key).is_some();
        };
        let before = self.decisions.get(&key);
        let clusters = match &decision.status {
            Lenient::Good(status) => status
                .decisions
                .iter()
                .filter(|one| !one.cluster_name.is_empty())
                .map(|one| pool.share(&one.cluster_name))
                .collect(),
            Lenient::Absent => Vec::new(),
            Lenient::Broken(_) => before
                .filter(|before| *before.placement == **placement)
                .map(|before| before.clusters.clone())
                .unwrap_or_default(),
        };
        let owners = decision.metadata.owner_references.iter().flatten();
        let entry = DecidedClusters {
            placement: pool.share(placement),
            owners: owners
                .filter(|owner| {
                    let group = owner.api_version.split_once('/').map(|(group, _)| group);
                    owner.kind == "Placement" && group == Some(GROUP) && owner.name == *placement
                })
                .map(|owner| pool.share(&owner.uid))
                .collect(),
            clusters,
        };
        let changed = before != Some(&entry);
        self.decisions.insert(key, entry);
        changed
    }

    /// Removes a PlacementDecision.
    pub fn delete_decision(&mut self, key: &Key) -> bool {
        self.decisions.remove(key).is_some()
    }

    /// Adds or updates a ManagedClusterSet.
    pub fn apply_set(&mut self, set: &ManagedClusterSet, pool: &mut Pool) -> bool {
        let (_, name) = key(set, pool);
        if set.metadata.deletion_timestamp.is_some() {
            return self.sets.remove(&name).is_some();
        }
        let Some(spec) = set.spec.good() else { return false };
        let changed = self.sets.get(&name) != Some(&spec.cluster_selector);
        self.sets.insert(name, spec.cluster_selector.clone());
        changed
    }

    /// Removes a ManagedClusterSet.
    pub fn delete_set(&mut self, key: &Key) -> bool {
        self.sets.remove(&key.1).is_some()
    }

    /// Adds or updates a ManagedClusterSetBinding. One without a status counts as bound
    /// (`docs/design/rules.md#set-bindings`).
    pub fn apply_binding(&mut self, binding: &ManagedClusterSetBinding, pool: &mut Pool) -> bool {
        let key = key(binding, pool);
        let Some(spec) = binding.spec.good() else {
            return false;
        };
        if binding.metadata.deletion_timestamp.is_some() {
            return self.bindings.remove(&key).is_some();
        }
        let refused = binding
            .status
            .good()
            .and_then(|status| condition(&status.conditions, "Bound"))
            .is_some_and(|bound| bound.status != "True");
        let entry = Binding {
            set: pool.share(&spec.cluster_set),
            bound: !refused,
        };
        let changed = self.bindings.get(&key) != Some(&entry);
        self.bindings.insert(key, entry);
        changed
    }

    /// Removes a ManagedClusterSetBinding.
    pub fn delete_binding(&mut self, key: &Key) -> bool {
        self.bindings.remove(key).is_some()
    }

    /// Removes all Placements that are not in `seen`. Returns true if anything changed.
    pub fn retain_placements(&mut self, seen: &AHashSet<Key>) -> bool {
        let before = self.known.len();
        self.known.retain(|key, _| seen.contains(key));
        before != self.known.len()
    }

    /// Removes all PlacementDecisions that are not in `seen`. Returns true if anything changed.
    pub fn retain_decisions(&mut self, seen: &AHashSet<Key>) -> bool {
        let before = self.decisions.len();
        self.decisions.retain(|key, _| seen.contains(key));
        before != self.decisions.len()
    }

    /// Removes all sets that are not in `seen`. Returns true if anything changed.
    pub fn retain_sets(&mut self, seen: &AHashSet<Key>) -> bool {
        let before = self.sets.len();
        self.sets
            .retain(|name, _| seen.iter().any(|(_, known)| known == name));
        before != self.sets.len()
    }

    /// Removes all bindings that are not in `seen`. Returns true if anything changed.
    pub fn retain_bindings(&mut self, seen: &AHashSet<Key>) -> bool {
        let before = self.bindings.len();
        self.bindings.retain(|key, _| seen.contains(key));
        before != self.bindings.len()
    }

    /// The Placement of this name; `None` when it does not exist.
    #[must_use]
    pub fn placement(&self, namespace: &str, name: &str) -> Option<&Deciding> {
        self.known.get(&(Arc::from(namespace), Arc::from(name)))
    }

    /// The clusters that were decided for a Placement. Only decisions that the Placement owns count, by name
    /// and UID. OCM's placement controller sets that reference, while anyone who may create the object can
    /// set the label.
    #[must_use]
    pub fn decided(&self, namespace: &str, name: &str) -> Decided<'_> {
        let mut decided = Decided::default();
        let uid = self
            .placement(namespace, name)
            .map_or("", |placement| &*placement.uid);
        let labelled = self
            .decisions
            .iter()
            .filter(|((at, _), decision)| **at == *namespace && *decision.placement == *name);
        for (_, decision) in labelled {
            if !uid.is_empty() && decision.owners.iter().any(|owner| **owner == *uid) {
                decided.clusters.extend(&decision.clusters);
            } else {
                decided.unowned += 1;
            }
        }
        decided
    }

    /// The Placement that a PlacementDecision belongs to.
    pub(super) fn placement_of(&self, decision: &Key) -> Option<Key> {
        let found = self.decisions.get(decision)?;
        Some((Arc::clone(&decision.0), Arc::clone(&found.placement)))
    }

    /// True when a set selects its clusters by this label, not counting the label that names the set.
    pub(super) fn sets_go_by(&self, key: &str) -> bool {
        self.sets.values().any(|set| {
            set.label_selector.as_ref().is_some_and(|selector| {
                let expressions = selector.match_expressions.iter().flatten();
                selector
                    .match_labels
                    .iter()
                    .flatten()
                    .any(|(label, _)| label == key)
                    || expressions.into_iter().any(|expression| expression.key == key)
            })
        })
    }

    /// Names of the sets bound in a namespace.
    #[must_use]
    pub fn bound_sets(&self, namespace: &str) -> BTreeSet<&Arc<str>> {
        self.bindings
            .iter()
            .filter(|((at, _), binding)| **at == *namespace && binding.bound)
            .map(|(_, binding)| &binding.set)
            .collect()
    }

    /// Names of all sets.
    pub fn all_sets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sets.keys()
    }

    /// How clusters become members of a set. `None` if the set does not exist.
    #[must_use]
    pub fn set(&self, name: &str) -> Option<&SetSelector> {
        self.sets.get(name)
    }

    /// Number of cached objects, for metrics: placements, decisions, sets, bindings.
    #[must_use]
    pub fn counts(&self) -> [usize; 4] {
        [
            self.known.len(),
            self.decisions.len(),
            self.sets.len(),
            self.bindings.len(),
        ]
    }
}
