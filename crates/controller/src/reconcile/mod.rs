//! One pass over one upgrade (`docs/design/overview.md#one-way-through`):
//!
//! ```text
//! watch → index → resolve → observe → plan → check → commit → apply → record result
//!                 locking   locking   pure   pure    locking
//! ```
//!
//! The watches fill the index ([`crate::watch`]). When they deliver an upgrade, its spec is resolved at once
//! ([`resolve::spec::resolve_spec`]) and kept in its entry. [`reconcile`] is the part from resolve to commit. Its first step
//! refreshes what a pass needs (whether the finalizer is set, where a restored object comes from, the selection) and takes
//! the resolved spec or its violations. Commit changes the state: it records the plan, drafts the status, marks the works
//! that are to be deleted, and returns the other results, which `publish` passes on after the lock is released: writes to
//! the queue and Events to their sender. Report shards are written less often: [`flush`] queues them when they are due, and
//! statuses that were not due yet. Writers apply what is queued ([`crate::apply`]) and record each result ([`result`]).
//!
//! The state is locked to resolve and observe, and again to commit, but not while planning. Only this loop plans, so a plan
//! can be outdated by an event but never by another plan. Its writes are safe even then, because works have fixed names and
//! each write names the UID of the object that it is meant for.

pub(crate) mod commit;
pub mod finalizer;
pub(crate) mod jobs;
mod probes;
mod request;
mod resolve;
pub mod restore;
pub mod result;
pub mod storage;

use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use rollout::{Plan, Policy};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::events::{EventReason, Publisher};
use crate::reconcile::commit::{CommitResult, commit};
use crate::reconcile::jobs::{report_job, status_job};
use crate::reconcile::request::{Checked, Observed, PlanRequest, Planned, ReconcileRequest};
use crate::reconcile::resolve::resolve;
use crate::report::estimate::{self, Estimated};
use crate::report::notable;
use crate::state::context::{Context, State};
use crate::state::observed;
use crate::state::upgrade::UpgradeEntry;

/// One pass over one upgrade. A request that needs no plan goes from resolve to commit.
pub fn reconcile(context: &Context, events: &Publisher, uid: &str) {
    let started = clock::now();
    let observed = context.with(|state| {
        let request = resolve(context, state, uid)?; // locking
        let (entry, now) = (state.upgrades.get(uid)?, request.now);
        let observed = request.map_plan(|wanted| observe(state, entry, wanted, now)); // locking, changes nothing
        Some((observed, context.freshness.invalidated()))
    });
    let Some((observed, invalidated)) = observed else {
        return;
    };
    let now = observed.now;
    let planned = observed.map_plan(|observed| plan(context, observed, now)); // pure
    let checked = planned.map_plan(|planned| check(context, planned, now)); // pure
    let result = commit_known(context, (uid, &invalidated), checked, started); // locking
    publish(context, events, result);
}

/// Commits a pass, unless everything that it has observed was discarded since, because the hub's storage is older. An upgrade that is
/// listed anew may look the same, and nothing of the plan is true of it.
fn commit_known(
    context: &Context,
    (uid, invalidated): (&str, &CancellationToken),
    checked: ReconcileRequest<Checked>,
    started: Instant,
) -> CommitResult {
    context.with(|state| {
        if invalidated.is_cancelled() {
            return CommitResult::default();
        }
        commit(state, uid, checked, started)
    })
}

/// Puts the fleet together from the index and the entry of the upgrade.
fn observe(state: &State, entry: &UpgradeEntry, wanted: Box<PlanRequest>, now: DateTime<Utc>) -> Observed {
    let observation = observed::observe(
        entry,
        &state.upgrades,
        &state.index,
        &wanted.clusters_with_works,
        state.settings.allow_hub,
        now,
    );
    let clusters = observation.fleet.clusters.iter();
    let profiles = is_estimate_due(entry, &wanted.policy, now).then(|| {
        clusters
            .map(|cluster| observe::profile::of(&state.index, &cluster.name))
            .collect()
    });
    Observed {
        wanted,
        observation,
        profiles,
    }
}

