//! What is kept of an archived upgrade: the fields that select its clusters, and counts and digests in place
//! of its records.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use ahash::RandomState;
use api::ManagedClustersUpgradeStatus;
use api::conditions::{SELECTED, selected_message};
use api::stored::StoredRow;
use api::views::Report;
use observe::index::{Clusters, Index, SelectionChanges};
use observe::record::is_stand_in;
use observe::selection::Selected;

use crate::archive::selector::Selector;
use crate::report::rows::Rows;

/// Shortest and longest wait after an upgrade could not be read.
const RETRY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_mins(1));

/// Keys of the digests. They are random for each process, so that nobody can create two selections with equal
/// digests.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An archived upgrade. Its metadata and status are kept in
/// [`UpgradeEntry`](crate::state::upgrade::UpgradeEntry).
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one upgrade")]
pub struct Archive {
    /// Selects its clusters. `None`: the upgrade was complete before it was restored, and selects no
    /// clusters.
    pub(super) selector: Option<Selector>,
    /// Its reports, by number.
    pub(super) shards: Vec<ArchivedShard>,
    /// Digest of the notes of its selection. Set once the selection is known to match the records.
    pub(super) notes: Option<u64>,
    /// The reports are still as they were when their records were known to be complete and to be those of the selected
    /// clusters. Late ones do not count.
    pub(super) proven: bool,
    /// The selection or the records may have changed, so they must be compared.
    pub(super) stale: bool,
    /// Clusters that have a record but have left the selection. When such a cluster is deleted, its record is
    /// removed too.
    pub(super) left: Vec<Arc<str>>,
    /// Clusters on which the upgrade is at work by a row, or may be, with the number of that report.
    at_work: Vec<(usize, Arc<str>)>,
    /// The object and its reports must be read from the hub.
    pub(super) wanted: bool,
    /// The object lacks the annotation about its completion, or its status what earlier releases did not write.
    /// Object and reports are read when there is nothing else to do.
    pub(super) lacks_fields: bool,
    /// Since when the archive is stale or wanted.
    pub(super) unresolved: Option<Instant>,
    /// The object and its reports are being read.
    pub(super) reading: bool,
    /// How often reading has failed. `retry_at` is the time of the next try.
    pub(super) failures: u32,
    pub(super) retry_at: Option<Instant>,
}

/// What is kept of a report.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArchivedShard {
    /// Resource version.
    pub(super) version: u64,
    pub(super) exists: bool,
    pub(super) rows: usize,
    /// How many of them are of canaries.
    pub(super) canaries: usize,
    /// Digest of the clusters that have not left the selection.
    pub(super) members: u64,
    /// The report contains a row that is not complete.
    pub(super) unfinished: bool,
    /// The report was created beside records that were proven, so a former leader or somebody else had sent it.
    pub(super) late: bool,
}

/// Digest of the clusters of a selection; their order does not matter.
fn members<'a>(clusters: impl Iterator<Item = (&'a str, bool)>) -> u64 {
    clusters
        .map(|member| KEYS.hash_one(member))
        .fold(0, u64::wrapping_add)
}

pub(super) fn digest_of_notes(selected: &Selected) -> u64 {
    KEYS.hash_one(&selected.notes)
}

impl ArchivedShard {
    fn of(report: &Report, version: u64, revision: Option<&str>) -> ArchivedShard {
        let finished = |row: &StoredRow| {
            row.row.as_ref().is_ok_and(|row| {
                let current = row.left_selection || revision == Some(&*row.revision);
                row.phase.is_done() && current && !is_stand_in(row)
            })
        };
        let rows = &report.rows.rows;
        let readable = || rows.iter().filter_map(|row| row.row.as_ref().ok());
        let present = readable().filter(|row| !row.left_selection);
        ArchivedShard {
            version,
            exists: true,
            rows: rows.len(),
            canaries: readable().filter(|row| row.canary).count(),
            members: members(present.map(|row| (&*row.cluster, row.canary))),
            unfinished: report.rows.error.is_some() || !rows.iter().all(finished),
            late: false,
        }
    }
}

