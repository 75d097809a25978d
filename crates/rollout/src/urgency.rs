//! How urgent the cause is for which a cluster failed or waits. The status and the plugin list causes in this order.

use api::report::Phase;

use crate::model::Reason;

/// What a cause needs, in the order in which groups are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// The cluster failed, or its pre-action did. Somebody must fix and retry it.
    Failed,
    /// The cluster does not go on before somebody removes what blocks it.
    Blocked,
    /// The cluster could start, but no cluster does before somebody acts.
    Held,
    /// A step makes no progress. It may do so later by itself.
    Delayed,
    /// The cluster cannot start now. It may be able to later.
    Hindered,
    /// The cluster fetches the release, as each does for some minutes. Nobody needs to act.
    Fetching,
    /// The cluster waits for its turn.
    Queued,
}

impl Urgency {
    /// The urgency of a cluster in this phase for this reason; `None` if nothing needs to be explained. A step that makes progress has a
    /// reason, too, but it holds nothing up: who reads causes looks for what needs attention.
    #[must_use]
    pub fn of(phase: Phase, reason: Reason) -> Option<Urgency> {
        let blockers = [Reason::Conflict, Reason::WorkRefused];
        let gets_on = matches!(
            reason,
            Reason::None | Reason::Running | Reason::Progressing | Reason::JobRunning | Reason::Soaking
        );
        match phase {
            Phase::Failed | Phase::PreActionDegraded => Some(Urgency::Failed),
            Phase::Blocked => Some(Urgency::Blocked),
            Phase::PostAction if blockers.contains(&reason) => Some(Urgency::Blocked),
            Phase::Initialized if reason == Reason::RetrievingRelease => Some(Urgency::Fetching),
            Phase::PreAction
            | Phase::Initialized
            | Phase::Partial
            | Phase::Workers
            | Phase::Operators
            | Phase::PostAction
            | Phase::Soaking => (!gets_on).then_some(Urgency::Delayed),
            Phase::Pending => match reason {
                Reason::None => None,
                Reason::WaitingForSlot | Reason::WaitingForCanaries | Reason::WaitingForWindow => {
                    Some(Urgency::Queued)
                }
                Reason::CanaryFailed
                | Reason::WaitingForApproval
                | Reason::NoCanarySelected
                | Reason::InvalidSpec
                | Reason::Paused
                | Reason::Restored
                | Reason::MaxFailuresExceeded => Some(Urgency::Held),
                _ => Some(Urgency::Hindered),
            },
            Phase::Complete | Phase::Skipped | Phase::Aborted => None,
        }
    }

    /// The urgency of a cluster whose reason is a text, as in its row. A reason of a newer release needs to be explained.
    #[must_use]
    pub fn of_row(phase: Phase, reason: &str) -> Option<Urgency> {
        let reason = match reason {
            "" => Reason::None,
            text => Reason::parse(text).unwrap_or(Reason::Other),
        };
        Urgency::of(phase, reason)
    }

    /// Place in the list of waiting clusters. Those that only wait for others come last.
    #[must_use]
    pub const fn place(self) -> usize {
        match self {
            Urgency::Failed | Urgency::Blocked => 0,
            Urgency::Delayed => 1,
            Urgency::Hindered => 2,
            Urgency::Held | Urgency::Fetching | Urgency::Queued => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_gets_on_is_no_cause_and_one_that_does_not_is_delayed() {
        for phase in [
            Phase::PreAction,
            Phase::Partial,
            Phase::Operators,
            Phase::PostAction,
        ] {
            for reason in ["", "None", "Running", "Progressing", "JobRunning"] {
                assert_eq!(Urgency::of_row(phase, reason), None, "{phase}: {reason}");
            }
            for reason in ["Failing", "JobFailing", "AgentSilent", "OfANewerRelease"] {
                assert_eq!(
                    Urgency::of_row(phase, reason),
                    Some(Urgency::Delayed),
                    "{phase}: {reason}"
                );
            }
        }
        // Or the many that have just started would stand before the one that needs somebody.
        let fetching = Urgency::of_row(Phase::Initialized, "RetrievingRelease").unwrap();
        assert!(fetching > Urgency::Delayed && fetching > Urgency::Hindered);
        assert!(fetching.place() > Urgency::Hindered.place());
        assert_eq!(
            Urgency::of_row(Phase::Failed, "Progressing"),
            Some(Urgency::Failed)
        );
    }
}
