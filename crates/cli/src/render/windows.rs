//! When clusters may start: a line for each group, and their next openings.

use std::fmt::Write as _;

use serde_json::Value;

use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::render::objects::machine;
use crate::table::{Cell, Table, lines, or_none};
use crate::windows::WindowGroup;

/// Renders the groups in the requested format.
#[must_use]
pub fn render(groups: &[WindowGroup], output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(groups.iter().map(|group| or_none(&group.time_zone)));
    }
    machine(output, || serde_json::to_value(groups).unwrap_or(Value::Null))
        .unwrap_or_else(|| text(groups, paint))
}

fn text(groups: &[WindowGroup], paint: Paint) -> String {
    let mut table = Table::new(&[
        "TIME ZONE",
        "WINDOWS",
        "CLUSTERS",
        "EXAMPLE",
        "NOW",
        "OPENS",
        "OPENS (UTC)",
    ]);
    for group in groups {
        let opens = group.spans.first().filter(|_| !group.open);
        table.push(vec![
            or_none(&group.time_zone).into(),
            or_none(&group.windows.join(",")).into(),
            group.clusters.to_string().into(),
            group.example.as_str().into(),
            now(group),
            opens.map_or("<none>", |span| start_of(&span.local)).into(),
            opens.map_or("<none>", |span| &span.start).into(),
        ]);
    }
    let mut text = table.render(paint, 0);
    for group in groups.iter().filter(|group| !group.spans.is_empty()) {
        let heading = format!(
            "{}, {} of {}:",
            group.time_zone,
            group.windows.join(","),
            group.example
        );
        let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, &heading));
        text.push_str(&lines(group.spans.iter().map(|span| format!("  {}", span.local))));
    }
    text
}

fn now(group: &WindowGroup) -> Cell {
    if !group.reason.is_empty() {
        Cell::toned(Tone::Bad, group.reason.as_str())
    } else if group.open {
        Cell::toned(Tone::Good, "open")
    } else {
        Cell::toned(Tone::Warn, "closed")
    }
}

fn start_of(local: &str) -> &str {
    local.split_once(" to ").map_or(local, |(start, _)| start)
}
