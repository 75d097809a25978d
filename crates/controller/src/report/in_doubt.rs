//! Records that were sent and have no response yet: the hub may hold them
//! (`docs/design/rules.md#release-row-first`, `docs/design/rules.md#refused-rows`).

use std::sync::Arc;

use api::report::MAX_ROWS;
use api::stored::StoredRows;
use observe::record::to_record;
use rollout::Record;

use super::row::{Row, to_row};
use super::rows::{Rows, by_cluster};
use super::shard::ShardWrite;

/// Most records of a shard that are remembered.
const MAX_IN_DOUBT: usize = 4 * MAX_ROWS;

impl Rows {
    /// Records that a write is being sent. All writes that are repeated replace the same copy, and each of them changes it, so the hub
    /// carries out one of them at most.
    pub(super) fn note_in_doubt(&mut self, due: &ShardWrite) {
        let in_doubt = &mut self.shards[due.shard].in_doubt;
        let before = in_doubt.len();
        let former = due.former.iter();
        let former = former.filter_map(|(cluster, record)| Some((cluster, record.as_ref()?)));
        let records = due.records.iter().map(|(cluster, record)| (cluster, record));
        for (cluster, record) in records.chain(former) {
            if record.phase.holds_slot()
                && let Some(row) = self.by_cluster.get_mut(cluster)
            {
                row.slot_in_doubt = true;
            }
            let mut known = in_doubt[..before].iter();
            let is_known = known.any(|(name, known)| name == cluster && Arc::ptr_eq(known, record));
            if in_doubt.len() < MAX_IN_DOUBT && !is_known {
                in_doubt.push((Arc::clone(cluster), Arc::clone(record)));
            }
        }
    }

    /// Handles that the hub holds none of the records of a shard that were sent without a response, except for the `first`
    /// ones.
    pub(super) fn forget_in_doubt(&mut self, shard: usize, first: usize) {
        let in_doubt = &mut self.shards[shard].in_doubt;
        let settled: Vec<(Arc<str>, Arc<Record>)> = in_doubt.drain(first.min(in_doubt.len())..).collect();
        for (cluster, _) in settled {
            if let Some(row) = self.by_cluster.get_mut(&cluster).filter(|row| row.shard == shard) {
                let mut left = in_doubt.iter().filter(|(name, _)| *name == cluster);
                row.slot_in_doubt = left.any(|(_, record)| record.phase.holds_slot());
            }
        }
    }

    /// True when the hub may hold the row of a cluster in the shard of that row.
    pub(super) fn may_be_held(&self, cluster: &str, row: &Row) -> bool {
        let shard = &self.shards[row.shard];
        let mut in_doubt = shard.in_doubt.iter();
        row.stored.is_some()
            || shard.disowned
            || shard.in_doubt.len() >= MAX_IN_DOUBT
            || in_doubt.any(|(name, _)| **name == *cluster)
    }

    /// Notes the records that the hub has accepted, although somebody else may have changed the report since.
    pub(super) fn note_accepted(&mut self, due: &ShardWrite) {
        for ((cluster, record), target) in due.records.iter().zip(&due.targets) {
            if let Some(row) = self.by_cluster.get_mut(cluster)
                && row.shard == due.shard
            {
                row.stored = Some(Arc::clone(record));
                row.stored_target = Arc::clone(target);
            }
        }
    }

    /// Finds in the hub's copy of a shard the records that were sent without a response. Those that are there were
    /// accepted, so that a rejection does not set their rows back to an earlier record.
    pub(super) fn confirm_in_doubt(&mut self, shard: usize, rows: &StoredRows) {
        let in_doubt = self.shards[shard].in_doubt.clone();
        self.forget_in_doubt(shard, 0);
        if in_doubt.is_empty() {
            return;
        }
        let held = by_cluster(rows);
        for (cluster, sent) in in_doubt {
            let (Some(row), Some(held)) = (self.by_cluster.get_mut(&cluster), held.get(&*cluster)) else {
                continue;
            };
            if row.shard == shard && to_record(held) == to_record(&to_row(&cluster, row, &sent)) {
                row.stored = Some(sent);
                row.stored_target = Arc::from(held.to_version.as_str());
            }
        }
    }
}
