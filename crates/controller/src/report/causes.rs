//! Why clusters failed or wait: the causes of all clusters in groups. Pure.

use api::mcu::CauseGroup;
use rollout::causes::ClusterCause;
use rollout::remedy::Names;
use rollout::{ClusterState, Reason, Record, Urgency};

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

/// The groups to list, and how many are left out. `clusters` is sorted by name.
pub(super) fn groups(clusters: &[ClusterState], names: Names<'_>) -> (Vec<CauseGroup>, usize) {
    let causes = clusters.iter().filter_map(|state| {
        let record = &*state.record;
        let cause = ClusterCause {
            cluster: &state.name,
            phase: record.phase,
            reason: reason_of(record),
            message: &record.message,
        };
        Some((Urgency::of(record.phase, record.reason)?, cause))
    });
    let mut groups = rollout::causes::groups(causes, names);
    let left_out = groups.len().saturating_sub(MAX_GROUPS);
    groups.truncate(MAX_GROUPS);
    for group in &mut groups {
        group.reason = plain(&group.reason);
        group.message = note(&group.message);
        group.remedy = plain(&group.remedy);
    }
    (groups, left_out)
}

#[cfg(test)]
mod tests;
