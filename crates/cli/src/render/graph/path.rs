//! Paths from one release to another, or the obstacles if there is none.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use update_graph::Version;
use update_graph::query::{Obstacle, ObstacleKind, Path, Paths, Unreachable};

use super::next::update;
use super::{heading, is_wide, joined, machine, names, risks};
use crate::args::Output;
use crate::paint::Paint;
use crate::table::{Table, lines, or_none};

const NARROW: &[&str] = &["FROM", "TO", "CHANNEL", "UPDATE", "URL", "RISKS"];
const WIDE: &[&str] = &["FROM", "TO", "CHANNEL", "UPDATE", "URL", "RISKS", "PAYLOAD"];

/// Renders the paths in the requested format. Without a path, it renders the obstacles and the flags that remove them.
#[must_use]
pub fn render(from: &Version, paths: &Paths, output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        let hops = paths.paths.first().map(|path| path.hops.as_slice());
        return lines(hops.unwrap_or_default().iter().map(|hop| &hop.to));
    }
    machine(output, paths).unwrap_or_else(|| {
        let wide = is_wide(output);
        if let Some(unreachable) = &paths.unreachable {
            return obstructed(unreachable, wide, paint);
        }
        let mut text = String::new();
        for (number, path) in paths.paths.iter().enumerate() {
            if number > 0 {
                text.push_str(&heading(&format!("Alternative {number}"), paint));
            }
            text.push_str(&way(from, path, wide, paint));
        }
        let hops = paths.paths.iter().flat_map(|path| &path.hops);
        text + &risks(hops.flat_map(|hop| &hop.risks), wide, paint)
    })
}

fn way(from: &Version, path: &Path, wide: bool, paint: Paint) -> String {
    if path.hops.is_empty() {
        return format!("{from} is the target already: no update is needed.\n");
    }
    let mut table = Table::new(if wide { WIDE } else { NARROW });
    for hop in &path.hops {
        let mut row = vec![
            hop.from.to_string().into(),
            hop.to.to_string().into(),
            hop.channel.as_str().into(),
            update(hop.risks.is_empty()),
            or_none(hop.url.as_deref().unwrap_or_default()).into(),
            names(&hop.risks).into(),
        ];
        if wide {
            row.push(hop.payload.as_str().into());
        }
        table.push(row);
    }
    table.render(paint, 0)
}

fn obstructed(unreachable: &Unreachable, wide: bool, paint: Paint) -> String {
    let mut text = format!("No path: {}.\n", unreachable.message);
    if let Some(nearest) = &unreachable.nearest {
        let _ = writeln!(text, "The nearest release that can be reached is {nearest}.");
    }
    if unreachable.obstacles.is_empty() {
        return text;
    }
    text.push_str(&heading("Obstacles", paint));
    let mut table = Table::new(&["FROM", "TO", "BECAUSE", "RISKS", "FILES"]);
    for obstacle in &unreachable.obstacles {
        let files: Vec<&str> = obstacle.causes.iter().map(|cause| cause.file.as_str()).collect();
        table.push(vec![
            obstacle.from.to_string().into(),
            obstacle.to.to_string().into(),
            because(obstacle.kind).into(),
            names(&obstacle.risks).into(),
            joined(&files).into(),
        ]);
    }
    text.push_str(&table.render(paint, 0));
    text.push_str(&risks(
        unreachable.obstacles.iter().flat_map(|obstacle| &obstacle.risks),
        wide,
        paint,
    ));
    if let Some(remedy) = remedy(&unreachable.obstacles) {
        let _ = writeln!(text, "\n{remedy}");
    }
    text
}

const fn because(kind: ObstacleKind) -> &'static str {
    match kind {
        ObstacleKind::Conditional => "Conditional",
        ObstacleKind::PreRelease => "Pre-release",
        ObstacleKind::Channel => "No channel",
        ObstacleKind::Blocked => "Blocked",
    }
}

/// The flags that allow this path; `None` if no flag can.
fn remedy(obstacles: &[Obstacle]) -> Option<String> {
    let mut flags: Vec<String> = Vec::new();
    let mut accepted: BTreeSet<&str> = BTreeSet::new();
    for obstacle in obstacles {
        match obstacle.kind {
            ObstacleKind::Blocked => return None,
            ObstacleKind::PreRelease => flags.push("--pre-releases".to_owned()),
            ObstacleKind::Channel => flags.push("other channels".to_owned()),
            ObstacleKind::Conditional => {}
        }
        accepted.extend(obstacle.risks.iter().map(|risk| risk.name.as_str()));
    }
    flags.sort();
    flags.dedup();
    flags.extend(accepted.iter().map(|name| format!("--accept-risk {name}")));
    Some(format!("To use this path: {}.", flags.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{graph, version};
    use super::*;
    use update_graph::Arch;
    use update_graph::query::{PathQuery, path};

    fn shown(from: &str, to: &str, output: Option<Output>, change: impl FnOnce(&mut PathQuery)) -> String {
        let mut query = PathQuery::new(Arch::amd64(), version(from), to.parse().unwrap());
        change(&mut query);
        let paths = path(&graph(), &query).unwrap();
        render(&query.from, &paths, output, Paint::Never)
    }

    #[test]
    fn a_path_is_a_line_per_update() {
        insta::assert_snapshot!(shown("4.13.1", "4.15", None, |query| query.conditional = true));
        assert_eq!(shown("4.13.2", "4.14.3", Some(Output::Name), |_| {}), "4.14.3\n");
    }

    #[test]
    fn alternatives_follow_the_best_path() {
        insta::assert_snapshot!(shown("4.13.1", "4.14.3", Some(Output::Wide), |query| {
            query.conditional = true;
            query.limit = 3;
        }));
    }

    #[test]
    fn without_a_path_the_obstacles_are_named_and_what_would_help() {
        insta::assert_snapshot!(shown("4.13.1", "4.14.2", None, |_| {}));
    }

    #[test]
    fn a_cluster_that_is_there_needs_no_update() {
        assert_eq!(
            shown("4.13.1", "4.13.1", None, |_| {}),
            "4.13.1 is the target already: no update is needed.\n"
        );
    }
}
