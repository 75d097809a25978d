//! The table of channels.

use serde::Serialize;
use update_graph::{Arch, Graph};

use super::machine_list;
use crate::args::Output;
use crate::paint::Paint;
use crate::table::{Table, lines, or_none};

/// A channel in the output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// Number of releases for the architecture.
    pub releases: usize,
    /// The newest release that is neither a candidate nor a hotfix; empty if there is none.
    pub latest: String,
    /// The newest release.
    pub newest: String,
}

/// The channels of a graph that contain releases for an architecture. If `wanted` is not empty, only those that it names.
#[must_use]
pub fn channels(graph: &Graph, arch: &Arch, wanted: &[String]) -> Vec<Channel> {
    graph
        .channels()
        .filter(|name| wanted.is_empty() || wanted.iter().any(|wanted| fits(wanted, name)))
        .map(|name| channel(graph, arch, name))
        .filter(|channel| channel.releases > 0)
        .collect()
}

/// Whether `wanted` is the name of a channel, or its family: the part before the first `-`.
fn fits(wanted: &str, name: &str) -> bool {
    wanted == name || name.split_once('-').is_some_and(|(family, _)| wanted == family)
}

fn channel(graph: &Graph, arch: &Arch, name: &str) -> Channel {
    let mut found = Channel {
        name: name.to_owned(),
        releases: 0,
        latest: String::new(),
        newest: String::new(),
    };
    // Releases are ordered by version, so the last one is the newest.
    for release in graph.view(Some(name), arch).releases() {
        found.releases += 1;
        found.newest = release.version().to_string();
        if !release.version().is_pre_release() {
            found.latest.clone_from(&found.newest);
        }
    }
    found
}

/// Renders the channels in the requested format.
#[must_use]
pub fn render(channels: &[Channel], output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(channels.iter().map(|channel| &channel.name));
    }
    machine_list(output, channels).unwrap_or_else(|| {
        let mut table = Table::new(&["CHANNEL", "RELEASES", "LATEST", "NEWEST"]);
        for channel in channels {
            table.push(vec![
                channel.name.as_str().into(),
                channel.releases.to_string().into(),
                or_none(&channel.latest).into(),
                or_none(&channel.newest).into(),
            ]);
        }
        table.render(paint, 0)
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::graph;
    use super::*;

    #[test]
    fn channels_are_listed_with_their_newest_releases() {
        let all = channels(&graph(), &Arch::amd64(), &[]);
        insta::assert_snapshot!(render(&all, None, Paint::Never));
        assert_eq!(
            render(&all, Some(Output::Name), Paint::Never),
            "stable-4.13\nstable-4.14\ncandidate-4.15\n"
        );
    }

    #[test]
    fn a_family_or_a_name_chooses_and_another_architecture_has_none() {
        let named = |wanted: &str| channels(&graph(), &Arch::amd64(), &[wanted.to_owned()]).len();
        assert_eq!(
            (named("stable"), named("candidate-4.15"), named("fast")),
            (2, 1, 0)
        );
        assert!(channels(&graph(), &Arch::multi(), &[]).is_empty());
    }
}
