//! The records of an upgrade's clusters and their shards. Rows are stable: a cluster keeps its shard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::report_name;
use api::report::{MAX_ROWS, Phase as RowPhase, ReportRow, ReportStep, StepName, StepOutcome};
use api::views::Report;
use rollout::{Attempt, ClusterState, Outcome, Phase, Plan, Policy, Reason, Record, Stage, StepRecord};

use super::status::cut;

/// How long changes of a shard are gathered before it is written (`reference/mcu.md` §3.1).
const COALESCE: Duration = Duration::from_secs(2);
/// Longest version in a row, in bytes (schema of the report): versions are what clusters say, and one row that the schema
/// refuses would keep its whole shard from being written.
const LONGEST_VERSION: usize = 128;
/// Number of phases.
pub const PHASES: usize = 11;
/// Most shards: more than any hub has clusters for.
const MAX_SHARDS: usize = 100_000;

/// Records by cluster, and the shards they live in.
#[derive(Debug)]
pub struct Rows {
    upgrade: Arc<str>,
    by_cluster: BTreeMap<Arc<str>, Row>,
    shards: Vec<Shard>,
    /// Clusters by phase.
    phases: [usize; PHASES],
    /// Clusters whose upgrade is under way.
    under_way: Vec<Arc<str>>,
    /// Counts the terms, so that answers to writes of an earlier one are told apart.
    term: u64,
}

/// One cluster's record.
#[derive(Clone, Debug)]
pub struct Row {
    /// The latest record.
    pub record: Arc<Record>,
    /// The record as last written.
    pub written: Option<Arc<Record>>,
    /// It is a canary.
    pub canary: bool,
    /// It left the selection.
    pub left: bool,
    /// Version that the record's attempt upgrades to.
    target: Arc<str>,
    shard: usize,
}

#[derive(Debug, Default)]
struct Shard {
    members: usize,
    /// Since when it differs from the hub's copy.
    changed: Option<Instant>,
    urgent: bool,
    writing: bool,
    exists: bool,
    /// Resource version of the hub's copy, as far as it was told.
    version: u64,
    /// Newest version seen while a write was under way: ours, or somebody else's after it.
    seen: u64,
}

impl Shard {
    /// It differs from the hub's copy.
    fn mark(&mut self, now: Instant, urgent: bool) {
        self.changed.get_or_insert(now);
        self.urgent |= urgent;
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
    term: u64,
    /// Number of the shard, from 0.
    pub shard: usize,
    /// Name of the report.
    pub name: String,
    /// The rows; empty for a shard that is to be deleted.
    pub rows: Vec<ReportRow>,
    /// The records that become written when the write succeeds.
    pub records: Vec<(Arc<str>, Arc<Record>)>,
}

impl Rows {
    /// No rows yet.
    #[must_use]
    pub fn new(upgrade: &Arc<str>) -> Rows {
        Rows {
            upgrade: Arc::clone(upgrade),
            by_cluster: BTreeMap::new(),
            shards: Vec::new(),
            phases: [0; PHASES],
            under_way: Vec::new(),
            term: 0,
        }
    }

    /// Forgets everything, for a term begins: what counts is on the hub. Answers to earlier writes count no more.
    pub fn restart(&mut self) {
        self.by_cluster.clear();
        self.shards.clear();
        self.recount();
        self.term += 1;
    }

    /// Clusters by phase, in the order of [`Phase`].
    #[must_use]
    pub const fn phases(&self) -> &[usize; PHASES] {
        &self.phases
    }

    /// Clusters whose upgrade is under way: they hold a slot, soak, or run their post-action.
    #[must_use]
    pub fn under_way(&self) -> &[Arc<str>] {
        &self.under_way
    }

