//! The plan: what to write next, the state of every cluster, and when to plan again.

mod attempts;
mod canaries;
mod checkpoints;
mod cluster;
mod downgrade;
mod earlier_update;
mod evidence;
mod fall_back;
mod held;
mod left_out;
mod outlook;
mod preflight;
mod release;
mod slots;
mod soak_notes;
mod start;
mod steps;
mod takeover;
mod windows;
mod withdrawal;
mod wording;

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{
    Cluster, ClusterBackoff, ClusterState, DeleteReason, Fleet, Operation, Phase, Plan, PlanHash, Policy,
    Reason, Record, Selection, Step,
};
use crate::planner::attempts::is_announced;
use crate::planner::cluster::{Evaluation, NextStep, evaluate};
use crate::planner::left_out::lacks_reason_of_removal;
use crate::planner::slots::{Slots, is_repeat};
use crate::planner::takeover::{has_superseded, superseded};
use crate::planner::windows::Openings;

pub use attempts::LEAVE_DEBOUNCE;
pub use downgrade::{is_newer, is_version};
pub use evidence::TOLERATED_LEAD;
pub use windows::ASKED_AHEAD;
pub use wording::duration;

/// Plans the next writes. The same input gives the same plan.
pub fn plan(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet) -> Plan {
    if policy.deleting {
        return delete_all(now, fleet);
    }
    let openings = Openings::new(now, policy, &fleet.calendars);
    let mut evaluation = evaluate_all(now, policy, fleet, &openings);
    let mut plan = Plan::default();
    for (cluster, state) in &mut evaluation {
        hold_back(cluster, state, now);
        plan.wake_at = earliest(plan.wake_at, state.wake);
    }
    let mut slots = Slots::new(now, policy, &evaluation, (&fleet.approvals, fleet.unreleased));
    plan.wake_at = earliest(plan.wake_at, slots.checkpoints.expires);
    plan.hash = slots.checkpoints.hash.take();
    let granted = slots.grant(policy, &mut evaluation);
    let started = act(&mut plan, now, &mut evaluation, &granted.starts);
    plan.ask_again = granted.to_ask;
    // What is shut for a canary that counts for the checkpoints already is shut for everybody.
    plan.starts_stopped = slots.gate(policy, true, true).is_some();
    // These hold their slots already.
    let again = evaluation
        .iter()
        .filter(|(_, state)| state.stale && !state.opens_soon && state.next == NextStep::Nothing);
    let again = again.filter(|(_, state)| !state.held_back && !state.dropped);
    plan.ask_again
        .extend(again.map(|(cluster, _)| Arc::clone(&cluster.name)));
    let mut kept = Vec::with_capacity(evaluation.len());
    for (index, (cluster, state)) in evaluation.into_iter().enumerate() {
        if state.dropped {
            if held::holds(cluster, &state) {
                // Only when this plan is adopted is it known whether the hub has a row to be removed first.
                plan.wake_at = earliest(plan.wake_at, Some(now + TimeDelta::seconds(1)));
            }
            if cluster.record.is_some() || cluster.written.is_some() {
                plan.dropped.push(Arc::clone(&cluster.name));
            }
            continue;
        }
        plan.clusters
            .push(conclude(cluster, state, started.contains(&index)));
        kept.push(cluster);
    }
    let states: Vec<(&Cluster, &ClusterState)> = kept.into_iter().zip(&plan.clusters).collect();
    plan.summary = outlook::summarize(policy, &slots, &openings, &states);
    plan.outlook = outlook::outlook(policy, &slots, &plan.summary, &states);
    let is_over = !states
        .iter()
        .any(|(cluster, state)| may_start(cluster, &state.record));
    plan.checkpoints = std::mem::take(&mut slots.checkpoints).states(is_over);
    let until = states
        .iter()
        .filter_map(|(cluster, state)| is_waited_for_until(now, policy, cluster, &state.record))
        .min();
    plan.wake_at = earliest(plan.wake_at, until);
    plan.retry_done = policy.retry.is_some()
        && until.is_none()
        && states
            .iter()
            .all(|(cluster, state)| is_retry_written(policy, cluster, &state.record));
    let is_stalled = policy.hold.is_none() && plan.outlook.stalled.is_some() && slots.held == 0;
    let cleanups = clean_up_actions(now, &states, is_stalled);
    plan.operations.extend(cleanups);
    if let Some((starts, until)) = outlook::future_starts(now, &plan.clusters) {
        plan.future_starts = Some(starts);
        plan.wake_at = earliest(plan.wake_at, Some(until));
    }
    plan
}

