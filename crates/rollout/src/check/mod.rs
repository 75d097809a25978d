//! The independent checker. It rejects a plan that violates a safety rule.
//!
//! It shares types with the planner but no code, and recomputes what it needs from the input. It knows what must
//! never be done, not what should be done. After a violation no write of the plan is made
//! (`docs/design/rules.md#checked-plans`).

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::{Cluster, ClusterState, Fleet, Operation, Plan, Policy};

mod approvals;
mod asked;
mod fleetwide;
mod left_out;
mod maintenance;
mod operations;
mod proven;
mod records;

/// How long a cluster may be missing from the selection before it has left: it may be back at once.
const LEFT_FOR: TimeDelta = TimeDelta::seconds(5);

/// A rule that a plan violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub kind: ViolationKind,
    /// The cluster that is concerned; `None` if it is the whole plan.
    pub cluster: Option<Arc<str>>,
    /// What the checker found, for logs.
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

/// The rules that a plan can violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ViolationKind {
    /// The plan mentions a cluster that was not observed.
    UnknownCluster,
    /// A cluster is listed twice, out of order, or neither listed nor dropped.
    Listing,
    /// A cluster is dropped although it is not gone and did not leave before it started.
    LostCluster,
    /// The counters do not add up.
    Counters,
    /// A cluster that is left out starts, or one that is not counts as left out.
    LeftOut,
    /// A cluster starts although more slots than maxConcurrency would be held.
    TooManySlots,
    /// A cluster holds a slot although neither its record nor a work shows that it started.
    UnfoundedSlot,
    /// A cluster starts while the upgrade is paused, its spec is invalid, or it was restored and not resumed.
    StartedWhilePaused,
    /// A cluster starts although a canary failed.
    StartedAfterCanaryFailure,
    /// A cluster other than a canary starts before all canaries are complete.
    StartedBeforeCanaries,
    /// A cluster starts although the canary selector matches no cluster.
    StartedWithoutCanary,
    /// A cluster starts although more clusters failed than maxFailures allows.
    StartedPastMaxFailures,
    /// A step leads to an older version than the cluster runs, although the policy does not allow a downgrade.
    Downgrade,
    /// A cluster starts although it is blocked, unavailable, gone, not selected or held by another upgrade.
    StartedBarred,
    /// A cluster starts behind a checkpoint that nobody has approved for the present plan.
    StartedWithoutApproval,
    /// A cluster starts although its maintenance windows are closed, or nobody knows whether they are.
    StartedOutsideWindow,
    /// The plan has a write for a cluster although another write for it is in progress.
    BusyTouched,
    /// The plan has a write for a cluster during its backoff.
    BackoffIgnored,
    /// A work is created where one exists, or before the next try for a foreign or rejected work is due.
    WorkOverwritten,
    /// A work is updated that must not be: it does not exist, is being deleted, or belongs to a rival that has not
    /// given way.
    UpdateUnfounded,
    /// Several writes begin or advance the same cluster.
    DoubleStart,
    /// A step begins before the previous one has succeeded, or although it is not requested.
    StepOrder,
    /// A write for an attempt that the written record does not announce.
    Unannounced,
    /// A platform work is deleted that might still upgrade its cluster.
    PlatformDeleted,
    /// A work is deleted that is still needed, or for a reason that no written record proves.
    DeletedUnfinished,
    /// A work is deleted that belongs to another upgrade that has not given way, or to no upgrade.
    ForeignTouched,
    /// An operation other than a deletion while the upgrade is being deleted.
    ActionWhileDeleting,
    /// The start of a soak is noted although the cluster is not soaking.
    SoakUnfounded,
    /// A write for a cluster whose record cannot be read, or a change to that record.
    UnreadableTouched,
    /// A cluster does not move, and the plan gives no reason.
    NoReason,
    /// A final phase changed within its attempt, other than by a post-action that recovered.
    TerminalReversed,
    /// A new attempt for which neither the policy nor a work gives a reason.
    AttemptUnfounded,
    /// A step counts as succeeded without proof.
    UnprovenSuccess,
    /// The start of a step changed within an attempt.
    ClockReset,
    /// A cluster timed out or its soak ended although the clock is not trusted.
    ClockDistrusted,
    /// A cluster is still in its phase although the deadline has passed.
    DeadlinePassed,
    /// A cluster timed out, but its work was not read from the hub after the deadline.
    FailedUnread,
    /// A cluster gets a new attempt or begins another step while it is not known whether its start was carried out,
    /// or it starts while an abandoned creation may still be carried out.
    UnsettledPassed,
    /// The plan does not wake up for a deadline.
    WakeMissed,
    /// A row that must be written at once is not marked as urgent.
    NotUrgent,
    /// The retry counts as done although a crash could lose it.
    RetryForgotten,
}

/// Checks a plan against its input. An empty list means that the plan is safe.
#[must_use]
pub fn check(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, plan: &Plan) -> Vec<Violation> {
    let mut checker = Checker {
        now,
        policy,
        plan,
        cases: Vec::new(),
        unreleased: fleet.unreleased,
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
        checker.check_left_out(case);
        checker.check_actions(case);
    }
    checker.check_fleet(&cases);
    checker.check_windows(&cases, &fleet.calendars);
    checker.check_approvals(&cases, &fleet.approvals);
    checker.found
}

/// A cluster with what the plan says about it.
struct Case<'a> {
    cluster: &'a Cluster,
    /// `None` if the cluster is dropped.
    state: Option<&'a ClusterState>,
    operations: Vec<&'a Operation>,
}

struct Checker<'a> {
    now: DateTime<Utc>,
    policy: &'a Policy,
    plan: &'a Plan,
    cases: Vec<Case<'a>>,
    unreleased: usize,
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
        for operation in &plan.operations {
            match cases.find(operation.cluster()) {
                Some(case) => case.operations.push(operation),
                None => self.report(
                    ViolationKind::UnknownCluster,
                    None,
                    format!("{operation:?} is for a cluster that was not observed"),
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

/// The clusters by name. A lookup first tries the cluster after the last one that was found, because plans are in the
/// same order.
struct Cases<'a> {
    sorted: Vec<Case<'a>>,
    ahead: usize,
}

impl<'a> Cases<'a> {
    fn new(fleet: &'a Fleet) -> Cases<'a> {
        let case = |cluster| Case {
            cluster,
            state: None,
            operations: Vec::new(),
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
