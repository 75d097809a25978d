//! Clusters that were dropped while the hub's rows still say that they hold slots
//! (`docs/design/rules.md#release-row-first`).

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
}

#[cfg(test)]
mod tests;
