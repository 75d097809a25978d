//! Checkpoints: behind each, no cluster starts without an approval of the present plan (`docs/design/rules.md#approvals`).

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::{
    Checkpoint, CheckpointPlace, CheckpointProgress, CheckpointState, Cluster, GivenApproval, HashedCanary,
    KnownApprovals, Phase, PlanHash, Policy, Record, Selection, Step,
};
use crate::planner::attempts::LEAVE_DEBOUNCE;
use crate::planner::canaries::Canaries;
use crate::planner::cluster::Evaluation;
use crate::planner::held::holds;

/// The checkpoints of an upgrade at the time of a plan.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// What is said of each, in the order of the spec.
    states: Vec<CheckpointState>,
    /// The hash of the plan, if there is any checkpoint.
    pub(crate) hash: Option<PlanHash>,
    /// When an approval that counts expires.
    pub(crate) expires: Option<DateTime<Utc>>,
    /// Those that are reached and not approved: first those that concern canaries, too.
    closed: Vec<(Arc<str>, Concerns)>,
    /// How many clusters may start before one is reached that is not approved, and what those behind it wait for.
    ahead: Option<(usize, Arc<str>)>,
}

/// Which clusters a checkpoint keeps from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Concerns {
    /// All: more clusters have started than it lets pass.
    All,
    /// Those that have not started before. A retry of one that has passed it goes on.
    NewOnes,
    /// All but canaries.
    Others,
}

impl Checkpoints {
    pub(crate) fn new(
        now: DateTime<Utc>,
        policy: &Policy,
        approvals: &[GivenApproval],
        fleet: &[(&Cluster, Evaluation)],
        canaries: Canaries,
    ) -> Checkpoints {
        if policy.checkpoints.is_empty() {
            return Checkpoints::default();
        }
        let hash = plan_hash(now, policy, fleet);
        let counted = || fleet.iter().filter(|(_, evaluation)| !evaluation.dropped);
        let total = counted().count();
        let started = counted()
            .filter(|(cluster, evaluation)| has_started(cluster, evaluation))
            .count();
        let mut all = Checkpoints::default();
        for checkpoint in &policy.checkpoints {
            let mut given: Vec<&GivenApproval> = approvals
                .iter()
                .filter(|approval| approval.checkpoint == checkpoint.name)
                .collect();
            given.sort_by_key(|approval| std::cmp::Reverse(approval.given));
            let mut counting = given
                .iter()
                .filter(|approval| counts(policy, approval, &hash, now));
            // One that does not expire outlasts the others.
            let approval = counting
                .clone()
                .find(|approval| approval.expires.is_none())
                .or_else(|| counting.by_ref().max_by_key(|approval| approval.expires))
                .copied();
            let most = match checkpoint.at {
                CheckpointPlace::CanariesComplete => None,
                CheckpointPlace::Started(limit) => Some(limit.of(total)),
            };
            let is_reached = match most {
                None => canaries == Canaries::Done,
                Some(most) => started >= most,
            };
            let message = || waits(policy, checkpoint, approval.is_some());
            match approval.filter(|_| policy.approvals == KnownApprovals::Current) {
                Some(approval) => {
                    all.expires = all.expires.into_iter().chain(approval.expires).min();
                }
                None if is_reached => {
                    let concerns = match most {
                        None => Concerns::Others,
                        Some(most) if started > most => Concerns::All,
                        Some(_) => Concerns::NewOnes,
                    };
                    all.closed.push((message(), concerns));
                }
                None => {
                    if let Some(left) = most.map(|most| most - started)
                        && all.ahead.as_ref().is_none_or(|(known, _)| left < *known)
                    {
                        all.ahead = Some((left, message()));
                    }
                }
            }
            let newest = given.first().filter(|_| approval.is_none());
            all.states.push(CheckpointState {
                name: Arc::clone(&checkpoint.name),
                progress: progress(policy, is_reached, approval.is_some()),
                changed: newest.and_then(|newest| hash.changed_since(&newest.plan_hash).map(Arc::from)),
                approval: approval.cloned(),
            });
        }
        all.closed.sort_by_key(|(_, concerns)| *concerns);
        all.hash = Some(hash);
        all
    }

    /// What is said of each checkpoint, in the order of the spec. `is_over`: nothing is left to start, so nobody is asked.
    pub(crate) fn states(mut self, is_over: bool) -> Vec<CheckpointState> {
        for state in self.states.iter_mut().filter(|_| is_over) {
            if state.progress != CheckpointProgress::Approved {
                state.progress = CheckpointProgress::Ahead;
            }
        }
        self.states
    }

