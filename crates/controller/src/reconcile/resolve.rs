//! Resolves what a pass has to do: plan by the spec in force and its policy, or why nothing is planned. Before that it
//! refreshes the entry: whether the finalizer is set, where a restored object comes from, the selection. The spec itself
//! was resolved when the watch delivered it ([`resolve::spec::resolve_spec`]). Writes nothing, queues nothing and drafts no
//! status.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use observe::selection::Selected;
use resolve::origin::Origin;
use resolve::retry;
use rollout::{Hold, KnownApprovals, Policy};

use crate::clock;
use crate::reconcile::finalizer::{self, FinalizerStep};
use crate::reconcile::probes;
use crate::reconcile::request::{PlanRequest, ReconcileRequest, Task};
use crate::reconcile::restore;
use crate::state::context::{Context, State};
use crate::state::upgrade::{UpgradeEntry, wake_conflicting};

/// A request of which nothing has been carried out yet.
pub(super) type Resolved = ReconcileRequest<Box<PlanRequest>>;

/// Resolves the request of a pass. `None` if the upgrade is not known.
pub(super) fn resolve(context: &Context, state: &mut State, uid: &str) -> Option<Resolved> {
    let now = context.now();
    let entry = state.upgrades.get(uid)?;
    let earlier_uid = (entry.earlier_uid.is_none() && restore::is_unmarked(entry))
        .then(|| state.earlier_uid(entry))
        .flatten();
    let entry = state.upgrades.get_mut(uid)?;
    if entry.earlier_uid.is_none() {
        entry.earlier_uid = earlier_uid;
    }
    begin_pass(context, entry, now);
    let object = Arc::clone(&entry.object);
    let task = task(state, uid, context.freshness.approvals(), now)?;
    Some(ReconcileRequest { now, object, task })
}

fn begin_pass(context: &Context, entry: &mut UpgradeEntry, now: DateTime<Utc>) {
    entry.dirty = false;
    entry.skew = context.skew();
    entry.clamp_waits(now);
    entry.follow_clock(now, clock::now());
    entry.last_reconcile = Some((clock::now(), Duration::ZERO));
    entry.wake_at = None;
}

fn task(
    state: &mut State,
    uid: &str,
    approvals: KnownApprovals,
    now: DateTime<Utc>,
) -> Option<Task<Box<PlanRequest>>> {
    let State {
        index,
        upgrades,
        settings,
        slots_released_at,
        ..
    } = state;
    let entry = upgrades.get_mut(uid)?;
    // A pass that cannot plan also consumes this time: from here on the delay is no longer a reaction to the
    // feedback.
    let slot_released_at = slots_released_at.remove(&entry.uid);
    match finalizer::next(entry, now) {
        FinalizerStep::Present => {}
        FinalizerStep::Write => return Some(Task::WriteFinalizer),
        FinalizerStep::Wait => return Some(Task::Wait),
    }
    let mut clusters_with_works = index.clusters_of(&entry.uid);
    if !entry.is_deleting() {
        entry.origin = restore::origin_of(entry, clusters_with_works.is_empty());
        if let Origin::CompletedBefore(completed) = entry.origin.clone() {
            entry.selected_at = 0;
            if !entry.selected.clusters.is_empty() {
                entry.selected = Selected::default();
                wake_conflicting(upgrades);
            }
            return Some(Task::ShowCompleted(completed));
        }
    }
    let Some(policy) = policy(entry, approvals) else {
        return Some(Task::ShowViolations);
    };
    if entry.refresh_selection(index, settings.require_bindings) {
        let order = entry.order();
        let order = (order.0, Arc::clone(&entry.key));
        // Younger upgrades wait until it is known what this one selects.
        let younger = |other: &&mut UpgradeEntry| other.order() > (order.0, &*order.1);
        for other in upgrades.values_mut().filter(younger) {
            other.dirty = true;
        }
    }
    let entry = upgrades.get_mut(uid)?;
    if entry.settle(index, clock::now()) {
        wake_conflicting(upgrades);
    }
    let entry = upgrades.get_mut(uid)?;
    probes::refresh(entry, index, settings, now);
    entry.dirty = false;
    let starting = entry
        .running
        .iter()
        .filter(|(_, writes)| writes.starting.is_some());
    let mut awaited = starting
        .map(|(cluster, _)| cluster)
        .chain(entry.unsettled.keys())
        .peekable();
    if awaited.peek().is_some() {
        clusters_with_works.extend(awaited.cloned());
        clusters_with_works.sort_unstable();
        clusters_with_works.dedup();
    }
    Some(Task::Plan(Box::new(PlanRequest {
        key: Arc::clone(&entry.key),
        policy,
        spec: entry.in_force().cloned(),
        violations: entry.spec.as_ref().err().cloned(),
        clusters_with_works,
        slot_released_at,
    })))
}

/// The policy of the spec in force; `None` when no valid spec is known.
fn policy(entry: &UpgradeEntry, approvals: KnownApprovals) -> Option<Policy> {
    let clock_trusted = entry.skew.is_none();
    match (&entry.spec, entry.in_force()) {
        _ if entry.is_deleting() => Some(finalizer::policy()),
        (Ok(spec), _) => Some(Policy {
            retry: retry::pending(&entry.object, &spec.fields, entry.status.latest()),
            hold: match entry.origin {
                Origin::Restored(_) => Some(Hold::Restored),
                _ => spec.policy.hold,
            },
            clock_trusted,
            approvals,
            ..spec.policy.clone()
        }),
        // Clusters in flight continue as they were asked to. No other cluster starts, and no retry is carried out.
        (Err(_), Some(last)) => Some(Policy {
            hold: Some(Hold::InvalidSpec),
            clock_trusted,
            approvals,
            ..last.policy.clone()
        }),
        (Err(_), None) => None,
    }
}
