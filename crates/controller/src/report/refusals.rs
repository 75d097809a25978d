//! Handles rows that violate the hub's schema. It finds and reports them, and sends their last accepted
//! content instead, so that they do not block the other rows.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::message::join;
use rollout::Record;

use super::rows::Rows;
use super::shard::{Refusals, Refused, ShardWrite};

/// Time after which a rejected row is sent again, because the schema may have been fixed.
const RETRY_AFTER: Duration = Duration::from_mins(5);
/// Forbidden writes in a row after which a report that the hub forbids is told. By the waits between them that is after a minute or more.
const LASTING_FAILURES: u32 = 6;

impl Rows {
    /// Number of rows that the hub rejects.
    #[must_use]
    pub fn refused_count(&self) -> usize {
        self.refusals.len() + self.shards.iter().filter(|shard| shard.refused.is_some()).count()
    }

    /// Describes the rejected rows: the first one, and how many more there are.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let (cluster, refused) = if let Some((cluster, refused)) = self.refusals.iter().next() {
            (format!("the record of cluster {cluster}"), &refused.text)
        } else {
            let position = self.shards.iter().position(|shard| shard.refused.is_some())?;
            let text = self.shards[position].refused.as_ref()?;
            (format!("report {}", self.report_name(position)), text)
        };
        let more = match self.refused_count() {
            0 | 1 => String::new(),
            2 => "It rejects 1 more record".to_owned(),
            number => format!("It rejects {} more records", number - 1),
        };
        let first = format!("The hub rejects {cluster}: {refused}");
        Some(join([first.as_str(), &more]))
    }

    /// True while the record of the cluster is still the one that was rejected, and it is not tried again.
    pub(super) fn is_refused(&self, cluster: &str, record: &Arc<Record>) -> bool {
        is_rejected(&self.refusals, cluster, record)
    }

    /// Handles that the hub rejected a shard. `named`: the rows that the message names by position.
    /// `about_rows`: the message may be about rows. If it names no row, the rejected one is found by
    /// bisection.
    pub fn refused(&mut self, due: &ShardWrite, named: &[usize], about_rows: bool, text: &str, now: Instant) {
        if due.term != self.term || self.shards.len() <= due.shard {
            return;
        }
        let text: Arc<str> = Arc::from(api::text::cut(text, 512));
        let entry = &mut self.shards[due.shard];
        entry.writing = false;
        let seen = std::mem::take(&mut entry.seen);
        let differs = seen.version > entry.copy.version;
        self.forget_in_doubt(due.shard, due.in_doubt);
        if differs {
            // Another write took effect meanwhile. The next one conflicts with it, and then it is read.
            self.disown(due.shard, None, now);
        }
        let blamed: Vec<&(Arc<str>, Arc<Record>)> = match due.unproven.as_slice() {
            _ if !about_rows => Vec::new(),
            [only] if named.is_empty() => vec![only],
            unproven => {
                let blamed: Vec<&Arc<str>> = named.iter().filter_map(|at| due.clusters.get(*at)).collect();
                let is_named = |name: &Arc<str>| blamed.contains(&name);
                unproven.iter().filter(|(name, _)| is_named(name)).collect()
            }
        };
        let search = about_rows && named.is_empty() && due.unproven.len() > 1;
        if blamed.is_empty() && !search {
            let shard = &mut self.shards[due.shard];
            shard.refused = Some(Arc::clone(&text));
            shard.fail(now);
            if about_rows {
                self.close_shard(due.shard, now);
            }
            return;
        }
        let max_rows = if blamed.is_empty() {
            Some(due.unproven.len() / 2)
        } else {
            self.shards[due.shard].max_rows
        };
        for (cluster, record) in blamed {
            tracing::warn!(
                cluster = &**cluster,
                error = &*text,
                "the hub rejects the record of a cluster"
            );
            let row = self.by_cluster.get(cluster);
            if row.is_none_or(|row| row.shard != due.shard) {
                // It was dropped during the write, so no later write of this shard would tell that nothing is rejected any more.
                continue;
            }
            let refused = Refused {
                record: Arc::clone(record),
                text: Arc::clone(&text),
                shard: due.shard,
                is_tried: false,
            };
            self.refusals.insert(Arc::clone(cluster), refused);
        }
        let shard = &mut self.shards[due.shard];
        // What is rejected later does not put off what was rejected before.
        shard.retry_at.get_or_insert(now + RETRY_AFTER);
        shard.search(now, max_rows);
        self.hold_former(due.shard);
    }

    /// Handles that the hub forbids a write of a shard, for example because of a quota. If that lasts, only a human can permit it, and
    /// the upgrade must not look as if its records were stored. What failed for other causes before does not count: an API server may
    /// forbid everything for a moment when an outage ends.
    pub fn forbidden(&mut self, due: &ShardWrite, text: &str, now: Instant) {
        let known = self.shards.get(due.shard).map_or(0, |shard| shard.forbidden);
        self.failed(due, now);
        if let Some(shard) = self.shards.get_mut(due.shard).filter(|_| due.term == self.term) {
            shard.forbidden = known.saturating_add(1);
            if shard.forbidden >= LASTING_FAILURES {
                shard.refused = Some(Arc::from(api::text::cut(text, 512)));
            }
        }
    }

    /// A row whose record is rejected, or waits for the next step of a search, is written in the form that the hub accepted
    /// last. If its cluster holds a slot in that form, it holds the slot from now on, even if the hub holds a later row by
    /// which the slot is free: another cluster could otherwise start just before the next write sets the row back.
    pub(super) fn hold_former(&mut self, shard: usize) {
        let is_searched = self.shards[shard].max_rows.is_some();
        let refusals = &self.refusals;
        for (cluster, row) in self.by_cluster.iter_mut().filter(|(_, row)| row.shard == shard) {
            let Some(stored) = row.stored.as_ref().filter(|stored| stored.phase.holds_slot()) else {
                continue;
            };
            let is_refused = is_rejected(refusals, cluster, &row.record);
            let goes_back = !Arc::ptr_eq(stored, &row.record) && (is_refused || is_searched);
            let written = row.written.as_ref();
            if goes_back && written.is_none_or(|written| !written.phase.holds_slot()) {
                row.written = Some(Arc::clone(stored));
            }
        }
    }

    /// Closes a shard whose accepted rows the hub now rejects, because its schema has changed. The shard
    /// stays unchanged, because any write would lose a row. The clusters that can continue move to other
    /// shards. If these are all, the shard is deleted as soon as the hub has accepted their rows there.
    fn close_shard(&mut self, shard: usize, now: Instant) {
        self.shards[shard].closed = true;
        self.shards[shard].is_left = true;
        self.shards[shard].retry_at = Some(now + RETRY_AFTER);
        // The rows that were blamed may be valid. If not, the other shard will show it.
        self.refusals.retain(|_, refused| refused.shard != shard);
        let moving: Vec<Arc<str>> = self
            .by_cluster
            .iter()
            .filter(|(_, row)| row.shard == shard && !row.record.unreadable)
            .map(|(cluster, _)| Arc::clone(cluster))
            .collect();
        let moves = self.shards[shard].moves.saturating_add(1);
        for cluster in moving {
            let room = self.room_from(shard + 1);
            let Some(mut row) = self.by_cluster.remove(&cluster) else {
                continue;
            };
            // Otherwise this shard is not needed for the cluster.
            if self.may_be_held(&cluster, &row) {
                self.abandon(&cluster, &row);
            }
            row.shard = room;
            row.stored = None;
            self.by_cluster.insert(cluster, row);
            self.shards[shard].members -= 1;
            self.shards[room].members += 1;
            self.shards[room].take_over(moves, now);
        }
    }

    /// Retries rows that were rejected some time ago. They count as rejected until the hub has answered.
    pub(super) fn try_again(&mut self, now: Instant) {
        for shard in 0..self.shards.len() {
            let entry = &mut self.shards[shard];
            if entry.writing || entry.retry_at.is_none_or(|at| now < at) {
                continue;
            }
            entry.retry_at = None;
            let was_closed = std::mem::take(&mut entry.closed);
            entry.max_rows = None;
            let mut is_tried = false;
            let refusals = self.refusals.values_mut();
            for refused in refusals.filter(|refused| refused.shard == shard) {
                refused.is_tried = true;
                is_tried = true;
            }
            // Newer contents of all rejected rows may have been accepted since.
            if was_closed || is_tried {
                self.shards[shard].mark(now, false);
            }
        }
    }
}

/// True while the record of the cluster is still the one that was rejected, and it is not tried again.
fn is_rejected(refusals: &Refusals, cluster: &str, record: &Arc<Record>) -> bool {
    let refused = refusals.get(cluster);
    refused.is_some_and(|refused| !refused.is_tried && Arc::ptr_eq(&refused.record, record))
}

#[cfg(test)]
mod tests;
