//! Report rows: the rows of all reports of one upgrade, merged and sorted by cluster name.

use api::names::LABEL_MCU;
use api::report::{Phase, ReportRow};
use api::stored::{StoredRow, Unreadable};
use serde_json::Value;

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
    /// Number of rows that cannot be read. If such a row names its cluster, `rows` has the cluster as Blocked, as in the
    /// controller.
    pub unreadable: usize,
}

impl Rows {
    /// Merges reports. A report is ignored if its owner is an earlier upgrade of the same name, which was deleted but not yet
    /// garbage-collected. If a cluster has two rows, the newer one counts.
    #[must_use]
    pub fn merge(shards: &[Value], uid: &str) -> Rows {
        let mut found = Rows::default();
        for shard in shards.iter().filter(|shard| !is_of_another(shard, uid)) {
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
        // A row that cannot be read may be newer than all other rows of its cluster, so it comes first.
        let rank = |row: &ReportRow| (row.reason == UNREADABLE, row.since);
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

    /// Names of the clusters that a retry applies to.
    #[must_use]
    pub fn retryable(&self) -> Vec<&str> {
        self.in_phases(&[Phase::Failed, Phase::PreActionDegraded])
            .iter()
            .map(|row| row.cluster.as_str())
            .collect()
    }
}

/// The reason of a cluster whose row cannot be read.
const UNREADABLE: &str = "UnreadableRecord";

fn read(row: &Value) -> Result<ReportRow, Option<Unreadable>> {
    let text = serde_json::value::to_raw_value(row).map_err(|_| None)?;
    StoredRow::read(text).row.map_err(Some)
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
        steps: Vec::new(),
    })
}

fn is_of_another(shard: &Value, uid: &str) -> bool {
    let owners = shard
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let mut upgrades = owners
        .into_iter()
        .flatten()
        .filter(|owner| owner["kind"] == "ManagedClustersUpgrade")
        .peekable();
    upgrades.peek().is_some() && !upgrades.any(|owner| owner["uid"] == uid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(cluster: &str, phase: &str, since: &str) -> Value {
        json!({"cluster": cluster, "phase": phase, "since": since, "revision": "r1"})
    }

    fn shard(uid: &str, rows: &Value) -> Value {
        json!({
            "metadata": {"name": "spring-report-1", "ownerReferences": [{"kind": "ManagedClustersUpgrade", "uid": uid}]},
            "rows": rows,
        })
    }

    #[test]
    fn rows_of_all_shards_are_sorted_by_cluster() {
        let one = shard(
            "u",
            &json!([
                row("c", "Failed", "2026-03-01T10:00:00Z"),
                row("a", "Pending", "2026-03-01T10:00:00Z")
            ]),
        );
        let two = shard(
            "u",
            &json!([row("b", "PreActionDegraded", "2026-03-01T10:00:00Z"), {"cluster": "x"}]),
        );
        let rows = Rows::merge(&[one, two], "u");
        let names: Vec<_> = rows.rows.iter().map(|row| row.cluster.as_str()).collect();
        assert_eq!(names, ["a", "b", "c", "x"]);
        assert_eq!(rows.unreadable, 1);
        assert_eq!(rows.retryable(), ["b", "c"]);
        assert_eq!(rows.in_phases(&[Phase::Pending]).len(), 1);
    }

    #[test]
    fn a_row_of_a_newer_release_is_shown_as_blocked_and_spoils_no_other() {
        let rows = [
            row("a", "Hibernating", "2026-03-01T10:00:00Z"),
            row("a", "Complete", "2026-03-01T11:00:00Z"),
            row("b", "Complete", "2026-03-01T10:00:00Z"),
            json!({"phase": "Complete"}),
        ];
        let rows = Rows::merge(&[shard("u", &json!(rows))], "u");
        assert_eq!(rows.unreadable, 2);
        let a = rows.of("a").unwrap();
        assert_eq!((a.phase, a.reason.as_str()), (Phase::Blocked, "UnreadableRecord"));
        assert!(a.message.contains("Hibernating"), "{}", a.message);
        assert_eq!(rows.of("b").unwrap().phase, Phase::Complete);
        assert_eq!(rows.rows.len(), 2);
    }

    #[test]
    fn shards_of_an_older_upgrade_of_the_same_name_do_not_count() {
        let old = shard("old", &json!([row("a", "Failed", "2026-03-01T10:00:00Z")]));
        assert_eq!(Rows::merge(&[old], "new"), Rows::default());
    }

    #[test]
    fn the_newer_of_two_rows_for_one_cluster_counts() {
        let one = shard("u", &json!([row("a", "Initialized", "2026-03-01T10:00:00Z")]));
        let two = shard("u", &json!([row("a", "Complete", "2026-03-01T11:00:00Z")]));
        let rows = Rows::merge(&[one, two], "u");
        assert_eq!(rows.rows.len(), 1);
        assert_eq!(rows.rows[0].phase, Phase::Complete);
    }
}
