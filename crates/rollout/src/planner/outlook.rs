//! Counts of the whole fleet for the status (`docs/design/rules.md#counters`), and whether any cluster will move
//! without a human (`docs/design/rules.md#stalled`).

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::{
    ActionCounts, Cluster, ClusterState, FutureStarts, Hold, Outcome, Outlook, Phase, Policy, Reason, Record,
    RivalHold, Selection, Stage, StallReason, Step, StepWork, Summary,
};
use crate::planner::attempts::is_frozen;
use crate::planner::canaries::Canaries;
use crate::planner::checkpoints::has_begun;
use crate::planner::earliest;
use crate::planner::evidence::TOLERATED_LEAD;
use crate::planner::slots::Slots;
use crate::planner::windows::Openings;

/// True when a cluster does not start before somebody approves, also if it waits for something else as well, such as its window. One
/// that is over does not wait, whatever somebody has written into its row.
fn waits_for_approval(policy: &Policy, slots: &Slots, cluster: &Cluster, record: &Record) -> bool {
    let is_closed = || {
        let gate = slots.gate(policy, cluster.canary, has_begun(cluster, record));
        gate.is_some_and(|(reason, _)| reason == Reason::WaitingForApproval)
    };
    record.phase == Phase::Pending
        && (record.reason == Reason::WaitingForApproval
            || (cluster.selection == Selection::In && is_closed()))
}

/// True when a cluster is not left out any more, but its row still says so until it is known whether anything of it is under way.
/// Then it is queued.
pub(crate) fn is_to_be_queued(cluster: &Cluster, record: &Record) -> bool {
    record.phase.is_left_out() && cluster.left_out.is_none() && is_frozen(cluster, record)
}

pub(crate) fn summarize(
    policy: &Policy,
    slots: &Slots,
    openings: &Openings,
    fleet: &[(&Cluster, &ClusterState)],
) -> Summary {
    let mut summary = Summary {
        max_concurrency: slots.limit,
        in_flight: slots.held,
        ..Summary::default()
    };
    for (cluster, state) in fleet {
        let record = &state.record;
        summary.clusters.add(record.phase);
        summary.finished += usize::from(record.phase == Phase::Complete);
        if cluster.canary {
            summary.canaries.add(record.phase);
            let is_finished = record.phase == Phase::Complete;
            summary.finished_canaries += usize::from(is_finished);
            summary.left_out_canaries += usize::from(!is_finished && cluster.left_out.is_some());
        }
        summary.selected += usize::from(cluster.selection == Selection::In);
        summary.degraded += usize::from(record.phase == Phase::PreActionDegraded);
        summary.skipped += usize::from(record.phase == Phase::Skipped);
        summary.aborted += usize::from(record.phase == Phase::Aborted);
        summary.blocked += usize::from(record.phase == Phase::Blocked || is_stuck(cluster, record));
        let is_before = matches!(record.phase, Phase::Pending | Phase::PreAction);
        if is_before && record.reason == Reason::WaitingForWindow {
            summary.waiting_for_window += 1;
            summary.next_opening = earliest(summary.next_opening, openings.next_for(cluster));
        }
        summary.waiting_for_approval += usize::from(waits_for_approval(policy, slots, cluster, record));
        let applied = record.phase.is_started() || record.stages.iter().flatten().next().is_some();
        summary.applied += usize::from(applied);
        let degraded = record.phase == Phase::PreActionDegraded;
        count_action(&mut summary.pre_action, record, Stage::PreAction, degraded);
        let failed = record.phase == Phase::Failed
            && matches!(
                record.reason,
                Reason::PostActionFailed | Reason::PostActionTimeout
            );
        count_action(&mut summary.post_action, record, Stage::PostAction, failed);
    }
    summary
}

fn count_action(counts: &mut ActionCounts, record: &Record, stage: Stage, degraded: bool) {
    let Some(entry) = record.stage(stage) else { return };
    let available = entry.outcome == Some(Outcome::Succeeded);
    // What a cluster that is left out had begun does not go on.
    if record.phase.is_left_out() && !available {
        return;
    }
    counts.total += 1;
    counts.applied += usize::from(entry.applied.is_some() || available);
    counts.available += usize::from(available);
    counts.degraded += usize::from(degraded && !available);
    counts.progressing += usize::from(!degraded && !available);
}

/// The steps whose recorded starts are in the future (`docs/design/rules.md#trusted-clock`), and when that has changed.
pub(crate) fn future_starts(
    now: DateTime<Utc>,
    fleet: &[ClusterState],
) -> Option<(FutureStarts, DateTime<Utc>)> {
    let ahead = fleet.iter().filter_map(|state| {
        let stages = state.record.stages.iter().flatten();
        let open = stages.filter(|stage| stage.finished.is_none());
        let started = open.map(|stage| stage.started).max()?;
        let is_ahead = state.record.phase.is_at_work() && started > now + TOLERATED_LEAD;
        is_ahead.then_some((started, state))
    });
    let ahead: Vec<_> = ahead.collect();
    // The first by name of the latest ones.
    let (started, state) = ahead.iter().rev().max_by_key(|(started, _)| *started)?;
    let starts = FutureStarts {
        clusters: ahead.len(),
        example: Arc::clone(&state.name),
        started: *started,
    };
    Some((starts, *started - TOLERATED_LEAD))
}

