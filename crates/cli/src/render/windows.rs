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
            "{}, {} of {}: clusters may start, {}",
            group.time_zone,
            or_none(&group.windows.join(",")),
            group.example,
            until(group)
        );
        let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, &heading));
        text.push_str(&lines(group.spans.iter().map(|span| format!("  {}", span.local))));
    }
    text
}

/// What the end of a span is.
fn until(group: &WindowGroup) -> String {
    match group.minimum_remaining.as_str() {
        "" => "until the window closes".to_owned(),
        minimum => format!("until {minimum} (minimumRemaining) before the window closes"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::windows::OpenSpan;

    #[test]
    fn the_end_of_a_span_is_told_as_the_last_start() {
        let shown = |minimum: &str| {
            let group = WindowGroup {
                time_zone: "UTC".to_owned(),
                windows: vec!["nights".to_owned()],
                clusters: 2,
                example: "edge-1".to_owned(),
                open: false,
                reason: String::new(),
                minimum_remaining: minimum.to_owned(),
                spans: vec![OpenSpan {
                    start: "2026-01-05T22:00:00Z".to_owned(),
                    end: Some("2026-01-06T02:00:00Z".to_owned()),
                    local: "2026-01-05 22:00 +00:00 to 2026-01-06 02:00 +00:00".to_owned(),
                }],
            };
            render(&[group], None, Paint::Never)
        };
        let text = shown("2h");
        assert!(
            text.ends_with(
                "UTC, nights of edge-1: clusters may start, until 2h (minimumRemaining) before the window closes\n  2026-01-05 22:00 +00:00 to 2026-01-06 02:00 +00:00\n"
            ),
            "{text}"
        );
        assert!(shown("").contains("edge-1: clusters may start, until the window closes\n"));
    }
}
