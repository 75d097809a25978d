//! One report of an upgrade: what is known about the hub's copy, and what must be written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::report::{ReportRow, ReportSummary};
use api::stored::{StoredRow, Unreadable};
use observe::record::{is_stand_in, unreadable_stand_in};
use rollout::{Phase, Reason, Record};

use super::row::{ReportLine, Row, to_row, to_stored_row};

/// Time during which changes of a shard are collected before it is written
/// (`docs/design/rules.md#report-shards`).
pub(super) const COALESCE: Duration = Duration::from_secs(2);
/// Shortest and longest wait after a failed write of a shard.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(2), Duration::from_mins(1));
/// Wait between two writes while the rejected row is being searched for.
const SEARCH: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one report")]
pub(super) struct ReportShard {
    pub(super) members: usize,
    /// Since when the shard differs from the hub's copy.
    pub(super) changed: Option<Instant>,
    pub(super) urgent: bool,
    pub(super) writing: bool,
    /// Number of consecutive failed writes. `not_before` is the time of the next one.
    pub(super) failures: u32,
    pub(super) not_before: Option<Instant>,
    /// How many of these the hub has forbidden in a row, up to the last one.
    pub(super) forbidden: u32,
    /// The last write was rejected because the hub held another copy.
    pub(super) conflicted: bool,
    /// Records that were sent and have no response yet, so the hub may hold them.
    pub(super) in_doubt: Vec<(Arc<str>, Arc<Record>)>,
    /// While the rejected row is being searched for: how many rows may be sent that the hub has not accepted
    /// yet.
    pub(super) max_rows: Option<usize>,
    /// When rejected rows are sent again.
    pub(super) retry_at: Option<Instant>,
    /// The hub's message if it rejects the shard for another reason than a row that could be left out.
    pub(super) refused: Option<Arc<str>>,
    /// The shard is left unchanged while it has rows, because the hub now rejects rows that it had accepted.
    pub(super) closed: bool,
    /// Its clusters have moved to other shards since it was last written, because the hub rejects it.
    pub(super) is_left: bool,
    /// How many shards its clusters have left one after the other, since the hub last accepted a change of one.
    pub(super) moves: u32,
    /// The hub's copy may have rows that were not sent, because somebody else wrote it, or an earlier term did.
    pub(super) disowned: bool,
    /// The rows of the report are not a list.
    pub(super) illegible: bool,
    /// The hub's copy as last known; no UID while there is none.
    pub(super) copy: Copy,
    /// Newest copy that was seen while a write was running: the result of that write, or of another one by
    /// someone else.
    pub(super) seen: Copy,
}

/// What is known about the hub's copy of a report.
#[derive(Clone, Debug, Default)]
pub(super) struct Copy {
    /// Resource version of the copy or of its deletion.
    pub(super) version: u64,
    /// `None` if the report does not exist.
    pub(super) uid: Option<Arc<str>>,
}

/// The object that a write of a report changes or deletes, or that resulted from the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReport {
    /// UID of the object.
    pub uid: Arc<str>,
    /// Resource version of the object.
    pub version: u64,
}

impl ReportShard {
    /// Records that the shard differs from the hub's copy.
    pub(super) fn mark(&mut self, now: Instant, urgent: bool) {
        self.changed.get_or_insert(now);
        self.urgent |= urgent;
    }

    /// True when the report exists on the hub.
    pub(super) const fn exists(&self) -> bool {
        self.copy.uid.is_some()
    }

    /// True when the report exists on the hub, or may be created by a write that has no response yet.
    pub(super) const fn may_exist(&self) -> bool {
        self.exists() || !self.in_doubt.is_empty()
    }

    /// True when the shard is neither written nor given new rows.
    pub(super) const fn is_shut(&self) -> bool {
        self.closed || self.illegible
    }

    /// True when no write is running, due or rejected.
    pub(super) fn is_settled(&self) -> bool {
        let waits = self.changed.is_some() || self.writing || self.retry_at.is_some();
        !waits && self.refused.is_none() && !self.is_shut()
    }

    /// When the shard must be written, if it must. One without rows is deleted, also if the hub rejects its former rows.
    pub(super) fn due_at(&self) -> Option<Instant> {
        let is_kept = self.illegible || (self.closed && self.members > 0);
        let changed = self.changed.filter(|_| !self.writing && !is_kept)?;
        let at = if self.urgent { changed } else { changed + COALESCE };
        Some(self.not_before.map_or(at, |not_before| at.max(not_before)))
    }
}