/// The hash by which approvals name the present plan (`docs/design/approvals.md#the-hash`). For an upgrade with checkpoints it is that of
/// [`plan`]; an upgrade without them has one, too, and only those who ask for it learn it.
#[must_use]
pub fn hash_of_plan(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet) -> PlanHash {
    let openings = Openings::new(now, policy, &fleet.calendars);
    checkpoints::plan_hash(now, policy, &evaluate_all(now, policy, fleet, &openings))
}

fn evaluate_all<'a>(
    now: DateTime<Utc>,
    policy: &Policy,
    fleet: &'a Fleet,
    openings: &Openings,
) -> Vec<(&'a Cluster, Evaluation)> {
    let clusters = fleet.clusters.iter();
    clusters
        .map(|cluster| (cluster, evaluate(cluster, openings.of(cluster), policy, now)))
        .collect()
}

fn delete_all(now: DateTime<Utc>, fleet: &Fleet) -> Plan {
    let mut plan = Plan::default();
    for cluster in &fleet.clusters {
        plan.wake_at = earliest(plan.wake_at, backoff(cluster, now));
        if !is_free(cluster, now) {
            continue;
        }
        for step in Step::ALL {
            if cluster.step_work(step).is_kept() {
                plan.operations
                    .push(Operation::delete(cluster, step, DeleteReason::UpgradeDeleted));
            }
        }
        // A creation whose outcome is unknown must be settled first: its work would belong to nobody once the upgrade
        // is gone.
        plan.operations
            .extend(cluster.unsettled.map(|step| read(cluster, step)));
    }
    plan
}

/// Prevents writes for a cluster while another one is in progress or has just failed, or until its new attempt is
/// announced by its record.
fn hold_back(cluster: &Cluster, state: &mut Evaluation, now: DateTime<Utc>) {
    if let Some(backoff) = &cluster.backoff
        && now < backoff.until
    {
        state.wake = earliest(state.wake, Some(backoff.until));
        // A rejection stays the reason even if the next try failed for another cause.
        if state.next != NextStep::Nothing && state.record.reason != Reason::WorkRefused {
            explain_failure(cluster, state, backoff);
        }
    }
    if !is_free(cluster, now) {
        state.cleanups.clear();
        state.mark_soak = None;
        state.withdraws = false;
    }
    state.held_back = !is_free(cluster, now) || !is_announced(cluster, &state.record);
}

fn explain_failure(cluster: &Cluster, state: &mut Evaluation, backoff: &ClusterBackoff) {
    let text = format!("A write to the hub failed: {}", backoff.error);
    let reason = if waits_for_deletion(cluster, state, backoff) {
        Reason::WaitingForCleanup
    } else {
        Reason::WriteFailed
    };
    state.explain(reason, &text);
}

/// True when the hub keeps forbidding the deletion of what a previous upgrade has left in the way of the next step.
fn waits_for_deletion(cluster: &Cluster, state: &Evaluation, backoff: &ClusterBackoff) -> bool {
    let is_in_the_way = match state.next {
        NextStep::Start(step) => has_superseded(cluster, step, true),
        NextStep::Advance(step, _) => has_superseded(cluster, step, false),
        NextStep::Nothing => false,
    };
    backoff.deletion_lasting && is_in_the_way
}

