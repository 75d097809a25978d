//! Writes in progress or in doubt, and rows that cannot be read.

use std::sync::Arc;

use super::{Attempt, Busy, FleetBuilder, Phase, Reason, Record, Step, first_attempt};

/// The record that stands for a row that cannot be read.
#[must_use]
pub fn stand_in(record: &Record) -> Record {
    Record {
        attempt: Attempt::default(),
        phase: Phase::Blocked,
        reason: Reason::UnreadableRecord,
        refused_step: None,
        message: Arc::from("Its phase is unknown"),
        stages: record
            .stages
            .map(|stage| stage.filter(|stage| stage.finished.is_none())),
        unreadable: true,
        ..record.clone()
    }
}

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
