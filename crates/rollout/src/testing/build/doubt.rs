//! Writes in progress or in doubt.

use super::{Busy, FleetBuilder, Step, first_attempt};

impl FleetBuilder {
    /// A write for the cluster is in progress. If it starts a step, it is of the first attempt.
    pub fn busy(self, busy: Busy) -> Self {
        self.awaits(busy == Busy::Starting)
            .last(|cluster| cluster.busy = Some(busy))
    }

    fn awaits(self, start: bool) -> Self {
        self.last(|cluster| {
            if start {
                cluster.awaited_attempt = Some(first_attempt());
            }
        })
    }

    /// It is not known whether a write that begins this step in the first attempt was carried out.
    pub fn unsettled(self, step: Step) -> Self {
        self.awaits(step != Step::PostAction)
            .last(|cluster| cluster.unsettled = Some(step))
    }

    /// An abandoned creation of this step's work may still be carried out, although a later one succeeded.
    pub fn late(self, step: Step) -> Self {
        self.awaits(step != Step::PostAction)
            .last(|cluster| cluster.late = Some(step))
    }

    /// The same for another step.
    pub fn also_late(self, step: Step) -> Self {
        self.last(|cluster| cluster.also_late[0] = Some(step))
    }
}
