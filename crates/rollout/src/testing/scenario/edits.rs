//! What somebody edits on the hub by hand, and what the hub forbids.

use std::sync::Arc;

use super::Scenario;
use crate::model::{OperationKind, Step};
use crate::testing::hub::Owner;

/// What somebody does to the row of a cluster on the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChange {
    /// It is deleted.
    Lost,
    /// It is what it was before it was last written, or deleted if it was written only once.
    Earlier,
    /// It cannot be read any more, for example because a newer release has written it.
    Unreadable,
}

impl Scenario {
    /// Somebody changes the row of a cluster on the hub.
    pub fn change_row(&mut self, upgrade: usize, name: &str, change: RowChange) {
        let now = self.now;
        self.upgrades[upgrade].change_row(name, change, now);
    }

    /// Somebody fixes the row of a cluster if it cannot be read, or deletes it.
    pub fn mend_row(&mut self, upgrade: usize, name: &str, deletes: bool) {
        if self.upgrades[upgrade].mend_row(name, deletes) {
            self.watch.excuse(upgrade, name);
        }
    }

    /// Somebody edits the annotations of a work of an upgrade, so that they cannot be read any more.
    pub fn spoil(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, _| {
            let work = spoke.works[step.index()].as_mut();
            if let Some(work) = work.filter(|work| work.owner != Owner::Nobody) {
                work.spoiled = Some(Arc::from("the revision is too long"));
            }
        });
    }

    /// Deletes a work if it cannot be read.
    pub fn delete_spoiled(&mut self, name: &str, step: Step) {
        self.spoke(name, |spoke, now| {
            let work = spoke.works[step.index()].as_mut();
            if let Some(work) = work.filter(|work| work.spoiled.is_some()) {
                work.deleted.get_or_insert(now);
            }
        });
    }

    /// Sets what the hub forbids the controllers to do with the works of a cluster.
    pub fn forbid(&mut self, name: &str, kinds: &[OperationKind]) {
        self.spoke(name, |spoke, _| spoke.forbids = kinds.to_vec());
    }
}
