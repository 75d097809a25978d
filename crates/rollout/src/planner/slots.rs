//! Decides which clusters start: canaries first, then by name, one for each free slot, unless a gate is closed
//! (`docs/design/rules.md#slots-and-gates`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::{Busy, Cluster, GivenApproval, Hold, Phase, Policy, Reason, Step};
use crate::planner::canaries::Canaries;
use crate::planner::checkpoints::{Checkpoints, has_started};
use crate::planner::cluster::{Evaluation, NextStep};
use crate::planner::held::holds;
use crate::planner::takeover::superseded;
use crate::planner::wording::ASKED_AGAIN;

/// Why a cluster does not start while an earlier creation may still be carried out.
const LATE: &str = "The API server did not respond to an earlier write, which may still be carried out. The cluster starts when this is ruled out.";

/// Facts about the whole fleet on which starts depend.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The number of slots that maxConcurrency amounts to.
    pub(crate) limit: usize,
    /// Slots that are held, including starts in progress and slots whose release is not written yet.
    pub(crate) held: usize,
    /// The progress of the canaries.
    pub(crate) canaries: Canaries,
    /// True when more clusters failed than allowed.
    pub(crate) breach: bool,
    /// The points at which starts wait for an approval.
    pub(crate) checkpoints: Checkpoints,
}

/// True when the cluster's next step repeats a write whose outcome is not known.
pub(crate) fn is_repeat(cluster: &Cluster, evaluation: &Evaluation) -> bool {
    match evaluation.next {
        NextStep::Start(step) | NextStep::Advance(step, _) => cluster.unsettled == Some(step),
        NextStep::Nothing => false,
    }
}

/// True when a cluster would start now if it may.
fn wants_start(cluster: &Cluster, evaluation: &Evaluation) -> bool {
    let starting = cluster.busy == Some(Busy::Starting);
    matches!(evaluation.next, NextStep::Start(_)) && !evaluation.dropped && !starting
}

/// True when a cluster must be asked again before it starts, and this plan writes for it: it is passed over until that is done.
fn is_cleaned_up_first(evaluation: &Evaluation) -> bool {
    evaluation.stale && !evaluation.cleanups.is_empty()
}

/// True when no slot is left for a cluster.
fn is_full(cluster: &Cluster, free: usize, free_for_repeats: usize) -> bool {
    if cluster.awaits_start() {
        free_for_repeats == 0
    } else {
        free == 0
    }
}

/// The clusters whose turn it is.
#[derive(Debug, Default)]
pub(crate) struct Granted {
    /// Indexes of those that start.
    pub(crate) starts: BTreeSet<usize>,
    /// Names of those that are asked again first, and keep their slots meanwhile.
    pub(crate) to_ask: Vec<Arc<str>>,
}

impl Slots {
    /// Counts slots, canaries and failures before any cluster starts.
    pub(crate) fn new(
        now: DateTime<Utc>,
        policy: &Policy,
        fleet: &[(&Cluster, Evaluation)],
        (approvals, unreleased): (&[GivenApproval], usize),
    ) -> Slots {
        let counted = || fleet.iter().filter(|(_, evaluation)| !evaluation.dropped);
        let total = counted().count();
        let failures = counted()
            .filter(|(cluster, evaluation)| {
                !cluster.canary && cluster.left_out.is_none() && evaluation.record.phase.has_failed()
            })
            .count();
        let fares = Canaries::of(policy, fleet);
        Slots {
            limit: policy.max_concurrency.of(total).max(1),
            held: unreleased
                + fleet
                    .iter()
                    .filter(|(cluster, evaluation)| holds(cluster, evaluation))
                    .count(),
            canaries: fares,
            checkpoints: Checkpoints::new(now, policy, approvals, fleet, fares),
            breach: policy
                .max_failures
                .is_some_and(|limit| failures > limit.of(total)),
        }
    }

    /// The gate that keeps a cluster from starting, if one is closed. `has_started`: it counts for the checkpoints already.
    pub(crate) fn gate(&self, policy: &Policy, canary: bool, has_started: bool) -> Option<(Reason, &str)> {
        if let Some(hold) = policy.hold {
            Some(match hold {
                Hold::Paused => (
                    Reason::Paused,
                    "The upgrade is paused. Set spec.paused to false to continue.",
                ),
                Hold::Restored => (
                    Reason::Restored,
                    "The upgrade was restored or copied. Check it, then run kubectl mcu resume.",
                ),
                Hold::InvalidSpec => (
                    Reason::InvalidSpec,
                    "The spec violates a rule. Fix the field that condition Stalled names.",
                ),
            })
        } else if self.canaries == Canaries::Missing {
            Some((
                Reason::NoCanarySelected,
                "The canary selector (spec.upgradeStrategy.canaryClusters.clusterSelector) matches no cluster",
            ))
        } else if self.canaries == Canaries::Failed {
            Some((
                Reason::CanaryFailed,
                "A canary failed. Fix and retry it, or edit the spec.",
            ))
        } else if self.breach {
            Some((
                Reason::MaxFailuresExceeded,
                "More clusters failed than maxFailures allows. Fix and retry them, or raise the limit.",
            ))
        } else if !canary && self.canaries == Canaries::Unfinished {
            Some((
                Reason::WaitingForCanaries,
                "Waiting until every canary is complete",
            ))
        } else {
            let closed = self.checkpoints.closed(canary, has_started);
            closed.map(|message| (Reason::WaitingForApproval, message))
        }
    }

