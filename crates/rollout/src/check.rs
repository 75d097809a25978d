//! The independent checker: refuses a plan that breaks a safety rule.
//!
//! Written apart from the planner: it shares types with it and no code, and recomputes what it needs from the input. It
//! says what must never be done; what should be done is the planner's business. A violation stops the writes
//! (`docs/design/rules.md#checked-plans`).

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::fleet::{Cluster, Fleet};
use crate::plan::{Action, ClusterState, Plan};
use crate::policy::Policy;

mod actions;
mod fleetwide;
mod records;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which rule.
    pub kind: ViolationKind,
    /// The cluster it concerns; `None`: the whole plan.
    pub cluster: Option<Arc<str>>,
    /// What was found, for logs.
    pub text: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cluster {
            Some(cluster) => write!(f, "{:?}: cluster {cluster}: {}", self.kind, self.text),
            None => write!(f, "{:?}: {}", self.kind, self.text),
        }
    }
}

/// The rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ViolationKind {
    /// The plan speaks of a cluster that was not observed.
    UnknownCluster,
    /// A cluster appears twice, out of order, or neither among the clusters nor the dropped.
    Listing,
    /// A cluster is dropped that neither is gone nor left before it started.
    LostCluster,
    /// Counters do not add up.
    Counters,
    /// More slots than maxConcurrency, and something starts.
    WindowExceeded,
    /// A cluster holds a slot that neither its record nor a work accounts for.
    UnfoundedSlot,
    /// A start while paused, while the spec is invalid, or after a restore that nobody has acknowledged.
    StartedWhilePaused,
    /// A start after a canary failed.
    StartedAfterCanaryFailure,
    /// A start of another cluster before every canary was complete.
    StartedBeforeCanaries,
    /// A start though the canary selector matches nothing.
    StartedWithoutCanary,
    /// A start past maxFailures.
    StartedPastMaxFailures,
    /// A step that leads to an older version than the cluster runs, although the policy does not allow a downgrade.
    Downgrade,
    /// A start of a cluster that is blocked, unavailable, gone, not selected or held by another upgrade.
    StartedBarred,
    /// A write for a cluster of which another write is under way.
    BusyTouched,
    /// A write inside a backoff.
    BackoffIgnored,
    /// A creation where a work is, or before a foreign or refused one is due again.
    WorkOverwritten,
    /// An update of what cannot be updated: nothing, a work on its way out, or one of a rival that has not given way.
    UpdateUnfounded,
    /// Several writes begin or advance one cluster.
    DoubleStart,
    /// A step before the one it follows has succeeded, or one that is not requested.
    StepOrder,
    /// A write of an attempt that the written record does not announce.
    Unannounced,
    /// A deletion of a platform work that might still upgrade.
    PlatformDeleted,
    /// A deletion of a work that is still needed, or on no written ground.
    DeletedUnfinished,
    /// A deletion of another upgrade's work that has not given way, or of somebody else's.
    ForeignTouched,
    /// Something other than deletions while the upgrade is being deleted.
    ActionWhileDeleting,
    /// A note of a soak without an upgraded cluster.
    SoakUnfounded,
    /// Something is done to a cluster whose record cannot be read, or that record is changed or dropped.
    UnreadableTouched,
    /// A cluster does not move and no reason is given.
    NoReason,
    /// A terminal state changed within its attempt, except when a post-action recovers.
    TerminalReversed,
    /// A new attempt that neither the policy nor a work accounts for.
    AttemptUnfounded,
    /// A step counts as succeeded without proof.
    UnprovenSuccess,
    /// A clock was reset within an attempt.
    ClockReset,
    /// A cluster failed by time, or its soak ended, though the clock is not trusted.
    ClockDistrusted,
    /// A deadline has passed and the cluster is still in the phase.
    DeadlinePassed,
    /// A cluster fails because its time is over, and its work was not read from the hub after the deadline.
    FailedUnread,
    /// A cluster is given a new attempt, or another step is begun, while it is not known whether a start was carried out; or it
    /// starts while one that was given up on may be carried out yet.
    UnsettledPassed,
    /// The plan does not wake for a deadline.
    WakeMissed,
    /// A row that must be written at once is not marked so.
    NotUrgent,
    /// The retry counts as carried out though a crash could lose it.
    RetryForgotten,
}

