//! What the works of a cluster tell, and how far their times are believed.

use chrono::TimeDelta;

use crate::model::{Cluster, Step, StepStatus, StepWork, Work};

/// How far in the future the start of a step may be without being changed or told. The clocks of two leaders that are
/// trusted differ by less, and so do two readings of one that is not.
pub(crate) const TOLERATED_LEAD: TimeDelta = TimeDelta::minutes(1);

/// The work of a step, if it exists or had succeeded before it was deleted.
pub(super) fn telling(cluster: &Cluster, step: Step) -> Option<&Work> {
    match cluster.step_work(step) {
        StepWork::Ours(work) if work.status == StepStatus::Succeeded => Some(work),
        slot => slot.ours(),
    }
}
