//! Why clusters failed or wait, in groups of clusters with the same reason and phase. The controller writes the first of these
//! groups into the status; the rows give all of them.

use api::mcu::CauseGroup;
use api::report::ReportRow;
use rollout::Urgency;
use rollout::causes::ClusterCause;

use crate::remedy::Names;
use crate::table::one_line;
use crate::upgrade::Upgrade;

/// The groups of these rows, which are sorted by cluster: first those that need a human, and among these the largest first.
#[must_use]
pub fn of_rows<'a>(upgrade: &Upgrade, rows: impl IntoIterator<Item = &'a ReportRow>) -> Vec<CauseGroup> {
    let clusters = rows.into_iter().map(|row| ClusterCause {
        cluster: &row.cluster,
        phase: row.phase,
        reason: &row.reason,
        message: &row.message,
    });
    group(upgrade, clusters)
}

/// The groups that the status names, for users who may not read reports. An older controller wrote no groups: they are then
/// those of the clusters that it names.
#[must_use]
pub fn of_status(upgrade: &Upgrade) -> Vec<CauseGroup> {
    let Some(status) = &upgrade.status else {
        return Vec::new();
    };
    if !status.causes.is_empty() {
        return status.causes.clone();
    }
    let notes = status.failed_clusters.iter().chain(&status.waiting_clusters);
    let clusters = notes.map(|note| ClusterCause {
        cluster: &note.name,
        phase: note.phase,
        reason: &note.reason,
        message: &note.message,
    });
    group(upgrade, clusters)
}

fn group<'a>(upgrade: &Upgrade, clusters: impl Iterator<Item = ClusterCause<'a>>) -> Vec<CauseGroup> {
    let names = Names {
        namespace: &upgrade.namespace,
        name: &upgrade.name,
        cluster: "",
    };
    let causes = clusters.filter_map(|cause| Some((Urgency::of_row(cause.phase, cause.reason)?, cause)));
    let groups = rollout::causes::groups(causes, names).into_iter();
    let on_one_line = groups.map(|group| CauseGroup {
        reason: one_line(&group.reason),
        example: one_line(&group.example),
        message: one_line(&group.message),
        ..group
    });
    on_one_line.collect()
}

#[cfg(test)]
mod tests;