/// True when the end of an upgrade is to be estimated: at first, when its spec has changed, and then from time to time.
fn is_estimate_due(entry: &UpgradeEntry, policy: &Policy, now: DateTime<Utc>) -> bool {
    let last = entry.estimated.as_ref();
    policy.hold.is_none()
        && !policy.deleting
        && last.is_none_or(|(at, revision)| {
            *revision != policy.revision || now >= *at + estimate::INTERVAL || now < *at
        })
}

/// Plans what to write next, with a reason for each cluster that does not move. Pure; the context only counts.
fn plan(context: &Context, observed: Observed, now: DateTime<Utc>) -> Planned {
    let started = clock::now();
    let plan = rollout::plan(now, &observed.wanted.policy, &observed.observation.fleet);
    context.metrics.planned(clock::since(started));
    let estimated = estimated(&observed, &plan, now);
    let longest = longest(&observed, now);
    Planned {
        observed,
        plan,
        estimated,
        longest,
    }
}

/// Estimates the end of the upgrade if that is due. One that is held has none.
fn estimated(observed: &Observed, plan: &Plan, now: DateTime<Utc>) -> Estimated {
    let (policy, fleet) = (&observed.wanted.policy, &observed.observation.fleet);
    if !estimate::has_end(policy, plan) {
        return Estimated::As(None);
    }
    let profiles = observed.profiles.as_ref();
    profiles.map_or(Estimated::Not, |profiles| {
        Estimated::As(estimate::estimate(now, policy, fleet, plan, profiles))
    })
}

/// Estimates how long the slowest cluster takes that has not started, if that is due and the maintenance windows depend on it.
fn longest(observed: &Observed, now: DateTime<Utc>) -> Option<TimeDelta> {
    observed.wanted.spec.as_ref()?.estimated_minimum()?;
    let profiles = observed.profiles.as_ref()?;
    estimate::longest(
        now,
        &observed.wanted.policy,
        &observed.observation.fleet,
        profiles,
    )
}

/// Checks the plan against the safety rules, which are stated apart from the planner. Pure; the context only counts.
fn check(context: &Context, planned: Planned, now: DateTime<Utc>) -> Checked {
    let Planned {
        observed,
        plan,
        estimated,
        longest,
    } = planned;
    let wanted = &observed.wanted;
    let violations = rollout::check::check(now, &wanted.policy, &observed.observation.fleet, &plan);
    let result = if violations.is_empty() {
        Ok(plan)
    } else {
        context.metrics.check_violated();
        tracing::error!(
            upgrade = &*wanted.key,
            ?violations,
            "internal error: the plan violates a safety rule, so none of it is carried out"
        );
        Err(violations)
    };
    Checked {
        observed,
        result,
        estimated,
        longest,
    }
}

/// Queues the writes and publishes the Events that commit returned.
fn publish(context: &Context, events: &Publisher, result: CommitResult) {
    if let Some(outcome) = result.outcome {
        context.metrics.reconciled(outcome);
    }
    if let Some(regarding) = &result.regarding {
        let mut of_clusters = Vec::new();
        for (change, resolves_itself) in &result.phase_changes {
            context
                .metrics
                .phase_changed(change.before.as_deref(), &change.record);
            context.phase_log.log(regarding, change, clock::now());
            let told = notable::of_change(change, *resolves_itself);
            of_clusters.extend(told.map(|(reason, note)| (&*change.cluster, reason, note)));
        }
        // What clusters bring about is told after them, and before those that start because of it.
        let of_upgrade = result.events.into_iter();
        let (after, before): (Vec<_>, Vec<_>) = of_upgrade.partition(|(reason, _)| reason.follows_clusters());
        let (starts, ends): (Vec<_>, Vec<_>) = of_clusters
            .into_iter()
            .partition(|(_, reason, _)| *reason == EventReason::ClusterStarted);
        for (told, clusters) in [(before, ends), (after, starts)] {
            for (reason, note) in told {
                events.upgrade(regarding, reason, note);
            }
            for (cluster, reason, note) in clusters {
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
            if entry.takes_rows() {
                let refused = entry.rows.refused_count();
                let due = entry.rows.due(now);
                // What is rejected of a report that is gone matters no more, and no write follows that would tell.
                entry.dirty |= due.is_empty() && entry.rows.refused_count() < refused;
                jobs.extend(due.into_iter().map(|due| report_job(entry, due)));
            }
            if entry.takes_status()
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
