//! How far the canaries are, for which the other clusters wait (`docs/design/rules.md#canary-gate`).

use crate::model::{Cluster, Phase, Policy, Selection};
use crate::planner::cluster::Evaluation;

/// The progress of the canaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canaries {
    /// Every canary is complete, or none is requested.
    Done,
    /// Some canaries are not complete yet.
    Unfinished,
    /// At least one canary failed.
    Failed,
    /// Canaries are requested and no cluster is one.
    Missing,
}

impl Canaries {
    pub(crate) fn of(policy: &Policy, fleet: &[(&Cluster, Evaluation)]) -> Canaries {
        let counted = || fleet.iter().filter(|(_, evaluation)| !evaluation.dropped);
        let chosen = || counted().filter(|(cluster, _)| cluster.canary);
        // A canary that left the selection does not get a new revision, so it does not count for that revision.
        let canaries = || {
            chosen().filter(|(cluster, evaluation)| {
                cluster.left_out.is_none()
                    && (cluster.selection == Selection::In
                        || evaluation.record.attempt.revision == policy.revision)
            })
        };
        let are_left_out =
            chosen().any(|(cluster, _)| cluster.left_out.is_some()) && canaries().next().is_none();
        let finished = |evaluation: &Evaluation| {
            evaluation.record.phase == Phase::Complete
                && evaluation.record.attempt.revision == policy.revision
        };
        if !policy.canaries || are_left_out {
            Canaries::Done
        } else if canaries().next().is_none() {
            Canaries::Missing
        } else if canaries().any(|(_, evaluation)| evaluation.record.phase == Phase::Failed) {
            Canaries::Failed
        } else if canaries().all(|(_, evaluation)| finished(evaluation)) {
            Canaries::Done
        } else {
            Canaries::Unfinished
        }
    }
}
