//! The releases that a release can be updated to directly.

use update_graph::query::Next;

use super::{is_wide, joined, machine_list, names, risks};
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::table::{Cell, Table, lines, or_none};

const NARROW: &[&str] = &["VERSION", "UPDATE", "CHANNELS", "URL", "RISKS"];
const WIDE: &[&str] = &["VERSION", "UPDATE", "CHANNELS", "URL", "RISKS", "PAYLOAD"];

/// Renders the releases in the requested format, followed by the risks of conditional updates.
#[must_use]
pub fn render(releases: &[Next], output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(releases.iter().map(|release| &release.version));
    }
    machine_list(output, releases).unwrap_or_else(|| {
        let wide = is_wide(output);
        let mut table = Table::new(if wide { WIDE } else { NARROW });
        for release in releases {
            table.push(row(release, wide));
        }
        let all = releases.iter().flat_map(|release| &release.risks);
        format!("{}{}", table.render(paint, 0), risks(all, wide, paint))
    })
}

fn row(release: &Next, wide: bool) -> Vec<Cell> {
    let mut row = vec![
        release.version.to_string().into(),
        update(release.risks.is_empty()),
        joined(&release.via).into(),
        or_none(release.url.as_deref().unwrap_or_default()).into(),
        names(&release.risks).into(),
    ];
    if wide {
        row.push(release.payload.as_str().into());
    }
    row
}

/// How a cluster sees an update.
pub(super) fn update(open: bool) -> Cell {
    if open {
        Cell::toned(Tone::Good, "Recommended")
    } else {
        Cell::toned(Tone::Warn, "Conditional")
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{graph, version};
    use super::*;
    use update_graph::Arch;
    use update_graph::query::{NextQuery, next};

    fn releases() -> Vec<Next> {
        let query = NextQuery {
            arch: Arch::amd64(),
            from: version("4.13.1"),
            channels: Vec::new(),
        };
        next(&graph(), &query).unwrap()
    }

    #[test]
    fn releases_are_listed_with_url_channels_and_risks() {
        insta::assert_snapshot!(render(&releases(), None, Paint::Never));
    }

    #[test]
    fn wide_adds_payload_and_message() {
        insta::assert_snapshot!(render(&releases(), Some(Output::Wide), Paint::Never));
    }

    #[test]
    fn machines_get_a_list() {
        insta::assert_snapshot!(render(&releases(), Some(Output::Json), Paint::Never));
        assert_eq!(
            render(&releases(), Some(Output::Name), Paint::Never),
            "4.14.2\n4.13.2\n"
        );
    }
}
