//! Rows that cannot be read: kept byte for byte, each blocking its own cluster, until a release that knows them writes them
//! anew or somebody mends or deletes them.

use std::sync::Arc;
use std::time::Instant;

use api::ReportRow;
use api::stored::{StoredRow, StoredRows, Unreadable};
use chrono::{DateTime, Utc};
use rollout::{Attempt, Phase, Reason, Record};
use serde_json::value::RawValue;

use super::line::{Line, to_record, to_row};
use super::rows::{Row, Rows};
use super::status::cut;

/// What would mend a row.
const REMEDY: &str = "upgrade the controller to the release that wrote it, or mend or delete the row";

/// A row that is kept as it is.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) shard: usize,
    row: StoredRow,
}

impl Kept {
    /// What to send: the row as it was read.
    pub(super) fn line(&self) -> Line {
        Line::Kept(Arc::clone(&self.row.text))
    }

    fn unreadable(&self) -> Option<Unreadable> {
        match &self.row.row {
            Err(unreadable) => Some(unreadable.clone()),
            // No row is written like this: it stands for what is not there.
            Ok(row) if is_stand_in(row) => Some(Unreadable {
                cluster: Some(row.cluster.clone()),
                since: Some(row.since),
                error: "its reason is one that no controller writes".to_owned(),
            }),
            Ok(_) => None,
        }
    }
}

