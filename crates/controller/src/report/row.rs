//! A row in the form in which it is sent: created from a record, or kept byte for byte. Every field is
//! limited to what the schema of the report accepts, because one rejected row would block its whole shard.

use std::sync::Arc;

use api::report::{ReportRow, ReportStep, Stage};
use api::text::cut;
use chrono::{DateTime, Datelike, NaiveTime, Timelike, Utc};
use rollout::{Reason, Record, StepRecord};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Longest fields of a row in characters, as in the schema of the report.
const MAX_NAME_CHARS: usize = 253;
const MAX_REASON_CHARS: usize = 128;
const MAX_MESSAGE_CHARS: usize = 1024;
const MAX_VERSION_CHARS: usize = 128;
const MAX_REVISION_CHARS: usize = 64;
const MAX_RETRY_CHARS: usize = 256;

/// One cluster's record.
#[derive(Clone, Debug)]
pub struct Row {
    /// The latest record.
    pub record: Arc<Record>,
    /// The record as last written.
    pub written: Option<Arc<Record>>,
    /// A write that has no response yet may have written a record that holds a slot.
    pub slot_in_doubt: bool,
    /// The record that the hub accepted last, whether or not it still holds it.
    pub(super) stored: Option<Arc<Record>>,
    /// Version to which the attempt of that record upgrades.
    pub(super) stored_target: Arc<str>,
    /// The text of a row with fields that this release does not know, as long as the row is unchanged.
    pub(super) original: Option<Arc<RawValue>>,
    /// The cluster is a canary.
    pub canary: bool,
    /// The cluster left the selection.
    pub left: bool,
    /// Version to which the record's attempt upgrades.
    pub target: Arc<str>,
    /// How many attempts the cluster has had, if they were counted. Only people read it.
    pub(super) attempts: Option<i64>,
    pub(super) shard: usize,
}

impl Row {
    /// Number of the shard.
    pub(crate) const fn shard(&self) -> usize {
        self.shard
    }

    /// True when the cluster is complete at this revision, or was complete when it left the selection.
    pub(crate) fn is_finished(&self, revision: Option<&str>) -> bool {
        let record = &self.record;
        let current = self.left || revision == Some(&*record.attempt.revision);
        record.phase.is_done() && current && !record.unreadable
    }
}

/// One row of a shard to write.
#[derive(Clone, Debug)]
pub enum ReportLine {
    /// Created from a record.
    Made(Box<ReportRow>),
    /// Unchanged, as it was read.
    Kept(Arc<RawValue>),
}

impl ReportLine {
    /// The row, if it was created from a record.
    #[must_use]
    pub fn made(&self) -> Option<&ReportRow> {
        match self {
            ReportLine::Made(row) => Some(row),
            ReportLine::Kept(_) => None,
        }
    }
}

impl Serialize for ReportLine {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            ReportLine::Made(row) => row.serialize(serializer),
            ReportLine::Kept(text) => text.serialize(serializer),
        }
    }
}

/// The row of a record.
pub(super) fn to_row(cluster: &str, row: &Row, record: &Record) -> ReportRow {
    ReportRow {
        cluster: start_of(cluster, MAX_NAME_CHARS),
        phase: record.phase,
        canary: row.canary,
        left_selection: row.left,
        reason: start_of(record.reason_text(), MAX_REASON_CHARS),
        message: start_of(&record.message, MAX_MESSAGE_CHARS),
        from_version: cut(&record.from_version, MAX_VERSION_CHARS).to_owned(),
        to_version: start_of(&row.target, MAX_VERSION_CHARS),
        since: writable(record.since),
        revision: start_of(&record.attempt.revision, MAX_REVISION_CHARS),
        retry: start_of(&record.attempt.retry, MAX_RETRY_CHARS),
        attempts: row.attempts,
        refused_step: record
            .refused_step
            .filter(|_| record.reason == Reason::WorkRefused)
            .map(Stage::from),
        steps: Stage::ALL
            .into_iter()
            .filter_map(|stage| record.stage(stage).map(|entry| to_step(stage, entry)))
            .collect(),
    }
}

/// The row in the form that the hub accepted last.
pub(super) fn to_stored_row(cluster: &str, row: &Row, stored: &Record) -> ReportRow {
    ReportRow {
        to_version: start_of(&row.stored_target, MAX_VERSION_CHARS),
        ..to_row(cluster, row, stored)
    }
}

fn to_step(stage: Stage, entry: &StepRecord) -> ReportStep {
    ReportStep {
        name: stage,
        started_at: writable(entry.started),
        applied_at: entry.applied.map(writable),
        finished_at: entry.finished.map(writable),
        outcome: entry.outcome,
    }
}

/// The first characters of a text.
fn start_of(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// Limits a time to what the format `date-time` can express: a year with four digits and no leap second.
fn writable(time: DateTime<Utc>) -> DateTime<Utc> {
    let time = if (1..=9999).contains(&time.year()) {
        time
    } else {
        DateTime::UNIX_EPOCH
    };
    if time.nanosecond() < 1_000_000_000 {
        return time;
    }
    let second = NaiveTime::from_hms_milli_opt(time.hour(), time.minute(), time.second(), 999);
    second
        .and_then(|second| time.with_time(second).single())
        .unwrap_or(DateTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests;
