//! Finds the channels of a service that a query needs.
//!
//! A service returns one graph per channel, and most services cannot list their channels. But every release in a graph names
//! all channels that contain it. So the search starts with channels that are guessed from the minor versions, and follows the
//! names in their releases.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde::Deserialize;
use update_client::Service;
use update_graph::{Arch, Version};

use crate::failure::Failure;

/// The part of OpenShift's channel names before the minor version.
const PREFIXES: [&str; 4] = ["candidate", "eus", "fast", "stable"];
/// Maximum number of channels of one query. OpenShift has fewer than a hundred; a service that names new ones for ever must come to an end.
const MAX_CHANNELS: usize = 1000;
/// Maximum number of parallel requests.
const REQUESTS: usize = 8;

/// The part of the graph that a query needs.
#[derive(Clone, Debug)]
pub(crate) enum Need {
    /// Everything.
    All,
    /// The updates from a release.
    From(Version),
    /// The releases between a release and a minor version.
    Between(Version, (u64, u64)),
}

impl Need {
    /// The channels to start with. A channel that does not exist has an empty graph.
    fn guesses(&self) -> BTreeSet<String> {
        let minor = |version: &Version| (version.major(), version.minor());
        let ends = match self {
            Self::All => Vec::new(),
            Self::From(from) => vec![minor(from)],
            Self::Between(from, to) => vec![minor(from), *to],
        };
        ends.into_iter()
            .flat_map(|(major, minor)| PREFIXES.map(|prefix| format!("{prefix}-{major}.{minor}")))
            .collect()
    }

    /// The channels to fetch next, as named by the releases of a graph.
    fn pointers(&self, body: &Body) -> BTreeSet<String> {
        body.nodes
            .iter()
            .filter(|node| self.concerns(node))
            .filter_map(|node| node.metadata.channels.as_deref())
            .flat_map(|list| list.split(','))
            .filter(|channel| self.reaches(channel))
            .map(str::to_owned)
            .collect()
    }

    fn concerns(&self, node: &Node) -> bool {
        match self {
            Self::All | Self::Between(..) => true,
            Self::From(from) => node.version == from.to_string(),
        }
    }

    /// Whether a channel may contain releases between the two versions. A channel without a minor version may.
    fn reaches(&self, channel: &str) -> bool {
        let Self::Between(from, to) = self else {
            return true;
        };
        let minor = channel
            .split_once('-')
            .and_then(|(_, minor)| minor_version(minor));
        minor.is_none_or(|minor| minor >= (from.major(), from.minor()) && minor <= *to)
    }
}

fn minor_version(text: &str) -> Option<(u64, u64)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The part of a served graph that contains the channel names.
#[derive(Deserialize)]
struct Body {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    version: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default, rename = "io.openshift.upgrades.graph.release.channels")]
    channels: Option<String>,
}

/// Fetches the graphs of all channels that the query needs.
///
/// # Errors
/// The service cannot be reached, rejects the request, or returns something that is not a graph.
pub(crate) async fn fetch(service: &Service, arch: &Arch, need: &Need) -> Result<Vec<Vec<u8>>, Failure> {
    let mut wanted = need.guesses();
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut bodies = Vec::new();
    while !wanted.is_empty() {
        if known.len() + wanted.len() > MAX_CHANNELS {
            return Err(Failure::Other(format!(
                "{}: the releases name more than {MAX_CHANNELS} channels; name those to use with --channel",
                service.base()
            )));
        }
        let fetched = fetch_channels(service, arch, &wanted).await?;
        known.append(&mut wanted);
        for body in fetched {
            let read: Body = serde_json::from_slice(&body).map_err(|error| {
                Failure::Other(format!("{}: not an update graph: {error}", service.base()))
            })?;
            wanted.extend(need.pointers(&read));
            bodies.push(body);
        }
        wanted.retain(|channel| !known.contains(channel));
    }
    Ok(bodies)
}

/// Fetches the graphs of these channels.
///
/// # Errors
/// As [`fetch`].
pub(crate) async fn fetch_channels(
    service: &Service,
    arch: &Arch,
    channels: &BTreeSet<String>,
) -> Result<Vec<Vec<u8>>, Failure> {
    stream::iter(channels)
        .map(|channel| service.graph(channel, arch))
        .buffered(REQUESTS)
        .map_err(Failure::from)
        .try_collect()
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn body(nodes: &[(&str, &str)]) -> Body {
        let nodes: Vec<_> = nodes
            .iter()
            .map(|(version, channels)| serde_json::json!({"version": version, "metadata": {CHANNELS: channels}}))
            .collect();
        serde_json::from_value(serde_json::json!({ "nodes": nodes })).unwrap()
    }

    #[test]
    fn from_a_release_lead_the_channels_that_it_names() {
        let need = Need::From(version("4.14.10"));
        assert!(need.guesses().contains("stable-4.14"));
        let body = body(&[("4.14.10", "stable-4.14,eus-4.16"), ("4.14.11", "fast-4.15")]);
        assert_eq!(
            need.pointers(&body).into_iter().collect::<Vec<_>>(),
            ["eus-4.16", "stable-4.14"]
        );
    }

    #[test]
    fn between_two_releases_lie_the_channels_of_their_minor_versions() {
        let need = Need::Between(version("4.22.1"), (5, 0));
        let body = body(&[(
            "4.22.2",
            "stable-4.21,fast-4.22,candidate-5.0,candidate-5.1,nightly,a-b",
        )]);
        assert_eq!(
            need.pointers(&body).into_iter().collect::<Vec<_>>(),
            ["a-b", "candidate-5.0", "fast-4.22", "nightly"]
        );
    }
}
