//! Who starts: canaries first, then by name, as many as slots are free, unless a gate is shut
//! (`docs/design/rules.md#slots-and-gates`).

use std::collections::BTreeSet;

use crate::cluster::{Derived, Told, Wish};
use crate::fleet::{Busy, Cluster, Selection};
use crate::phase::{Phase, Step};
use crate::plan::superseded;
use crate::policy::{Hold, Policy};
use crate::reason::Reason;

/// Why a cluster does not start in which an earlier creation may be carried out yet.
const LATE: &str =
    "a write that was given up on may be carried out yet; it starts when that is out of the question";

/// How the canaries fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canaries {
    /// Every canary is complete, or none is asked for.
    Done,
    /// Some are not complete yet.
    Unfinished,
    /// Some failed.
    Failed,
    /// They are asked for and none is there.
    Missing,
}

/// Facts about the whole fleet that starting depends on.
#[derive(Debug)]
pub(crate) struct Window {
    /// maxConcurrency as a number.
    pub(crate) size: usize,
    /// Slots held, starts under way and slots not yet given back durably included.
    pub(crate) held: usize,
    /// How the canaries fare.
    pub(crate) canaries: Canaries,
    /// More failures than allowed.
    pub(crate) breach: bool,
}

/// True while a cluster holds a slot.
pub(crate) fn holds(cluster: &Cluster, derived: &Derived) -> bool {
    let unknown = || {
        let mut steps = [Step::PreAction, Step::Platform, Step::Operators].into_iter();
        derived.record.is_unreadable() && steps.any(|step| cluster.slot(step).may_run())
    };
    derived.record.phase.holds_slot() || derived.releasing || cluster.awaits_start() || unknown()
}

/// True when what the cluster wishes for is what was tried already.
pub(crate) fn is_repeat(cluster: &Cluster, derived: &Derived) -> bool {
    match derived.wish {
        Wish::Start(step) | Wish::Advance(step, _) => cluster.unsettled == Some(step),
        Wish::Nothing => false,
    }
}

impl Window {
    /// Looks at the fleet before anything starts.
    pub(crate) fn new(policy: &Policy, fleet: &[(&Cluster, Derived)]) -> Window {
        let counted = || fleet.iter().filter(|(_, derived)| !derived.dropped);
        let total = counted().count();
        // A canary that left the selection is not given a new revision, so it does not count for one.
        let canaries = || {
            counted().filter(|(cluster, derived)| {
                cluster.canary
                    && (cluster.selection == Selection::In
                        || derived.record.attempt.revision == policy.revision)
            })
        };
        let failures = counted()
            .filter(|(cluster, derived)| {
                !cluster.canary && matches!(derived.record.phase, Phase::Failed | Phase::PreActionDegraded)
            })
            .count();
        let finished = |derived: &Derived| {
            derived.record.phase == Phase::Complete && derived.record.attempt.revision == policy.revision
        };
        let fares = if !policy.canaries {
            Canaries::Done
        } else if canaries().next().is_none() {
            Canaries::Missing
        } else if canaries().any(|(_, derived)| derived.record.phase == Phase::Failed) {
            Canaries::Failed
        } else if canaries().all(|(_, derived)| finished(derived)) {
            Canaries::Done
        } else {
            Canaries::Unfinished
        };
        Window {
            size: policy.max_concurrency.of(total).max(1),
            held: counted()
                .filter(|(cluster, derived)| holds(cluster, derived))
                .count(),
            canaries: fares,
            breach: policy
                .max_failures
                .is_some_and(|limit| failures > limit.of(total)),
        }
    }

    /// The gate that keeps a cluster from starting, if one does.
    pub(crate) fn gate(&self, policy: &Policy, canary: bool) -> Option<(Reason, &'static str)> {
        if let Some(hold) = policy.hold {
            Some(match hold {
                Hold::Paused => (
                    Reason::Paused,
                    "the upgrade is paused; set spec.paused to false to go on",
                ),
                Hold::Restored => (
                    Reason::Restored,
                    "the upgrade was restored or copied; check it, then run kubectl mcu resume",
                ),
                Hold::InvalidSpec => (
                    Reason::InvalidSpec,
                    "the spec breaks a rule; correct it, condition Stalled names the field",
                ),
            })
        } else if self.canaries == Canaries::Missing {
            Some((
                Reason::NoCanarySelected,
                "spec.upgradeStrategy.canaryClusters.clusterSelector matches no cluster",
            ))
        } else if self.canaries == Canaries::Failed {
            Some((
                Reason::CanaryFailed,
                "a canary failed; mend and retry it, or edit the spec",
            ))
        } else if self.breach {
            Some((
                Reason::MaxFailuresExceeded,
                "more clusters failed than maxFailures allows; mend and retry them, or raise it",
            ))
        } else if !canary && self.canaries == Canaries::Unfinished {
            Some((Reason::WaitingForCanaries, "waits until every canary is complete"))
        } else {
            None
        }
    }

    /// Decides who starts: the indexes of the granted clusters. The others get their reason.
    pub(crate) fn grant(&self, policy: &Policy, fleet: &mut [(&Cluster, Derived)]) -> BTreeSet<usize> {
        let mut granted = BTreeSet::new();
        let mut free = self.size.saturating_sub(self.held);
        for canaries in [true, false] {
            for (index, (cluster, derived)) in fleet.iter_mut().enumerate() {
                let starting = cluster.busy == Some(Busy::Starting);
                let wants = matches!(derived.wish, Wish::Start(_)) && !derived.dropped && !starting;
                if !wants || cluster.canary != canaries {
                    continue;
                }
                // It counts as holding a slot already, for the step that was tried; any other must wait until that is settled.
                if cluster.unsettled.is_some() && !is_repeat(cluster, derived) {
                    continue;
                }
                let verdict = match self.gate(policy, cluster.canary) {
                    Some(shut) => Some(shut),
                    None if cluster.late.is_some() => Some((Reason::WriteFailed, LATE)),
                    None if free == 0 && !cluster.awaits_start() => {
                        Some((Reason::WaitingForSlot, "waits for a free slot of maxConcurrency"))
                    }
                    None => None,
                };
                if let Some((reason, message)) = verdict {
                    if derived.told == Told::Before {
                        derived.explain(reason, message);
                    }
                } else if !derived.held_back {
                    // Clearing the way takes no slot yet, a post-action that is retried none at all.
                    let takes = matches!(derived.wish, Wish::Start(step)
                        if step != Step::PostAction && superseded(cluster, step, true).is_empty());
                    free -= usize::from(takes && !cluster.awaits_start());
                    granted.insert(index);
                }
            }
        }
        granted
    }
}
