//! What clusters say to an update: counts, and a group for each cause.

use std::fmt::Write as _;

use serde_json::Value;

use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::preflight::Overview;
use crate::render::objects::machine;
use crate::table::{Cell, Table, lines, or_none};

/// Renders an overview in the requested format.
#[must_use]
pub fn render(overview: &Overview, output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(overview.groups.iter().map(|group| or_none(&group.reason)));
    }
    machine(output, || serde_json::to_value(overview).unwrap_or(Value::Null))
        .unwrap_or_else(|| text(overview, paint))
}

fn text(overview: &Overview, paint: Paint) -> String {
    let mut text = format!(
        "{} ready, {} blocked, {} unknown\n",
        overview.ready, overview.blocked, overview.unknown
    );
    if overview.groups.is_empty() {
        return text;
    }
    let mut table = Table::new(&["CAUSE", "NAME", "VERDICT", "CLUSTERS", "EXAMPLE", "MESSAGE"]);
    for group in &overview.groups {
        let tone = if group.verdict == "Blocked" {
            Tone::Bad
        } else {
            Tone::Warn
        };
        table.push(vec![
            group.reason.as_str().into(),
            or_none(&group.name).into(),
            Cell::toned(tone, group.verdict),
            group.clusters.to_string().into(),
            group.example.as_str().into(),
            or_none(&group.message).into(),
        ]);
    }
    let _ = write!(text, "\n{}", table.render(paint, 0));
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, "What to do:"));
    let remedies = overview.groups.iter().map(|group| {
        let name = if group.name.is_empty() {
            String::new()
        } else {
            format!(" {}", group.name)
        };
        format!("  {}{name}: {}", group.reason, group.remedy)
    });
    text.push_str(&lines(remedies));
    text
}
