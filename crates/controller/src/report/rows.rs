//! The records of an upgrade's clusters and their shards. Rows are stable: a cluster keeps its shard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::report_name;
use api::report::{MAX_ROWS, Phase as RowPhase, StepName};
use api::stored::StoredRows;
use api::views::Report;
use rollout::{ClusterState, Phase, Plan, Policy, Record, Stage};
use serde_json::value::RawValue;

use super::kept::Kept;
use super::line::{Line, to_row};
use super::refusals::Refusals;

/// How long changes of a shard are gathered before it is written (`docs/design/rules.md#report-shards`).
const COALESCE: Duration = Duration::from_secs(2);
/// Most shards: more than any hub has clusters for.
const MAX_SHARDS: usize = 100_000;

/// Records by cluster, and the shards they live in.
#[derive(Debug)]
pub struct Rows {
    upgrade: Arc<str>,
    pub(super) by_cluster: BTreeMap<Arc<str>, Row>,
    /// Rows that are kept as they were read, by cluster: one that cannot be read, and whatever else speaks of its cluster.
    pub(super) kept: BTreeMap<Arc<str>, Vec<Kept>>,
    pub(super) shards: Vec<Shard>,
    pub(super) refusals: Refusals,
    /// Counts the terms, so that answers to writes of an earlier one are told apart.
    pub(super) term: u64,
}

/// One cluster's record.
#[derive(Clone, Debug)]
pub struct Row {
    /// The latest record.
    pub record: Arc<Record>,
    /// The record as last written.
    pub written: Option<Arc<Record>>,
    /// The record that the hub has accepted last, whether or not it is there still.
    pub(super) stored: Option<Arc<Record>>,
    /// The text of a row with fields that this release does not know, while the row is unchanged.
    pub(super) original: Option<Arc<RawValue>>,
    /// It is a canary.
    pub canary: bool,
    /// It left the selection.
    pub left: bool,
    /// Version that the record's attempt upgrades to.
    pub target: Arc<str>,
    pub(super) shard: usize,
}

impl Row {
    /// Number of its shard.
    pub(crate) const fn shard(&self) -> usize {
        self.shard
    }

    /// True when its cluster is complete at this revision, or left the selection as complete.
    pub(crate) fn is_finished(&self, revision: Option<&str>) -> bool {
        let record = &self.record;
        let current = self.left || revision == Some(&*record.attempt.revision);
        record.phase == Phase::Complete && current && !record.is_unreadable()
    }
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of one report")]
pub(super) struct Shard {
    pub(super) members: usize,
    /// Since when it differs from the hub's copy.
    pub(super) changed: Option<Instant>,
    pub(super) urgent: bool,
    pub(super) writing: bool,
    /// Writes that failed in a row, and when the next one may be sent.
    pub(super) failures: u32,
    pub(super) not_before: Option<Instant>,
    /// So many rows at most are sent that the hub has not accepted yet, while the one is looked for that it refuses.
    pub(super) most: Option<usize>,
    /// When what was refused is tried again.
    pub(super) retry_at: Option<Instant>,
    /// What the hub said, where it refuses the shard for no row that could be left out.
    pub(super) refused: Option<Arc<str>>,
    /// It is left as it is on the hub, which refuses what it had accepted there.
    pub(super) closed: bool,
    /// Its rows are no list.
    pub(super) illegible: bool,
    exists: bool,
    /// Resource version of the hub's copy, as far as it was told.
    version: u64,
    /// Newest version seen while a write was under way: ours, or somebody else's after it.
    seen: u64,
}

impl Shard {
    /// It differs from the hub's copy.
    pub(super) fn mark(&mut self, now: Instant, urgent: bool) {
        self.changed.get_or_insert(now);
        self.urgent |= urgent;
    }

    /// It is neither written nor given new rows.
    const fn is_shut(&self) -> bool {
        self.closed || self.illegible
    }

    /// Nothing about it is under way or wrong.
    fn is_settled(&self) -> bool {
        let waits = self.changed.is_some() || self.writing || self.retry_at.is_some();
        !waits && self.refused.is_none() && !self.is_shut()
    }

