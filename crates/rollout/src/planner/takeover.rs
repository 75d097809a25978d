//! Works of a rival that gave way: which ones are deleted before a cluster is taken over
//! (`docs/design/rules.md#giving-way`).

use crate::model::{Cluster, DeleteReason, Operation, RivalHold, Step, StepWork};

/// Deletes actions and Jobs of a rival that gives way. Its platform work is taken over in place. A platform work of
/// the rival that we do not need is kept, because deleting it could damage an upgrade.
pub(crate) fn superseded(cluster: &Cluster, step: Step, starts: bool) -> Vec<Operation> {
    let is_kept = |other: &Step| matches!(cluster.step_work(*other), StepWork::Rival { terminating: false });
    in_the_way(cluster, step, starts)
        .filter(is_kept)
        .map(|other| Operation::delete(cluster, other, DeleteReason::Superseded))
        .collect()
}

/// True when such works are there. Until the hub has answered, those that are to be deleted count as being deleted.
pub(crate) fn has_superseded(cluster: &Cluster, step: Step, starts: bool) -> bool {
    in_the_way(cluster, step, starts).next().is_some()
}

fn in_the_way(cluster: &Cluster, step: Step, starts: bool) -> impl Iterator<Item = Step> {
    let yielding = cluster
        .rival
        .as_ref()
        .is_some_and(|rival| rival.hold == RivalHold::Yielding);
    let is_there = move |other: Step| matches!(cluster.step_work(other), StepWork::Rival { .. });
    Step::ALL
        .into_iter()
        .filter(move |other| yielding && *other != Step::Platform && is_there(*other))
        .filter(move |other| starts || *other == step)
}
