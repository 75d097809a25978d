//! Changes that may alter selections.

use std::sync::Arc;

use ahash::AHashSet;
use api::names::LABEL_CLUSTER_SET;

use super::{ClusterView, Key, Placements};

/// Largest number of label keys and Placements that are tracked one by one.
const MAX_TRACKED_CHANGES: usize = 1000;

/// Changes that may alter selections.
#[derive(Debug, Default)]
pub struct SelectionChanges {
    /// Every selection may have changed.
    pub everything: bool,
    /// Keys of labels whose value changed somewhere.
    pub keys: AHashSet<Arc<str>>,
    /// Placements that changed, or whose decisions changed.
    pub placements: AHashSet<Key>,
}

impl SelectionChanges {
    /// True when no selection can have changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.everything && self.keys.is_empty() && self.placements.is_empty()
    }

    /// Records the differences between two states of a cluster.
    pub(super) fn cluster(
        &mut self,
        before: Option<&ClusterView>,
        after: &ClusterView,
        placements: &Placements,
    ) {
        let Some(before) = before else {
            self.everything = true;
            return;
        };
        self.everything |= before.terminating != after.terminating || before.accepted != after.accepted;
        if self.everything || before.labels == after.labels {
            return;
        }
        let changed = differing(before, after).chain(differing(after, before));
        for key in changed {
            self.everything |= **key == *LABEL_CLUSTER_SET || placements.sets_go_by(key);
            self.keys.insert(Arc::clone(key));
        }
        self.bound();
    }

    /// Records that a Placement or its decisions changed.
    pub(super) fn placement(&mut self, placement: Key) {
        if !self.everything {
            self.placements.insert(placement);
            self.bound();
        }
    }

    fn bound(&mut self) {
        if self.everything || self.keys.len() + self.placements.len() > MAX_TRACKED_CHANGES {
            *self = SelectionChanges {
                everything: true,
                ..SelectionChanges::default()
            };
        }
    }
}

/// Keys whose value differs between the two clusters.
fn differing<'a>(one: &'a ClusterView, other: &'a ClusterView) -> impl Iterator<Item = &'a Arc<str>> {
    let labels = one.labels.iter();
    labels
        .filter(|(key, value)| other.label(key) != Some(value))
        .map(|(key, _)| key)
}