impl Archive {
    /// Creates the archive of an upgrade with the records that are known so far. `notes`: digest of the notes
    /// of its selection in the last pass.
    pub(super) fn new(selector: Option<Selector>, rows: &Rows, notes: Option<u64>) -> Archive {
        let revision = selector.as_ref().map(Selector::revision);
        let mut shards: Vec<ArchivedShard> = rows
            .versions()
            .into_iter()
            .map(|(version, exists)| ArchivedShard {
                version,
                exists,
                ..ArchivedShard::default()
            })
            .collect();
        let mut left = Vec::new();
        let mut at_work = Vec::new();
        for (name, row) in rows.all() {
            let shard = &mut shards[row.shard()];
            shard.rows += 1;
            shard.canaries += usize::from(row.canary);
            if row.left {
                left.push(Arc::clone(name));
            } else {
                let one = members(std::iter::once((&**name, row.canary)));
                shard.members = shard.members.wrapping_add(one);
            }
            shard.unfinished |= !row.is_finished(revision);
            let mut records = std::iter::once(&row.record).chain(&row.written);
            if records.any(|record| record.may_be_at_work()) {
                at_work.push((row.shard(), Arc::clone(name)));
            }
        }
        Archive {
            selector,
            shards,
            notes,
            proven: false,
            stale: true,
            left,
            at_work,
            wanted: false,
            lacks_fields: false,
            unresolved: None,
            reading: false,
            failures: 0,
            retry_at: None,
        }
    }

