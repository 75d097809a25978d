//! Report rows: the rows of all reports of one upgrade, merged and sorted by cluster name.

use api::conditions;
use api::message::count;
use api::names::LABEL_MCU;
use api::report::{Phase, ReportRow};
use api::stored::{StoredRow, Unreadable};
use api::validate::is_subdomain;
use chrono::{DateTime, Utc};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::failure::Failure;
use crate::upgrade::Upgrade;

/// Plural of the report in URLs and messages.
pub const PLURAL: &str = "managedclustersupgradereports";

/// Label selector for the reports of an upgrade.
#[must_use]
pub fn selector(mcu: &str) -> String {
    format!("{LABEL_MCU}={mcu}")
}

/// The rows of an upgrade.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// One row per cluster, ordered by name.
    pub rows: Vec<ReportRow>,
    /// Number of rows that cannot be read, or whose cluster has a name that no ManagedCluster can have. If a row that cannot be
    /// read names its cluster, `rows` has the cluster as Blocked, as in the controller.
    pub unreadable: usize,
}

impl Rows {
    /// Merges reports. A report is ignored unless the upgrade with this UID owns it: anybody may give an object a label, and an earlier
    /// upgrade of the same name may be deleted but not yet garbage-collected. If a cluster has two rows, the newer one counts.
    #[must_use]
    pub fn merge(shards: &[Value], uid: &str) -> Rows {
        let mut found = Rows::default();
        for shard in shards.iter().filter(|shard| is_owned(shard, "uid", uid)) {
            for row in shard.get("rows").and_then(Value::as_array).into_iter().flatten() {
                match read(row) {
                    Ok(row) => found.rows.push(row),
                    Err(unreadable) => {
                        found.unreadable += 1;
                        found.rows.extend(blocked(unreadable));
                    }
                }
            }
        }
        found
            .rows
            .sort_by(|a, b| a.cluster.cmp(&b.cluster).then(rank(b).cmp(&rank(a))));
        found.rows.dedup_by(|later, kept| later.cluster == kept.cluster);
        found
    }

    /// The rows in one of these phases. Without phases, all rows.
    #[must_use]
    pub fn in_phases(&self, phases: &[Phase]) -> Vec<&ReportRow> {
        self.rows
            .iter()
            .filter(|row| phases.is_empty() || phases.contains(&row.phase))
            .collect()
    }

    /// The row of a cluster.
    #[must_use]
    pub fn of(&self, cluster: &str) -> Option<&ReportRow> {
        self.rows.iter().find(|row| row.cluster == cluster)
    }

    /// The row of a cluster that the user has named.
    ///
    /// # Errors
    /// The upgrade with this name has no such row.
    pub fn named(&self, cluster: &str, upgrade: &str) -> Result<&ReportRow, Failure> {
        self.of(cluster).ok_or_else(|| {
            Failure::Other(format!(
                "{cluster} is not a cluster of the upgrade, or has no row yet; kubectl mcu clusters {upgrade} lists them"
            ))
        })
    }

    /// Names of the clusters that a retry applies to.
    #[must_use]
    pub fn retryable(&self) -> Vec<&str> {
        let failed = self.in_phases(&[Phase::Failed, Phase::PreActionDegraded]);
        let failed = failed.into_iter().filter(|row| is_retryable(row));
        failed.map(|row| row.cluster.as_str()).collect()
    }
}

/// True if a retry applies to the cluster: it failed, and it is selected.
#[must_use]
pub const fn is_retryable(row: &ReportRow) -> bool {
    row.phase.has_failed() && !row.left_selection
}

/// When a step without an outcome ended, if it does not go on: an action that failed may still recover, and what a cluster that is left out
/// was asked for has ended without one.
#[must_use]
pub fn end_of_open_step(row: &ReportRow) -> Option<DateTime<Utc>> {
    let is_over = row.phase == Phase::Failed || row.phase.is_left_out();
    is_over.then_some(row.since)
}

