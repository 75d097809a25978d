//! What clusters say to an update: counts, and a group for each cause.

use std::fmt::Write as _;

use api::message::count;
use serde_json::Value;

use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::preflight::{Group, Overview, shortened};
use crate::render::objects::machine;
use crate::table::{Cell, Table, lines, or_none};

/// Longest name and message in the table, in bytes. The whole message follows below.
const MAX_NAME: usize = 100;
const MAX_MESSAGE: usize = 300;
/// Reasons of clusters that have not answered.
const MAX_REASONS: usize = 10;

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
        "{} ready, {} blocked, {} unknown, {} cannot be asked\n",
        overview.ready, overview.blocked, overview.unknown, overview.unsupported
    );
    text.push_str(&unanswered(overview));
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
            or_none(&shortened(&group.name, MAX_NAME)).into(),
            Cell::toned(tone, group.verdict),
            group.clusters.to_string().into(),
            group.example.as_str().into(),
            or_none(&shortened(&group.message, MAX_MESSAGE)).into(),
        ]);
    }
    let _ = write!(text, "\n{}", table.render(paint, 0));
    if overview.left_out > 0 {
        let _ = writeln!(
            text,
            "and {} that are not shown",
            count(overview.left_out, "cause")
        );
    }
    let _ = writeln!(text, "\n{}", paint.tone(Tone::Bold, "What to do:"));
    text.push_str(&lines(overview.groups.iter().map(remedy)));
    let long = overview
        .groups
        .iter()
        .filter(|group| group.message.len() > MAX_MESSAGE);
    for group in long {
        let heading = paint.tone(Tone::Bold, &format!("{}:", subject(group)));
        let _ = writeln!(text, "\n{heading}\n  {}", group.message);
    }
    text
}

/// Which clusters have not answered, with what their rows tell instead.
fn unanswered(overview: &Overview) -> String {
    let clusters = overview.unanswered_clusters();
    if clusters == 0 {
        return String::new();
    }
    let reasons = overview.unanswered.iter().take(MAX_REASONS);
    let reasons: Vec<String> = reasons
        .map(|group| format!("{} {}", group.clusters, or_none(&group.reason)))
        .collect();
    format!(
        "{} {} not answered; by the reason of {}: {}\n",
        count(clusters, "cluster"),
        if clusters == 1 { "has" } else { "have" },
        if clusters == 1 { "its row" } else { "their rows" },
        reasons.join(", ")
    )
}

fn subject(group: &Group) -> String {
    let name = shortened(&group.name, MAX_NAME);
    if name.is_empty() {
        return group.reason.clone();
    }
    format!("{} {name}", group.reason)
}

fn remedy(group: &Group) -> String {
    let mut remedy = format!("  {}: {}", subject(group), group.remedy);
    if group.differing > 0 && !group.name.is_empty() {
        let _ = write!(
            remedy,
            " ({} of {} say something else about it.)",
            group.differing,
            count(group.clusters, "cluster")
        );
    }
    remedy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preflight::Unanswered;

    fn overview() -> Overview {
        let group = |name: &str, message: String, differing| Group {
            verdict: "Blocked",
            reason: "RiskNotAccepted".to_owned(),
            name: name.to_owned(),
            clusters: 3,
            example: "edge-1".to_owned(),
            message,
            differing,
            remedy: "Read it.".to_owned(),
        };
        Overview {
            namespace: "upgrades".to_owned(),
            upgrade: "spring".to_owned(),
            ready: 1,
            blocked: 3,
            unknown: 2,
            unsupported: 0,
            unanswered: vec![Unanswered {
                reason: "Conflict".to_owned(),
                clusters: 2,
            }],
            groups: vec![
                group("Leak", "It leaks.".to_owned(), 1),
                group(&"x".repeat(250), "y".repeat(4000), 0),
            ],
            left_out: 7,
        }
    }

    #[test]
    fn long_texts_are_cut_in_the_table_and_shown_once_below() {
        let text = render(&overview(), None, Paint::Never);
        let table = text.split("What to do:").next().unwrap();
        let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest < 500, "{widest}");
        assert_eq!(text.matches(&"y".repeat(4000)).count(), 1);
        assert!(text.contains("and 7 causes that are not shown"), "{text}");
        assert!(
            text.contains("Leak: Read it. (1 of 3 clusters say something else about it.)"),
            "{text}"
        );
    }

    #[test]
    fn clusters_that_have_not_answered_are_counted_with_their_reasons() {
        let text = render(&overview(), None, Paint::Never);
        assert!(
            text.contains("2 clusters have not answered; by the reason of their rows: 2 Conflict\n"),
            "{text}"
        );
    }
}
