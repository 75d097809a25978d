//! Stranded releases: those that newer ones exist for, and that lead to none of them, or only over conditional edges.

use serde::Serialize;

use super::mask_of;
use crate::graph::{Graph, ReleaseRef, State};
use crate::version::{Arch, Version};

/// A release whose clusters are stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stranded {
    /// The release.
    pub version: Version,
    /// What is left.
    pub exits: Exits,
    /// Its channels, in the order they are served in.
    pub channels: Vec<String>,
}

/// Which edges lead out of a stranded release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Exits {
    /// None.
    None,
    /// Conditional ones only.
    Conditional,
}

/// The stranded releases among those of the requested channels (names, or the part before the first `-`; empty means
/// all), by version. An exit counts if a requested channel contains both its ends. The newest release of all is not stranded.
#[must_use]
pub fn stranded(graph: &Graph, channels: &[String], arch: &Arch) -> Vec<Stranded> {
    let Some(table) = graph.table(arch) else {
        return Vec::new();
    };
    let mask = mask_of(graph, channels);
    let bits = |node: u32| &graph.channels.set(table.node(node).channels).bits;
    let held: Vec<u32> = (0..table.len())
        .filter(|&node| bits(node).iter().zip(&mask).any(|(a, b)| a & b != 0))
        .collect();
    let share = |a: u32, b: u32| {
        bits(a)
            .iter()
            .zip(bits(b))
            .zip(&mask)
            .any(|((a, b), mask)| a & b & mask != 0)
    };
    let mut found = Vec::new();
    for &node in held.split_last().map_or(&[][..], |(_, older)| older) {
        let mut exits = Some(Exits::None);
        for edge in table.outgoing(node).filter(|edge| share(node, edge.to)) {
            match edge.state {
                State::Open => exits = None,
                State::Conditional(_) => exits = exits.map(|_| Exits::Conditional),
                State::Blocked(_) => {}
            }
        }
        if let Some(exits) = exits {
            let release = ReleaseRef { graph, table, node };
            let channels = release.channels().map(str::to_owned).collect();
            found.push(Stranded {
                version: release.version().clone(),
                exits,
                channels,
            });
        }
    }
    found
}
