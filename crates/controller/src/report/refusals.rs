//! Rows that the hub's schema refuses: found, told, and sent in their last accepted form, so that they hold up no other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rollout::Record;

use super::rows::{Due, Rows, Shard};

/// First and longest wait after a failed write of a shard.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Wait between two writes that look for the row that is refused.
const SEARCH: Duration = Duration::from_millis(250);
/// After so long a refused row is tried again as it is: the schema may have been mended.
const AGAIN: Duration = Duration::from_mins(5);

/// A row that the hub refuses.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    record: Arc<Record>,
    text: Arc<str>,
    shard: usize,
}

/// Refused rows, by cluster.
pub(super) type Refusals = BTreeMap<Arc<str>, Refused>;

impl Shard {
    /// A write failed: the next one waits, longer each time.
    pub(super) fn fail(&mut self, now: Instant) {
        let wait = BACKOFF.0 * (1 << self.failures.min(5));
        self.failures = self.failures.saturating_add(1);
        self.changed = Some(now);
        self.urgent = false;
        self.not_before = Some(now + wait.min(BACKOFF.1));
    }

    /// A write succeeded.
    pub(super) fn recover(&mut self) {
        self.failures = 0;
        self.not_before = None;
        self.refused = None;
    }

    /// The next write goes on with the search.
    fn search(&mut self, now: Instant, most: Option<usize>) {
        self.most = most;
        self.changed = Some(now);
        self.urgent = true;
        self.not_before = Some(now + SEARCH);
    }
}

impl Rows {
    /// Number of rows that the hub refuses.
    #[must_use]
    pub fn refused_count(&self) -> usize {
        self.refusals.len() + self.shards.iter().filter(|shard| shard.refused.is_some()).count()
    }

    /// What the hub refuses, in words: the first of the rows, and how many more there are.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        let (cluster, refused) = match self.refusals.iter().next() {
            Some((cluster, refused)) => (format!("the record of cluster {cluster}"), &refused.text),
            None => {
                let position = self.shards.iter().position(|shard| shard.refused.is_some())?;
                let text = self.shards[position].refused.as_ref()?;
                (format!("report {}", self.report_name(position)), text)
            }
        };
        let more = match self.refused_count() {
            0 | 1 => String::new(),
            number => format!("; {} more likewise", number - 1),
        };
        Some(format!("the hub refuses {cluster}: {refused}{more}"))
    }

    /// The record of a refused row, while it is the very one that was refused.
    pub(super) fn is_refused(&self, cluster: &str, record: &Arc<Record>) -> bool {
        self.refusals
            .get(cluster)
            .is_some_and(|refused| Arc::ptr_eq(&refused.record, record))
    }

    /// Takes the hub's refusal of a shard. `named`: the rows that it names by their position; `rows`: it may be about rows at
    /// all. What is refused is found by halves when it is not named.
    pub fn refused(&mut self, due: Due, named: &[usize], about_rows: bool, text: &str, now: Instant) {
        if due.term != self.term || self.shards.len() <= due.shard {
            return;
        }
        let text: Arc<str> = Arc::from(super::status::cut(text, 512));
        self.shards[due.shard].writing = false;
        let blamed: Vec<&(Arc<str>, Arc<Record>)> = match due.unproven.as_slice() {
            _ if !about_rows => Vec::new(),
            [only] if named.is_empty() => vec![only],
            unproven => {
                let names: Vec<&Arc<str>> = named.iter().filter_map(|at| due.clusters.get(*at)).collect();
                let is_named = |name: &Arc<str>| names.contains(&name);
                unproven.iter().filter(|(name, _)| is_named(name)).collect()
            }
        };
        let search = about_rows && named.is_empty() && due.unproven.len() > 1;
        if blamed.is_empty() && !search {
            let shard = &mut self.shards[due.shard];
            shard.refused = Some(Arc::clone(&text));
            shard.fail(now);
            if about_rows {
                self.vacate(due.shard, now);
            }
            return;
        }
        let most = if blamed.is_empty() {
            Some(due.unproven.len() / 2)
        } else {
            self.shards[due.shard].most
        };
        for (cluster, record) in blamed {
            tracing::warn!(
                cluster = &**cluster,
                error = &*text,
                "the hub refuses the record of a cluster"
            );
            let refused = Refused {
                record: Arc::clone(record),
                text: Arc::clone(&text),
                shard: due.shard,
            };
            self.refusals.insert(Arc::clone(cluster), refused);
        }
        let shard = &mut self.shards[due.shard];
        shard.retry_at = Some(now + AGAIN);
        shard.search(now, most);
    }

    /// The hub refuses what it had accepted in a shard, after a change of the schema: the shard is left as it is, for nothing
    /// else could be written without losing a row, and the clusters that can go on do so in other shards.
    fn vacate(&mut self, shard: usize, now: Instant) {
        self.shards[shard].closed = true;
        self.shards[shard].retry_at = Some(now + AGAIN);
        // Who was blamed for it may be innocent; if not, the other shard shows it.
        self.refusals.retain(|_, refused| refused.shard != shard);
        let moving: Vec<Arc<str>> = self
            .by_cluster
            .iter()
            .filter(|(_, row)| row.shard == shard && !row.record.is_unreadable())
            .map(|(cluster, _)| Arc::clone(cluster))
            .collect();
        for cluster in moving {
            let room = self.room_after(shard);
            if let Some(row) = self.by_cluster.get_mut(&cluster) {
                row.shard = room;
                row.stored = None;
                self.shards[shard].members -= 1;
                self.shards[room].members += 1;
                self.shards[room].mark(now, false);
            }
        }
    }

    /// What was refused long ago is tried again.
    pub(super) fn try_again(&mut self, now: Instant) {
        for shard in 0..self.shards.len() {
            let entry = &mut self.shards[shard];
            if entry.writing || entry.retry_at.is_none_or(|at| now < at) {
                continue;
            }
            entry.retry_at = None;
            entry.closed = false;
            entry.most = None;
            entry.mark(now, false);
            self.refusals.retain(|_, refused| refused.shard != shard);
        }
    }
}

#[cfg(test)]
#[path = "refusals_tests.rs"]
mod tests;
