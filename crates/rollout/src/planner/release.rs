//! Which clusters release their slots only when their rows say so (`docs/design/rules.md#release-row-first`).

use crate::model::{Cluster, Phase, Policy, Reason, Record, Step};
use crate::planner::{attempts, evidence};

/// True when the cluster released its slot for a reason that a restarted controller might not find again: a failure,
/// a blocker, or an edit. (A finished upgrade would be found finished again, as long as its work is there and shows that.)
pub(crate) fn is_releasing(cluster: &Cluster, record: &Record, policy: &Policy) -> bool {
    let has_lost_end = || evidence::has_lost_end(cluster, record, policy, attempts::shows_a_start(cluster));
    let gave_slot_back = match record.phase {
        Phase::PreActionDegraded => true,
        // One that failed after its update had ended may have given its slot back in the same plan.
        Phase::Failed => {
            let ends_step = matches!(
                record.reason,
                Reason::ClusterUpgradeTimeout
                    | Reason::WorkerPoolsTimeout
                    | Reason::OperatorsUpgradeTimeout
                    | Reason::OperatorsJobFailed
                    | Reason::LeftSelection
            );
            ends_step || has_lost_end()
        }
        // The hub may hold a later row than the one that is known to be written, if the response to its write was lost.
        Phase::Blocked => {
            attempts::is_under_way(cluster, record)
                || evidence::work_with_evidence(cluster, record, Step::PreAction).is_some()
        }
        Phase::Soaking | Phase::PostAction | Phase::Complete => has_lost_end(),
        _ => false,
    };
    let queued = record.phase.is_queued();
    match cluster.written.as_deref() {
        // A restarted controller would find no row, and by its works the cluster in flight. Or it would find the row that is in
        // doubt. Both are of an earlier attempt if an edit came since: it may be taken back.
        None => {
            let held = cluster.slot_in_doubt || attempts::shows_a_start(cluster);
            let edited = !attempts::is_announced(cluster, record) && !record.phase.holds_slot();
            gave_slot_back || (held && (queued || edited))
        }
        // A row that says that the cluster is queued may be from before its start. Example: its pre-action has ended, its window has
        // closed, and the leader that started it has written neither.
        Some(written) if written.attempt == record.attempt => {
            let gave_back = gave_slot_back || (queued && attempts::shows_a_start(cluster));
            (gave_back && !tells_release(cluster, written, record))
                || (queued && (cluster.slot_in_doubt || written.phase.holds_slot()))
        }
        // The written record is of another attempt. Example: the cluster was queued for a new revision, then left the
        // selection, and fell back to its earlier attempt. If it never started in the written one, a restarted controller
        // finds the same.
        Some(written) => {
            let held = cluster.slot_in_doubt || written.phase.holds_slot();
            (gave_slot_back && attempts::may_be_found_in_flight(cluster, written))
                || (held && !record.phase.holds_slot())
                || (queued && attempts::shows_a_start(cluster))
        }
    }
}

/// True when a written record says how the cluster released its slot. One that was blocked, queued or left out before tells nothing
/// of a step that has ended since: a restarted controller would find that step's work and the cluster in flight. It would not if
/// the pre-action was degraded, and no later step has begun.
fn tells_release(cluster: &Cluster, written: &Record, record: &Record) -> bool {
    let outcomes = |record: &Record| record.stages.map(|stage| stage.and_then(|stage| stage.outcome));
    let tells = match record.phase {
        Phase::Blocked | Phase::Pending => match written.phase {
            Phase::Blocked | Phase::Pending => outcomes(written) == outcomes(record),
            Phase::PreActionDegraded => !attempts::shows_a_start(cluster),
            _ => false,
        },
        phase => written.phase == phase && (!phase.is_left_out() || outcomes(written) == outcomes(record)),
    };
    tells && written.is_same_run(record)
}
