//! Clusters that are skipped (`docs/design/rules.md#skipped-clusters`).

use crate::model::{Phase, Reason, Selection};
use crate::planner::attempts::{is_frozen, is_under_way};
use crate::planner::cluster::ClusterEvaluator;

impl ClusterEvaluator<'_> {
    /// True when the cluster is skipped now: nothing of its upgrade is under way or may be. What is under way ends first. A failure must
    /// be written, so that whoever leads next does not find its step running.
    pub(crate) fn is_skipped(&self) -> bool {
        let (cluster, record) = (self.cluster, &*self.out.record);
        let is_told = || {
            let written = cluster.written.as_deref();
            written.is_some_and(|written| written.phase == record.phase && written.is_same_run(record))
        };
        let is_idle = match record.phase {
            // It may have begun and wait for its next step.
            Phase::Pending | Phase::Blocked => !is_under_way(cluster, record),
            Phase::Skipped => true,
            Phase::Failed | Phase::PreActionDegraded => is_told(),
            _ => false,
        };
        let is_writing = cluster.busy.is_some() || cluster.is_in_doubt() || cluster.slot_in_doubt;
        cluster.skipped.is_some()
            && cluster.selection == Selection::In
            && is_idle
            && !is_writing
            && !is_frozen(cluster, record)
    }

    /// The row says why, and how the cluster had failed if it had.
    pub(crate) fn skip(&mut self) {
        let reason = self.cluster.skipped.clone().unwrap_or_default();
        let record = &self.out.record;
        let is_told = record.phase == Phase::Skipped && record.message.starts_with(&*reason);
        let message = if is_told {
            record.message.to_string()
        } else if matches!(record.phase, Phase::Failed | Phase::PreActionDegraded) {
            format!(
                "{reason} (it had failed: {}: {})",
                record.reason_text(),
                record.message
            )
        } else {
            reason.to_string()
        };
        self.phase(Phase::Skipped, Reason::Skipped, &message);
    }
}
