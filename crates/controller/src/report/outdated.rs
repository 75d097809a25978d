//! Rows that the hub may still hold although their clusters were dropped or moved to another report: slots that they
//! hold (`docs/design/rules.md#release-row-first`), and the shards in which they are
//! (`docs/design/rules.md#report-shards`). Late creations may bring them back (`docs/design/rules.md#late-report-writes`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahash::AHashMap;
use api::report::ReportRow;
use observe::record::to_record;
use rollout::Record;

use super::row::Row;
use super::rows::Rows;
use super::shard::{ReportShard, ShardWrite};

impl Rows {
    /// The clusters without a row that hold slots by a row that the hub may have.
    #[must_use]
    pub fn unreleased(&self) -> Vec<&Arc<str>> {
        let outdated = self.outdated.keys();
        outdated.filter(|cluster| self.is_unreleased(cluster)).collect()
    }

    /// True when the cluster has no row and holds a slot by one that the hub may have.
    #[must_use]
    pub fn is_unreleased(&self, cluster: &str) -> bool {
        let mut shards = self.outdated.get(cluster).into_iter().flatten();
        !self.by_cluster.contains_key(cluster)
            && shards.any(|(shard, record)| record.is_some() && self.shards[*shard].may_exist())
    }

    /// The clusters that were dropped, in the order of their names, while the hub may still have their rows from before, by which they
    /// hold no slots. A cluster that is back has such a row until its own one is written in the same report.
    #[must_use]
    pub fn unremoved(&self) -> Vec<&Arc<str>> {
        let is_unremoved = |cluster: &str, shards: &BTreeMap<usize, Option<Arc<Record>>>| {
            let may_be_in = |shard: usize| shards.contains_key(&shard) && self.shards[shard].may_exist();
            let may_be_there = match self.by_cluster.get(cluster) {
                Some(row) => may_be_in(row.shard),
                None => shards.keys().any(|shard| may_be_in(*shard)),
            };
            may_be_there && shards.values().all(Option::is_none)
        };
        let outdated = self.outdated.iter();
        let unremoved = outdated.filter(|(cluster, shards)| is_unremoved(cluster, shards));
        unremoved.map(|(cluster, _)| cluster).collect()
    }

    /// The record by which the row of a cluster may hold a slot on the hub. A write without a response may have taken
    /// effect.
    fn slot_on_hub(&self, cluster: &str, row: &Row) -> Option<Arc<Record>> {
        let known = row.written.as_ref().or(row.stored.as_ref());
        let latest = known.map(|_| &row.record);
        let in_doubt = self.shards[row.shard].in_doubt.iter();
        let sent = in_doubt.filter(|(name, _)| **name == *cluster);
        let mut records = known
            .into_iter()
            .chain(latest)
            .chain(sent.map(|(_, record)| record));
        records.find(|record| record.phase.holds_slot()).cloned()
    }

    /// Handles that a cluster has this row no more, although the hub may still have it. Returns true if the cluster may
    /// hold a slot by that row or an earlier one.
    pub(super) fn abandon(&mut self, cluster: &Arc<str>, row: &Row) -> bool {
        let slot = self.slot_on_hub(cluster, row);
        self.note_outdated(cluster, row.shard, slot);
        let shards = self.outdated.get(cluster).into_iter().flatten();
        shards.filter(|(_, record)| record.is_some()).count() > 0
    }

    /// Handles that the hub may hold an outdated row of a cluster in this shard. `slot`: the record by which that row holds
    /// a slot.
    pub(super) fn note_outdated(&mut self, cluster: &Arc<str>, shard: usize, slot: Option<Arc<Record>>) {
        let shards = self.outdated.entry(Arc::clone(cluster)).or_default();
        let known = shards.entry(shard).or_default();
        if slot.is_some() {
            *known = slot;
        }
    }

    /// The lowest shard that may get a row of the cluster: not lower than one in which the hub may still hold another
    /// row of it, because the row in the highest shard counts.
    pub(super) fn lowest_shard(&self, cluster: &str) -> usize {
        let shards = self.outdated.get(cluster);
        shards
            .and_then(BTreeMap::last_key_value)
            .map_or(0, |(shard, _)| *shard)
    }

    /// True while the hub may know a cluster by this shard alone: the cluster has moved from it, and the hub has not accepted
    /// its row in another shard yet. Until then the shard is not written, because that would lose the row.
    pub(super) fn is_needed(&self, shard: usize) -> bool {
        let entry = &self.shards[shard];
        let is_unwritten = |cluster: &str| {
            let row = self.by_cluster.get(cluster);
            // Rows that cannot be read stay in their own shards.
            row.is_some_and(|row| row.shard != shard && row.stored.is_none() && !row.record.unreadable)
        };
        let mut outdated = self.outdated.iter();
        entry.is_left
            && entry.exists()
            && outdated.any(|(cluster, shards)| shards.contains_key(&shard) && is_unwritten(cluster))
    }

