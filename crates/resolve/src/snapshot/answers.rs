//! What a plan makes of the answers that clusters have given before their start.
//!
//! A cluster that has not answered may still answer before its turn comes, so a plan assumes that it takes the update, and counts it.
//! What a cluster has answered is not assumed away: with mode Require it keeps the cluster from starting, and with mode Report the
//! cluster starts and refuses the update itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use clusterversion::preflight::lacks_target;
use rollout::{Cluster, Eligibility, Phase, Policy, Preflight, Reason, Selection};

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
    /// Clusters that start although they would refuse the update, or would not finish it, by name. Only with mode Report.
    pub refusals: BTreeMap<Arc<str>, KnownRefusal>,
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
pub(super) fn by_graph(cluster: &Cluster, policy: &Policy, answer: Preflight) -> Preflight {
    let is_in_other_channel = matches!(
        answer,
        Preflight::Unknown {
            reason: Reason::ChannelDiffers,
            ..
        } | Preflight::Blocked {
            reason: Reason::ChannelDiffers,
            ..
        }
    );
    let is_not_asked = answer == Preflight::NotAsked;
    let told = cluster.record.as_deref();
    let told = told.filter(|record| {
        let is_in_row = is_in_other_channel || is_not_asked;
        is_in_row && policy.requires_preflight && record.attempt.revision == policy.revision
    });
    let Some(record) = told else {
        return answer;
    };
    let (reason, message) = (record.reason, Arc::clone(&record.message));
    match (record.phase, reason) {
        (Phase::Blocked, Reason::NewerThanTarget) => Preflight::Blocked { reason, message },
        _ if is_not_asked => answer,
        (Phase::Blocked, Reason::NotOffered | Reason::RiskUnknown) => Preflight::Blocked { reason, message },
        (Phase::Pending, Reason::RiskUnknown) => Preflight::Unknown { reason, message },
        (Phase::Pending, Reason::WaitingForSlot | Reason::WaitingForCanaries | Reason::Paused) => {
            Preflight::Ready
        }
        _ => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_other_channel(phase: Phase, reason: Reason) -> Preflight {
        let answer = Preflight::Unknown {
            reason: Reason::ChannelDiffers,
            message: Arc::from("another channel"),
        };
        with_row(phase, reason, answer)
    }

    /// What is made of an answer of a cluster with this row.
    fn with_row(phase: Phase, reason: Reason, answer: Preflight) -> Preflight {
        let mut fleet = rollout::testing::fleet().cluster("c1").build();
        let mut record: rollout::Record = rollout::testing::record(phase).reason(reason).into();
        let policy = rollout::testing::policy().requires_preflight().build();
        record.attempt.revision = Arc::clone(&policy.revision);
        fleet.clusters[0].record = Some(Arc::new(record));
        by_graph(&fleet.clusters[0], &policy, answer)
    }

    #[test]
    fn what_the_controller_knows_of_another_channel_is_taken_from_the_row() {
        let is_ready = |reason| in_other_channel(Phase::Pending, reason) == Preflight::Ready;
        assert!(is_ready(Reason::WaitingForSlot) && is_ready(Reason::Paused));
        assert!(!is_ready(Reason::ChannelDiffers) && !is_ready(Reason::PreflightPending));
        let not_offered = in_other_channel(Phase::Blocked, Reason::NotOffered);
        assert!(
            matches!(
                not_offered,
                Preflight::Blocked {
                    reason: Reason::NotOffered,
                    ..
                }
            ),
            "{not_offered:?}"
        );
    }

    #[test]
    fn a_cluster_that_has_told_a_newer_version_is_not_taken_for_one_that_was_not_asked() {
        let of = |reason| with_row(Phase::Blocked, reason, Preflight::NotAsked);
        let newer = of(Reason::NewerThanTarget);
        assert!(
            matches!(
                newer,
                Preflight::Blocked {
                    reason: Reason::NewerThanTarget,
                    ..
                }
            ),
            "{newer:?}"
        );
        assert_eq!(of(Reason::NotOffered), Preflight::NotAsked);
    }

    /// What a plan with mode Report makes of a cluster that is blocked: 1 is a refusal, 2 a warning, 3 something that is not known.
    fn taken(reason: Reason, message: &str) -> usize {
        let mut answers = Answers::default();
        let message = Arc::from(message);
        let answer = Preflight::Blocked { reason, message };
        assert_eq!(answers.take(&Arc::from("c1"), answer, true), Preflight::Ready);
        answers.refusals.len() + 2 * answers.warned + 3 * answers.not_known
    }

    #[test]
    fn with_mode_report_a_plan_knows_which_clusters_would_not_finish() {
        let retrieved = "RetrievedUpdates=False: RemoteFailed: no route";
        let not_listed = format!("The cluster does not list 4.14.12: {retrieved}");
        for (reason, message, expected) in [
            (Reason::NotOffered, "", 1),
            (Reason::UpdatesNotRetrieved, &*not_listed, 1),
            (Reason::UpdatesNotRetrieved, retrieved, 2),
            (Reason::PoolPaused, "MachineConfigPool is paused: worker", 1),
            (Reason::PoolDegraded, "MachineConfigPool is degraded: worker", 2),
            (Reason::Updating, "", 2),
            (Reason::Failing, "", 2),
            (Reason::RiskUnknown, "", 3),
        ] {
            assert_eq!(taken(reason, message), expected, "{reason:?} {message}");
        }
    }

    /// It does not become known by waiting longer than the timeout.
    #[test]
    fn with_mode_report_what_has_been_unknown_for_long_is_no_warning() {
        let mut answers = Answers::default();
        for reason in [
            Reason::PreflightUnknown,
            Reason::PreflightUnsupported,
            Reason::RiskUnknown,
            Reason::ChannelDiffers,
        ] {
            let answer = Preflight::Blocked {
                reason,
                message: Arc::from(""),
            };
            assert_eq!(answers.take(&Arc::from("c1"), answer, true), Preflight::Ready);
        }
        assert_eq!((answers.not_known, answers.warned), (4, 0));
    }
}
