//! Releases that have no updates, or only conditional ones.

use update_graph::query::{Exits, Stranded};

use super::{joined, machine_list};
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::table::{Cell, Table, lines};

/// Renders the releases in the requested format.
#[must_use]
pub fn render(releases: &[Stranded], output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(releases.iter().map(|release| &release.version));
    }
    machine_list(output, releases).unwrap_or_else(|| {
        let mut table = Table::new(&["VERSION", "UPDATES", "CHANNELS"]);
        for release in releases {
            table.push(vec![
                release.version.to_string().into(),
                exits(release.exits),
                joined(&release.channels).into(),
            ]);
        }
        table.render(paint, 0)
    })
}

fn exits(exits: Exits) -> Cell {
    match exits {
        Exits::None => Cell::toned(Tone::Bad, "None"),
        Exits::Conditional => Cell::toned(Tone::Warn, "Conditional only"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::graph;
    use super::*;
    use update_graph::Arch;
    use update_graph::query::stranded;

    #[test]
    fn stranded_releases_are_listed_with_what_is_left() {
        let channels = ["stable-4.13".to_owned()];
        assert!(stranded(&graph(), &channels, &Arch::amd64()).is_empty());
        let all = stranded(&graph(), &["candidate".to_owned()], &Arch::amd64());
        insta::assert_snapshot!(render(&all, None, Paint::Never));
        assert_eq!(render(&all, Some(Output::Name), Paint::Never), "4.14.4-rc.1\n");
    }
}
