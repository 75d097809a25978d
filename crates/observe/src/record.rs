//! The rows of reports as the planner knows them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::names::report_name;
use api::report::{Phase, ReportRow, Stage};
use api::stored::{StoredRow, Unreadable};
use api::text::cut;
use api::views::Report;
use chrono::{DateTime, Utc};
use rollout::{Attempt, Reason, Record, StepRecord};

use crate::input::ClusterRow;

/// Largest number of reports of an upgrade; more than any hub needs.
pub const MAX_REPORTS: usize = 100_000;

/// How to fix a row.
const REMEDY: &str = "Upgrade the controller to the release that wrote it, or fix or delete the row.";

/// The relation of a report to an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportRelation {
    /// It belongs to the upgrade: it is in its namespace, has the name of one of its reports, and the upgrade
    /// is its controller.
    Own,
    /// It belongs to an upgrade with the same name and namespace but another UID.
    OtherUid,
    /// It belongs to something else.
    Unrelated,
}

/// The relation of a report to the upgrade with this namespace, name and UID. Nothing else decides whether a report
/// belongs to an upgrade.
#[must_use]
pub fn relation_of(report: &Report, namespace: &str, name: &str, uid: &str) -> ReportRelation {
    let meta = &report.metadata;
    let report_name = meta.name.as_deref();
    let placed = meta.namespace.as_deref() == Some(namespace)
        && report_name.is_some_and(|report| shard_of(name, report).is_some());
    match report.owner().filter(|owner| placed && *owner.name == *name) {
        Some(owner) if *owner.uid == *uid => ReportRelation::Own,
        Some(_) => ReportRelation::OtherUid,
        None => ReportRelation::Unrelated,
    }
}

/// Number of the shard, from 0, that a report with this name holds; `None` if it is no report of the upgrade.
#[must_use]
pub fn shard_of(upgrade: &str, report: &str) -> Option<usize> {
    let (_, number) = report.rsplit_once('-')?;
    let number: usize = number.parse().ok()?;
    let exact = report_name(upgrade, number) == report;
    number
        .checked_sub(1)
        .filter(|shard| exact && *shard < MAX_REPORTS)
}

/// The row of a cluster, as the hub holds it.
#[derive(Clone, Debug)]
pub struct HubRow {
    /// The record.
    pub record: Arc<Record>,
    /// The cluster is a canary.
    pub canary: bool,
    /// Version to which the record's attempt upgrades.
    pub target: Arc<str>,
}

impl ClusterRow for HubRow {
    fn record(&self) -> &Arc<Record> {
        &self.record
    }

    fn written(&self) -> Option<&Arc<Record>> {
        Some(&self.record)
    }

    fn slot_in_doubt(&self) -> bool {
        false
    }

    fn is_canary(&self) -> bool {
        self.canary
    }
}

/// The rows of one upgrade, as the hub holds them.
#[derive(Clone, Debug, Default)]
pub struct HubRows {
    /// The rows by cluster.
    pub by_cluster: BTreeMap<Arc<str>, HubRow>,
    /// True when a whole report is unreadable, so the clusters of its rows are unknown.
    pub is_incomplete: bool,
}

impl HubRows {
    /// Reads the reports of the upgrade with this name. All of them belong to it.
    #[must_use]
    pub fn read<'a>(upgrade: &str, reports: impl IntoIterator<Item = &'a Report>) -> HubRows {
        let mut shards: Vec<(usize, &Report)> = reports
            .into_iter()
            .filter_map(|report| Some((shard_of(upgrade, report.metadata.name.as_deref()?)?, report)))
            .collect();
        shards.sort_by_key(|(shard, _)| *shard);
        let mut rows = HubRows::default();
        for (shard, report) in shards {
            let name = report_name(upgrade, shard + 1);
            if report.rows.error.is_some() {
                rows.is_incomplete = true;
                let record =
                    unreadable_record(&format!("the rows of report {name} are not a list"), None, &[]);
                rows.put(&format!("{name}/rows"), HubRow::unreadable(record));
            }
            for (at, row) in report.rows.rows.iter().enumerate() {
                match row.cluster() {
                    Some(cluster) => rows.add(cluster, row),
                    // Without a cluster name the finished clusters are not known.
                    None => rows.add(&format!("{name}/rows[{at}]"), row),
                }
            }
        }
        rows
    }

    fn put(&mut self, cluster: &str, row: HubRow) {
        self.by_cluster.insert(Arc::from(cluster), row);
    }

    /// Adds a row. One that cannot be read outweighs every other row of its cluster, and a younger one an older one.
    fn add(&mut self, cluster: &str, row: &StoredRow) {
        let known = self.by_cluster.get(cluster);
        if known.is_some_and(|known| known.record.unreadable) {
            return;
        }
        match readable(row) {
            Ok(read) => {
                if known.is_none_or(|known| known.record.since <= read.since) {
                    self.put(cluster, HubRow::of(read));
                }
            }
            Err(what) => {
                let record = unreadable_record(&what.error, what.since, &what.open);
                self.put(cluster, HubRow::unreadable(record));
            }
        }
    }
}