    /// What a cluster waits for, if a checkpoint is reached and not approved. `has_started`: it counts for the checkpoints already.
    pub(crate) fn closed(&self, canary: bool, has_started: bool) -> Option<&str> {
        let concerns = |concerns: Concerns| match concerns {
            Concerns::All => true,
            Concerns::NewOnes => !has_started,
            Concerns::Others => !canary,
        };
        let closed = self.closed.iter().find(|(_, one)| concerns(*one));
        closed.map(|(message, _)| &**message)
    }

    /// How many clusters may start before a checkpoint is reached, and what the others wait for then.
    pub(crate) fn ahead(&self) -> Option<(usize, &str)> {
        let (left, message) = self.ahead.as_ref()?;
        Some((*left, message))
    }
}

/// True when a cluster counts for the checkpoints at a number of clusters: it has begun its upgrade by this revision, and something of
/// that is on record or on the hub. A retry, a skip or a blocker makes room for no other cluster. Whoever leads next goes by the row,
/// so one that is queued again counts at least until its row says so.
pub(crate) fn has_started(cluster: &Cluster, evaluation: &Evaluation) -> bool {
    holds(cluster, evaluation) || has_begun(cluster, &evaluation.record)
}

/// As [`has_started`], by the record and by what is on the hub.
pub(crate) fn has_begun(cluster: &Cluster, record: &Record) -> bool {
    let written = cluster.written.as_deref();
    let is_told = written.is_some_and(|written| !written.phase.is_queued());
    let has_work = |step: Step| {
        let work = cluster.step_work(step).ours();
        work.is_some_and(|work| !work.vanished && work.attempt.revision == record.attempt.revision)
    };
    is_told
        || !record.phase.is_queued()
        || record.stages.iter().any(Option::is_some)
        || Step::ALL.into_iter().any(has_work)
}

/// One that expires counts only by a clock that is trusted.
fn counts(policy: &Policy, approval: &GivenApproval, hash: &PlanHash, now: DateTime<Utc>) -> bool {
    let is_valid = |expires| policy.clock_trusted && now < expires;
    approval.plan_hash == *hash.as_str() && approval.expires.is_none_or(is_valid)
}

/// True when nobody can say whether a checkpoint is approved. One without an approval when they were read last waits for one as before.
fn is_unknown(policy: &Policy, is_approved: bool) -> bool {
    match policy.approvals {
        KnownApprovals::Current => false,
        KnownApprovals::Outdated => is_approved,
        KnownApprovals::Missing => true,
    }
}

/// How far the rollout is. `is_approved`: by the approvals as far as they are known.
fn progress(policy: &Policy, is_reached: bool, is_approved: bool) -> CheckpointProgress {
    match (is_reached, is_approved) {
        _ if is_unknown(policy, is_approved) => CheckpointProgress::Unknown,
        (false, _) => CheckpointProgress::Ahead,
        (true, false) => CheckpointProgress::Waiting,
        (true, true) => CheckpointProgress::Approved,
    }
}

/// What clusters behind a checkpoint wait for.
fn waits(policy: &Policy, checkpoint: &Checkpoint, is_approved: bool) -> Arc<str> {
    let name = &checkpoint.name;
    Arc::from(if is_unknown(policy, is_approved) {
        format!("Waiting until the approvals of checkpoint {name} are read from the hub")
    } else {
        format!("Waiting for the approval of checkpoint {name}")
    })
}

/// The hash of the plan: over the spec, the clusters that are selected and not skipped in the order in which they start, and the
/// attempts of the canaries, and whether all of them are complete. A cluster that leaves the selection for a moment, or after it has
/// started, as one does that restarts in the middle of its update, makes no other plan.
pub(crate) fn plan_hash(now: DateTime<Utc>, policy: &Policy, fleet: &[(&Cluster, Evaluation)]) -> PlanHash {
    let is_covered = |cluster: &Cluster, evaluation: &Evaluation| {
        let stays = match cluster.selection {
            Selection::In => true,
            Selection::Left(since) => now < since + LEAVE_DEBOUNCE || !evaluation.record.phase.is_queued(),
        };
        stays && !evaluation.dropped && !cluster.gone && cluster.left_out.is_none()
    };
    let covered = |canary: bool| {
        fleet
            .iter()
            .filter(move |(cluster, evaluation)| is_covered(cluster, evaluation) && cluster.canary == canary)
    };
    let in_order = covered(true).chain(covered(false));
    // One canary after the other becomes complete, and nobody is to be asked again for each.
    let are_complete = covered(true).all(|(_, evaluation)| evaluation.record.phase == Phase::Complete);
    let canaries = covered(true).map(|(cluster, evaluation)| HashedCanary {
        name: &cluster.name,
        attempt: &evaluation.record.attempt,
        are_complete,
    });
    PlanHash::new(
        &policy.spec_hash,
        in_order.map(|(cluster, _)| &*cluster.name),
        canaries,
    )
}
