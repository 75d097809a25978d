//! One pass over one upgrade: resolve → observe → plan → check → commit (`docs/design/overview.md`).
//!
//! The state is locked to resolve and observe, and again to commit, but not while planning. Only this loop plans, so a plan
//! can be outdated by an event but never by another plan. Its writes are safe even then, because works have fixed names and
//! each write names the UID of the object that it is meant for.

pub(crate) mod commit;
pub mod finalizer;
pub(crate) mod jobs;
mod request;
mod resolve;
pub mod restore;
pub mod result;

use std::time::Instant;

use observe::fleet::Observation;
use rollout::{Fleet, Plan};

use crate::events::Publisher;
use crate::reconcile::commit::{Checked, CommitResult};
use crate::reconcile::jobs::{report_job, status_job};
use crate::reconcile::request::{ReconcileRequest, Task};
use crate::report::announce;
use crate::state::context::{Context, State};
use crate::state::observed;

/// One pass over an upgrade.
pub fn reconcile(context: &Context, events: &Publisher, uid: &str) {
    let started = Instant::now();
    let read = context.with(|state| {
        let request = resolve::resolve(context, state, uid)?;
        let observation = observe(state, uid, &request);
        Some((request, observation))
    });
    let Some((request, observation)) = read else {
        return;
    };
    let plan = plan(context, &request, &observation.fleet);
    let checked = plan.map(|plan| check(context, &request, &observation.fleet, plan));
    let result = context.with(|state| commit::commit(state, uid, &request, &observation, checked, started));
    publish(context, events, result);
}

/// The upgrade's view of the hub. Reads the locked state and changes nothing.
fn observe(state: &State, uid: &str, request: &ReconcileRequest) -> Observation {
    let (Task::Plan(wanted), Some(entry)) = (&request.task, state.upgrades.get(uid)) else {
        return Observation::default();
    };
    let allow_hub = state.settings.allow_hub;
    observed::observe(
        entry,
        &state.upgrades,
        &state.index,
        &wanted.clusters_with_works,
        allow_hub,
        request.now,
    )
}

/// Plans what to write next, with a reason for each cluster that does not move. `None` if the task needs no
/// plan. Pure, except that it measures its duration.
fn plan(context: &Context, request: &ReconcileRequest, fleet: &Fleet) -> Option<Plan> {
    let Task::Plan(wanted) = &request.task else {
        return None;
    };
    let started = Instant::now();
    let plan = rollout::plan(request.now, &wanted.policy, fleet);
    context.metrics.planned(started.elapsed());
    Some(plan)
}

/// Checks the plan against the safety rules. Pure.
fn check(context: &Context, request: &ReconcileRequest, fleet: &Fleet, plan: Plan) -> Checked {
    let Task::Plan(wanted) = &request.task else {
        return Checked::Passed(Box::new(plan));
    };
    let violations = rollout::check::check(request.now, &wanted.policy, fleet, &plan);
    if violations.is_empty() {
        return Checked::Passed(Box::new(plan));
    }
    context.metrics.check_violated();
    tracing::error!(
        upgrade = &*wanted.key,
        ?violations,
        "internal error: the plan violates a safety rule, so none of it is carried out"
    );
    Checked::Refused(violations)
}

/// Queues the writes and publishes the Events of a pass.
fn publish(context: &Context, events: &Publisher, result: CommitResult) {
    if let Some(outcome) = result.outcome {
        context.metrics.reconciled(outcome);
    }
    if let Some(regarding) = &result.regarding {
        for (reason, note) in result.events {
            events.upgrade(regarding, reason, note);
        }
        for (cluster, record, resolves_itself) in &result.moved {
            if let Some((reason, note)) = announce::of_record(cluster, record, *resolves_itself) {
                events.cluster(regarding, cluster, reason, note);
            }
        }
    }
    context.queue.push(result.jobs);
}

/// Queues the report shards and statuses that are due, of every upgrade.
pub fn flush(context: &Context, now: Instant) {
    let jobs = context.with(|state| {
        let mut jobs = Vec::new();
        let State {
            upgrades, settings, ..
        } = state;
        for entry in upgrades
            .values_mut()
            .filter(|entry| settings.serves(&entry.namespace))
        {
            if !entry.is_deleting() {
                let due = entry.rows.due(now);
                jobs.extend(due.into_iter().map(|due| report_job(entry, due)));
            }
            if !finalizer::is_over(entry)
                && let Some(status) = entry.status.due(now)
            {
                jobs.push(status_job(entry, status));
            }
        }
        jobs
    });
    context.queue.push(jobs);
}

#[cfg(test)]
mod tests;
