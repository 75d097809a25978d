//! Why clusters failed or wait: how urgent the cause of one cluster is, and the causes of all clusters in groups. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::mcu::CauseGroup;
use rollout::remedy::{self, Names};
use rollout::{ClusterState, Phase, Reason, Record};

use super::text::{note, plain};

/// Largest number of groups in a status.
const MAX_GROUPS: usize = 20;

/// What a cause needs, in the order in which groups are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    /// The cluster failed, or its pre-action did. Somebody must fix and retry it.
    Failed,
    /// The cluster does not go on before somebody removes what blocks it.
    Blocked,
    /// The cluster could start, but no cluster does before somebody acts.
    Held,
    /// A step does not get on. It may do so by itself.
    Delayed,
    /// The cluster cannot start now. It may be able to later.
    Hindered,
    /// The cluster waits for its turn.
    Queued,
}

impl Urgency {
    /// The urgency of a record; `None` if nothing needs to be explained.
    pub(super) fn of(record: &Record) -> Option<Urgency> {
        let blockers = [Reason::Conflict, Reason::WorkRefused];
        let is_quiet = matches!(record.reason, Reason::Running | Reason::None | Reason::Soaking);
        match record.phase {
            Phase::Failed | Phase::PreActionDegraded => Some(Urgency::Failed),
            Phase::Blocked => Some(Urgency::Blocked),
            Phase::PostAction if blockers.contains(&record.reason) => Some(Urgency::Blocked),
            Phase::PreAction
            | Phase::Initialized
            | Phase::Partial
            | Phase::Operators
            | Phase::PostAction
            | Phase::Soaking => (!is_quiet).then_some(Urgency::Delayed),
            Phase::Pending => match record.reason {
                Reason::None => None,
                Reason::WaitingForSlot | Reason::WaitingForCanaries => Some(Urgency::Queued),
                Reason::CanaryFailed
                | Reason::NoCanarySelected
                | Reason::InvalidSpec
                | Reason::Paused
                | Reason::Restored
                | Reason::MaxFailuresExceeded => Some(Urgency::Held),
                _ => Some(Urgency::Hindered),
            },
            Phase::Complete => None,
        }
    }

    /// Place in the list of waiting clusters. Those that only wait for others come last.
    pub(super) const fn place(self) -> usize {
        match self {
            Urgency::Failed | Urgency::Blocked => 0,
            Urgency::Delayed => 1,
            Urgency::Hindered => 2,
            Urgency::Held | Urgency::Queued => 3,
        }
    }
}

/// The reason of a cluster's cause, which the lists always contain.
pub(super) fn reason_of(record: &Record) -> &str {
    match record.reason_text() {
        "" => Reason::None.as_str(),
        text => text,
    }
}

struct CauseClusters<'a> {
    urgency: Urgency,
    clusters: i64,
    example: &'a ClusterState,
}

/// The groups to list, and how many are left out. `clusters` is sorted by name.
pub(super) fn groups(clusters: &[ClusterState], names: Names<'_>) -> (Vec<CauseGroup>, usize) {
    let mut found: BTreeMap<(Phase, &str), CauseClusters<'_>> = BTreeMap::new();
    for state in clusters {
        let Some(urgency) = Urgency::of(&state.record) else {
            continue;
        };
        let key = (state.record.phase, reason_of(&state.record));
        let group = found.entry(key).or_insert(CauseClusters {
            urgency,
            clusters: 0,
            example: state,
        });
        group.clusters += 1;
    }
    let mut groups: Vec<((Phase, &str), CauseClusters<'_>)> = found.into_iter().collect();
    groups.sort_by_key(|(_, group)| (group.urgency, Reverse(group.clusters)));
    let left_out = groups.len().saturating_sub(MAX_GROUPS);
    let listed = groups.into_iter().take(MAX_GROUPS);
    let listed = listed.map(|((phase, reason), group)| {
        let names = Names {
            cluster: &group.example.name,
            ..names
        };
        CauseGroup {
            reason: plain(reason),
            phase,
            clusters: group.clusters,
            example: group.example.name.to_string(),
            message: note(&group.example.record.message),
            remedy: plain(&remedy::for_cluster(reason, phase, names)),
        }
    });
    (listed.collect(), left_out)
}

#[cfg(test)]
mod tests;
