//! The records of an upgrade's clusters, and the shards that hold them. A cluster stays in its shard, unless the
//! hub rejects that shard: then it moves to a higher one (`docs/design/rules.md#report-shards`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ahash::AHashMap;
use api::names::report_name;
use api::report::{MAX_ROWS, ReportRow};
use api::stored::StoredRows;
use api::views::Report;
use observe::record::{self, to_record};
use rollout::{ClusterState, Plan, Policy, Record};

use super::row::Row;
use super::shard::{
    Copy, Kept, Outdated, Refusals, Refused, ReportShard, ShardWrite, StoredReport, announcement,
    is_overtaken, slot_below,
};

/// Records by cluster, and their shards.
#[derive(Clone, Debug)]
pub struct Rows {
    upgrade: Arc<str>,
    pub(super) by_cluster: BTreeMap<Arc<str>, Row>,
    /// Rows that are kept as they were read, by cluster: an unreadable row and all other rows of the same
    /// cluster.
    pub(super) kept: BTreeMap<Arc<str>, Vec<Kept>>,
    pub(super) shards: Vec<ReportShard>,
    /// Rows that the hub may still hold although their clusters were dropped or moved.
    pub(super) outdated: Outdated,
    pub(super) refusals: Refusals,
    /// The hub's copy of a report was not what was written, since this was last asked for.
    is_disowned: bool,
    /// Number of the term, which identifies responses to writes of an earlier term.
    pub(super) term: u64,
}

/// What a plan changed in the records.
#[derive(Debug, Default)]
pub struct RowChanges {
    /// Records with a new phase.
    pub phase_changes: Vec<PhaseChange>,
    /// True when any row changed or was removed.
    pub any: bool,
}

/// A cluster whose record has a new phase.
#[derive(Clone, Debug)]
pub struct PhaseChange {
    /// The cluster.
    pub cluster: Arc<str>,
    /// The record before. `None` if there was none.
    pub before: Option<Arc<Record>>,
    /// The record with the new phase.
    pub record: Arc<Record>,
}

impl Rows {
    /// No rows yet.
    #[must_use]
    pub fn new(upgrade: &Arc<str>) -> Rows {
        Rows {
            upgrade: Arc::clone(upgrade),
            by_cluster: BTreeMap::new(),
            kept: BTreeMap::new(),
            shards: Vec::new(),
            outdated: Outdated::new(),
            refusals: Refusals::new(),
            is_disowned: false,
            term: 0,
        }
    }

    /// Removes everything at the start of a term, because the rows on the hub count then. Responses to
    /// earlier writes are ignored.
    pub fn restart(&mut self) {
        self.by_cluster.clear();
        self.kept.clear();
        self.refusals.clear();
        self.shards.clear();
        self.outdated.clear();
        self.term += 1;
    }

    /// The rows by cluster.
    #[must_use]
    pub const fn all(&self) -> &BTreeMap<Arc<str>, Row> {
        &self.by_cluster
    }

    /// Continues the numbering of terms from the given rows.
    pub(crate) const fn follow(&mut self, before: &Rows) {
        self.term = before.term + 1;
    }

    /// The known version of each shard or of its deletion, and whether it exists.
    pub(crate) fn versions(&self) -> Vec<(u64, bool)> {
        let shards = self.shards.iter();
        shards.map(|shard| (shard.copy.version, shard.exists())).collect()
    }

    /// True when every row is on the hub, and none is rejected or kept.
    pub(crate) fn is_settled(&self) -> bool {
        let written = |row: &Row| row.written.as_ref() == Some(&row.record);
        self.kept.is_empty()
            && self.refusals.is_empty()
            && self.shards.iter().all(ReportShard::is_settled)
            && self.by_cluster.values().all(written)
    }

    /// True if the hub's copy of a report has turned out not to be what was written, since this was last asked for.
    pub(crate) fn take_disowned(&mut self) -> bool {
        std::mem::take(&mut self.is_disowned)
    }

