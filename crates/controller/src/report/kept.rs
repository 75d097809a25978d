//! Rows that cannot be read. They are kept byte for byte, and each blocks its cluster, until a release that
//! can read them writes them again or someone fixes or deletes them.

use std::sync::Arc;
use std::time::Instant;

use ahash::AHashMap;
use api::ReportRow;
use api::report::Stage;
use api::stored::{StoredRow, StoredRows};
use chrono::{DateTime, Utc};
use observe::record::{is_stand_in, to_record, unreadable_record};
use serde_json::value::RawValue;

use crate::clock;

use super::outdated::slot_of;
use super::row::{Row, to_row};
use super::rows::Rows;
use super::shard::Kept;

impl Rows {
    /// True when a whole report is unreadable, so the clusters of its rows are unknown.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.shards.iter().any(|shard| shard.illegible)
    }

    /// Reads the rows of a shard from the hub.
    pub(super) fn load(&mut self, shard: usize, rows: &StoredRows, now: Instant) {
        self.unload(shard);
        self.settle_outdated(shard, &AHashMap::new(), now);
        if let Some(error) = &rows.error {
            self.shards[shard].illegible = true;
            let name: Arc<str> = Arc::from(format!("{}/rows", self.report_name(shard)));
            let row = stand_in(
                &format!("the rows of report {} are not a list", self.report_name(shard)),
                None,
                &[],
                shard,
            );
            tracing::error!(report = self.report_name(shard), error, "a report cannot be read");
            self.by_cluster.insert(name, row);
            return;
        }
        for (at, row) in rows.rows.iter().enumerate() {
            let name: Arc<str> = match row.cluster() {
                Some(name) => Arc::from(name),
                // A row without a cluster name still counts, because without it the finished clusters are not
                // known.
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
                        unwritten: None,
                    },
                    now,
                ),
            }
        }
    }

    /// Removes the rows of a shard from memory.
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
            self.update_from_kept(&name, clock::now());
        }
    }

    /// Keeps a row in addition to what is already known about its cluster.
    fn keep(&mut self, name: &Arc<str>, kept: Kept, now: Instant) {
        if let Some(known) = self.by_cluster.get(name).filter(|row| !row.record.unreadable) {
            let line = known.original.clone().or_else(|| {
                let row = to_row(name, known, &known.record);
                let text = serde_json::value::to_raw_value(&row).ok()?;
                Some(Arc::from(text))
            });
            let shard = known.shard;
            let is_written = known.written.as_ref() == Some(&known.record) && !known.slot_in_doubt;
            let mut unwritten = self.by_cluster.remove(name).filter(|_| !is_written).map(Box::new);
            if let Some(row) = &mut unwritten {
                // It is written as it is while it is kept.
                row.slot_in_doubt |= row.record.phase.holds_slot();
            }
            if let Some(text) = line.and_then(|text| RawValue::from_string(text.get().to_owned()).ok()) {
                let row = StoredRow::read(text);
                self.kept.entry(Arc::clone(name)).or_default().push(Kept {
                    shard,
                    row,
                    unwritten,
                });
            }
        }
        self.shards[kept.shard].members += 1;
        self.kept.entry(Arc::clone(name)).or_default().push(kept);
        self.update_from_kept(name, now);
    }

    /// Updates the row of a cluster from the rows that are kept for it.
    fn update_from_kept(&mut self, name: &Arc<str>, now: Instant) {
        let Some(kept) = self.kept.get(name) else { return };
        let unreadable = kept
            .iter()
            .find_map(|kept| Some((kept.shard, kept.unreadable()?)));
        if let Some((shard, what)) = unreadable {
            let row = stand_in(&what.error, what.since, &what.open, shard);
            self.by_cluster.insert(Arc::clone(name), row);
            return;
        }
        self.by_cluster.remove(name);
        for kept in self.kept.remove(name).unwrap_or_default() {
            self.shards[kept.shard].members -= 1;
            if let Some(row) = kept.unwritten {
                self.shards[kept.shard].mark(now, true);
                self.insert_row(name, *row, now);
            } else if let Ok(row) = &kept.row.row {
                let original = kept.row.has_more.then(|| Arc::clone(&kept.row.text));
                self.insert(kept.shard, row, original, now);
            }
        }
    }

    /// Handles a report that the hub holds while this replica leads. The leader's records outweigh it, except
    /// for rows that it cannot read: if someone deleted or fixed such a row, the change counts.
    pub(super) fn reconsider(&mut self, shard: usize, rows: &StoredRows, now: Instant) {
        if rows.error.is_some() {
            return;
        }
        if self.shards[shard].illegible {
            // These rows were never read, so they are read now and not overwritten.
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
                        || kept.unwritten.is_some()
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
                    unwritten: None,
                });
            }
            self.update_from_kept(&name, now);
        }
    }

    /// Adds a row that can be read, as the hub holds it.
    fn insert(&mut self, shard: usize, row: &ReportRow, original: Option<Arc<RawValue>>, now: Instant) {
        let record = Arc::new(to_record(row));
        let entry = Row {
            record: Arc::clone(&record),
            written: Some(Arc::clone(&record)),
            slot_in_doubt: false,
            stored: Some(record),
            stored_target: Arc::from(row.to_version.as_str()),
            original,
            canary: row.canary,
            left: row.left_selection,
            target: Arc::from(row.to_version.as_str()),
            attempts: row.attempts,
            shard,
        };
        self.insert_row(&Arc::from(row.cluster.as_str()), entry, now);
    }

    /// Adds a row. If a cluster moved to another shard and the hub still holds its row in the old one, the row of the higher shard
    /// counts, because clusters only move up; the lower one is corrected.
    /// The times of the rows say nothing: a clock may have been set back in between. If the lower row tells of an end in the same
    /// run of the steps that the higher one does not know of, a creation of the higher shard was carried out late: then the
    /// higher one is corrected.
    fn insert_row(&mut self, name: &Arc<str>, entry: Row, now: Instant) {
        self.shards[entry.shard].members += 1;
        let Some(known) = self.by_cluster.remove(name) else {
            self.by_cluster.insert(Arc::clone(name), entry);
            return;
        };
        let (mut lower, higher) = if known.shard <= entry.shard {
            (known, entry)
        } else {
            (entry, known)
        };
        let is_late = lower.shard < higher.shard && lower.record.is_later_in_run(&higher.record);
        let (mut counts, lost) = if is_late {
            // An older build would believe the higher one until it is corrected.
            lower.written = Some(Arc::clone(&higher.record));
            (lower, higher)
        } else {
            (higher, lower)
        };
        if counts.written.is_none() {
            counts.written = slot_of(&lost.record);
        }
        self.shards[lost.shard].members -= 1;
        self.shards[lost.shard].mark(now, is_late);
        self.note_outdated(name, lost.shard, slot_of(&lost.record));
        self.by_cluster.insert(Arc::clone(name), counts);
    }
}

/// A placeholder for a row that cannot be read.
fn stand_in(error: &str, since: Option<DateTime<Utc>>, open: &[(Stage, DateTime<Utc>)], shard: usize) -> Row {
    let record = Arc::new(unreadable_record(error, since, open));
    Row {
        record: Arc::clone(&record),
        written: Some(record),
        slot_in_doubt: false,
        stored: None,
        stored_target: Arc::from(""),
        original: None,
        canary: false,
        left: false,
        target: Arc::from(""),
        attempts: None,
        shard,
    }
}

/// True if both rows have the same content, however the hub formats it.
fn is_same(a: &str, b: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    a == b || value(a).is_some_and(|a| Some(a) == value(b))
}

#[cfg(test)]
mod tests;