impl ReportShard {
    /// Handles a failed write: the wait before the next one grows each time.
    pub(super) fn fail(&mut self, now: Instant) {
        let wait = backoff(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.forbidden = 0;
        self.changed = Some(now);
        self.urgent = false;
        self.not_before = Some(now + wait);
    }

    /// Handles that a cluster moves here from a shard that the hub rejects, which is its last of so many `moves`. The hub may accept
    /// reports that are created and reject their changes, so each move but the first waits longer than the one before.
    pub(super) fn take_over(&mut self, moves: u32, now: Instant) {
        self.mark(now, false);
        self.moves = self.moves.max(moves);
        if moves > 1 {
            self.not_before = self.not_before.max(Some(now + backoff(moves - 1)));
        }
    }

    /// Handles that a write was rejected because the hub holds another copy. The shard is written again at
    /// once the first time.
    pub(super) fn conflict(&mut self, now: Instant) {
        if self.conflicted {
            self.fail(now);
        } else {
            self.conflicted = true;
            self.not_before = None;
            self.mark(now, true);
        }
    }

    /// Handles a successful write. `is_change`: the report was there before.
    pub(super) fn recover(&mut self, is_change: bool) {
        if is_change {
            self.moves = 0;
        }
        self.failures = 0;
        self.forbidden = 0;
        self.conflicted = false;
        self.disowned = false;
        self.not_before = None;
        self.refused = None;
        self.is_left = false;
        if std::mem::take(&mut self.closed) {
            // It is gone, so nothing of it is tried again.
            self.retry_at = None;
        }
    }

    /// Schedules the next write of the search.
    pub(super) fn search(&mut self, now: Instant, max_rows: Option<usize>) {
        self.max_rows = max_rows;
        self.changed = Some(now);
        self.urgent = true;
        self.not_before = Some(now + SEARCH);
    }
}

/// The wait after so many failures before the last one.
fn backoff(failures: u32) -> Duration {
    let wait = BACKOFF.0 * (1 << failures.min(5));
    wait.min(BACKOFF.1)
}

/// A shard that is due, ready to be written.
#[derive(Debug)]
pub struct ShardWrite {
    pub(super) term: u64,
    /// Number of the shard, from 0.
    pub shard: usize,
    /// Name of the report.
    pub name: String,
    /// The copy that the write replaces. The hub rejects the write if it holds another one, so that a write
    /// that arrives late never replaces newer rows. `None` if the report does not exist yet.
    pub replaces: Option<StoredReport>,
    /// The rows; empty for a shard that is to be deleted.
    pub rows: Vec<ReportLine>,
    /// The clusters of the rows, in their order.
    pub clusters: Vec<Arc<str>>,
    /// The records that become written when the write succeeds.
    pub records: Vec<(Arc<str>, Arc<Record>)>,
    /// The versions to which their attempts upgrade, in the same order.
    pub(super) targets: Vec<Arc<str>>,
    /// Number of records that the hub might hold before this write.
    pub(super) in_doubt: usize,
    /// The records among them that the hub has not accepted before.
    pub(super) unproven: Vec<(Arc<str>, Arc<Record>)>,
    /// The rows that are sent in the form that the hub accepted last, or left out if it never accepted one (`None`),
    /// because their records are rejected or wait for the next step of a search.
    pub(super) former: Vec<(Arc<str>, Option<Arc<Record>>)>,
    /// Some rows are left for the next write.
    pub(super) more: bool,
}

impl ShardWrite {
    /// True when its rows may be those that the hub holds, while an earlier write of the same copy may still be carried out: one without a
    /// response, or one of an earlier term. It must change the report all the same, so that the hub carries out none of these any more.
    pub(crate) const fn must_change(&self) -> bool {
        self.in_doubt > 0 || !self.former.is_empty()
    }

    /// Counts of the rows, for people.
    pub(crate) fn summary(&self) -> ReportSummary {
        let mut summary = ReportSummary::default();
        for line in &self.rows {
            match line {
                ReportLine::Made(row) => summary.add(Some(row.phase), row.attempts),
                ReportLine::Kept(text) => {
                    let row: Option<ReportRow> = serde_json::from_str(text.get()).ok();
                    let attempts = row.as_ref().and_then(|row| row.attempts);
                    summary.add(row.map(|row| row.phase), attempts);
                }
            }
        }
        summary
    }

