//! Rows that the hub may still hold although their clusters were dropped or moved: slots that they hold
//! (`docs/design/rules.md#release-row-first`), and the shards in which they are
//! (`docs/design/rules.md#report-shards`).

use std::collections::BTreeSet;
use std::sync::Arc;

use rollout::Record;

use super::row::Row;
use super::rows::Rows;
use super::shard::{Dropped, ShardWrite};

impl Rows {
    /// Number of slots that the hub's rows of dropped clusters hold.
    #[must_use]
    pub fn unreleased(&self) -> usize {
        let dropped = self.dropped.iter();
        dropped
            .filter(|dropped| self.shards[dropped.shard].exists())
            .count()
    }

    /// Handles that a cluster is dropped. Returns true if its row on the hub may hold a slot.
    pub(super) fn note_dropped(&mut self, cluster: &Arc<str>, row: &Row) -> bool {
        let Some(known) = row.written.as_ref().or(row.stored.as_ref()) else {
            return false;
        };
        // The response to the write of the last record may have been lost.
        let mut rows = [known, &row.record].into_iter();
        let Some(record) = rows.find(|record| record.phase.holds_slot()) else {
            return false;
        };
        self.dropped.push(Dropped {
            cluster: Arc::clone(cluster),
            shard: row.shard,
            record: Arc::clone(record),
        });
        true
    }

    /// Handles that a dropped cluster gets a row again. Returns the record that holds a slot, if the hub may have one.
    pub(super) fn rejoined(&mut self, cluster: &Arc<str>) -> Option<Arc<Record>> {
        let found = self
            .dropped
            .iter()
            .position(|dropped| dropped.cluster == *cluster)?;
        Some(self.dropped.swap_remove(found).record)
    }

    /// Handles that a write of a shard took effect: clusters whose rows it does not have hold no slots any more.
    pub(super) fn release_dropped(&mut self, due: &ShardWrite) {
        // The write may have begun before the cluster was dropped.
        let sent = |dropped: &Dropped| {
            let mut records = due.records.iter();
            records.any(|(cluster, record)| *cluster == dropped.cluster && record.phase.holds_slot())
        };
        self.dropped
            .retain(|dropped| dropped.shard != due.shard || sent(dropped));
    }

    /// Handles that a cluster has no row in this shard any more, although the hub may still hold one.
    pub(super) fn note_outdated(&mut self, cluster: &str, shard: usize) {
        if let Some(shards) = self.outdated.get_mut(cluster) {
            shards.insert(shard);
        } else {
            self.outdated.insert(Arc::from(cluster), [shard].into());
        }
    }

    /// The lowest shard that may get a row of the cluster: not lower than one in which the hub may still hold
    /// another row of it, because the row in the highest shard counts.
    pub(super) fn lowest_shard(&self, cluster: &str) -> usize {
        let shards = self.outdated.get(cluster);
        shards.and_then(BTreeSet::last).copied().unwrap_or(0)
    }

    /// Handles that a write of a shard took effect: the hub holds its rows only.
    pub(super) fn forget_outdated(&mut self, due: &ShardWrite) {
        if self.outdated.is_empty() {
            return;
        }
        let sent: BTreeSet<&Arc<str>> = due.clusters.iter().collect();
        self.outdated.retain(|cluster, shards| {
            if !sent.contains(cluster) {
                shards.remove(&due.shard);
            }
            !shards.is_empty()
        });
    }
}

#[cfg(test)]
mod tests;