    /// The record by which a cluster without a row holds a slot on the hub.
    pub(super) fn outdated_slot(&self, cluster: &str) -> Option<Arc<Record>> {
        latest_slot(self.outdated.get(cluster)?)
    }

    /// Handles that a shard on the hub has rows of clusters whose own rows are in lower shards: a creation that a former leader
    /// sent was carried out late. The row in the highest shard counts, so that one is the written one until the shard is
    /// corrected, which is urgent.
    pub(super) fn note_overtaken(&mut self, shard: usize, held: &AHashMap<&str, &ReportRow>, now: Instant) {
        for (cluster, row) in self.by_cluster.iter_mut().filter(|(_, row)| row.shard < shard) {
            let Some(found) = held.get(&**cluster).filter(|_| !row.record.unreadable) else {
                continue;
            };
            let record = Arc::new(to_record(found));
            let known = self.outdated.entry(Arc::clone(cluster)).or_default();
            known.insert(shard, slot_of(&record));
            if known.last_key_value().is_some_and(|(last, _)| *last == shard) {
                row.written = Some(record);
            }
            self.shards[shard].mark(now, true);
        }
    }

    /// Handles that a write of a shard took effect: the hub holds its rows only.
    pub(super) fn forget_outdated(&mut self, due: &ShardWrite, now: Instant) {
        if self.outdated.is_empty() {
            return;
        }
        let sent = due.clusters.iter().map(|cluster| (cluster, None));
        let mut sent: AHashMap<_, _> = sent.collect();
        sent.extend(
            due.records
                .iter()
                .map(|(cluster, record)| (cluster, Some(record))),
        );
        let rows = &mut self.by_cluster;
        let known = &mut self.shards;
        self.outdated.retain(|cluster, shards| {
            let current = rows.get(cluster).is_some_and(|row| row.shard == due.shard);
            match sent.get(cluster) {
                // The write may have begun before the cluster was dropped or moved.
                Some(record) if !current => {
                    if let (Some(slot), Some(record)) = (shards.get_mut(&due.shard), record) {
                        let before = std::mem::replace(slot, slot_of(record));
                        forget_slot(rows, cluster, due.shard, before.as_ref(), shards);
                    }
                }
                _ => {
                    if let Some(slot) = shards.remove(&due.shard) {
                        write_again(rows, known, cluster, due.shard, now);
                        forget_slot(rows, cluster, due.shard, slot.as_ref(), shards);
                    }
                }
            }
            !shards.is_empty()
        });
    }

    /// Handles that the rows of a shard on the hub are these.
    pub(super) fn settle_outdated(&mut self, shard: usize, held: &AHashMap<&str, &ReportRow>, now: Instant) {
        let rows = &mut self.by_cluster;
        let known = &mut self.shards;
        self.outdated.retain(|cluster, shards| {
            if let Some(slot) = shards.get_mut(&shard) {
                if let Some(row) = held.get(&**cluster) {
                    let before = std::mem::replace(slot, slot_of(&Arc::new(to_record(row))));
                    forget_slot(rows, cluster, shard, before.as_ref(), shards);
                } else {
                    let slot = shards.remove(&shard).flatten();
                    write_again(rows, known, cluster, shard, now);
                    forget_slot(rows, cluster, shard, slot.as_ref(), shards);
                }
            }
            !shards.is_empty()
        });
    }
}

/// Handles that a shard has no row of a cluster any more. If the cluster's own row is in a lower shard, that one is written again:
/// only then it is known what the hub holds there.
fn write_again(
    rows: &BTreeMap<Arc<str>, Row>,
    shards: &mut [ReportShard],
    cluster: &str,
    shard: usize,
    now: Instant,
) {
    if let Some(row) = rows.get(cluster).filter(|row| row.shard < shard) {
        shards[row.shard].mark(now, true);
    }
}

/// Handles that a shard does not have the row any more by which a cluster held this slot. If that row counted as the written one of a
/// cluster that is back or has moved, because the hub has not accepted another one since, what the hub may still have counts.
fn forget_slot(
    rows: &mut BTreeMap<Arc<str>, Row>,
    cluster: &str,
    shard: usize,
    slot: Option<&Arc<Record>>,
    shards: &BTreeMap<usize, Option<Arc<Record>>>,
) {
    let (Some(row), Some(slot)) = (rows.get_mut(cluster), slot) else {
        return;
    };
    let counts = |written: &Arc<Record>| Arc::ptr_eq(written, slot);
    if shard <= row.shard && row.stored.is_none() && row.written.as_ref().is_some_and(counts) {
        row.written = latest_slot(shards);
    }
}

/// The record of the highest shard by which a cluster holds a slot.
fn latest_slot(shards: &BTreeMap<usize, Option<Arc<Record>>>) -> Option<Arc<Record>> {
    shards.values().rev().find_map(Clone::clone)
}

/// The record if it holds a slot.
pub(super) fn slot_of(record: &Arc<Record>) -> Option<Arc<Record>> {
    record.phase.holds_slot().then(|| Arc::clone(record))
}

#[cfg(test)]
mod tests;