/// Keeps the error as the reason while a step is tried again that the hub keeps forbidding, because nothing has changed until a try
/// succeeds. The same holds for the deletion that it waits for.
fn keep_failure(cluster: &Cluster, state: &mut Evaluation, starting: bool) {
    let is_tried = match state.next {
        NextStep::Start(_) => starting || cluster.busy.is_some(),
        NextStep::Advance(..) => true,
        NextStep::Nothing => false,
    };
    let has_other = !matches!(state.record.reason, Reason::None | Reason::Running);
    let backoff = cluster.backoff.as_ref();
    let lasting = backoff.filter(|backoff| backoff.lasting || waits_for_deletion(cluster, state, backoff));
    if let Some(backoff) = lasting.filter(|_| is_tried && !has_other) {
        explain_failure(cluster, state, backoff);
    }
}

/// The end of a cluster's backoff, if it is in the future.
fn backoff(cluster: &Cluster, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    cluster
        .backoff
        .as_ref()
        .map(|backoff| backoff.until)
        .filter(|until| now < *until)
}

/// True when the plan may write for the cluster: no write is in progress and none has just failed.
fn is_free(cluster: &Cluster, now: DateTime<Utc>) -> bool {
    cluster.busy.is_none() && backoff(cluster, now).is_none()
}

/// When a failed cluster that the retry concerns counts as gone, if it has been missing from the selection for a moment only. If the
/// retry counted as carried out before that, the cluster would not be retried when it is back.
fn is_waited_for_until(
    now: DateTime<Utc>,
    policy: &Policy,
    cluster: &Cluster,
    record: &Record,
) -> Option<DateTime<Utc>> {
    let retry = policy.retry.as_ref()?;
    let Selection::Left(since) = cluster.selection else {
        return None;
    };
    let until = since + LEAVE_DEBOUNCE;
    let before = cluster.record.as_deref()?;
    let failed = before.phase.has_failed();
    // While a cluster is leaving, its record may tell another reason than before.
    let is_concerned = retry.concerns(&cluster.name, before) || retry.concerns(&cluster.name, record);
    let is_due = failed && before.attempt == record.attempt && !retry.has_caused(&record.attempt);
    (now < until && is_due && is_concerned).then_some(until)
}

/// True when no crash can lose the cluster's part of the retry, because its new attempt is written. A cluster that was shown as
/// degraded and is found to have failed since gets its new attempt in the next plan.
fn is_retry_written(policy: &Policy, cluster: &Cluster, record: &Record) -> bool {
    let written = || {
        cluster
            .written
            .as_deref()
            .is_some_and(|written| written.attempt == record.attempt)
    };
    let Some(retry) = &policy.retry else {
        return true;
    };
    let is_due = || {
        let before = cluster.record.as_deref();
        cluster.selection == Selection::In
            && cluster.left_out.is_none()
            && record.phase == Phase::Failed
            && !retry.has_caused(&record.attempt)
            && retry.concerns(&cluster.name, record)
            && before.is_some_and(|before| before.phase == Phase::PreActionDegraded)
    };
    (retry.token != record.attempt.retry || written()) && !is_due()
}

/// Adds the writes. Returns the indexes of the clusters that start.
fn act(
    plan: &mut Plan,
    now: DateTime<Utc>,
    evaluation: &mut [(&Cluster, Evaluation)],
    granted: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut started = BTreeSet::new();
    for (index, (cluster, state)) in evaluation.iter_mut().enumerate() {
        let next = match state.next {
            NextStep::Start(step) if granted.contains(&index) => Some((step, now, true)),
            NextStep::Advance(step, clock) if !state.held_back && may_advance(cluster, state) => {
                Some((step, clock, false))
            }
            _ => None,
        };
        // The result of the next write also shows whether the earlier one was carried out. If that write must wait,
        // the work is read instead.
        let to_read = state.read.or(cluster.unsettled.filter(|_| next.is_none()));
        if let Some(step) = to_read.filter(|_| is_free(cluster, now)) {
            plan.operations.push(read(cluster, step));
        }
        if let Some((step, clock, starts)) = next {
            let blockers = superseded(cluster, step, starts);
            if blockers.is_empty() {
                plan.operations.push(state.operation(cluster, step, clock));
                if starts {
                    started.insert(index);
                }
            } else if state.record.phase != Phase::Blocked {
                state.explain(
                    Reason::WaitingForCleanup,
                    "ManifestWorks of the previous upgrade are being removed",
                );
            }
            plan.operations.extend(blockers);
        }
        if state.withdraws {
            plan.operations.push(Operation::Withdraw {
                cluster: Arc::clone(&cluster.name),
            });
        }
        if let Some((step, started)) = state.mark_soak {
            plan.operations.push(Operation::MarkSoak {
                cluster: Arc::clone(&cluster.name),
                step,
                started,
            });
        }
        plan.operations.extend(
            state
                .cleanups
                .iter()
                .map(|(step, why)| Operation::delete(cluster, *step, *why)),
        );
    }
    started
}

