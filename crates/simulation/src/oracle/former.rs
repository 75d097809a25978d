//! Rows that only a rejected report still has, because their clusters have moved to another report and were dropped there. Whoever
//! leads next finds them again, with what somebody else has written into them.

use std::time::Duration;

use hub_sim::{Change, ChangeKind};

use super::facts::{Facts, Upgrade};
use super::row::Row;
use super::rows::{number_of, rows_of};

impl Upgrade {
    /// Whether only a rejected report still has a row of this cluster. Its former row is found there again.
    pub(super) fn has_former_row(&self, cluster: &str) -> bool {
        let mut reports = self.reports.values();
        !self.records.contains_key(cluster) && reports.any(|rows| rows.contains(cluster))
    }

    /// Whether somebody else has written that row. Of several, the one in the report with the highest number counts.
    fn is_former_row_theirs(&self, cluster: &str) -> bool {
        let reports = self.reports.iter().filter(|(_, rows)| rows.contains(cluster));
        let last = reports
            .map(|(report, _)| report)
            .max_by_key(|report| number_of(report));
        let is_theirs = |report: &String| self.theirs.contains(&(report.clone(), cluster.to_owned()));
        self.has_former_row(cluster) && last.is_some_and(is_theirs)
    }

    /// Whether the row of a cluster that has none yet follows what somebody else had written: the row that was removed was the same, or
    /// a rejected report still has one that they wrote. Whoever has removed the row since `term`, when the present term began, knows
    /// better than that report.
    pub(super) fn has_removed_edited(&self, cluster: &str, row: &Row, term: Option<Duration>) -> bool {
        self.removed.get(cluster).is_some_and(|(record, at)| {
            let is_same = record.is_edited && record.row() == Some(row);
            let is_by_former_leader = term.is_some_and(|begun| *at < begun);
            is_same || (is_by_former_leader && self.is_former_row_theirs(cluster))
        })
    }

    /// A report had these rows before it is written now.
    fn keep_left_out(&mut self, rows: Vec<(String, Row)>) {
        let is_out = |row: &Row| matches!(row.phase.as_str(), "Skipped" | "Aborted");
        let kept = rows
            .into_iter()
            .filter(|(name, row)| is_out(row) && self.has_former_row(name));
        let kept = kept.map(|(name, row)| (name, (row.phase.clone(), row.attempt())));
        self.left_out = kept.collect();
    }

    /// Whether a row is the one that the report which is written had before.
    pub(super) fn is_kept_left_out(&self, cluster: &str, row: &Row) -> bool {
        let kept = self.left_out.get(cluster);
        kept.is_some_and(|(phase, attempt)| *phase == row.phase && *attempt == row.attempt())
    }

    /// Notes which rows of a report somebody else has written. The controller writes a report as a whole.
    pub(super) fn note_writer(&mut self, change: &Change, by_controller: bool) {
        let report = change.after.name();
        if by_controller || change.kind == ChangeKind::Deleted {
            self.theirs.retain(|(name, _)| name != report);
            return;
        }
        let before = change.before.as_ref().map(|object| rows_of(&object.value()));
        self.note_theirs(
            report,
            &before.unwrap_or_default(),
            rows_of(&change.after.value()),
        );
    }

    /// Somebody else has written a report that had other rows before.
    fn note_theirs(&mut self, report: &str, before: &[(String, Row)], rows: Vec<(String, Row)>) {
        let is_there = |cluster: &String| rows.iter().any(|(name, _)| name == cluster);
        self.theirs
            .retain(|(name, cluster)| name != report || is_there(cluster));
        let written = rows.into_iter().filter(|row| !before.contains(row));
        self.theirs
            .extend(written.map(|(cluster, _)| (report.to_owned(), cluster)));
    }
}

impl Facts {
    /// Notes of which clusters a report that is being changed has said that they are left out, if only rejected reports still have
    /// rows of them. When such a report is written again, a row that the hub rejects stays in it in the form that was accepted last.
    pub(super) fn note_left_out(&mut self, owner: &str, change: &Change) {
        let before = change.before.as_ref().map(|object| rows_of(&object.value()));
        if let Some(upgrade) = self.upgrades.get_mut(owner) {
            upgrade.keep_left_out(before.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests;
