//! Which clusters there are, are selected and are canaries.

use std::sync::Arc;

use super::Scenario;
use crate::model::Selection;

impl Scenario {
    /// Selects a cluster.
    pub fn select(&mut self, upgrade: usize, name: &str) {
        self.upgrades[upgrade]
            .selection
            .insert(Arc::from(name), Selection::In);
    }

    /// Removes a cluster from the selection.
    pub fn deselect(&mut self, upgrade: usize, name: &str) {
        let left = Selection::Left(self.now);
        self.upgrades[upgrade].selection.insert(Arc::from(name), left);
    }

    /// Clusters that are selected.
    #[must_use]
    pub fn selected(&self, upgrade: usize) -> Vec<Arc<str>> {
        let selection = &self.upgrades[upgrade].selection;
        selection
            .iter()
            .filter(|(_, selection)| **selection == Selection::In)
            .map(|(name, _)| Arc::clone(name))
            .collect()
    }

    /// Makes a cluster a canary.
    pub fn canary(&mut self, upgrade: usize, name: &str) {
        self.set_canary(upgrade, name, true);
    }

    /// Deletes the ManagedCluster with its namespace.
    pub fn lose(&mut self, name: &str) {
        self.spoke(name, |spoke, _| spoke.gone = true);
    }

    /// Sets whether a cluster is a canary.
    pub fn set_canary(&mut self, upgrade: usize, name: &str, canary: bool) {
        let canaries = &mut self.upgrades[upgrade].canaries;
        if canary {
            canaries.insert(Arc::from(name));
        } else {
            canaries.remove(name);
        }
    }

    /// True when a cluster is a canary.
    #[must_use]
    pub fn is_canary(&self, upgrade: usize, name: &str) -> bool {
        self.upgrades[upgrade].canaries.contains(name)
    }

    /// Deletes the ManagedCluster and creates it anew, so soon that no controller sees it gone in between, or brings back one that is
    /// gone. Its namespace and the works in it stay, or are deleted before the watches tell of it.
    pub fn register(&mut self, name: &str, works_stay: bool) {
        let Some((name, spoke)) = self.hub.spokes.get_key_value(name) else {
            return;
        };
        let name = Arc::clone(name);
        for (index, upgrade) in self.upgrades.iter_mut().enumerate() {
            upgrade.doubt(index, &name, spoke);
        }
        self.watch.forget(&name);
        self.spoke(&name, |spoke, now| {
            (spoke.gone, spoke.registered) = (false, now);
            if !works_stay {
                spoke.works = [None, None, None, None];
            }
        });
    }
}
