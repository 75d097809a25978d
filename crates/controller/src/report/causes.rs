//! Why clusters failed or wait: the causes of all clusters in groups. Pure.

use api::mcu::CauseGroup;
use api::report::Phase;
use rollout::causes::ClusterCause;
use rollout::remedy::Names;
use rollout::{ClusterState, Reason, Record, Urgency};

use super::input::Warned;
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

/// The groups to list, and how many are left out. Both lists are sorted by name. A cluster that only waits for its turn is listed with
/// what it says to the update, if that is no good.
pub(super) fn groups(
    clusters: &[ClusterState],
    warned: &[Warned<'_>],
    names: Names<'_>,
) -> (Vec<CauseGroup>, usize) {
    let warning = |state: &ClusterState| {
        let found = warned.binary_search_by(|one| one.cluster.cmp(&state.name));
        found.ok().map(|index| &warned[index])
    };
    let causes = clusters.iter().filter_map(|state| {
        let record = &*state.record;
        if let Some(warning) = warning(state).filter(|_| record.phase == Phase::Pending) {
            let cause = ClusterCause {
                cluster: &state.name,
                phase: record.phase,
                reason: warning.reason.as_str(),
                message: warning.message,
            };
            return Some((Urgency::Held, cause));
        }
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
