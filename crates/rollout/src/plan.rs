//! The plan: what to write next, where every cluster stands, when to look again.

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::cluster::{Derived, Told, Wish, derive};
use crate::fleet::{Cluster, Fleet, RivalHold, Slot};
use crate::outlook::{self, Outlook, Summary};
use crate::phase::{Phase, Step};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::record::{Attempt, Record};
use crate::requeue::is_announced;
use crate::window::{Window, is_repeat};

/// One write. It leaves no choice to whoever carries it out, and is safe to repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the work of a step.
    Create {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// Attempt to write on it.
        attempt: Attempt,
        /// Start of the step's clock.
        started: DateTime<Utc>,
    },
    /// Change an existing platform work in place; it is never deleted mid-upgrade.
    Update {
        /// The cluster.
        cluster: Arc<str>,
        /// Attempt to write on it.
        attempt: Attempt,
        /// Start of the step's clock.
        started: DateTime<Utc>,
        /// Why.
        kind: UpdateKind,
    },
    /// Note the start of the soak on a work.
    MarkSoak {
        /// The cluster.
        cluster: Arc<str>,
        /// The step whose work carries the note.
        step: Step,
        /// Start of the soak.
        started: DateTime<Utc>,
    },
    /// Delete a work.
    Delete {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
        /// Why.
        why: DeleteReason,
    },
    /// Read the work of a step from the hub: nothing is changed, but what the watches told may be old, and what a write
    /// without an answer has led to is unknown.
    Read {
        /// The cluster.
        cluster: Arc<str>,
        /// The step.
        step: Step,
    },
}

impl Action {
    /// The cluster it concerns.
    #[must_use]
    pub const fn cluster(&self) -> &Arc<str> {
        match self {
            Action::Create { cluster, .. }
            | Action::Update { cluster, .. }
            | Action::MarkSoak { cluster, .. }
            | Action::Delete { cluster, .. }
            | Action::Read { cluster, .. } => cluster,
        }
    }

    /// The step it concerns.
    #[must_use]
    pub const fn step(&self) -> Step {
        match self {
            Action::Create { step, .. }
            | Action::MarkSoak { step, .. }
            | Action::Delete { step, .. }
            | Action::Read { step, .. } => *step,
            Action::Update { .. } => Step::Platform,
        }
    }
}

/// Why a platform work is changed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateKind {
    /// A new revision of the spec.
    Repoint,
    /// A retry: fresh clock.
    Retry,
    /// It was an older upgrade's, which is done with the cluster.
    TakeOver,
}

/// Why a work is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteReason {
    /// The cluster's upgrade is complete.
    Complete,
    /// Every cluster is complete: pre- and post-actions go.
    AllComplete,
    /// It serves an earlier attempt and cannot be changed in place.
    Leftover,
    /// It was an older upgrade's, which is done with the cluster.
    Superseded,
    /// The cluster left the selection before its upgrade started.
    LeftSelection,
    /// The upgrade is being deleted.
    UpgradeDeleted,
}

/// Where one cluster stands.
#[derive(Clone, Debug)]
pub struct ClusterState {
    /// Name of the ManagedCluster.
    pub name: Arc<str>,
    /// The record to keep; the very `Arc` of the input when nothing changed.
    pub record: Arc<Record>,
    /// The record is to be written at once: it announces a new attempt, before which nothing happens to the cluster, or
    /// a failure, before which its slot is not given away.
    pub urgent: bool,
    /// This plan starts the cluster; its record shows that when it is done.
    pub starting: bool,
}

/// What to do next, and why nothing else.
#[must_use = "an unread plan moves nothing and explains nothing"]
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Writes, in the order of clusters; each cluster has at most one that starts or advances it.
    pub actions: Vec<Action>,
    /// Every cluster that counts, by name, with its reason.
    pub clusters: Vec<ClusterState>,
    /// Clusters whose records are to be dropped.
    pub dropped: Vec<Arc<str>>,
    /// Counters.
    pub summary: Summary,
    /// Whether anything will move.
    pub outlook: Outlook,
    /// True when the retry token of the policy was carried out for every cluster and all records of that are written.
    pub retry_done: bool,
    /// When to plan again, if nothing happens before.
    pub wake_at: Option<DateTime<Utc>>,
}

