//! The clusters of an upgrade, as a table or as rows for machines.

use api::report::{Phase, ReportRow};
use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::age;
use crate::args::Output;
use crate::paint::Paint;
use crate::render::objects::{list, machine};
use crate::render::phase_tone;
use crate::rows::end_of_open_step;
use crate::table::{Cell, Table, lines, or_none};

const NARROW: &[&str] = &["CLUSTER", "PHASE", "FROM", "TO", "AGE", "REASON"];
const WIDE: &[&str] = &[
    "CLUSTER", "PHASE", "FROM", "TO", "AGE", "REASON", "CANARY", "STEPS", "MESSAGE",
];

/// Renders the rows in the requested format.
#[must_use]
pub fn render(rows: &[&ReportRow], output: Option<Output>, now: DateTime<Utc>, paint: Paint) -> String {
    render_more(rows, output, now, paint, &mut Vec::new())
}

/// Renders rows that follow others: the columns of the table stay at least as wide as they were.
#[must_use]
pub fn render_more(
    rows: &[&ReportRow],
    output: Option<Output>,
    now: DateTime<Utc>,
    paint: Paint,
    widths: &mut Vec<usize>,
) -> String {
    let values = || -> Vec<Value> {
        rows.iter()
            .filter_map(|row| serde_json::to_value(row).ok())
            .collect()
    };
    if output == Some(Output::Name) {
        return lines(rows.iter().map(|row| &row.cluster));
    }
    machine(output, || list(&values())).unwrap_or_else(|| {
        let mut table = table(rows, output == Some(Output::Wide), now);
        table.keep_widths(widths);
        table.render(paint, 0)
    })
}

fn table(rows: &[&ReportRow], wide: bool, now: DateTime<Utc>) -> Table {
    let mut table = Table::new(if wide { WIDE } else { NARROW });
    for row in rows {
        let mut cells: Vec<Cell> = vec![
            row.cluster.as_str().into(),
            Cell::toned(phase_tone(row.phase), row.phase.as_str()),
            or_none(&row.from_version).into(),
            or_none(&row.to_version).into(),
            age::human(now - row.since).into(),
            or_none(&row.reason).into(),
        ];
        if wide {
            cells.push(row.canary.to_string().into());
            cells.push(steps(row, now).into());
            cells.push(or_none(&row.message).into());
        }
        table.push(cells);
    }
    table
}

/// Steps with their durations. The duration of a running step ends with `+`.
fn steps(row: &ReportRow, now: DateTime<Utc>) -> String {
    let texts: Vec<String> = row
        .steps
        .iter()
        .map(|step| {
            let end = step.finished_at.or(end_of_open_step(row));
            let length = age::human(end.unwrap_or(now) - step.started_at);
            let open = if end.is_none() { "+" } else { "" };
            format!("{:?}={length}{open}", step.name)
        })
        .collect();
    if texts.is_empty() {
        "<none>".to_owned()
    } else {
        texts.join(",")
    }
}

/// The message if there are no clusters to show. `narrowed` is true if more than phases was asked for.
#[must_use]
pub fn none_found(name: &str, namespace: &str, phases: &[Phase], narrowed: bool) -> String {
    if narrowed {
        return format!("No clusters of upgrade {name} in {namespace} namespace match.\n");
    }
    if phases.is_empty() {
        return format!("No clusters recorded for upgrade {name} in {namespace} namespace.\n");
    }
    let names: Vec<&str> = phases.iter().map(|phase| phase.as_str()).collect();
    format!(
        "No clusters of upgrade {name} in {namespace} namespace are in phase {}.\n",
        names.join(" or ")
    )
}

#[cfg(test)]
mod tests;
