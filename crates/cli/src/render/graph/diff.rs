//! The differences between two graphs.

use std::fmt::Write as _;

use update_graph::query::{Change, Diff, EdgeState, ReleaseChange, ReleaseId};

use super::{heading, is_wide, joined, machine};
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::table::{Cell, Table, lines};

/// Maximum number of updates to show without `-o wide`.
const SHOWN: usize = 50;

/// Renders the differences in the requested format.
#[must_use]
pub fn render(diff: &Diff, output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        let released = diff.added.iter().chain(&diff.removed).map(name);
        let changed = diff.changed.iter().map(|change| name(&change.release));
        let edges = diff
            .edges
            .iter()
            .map(|edge| format!("{}->{}", edge.from, edge.to));
        return lines(released.chain(changed).chain(edges));
    }
    machine(output, diff).unwrap_or_else(|| text(diff, is_wide(output), paint))
}

fn text(diff: &Diff, wide: bool, paint: Paint) -> String {
    if diff.is_empty() {
        return "No difference.\n".to_owned();
    }
    let mut text = format!(
        "Releases: {} added, {} removed, {} changed. Updates changed: {}. Risks changed: {}.\n",
        diff.added.len(),
        diff.removed.len(),
        diff.changed.len(),
        diff.edges.len(),
        diff.risks.len()
    );
    for (title, names) in [
        ("Channels added", &diff.channels_added),
        ("Channels removed", &diff.channels_removed),
        ("Risks changed", &diff.risks),
    ] {
        if !names.is_empty() {
            text.push_str(&heading(title, paint));
            text.push_str(&lines(names));
        }
    }
    releases(diff, &mut text, paint);
    edges(diff, wide, &mut text, paint);
    text
}

fn name(release: &ReleaseId) -> String {
    format!("{}+{}", release.version, release.arch)
}

fn releases(diff: &Diff, text: &mut String, paint: Paint) {
    let mut table = Table::new(&["RELEASE", "CHANGE"]);
    for (releases, tone, word) in [
        (&diff.added, Tone::Good, "Added"),
        (&diff.removed, Tone::Bad, "Removed"),
    ] {
        for release in releases {
            table.push(vec![name(release).into(), Cell::toned(tone, word)]);
        }
    }
    for change in &diff.changed {
        table.push(vec![name(&change.release).into(), changes(change).into()]);
    }
    if !table.is_empty() {
        text.push_str(&heading("Releases", paint));
        text.push_str(&table.render(paint, 0));
    }
}

fn changes(change: &ReleaseChange) -> String {
    let mut words: Vec<String> = Vec::new();
    for change in &change.changes {
        match change {
            Change::Payload => words.push("payload".to_owned()),
            Change::Metadata => words.push("metadata".to_owned()),
            Change::Channels => {}
        }
    }
    words.extend(change.channels_added.iter().map(|channel| format!("+{channel}")));
    words.extend(
        change
            .channels_removed
            .iter()
            .map(|channel| format!("-{channel}")),
    );
    words.join(" ")
}

fn edges(diff: &Diff, wide: bool, text: &mut String, paint: Paint) {
    if diff.edges.is_empty() {
        return;
    }
    text.push_str(&heading("Updates", paint));
    let shown = if wide { diff.edges.len() } else { SHOWN };
    let mut table = Table::new(&["FROM", "TO", "ARCH", "WAS", "IS"]);
    for edge in diff.edges.iter().take(shown) {
        table.push(vec![
            edge.from.to_string().into(),
            edge.to.to_string().into(),
            edge.arch.to_string().into(),
            state(&edge.before),
            state(&edge.after),
        ]);
    }
    text.push_str(&table.render(paint, 0));
    if let Some(more) = diff.edges.len().checked_sub(shown).filter(|more| *more > 0) {
        let _ = writeln!(text, "{more} more are not shown; add -o wide to show them.");
    }
}

fn state(state: &EdgeState) -> Cell {
    match state {
        EdgeState::Absent => Cell::from("<none>"),
        EdgeState::Blocked => Cell::toned(Tone::Bad, "Blocked"),
        EdgeState::Conditional(risks) => Cell::toned(Tone::Warn, format!("Conditional: {}", joined(risks))),
        EdgeState::Open => Cell::toned(Tone::Good, "Recommended"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{graph, with_block};
    use super::*;
    use update_graph::query::diff;

    #[test]
    fn a_change_of_graph_data_is_shown_by_the_updates_it_concerns() {
        let after = with_block(
            "channels/fast-4.14.yaml",
            "name: fast-4.14\nversions: [4.14.2, 4.14.3]\n",
        );
        insta::assert_snapshot!(render(&diff(&graph(), &after), None, Paint::Never));
    }

    #[test]
    fn equal_graphs_do_not_differ() {
        assert_eq!(
            render(&diff(&graph(), &graph()), None, Paint::Never),
            "No difference.\n"
        );
    }
}
