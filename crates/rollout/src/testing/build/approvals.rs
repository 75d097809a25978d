//! Checkpoints and approvals.

use std::sync::Arc;

use super::{FleetBuilder, PolicyBuilder, at};
use crate::model::{Checkpoint, CheckpointPlace, GivenApproval, KnownApprovals, Limit};

impl PolicyBuilder {
    /// A checkpoint.
    pub fn checkpoint(mut self, name: &str, place: CheckpointPlace) -> Self {
        self.0.checkpoints.push(Checkpoint {
            name: Arc::from(name),
            at: place,
        });
        self
    }

    /// A checkpoint at a number of clusters.
    pub fn checkpoint_at(self, name: &str, clusters: u32) -> Self {
        self.checkpoint(name, CheckpointPlace::Started(Limit::Count(clusters)))
    }

    /// How far the approvals are known.
    pub fn approvals(mut self, known: KnownApprovals) -> Self {
        self.0.approvals = known;
        self
    }

    /// Another spec, as far as approvals cover it.
    pub fn spec_hash(mut self, hash: &str) -> Self {
        self.0.spec_hash = Arc::from(hash);
        self
    }
}

impl FleetBuilder {
    /// An approval of a checkpoint for a plan, which expires at this time (seconds).
    pub fn approval(mut self, checkpoint: &str, plan_hash: &str, expires: Option<i64>) -> Self {
        self.approvals.push(GivenApproval {
            checkpoint: Arc::from(checkpoint),
            plan_hash: Arc::from(plan_hash),
            approver: Arc::from("anna"),
            message: Arc::from("CHG0042"),
            given: Some(at(0)),
            expires: expires.map(at),
        });
        self
    }
}
