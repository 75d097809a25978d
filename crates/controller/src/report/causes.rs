//! Why clusters failed or wait: the causes of all clusters in groups. Pure.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::mcu::CauseGroup;
use rollout::remedy::{self, Names};
use rollout::{ClusterState, Phase, Reason, Record, Urgency};

use super::text::{note, plain};

/// Largest number of groups in a status.
const MAX_GROUPS: usize = 20;

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
        let Some(urgency) = Urgency::of(state.record.phase, state.record.reason) else {
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
