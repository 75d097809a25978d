//! A row as it is sent: made from a record, or kept byte for byte. Every field is bounded by what the schema of the report
//! accepts, for one row that is refused would hold up its whole shard.

use std::fmt::Write as _;
use std::sync::Arc;

use api::report::{Phase, ReportRow, ReportStep, StepOutcome};
use chrono::{DateTime, Datelike, NaiveTime, Timelike, Utc};
use rollout::{Attempt, Outcome, Reason, Record, Stage, StepRecord};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::rows::{Row, from_row_phase, from_step_name, to_row_phase, to_step_name};
use super::status::cut;

/// Longest fields of a row, in characters (schema of the report).
const LONGEST_NAME: usize = 253;
const LONGEST_REASON: usize = 128;
const LONGEST_MESSAGE: usize = 1024;
const LONGEST_VERSION: usize = 128;
const LONGEST_REVISION: usize = 64;
const LONGEST_RETRY: usize = 256;

/// One row of a shard that is to be written.
#[derive(Clone, Debug)]
pub enum Line {
    /// Made from a record.
    Made(Box<ReportRow>),
    /// As it was read.
    Kept(Arc<RawValue>),
}

impl Line {
    /// The row, if it was made from a record.
    #[must_use]
    pub fn made(&self) -> Option<&ReportRow> {
        match self {
            Line::Made(row) => Some(row),
            Line::Kept(_) => None,
        }
    }
}

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Line::Made(row) => row.serialize(serializer),
            Line::Kept(text) => text.serialize(serializer),
        }
    }
}

/// JSON that is also YAML, as which the API server reads a server-side apply: characters that YAML does not allow as they
/// are (clusters say what they like) are written as escapes. They can stand in strings only.
#[must_use]
pub fn for_yaml(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for char in json.chars() {
        if is_not_yaml(char) {
            let _ = write!(text, "\\u{:04x}", u32::from(char));
        } else {
            text.push(char);
        }
    }
    text
}

/// True for a character that JSON allows as it is and YAML does not.
#[must_use]
pub const fn is_not_yaml(char: char) -> bool {
    matches!(
        char,
        '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

/// The row of a record.
pub(super) fn to_row(cluster: &str, row: &Row, record: &Record) -> ReportRow {
    ReportRow {
        cluster: start_of(cluster, LONGEST_NAME),
        phase: to_row_phase(record.phase),
        canary: row.canary,
        left_selection: row.left,
        reason: start_of(record.reason_text(), LONGEST_REASON),
        message: start_of(&record.message, LONGEST_MESSAGE),
        from_version: cut(&record.from_version, LONGEST_VERSION).to_owned(),
        to_version: start_of(&row.target, LONGEST_VERSION),
        since: writable(record.since),
        revision: start_of(&record.attempt.revision, LONGEST_REVISION),
        retry: start_of(&record.attempt.retry, LONGEST_RETRY),
        steps: Stage::ALL
            .into_iter()
            .filter_map(|stage| record.stage(stage).map(|entry| to_step(stage, entry)))
            .collect(),
    }
}

fn to_step(stage: Stage, entry: &StepRecord) -> ReportStep {
    ReportStep {
        name: to_step_name(stage),
        started_at: writable(entry.started),
        applied_at: entry.applied.map(writable),
        finished_at: entry.finished.map(writable),
        outcome: entry.outcome.map(|outcome| match outcome {
            Outcome::Succeeded => StepOutcome::Succeeded,
            Outcome::Failed => StepOutcome::Failed,
        }),
    }
}

/// The first characters of a text.
fn start_of(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A time that the format `date-time` can say: a year of four digits and no leap second.
fn writable(time: DateTime<Utc>) -> DateTime<Utc> {
    let time = if (1..=9999).contains(&time.year()) {
        time
    } else {
        DateTime::UNIX_EPOCH
    };
    if time.nanosecond() < 1_000_000_000 {
        return time;
    }
    let second = NaiveTime::from_hms_milli_opt(time.hour(), time.minute(), time.second(), 999);
    second
        .and_then(|second| time.with_time(second).single())
        .unwrap_or(DateTime::UNIX_EPOCH)
}

/// The record that a row tells.
pub(super) fn to_record(row: &ReportRow) -> Record {
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
    let needs_reason = matches!(
        row.phase,
        Phase::Failed | Phase::PreActionDegraded | Phase::Blocked
    );
    let known = match row.reason.as_str() {
        "" => Some(Reason::None),
        text => Reason::parse(text),
    };
    // The planner gives every cluster that does not move a reason; a row that somebody wrote may have none.
    let known = known.filter(|known| !needs_reason || *known != Reason::None);
    Record {
        attempt: Attempt {
            revision: Arc::from(row.revision.as_str()),
            retry: Arc::from(row.retry.as_str()),
        },
        phase: from_row_phase(row.phase),
        reason: known.unwrap_or(Reason::Other),
        other_reason: known.is_none().then(|| {
            Arc::from(if row.reason.is_empty() {
                "Unknown"
            } else {
                &*row.reason
            })
        }),
        message: Arc::from(row.message.as_str()),
        since: row.since,
        stages,
        from_version: Arc::from(row.from_version.as_str()),
    }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
