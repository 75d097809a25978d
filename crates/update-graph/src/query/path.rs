//! Paths: from a release to another, across channels and minor versions, fewest hops first, then the newest releases.

use serde::Serialize;

use super::path_query::{PathQuery, Target};
use super::search::{Reduced, Rules};
use super::unreachable::{Unreachable, unreachable};
use super::{QueryError, RiskNote, node_in, preference};
use crate::graph::{Graph, ReleaseRef, State};
use crate::version::Version;

/// The answer: paths, best first, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Paths {
    /// The best path and its alternatives. A path of no hops: the cluster is there.
    pub paths: Vec<Path>,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreachable: Option<Unreachable>,
}

/// One path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Path {
    /// Its steps in order.
    pub hops: Vec<Hop>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Hop {
    /// The release before.
    pub from: Version,
    /// The release after.
    pub to: Version,
    /// A channel that holds both; set it in `spec.channel` before this step.
    pub channel: String,
    /// Whether that is another one than for the step before.
    pub channel_changes: bool,
    /// The image by digest.
    pub payload: String,
    /// The digest alone.
    pub digest: Option<String>,
    /// The errata page.
    pub url: Option<String>,
    /// What makes the step conditional, by name; empty if nothing does.
    pub risks: Vec<RiskNote>,
}

/// The best paths, or why there is none.
///
/// The hops of a path lead up and cross one minor version at most. Among paths of equally many hops the one is better
/// whose release is newer at the first hop where they differ.
///
/// # Errors
/// [`QueryError`] when one of the ends is not known.
pub fn path(graph: &Graph, query: &PathQuery) -> Result<Paths, QueryError> {
    let start = node_in(graph, &query.arch, &query.from)?;
    let Some(table) = graph.table(&query.arch) else {
        return Err(QueryError::UnknownArch(query.arch.clone()));
    };
    let rules = Rules::new(graph, table, query, start);
    let limit = query.limit.max(1);
    let targets: Vec<u32> = match &query.to {
        Target::Version(version) => vec![node_in(graph, &query.arch, version)?],
        Target::Minor { major, minor } => (0..table.len())
            .rev()
            .filter(|&node| {
                let version = rules.version(node);
                let wanted = query.pre_releases || !version.is_pre_release();
                version.major() == *major && version.minor() == *minor && wanted && node >= start
            })
            .collect(),
    };
    for &target in targets.iter().filter(|&&target| target >= start) {
        let found = if target == start {
            vec![vec![start]]
        } else {
            Reduced::new(&rules, target).best(limit)
        };
        if !found.is_empty() {
            let paths = found.iter().map(|nodes| told(&rules, query, nodes)).collect();
            return Ok(Paths {
                paths,
                unreachable: None,
            });
        }
    }
    let unreachable = unreachable(&rules, &query.to, start, targets.first().copied());
    Ok(Paths {
        paths: Vec::new(),
        unreachable: Some(unreachable),
    })
}

/// A list of nodes as hops.
fn told(rules: &Rules<'_>, query: &PathQuery, nodes: &[u32]) -> Path {
    let graph = rules.graph;
    let channels = channels_of(rules, query, nodes);
    let mut hops = Vec::with_capacity(channels.len());
    let mut before = query.channel.clone();
    for (pair, channel) in nodes.windows(2).zip(channels) {
        let (from, to) = (pair[0], pair[1]);
        let risks = match rules.table.edge(from, to).map(|edge| edge.state) {
            Some(State::Conditional(set)) => graph
                .risks_of(set)
                .map(|risk| RiskNote::from(risk.as_ref()))
                .collect(),
            _ => Vec::new(),
        };
        let release = ReleaseRef {
            graph,
            table: rules.table,
            node: to,
        };
        hops.push(Hop {
            from: rules.version(from).clone(),
            to: release.version().clone(),
            channel_changes: before.as_ref().is_some_and(|before| *before != channel),
            payload: release.payload().to_owned(),
            digest: release.digest().map(str::to_owned),
            url: release.url().map(std::borrow::Cow::into_owned),
            risks,
            channel: channel.clone(),
        });
        before = Some(channel);
    }
    Path { hops }
}

/// Families of channels, those first that are meant for production.
const FAMILIES: [&str; 4] = ["stable", "eus", "fast", "candidate"];

/// The place of a channel in the order of preference.
fn rank(wanted: &[String], name: &str) -> usize {
    if wanted.is_empty() {
        let family = name.split_once('-').map_or(name, |(family, _)| family);
        let place = FAMILIES.iter().position(|known| *known == family);
        return place.unwrap_or(FAMILIES.len());
    }
    preference(wanted, name).unwrap_or(usize::MAX)
}

/// A channel for each hop, changed as rarely as can be: from each hop on, the one that serves the most hops in a row; of
/// several the one that is preferred, then that of the newest minor version.
fn channels_of(rules: &Rules<'_>, query: &PathQuery, nodes: &[u32]) -> Vec<String> {
    let graph = rules.graph;
    let holds = |hop: &[u32], channel: usize| {
        let bits = |node: u32| graph.channels.set(rules.table.node(node).channels).bits[channel / 64];
        bits(hop[0]) & bits(hop[1]) & rules.mask[channel / 64] & (1 << (channel % 64)) != 0
    };
    let hops: Vec<&[u32]> = nodes.windows(2).collect();
    let run = |at: usize, channel: usize| hops[at..].iter().take_while(|hop| holds(hop, channel)).count();
    let mut chosen: Vec<String> = Vec::with_capacity(hops.len());
    let mut current = query
        .channel
        .as_ref()
        .and_then(|name| graph.channels.id(name))
        .map(|id| id as usize);
    while chosen.len() < hops.len() {
        let at = chosen.len();
        let stay = current
            .take()
            .map(|channel| (run(at, channel), channel))
            .filter(|(length, _)| *length > 0);
        let best = stay.or_else(|| {
            (0..graph.channels.names.len())
                .map(|channel| (run(at, channel), channel))
                .filter(|(length, _)| *length > 0)
                .max_by_key(|&(length, channel)| {
                    let name = &graph.channels.names[channel];
                    let rank = rank(&query.channels, name);
                    (
                        length,
                        std::cmp::Reverse(rank),
                        minor_of(name),
                        std::cmp::Reverse(channel),
                    )
                })
        });
        // Every usable edge has a channel.
        let Some((length, channel)) = best else { break };
        let name = graph.channels.names[channel].to_string();
        chosen.extend(std::iter::repeat_n(name, length));
    }
    chosen
}

/// The numbers at the end of `stable-4.16`.
fn minor_of(channel: &str) -> (u64, u64) {
    let numbers = channel
        .rsplit_once('-')
        .and_then(|(_, version)| version.split_once('.'));
    numbers
        .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
        .unwrap_or_default()
}
