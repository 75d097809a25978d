//! The record of all clusters of an upgrade, for spreadsheets and for archives.

use api::report::{ReportRow, Stage};
use api::time::to_rfc3339;
use serde_json::{Value, json};

use crate::args::Output;
use crate::render::objects::{list, to_json};
use crate::table::one_line;
use crate::upgrade::Upgrade;

/// The columns before those of the steps.
const COLUMNS: [&str; 15] = [
    "namespace",
    "upgrade",
    "target",
    "cluster",
    "phase",
    "canary",
    "leftSelection",
    "reason",
    "message",
    "fromVersion",
    "toVersion",
    "since",
    "retry",
    "attempts",
    "durationSeconds",
];

/// Renders the rows as CSV, or as a JSON list. One row is one line, whatever its texts contain.
#[must_use]
pub fn render(upgrade: &Upgrade, rows: &[ReportRow], output: Option<Output>, headers: bool) -> String {
    let records = rows.iter().map(|row| record(upgrade, row));
    if output == Some(Output::Json) {
        let objects: Vec<Value> = records.map(|record| record.into_iter().collect()).collect();
        return to_json(&list(&objects));
    }
    let names = COLUMNS.map(str::to_owned).into_iter();
    let steps = Stage::ALL.into_iter().flat_map(step_columns);
    let names: Vec<String> = names.chain(steps).collect();
    let mut text = String::new();
    if headers {
        text.push_str(&names.join(","));
        text.push('\n');
    }
    for record in records {
        let cells: Vec<String> = record.iter().map(|(_, value)| cell(value)).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

fn step_columns(stage: Stage) -> [String; 3] {
    let name = format!("{stage:?}");
    let name = name[..1].to_lowercase() + &name[1..];
    [
        format!("{name}StartedAt"),
        format!("{name}FinishedAt"),
        format!("{name}Outcome"),
    ]
}

fn record(upgrade: &Upgrade, row: &ReportRow) -> Vec<(String, Value)> {
    let first = row.steps.iter().map(|step| step.started_at).min();
    let last = row.steps.iter().filter_map(|step| step.finished_at).max();
    let is_over = row.steps.iter().all(|step| step.finished_at.is_some());
    let duration = first
        .zip(last)
        .filter(|_| is_over)
        .map(|(first, last)| (last - first).num_seconds());
    let values = [
        json!(upgrade.namespace),
        json!(upgrade.name),
        json!(upgrade.target()),
        json!(row.cluster),
        json!(row.phase),
        json!(row.canary),
        json!(row.left_selection),
        json!(row.reason),
        json!(row.message),
        json!(row.from_version),
        json!(row.to_version),
        json!(to_rfc3339(row.since)),
        json!(row.retry),
        json!(row.attempts),
        json!(duration),
    ];
    let mut record: Vec<(String, Value)> = COLUMNS
        .iter()
        .map(|name| (*name).to_owned())
        .zip(values)
        .collect();
    for stage in Stage::ALL {
        let step = row.steps.iter().find(|step| step.name == stage);
        let values = [
            json!(step.map(|step| to_rfc3339(step.started_at))),
            json!(step.and_then(|step| step.finished_at).map(to_rfc3339)),
            json!(step.and_then(|step| step.outcome)),
        ];
        record.extend(step_columns(stage).into_iter().zip(values));
    }
    record
}

/// Characters with which a formula begins, also those of full width, which some spreadsheets read alike.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A cell of CSV (RFC 4180). A text that a spreadsheet would take for a formula gets an apostrophe, because clusters write some of
/// the texts.
fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => return String::new(),
        Value::String(text) => one_line(text),
        other => return other.to_string(),
    };
    let text = guarded(&text);
    if text.contains([',', '"']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

/// The text with an apostrophe before each character with which a spreadsheet would begin a formula: at the start, and after each
/// semicolon, which separates cells where a comma separates decimals. Spaces and quotes before it do not count, as some programs drop
/// them. Tabs are not left in a text of one line.
fn guarded(text: &str) -> String {
    let mut guarded = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins && FORMULA.contains(&c) {
            guarded.push('\'');
        }
        begins = c == ';' || begins && (c == ' ' || c == '"');
        guarded.push(c);
    }
    guarded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{rows, running};

    #[test]
    fn every_cluster_is_a_line_with_the_times_of_its_steps() {
        insta::assert_snapshot!(render(&running(), &rows().rows, Some(Output::Csv), true));
    }

    #[test]
    fn json_has_the_same_fields_as_csv() {
        let mut rows = rows().rows;
        rows[2].attempts = Some(2);
        let text = render(&running(), &rows, Some(Output::Json), true);
        let read: Value = serde_json::from_str(&text).unwrap();
        let header = render(&running(), &[], None, true);
        let names: Vec<&str> = header.trim().split(',').collect();
        let fields = read["items"][0].as_object().unwrap();
        assert_eq!(fields.len(), names.len());
        assert!(names.iter().all(|name| fields.contains_key(*name)));
        assert_eq!(read["items"][3]["cluster"], "edge-20");
        assert_eq!(read["items"][1]["durationSeconds"], Value::Null, "still running");
        assert_eq!(read["items"][2]["attempts"], 2);
        assert_eq!(
            read["items"][3]["attempts"],
            Value::Null,
            "an older release did not count"
        );
    }

    #[test]
    fn texts_of_clusters_can_neither_break_a_line_nor_become_a_formula() {
        assert_eq!(cell(&json!("a \"b\",\nc")), "\"a \"\"b\"\", c\"");
        assert_eq!(cell(&json!("=HYPERLINK(1)")), "'=HYPERLINK(1)");
        assert_eq!(cell(&json!(-3)), "-3");
    }

    #[test]
    fn a_text_cannot_become_a_formula_where_semicolons_separate_cells() {
        assert_eq!(cell(&json!("x;=cmd|' /C calc'!Z;y")), "x;'=cmd|' /C calc'!Z;y");
        assert_eq!(cell(&json!("x; +1;-2;@3")), "x; '+1;'-2;'@3");
        assert_eq!(cell(&json!("x;\"=1\"")), "\"x;\"\"'=1\"\"\"");
        assert_eq!(cell(&json!("x;\t=1;\n=2")), "x; '=1; '=2");
        assert_eq!(cell(&json!("a=b; c-d")), "a=b; c-d", "not at the start of a cell");
    }

    #[test]
    fn characters_of_full_width_begin_no_formula() {
        for c in ['＝', '＋', '－', '＠'] {
            assert_eq!(cell(&json!(format!("{c}1;{c}2"))), format!("'{c}1;'{c}2"));
        }
    }
}