    /// When it is to be written, if it is.
    fn due_at(&self) -> Option<Instant> {
        let changed = self.changed.filter(|_| !self.writing && !self.is_shut())?;
        let at = if self.urgent { changed } else { changed + COALESCE };
        Some(self.not_before.map_or(at, |not_before| at.max(not_before)))
    }
}

/// What a plan changed.
#[derive(Debug, Default)]
pub struct Changes {
    /// Records whose phase is new.
    pub moved: Vec<(Arc<str>, Arc<Record>)>,
    /// True when any row changed or went.
    pub any: bool,
}

/// A shard that is due, ready to be written.
#[derive(Debug)]
pub struct Due {
    pub(super) term: u64,
    /// Number of the shard, from 0.
    pub shard: usize,
    /// Name of the report.
    pub name: String,
    /// The rows; empty for a shard that is to be deleted.
    pub rows: Vec<Line>,
    /// The clusters of the rows, in their order.
    pub clusters: Vec<Arc<str>>,
    /// The records that become written when the write succeeds.
    pub records: Vec<(Arc<str>, Arc<Record>)>,
    /// Those of them that the hub has not accepted before.
    pub(super) unproven: Vec<(Arc<str>, Arc<Record>)>,
    /// Rows are left for the next write.
    more: bool,
}

impl Due {
    fn push(&mut self, cluster: &Arc<str>, line: Line) {
        self.rows.push(line);
        self.clusters.push(Arc::clone(cluster));
    }