impl Rows {
    /// True when a report is unreadable as a whole: whose rows it holds is unknown.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.shards.iter().any(|shard| shard.illegible)
    }

    /// Takes the rows of a shard as the hub has them.
    pub(super) fn load(&mut self, shard: usize, rows: &StoredRows, now: Instant) {
        self.unload(shard);
        if let Some(error) = &rows.error {
            self.shards[shard].illegible = true;
            let name: Arc<str> = Arc::from(format!("{}/rows", self.report_name(shard)));
            let row = stand_in(
                &format!("the rows of report {} are no list", self.report_name(shard)),
                None,
                shard,
            );
            tracing::error!(report = self.report_name(shard), error, "a report cannot be read");
            self.by_cluster.insert(name, row);
            return;
        }
        for (at, row) in rows.rows.iter().enumerate() {
            let name: Arc<str> = match row.cluster() {
                Some(name) => Arc::from(name),
                // Nobody's row still counts: what is done cannot be told without it.
                None => Arc::from(format!("{}/rows[{at}]", self.report_name(shard))),
            };
            let known = !self.kept.contains_key(&name);
            match &row.row {
                Ok(read) if known && !is_stand_in(read) => {
                    let original = row.has_more.then(|| Arc::clone(&row.text));
                    self.insert(shard, read, original, now);
                }
                _ => self.keep(
                    &name,
                    Kept {
                        shard,
                        row: row.clone(),
                    },
                    now,
                ),
            }
        }
    }

    /// Forgets the rows of a shard.
    fn unload(&mut self, shard: usize) {
        if self.shards[shard].members == 0 && !self.shards[shard].illegible {
            return;
        }
        self.shards[shard].illegible = false;
        self.by_cluster.retain(|_, row| row.shard != shard);
        self.shards[shard].members = 0;
        let names: Vec<Arc<str>> = self.kept.keys().cloned().collect();
        for name in names {
            if let Some(kept) = self.kept.get_mut(&name) {
                kept.retain(|kept| kept.shard != shard);
            }
            self.settle(&name, Instant::now());
        }
    }

    /// Keeps a row beside what is known of its cluster already.
    fn keep(&mut self, name: &Arc<str>, kept: Kept, now: Instant) {
        if let Some(known) = self
            .by_cluster
            .get(name)
            .filter(|row| !row.record.is_unreadable())
        {
            let line = known.original.clone().or_else(|| {
                let row = to_row(name, known, &known.record);
                let text = serde_json::value::to_raw_value(&row).ok()?;
                Some(Arc::from(text))
            });
            let shard = known.shard;
            self.by_cluster.remove(name);
            if let Some(text) = line.and_then(|text| RawValue::from_string(text.get().to_owned()).ok()) {
                let row = StoredRow::read(text);
                self.kept
                    .entry(Arc::clone(name))
                    .or_default()
                    .push(Kept { shard, row });
            }
        }
        self.shards[kept.shard].members += 1;
        self.kept.entry(Arc::clone(name)).or_default().push(kept);
        self.settle(name, now);
    }

    /// Brings the row of a cluster in line with what is kept of it.
    fn settle(&mut self, name: &Arc<str>, now: Instant) {
        let Some(kept) = self.kept.get(name) else { return };
        let unreadable = kept
            .iter()
            .find_map(|kept| Some((kept.shard, kept.unreadable()?)));
        if let Some((shard, what)) = unreadable {
            let row = stand_in(&what.error, what.since, shard);
            self.by_cluster.insert(Arc::clone(name), row);
            return;
        }
        self.by_cluster.remove(name);
        for kept in self.kept.remove(name).unwrap_or_default() {
            self.shards[kept.shard].members -= 1;
            if let Ok(row) = &kept.row.row {
                let original = kept.row.has_more.then(|| Arc::clone(&kept.row.text));
                self.insert(kept.shard, row, original, now);
            }
        }
    }

    /// A leader knows better than any report, except for what it cannot read: where somebody has deleted or mended such a
    /// row, that counts.
    pub(super) fn reconsider(&mut self, shard: usize, rows: &StoredRows, now: Instant) {
        if rows.error.is_some() {
            return;
        }
        if self.shards[shard].illegible {
            // What it holds now was never read: it is read, and not written over.
            self.load(shard, rows, now);
            return;
        }
        let names: Vec<Arc<str>> = self.kept.keys().cloned().collect();
        for name in names {
            let mut gone = 0;
            if let Some(kept) = self.kept.get_mut(&name) {
                let before = kept.len();
                kept.retain(|kept| {
                    kept.shard != shard
                        || rows
                            .rows
                            .iter()
                            .any(|row| is_same(row.text.get(), kept.row.text.get()))
                });
                gone = before - kept.len();
                self.shards[shard].members -= gone;
            }
            if gone == 0 {
                continue;
            }
            let mended = rows
                .rows
                .iter()
                .find(|row| row.row.is_ok() && row.cluster() == Some(&*name));
            if let (Some(row), Some(kept)) = (mended, self.kept.get_mut(&name)) {
                self.shards[shard].members += 1;
                kept.push(Kept {
                    shard,
                    row: row.clone(),
                });
            }
            self.settle(&name, now);
        }
    }

    /// Takes a row that can be read. A cluster that moved to another shard just before a crash is in both: the younger row
    /// counts, the other shard is put right.
    fn insert(&mut self, shard: usize, row: &ReportRow, original: Option<Arc<RawValue>>, now: Instant) {
        let record = Arc::new(to_record(row));
        let entry = Row {
            record: Arc::clone(&record),
            written: Some(Arc::clone(&record)),
            stored: Some(record),
            original,
            canary: row.canary,
            left: row.left_selection,
            target: Arc::from(row.to_version.as_str()),
            shard,
        };
        let lost = match self.by_cluster.get(row.cluster.as_str()) {
            Some(known) if (known.record.since, known.shard) > (row.since, shard) => Some(shard),
            known => {
                let other = known.map(|known| known.shard);
                self.by_cluster.insert(Arc::from(row.cluster.as_str()), entry);
                self.shards[shard].members += 1;
                if let Some(other) = other {
                    self.shards[other].members -= 1;
                }
                other
            }
        };
        if let Some(lost) = lost {
            self.shards[lost].mark(now, false);
        }
    }
}

/// What stands for a row that cannot be read.
fn stand_in(error: &str, since: Option<DateTime<Utc>>, shard: usize) -> Row {
    let record = Arc::new(Record {
        attempt: Attempt {
            revision: Arc::from(""),
            retry: Arc::from(""),
        },
        phase: Phase::Blocked,
        reason: Reason::UnreadableRecord,
        other_reason: None,
        message: Arc::from(format!(
            "the row of the cluster cannot be read: {}; {REMEDY}",
            cut(error, 120)
        )),
        since: since.unwrap_or_default(),
        stages: [None; 5],
        from_version: Arc::from(""),
    });
    Row {
        record: Arc::clone(&record),
        written: Some(record),
        stored: None,
        original: None,
        canary: false,
        left: false,
        target: Arc::from(""),
        shard,
    }
}

/// True for a row that would be taken for what stands for an unreadable one.
pub(crate) fn is_stand_in(row: &ReportRow) -> bool {
    row.reason == Reason::UnreadableRecord.as_str() && row.revision.is_empty()
}

/// The same row, however the hub writes it.
fn is_same(a: &str, b: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    a == b || value(a).is_some_and(|a| Some(a) == value(b))
}

#[cfg(test)]
#[path = "kept_tests.rs"]
mod tests;