    /// Counts anew, after rows have changed: whoever asks for the numbers asks far more often.
    fn recount(&mut self) {
        self.phases = [0; PHASES];
        self.under_way.clear();
        for (cluster, row) in &self.by_cluster {
            let phase = row.record.phase;
            self.phases[phase as usize] += 1;
            if phase.holds_slot() || matches!(phase, Phase::Soaking | Phase::PostAction) {
                self.under_way.push(Arc::clone(cluster));
            }
        }
    }

    /// True when the hub has every row as it is here, and no write is under way or due.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.shards
            .iter()
            .all(|shard| shard.changed.is_none() && !shard.writing)
            && self.by_cluster.values().all(|row| {
                let written = row.written.as_ref();
                written.is_some_and(|written| Arc::ptr_eq(written, &row.record) || *written == row.record)
            })
    }

    /// Version of the hub's copy of each shard; 0 where there is none.
    #[must_use]
    pub fn versions(&self) -> Vec<u64> {
        let version = |shard: &Shard| if shard.exists { shard.version } else { 0 };
        self.shards.iter().map(version).collect()
    }

    /// The rows by cluster.
    #[must_use]
    pub const fn all(&self) -> &BTreeMap<Arc<str>, Row> {
        &self.by_cluster
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
            self.disown(shard, now);
        } else if deleted {
            self.load(shard, &[], now);
        } else {
            self.load(shard, report.rows.good().map_or(&[], Vec::as_slice), now);
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
                self.load(shard, &[], now);
            }
        }
        changed
    }

    /// The hub's copy of a shard is not what we wrote: nothing in it counts as written, and it is written anew.
    fn disown(&mut self, shard: usize, now: Instant) {
        self.shards[shard].changed.get_or_insert(now);
        for row in self.by_cluster.values_mut().filter(|row| row.shard == shard) {
            row.written = None;
        }
    }

    fn load(&mut self, shard: usize, rows: &[ReportRow], now: Instant) {
        if self.shards[shard].members > 0 {
            self.by_cluster.retain(|_, row| row.shard != shard);
            self.shards[shard].members = 0;
        }
        for row in rows {
            let record = Arc::new(to_record(row));
            let entry = Row {
                record: Arc::clone(&record),
                written: Some(record),
                canary: row.canary,
                left: row.left_selection,
                target: Arc::from(row.to_version.as_str()),
                shard,
            };
            // A cluster that moved to another shard just before a crash is in both: the younger row counts, the other
            // shard is put right.
            let lost = match self.by_cluster.get(row.cluster.as_str()) {
                Some(known) if known.record.since > row.since => Some(shard),
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
                self.shards[lost].changed.get_or_insert(now);
            }
        }
        self.recount();
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
            if Arc::ptr_eq(&row.record, &state.record) && row.canary == canary && row.left == left {
                continue;
            }
            if row.record.phase != state.record.phase {
                changes
                    .moved
                    .push((Arc::clone(&state.name), Arc::clone(&state.record)));
            }
            row.record = Arc::clone(&state.record);
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
        if changes.any {
            self.recount();
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
        if let Some(shard) = self.shards.iter().position(|shard| shard.members < MAX_ROWS) {
            return shard;
        }
        self.shards.push(Shard::default());
        self.shards.len() - 1
    }

    /// When the next shard is due.
    #[must_use]
    pub fn due_at(&self) -> Option<Instant> {
        self.shards
            .iter()
            .filter(|shard| !shard.writing)
            .filter_map(|shard| {
                shard
                    .changed
                    .map(|changed| if shard.urgent { changed } else { changed + COALESCE })
            })
            .min()
    }

    /// Takes the shards that are due; each must be answered with [`Rows::wrote`].
    pub fn due(&mut self, now: Instant) -> Vec<Due> {
        let mut due: Vec<Due> = Vec::new();
        let mut places: Vec<Option<usize>> = Vec::new();
        for (shard, entry) in self.shards.iter_mut().enumerate() {
            let ripe = |changed: Instant| entry.urgent || changed + COALESCE <= now;
            if entry.writing || !entry.changed.is_some_and(ripe) {
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
                records: Vec::with_capacity(entry.members),
            });
        }
        if due.is_empty() {
            return due;
        }
        for (cluster, row) in &self.by_cluster {
            if let Some(place) = places.get(row.shard).copied().flatten() {
                due[place].rows.push(to_row(cluster, row));
                due[place]
                    .records
                    .push((Arc::clone(cluster), Arc::clone(&row.record)));
            }
        }
        due
    }

    /// Notes how a write ended (`version`: of the report, 0 for one that was deleted); a failed one is due again after
    /// the coalescing time.
    pub fn wrote(&mut self, due: Due, version: Option<u64>, now: Instant) {
        let Some(entry) = self.shards.get_mut(due.shard).filter(|_| due.term == self.term) else {
            return;
        };
        entry.writing = false;
        let Some(version) = version else {
            entry.changed = Some(now);
            entry.urgent = false;
            return;
        };
        entry.exists = !due.rows.is_empty();
        entry.version = entry.version.max(version).max(entry.seen);
        if entry.exists && entry.seen > version {
            self.disown(due.shard, now);
            return;
        }
        for (cluster, record) in due.records {
            if let Some(row) = self.by_cluster.get_mut(&cluster)
                && row.shard == due.shard
            {
                row.written = Some(record);
            }
        }
    }
}