    /// Adds the row of a cluster: as it is, or as the hub has it while it is refused or not its turn.
    fn add(&mut self, cluster: &Arc<str>, row: &Row, is_refused: bool, most: Option<usize>) {
        let proven = row
            .stored
            .as_ref()
            .is_some_and(|stored| Arc::ptr_eq(stored, &row.record));
        let waits = !proven && most.is_some_and(|most| self.unproven.len() >= most);
        if !proven && (is_refused || waits) {
            self.more |= waits && !is_refused;
            if let Some(stored) = &row.stored {
                self.push(cluster, Line::Made(Box::new(to_row(cluster, row, stored))));
            }
            return;
        }
        let line = match &row.original {
            Some(text) => Line::Kept(Arc::clone(text)),
            None => Line::Made(Box::new(to_row(cluster, row, &row.record))),
        };
        self.push(cluster, line);
        let entry = (Arc::clone(cluster), Arc::clone(&row.record));
        if !proven {
            self.unproven.push(entry.clone());
        }
        self.records.push(entry);
    }
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
            refusals: Refusals::new(),
            term: 0,
        }
    }

    /// Forgets everything, for a term begins: what counts is on the hub. Answers to earlier writes count no more.
    pub fn restart(&mut self) {
        self.by_cluster.clear();
        self.kept.clear();
        self.refusals.clear();
        self.shards.clear();
        self.term += 1;
    }

    /// The rows by cluster.
    #[must_use]
    pub const fn all(&self) -> &BTreeMap<Arc<str>, Row> {
        &self.by_cluster
    }

    /// Counts on from the terms of the rows that stood here before.
    pub(crate) const fn follow(&mut self, before: &Rows) {
        self.term = before.term + 1;
    }

    /// Version of each shard as far as it was told, and whether it exists.
    pub(crate) fn versions(&self) -> Vec<(u64, bool)> {
        let shards = self.shards.iter();
        shards.map(|shard| (shard.version, shard.exists)).collect()
    }

    /// True when every row is on the hub, and nothing is refused or kept.
    pub(crate) fn is_settled(&self) -> bool {
        let written = |row: &Row| row.written.as_ref() == Some(&row.record);
        self.kept.is_empty()
            && self.refusals.is_empty()
            && self.shards.iter().all(Shard::is_settled)
            && self.by_cluster.values().all(written)
    }

    /// Number of shards that exist on the hub.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.iter().filter(|shard| shard.exists).count()
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

    /// Number of the shard that a report's name says, from 0.
    pub(crate) fn shard_of(&self, report: &str) -> Option<usize> {
        let (_, number) = report.rsplit_once('-')?;
        let number: usize = number.parse().ok()?;
        let exact = report_name(&self.upgrade, number) == report;
        number.checked_sub(1).filter(|shard| exact && *shard < MAX_SHARDS)
    }

    /// Takes a report as the hub has it. A follower learns from it; a leader (`own`) knows better and only notices that
    /// somebody else changed or removed it, in which case it is written anew. True when anything came of it.
    pub fn observe(&mut self, report: &Report, deleted: bool, own: bool, now: Instant) -> bool {
        let meta = &report.metadata;
        let Some(shard) = meta.name.as_deref().and_then(|name| self.shard_of(name)) else {
            return false;
        };
        let version = meta.resource_version.as_deref();
        let version = version.and_then(|text| text.parse().ok()).unwrap_or(0);
        if self.shards.len() <= shard {
            self.shards.resize_with(shard + 1, Shard::default);
        }
        let entry = &mut self.shards[shard];
        if version <= entry.version {
            return false;
        }
        if own && entry.writing {
            entry.seen = entry.seen.max(version);
            return false;
        }
        entry.version = version;
        entry.exists = !deleted;
        if own {
            entry.closed = false;
            if !deleted {
                self.reconsider(shard, &report.rows, now);
            }
            self.disown(shard, now);
        } else if deleted {
            self.load(shard, &StoredRows::default(), now);
        } else {
            self.load(shard, &report.rows, now);
        }
        true
    }

    /// Takes a complete list of reports, of which `seen` tells the names and `newest` the newest version: what is missing
    /// was deleted while nobody looked. True when anything came of it.
    pub fn relist(&mut self, seen: impl Fn(&str) -> bool, newest: u64, own: bool, now: Instant) -> bool {
        let mut changed = false;
        for shard in 0..self.shards.len() {
            let entry = &self.shards[shard];
            let missing = entry.exists && !seen(&report_name(&self.upgrade, shard + 1));
            // A leader may write once too often rather than leave a gap.
            if !missing || entry.writing || (!own && entry.version > newest) {
                continue;
            }
            changed = true;
            if own {
                self.disown(shard, now);
            } else {
                self.shards[shard].exists = false;
                self.load(shard, &StoredRows::default(), now);
            }
        }
        changed
    }

    /// The hub's copy of a shard is not what we wrote: nothing in it counts as written, and it is written anew.
    fn disown(&mut self, shard: usize, now: Instant) {
        self.shards[shard].changed.get_or_insert(now);
        let readable = |row: &&mut Row| row.shard == shard && !row.record.is_unreadable();
        for row in self.by_cluster.values_mut().filter(readable) {
            row.written = None;
        }
    }

    /// Takes the records of a plan made for `policy`. `facts` tells, per cluster, whether it is a canary and whether it
    /// left; it is asked in the order of the plan, which is that of the names.
    pub fn take(
        &mut self,
        plan: &Plan,
        policy: &Policy,
        now: Instant,
        mut facts: impl FnMut(&Arc<str>) -> (bool, bool),
    ) -> Changes {
        let mut changes = Changes::default();
        for cluster in &plan.dropped {
            if let Some(row) = self.by_cluster.remove(cluster) {
                self.refusals.remove(cluster);
                self.shards[row.shard].members -= 1;
                self.shards[row.shard].mark(now, false);
                changes.any = true;
            }
        }
        let mut joined = Vec::new();
        // Plan and rows are both in the order of names: one walk along them, for most rows of most plans are unchanged.
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
            if same || row.record.is_unreadable() {
                continue;
            }
            if row.record.phase != state.record.phase {
                changes
                    .moved
                    .push((Arc::clone(&state.name), Arc::clone(&state.record)));
            }
            row.record = Arc::clone(&state.record);
            row.original = None;
            row.canary = canary;
            row.left = left;
            if state.record.attempt.revision == policy.revision {
                row.target = Arc::clone(&policy.target);
            }
            changes.any = true;
            self.shards[row.shard].mark(now, state.urgent);
        }
        for (state, canary, left) in joined {
            self.join(state, policy, now, (canary, left));
            changes
                .moved
                .push((Arc::clone(&state.name), Arc::clone(&state.record)));
            changes.any = true;
        }
        changes
    }

    /// Gives a new cluster its row.
    fn join(&mut self, state: &ClusterState, policy: &Policy, now: Instant, (canary, left): (bool, bool)) {
        let shard = self.room();
        let current = state.record.attempt.revision == policy.revision;
        let row = Row {
            record: Arc::clone(&state.record),
            written: None,
            stored: None,
            original: None,
            canary,
            left,
            target: if current {
                Arc::clone(&policy.target)
            } else {
                Arc::from("")
            },
            shard,
        };
        self.by_cluster.insert(Arc::clone(&state.name), row);
        self.shards[shard].members += 1;
        self.shards[shard].mark(now, state.urgent);
    }

    /// The first shard with room, so that clusters that start together share one.
    fn room(&mut self) -> usize {
        self.room_from(0)
    }

    /// The first shard after another one with room.
    pub(super) fn room_after(&mut self, shard: usize) -> usize {
        self.room_from(shard + 1)
    }

    fn room_from(&mut self, first: usize) -> usize {
        let mut shards = self.shards.iter().enumerate().skip(first);
        let found = shards.find(|(_, shard)| shard.members < MAX_ROWS && !shard.is_shut());
        if let Some((shard, _)) = found {
            return shard;
        }
        self.shards.push(Shard::default());
        self.shards.len() - 1
    }

    /// When the next shard is due.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        let waiting = |shard: &Shard| shard.retry_at.filter(|_| !shard.writing);
        let shards = self.shards.iter();
        shards
            .flat_map(|shard| [shard.due_at(), waiting(shard)])
            .flatten()
            .min()
    }

    /// Takes the shards that are due; each must be answered with [`Rows::wrote`].
    pub fn due(&mut self, now: Instant) -> Vec<Due> {
        self.try_again(now);
        let mut due: Vec<Due> = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::new();
        for (shard, entry) in self.shards.iter_mut().enumerate() {
            if entry.due_at().is_none_or(|at| at > now) {
                continue;
            }
            entry.changed = None;
            entry.urgent = false;
            if entry.members == 0 && !entry.exists {
                continue;
            }
            entry.writing = true;
            entry.seen = 0;
            places.resize(shard + 1, None);
            places[shard] = Some(due.len());
            due.push(Due {
                term: self.term,
                shard,
                name: report_name(&self.upgrade, shard + 1),
                rows: Vec::with_capacity(entry.members),
                clusters: Vec::with_capacity(entry.members),
                records: Vec::with_capacity(entry.members),
                unproven: Vec::new(),
                more: false,
            });
        }
        if due.is_empty() {
            return due;
        }
        for (cluster, row) in &self.by_cluster {
            let place = places.get(row.shard).copied().flatten();
            if let Some(place) = place.filter(|_| !row.record.is_unreadable()) {
                let is_refused = self.is_refused(cluster, &row.record);
                due[place].add(cluster, row, is_refused, self.shards[row.shard].most);
            }
        }
        for (cluster, kept) in &self.kept {
            for kept in kept {
                if let Some(place) = places.get(kept.shard).copied().flatten() {
                    due[place].push(cluster, kept.line());
                }
            }
        }
        due
    }

    /// Notes how a write ended (`version`: of the report, 0 for one that was deleted); a failed one is due again after
    /// a while, which grows with every failure.
    pub fn wrote(&mut self, due: Due, version: Option<u64>, now: Instant) {
        let Some(entry) = self.shards.get_mut(due.shard).filter(|_| due.term == self.term) else {
            return;
        };
        entry.writing = false;
        let Some(version) = version else {
            entry.fail(now);
            return;
        };
        entry.recover();
        if due.more {
            entry.most = entry.most.map(|most| most * 2);
            entry.mark(now, true);
        } else {
            entry.most = None;
        }
        entry.exists = !due.rows.is_empty();
        entry.version = entry.version.max(version).max(entry.seen);
        if entry.exists && entry.seen > version {
            self.disown(due.shard, now);
            return;
        }
        for (cluster, record) in due.records {
            self.refusals.remove(&cluster);
            if let Some(row) = self.by_cluster.get_mut(&cluster)
                && row.shard == due.shard
            {
                row.stored = Some(Arc::clone(&record));
                row.written = Some(record);
            }
        }
    }
}