    /// Number of shards that exist on the hub.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.iter().filter(|shard| shard.exists()).count()
    }

    /// The row of a cluster.
    #[must_use]
    pub fn get(&self, cluster: &str) -> Option<&Row> {
        self.by_cluster.get(cluster)
    }

    /// Name of the report of a shard.
    pub(super) fn report_name(&self, shard: usize) -> String {
        report_name(&self.upgrade, shard + 1)
    }

    /// True when the name is that of a report of this upgrade.
    #[must_use]
    pub fn is_report(&self, name: &str) -> bool {
        self.shard_of(name).is_some()
    }

    /// Number of the shard, from 0, according to the name of the report.
    pub(crate) fn shard_of(&self, report: &str) -> Option<usize> {
        record::shard_of(&self.upgrade, report)
    }

    /// Handles a report that the hub holds. A follower adopts its rows. A leader (`own`) knows better and
    /// only notices that someone else changed or removed the report, in which case it writes the report
    /// again. Returns true if anything changed.
    pub fn observe(&mut self, report: &Report, deleted: bool, own: bool, now: Instant) -> bool {
        let meta = &report.metadata;
        let Some(shard) = meta.name.as_deref().and_then(|name| self.shard_of(name)) else {
            return false;
        };
        let mut copy = copy_of(report);
        if deleted {
            copy.uid = None;
        }
        if self.shards.len() <= shard {
            self.shards.resize_with(shard + 1, ReportShard::default);
        }
        let entry = &mut self.shards[shard];
        if copy.version <= entry.copy.version {
            return false;
        }
        if own && entry.writing {
            if copy.version > entry.seen.version {
                entry.seen = copy;
            }
            return false;
        }
        entry.copy = copy;
        let nothing = StoredRows::default();
        let held = if deleted { &nothing } else { &report.rows };
        if own {
            entry.closed = false;
            if !deleted {
                self.confirm_in_doubt(shard, held);
                self.reconsider(shard, held, now);
            }
            self.settle_outdated(shard, &by_cluster(held), now);
            self.disown(shard, Some(held), now);
        } else {
            self.load(shard, held, now);
        }
        true
    }

    /// Handles a complete list of reports. `seen` returns true for the name of each listed report; `newest`
    /// is the version of the list. Missing reports were deleted without an event. Returns true if anything
    /// changed.
    pub fn relist(&mut self, seen: impl Fn(&str) -> bool, newest: u64, own: bool, now: Instant) -> bool {
        let mut changed = false;
        for shard in 0..self.shards.len() {
            let entry = &self.shards[shard];
            let missing = entry.exists() && !seen(&report_name(&self.upgrade, shard + 1));
            // A leader may write once more than needed, rather than leave a gap.
            if !missing || entry.writing || (!own && entry.copy.version > newest) {
                continue;
            }
            changed = true;
            if own {
                self.disown(shard, Some(&StoredRows::default()), now);
            } else {
                self.shards[shard].copy.uid = None;
                self.load(shard, &StoredRows::default(), now);
            }
        }
        changed
    }

    /// Handles that the hub's copy of a shard is not what we wrote. It is written again, and until then its rows are those
    /// that the hub holds. If they are not known, a cluster that held a slot by its last row still does, and of any other row only
    /// the attempt counts. For a cluster that has no row there, the one that a lower shard may still have counts. A row that goes
    /// back to an earlier record when the shard is written again counts as that record already, if it holds a slot.
    pub(super) fn disown(&mut self, shard: usize, held: Option<&StoredRows>, now: Instant) {
        self.is_disowned = true;
        self.shards[shard].disowned = true;
        self.shards[shard].changed.get_or_insert(now);
        let held = held.map(by_cluster);
        let readable = |row: &Row| row.shard == shard && !row.record.unreadable;
        for (cluster, row) in self.by_cluster.iter_mut().filter(|(_, row)| readable(row)) {
            if is_overtaken(&self.outdated, cluster, shard) {
                continue;
            }
            let before = row.written.take().filter(|_| held.is_none());
            let known = match &held {
                Some(held) => held
                    .get(&**cluster)
                    .map(|held| Arc::new(to_record(held)))
                    .map(|held| goes_back(row, &held).unwrap_or(held)),
                None => before.clone().filter(|written| written.phase.holds_slot()),
            };
            let known = known.or_else(|| slot_below(&self.outdated, &self.shards, cluster, shard));
            row.written = known.or_else(|| before.as_deref().map(announcement));
        }
        if let Some(held) = &held {
            self.note_overtaken(shard, held, now);
        }
        self.hold_former(shard);
    }

    /// Adopts the records of a plan for `policy`. `facts` returns for a cluster whether it is a canary and
    /// whether it left the selection; it is called in the order of the plan, which is sorted by name.
    pub fn commit(
        &mut self,
        plan: &Plan,
        policy: &Policy,
        now: Instant,
        mut facts: impl FnMut(&Arc<str>) -> (bool, bool),
    ) -> RowChanges {
        let mut changes = RowChanges::default();
        for cluster in &plan.dropped {
            changes.any |= self.drop_row(cluster, now);
        }
        let mut joined = Vec::new();
        // Plan and rows are both sorted by name, so one pass over them is enough; most rows of most plans are
        // unchanged.
        let mut rows = self.by_cluster.iter_mut().peekable();
        for state in &plan.clusters {
            let (canary, left) = facts(&state.name);
            let same = |name: &Arc<str>| Arc::ptr_eq(name, &state.name) || *name == state.name;
            while rows
                .next_if(|(name, _)| !same(name) && **name < state.name)
                .is_some()
            {}
            let Some((_, row)) = rows.next_if(|(name, _)| same(name)) else {
                joined.push((state, canary, left));
                continue;
            };
            let same = Arc::ptr_eq(&row.record, &state.record) && row.canary == canary && row.left == left;
            if same || row.record.unreadable {
                continue;
            }
            if row.record.phase != state.record.phase {
                changes.phase_changes.push(PhaseChange {
                    cluster: Arc::clone(&state.name),
                    before: Some(Arc::clone(&row.record)),
                    record: Arc::clone(&state.record),
                });
            }
            let current = state.record.attempt.revision == policy.revision;
            if state.record.attempt != row.record.attempt {
                // A cluster that is not at the present revision is back at its earlier attempt.
                let attempts = row.attempts.unwrap_or(1);
                let attempts = attempts.saturating_add(if current { 1 } else { -1 });
                row.attempts = Some(attempts.max(1));
            }
            if current {
                row.target = Arc::clone(&policy.target);
            } else if state.record.attempt.revision != row.record.attempt.revision {
                // The cluster is back at an earlier attempt, whose target is not known any more.
                row.target = Arc::from("");
            }
            row.record = Arc::clone(&state.record);
            row.original = None;
            row.canary = canary;
            row.left = left;
            changes.any = true;
            self.shards[row.shard].mark(now, state.urgent);
        }
        let is_incomplete = self.is_incomplete();
        for (state, canary, left) in joined {
            // Its row may be in the report that cannot be read. By another one it would start in the next plan.
            if is_incomplete && state.record.phase.is_queued() {
                continue;
            }
            self.join(state, policy, now, (canary, left));
            changes.phase_changes.push(PhaseChange {
                cluster: Arc::clone(&state.name),
                before: None,
                record: Arc::clone(&state.record),
            });
            changes.any = true;
        }
        changes
    }

    /// Removes the rows of clusters that are gone while nothing can be planned, and returns these clusters. A row that cannot be
    /// read stays.
    pub fn drop_gone(&mut self, is_gone: impl Fn(&str) -> bool, now: Instant) -> Vec<Arc<str>> {
        let rows = self.by_cluster.iter();
        let rows = rows.filter(|(cluster, row)| !row.record.unreadable && is_gone(cluster));
        let gone: Vec<_> = rows.map(|(cluster, _)| Arc::clone(cluster)).collect();
        for cluster in &gone {
            self.drop_row(cluster, now);
        }
        gone
    }

    /// Removes the row of a cluster that is dropped. Returns false if there is none.
    fn drop_row(&mut self, cluster: &Arc<str>, now: Instant) -> bool {
        let Some(row) = self.by_cluster.remove(cluster) else {
            return false;
        };
        self.refusals.remove(cluster);
        self.shards[row.shard].members -= 1;
        let holds = self.abandon(cluster, &row);
        self.shards[row.shard].mark(now, holds);
        true
    }

    /// Adds the row of a new cluster.
    fn join(&mut self, state: &ClusterState, policy: &Policy, now: Instant, (canary, left): (bool, bool)) {
        let shard = self.room_from(self.lowest_shard(&state.name));
        let current = state.record.attempt.revision == policy.revision;
        let row = Row {
            record: Arc::clone(&state.record),
            written: self.outdated_slot(&state.name),
            slot_in_doubt: false,
            stored: None,
            stored_target: Arc::from(""),
            original: None,
            canary,
            left,
            target: if current {
                Arc::clone(&policy.target)
            } else {
                Arc::from("")
            },
            attempts: Some(1),
            shard,
        };
        self.by_cluster.insert(Arc::clone(&state.name), row);
        self.shards[shard].members += 1;
        self.shards[shard].mark(now, state.urgent);
    }

    /// The first shard with room from the given one on. Clusters that start together share a shard.
    pub(super) fn room_from(&mut self, first: usize) -> usize {
        let has_room = |shard: &ReportShard| shard.members < MAX_ROWS && !shard.is_shut();
        let mut shards = self.shards.iter().enumerate().skip(first);
        let found = shards.find(|(number, shard)| has_room(shard) && !self.is_needed(*number));
        if let Some((shard, _)) = found {
            return shard;
        }
        self.shards.push(ReportShard::default());
        self.shards.len() - 1
    }

    /// When the next shard is due.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        let waiting = |shard: &ReportShard| shard.retry_at.filter(|_| !shard.writing);
        let shards = self.shards.iter().enumerate();
        shards
            .flat_map(|(number, shard)| [self.shard_due_at(number), waiting(shard)])
            .flatten()
            .min()
    }

    /// When a shard must be written, if it must and may.
    fn shard_due_at(&self, shard: usize) -> Option<Instant> {
        let at = self.shards[shard].due_at()?;
        (!self.is_needed(shard)).then_some(at)
    }

    /// Returns the shards that are due. Each result must be reported to [`Rows::wrote`].
    pub fn due(&mut self, now: Instant) -> Vec<ShardWrite> {
        self.try_again(now);
        let mut due: Vec<ShardWrite> = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::new();
        for shard in 0..self.shards.len() {
            if self.shard_due_at(shard).is_none_or(|at| at > now) {
                continue;
            }
            let entry = &mut self.shards[shard];
            entry.changed = None;
            entry.urgent = false;
            if entry.members == 0 && !entry.may_exist() {
                // What the hub rejected of it does not matter any more, and the hub has no outdated rows in it.
                entry.recover(true);
                self.settle_outdated(shard, &AHashMap::new(), now);
                continue;
            }
            entry.writing = true;
            entry.seen = Copy::default();
            places.resize(shard + 1, None);
            places[shard] = Some(due.len());
            due.push(ShardWrite {
                term: self.term,
                shard,
                name: report_name(&self.upgrade, shard + 1),
                replaces: entry.copy.uid.clone().map(|uid| StoredReport {
                    uid,
                    version: entry.copy.version,
                }),
                rows: Vec::with_capacity(entry.members),
                clusters: Vec::with_capacity(entry.members),
                records: Vec::with_capacity(entry.members),
                targets: Vec::with_capacity(entry.members),
                in_doubt: entry.in_doubt.len(),
                unproven: Vec::new(),
                former: Vec::new(),
                more: false,
            });
        }
        if due.is_empty() {
            return due;
        }
        for (cluster, row) in &self.by_cluster {
            let place = places.get(row.shard).copied().flatten();
            if let Some(place) = place.filter(|_| !row.record.unreadable) {
                let is_refused = self.is_refused(cluster, &row.record);
                due[place].add(cluster, row, is_refused, self.shards[row.shard].max_rows);
            }
        }
        for (cluster, kept) in &self.kept {
            for kept in kept {
                if let Some(place) = places.get(kept.shard).copied().flatten() {
                    due[place].push(cluster, kept.line());
                }
            }
        }
        for due in &due {
            self.note_in_doubt(due);
        }
        due
    }

    /// Records that a write took effect. `stored` is the result, or `None` if the report was deleted.
    pub fn wrote(&mut self, due: ShardWrite, stored: Option<StoredReport>, now: Instant) {
        let Some(entry) = self.written_shard(&due) else {
            return;
        };
        entry.recover(due.replaces.is_some());
        if due.more {
            entry.max_rows = entry.max_rows.map(|rows| rows * 2);
            entry.mark(now, true);
        } else {
            entry.max_rows = None;
        }
        let result = stored.map_or_else(Copy::default, |stored| Copy {
            version: stored.version,
            uid: Some(stored.uid),
        });
        let seen = std::mem::take(&mut entry.seen);
        self.forget_in_doubt(due.shard, 0);
        let entry = &mut self.shards[due.shard];
        let differs = seen.version > result.version && (seen.uid.is_some() || result.uid.is_some());
        let version = entry.copy.version.max(seen.version).max(result.version);
        let uid = if differs { seen.uid } else { result.uid };
        entry.copy = Copy { version, uid };
        self.note_accepted(&due);
        if differs {
            self.disown(due.shard, None, now);
            return;
        }
        self.forget_outdated(&due, now);
        self.wrote_former(due.shard, due.former);
        if !due.more {
            // Also a row that was not sent, for example because it cannot be read any more.
            let is_tried = |refused: &Refused| refused.shard == due.shard && refused.is_tried;
            self.refusals.retain(|_, refused| !is_tried(refused));
        }
        for (cluster, record) in due.records {
            self.refusals.remove(&cluster);
            if let Some(row) = self.by_cluster.get_mut(&cluster)
                && row.shard == due.shard
                && !is_overtaken(&self.outdated, &cluster, due.shard)
            {
                row.written = Some(record);
            }
        }
    }

    /// Records that the hub holds rows in the form that it accepted last, or not at all (`None`). What it held before may
    /// have been later: the write of an earlier term that was carried out late, or an edit. Without a row in this shard, the
    /// one that a lower shard may still have counts as before.
    fn wrote_former(&mut self, shard: usize, former: Vec<(Arc<str>, Option<Arc<Record>>)>) {
        for (cluster, record) in former {
            let lower = self.outdated.get(&cluster).map(|shards| shards.range(..shard));
            let is_below = lower.is_some_and(|mut shards| shards.next().is_some());
            if let Some(row) = self.by_cluster.get_mut(&cluster)
                && row.shard == shard
                && (record.is_some() || !is_below)
                && !is_overtaken(&self.outdated, &cluster, shard)
            {
                row.written = record;
            }
        }
    }

    /// Records that a write failed. It is due again after a wait that grows with every failure.
    pub fn failed(&mut self, due: &ShardWrite, now: Instant) {
        let Some(entry) = self.written_shard(due) else {
            return;
        };
        let seen = std::mem::take(&mut entry.seen);
        entry.fail(now);
        if seen.version > entry.copy.version {
            // Perhaps our own write, whose response was lost, perhaps another one. The next write conflicts with it, and
            // then it is read.
            self.disown(due.shard, None, now);
        }
    }

    /// Records that a write was rejected because the hub holds another copy than the one to be replaced:
    /// `report`, or none. `own`: it belongs to the upgrade.
    pub fn conflicted(&mut self, due: &ShardWrite, report: Option<&Report>, own: bool, now: Instant) {
        let Some(entry) = self.written_shard(due) else {
            return;
        };
        let seen = std::mem::take(&mut entry.seen);
        let found = report.map_or_else(Copy::default, copy_of);
        // What the hub has just told counts, also if it is older: its storage may have gone back.
        let known = entry.copy.version.max(seen.version);
        entry.copy = Copy {
            version: if report.is_some() { found.version } else { known },
            uid: found.uid,
        };
        entry.closed = false;
        entry.conflict(now);
        let report = report.filter(|_| own);
        if let Some(report) = report {
            self.confirm_in_doubt(due.shard, &report.rows);
            self.reconsider(due.shard, &report.rows, now);
        }
        let nothing = StoredRows::default();
        let held = report.map_or(&nothing, |report| &report.rows);
        self.settle_outdated(due.shard, &by_cluster(held), now);
        self.disown(due.shard, Some(held), now);
    }

    /// The shard whose write has ended; `None` if that was in an earlier term.
    fn written_shard(&mut self, due: &ShardWrite) -> Option<&mut ReportShard> {
        let entry = self.shards.get_mut(due.shard).filter(|_| due.term == self.term)?;
        entry.writing = false;
        Some(entry)
    }
}

/// The readable rows of a report, by cluster.
/// The record to which a row goes back if the hub rejects its next write, if its cluster holds a slot by that one and none by the row
/// that the hub holds: nothing may be cleaned up, or start, by a row that is about to be set back.
fn goes_back(row: &Row, held: &Record) -> Option<Arc<Record>> {
    let stored = row.stored.as_ref().filter(|stored| stored.phase.holds_slot())?;
    let is_same = stored.attempt == held.attempt;
    (is_same && !held.phase.holds_slot()).then(|| Arc::clone(stored))
}

pub(super) fn by_cluster(rows: &StoredRows) -> AHashMap<&str, &ReportRow> {
    rows.good().map(|row| (row.cluster.as_str(), row)).collect()
}

/// What a report says about itself.
fn copy_of(report: &Report) -> Copy {
    let meta = &report.metadata;
    let version = meta.resource_version.as_deref();
    Copy {
        version: version.and_then(|text| text.parse().ok()).unwrap_or(0),
        uid: Some(Arc::from(meta.uid.as_deref().unwrap_or_default())),
    }
}

#[cfg(test)]
mod tests;
