//! What a plan makes of the answers that clusters have given before their start.
//!
//! A cluster that has not answered may still answer before its turn comes, so a plan assumes that it takes the update, and counts it.
//! What a cluster has answered is not assumed away: with mode Require it keeps the cluster from starting, and with mode Report the
//! cluster starts and refuses the update itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::lacks_target;
use rollout::{Cluster, Eligibility, Phase, Policy, Preflight, Reason, Selection, Stage};

/// How long ago a cluster must have been asked for the update before a plan believes that it refuses it: a request that has just been
/// written may be invalid for a moment.
const SETTLES_IN: TimeDelta = TimeDelta::minutes(10);

/// What the clusters that have not started have answered, as far as a plan must tell of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Whether only clusters start that would take the update (mode Require).
    pub required: bool,
    /// Clusters that have not been asked yet. The plan assumes that they take the update.
    pub not_asked: usize,
    /// Clusters that have been asked, and of which it is not known whether they take the update. The plan assumes that they do.
    pub not_known: usize,
    /// Clusters among those that have not been asked of which the hub does not say that their work agents can be asked.
    pub unknown_agents: usize,
    /// Clusters whose worker pools the upgrade waits for, and of which the hub does not say that their work agents can be asked.
    pub unknown_for_pools: usize,
    /// Clusters that start although they would refuse the update, or would not finish it, by name. Only with mode Report.
    pub refusals: BTreeMap<Arc<str>, KnownRefusal>,
    /// Clusters that were asked for the update and refuse it, by name, in every mode.
    pub refused: BTreeMap<Arc<str>, KnownRefusal>,
    /// Clusters that would take the update, and have told something that speaks against it. Only with mode Report.
    pub warned: usize,
}

/// Why a cluster would refuse the update, or would not finish it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRefusal {
    /// The cause.
    pub reason: Reason,
    /// What the cluster says.
    pub message: Arc<str>,
}

impl Answers {
    /// Clusters of which a plan only assumes that they take the update.
    #[must_use]
    pub const fn assumed(&self) -> usize {
        self.not_asked + self.not_known
    }

    /// Counts the answer of a cluster that has not started, and returns what the plan takes it for.
    pub(super) fn take(&mut self, cluster: &Arc<str>, answer: Preflight, can_be_asked: bool) -> Preflight {
        match answer {
            Preflight::Ready | Preflight::Stale => {}
            Preflight::NotAsked => {
                self.not_asked += 1;
                self.unknown_agents += usize::from(!can_be_asked);
            }
            Preflight::Unknown {
                reason: Reason::PreflightPending,
                ..
            } => self.not_known += 1,
            Preflight::Unknown { .. } | Preflight::Blocked { .. } if self.required => return answer,
            Preflight::Blocked { reason, message } if is_refusal(reason, &message) => {
                let refusal = KnownRefusal { reason, message };
                self.refusals.insert(Arc::clone(cluster), refusal);
            }
            Preflight::Unknown { .. }
            | Preflight::Blocked {
                reason:
                    Reason::PreflightUnsupported
                    | Reason::PreflightForbidden
                    | Reason::PreflightUnknown
                    | Reason::RiskUnknown
                    | Reason::ChannelDiffers,
                ..
            } => self.not_known += 1,
            Preflight::Blocked { .. } => self.warned += 1,
        }
        Preflight::Ready
    }
}

/// True when the cluster itself refuses an update for this reason, or never finishes it. An update that runs, an operator that fails, and
/// worker pools that are degraded do not make it refuse one. Pools are judged only where the upgrade waits for them, and a paused one does
/// not follow.
fn is_refusal(reason: Reason, message: &str) -> bool {
    match reason {
        Reason::NotOffered
        | Reason::RiskNotAccepted
        | Reason::AdminAckRequired
        | Reason::NotUpgradeable
        | Reason::NewerThanTarget
        | Reason::PoolPaused => true,
        Reason::UpdatesNotRetrieved => lacks_target(message),
        _ => false,
    }
}

