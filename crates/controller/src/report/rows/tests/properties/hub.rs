//! The reports of an upgrade as a hub keeps them.

use rollout::Stage;

use super::*;

pub(super) const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
/// The phases of a cluster, in their order.
pub(super) const PHASES: [Phase; 4] = [Phase::Pending, Phase::Partial, Phase::Operators, Phase::Complete];

/// A report.
#[derive(Clone, Debug)]
pub(super) struct Held {
    uid: u64,
    pub(super) version: u64,
    /// The rows, byte for byte. `None` if the field is no list.
    pub(super) rows: Option<Vec<String>>,
}

/// A watch event.
#[derive(Clone, Debug)]
pub(super) struct Notice {
    pub(super) report: Report,
    pub(super) deleted: bool,
}

/// The response to a write.
pub(super) enum Answer {
    Stored(StoredReport),
    Deleted,
    Changed(Option<Box<Report>>),
    /// The rows that the message names, and whether it is about rows.
    Rejected(Vec<usize>, bool),
    Forbidden,
}

/// Reports, by shard.
#[derive(Debug, Default)]
pub(super) struct Hub {
    pub(super) reports: BTreeMap<usize, Held>,
    pub(super) version: u64,
    last_uid: u64,
    last_number: u64,
    /// Rows that say `bad` are rejected.
    pub(super) rejects_rows: bool,
    pub(super) names_no_rows: bool,
    /// A report that is rejected as a whole, and whether the message is about rows.
    pub(super) rejected: Option<(usize, bool)>,
    pub(super) forbids: bool,
    /// What no replica has been told yet.
    pub(super) notices: Vec<Notice>,
    /// All records that were ever there, by cluster.
    pub(super) history: BTreeMap<String, Vec<Record>>,
}

impl Hub {
    /// The next number of a record.
    pub(super) const fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// A report as it is read.
    pub(super) fn report(&self, shard: usize) -> Report {
        to_report(shard, &self.reports[&shard])
    }

    pub(super) fn put(&mut self, shard: usize, rows: Option<Vec<String>>) {
        self.version += 1;
        let known = self.reports.get(&shard).map(|copy| copy.uid);
        let uid = known.unwrap_or_else(|| {
            self.last_uid += 1;
            self.last_uid
        });
        for row in rows.iter().flatten().filter_map(|text| read(text).row.ok()) {
            let had = self.history.entry(row.cluster.clone()).or_default();
            had.push(to_record(&row));
        }
        let copy = Held {
            uid,
            version: self.version,
            rows,
        };
        self.tell(shard, &copy, false);
        self.reports.insert(shard, copy);
    }

    pub(super) fn delete(&mut self, shard: usize) {
        self.version += 1;
        if let Some(mut copy) = self.reports.remove(&shard) {
            copy.version = self.version;
            self.tell(shard, &copy, true);
        }
    }

    fn tell(&mut self, shard: usize, copy: &Held, deleted: bool) {
        self.notices.push(Notice {
            report: to_report(shard, copy),
            deleted,
        });
    }

    /// The records of a cluster in all reports.
    pub(super) fn records(&self, cluster: &str) -> Vec<Record> {
        let texts = self.reports.values().flat_map(|copy| copy.rows.iter().flatten());
        let rows = texts.filter_map(|text| read(text).row.ok());
        let rows = rows.filter(|row| row.cluster == cluster);
        rows.map(|row| to_record(&row)).collect()
    }

    /// Carries out a write.
    pub(super) fn write(&mut self, due: &ShardWrite) -> Answer {
        let shard = due.shard;
        let found = self.reports.get(&shard);
        let is_same = match (found, &due.replaces) {
            (Some(found), Some(known)) => *known == stored_of(found),
            (None, None) => true,
            // Deleting one that is gone succeeds.
            (None, Some(_)) => due.rows.is_empty(),
            (Some(_), None) => false,
        };
        if !is_same {
            return Answer::Changed(found.map(|found| Box::new(to_report(shard, found))));
        }
        if due.rows.is_empty() && found.is_none() {
            return Answer::Deleted;
        }
        if self.forbids {
            return Answer::Forbidden;
        }
        if due.rows.is_empty() {
            self.delete(shard);
            return Answer::Deleted;
        }
        let texts: Vec<String> = due.rows.iter().map(text_of).collect();
        if let Some((_, about_rows)) = self.rejected.filter(|(rejected, _)| *rejected == shard) {
            return Answer::Rejected(Vec::new(), about_rows);
        }
        let bad = texts.iter().enumerate().filter(|(_, text)| text.contains("bad"));
        let bad: Vec<usize> = bad.map(|(at, _)| at).collect();
        if self.rejects_rows && !bad.is_empty() {
            return Answer::Rejected(if self.names_no_rows { Vec::new() } else { bad }, true);
        }
        let rows = Some(texts);
        // A write that changes nothing gives no new version.
        if due.must_change() || found.is_none_or(|found| found.rows != rows) {
            self.put(shard, rows);
        }
        Answer::Stored(stored_of(&self.reports[&shard]))
    }
}

fn stored_of(copy: &Held) -> StoredReport {
    StoredReport {
        uid: Arc::from(copy.uid.to_string()),
        version: copy.version,
    }
}

pub(super) fn name_of(shard: usize) -> String {
    report_name("up", shard + 1)
}

fn to_report(shard: usize, copy: &Held) -> Report {
    let rows = copy.rows.as_ref();
    let rows = rows.map_or_else(|| "\"none\"".to_owned(), |rows| format!("[{}]", rows.join(",")));
    let metadata = json!({
        "name": name_of(shard), "namespace": "ns", "uid": copy.uid.to_string(),
        "resourceVersion": copy.version.to_string(),
    });
    serde_json::from_str(&format!("{{\"metadata\":{metadata},\"rows\":{rows}}}")).unwrap()
}

/// A record with a number of its own, which the hub rejects if it is `bad`.
pub(super) fn record_of(attempt: u64, phase: usize, number: u64, bad: bool) -> Record {
    let message = if bad {
        format!("{number} bad")
    } else {
        number.to_string()
    };
    let built = record(PHASES[phase])
        .retry(&attempt.to_string())
        .message(&message);
    let built = match PHASES[phase] {
        Phase::Partial => built.stage(Stage::Platform, 1),
        Phase::Operators => built.succeeded(Stage::Platform, 1).stage(Stage::Operators, 2),
        Phase::Complete => built.succeeded(Stage::Platform, 1).succeeded(Stage::Operators, 2),
        _ => built,
    };
    built.into()
}

pub(super) fn number_of(record: &Record) -> u64 {
    let number = record.message.split(' ').next();
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A row that this release would write.
pub(super) fn line(cluster: &str, record: Record) -> String {
    let record = Arc::new(record);
    let row = Row {
        record: Arc::clone(&record),
        written: None,
        slot_in_doubt: false,
        stored: None,
        stored_target: Arc::from(""),
        original: None,
        canary: false,
        left: false,
        target: Arc::from(""),
        attempts: Some(1),
        shard: 0,
    };
    serde_json::to_string(&to_row(cluster, &row, &record)).unwrap()
}

/// A row of a later release.
pub(super) fn junk(cluster: Option<&str>, number: u64) -> String {
    let cluster = cluster.map_or_else(String::new, |name| format!("\"cluster\": \"{name}\", "));
    format!("{{{cluster}\"phase\": \"Later\", \"number\": {number}}}")
}