    /// Decides which clusters start. The others get their reason.
    pub(crate) fn grant(&self, policy: &Policy, fleet: &mut [(&Cluster, Evaluation)]) -> Granted {
        let mut granted = Granted::default();
        let mut free = self.limit.saturating_sub(self.held);
        // A start that is repeated already counts as holding a slot. But its cluster may have been away meanwhile, and
        // its slot given to another one.
        let repeats = fleet
            .iter()
            .filter(|(cluster, evaluation)| wants_start(cluster, evaluation) && cluster.awaits_start())
            .count();
        let mut free_for_repeats = self.limit.saturating_sub(self.held.saturating_sub(repeats));
        let mut ahead = self.checkpoints.ahead();
        for canaries in [true, false] {
            for (index, (cluster, evaluation)) in fleet.iter_mut().enumerate() {
                if !wants_start(cluster, evaluation) || cluster.canary != canaries {
                    continue;
                }
                // The cluster already counts as holding a slot for the step that was tried. Any other step must wait
                // until that is settled.
                if cluster.unsettled.is_some() && !is_repeat(cluster, evaluation) {
                    continue;
                }
                let counts_anew = !has_started(cluster, evaluation);
                let is_at_checkpoint = |(left, _): &(usize, &str)| counts_anew && *left == 0;
                let verdict = match self.gate(policy, cluster.canary, !counts_anew) {
                    Some(shut) => Some(shut),
                    None if cluster.late.is_some() => Some((Reason::WriteFailed, LATE)),
                    None if ahead.as_ref().is_some_and(is_at_checkpoint) => {
                        ahead.map(|(_, message)| (Reason::WaitingForApproval, message))
                    }
                    None if is_full(cluster, free, free_for_repeats) => Some((
                        Reason::WaitingForSlot,
                        "Waiting for a free slot of maxConcurrency",
                    )),
                    None => None,
                };
                if let Some((reason, message)) = verdict {
                    if !evaluation.reason_is_current {
                        evaluation.explain(reason, message);
                    }
                } else if !evaluation.held_back && !is_cleaned_up_first(evaluation) {
                    // Removing the works of a previous upgrade takes neither a slot nor a place at a checkpoint yet: while it
                    // is under way, the next plan passes the cluster over. The retry of a post-action never takes a slot.
                    let begins = matches!(evaluation.next, NextStep::Start(step)
                        if superseded(cluster, step, true).is_empty());
                    let takes = begins && evaluation.next != NextStep::Start(Step::PostAction);
                    free -= usize::from(takes && !cluster.awaits_start());
                    free_for_repeats -= usize::from(takes && cluster.awaits_start());
                    if let Some((left, _)) = &mut ahead {
                        *left -= usize::from(begins && counts_anew);
                    }
                    if evaluation.stale {
                        // What blocks it stays the cause until a try has succeeded.
                        if evaluation.record.phase != Phase::Blocked {
                            evaluation.explain(Reason::PreflightPending, ASKED_AGAIN);
                        }
                        granted.to_ask.push(Arc::clone(&cluster.name));
                    } else {
                        granted.starts.insert(index);
                    }
                }
            }
        }
        let ahead = ahead.map(|(left, _)| left);
        granted.to_ask.extend(self.ask_ahead(policy, fleet, free, ahead));
        granted
    }

    /// Names of the clusters that are asked again before their windows open: of those that can start then, one for each slot that is
    /// left now. `ahead`: how many clusters may start before a checkpoint is reached. Slots are not kept for them.
    fn ask_ahead(
        &self,
        policy: &Policy,
        fleet: &[(&Cluster, Evaluation)],
        mut free: usize,
        mut ahead: Option<usize>,
    ) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        for canaries in [true, false] {
            let due = fleet.iter().filter(|(cluster, evaluation)| {
                let is_barred = evaluation.held_back || evaluation.dropped || is_cleaned_up_first(evaluation);
                let is_in_doubt = cluster.unsettled.is_some() || cluster.late.is_some();
                evaluation.opens_soon && cluster.canary == canaries && !is_barred && !is_in_doubt
            });
            for (cluster, evaluation) in due {
                let counts_anew = !has_started(cluster, evaluation);
                let is_shut = self.gate(policy, cluster.canary, !counts_anew).is_some();
                if free == 0 || is_shut || (counts_anew && ahead == Some(0)) {
                    continue;
                }
                free -= 1;
                ahead = ahead.map(|left| left - usize::from(counts_anew));
                if evaluation.stale {
                    names.push(Arc::clone(&cluster.name));
                }
            }
        }
        names
    }
}