/// Checks a plan against its input; an empty list means that it is safe.
#[must_use]
pub fn check(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, plan: &Plan) -> Vec<Violation> {
    let mut checker = Checker {
        now,
        policy,
        plan,
        cases: Vec::new(),
        found: Vec::new(),
    };
    checker.line_up(fleet);
    let cases = std::mem::take(&mut checker.cases);
    if policy.deleting {
        for case in &cases {
            checker.check_deleting(case);
        }
        return checker.found;
    }
    for case in &cases {
        checker.check_unreadable(case);
        checker.check_record(case);
        checker.check_actions(case);
    }
    checker.check_fleet(&cases);
    checker.found
}

/// A cluster with what the plan says of it.
struct Case<'a> {
    cluster: &'a Cluster,
    /// `None`: dropped.
    state: Option<&'a ClusterState>,
    actions: Vec<&'a Action>,
}

struct Checker<'a> {
    now: DateTime<Utc>,
    policy: &'a Policy,
    plan: &'a Plan,
    cases: Vec<Case<'a>>,
    found: Vec<Violation>,
}

impl<'a> Checker<'a> {
    fn report(&mut self, kind: ViolationKind, cluster: Option<&Cluster>, text: impl Into<String>) {
        self.found.push(Violation {
            kind,
            cluster: cluster.map(|cluster| Arc::clone(&cluster.name)),
            text: text.into(),
        });
    }

    /// Matches clusters, states and actions by name.
    fn line_up(&mut self, fleet: &'a Fleet) {
        let plan = self.plan;
        let mut cases = Cases::new(fleet);
        let mut last: Option<&Arc<str>> = None;
        for state in &plan.clusters {
            if last.is_some_and(|last| *last >= state.name) {
                self.report(
                    ViolationKind::Listing,
                    None,
                    format!("{} is listed twice or out of order", state.name),
                );
            }
            last = Some(&state.name);
            match cases.find(&state.name) {
                Some(case) => case.state = Some(state),
                None => self.report(
                    ViolationKind::UnknownCluster,
                    None,
                    format!("{} was not observed", state.name),
                ),
            }
        }
        for action in &plan.actions {
            match cases.find(action.cluster()) {
                Some(case) => case.actions.push(action),
                None => self.report(
                    ViolationKind::UnknownCluster,
                    None,
                    format!("{action:?} is of a cluster that was not observed"),
                ),
            }
        }
        for name in &plan.dropped {
            if cases.find(name).is_none_or(|case| case.state.is_some()) {
                self.report(
                    ViolationKind::Listing,
                    None,
                    format!("{name} is dropped and listed, or was not observed"),
                );
            }
        }
        self.cases = cases.sorted;
    }
}

/// The clusters by name. What is looked for is mostly the one after the last that was found.
struct Cases<'a> {
    sorted: Vec<Case<'a>>,
    ahead: usize,
}

impl<'a> Cases<'a> {
    fn new(fleet: &'a Fleet) -> Cases<'a> {
        let case = |cluster| Case {
            cluster,
            state: None,
            actions: Vec::new(),
        };
        let mut sorted: Vec<Case<'a>> = fleet.clusters.iter().map(case).collect();
        sorted.sort_by(|a, b| a.cluster.name.cmp(&b.cluster.name));
        Cases { sorted, ahead: 0 }
    }

    fn find(&mut self, name: &Arc<str>) -> Option<&mut Case<'a>> {
        let at = |case: &Case<'_>| Arc::ptr_eq(&case.cluster.name, name) || case.cluster.name == *name;
        let position = if self.sorted.get(self.ahead).is_some_and(at) {
            self.ahead
        } else {
            let found = self.sorted.binary_search_by(|case| case.cluster.name.cmp(name));
            found.ok()?
        };
        self.ahead = position + 1;
        self.sorted.get_mut(position)
    }
}