/// Deletes the works of actions once every cluster is complete and the written records say so, or those of complete clusters once the
/// upgrade is Stalled with nothing in flight (`docs/design/rules.md#action-clean-up`).
fn clean_up_actions(
    now: DateTime<Utc>,
    states: &[(&Cluster, &ClusterState)],
    is_stalled: bool,
) -> Vec<Operation> {
    let is_in = |cluster: &Cluster, state: &ClusterState, allowed: &[Phase]| {
        allowed.contains(&state.record.phase)
            && !outlook::is_to_be_queued(cluster, &state.record)
            && cluster
                .written
                .as_deref()
                .is_some_and(|written| allowed.contains(&written.phase) && written.is_same_run(&state.record))
    };
    let all = |allowed: &[Phase]| {
        !states.is_empty()
            && states
                .iter()
                .all(|(cluster, state)| is_in(cluster, state, allowed))
    };
    let mut operations = Vec::new();
    let done = [
        (
            Step::PreAction,
            all(&[Phase::Complete, Phase::PostAction, Phase::Skipped, Phase::Aborted]),
        ),
        (
            Step::PostAction,
            all(&[Phase::Complete, Phase::Skipped, Phase::Aborted]),
        ),
    ];
    for (step, all_done) in done {
        for (cluster, state) in states {
            let why = if all_done {
                DeleteReason::AllComplete
            } else if is_stalled && is_in(cluster, state, &[Phase::Complete]) {
                DeleteReason::OthersStalled
            } else {
                continue;
            };
            // Before Complete, an action that did not succeed is removed as a leftover.
            let served = state.record.phase.is_done() || state.record.succeeded(step.into());
            let may_go = served && is_free(cluster, now) && !cluster.may_come_back(step);
            if may_go && cluster.step_work(step).ours().is_some() {
                operations.push(Operation::delete(cluster, step, why));
            }
        }
    }
    operations
}

/// True for a cluster that has not started and is not left out.
fn may_start(cluster: &Cluster, record: &Record) -> bool {
    matches!(record.phase, Phase::Pending | Phase::Blocked) || outlook::is_to_be_queued(cluster, record)
}

fn conclude(cluster: &Cluster, mut state: Evaluation, starting: bool) -> ClusterState {
    if !state.reason_is_current {
        state.explain(Reason::None, "");
    }
    keep_failure(cluster, &mut state, starting);
    let is_awaited = lacks_reason_of_removal(cluster.written.as_deref(), &state.record);
    let urgent = state.releasing || is_awaited || !is_announced(cluster, &state.record);
    let record = match &cluster.record {
        Some(before) if Arc::ptr_eq(before, &state.record) || *before == state.record => Arc::clone(before),
        _ => state.record,
    };
    ClusterState {
        name: Arc::clone(&cluster.name),
        record,
        urgent,
        starting,
    }
}

/// False when the outcome of another write must be known first.
fn may_advance(cluster: &Cluster, state: &Evaluation) -> bool {
    cluster.unsettled.is_none() || is_repeat(cluster, state)
}

fn read(cluster: &Cluster, step: Step) -> Operation {
    Operation::Read {
        cluster: Arc::clone(&cluster.name),
        step,
    }
}

fn earliest(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
