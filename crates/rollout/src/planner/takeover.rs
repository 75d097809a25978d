//! Works of a rival that gave way: which ones are deleted before a cluster is taken over
//! (`docs/design/rules.md#giving-way`).

use crate::model::{Cluster, DeleteReason, Operation, RivalHold, Step, StepWork};

/// Deletes actions and Jobs of a rival that gives way. Its platform work is taken over in place. A platform work of
/// the rival that we do not need is kept, because deleting it could damage an upgrade.
pub(crate) fn superseded(cluster: &Cluster, step: Step, starts: bool) -> Vec<Operation> {
    let yielding = cluster
        .rival
        .as_ref()
        .is_some_and(|rival| rival.hold == RivalHold::Yielding);
    let in_the_way =
        |other: &Step| matches!(cluster.step_work(*other), StepWork::Rival { terminating: false });
    Step::ALL
        .into_iter()
        .filter(|other| yielding && *other != Step::Platform && in_the_way(other))
        .filter(|other| starts || *other == step)
        .map(|other| Operation::delete(cluster, other, DeleteReason::Superseded))
        .collect()
}
