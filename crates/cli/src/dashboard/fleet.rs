//! The clusters of one upgrade, as its reports have them, and what has changed since a page was told last.
//!
//! Every change gets the next revision. A page remembers the revision that it was told last and asks for what is newer, so a
//! slow page gets fewer and larger changes instead of a growing queue.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;

use api::report::ReportRow;
use serde_json::value::RawValue;

use crate::rows;

/// The clusters of one upgrade.
#[derive(Debug, Default)]
pub struct Fleet {
    clusters: BTreeMap<String, Cluster>,
    /// The clusters of each report.
    reports: BTreeMap<String, BTreeSet<String>>,
    /// Number of rows of each report that cannot be read, if there are any.
    unreadable: BTreeMap<String, usize>,
    /// Clusters that have no row any more, with the revision of that change.
    gone: BTreeMap<String, u64>,
    revision: u64,
    /// The reports of a list that has begun and has not ended.
    listed: Option<BTreeSet<String>>,
    /// True once every report was read.
    is_complete: bool,
}

/// The rows of one cluster: one, unless two reports have it.
#[derive(Debug, Default)]
struct Cluster {
    rows: BTreeMap<String, Stored>,
    changed: u64,
}

#[derive(Debug)]
struct Stored {
    digest: u64,
    row: ReportRow,
    is_readable: bool,
}

/// What is newer than a revision.
#[derive(Debug, Default)]
pub struct Changes<'a> {
    /// Rows that are new or have changed, ordered by cluster.
    pub rows: Vec<&'a ReportRow>,
    /// Clusters without a row.
    pub gone: Vec<&'a str>,
}

impl Fleet {
    /// The revision of the last change.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// True once every report was read.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// A list of all reports begins: those that it does not have no longer exist.
    pub fn begin_list(&mut self) {
        self.listed = Some(BTreeSet::new());
    }

    /// The list has ended.
    pub fn end_list(&mut self) {
        let listed = self.listed.take().unwrap_or_default();
        let known: Vec<String> = self.reports.keys().cloned().collect();
        for report in known.iter().filter(|report| !listed.contains(*report)) {
            self.remove(report);
        }
        self.revision += 1;
        self.is_complete = true;
    }

    /// Takes the rows of a report. Rows whose text has not changed are not read again.
    pub fn apply(&mut self, report: &str, texts: Vec<Box<RawValue>>) {
        if let Some(listed) = &mut self.listed {
            listed.insert(report.to_owned());
        }
        self.revision += 1;
        let before = self.reports.remove(report).unwrap_or_default();
        let mut now = BTreeSet::new();
        let mut unreadable = 0;
        for text in texts {
            let (cluster, is_readable) = self.take(report, text);
            now.extend(cluster);
            unreadable += usize::from(!is_readable);
        }
        self.unreadable.remove(report);
        if unreadable > 0 {
            self.unreadable.insert(report.to_owned(), unreadable);
        }
        for cluster in before.difference(&now) {
            self.drop_row(report, cluster);
        }
        self.reports.insert(report.to_owned(), now);
    }

    /// Removes the rows of a report that no longer exists.
    pub fn remove(&mut self, report: &str) {
        self.revision += 1;
        self.unreadable.remove(report);
        for cluster in self.reports.remove(report).unwrap_or_default() {
            self.drop_row(report, &cluster);
        }
    }

    /// Takes a row of a report. Returns the name of its cluster, if it has one, and whether the row can be read.
    fn take(&mut self, report: &str, text: Box<RawValue>) -> (Option<String>, bool) {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.get().as_bytes());
        let digest = hasher.finish();
        if let Some(name) = cluster_of(&text)
            && let Some(known) = self.clusters.get(name)
            && let Some(stored) = known.rows.get(report)
            && stored.digest == digest
        {
            return (Some(name.to_owned()), stored.is_readable);
        }
        let (Some(row), is_readable) = rows::row(text) else {
            return (None, false);
        };
        let name = row.cluster.clone();
        self.gone.remove(&name);
        let cluster = self.clusters.entry(name.clone()).or_default();
        let stored = Stored {
            digest,
            row,
            is_readable,
        };
        cluster.rows.insert(report.to_owned(), stored);
        cluster.changed = self.revision;
        (Some(name), is_readable)
    }

    fn drop_row(&mut self, report: &str, name: &str) {
        let Some(cluster) = self.clusters.get_mut(name) else {
            return;
        };
        cluster.rows.remove(report);
        cluster.changed = self.revision;
        if cluster.rows.is_empty() {
            self.clusters.remove(name);
            self.gone.insert(name.to_owned(), self.revision);
        }
    }

    /// The row of a cluster.
    #[must_use]
    pub fn row(&self, cluster: &str) -> Option<&ReportRow> {
        self.clusters.get(cluster).and_then(Cluster::row)
    }

    /// What is newer than a revision; everything for revision 0.
    #[must_use]
    pub fn since(&self, revision: u64) -> Changes<'_> {
        let newer = self
            .clusters
            .values()
            .filter(|cluster| cluster.changed > revision);
        let gone = self.gone.iter().filter(|(_, changed)| **changed > revision);
        Changes {
            rows: newer.filter_map(Cluster::row).collect(),
            gone: gone.map(|(name, _)| name.as_str()).collect(),
        }
    }

    /// What is wrong with the rows; empty if all of them can be read.
    #[must_use]
    pub fn trouble(&self) -> String {
        match self.unreadable.values().sum() {
            0 => String::new(),
            rows => rows::unreadable_text(rows),
        }
    }

    /// How many clusters a retry applies to.
    #[must_use]
    pub fn retryable(&self) -> usize {
        let clusters = self.clusters.values().filter_map(Cluster::row);
        clusters.filter(|row| rows::is_retryable(row)).count()
    }
}

impl Cluster {
    fn row(&self) -> Option<&ReportRow> {
        let rows = self.rows.values().map(|stored| &stored.row);
        rows.max_by_key(|row| rows::rank(row))
    }
}

/// The beginning of a row: enough to know whose it is.
#[derive(serde::Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    cluster: &'a str,
}

fn cluster_of(text: &RawValue) -> Option<&str> {
    serde_json::from_str::<Named<'_>>(text.get())
        .ok()
        .map(|named| named.cluster)
}

#[cfg(test)]
mod tests;
