//! What somebody edits on the hub by hand, and what the hub forbids.

use std::sync::Arc;

use super::Scenario;
use crate::model::{OperationKind, Step};
use crate::testing::hub::Owner;

impl Scenario {
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