/// Plans the next writes. Pure: the same input gives the same plan.
pub fn plan(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet) -> Plan {
    if policy.deleting {
        return delete_all(now, fleet);
    }
    let mut derived: Vec<(&Cluster, Derived)> = fleet
        .clusters
        .iter()
        .map(|cluster| (cluster, derive(cluster, policy, now)))
        .collect();
    let mut plan = Plan::default();
    for (cluster, state) in &mut derived {
        hold_back(cluster, state, now);
        plan.wake_at = earliest(plan.wake_at, state.wake);
    }
    let window = Window::new(policy, &derived);
    let granted = window.grant(policy, &mut derived);
    let started = act(&mut plan, now, &mut derived, &granted);
    let mut kept = Vec::with_capacity(derived.len());
    for (index, (cluster, state)) in derived.into_iter().enumerate() {
        if state.dropped {
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
    plan.summary = outlook::summarize(&window, &states);
    plan.outlook = outlook::outlook(policy, &window, &plan.summary, &states);
    plan.retry_done = policy.retry.is_some()
        && states
            .iter()
            .all(|(cluster, state)| is_retry_written(policy, cluster, &state.record));
    let cleanups = clean_up_actions(now, &states);
    plan.actions.extend(cleanups);
    plan
}

fn delete_all(now: DateTime<Utc>, fleet: &Fleet) -> Plan {
    let mut plan = Plan::default();
    for cluster in &fleet.clusters {
        plan.wake_at = earliest(plan.wake_at, backoff(cluster, now));
        if !is_free(cluster, now) {
            continue;
        }
        for step in Step::ALL {
            if cluster.slot(step).is_kept() {
                plan.actions
                    .push(delete(cluster, step, DeleteReason::UpgradeDeleted));
            }
        }
        // What may still come to be would be nobody's once the upgrade is gone.
        plan.actions
            .extend(cluster.unsettled.map(|step| read(cluster, step)));
    }
    plan
}

/// Nothing happens to a cluster while a write for it is under way, has just failed, or must first be announced by its
/// record.
fn hold_back(cluster: &Cluster, state: &mut Derived, now: DateTime<Utc>) {
    if let Some(backoff) = &cluster.backoff
        && now < backoff.until
    {
        state.wake = earliest(state.wake, Some(backoff.until));
        // A refusal outweighs that the next try did not get through.
        if state.wish != Wish::Nothing && state.record.reason != Reason::WorkRefused {
            state.explain(Reason::WriteFailed, &backoff.error);
        }
    }
    if !is_free(cluster, now) {
        state.cleanups.clear();
        state.mark_soak = None;
    }
    state.held_back = !is_free(cluster, now) || !is_announced(cluster, &state.record);
}

/// The end of a cluster's backoff, if it lies ahead.
fn backoff(cluster: &Cluster, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    cluster
        .backoff
        .as_ref()
        .map(|backoff| backoff.until)
        .filter(|until| now < *until)
}

/// True when writes may be asked for: none is under way and none has just failed.
fn is_free(cluster: &Cluster, now: DateTime<Utc>) -> bool {
    cluster.busy.is_none() && backoff(cluster, now).is_none()
}

/// True when no crash can lose the cluster's part of the retry: what was requeued is written as such.
fn is_retry_written(policy: &Policy, cluster: &Cluster, record: &Record) -> bool {
    let written = || {
        cluster
            .written
            .as_deref()
            .is_some_and(|written| written.attempt == record.attempt)
    };
    policy.retry.as_ref() != Some(&record.attempt.retry) || written()
}

/// Adds the writes; returns the indexes of the clusters that start.
fn act(
    plan: &mut Plan,
    now: DateTime<Utc>,
    derived: &mut [(&Cluster, Derived)],
    granted: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut started = BTreeSet::new();
    for (index, (cluster, state)) in derived.iter_mut().enumerate() {
        let wish = match state.wish {
            Wish::Start(step) if granted.contains(&index) => Some((step, now, true)),
            Wish::Advance(step, clock) if !state.held_back && may_advance(cluster, state) => {
                Some((step, clock, false))
            }
            _ => None,
        };
        // What is wished for will tell by its answer; where it must wait, reading tells.
        let to_read = state.read.or(cluster.unsettled.filter(|_| wish.is_none()));
        if let Some(step) = to_read.filter(|_| !state.dropped && is_free(cluster, now)) {
            plan.actions.push(read(cluster, step));
        }
        if let Some((step, clock, starts)) = wish {
            let obstacles = superseded(cluster, step, starts);
            if obstacles.is_empty() {
                plan.actions.push(state.action(cluster, step, clock));
                if starts {
                    started.insert(index);
                }
            } else {
                state.explain(
                    Reason::WaitingForCleanup,
                    "ManifestWorks of an upgrade that gave way are being removed",
                );
            }
            plan.actions.extend(obstacles);
        }
        if let Some((step, started)) = state.mark_soak {
            plan.actions.push(Action::MarkSoak {
                cluster: Arc::clone(&cluster.name),
                step,
                started,
            });
        }
        plan.actions.extend(
            state
                .cleanups
                .iter()
                .map(|(step, why)| delete(cluster, *step, *why)),
        );
    }
    started
}

/// Works of a rival that gives way: its actions and Jobs are removed, its platform work is taken over in place. A rival's
/// platform work that we do not need goes nowhere: deleting it could hurt an upgrade.
pub(crate) fn superseded(cluster: &Cluster, step: Step, starts: bool) -> Vec<Action> {
    let yielding = cluster
        .rival
        .as_ref()
        .is_some_and(|rival| rival.hold == RivalHold::Yielding);
    let in_the_way = |other: &Step| matches!(cluster.slot(*other), Slot::Rival { terminating: false });
    Step::ALL
        .into_iter()
        .filter(|other| yielding && *other != Step::Platform && in_the_way(other))
        .filter(|other| starts || *other == step)
        .map(|other| delete(cluster, other, DeleteReason::Superseded))
        .collect()
}

/// Action works go when every cluster is complete and the written records say so (`docs/design/rules.md#action-clean-up`).
fn clean_up_actions(now: DateTime<Utc>, states: &[(&Cluster, &ClusterState)]) -> Vec<Action> {
    let all = |allowed: &[Phase]| {
        !states.is_empty()
            && states.iter().all(|(cluster, state)| {
                allowed.contains(&state.record.phase)
                    && cluster.written.as_deref().is_some_and(|written| {
                        allowed.contains(&written.phase) && written.attempt == state.record.attempt
                    })
            })
    };
    let mut actions = Vec::new();
    let done = [
        (Step::PreAction, all(&[Phase::Complete, Phase::PostAction])),
        (Step::PostAction, all(&[Phase::Complete])),
    ];
    for (step, _) in done.into_iter().filter(|(_, due)| *due) {
        for (cluster, state) in states {
            // Before Complete, what did not succeed is removed as a leftover.
            let served = state.record.phase == Phase::Complete || state.record.succeeded(step.into());
            if served && is_free(cluster, now) && cluster.slot(step).ours().is_some() {
                actions.push(delete(cluster, step, DeleteReason::AllComplete));
            }
        }
    }
    actions
}

fn conclude(cluster: &Cluster, mut state: Derived, starting: bool) -> ClusterState {
    if state.told == Told::Before {
        state.explain(Reason::None, "");
    }
    let urgent = state.releasing || !is_announced(cluster, &state.record);
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

/// True unless the outcome of another write must be known first.
fn may_advance(cluster: &Cluster, state: &Derived) -> bool {
    cluster.unsettled.is_none() || is_repeat(cluster, state)
}

fn read(cluster: &Cluster, step: Step) -> Action {
    Action::Read {
        cluster: Arc::clone(&cluster.name),
        step,
    }
}

fn delete(cluster: &Cluster, step: Step, why: DeleteReason) -> Action {
    Action::Delete {
        cluster: Arc::clone(&cluster.name),
        step,
        why,
    }
}

fn earliest(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