/// Why a cluster that was asked for the update has not begun it, if it says that it does not take it. What it says to the request of an
/// earlier spec tells nothing of the present one, and an aborted cluster is asked for nothing any more.
pub(super) fn refusal_of_request(
    cluster: &Cluster,
    policy: &Policy,
    now: DateTime<Utc>,
) -> Option<KnownRefusal> {
    let record = cluster.record.as_deref()?;
    let is_present = record.attempt.revision == policy.revision || cluster.is_asked_for(policy);
    if !is_present || cluster.is_aborted() {
        return None;
    }
    let asked = record.stage(Stage::Platform)?.started;
    let says_no = matches!(
        record.reason,
        Reason::PreflightOnly | Reason::InvalidUpdate | Reason::ReleaseNotAccepted | Reason::NotUpgradeable
    );
    let refuses = record.phase == Phase::Initialized && says_no && now >= asked + SETTLES_IN;
    refuses.then(|| KnownRefusal {
        reason: record.reason,
        message: Arc::clone(&record.message),
    })
}

/// True when a cluster has not started and is asked before it does.
pub(super) fn is_asked(cluster: &Cluster) -> bool {
    let phase = cluster.record.as_ref().map(|record| record.phase);
    let waits = phase.is_none_or(|phase| matches!(phase, Phase::Pending | Phase::Blocked));
    let is_barred = matches!(cluster.eligibility, Eligibility::Blocked { .. });
    waits
        && !is_barred
        && !cluster.is_held_by_another()
        && cluster.selection == Selection::In
        && !cluster.gone
}

/// What the controller has found by its update graph, which only it can see, of a cluster that evaluates another channel: what the row
/// says, if the cluster starts only when it is ready. A cluster that has told a newer version has no probe any more, only its row.
pub(super) fn by_graph(
    cluster: &Cluster,
    policy: &Policy,
    answer: Preflight,
    is_in_other_channel: bool,
) -> Preflight {
    let is_not_asked = answer == Preflight::NotAsked;
    let told = cluster.record.as_deref().filter(|record| {
        let is_in_row = is_in_other_channel || is_not_asked;
        is_in_row && policy.requires_preflight && record.attempt.revision == policy.revision
    });
    let Some(record) = told else {
        return answer;
    };
    let own = match &answer {
        Preflight::Unknown { reason, .. } | Preflight::Blocked { reason, .. } => Some(*reason),
        Preflight::Ready | Preflight::Stale | Preflight::NotAsked => None,
    };
    let is_first = own == Some(Reason::ChannelDiffers);
    let (reason, message) = (record.reason, Arc::clone(&record.message));
    match (record.phase, reason) {
        (Phase::Blocked, Reason::NewerThanTarget) if is_first || is_not_asked => {
            Preflight::Blocked { reason, message }
        }
        (Phase::Blocked, Reason::NotOffered) if is_first || own.is_some_and(comes_after_offer) => {
            Preflight::Blocked { reason, message }
        }
        // The first cause is the cluster's own, and the row has all others.
        (Phase::Blocked, _) if !is_first && own == Some(reason) => Preflight::Blocked { reason, message },
        _ if !is_first => answer,
        (Phase::Blocked, Reason::RiskUnknown) => Preflight::Blocked { reason, message },
        (Phase::Pending, Reason::RiskUnknown) => Preflight::Unknown { reason, message },
        (Phase::Pending | Phase::Blocked, reason) if comes_after_answer(reason) => Preflight::Ready,
        _ => answer,
    }
}

/// True for what a cluster says of itself and a verdict names after `NotOffered`.
const fn comes_after_offer(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::AdminAckRequired
            | Reason::NotUpgradeable
            | Reason::Failing
            | Reason::PoolDegraded
            | Reason::PoolPaused
            | Reason::PreflightForbidden
    )
}

/// True when only a cluster that would take the update waits for this: what it says is looked at before windows, gates and slots.
const fn comes_after_answer(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::WaitingForWindow
            | Reason::NoWindow
            | Reason::Paused
            | Reason::Restored
            | Reason::InvalidSpec
            | Reason::NoCanarySelected
            | Reason::CanaryFailed
            | Reason::MaxFailuresExceeded
            | Reason::WaitingForCanaries
            | Reason::WaitingForApproval
            | Reason::WaitingForSlot
    )
}

#[cfg(test)]
mod tests;
