//! The records of an upgrade's clusters and their shards. Rows are stable: a cluster keeps its shard.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::names::report_name;
use api::report::{MAX_ROWS, Phase as RowPhase, ReportRow, ReportStep, StepName, StepOutcome};
use api::views::Report;
use rollout::{Attempt, Outcome, Phase, Plan, Reason, Record, Stage, StepRecord};

/// How long changes of a shard are gathered before it is written (`reference/mcu.md` §3.1).
const COALESCE: Duration = Duration::from_secs(2);

/// Records by cluster, and the shards they live in.
#[derive(Debug)]
pub struct Rows {
    upgrade: Arc<str>,
    by_cluster: BTreeMap<Arc<str>, Row>,
    shards: Vec<Shard>,
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
    shard: usize,
}

#[derive(Debug, Default)]
struct Shard {
    members: usize,
    changed: Option<Instant>,
    urgent: bool,
    writing: bool,
    exists: bool,
    version: u64,
}

/// A shard that is due, ready to be written.
#[derive(Debug)]
pub struct Due {
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
        }
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
    fn shard_of(&self, report: &str) -> Option<usize> {
        let number: usize = report
            .strip_prefix(&report_name(&self.upgrade, 0)[..self.upgrade.len() + "-report-".len()])?
            .parse()
            .ok()?;
        number.checked_sub(1).filter(|shard| *shard < 100_000)
    }

    /// Takes a report as the hub has it. A follower learns from it; a leader (`own`) knows better and only notices that
    /// somebody else changed or removed it, in which case it is written anew.
    pub fn observe(&mut self, report: &Report, deleted: bool, own: bool) {
        let Some(shard) = report
            .metadata
            .name
            .as_deref()
            .and_then(|name| self.shard_of(name))
        else {
            return;
        };
        let version = report
            .metadata
            .resource_version
            .as_deref()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        while self.shards.len() <= shard {
            self.shards.push(Shard::default());
        }
        if self.shards[shard].version > version && !deleted {
            return;
        }
        if own && (self.shards[shard].exists || self.shards[shard].writing) {
            let entry = &mut self.shards[shard];
            if !entry.writing && (deleted || version > entry.version) {
                entry.exists = !deleted;
                entry.changed.get_or_insert_with(Instant::now);
            }
            return;
        }
        self.shards[shard].exists = !deleted;
        self.shards[shard].version = version;
        self.load(
            shard,
            if deleted {
                &[]
            } else {
                report.rows.good().map_or(&[], Vec::as_slice)
            },
        );
    }

    fn load(&mut self, shard: usize, rows: &[ReportRow]) {
        self.by_cluster.retain(|_, row| row.shard != shard);
        for row in rows {
            let record = Arc::new(to_record(row));
            let entry = Row {
                record: Arc::clone(&record),
                written: Some(record),
                canary: row.canary,
                left: row.left_selection,
                shard,
            };
            self.by_cluster.insert(Arc::from(row.cluster.as_str()), entry);
        }
        for (index, entry) in self.shards.iter_mut().enumerate() {
            entry.members = self.by_cluster.values().filter(|row| row.shard == index).count();
        }
    }

    /// Takes the records of a plan. `facts` tells, per cluster, whether it is a canary and whether it left. Returns the
    /// records whose phase is new.
    pub fn take(
        &mut self,
        plan: &Plan,
        now: Instant,
        mut facts: impl FnMut(&str) -> (bool, bool),
    ) -> Vec<(Arc<str>, Arc<Record>)> {
        let mut moved = Vec::new();
        for cluster in &plan.dropped {
            if let Some(row) = self.by_cluster.remove(cluster) {
                self.shards[row.shard].members -= 1;
                self.mark(row.shard, now, false);
            }
        }
        for state in &plan.clusters {
            let (canary, left) = facts(&state.name);
            if let Some(row) = self.by_cluster.get_mut(&state.name) {
                if Arc::ptr_eq(&row.record, &state.record) && row.canary == canary && row.left == left {
                    continue;
                }
                if row.record.phase != state.record.phase {
                    moved.push((Arc::clone(&state.name), Arc::clone(&state.record)));
                }
                row.record = Arc::clone(&state.record);
                row.canary = canary;
                row.left = left;
                let shard = row.shard;
                self.mark(shard, now, state.urgent);
            } else {
                moved.push((Arc::clone(&state.name), Arc::clone(&state.record)));
                let shard = self.room();
                let row = Row {
                    record: Arc::clone(&state.record),
                    written: None,
                    canary,
                    left,
                    shard,
                };
                self.by_cluster.insert(Arc::clone(&state.name), row);
                self.shards[shard].members += 1;
                self.mark(shard, now, state.urgent);
            }
        }
        moved
    }

    /// The first shard with room, so that clusters that start together share one.
    fn room(&mut self) -> usize {
        if let Some(shard) = self.shards.iter().position(|shard| shard.members < MAX_ROWS) {
            return shard;
        }
        self.shards.push(Shard::default());
        self.shards.len() - 1
    }

    fn mark(&mut self, shard: usize, now: Instant, urgent: bool) {
        let entry = &mut self.shards[shard];
        entry.changed.get_or_insert(now);
        entry.urgent |= urgent;
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
    pub fn due(&mut self, now: Instant, target: &str) -> Vec<Due> {
        let due: Vec<usize> = self
            .shards
            .iter()
            .enumerate()
            .filter(|(_, shard)| !shard.writing)
            .filter(|(_, shard)| {
                shard
                    .changed
                    .is_some_and(|changed| shard.urgent || changed + COALESCE <= now)
            })
            .map(|(index, _)| index)
            .collect();
        due.into_iter()
            .filter_map(|shard| {
                let entry = &mut self.shards[shard];
                entry.changed = None;
                entry.urgent = false;
                if entry.members == 0 && !entry.exists {
                    return None;
                }
                entry.writing = true;
                let members = || self.by_cluster.iter().filter(|(_, row)| row.shard == shard);
                Some(Due {
                    shard,
                    name: report_name(&self.upgrade, shard + 1),
                    rows: members()
                        .map(|(cluster, row)| to_row(cluster, row, target))
                        .collect(),
                    records: members()
                        .map(|(cluster, row)| (Arc::clone(cluster), Arc::clone(&row.record)))
                        .collect(),
                })
            })
            .collect()
    }

    /// Notes how a write ended; a failed one is due again after the coalescing time.
    pub fn wrote(&mut self, due: Due, version: Option<u64>, now: Instant) {
        let entry = &mut self.shards[due.shard];
        entry.writing = false;
        let Some(version) = version else {
            entry.changed = Some(now);
            return;
        };
        entry.exists = !due.rows.is_empty();
        entry.version = entry.version.max(version);
        for (cluster, record) in due.records {
            if let Some(row) = self.by_cluster.get_mut(&cluster) {
                row.written = Some(record);
            }
        }
    }
}

fn to_row(cluster: &str, row: &Row, target: &str) -> ReportRow {
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
        from_version: record.from_version.to_string(),
        to_version: target.to_owned(),
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
