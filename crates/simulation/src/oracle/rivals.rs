//! Which upgrade is at work on a cluster, when another one begins there.

use std::time::Duration;

use super::facts::{Cluster, DEAF, Facts, Record, UNHEARD, Upgrade};
use super::memory::Told;
use super::works::Work;

/// Whether a phase says that an upgrade has given its slot back and is not done with the cluster yet.
fn follows_up(phase: &str) -> bool {
    matches!(phase, "Soaking" | "PostAction")
}

impl Facts {
    /// Another upgrade that was at work on the cluster when the start was sent: it had it under way, if only by a row that nobody
    /// else has written, or it was watching it after its update, or in its post-action.
    pub(super) fn at_work(&self, work: &Work, sent: Duration) -> Option<String> {
        let name = &work.cluster;
        let rival = self.upgrades.iter().find(|(uid, other)| {
            let record = other.records.get(name).filter(|record| !record.is_edited);
            let kept = record.and_then(|_| other.kept_by_row(name, sent));
            // A creation of a former leader may have come so late that nobody has heard of it.
            let flight = other
                .flights
                .get(name)
                .filter(|_| !other.is_unheard_stray(name, sent));
            let mut since = flight.copied().into_iter().chain(kept);
            let has_slot = since.any(|since| since <= sent);
            **uid != work.uid && !other.is_gone && (has_slot || self.follows_up(other, name, sent))
        });
        rival.map(|(_, rival)| rival.key.clone())
    }

    /// Whether an upgrade was in the soak or in the post-action of a cluster when something was sent, as its row on the hub said.
    /// Whoever leads begins nothing else there before the hub has a row that says that this is over. Who has just come to lead may
    /// not have heard of a row that arrived since.
    fn follows_up(&self, other: &Upgrade, name: &str, sent: Duration) -> bool {
        let record = other.records.get(name).filter(|record| !record.is_edited);
        let row = record.and_then(Record::row);
        let told = record.and_then(|record| record.told_at(sent));
        let (Some(row), Some(told)) = (row, told) else {
            return false;
        };
        let cluster = self.clusters.get(name);
        let is_the_same = |cluster: &Cluster| {
            let is_there = cluster.is_there && cluster.called(name) == name;
            is_there && !told.is_from_before(cluster.changed)
        };
        let is_heard = sent > told.since + DEAF || !self.has_come_to_lead(told);
        follows_up(&told.phase)
            && is_heard
            && !row.is_newer
            && other.removed.get(name).is_none_or(|(_, at)| *at < told.since)
            && cluster.is_some_and(is_the_same)
            && !self.went_back_before(sent, UNHEARD)
    }

    /// Whether somebody has claimed the Lease while a row was on its way.
    fn has_come_to_lead(&self, told: &Told) -> bool {
        let mut claims = self.claims.iter();
        claims.any(|(at, _)| told.known_at() <= *at && *at <= told.since)
    }
}

#[cfg(test)]
mod tests;
