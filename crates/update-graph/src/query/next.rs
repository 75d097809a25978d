//! The next versions: what a cluster may update to in one step.

use serde::Serialize;

use super::{QueryError, RiskNote, mask_of, node_in};
use crate::graph::{Graph, ReleaseRef, State};
use crate::version::{Arch, Version};

/// The request for the next releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextQuery {
    /// The architecture.
    pub arch: Arch,
    /// The release the cluster runs.
    pub from: Version,
    /// Channels by name or by the part before the first `-`; empty means all.
    pub channels: Vec<String>,
}

/// A release that is one step away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Next {
    /// The release.
    pub version: Version,
    /// Its image by digest.
    pub payload: String,
    /// Its errata page.
    pub url: Option<String>,
    /// Its channels, in the order they are served in.
    pub channels: Vec<String>,
    /// Those of them in which this step can be made.
    pub via: Vec<String>,
    /// What makes the step conditional, by name; empty if nothing does.
    pub risks: Vec<RiskNote>,
}

/// The releases that a served edge leads to and that share a requested channel with the start, newest first.
///
/// # Errors
/// [`QueryError`] when the release is not known.
pub fn next(graph: &Graph, query: &NextQuery) -> Result<Vec<Next>, QueryError> {
    let node = node_in(graph, &query.arch, &query.from)?;
    let Some(table) = graph.table(&query.arch) else {
        return Ok(Vec::new());
    };
    let mask = mask_of(graph, &query.channels);
    let own = graph.channels.set(table.node(node).channels);
    let mut found = Vec::new();
    for edge in table.outgoing(node).rev() {
        let risks = match edge.state {
            State::Open => Vec::new(),
            State::Conditional(set) => graph
                .risks_of(set)
                .map(|risk| RiskNote::from(risk.as_ref()))
                .collect(),
            State::Blocked(_) => continue,
        };
        let target = graph.channels.set(table.node(edge.to).channels);
        let via: Vec<String> = target
            .ids
            .iter()
            .filter(|&&id| {
                let (word, bit) = (id as usize / 64, 1 << (id % 64));
                own.bits[word] & mask[word] & bit != 0
            })
            .map(|&id| graph.channels.name(id).to_owned())
            .collect();
        if via.is_empty() {
            continue;
        }
        let release = ReleaseRef {
            graph,
            table,
            node: edge.to,
        };
        found.push(Next {
            version: release.version().clone(),
            payload: release.payload().to_owned(),
            url: release.url().map(std::borrow::Cow::into_owned),
            channels: release.channels().map(str::to_owned).collect(),
            via,
            risks,
        });
    }
    Ok(found)
}
