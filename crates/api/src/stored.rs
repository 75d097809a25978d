//! The rows of a report as they are stored: each is read separately and kept byte for byte.
//!
//! A newer release may have written a row that this release cannot read. The other rows are still read, and the text
//! of this one is kept and can be written back unchanged.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::lenient::capture;
use crate::report::{ReportRow, ReportStep, Stage};

/// The rows of a report.
#[derive(Clone, Debug, Default)]
pub struct StoredRows {
    /// The rows, in the order of the report.
    pub rows: Vec<StoredRow>,
    /// The error when the field is not a list; there are no rows then.
    pub error: Option<String>,
}

/// One row, with its text.
#[derive(Clone, Debug)]
pub struct StoredRow {
    /// The row, byte for byte.
    pub text: Arc<RawValue>,
    /// The row as this release reads it, or why it cannot be read.
    pub row: Result<ReportRow, Unreadable>,
    /// True when the row has fields that this release does not know.
    pub has_more: bool,
}

/// What is known about a row that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Name of the cluster, if it can be read.
    pub cluster: Option<String>,
    /// Time at which the cluster entered its phase, if it can be read.
    pub since: Option<DateTime<Utc>>,
    /// The stages that have begun and not ended, as far as that can be read.
    pub open: Vec<(Stage, DateTime<Utc>)>,
    /// Why the row cannot be read.
    pub error: String,
}

impl StoredRows {
    /// The rows that can be read.
    pub fn good(&self) -> impl Iterator<Item = &ReportRow> {
        self.rows.iter().filter_map(|stored| stored.row.as_ref().ok())
    }

    /// The first error, if any.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        let mut rows = self.rows.iter().filter_map(|stored| stored.row.as_ref().err());
        self.error
            .as_deref()
            .or_else(|| rows.next().map(|row| row.error.as_str()))
    }
}

impl StoredRow {
    /// Reads a row.
    #[must_use]
    pub fn read(text: Box<RawValue>) -> StoredRow {
        let row = read_row(text.get());
        let has_more = row.is_ok() && has_more(text.get());
        StoredRow {
            text: Arc::from(text),
            row,
            has_more,
        }
    }

    /// Name of the cluster, if it can be read.
    #[must_use]
    pub fn cluster(&self) -> Option<&str> {
        match &self.row {
            Ok(row) => Some(&row.cluster),
            Err(unreadable) => unreadable.cluster.as_deref(),
        }
    }
}

fn read_row(text: &str) -> Result<ReportRow, Unreadable> {
    let error = match serde_json::from_str::<ReportRow>(text) {
        Ok(row) if row.cluster.is_empty() => "field cluster is empty".to_owned(),
        Ok(row) => return Ok(row),
        Err(error) => error.to_string(),
    };
    let fields: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap_or_default();
    let field = |name: &str| fields.get(name).map(|field| field.get());
    let name = field("cluster").and_then(|text| serde_json::from_str::<String>(text).ok());
    Err(Unreadable {
        cluster: name.filter(|name| !name.is_empty()),
        since: field("since").and_then(|text| serde_json::from_str(text).ok()),
        open: open_stages(field("steps").unwrap_or_default()),
        error: describe(&error, &fields),
    })
}

/// The stages that have begun and not ended, of the steps of a row that can be read.
fn open_stages(steps: &str) -> Vec<(Stage, DateTime<Utc>)> {
    let steps: Vec<Box<RawValue>> = serde_json::from_str(steps).unwrap_or_default();
    let steps = steps
        .iter()
        .filter_map(|step| serde_json::from_str::<ReportStep>(step.get()).ok());
    steps
        .filter(|step| step.finished_at.is_none())
        .map(|step| (step.name, step.started_at))
        .collect()
}

/// The error without its position, which does not help a reader. An unknown phase is named, because it shows which
/// release wrote the row.
fn describe(error: &str, fields: &BTreeMap<String, Box<RawValue>>) -> String {
    let error = error.split(" at line ").next().unwrap_or(error);
    let word = fields
        .get("phase")
        .map(|field| field.get())
        .filter(|text| serde_json::from_str::<crate::report::Phase>(text).is_err());
    match word {
        Some(word) => {
            let word: String = word.chars().take(64).collect();
            format!("phase {word} is unknown")
        }
        None => error.to_owned(),
    }
}

/// The fields that this release writes in a row and in a step.
const ROW: [&str; 13] = [
    "cluster",
    "phase",
    "canary",
    "leftSelection",
    "reason",
    "message",
    "fromVersion",
    "toVersion",
    "since",
    "revision",
    "retry",
    "attempts",
    "steps",
];
const STEP: [&str; 5] = ["name", "startedAt", "appliedAt", "finishedAt", "outcome"];

fn has_more(text: &str) -> bool {
    type Fields<'a> = BTreeMap<String, &'a RawValue>;
    #[derive(Deserialize)]
    struct Steps<'a> {
        #[serde(default, borrow)]
        steps: Vec<Fields<'a>>,
    }
    let known =
        |fields: &Fields<'_>, names: &[&str]| fields.keys().all(|name| names.contains(&name.as_str()));
    let row = serde_json::from_str::<Fields<'_>>(text).is_ok_and(|fields| known(&fields, &ROW));
    let steps = serde_json::from_str::<Steps<'_>>(text)
        .is_ok_and(|row| row.steps.iter().all(|step| known(step, &STEP)));
    !row || !steps
}

impl<'de> Deserialize<'de> for StoredRows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = capture(deserializer)?;
        if text.get() == "null" {
            return Ok(StoredRows::default());
        }
        Ok(match serde_json::from_str::<Vec<Box<RawValue>>>(text.get()) {
            Ok(rows) => StoredRows {
                rows: rows.into_iter().map(StoredRow::read).collect(),
                error: None,
            },
            Err(error) => StoredRows {
                rows: Vec::new(),
                error: Some(error.to_string()),
            },
        })
    }
}

#[cfg(test)]
mod tests;
