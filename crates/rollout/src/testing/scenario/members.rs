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
        self.hear_at_once();
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
        self.hear_at_once();
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
            spoke.known_version = None;
            if !works_stay {
                spoke.works = [None, None, None, None];
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Scenario;
    use crate::model::{OperationKind, Phase, Step};
    use crate::testing::{at, policy};

    #[test]
    fn a_creation_that_was_sent_for_an_earlier_registration_holds_no_slot_until_its_work_is_removed() {
        let asked = policy().operators().without(Step::Platform).max_concurrency(1);
        let mut world = Scenario::new(asked.build(), 1);
        world.add_cluster("a");
        world.add_cluster("b");
        world.run_until(0);
        for write in &mut world.upgrades[0].writes {
            write.lands = at(2);
        }
        world.run_until(1);
        world.register("a", false);
        world.run_until(2);
        assert_eq!(world.log_of("Leftover").len(), 1, "{}", world.log());
        for write in &mut world.upgrades[0].writes {
            if write.operation.kind() == OperationKind::Delete {
                write.lands = at(5);
            }
        }
        world.run_until(4);
        for name in ["a", "b"] {
            assert!(world.has_work(name, Step::Operators), "{}", world.log());
        }
        assert_eq!(world.unfinished(0), 1, "{}", world.log());
        assert!(world.settle(2000), "{}", world.log());
        assert_eq!(world.phases(0), [Phase::Complete; 2], "{}", world.log());
        assert_eq!(world.faults(), [""; 0], "{}", world.log());
    }
}
