//! Rules about clusters that are skipped (`docs/design/rules.md#skipped-clusters`).

use super::asked::{counts_not, may_be_skipped};
use super::operations::is_start;
use super::{Case, Checker, ViolationKind};
use crate::model::{Phase, Selection, StepWork};

impl Checker<'_> {
    /// A cluster that is skipped does not start, and one that says so is.
    pub(super) fn check_skipped(&mut self, case: &Case<'_>) {
        let Some(state) = case.state else { return };
        let cluster = case.cluster;
        let before = cluster.record.as_deref();
        let is_new = state.record.phase == Phase::Skipped
            && before.is_none_or(|before| before.phase != Phase::Skipped);
        let is_founded = before.map_or(counts_not(cluster), |before| may_be_skipped(cluster, before));
        let starts = case.operations.iter().any(|operation| is_start(operation, state));
        // Nothing of it is under way, nor may be.
        let is_untouched = cluster.works.iter().all(|work| *work == StepWork::Absent)
            && !(cluster.busy.is_some() || cluster.is_in_doubt() || cluster.slot_in_doubt);
        let is_out = counts_not(cluster) && cluster.selection == Selection::In;
        if is_new && !is_founded {
            let text = format!("{before:?} became skipped");
            self.report(ViolationKind::Skipped, Some(cluster), text);
        }
        if starts && is_out && is_untouched && before.is_none_or(|before| before.phase.is_queued()) {
            self.report(ViolationKind::Skipped, Some(cluster), "the cluster starts");
        }
    }
}