fn to_row(cluster: &str, row: &Row) -> ReportRow {
    let record = &row.record;
    ReportRow {
        cluster: cluster.to_owned(),
        phase: to_row_phase(record.phase),
        canary: row.canary,
        left_selection: row.left,
        reason: if record.reason == Reason::None {
            String::new()
        } else {
            record.reason.as_str().to_owned()
        },
        message: record.message.to_string(),
        from_version: cut(&record.from_version, LONGEST_VERSION).to_owned(),
        to_version: row.target.to_string(),
        since: record.since,
        revision: record.attempt.revision.to_string(),
        retry: record.attempt.retry.to_string(),
        steps: Stage::ALL
            .into_iter()
            .filter_map(|stage| {
                record.stage(stage).map(|entry| ReportStep {
                    name: to_step_name(stage),
                    started_at: entry.started,
                    applied_at: entry.applied,
                    finished_at: entry.finished,
                    outcome: entry.outcome.map(|outcome| match outcome {
                        Outcome::Succeeded => StepOutcome::Succeeded,
                        Outcome::Failed => StepOutcome::Failed,
                    }),
                })
            })
            .collect(),
    }
}

fn to_record(row: &ReportRow) -> Record {
    let mut stages = [None; 5];
    for step in &row.steps {
        stages[from_step_name(step.name).index()] = Some(StepRecord {
            started: step.started_at,
            applied: step.applied_at,
            finished: step.finished_at,
            outcome: step.outcome.map(|outcome| match outcome {
                StepOutcome::Succeeded => Outcome::Succeeded,
                StepOutcome::Failed => Outcome::Failed,
            }),
        });
    }
    Record {
        attempt: Attempt {
            revision: Arc::from(row.revision.as_str()),
            retry: Arc::from(row.retry.as_str()),
        },
        phase: from_row_phase(row.phase),
        reason: Reason::parse(&row.reason).unwrap_or(Reason::None),
        message: Arc::from(row.message.as_str()),
        since: row.since,
        stages,
        from_version: Arc::from(row.from_version.as_str()),
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

const fn from_row_phase(phase: RowPhase) -> Phase {
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

const fn to_step_name(stage: Stage) -> StepName {
    match stage {
        Stage::PreAction => StepName::PreAction,
        Stage::Platform => StepName::Platform,
        Stage::Operators => StepName::Operators,
        Stage::Soak => StepName::Soak,
        Stage::PostAction => StepName::PostAction,
    }
}

const fn from_step_name(name: StepName) -> Stage {
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
