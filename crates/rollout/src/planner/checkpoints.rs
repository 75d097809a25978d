//! Checkpoints: behind each, no cluster starts without an approval of the present plan (`docs/design/rules.md#approvals`).

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::{
    Checkpoint, CheckpointPlace, CheckpointProgress, CheckpointState, Cluster, GivenApproval, HashedCanary,
    Phase, PlanHash, Policy, Selection,
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
    /// Why no cluster starts any more, and whether that concerns canaries, too.
    closed: Option<(Arc<str>, bool)>,
    /// How many clusters may start before one is reached that is not approved, and what those behind it wait for.
    ahead: Option<(usize, Arc<str>)>,
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
            let mut counting = given.iter().filter(|approval| counts(approval, &hash, now));
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
            match approval {
                Some(approval) => {
                    all.expires = all.expires.into_iter().chain(approval.expires).min();
                }
                None if is_reached => {
                    let concerns_canaries = most.is_some();
                    let known = all.closed.as_ref();
                    // One that concerns canaries, too, counts before one that does not.
                    if known.is_none_or(|(_, wider)| !wider && concerns_canaries) {
                        all.closed = Some((waits(checkpoint), concerns_canaries));
                    }
                }
                None => {
                    if let Some(left) = most.map(|most| most - started)
                        && all.ahead.as_ref().is_none_or(|(known, _)| left < *known)
                    {
                        all.ahead = Some((left, waits(checkpoint)));
                    }
                }
            }
            let newest = given.first().filter(|_| approval.is_none());
            all.states.push(CheckpointState {
                name: Arc::clone(&checkpoint.name),
                progress: match (is_reached, approval) {
                    (false, _) => CheckpointProgress::Ahead,
                    (true, None) => CheckpointProgress::Waiting,
                    (true, Some(_)) => CheckpointProgress::Approved,
                },
                changed: newest.and_then(|newest| hash.changed_since(&newest.plan_hash).map(Arc::from)),
                approval: approval.cloned(),
            });
        }
        all.hash = Some(hash);
        all
    }

    /// What is said of each checkpoint, in the order of the spec. `is_over`: nothing is left to start, so nobody is asked.
    pub(crate) fn states(mut self, is_over: bool) -> Vec<CheckpointState> {
        for state in self.states.iter_mut().filter(|_| is_over) {
            if state.progress == CheckpointProgress::Waiting {
                state.progress = CheckpointProgress::Ahead;
            }
        }
        self.states
    }

    /// What a cluster waits for, if a checkpoint is reached and not approved.
    pub(crate) fn closed(&self, canary: bool) -> Option<&str> {
        let (message, concerns_canaries) = self.closed.as_ref()?;
        (!canary || *concerns_canaries).then_some(message)
    }

    /// How many clusters may start before a checkpoint is reached, and what the others wait for then.
    pub(crate) fn ahead(&self) -> Option<(usize, &str)> {
        let (left, message) = self.ahead.as_ref()?;
        Some((*left, message))
    }
}

/// True when a cluster counts for the checkpoints at a number of clusters.
pub(crate) fn has_started(cluster: &Cluster, evaluation: &Evaluation) -> bool {
    holds(cluster, evaluation) || !evaluation.record.phase.is_queued()
}

fn counts(approval: &GivenApproval, hash: &PlanHash, now: DateTime<Utc>) -> bool {
    approval.plan_hash == *hash.as_str() && approval.expires.is_none_or(|expires| now < expires)
}

fn waits(checkpoint: &Checkpoint) -> Arc<str> {
    Arc::from(format!(
        "Waiting for the approval of checkpoint {}",
        checkpoint.name
    ))
}

/// The hash of the plan: over the spec, the clusters that are selected and not skipped in the order in which they start, and the
/// attempts of the canaries. A cluster that leaves the selection for a moment, or after it has started, as one does that restarts in
/// the middle of its update, makes no other plan.
fn plan_hash(now: DateTime<Utc>, policy: &Policy, fleet: &[(&Cluster, Evaluation)]) -> PlanHash {
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
    let canaries = covered(true).map(|(cluster, evaluation)| HashedCanary {
        name: &cluster.name,
        attempt: &evaluation.record.attempt,
        is_complete: evaluation.record.phase == Phase::Complete,
    });
    PlanHash::new(
        &policy.spec_hash,
        in_order.map(|(cluster, _)| &*cluster.name),
        canaries,
    )
}