/// The phase as rows write it.
#[must_use]
pub const fn to_row_phase(phase: Phase) -> RowPhase {
    match phase {
        Phase::Pending => RowPhase::Pending,
        Phase::Blocked => RowPhase::Blocked,
        Phase::PreAction => RowPhase::PreAction,
        Phase::PreActionDegraded => RowPhase::PreActionDegraded,
        Phase::Initialized => RowPhase::Initialized,
        Phase::Partial => RowPhase::Partial,
        Phase::Operators => RowPhase::Operators,
        Phase::Soaking => RowPhase::Soaking,
        Phase::Complete => RowPhase::Complete,
        Phase::PostAction => RowPhase::PostAction,
        Phase::Failed => RowPhase::Failed,
    }
}

pub(super) const fn from_row_phase(phase: RowPhase) -> Phase {
    match phase {
        RowPhase::Pending => Phase::Pending,
        RowPhase::Blocked => Phase::Blocked,
        RowPhase::PreAction => Phase::PreAction,
        RowPhase::PreActionDegraded => Phase::PreActionDegraded,
        RowPhase::Initialized => Phase::Initialized,
        RowPhase::Partial => Phase::Partial,
        RowPhase::Operators => Phase::Operators,
        RowPhase::Soaking => Phase::Soaking,
        RowPhase::Complete => Phase::Complete,
        RowPhase::PostAction => Phase::PostAction,
        RowPhase::Failed => Phase::Failed,
    }
}

pub(super) const fn to_step_name(stage: Stage) -> StepName {
    match stage {
        Stage::PreAction => StepName::PreAction,
        Stage::Platform => StepName::Platform,
        Stage::Operators => StepName::Operators,
        Stage::Soak => StepName::Soak,
        Stage::PostAction => StepName::PostAction,
    }
}

pub(super) const fn from_step_name(name: StepName) -> Stage {
    match name {
        StepName::PreAction => Stage::PreAction,
        StepName::Platform => Stage::Platform,
        StepName::Operators => Stage::Operators,
        StepName::Soak => Stage::Soak,
        StepName::PostAction => Stage::PostAction,
    }
}

#[cfg(test)]
#[path = "rows_tests.rs"]
mod tests;
