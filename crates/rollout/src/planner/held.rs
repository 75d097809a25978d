//! Which clusters hold slots (`docs/design/rules.md#slots`).

use crate::model::{Cluster, Step, StepWork};
use crate::planner::cluster::Evaluation;

/// True while a cluster holds a slot.
pub(crate) fn holds(cluster: &Cluster, evaluation: &Evaluation) -> bool {
    if evaluation.dropped {
        // A restarted controller may find its row, and the cluster itself again. A creation without a response may still
        // be carried out when the cluster is back.
        let mut rows = cluster.written.iter().chain(&cluster.record);
        return cluster.slot_in_doubt || cluster.awaits_start() || rows.any(|row| row.phase.holds_slot());
    }
    let unknown = || {
        let steps = [Step::PreAction, Step::Platform, Step::Operators];
        let is_absent = |step: &Step| *cluster.step_work(*step) == StepWork::Absent;
        // Without a work that tells more, a step that the row says to be open may still run on the cluster.
        let is_open = || {
            let mut open = steps
                .iter()
                .filter_map(|step| evaluation.record.stage((*step).into()));
            steps.iter().all(is_absent) && open.any(|stage| stage.finished.is_none())
        };
        let may_run = || steps.iter().any(|step| cluster.step_work(*step).may_run());
        evaluation.record.unreadable && (may_run() || is_open())
    };
    // It was dropped and is back, and the hub may still have its row.
    let is_unreleased = cluster.record.is_none() && cluster.slot_in_doubt;
    // Its work may be one that was created after the cluster was registered anew, before anybody here knew of that.
    let is_queued = evaluation.record.phase.is_queued();
    evaluation.record.phase.holds_slot()
        || evaluation.releasing
        || (is_queued && cluster.unread_step().is_some())
        || is_unreleased
        || cluster.awaits_start()
        || unknown()
}