pub(crate) fn outlook(
    policy: &Policy,
    slots: &Slots,
    summary: &Summary,
    fleet: &[(&Cluster, &ClusterState)],
) -> Outlook {
    let done = |cluster: &Cluster, state: &ClusterState| {
        let is_done = state.record.phase.is_done() && !is_to_be_queued(cluster, &state.record);
        is_done && state.record.attempt.revision == policy.revision
    };
    let complete = summary.selected > 0
        && fleet.iter().all(|(cluster, state)| {
            done(cluster, state)
                || (cluster.selection != Selection::In && state.record.phase == Phase::Complete)
        });
    let is_held_up = are_slots_stuck(slots, fleet);
    let moving = !complete && fleet.iter().any(|one| moves(policy, slots, is_held_up, *one));
    let stalled = match policy.hold {
        _ if complete || moving => None,
        // Somebody is asked, as with a pause.
        None if summary.waiting_for_approval > 0 => None,
        None => Some(stall(slots, summary, fleet)),
        // Unlike a pause, nobody has requested this.
        Some(Hold::Restored) => Some(StallReason::Restored),
        Some(Hold::Paused | Hold::InvalidSpec) => None,
    };
    Outlook {
        complete,
        moving,
        stalled,
        no_canary: slots.canaries == Canaries::Missing,
    }
}

/// True when every slot is held by a cluster that does not go on before a human permits its writes. What waits for a slot waits for
/// that human, too, unless the time of a step is over first.
fn are_slots_stuck(slots: &Slots, fleet: &[(&Cluster, &ClusterState)]) -> bool {
    let stuck = fleet
        .iter()
        .filter(|(cluster, state)| state.record.phase.holds_slot() && is_stuck(cluster, &state.record));
    stuck.count() >= slots.limit
}

/// True when the cluster continues, or will continue, without a human. `is_held_up`: no slot gets free without one.
fn moves(
    policy: &Policy,
    slots: &Slots,
    is_held_up: bool,
    (cluster, state): (&Cluster, &ClusterState),
) -> bool {
    if is_stuck(cluster, &state.record) {
        return false;
    }
    let phase = state.record.phase;
    // Whatever else is written for a cluster that is over cleans up after it.
    let is_over = matches!(
        phase,
        Phase::Complete | Phase::Failed | Phase::PreActionDegraded | Phase::Skipped | Phase::Aborted
    );
    let is_writing = cluster.busy.is_some() && !is_over;
    // A blocked cluster whose step is tried again has not moved yet.
    if phase != Phase::Blocked && (is_writing || cluster.awaits_start() || state.starting) {
        return true;
    }
    let gated = || {
        let gate = slots.gate(policy, cluster.canary, has_begun(cluster, &state.record));
        gate.is_some()
    };
    match phase {
        Phase::PreAction
        | Phase::Initialized
        | Phase::Partial
        | Phase::Workers
        | Phase::Operators
        | Phase::Soaking
        | Phase::PostAction => true,
        Phase::Pending => match state.record.reason {
            Reason::LeftSelection => true,
            Reason::WaitingForSlot if is_held_up => false,
            _ => !gated(),
        },
        Phase::Blocked => {
            state.record.reason == Reason::Conflict
                && !gated()
                && cluster
                    .rival
                    .as_ref()
                    .is_some_and(|rival| rival.hold == RivalHold::Active)
        }
        Phase::Skipped | Phase::Aborted => is_to_be_queued(cluster, &state.record),
        Phase::PreActionDegraded | Phase::Complete | Phase::Failed => false,
    }
}

/// True when a human is needed although the phase does not say so: the hub keeps forbidding the cluster's writes, or
/// its post-action is blocked, in which case an upgraded cluster keeps its phase.
fn is_stuck(cluster: &Cluster, record: &Record) -> bool {
    let backoff = cluster.backoff.as_ref();
    let is_forbidden = backoff.is_some_and(|backoff| backoff.is_stuck(record));
    let blocked = || {
        let slot = cluster.step_work(Step::PostAction);
        // After a restart only the record knows about a rejection.
        matches!(
            slot,
            StepWork::Foreign { .. } | StepWork::Refused { .. } | StepWork::Unreadable { .. }
        ) || record.reason == Reason::WorkRefused
    };
    is_forbidden || (record.phase == Phase::PostAction && blocked())
}

fn stall(slots: &Slots, summary: &Summary, fleet: &[(&Cluster, &ClusterState)]) -> StallReason {
    let canary_degraded = || {
        fleet
            .iter()
            .any(|(cluster, state)| cluster.canary && state.record.phase == Phase::PreActionDegraded)
    };
    if summary.selected == 0 || slots.canaries == Canaries::Missing {
        StallReason::NothingSelected
    } else if slots.canaries == Canaries::Failed
        || (slots.canaries == Canaries::Unfinished && canary_degraded())
    {
        StallReason::CanaryFailed
    } else if slots.breach {
        StallReason::MaxFailuresExceeded
    } else if summary.clusters.failed + summary.degraded > 0 {
        StallReason::ClustersFailed
    } else if summary.blocked > 0 {
        let is_without_window =
            |record: &Record| record.phase == Phase::Blocked && record.reason == Reason::NoWindow;
        let without_window = fleet.iter().filter(|(_, state)| is_without_window(&state.record));
        if without_window.count() == summary.blocked {
            StallReason::NoWindow
        } else {
            StallReason::ClustersBlocked
        }
    } else {
        StallReason::NothingSelected
    }
}