    pub(super) fn push(&mut self, cluster: &Arc<str>, line: ReportLine) {
        self.rows.push(line);
        self.clusters.push(Arc::clone(cluster));
    }

    /// Adds the row of a cluster. While the record is rejected or not part of the current search step, adds
    /// its last accepted content instead.
    pub(super) fn add(&mut self, cluster: &Arc<str>, row: &Row, is_refused: bool, max_rows: Option<usize>) {
        let proven = row
            .stored
            .as_ref()
            .is_some_and(|stored| Arc::ptr_eq(stored, &row.record));
        let waits = !proven && max_rows.is_some_and(|max_rows| self.unproven.len() >= max_rows);
        if !proven && (is_refused || waits) {
            self.more |= waits && !is_refused;
            if let Some(stored) = &row.stored {
                let line = to_stored_row(cluster, row, stored);
                self.push(cluster, ReportLine::Made(Box::new(line)));
            }
            self.former.push((Arc::clone(cluster), row.stored.clone()));
            return;
        }
        let line = match &row.original {
            Some(text) => ReportLine::Kept(Arc::clone(text)),
            None => ReportLine::Made(Box::new(to_row(cluster, row, &row.record))),
        };
        self.push(cluster, line);
        let entry = (Arc::clone(cluster), Arc::clone(&row.record));
        if !proven {
            self.unproven.push(entry.clone());
        }
        self.records.push(entry);
        self.targets.push(Arc::clone(&row.target));
    }
}

/// A row that is written back unchanged.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) shard: usize,
    pub(super) row: StoredRow,
    /// What was known of it, if it is not known that the hub holds it.
    pub(super) unwritten: Option<Box<Row>>,
}

impl Kept {
    /// The row as it was read.
    pub(super) fn line(&self) -> ReportLine {
        ReportLine::Kept(Arc::clone(&self.row.text))
    }

    pub(super) fn unreadable(&self) -> Option<Unreadable> {
        match &self.row.row {
            Err(unreadable) => Some(unreadable.clone()),
            Ok(row) if is_stand_in(row) => Some(unreadable_stand_in(row)),
            Ok(_) => None,
        }
    }
}

/// A row that the hub rejects.
#[derive(Clone, Debug)]
pub(super) struct Refused {
    pub(super) record: Arc<Record>,
    pub(super) text: Arc<str>,
    pub(super) shard: usize,
    /// It is sent again. Until that is answered, nobody knows of anything better.
    pub(super) is_tried: bool,
}

/// Rejected rows, by cluster.
pub(super) type Refusals = BTreeMap<Arc<str>, Refused>;

/// Shards in which the hub may still hold an outdated row, by cluster. If that row may hold a slot, its record.
pub(super) type Outdated = BTreeMap<Arc<str>, BTreeMap<usize, Option<Arc<Record>>>>;

/// The record by which a cluster without a row in `shard` holds a slot on the hub: a lower shard may still have it.
pub(super) fn slot_below(
    outdated: &Outdated,
    shards: &[ReportShard],
    cluster: &str,
    shard: usize,
) -> Option<Arc<Record>> {
    let mut lower = outdated.get(cluster)?.range(..shard).rev();
    lower.find_map(|(number, record)| record.clone().filter(|_| shards[*number].may_exist()))
}

/// True when the hub may hold an older row of a cluster in a higher shard than this one. That row counts.
pub(super) fn is_overtaken(outdated: &Outdated, cluster: &str, shard: usize) -> bool {
    let shards = outdated.get(cluster).and_then(BTreeMap::last_key_value);
    shards.is_some_and(|(last, _)| *last > shard)
}

/// What counts of a written record while nobody knows what the hub holds: its attempt, so that no other one begins before its row
/// is written, and nothing that has happened in it.
pub(super) fn announcement(written: &Record) -> Arc<Record> {
    Arc::new(Record {
        phase: Phase::Pending,
        reason: Reason::None,
        other_reason: None,
        refused_step: None,
        message: Arc::from(""),
        stages: [None; 5],
        ..written.clone()
    })
}