impl HubRow {
    fn of(row: &ReportRow) -> HubRow {
        HubRow {
            record: Arc::new(to_record(row)),
            canary: row.canary,
            target: Arc::from(row.to_version.as_str()),
        }
    }

    fn unreadable(record: Record) -> HubRow {
        HubRow {
            record: Arc::new(record),
            canary: false,
            target: Arc::from(""),
        }
    }
}

/// The row, or what is known of it if it cannot be read.
fn readable(row: &StoredRow) -> Result<&ReportRow, Unreadable> {
    match &row.row {
        Ok(read) if is_stand_in(read) => Err(unreadable_stand_in(read)),
        Ok(read) => Ok(read),
        Err(unreadable) => Err(unreadable.clone()),
    }
}

/// What is known of a row that looks like a placeholder. The controller never writes such a row.
#[must_use]
pub fn unreadable_stand_in(row: &ReportRow) -> Unreadable {
    Unreadable {
        cluster: Some(row.cluster.clone()),
        since: Some(row.since),
        open: Vec::new(),
        error: "its reason is never written by a controller".to_owned(),
    }
}

/// True for a row that looks like the placeholder for an unreadable one.
#[must_use]
pub fn is_stand_in(row: &ReportRow) -> bool {
    row.reason == Reason::UnreadableRecord.as_str() && row.revision.is_empty()
}

/// The placeholder for the record of a row that cannot be read. It blocks its cluster. Of its stages it has those that are open
/// according to the row.
#[must_use]
pub fn unreadable_record(
    error: &str,
    since: Option<DateTime<Utc>>,
    open: &[(Stage, DateTime<Utc>)],
) -> Record {
    let mut stages = [None; 5];
    for (stage, started) in open {
        stages[stage.index()] = Some(StepRecord::started(*started));
    }
    Record {
        attempt: Attempt {
            revision: Arc::from(""),
            retry: Arc::from(""),
        },
        phase: Phase::Blocked,
        reason: Reason::UnreadableRecord,
        other_reason: None,
        refused_step: None,
        message: Arc::from(format!(
            "The report row of the cluster cannot be read: {}. {REMEDY}",
            cut(error, 120)
        )),
        since: since.unwrap_or_default(),
        stages,
        from_version: Arc::from(""),
        unreadable: true,
    }
}

/// The record of a row.
#[must_use]
pub fn to_record(row: &ReportRow) -> Record {
    let mut stages = [None; 5];
    for step in &row.steps {
        stages[step.name.index()] = Some(StepRecord {
            started: step.started_at,
            applied: step.applied_at,
            finished: step.finished_at,
            outcome: step.outcome,
        });
    }
    let needs_reason = matches!(
        row.phase,
        Phase::Failed | Phase::PreActionDegraded | Phase::Blocked
    );
    let known = match row.reason.as_str() {
        "" => Some(Reason::None),
        text => Reason::parse(text),
    };
    // The planner gives every cluster that does not move a reason, but a row that someone edited may have
    // none.
    let known = known.filter(|known| !needs_reason || *known != Reason::None);
    Record {
        attempt: Attempt {
            revision: Arc::from(row.revision.as_str()),
            retry: Arc::from(row.retry.as_str()),
        },
        phase: row.phase,
        reason: known.unwrap_or(Reason::Other),
        other_reason: known.is_none().then(|| {
            Arc::from(if row.reason.is_empty() {
                "Unknown"
            } else {
                &*row.reason
            })
        }),
        refused_step: row.refused_step.and_then(Stage::step),
        message: Arc::from(row.message.as_str()),
        since: row.since,
        stages,
        from_version: Arc::from(row.from_version.as_str()),
        unreadable: false,
    }
}

#[cfg(test)]
mod tests;