    /// Number of records. All of them are complete.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shards.iter().map(|shard| shard.rows).sum()
    }

    /// Number of reports on the hub.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.iter().filter(|shard| shard.exists).count()
    }

    /// Clusters on which the upgrade is at work by its rows. It goes on there once it is read.
    pub fn at_work(&self) -> impl Iterator<Item = &Arc<str>> {
        self.at_work.iter().map(|(_, cluster)| cluster)
    }

    /// Requests that the object and its reports are read from the hub.
    pub fn want(&mut self, now: Instant) {
        self.wanted = true;
        self.unresolved.get_or_insert(now);
    }

    /// Prepares for a new term, in which all reports are listed again.
    pub fn begin_term(&mut self) {
        self.shards.clear();
        self.left.clear();
        self.at_work.clear();
        self.proven = false;
        self.stale = true;
        self.end_term();
    }

    /// Forgets running reads when a term ends.
    pub const fn end_term(&mut self) {
        self.reading = false;
        self.failures = 0;
        self.retry_at = None;
        self.unresolved = None;
    }

    /// Updates the counts and digests from a report; `None`: the report was deleted. `own`: this replica leads.
    pub fn observe(&mut self, shard: usize, version: u64, report: Option<&Report>, own: bool) {
        if self.shards.len() <= shard {
            self.shards.resize(shard + 1, ArchivedShard::default());
        }
        let known = &mut self.shards[shard];
        if version <= known.version {
            return;
        }
        let late = own && report.is_some() && (known.late || (self.proven && !known.exists));
        self.proven &= late;
        let revision = self.selector.as_ref().map(Selector::revision);
        *known = report.map_or(
            ArchivedShard {
                version,
                ..ArchivedShard::default()
            },
            |report| ArchivedShard {
                late,
                ..ArchivedShard::of(report, version, revision)
            },
        );
        self.at_work.retain(|(number, _)| *number != shard);
        if let Some(report) = report {
            for stored in &report.rows.rows {
                let Some(cluster) = stored.cluster() else { continue };
                let cluster = || Arc::<str>::from(cluster);
                let row = stored.row.as_ref().ok();
                let has_left = row.is_some_and(|row| row.left_selection);
                self.left.extend(has_left.then(cluster));
                // A row that cannot be read may say so. The records that were proven outweigh a late report.
                let is_at_work = !late && row.is_none_or(|row| is_stand_in(row) || row.phase.is_at_work());
                self.at_work.extend(is_at_work.then(|| (shard, cluster())));
            }
        }
        self.stale = true;
    }

    /// Compares with a complete list of reports. `seen` returns true for the number of each listed report;
    /// `newest` is the newest resource version.
    pub fn relist(&mut self, seen: impl Fn(usize) -> bool, newest: u64) {
        for (number, shard) in self.shards.iter_mut().enumerate() {
            if shard.exists && shard.version <= newest && !seen(number) {
                *shard = ArchivedShard::default();
                self.at_work.retain(|(of, _)| *of != number);
                self.proven = false;
                self.stale = true;
            }
        }
    }

    /// Handles changes that may alter the selection.
    pub(super) fn handle_selection_changes(&mut self, changes: &SelectionChanges, namespace: &str) {
        self.stale |= self
            .selector
            .as_ref()
            .is_some_and(|selector| selector.is_concerned(changes, namespace));
    }

    /// True when all records are complete and belong to exactly the selected clusters, and the status counts
    /// those. `clusters`: all clusters of the hub.
    pub(super) fn is_confirmed(
        &mut self,
        selected: Option<&Selected>,
        clusters: &Clusters,
        status: Option<&ManagedClustersUpgradeStatus>,
    ) -> bool {
        let unfinished = self.shards.iter().any(|shard| shard.unfinished);
        if unfinished || self.left.iter().any(|name| !clusters.contains_key(name)) {
            return false;
        }
        let Some(selected) = selected else {
            return self.selector.is_none() && self.rows() == 0;
        };
        let recorded = self
            .shards
            .iter()
            .fold(0, |sum: u64, shard| sum.wrapping_add(shard.members));
        let clusters = selected.clusters.iter();
        let same = members(clusters.map(|(name, member)| (&**name, member.canary))) == recorded;
        // The status already shows the notes of the last pass.
        let notes = digest_of_notes(selected);
        let same_notes = self
            .notes
            .map_or(selected.notes.is_empty(), |known| known == notes);
        self.notes = Some(notes);
        let confirmed = same && same_notes && self.rows() > 0;
        self.proven |= confirmed;
        confirmed && status.is_none_or(|status| self.is_counted(status, selected.clusters.len()))
    }

    /// True when a status has as many clusters, canaries and selected clusters as there are. A leader may have written it
    /// and have ended before it wrote the records that it tells of. An earlier release did not write all of these numbers.
    fn is_counted(&self, status: &ManagedClustersUpgradeStatus, selected: usize) -> bool {
        let is = |told: i64, number: usize| usize::try_from(told).is_ok_and(|told| told == number);
        let phases = &status.phases;
        let clusters = phases
            .values()
            .fold(0, |sum: i64, number| sum.saturating_add(*number));
        let canaries: usize = self.shards.iter().map(|shard| shard.canaries).sum();
        let mut summary = status.canary_clusters_summery.iter();
        let mut conditions = status.conditions.iter();
        let text = selected_message(selected, []);
        (phases.is_empty() || is(clusters, self.rows()))
            && summary.all(|summary| is(summary.total, canaries))
            && conditions.all(|one| one.type_ != SELECTED || one.message.starts_with(&text))
    }

    /// True when the report of a shard was created beside records that were proven.
    pub(super) fn is_late(&self, shard: usize) -> bool {
        self.shards.get(shard).is_some_and(|shard| shard.late)
    }

    /// True when the archive must be compared or read.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        (self.stale || self.wanted) && !self.reading
    }

    pub(super) fn is_to_be_read(&self, now: Instant) -> bool {
        (self.wanted || self.lacks_fields) && !self.reading && self.retry_at.is_none_or(|at| at <= now)
    }

    /// Records that reading failed. The wait before the next try doubles each time.
    pub(super) fn fail(&mut self, now: Instant) {
        let wait = RETRY.0.saturating_mul(1 << self.failures.min(10));
        self.reading = false;
        self.retry_at = Some(now + wait.min(RETRY.1));
        self.failures += 1;
    }

    /// True when a shard is known in a newer version than the one in `read`.
    pub(super) fn is_newer_than(&self, read: &[(u64, bool)]) -> bool {
        let mut shards = self.shards.iter().enumerate();
        shards.any(|(number, shard)| match read.get(number) {
            Some((version, _)) if *version > 0 => *version < shard.version,
            _ => shard.exists,
        })
    }

    /// True when the upgrade may start in a cluster. Once its records are known to be complete and to be those of the
    /// selected clusters, it starts nowhere until something changes that makes it compared or read again.
    #[must_use]
    pub fn may_start(&self, namespace: &str, cluster: &str, index: &Index, require_bindings: bool) -> bool {
        let selected = |selector: &Selector| selector.select(namespace, index, require_bindings);
        let selects = |selector: &Selector| selected(selector).clusters.contains_key(cluster);
        (self.stale || self.wanted) && self.selector.as_ref().is_none_or(selects)
    }
}
