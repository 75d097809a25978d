//! What users are promised of every plan: slots are free when nobody needs them, clusters start in their order, and each plan says when
//! the next one is due.

use chrono::{DateTime, TimeDelta, Utc};

use super::{Watch, busy, named};
use crate::model::{
    Busy, Cluster, ClusterState, Fleet, KnownApprovals, Phase, Plan, Policy, Reason, Step, StepWork,
};
use crate::planner::plan;

/// So far ahead is looked where a plan says that nothing is due.
const LOOK_AHEAD: TimeDelta = TimeDelta::hours(6);

/// True when a cluster holds no slot by anything that is known of it: it has ended or is queued, its row says so, nothing is in doubt, and
/// where it is queued no work of a step that takes a slot is there.
fn is_at_rest(cluster: &Cluster, state: &ClusterState) -> bool {
    let record = &state.record;
    let mut rows = [&cluster.record, &cluster.written].into_iter();
    let is_told = rows.all(|row| {
        row.as_deref()
            .is_some_and(|row| row.phase == record.phase && row.attempt == record.attempt)
    });
    let works = &cluster.works[..Step::PostAction.index()];
    let is_clear = !works.iter().any(StepWork::is_unclear);
    let is_quiet = cluster.busy.is_none() && !cluster.is_in_doubt() && !cluster.slot_in_doubt;
    let is_over = !record.phase.is_queued() || !works.iter().any(StepWork::is_kept);
    is_told && is_clear && is_quiet && is_over && !record.phase.holds_slot() && !record.unreadable
}

fn takes_slot(plan: &Plan, state: &ClusterState) -> bool {
    let mut operations = plan.operations.iter();
    state.starting
        && operations.any(|operation| *operation.cluster() == state.name && busy(operation) == Busy::Starting)
}

fn waits_for_slot(state: &ClusterState) -> bool {
    let record = &state.record;
    record.phase == Phase::Pending && record.reason == Reason::WaitingForSlot && !state.starting
}

impl Watch {
    /// No slot is held by a cluster that has ended, and no cluster waits for a slot while one is free.
    pub(super) fn watch_free_slots(&mut self, now: DateTime<Utc>, fleet: &Fleet, plan: &Plan) {
        let at_rest = plan.clusters.iter().filter(|state| {
            let cluster = named(fleet, &state.name);
            cluster.is_some_and(|cluster| is_at_rest(cluster, state))
        });
        let most = fleet.unreleased + fleet.clusters.len() - at_rest.count();
        let held = plan.summary.in_flight;
        if held > most {
            let text = format!("{held} slots held, but only {most} clusters may be under way");
            self.fault(now, &text);
        }
        let starts = plan.clusters.iter().filter(|state| takes_slot(plan, state));
        let taken = held + starts.count() + plan.ask_again.len();
        let limit = plan.summary.max_concurrency;
        let waiting = plan.clusters.iter().find(|state| waits_for_slot(state));
        if let Some(waiting) = waiting.filter(|_| taken < limit) {
            let text = format!("{} waits for a slot, {taken} of {limit} taken", waiting.name);
            self.fault(now, &text);
        }
    }

    /// Canaries start first, and then by name: no cluster waits for a slot that a later one gets.
    pub(super) fn watch_order(&mut self, now: DateTime<Utc>, fleet: &Fleet, plan: &Plan) {
        let place = |state: &&ClusterState| {
            let cluster = named(fleet, &state.name).filter(|cluster| !cluster.awaits_start())?;
            Some((!cluster.canary, state.name.clone()))
        };
        let states = || plan.clusters.iter();
        let waiting = states().filter(|state| waits_for_slot(state));
        let first = waiting.filter_map(|state| place(&state)).min();
        let starting = states().filter(|state| takes_slot(plan, state));
        let last = starting.filter_map(|state| place(&state)).max();
        if let Some((first, last)) = first.zip(last)
            && first < last
        {
            let text = format!("{} starts before {}", last.1, first.1);
            self.fault(now, &text);
        }
    }

    /// Somebody does something, or what was late arrives.
    pub(in crate::testing) fn something_happens(&mut self) {
        self.complete.clear();
    }

    /// What is complete stays so until something happens.
    pub(in crate::testing) fn watch_outlook(&mut self, index: usize, now: DateTime<Utc>, plan: &Plan) {
        let is_complete = plan.outlook.complete;
        let was_complete = self.complete.insert(index, is_complete).unwrap_or_default();
        if was_complete && !is_complete {
            self.fault(now, &format!("it was complete, and is {:?}", plan.outlook));
        }
    }

    /// Once all rows are written, time alone changes nothing until the time at which a plan says that it must be made again.
    pub(super) fn watch_sleep(&mut self, now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, rest: &Plan) {
        let due = rest.wake_at.unwrap_or(now + LOOK_AHEAD);
        let before = due - TimeDelta::seconds(1);
        let mut clusters = fleet.clusters.iter();
        let is_written = clusters.all(|cluster| cluster.written == cluster.record && cluster.busy.is_none());
        if before <= now || !is_written {
            return;
        }
        let late = plan(before, policy, fleet);
        let mut pairs = rest.clusters.iter().zip(&late.clusters);
        if let Some((one, two)) = pairs.find(|(one, two)| one.record != two.record) {
            let text = format!("no plan is due before {due}, but {one:?} becomes {two:?}");
            self.fault(now, &text);
        }
        let told = |plan: &Plan| {
            // What is not known at present stays as the status tells it.
            let are_known = policy.approvals == KnownApprovals::Current;
            let checkpoints = are_known.then_some(&plan.checkpoints);
            let done = (plan.outlook, plan.retry_done, plan.starts_stopped);
            format!(
                "{:?} {:?} {:?} {done:?} {:?} {checkpoints:?}",
                plan.operations, plan.dropped, plan.ask_again, plan.summary
            )
        };
        let (one, two) = (told(rest), told(&late));
        if one != two {
            let text = format!("no plan is due before {due}, but {one} becomes {two}");
            self.fault(now, &text);
        }
    }
}