/// What is said if the reports have rows of fewer clusters than the status counts. Empty if they do not.
#[must_use]
pub fn missing_text(upgrade: &Upgrade, rows: &Rows) -> String {
    let found = rows.rows.len();
    // Its counts are from before its object was restored, and no rows are written for it.
    let ready = upgrade.condition(conditions::READY);
    if ready.is_some_and(|ready| ready.reason == conditions::reason::COMPLETED_BEFORE) {
        return String::new();
    }
    let counted = usize::try_from(upgrade.counts().total).unwrap_or_default();
    if counted <= found {
        return String::new();
    }
    format!(
        "the status counts {}, and the reports have rows of {found}. The other rows are not written yet, or cannot be read, or a report is missing; kubectl mcu status {} -n {} shows what the controller says",
        count(counted, "cluster"),
        upgrade.name,
        upgrade.namespace
    )
}

/// The reason of a cluster whose row cannot be read.
const UNREADABLE: &str = "UnreadableRecord";

/// True if the row stands for one that cannot be read, so that its phase and whether it is a canary are not known.
#[must_use]
pub fn is_unreadable(row: &ReportRow) -> bool {
    row.reason == UNREADABLE
}

/// The row of a stored text, and whether it can be read. There is none if the text does not name its cluster, or by a name that no
/// ManagedCluster can have.
#[must_use]
pub fn row(text: Box<RawValue>) -> (Option<ReportRow>, bool) {
    match named(text) {
        Ok(row) => (Some(row), true),
        Err(unreadable) => (blocked(Some(unreadable)), false),
    }
}

/// What is said of rows that cannot be read.
#[must_use]
pub fn unreadable_text(rows: usize) -> String {
    let (rows, which) = match rows {
        1 => ("1 report row".to_owned(), "it names"),
        rows => (format!("{rows} report rows"), "a row names"),
    };
    format!(
        "{rows} cannot be read. If {which} its cluster, the cluster is shown as Blocked. A newer release may have written the rows: update the plugin."
    )
}

/// Which row of a cluster counts if two reports have one: that of the highest rank. A row that cannot be read may be newer than
/// all other rows of its cluster, so it comes first.
#[must_use]
pub fn rank(row: &ReportRow) -> (bool, DateTime<Utc>) {
    (is_unreadable(row), row.since)
}

fn read(row: &Value) -> Result<ReportRow, Option<Unreadable>> {
    let text = serde_json::value::to_raw_value(row).map_err(|_| None)?;
    named(text).map_err(Some)
}

/// Reads a stored row. One whose cluster has a name that no ManagedCluster can have is unreadable: somebody has forged it, and
/// with line breaks in it the name would be several names in a list.
fn named(text: Box<RawValue>) -> Result<ReportRow, Unreadable> {
    match StoredRow::read(text).row {
        Ok(row) if is_subdomain(&row.cluster) => Ok(row),
        Ok(row) => Err(Unreadable {
            cluster: None,
            since: Some(row.since),
            open: Vec::new(),
            error: "field cluster is no name of a ManagedCluster".to_owned(),
        }),
        Err(unreadable) => Err(Unreadable {
            cluster: unreadable.cluster.filter(|name| is_subdomain(name)),
            ..unreadable
        }),
    }
}

/// The row of a cluster whose stored row cannot be read: Blocked, as in the controller. `None` if the stored row does not name
/// its cluster.
fn blocked(unreadable: Option<Unreadable>) -> Option<ReportRow> {
    let unreadable = unreadable?;
    Some(ReportRow {
        cluster: unreadable.cluster?,
        phase: Phase::Blocked,
        canary: false,
        left_selection: false,
        reason: UNREADABLE.to_owned(),
        message: format!(
            "The report row of the cluster cannot be read: {}",
            unreadable.error
        ),
        refused_step: None,
        from_version: String::new(),
        to_version: String::new(),
        since: unreadable.since.unwrap_or_default(),
        revision: String::new(),
        retry: String::new(),
        attempts: None,
        steps: Vec::new(),
    })
}

/// True if the owner of a report is the upgrade that has this value in a field of the reference: its `uid`, or its `name`.
#[must_use]
pub fn is_owned(report: &Value, field: &str, value: &str) -> bool {
    let owners = report["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["kind"] == "ManagedClustersUpgrade" && owner[field] == value)
}

#[cfg(test)]
mod tests;
