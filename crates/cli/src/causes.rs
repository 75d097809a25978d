//! Why clusters failed or wait, in groups of clusters with the same reason and phase. The controller writes the first of these
//! groups into the status; the rows give all of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use api::mcu::{CauseGroup, ClusterNote};
use api::report::{Phase, ReportRow};
use rollout::{Reason, Urgency};

use crate::remedy::{self, Names};
use crate::table::one_line;
use crate::upgrade::Upgrade;

/// The urgency of a cluster by its row; `None` if nothing needs to be explained. Rows of a step that gets on have a reason, too.
#[must_use]
pub fn urgency(phase: Phase, reason: &str) -> Option<Urgency> {
    let reason = match reason {
        "" => Reason::None,
        text => Reason::parse(text).unwrap_or(Reason::Other),
    };
    let gets_on = matches!(reason, Reason::Progressing | Reason::JobRunning);
    Urgency::of(phase, reason).filter(|urgency| !(gets_on && *urgency == Urgency::Delayed))
}

/// The groups of these rows, which are sorted by cluster: first those that need a human, and among these the largest first.
#[must_use]
pub fn of_rows<'a>(upgrade: &Upgrade, rows: impl IntoIterator<Item = &'a ReportRow>) -> Vec<CauseGroup> {
    group(
        upgrade,
        rows.into_iter()
            .map(|row| (row.phase, &*row.reason, &*row.cluster, &*row.message)),
    )
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
    let parts = |note: &'_ ClusterNote| {
        (
            note.phase,
            note.reason.clone(),
            note.name.clone(),
            note.message.clone(),
        )
    };
    let parts: Vec<_> = notes.map(parts).collect();
    group(
        upgrade,
        parts
            .iter()
            .map(|(phase, reason, name, message)| (*phase, &**reason, &**name, &**message)),
    )
}

fn group<'a>(
    upgrade: &Upgrade,
    clusters: impl Iterator<Item = (Phase, &'a str, &'a str, &'a str)>,
) -> Vec<CauseGroup> {
    let mut found: BTreeMap<(Phase, &str), (Urgency, CauseGroup)> = BTreeMap::new();
    for (phase, reason, cluster, message) in clusters {
        let Some(urgency) = urgency(phase, reason) else {
            continue;
        };
        let (_, group) = found.entry((phase, reason)).or_insert_with(|| {
            let names = Names {
                namespace: &upgrade.namespace,
                name: &upgrade.name,
                cluster,
            };
            let group = CauseGroup {
                reason: one_line(reason),
                phase,
                clusters: 0,
                example: one_line(cluster),
                message: one_line(message),
                remedy: remedy::for_cluster(reason, phase, names),
            };
            (urgency, group)
        });
        group.clusters += 1;
    }
    let mut groups: Vec<(Urgency, CauseGroup)> = found.into_values().collect();
    groups.sort_by_key(|(urgency, group)| (*urgency, Reverse(group.clusters)));
    groups.into_iter().map(|(_, group)| group).collect()
}

#[cfg(test)]
mod tests;
