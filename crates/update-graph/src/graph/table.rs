//! The table of one architecture: releases in version order, edges stored once by target, with an index by source.

use std::sync::Arc;

use serde::Serialize;
use smol_str::SmolStr;

use crate::metadata::Metadata;
use crate::version::Arch;

/// Why a declared edge is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Blocked {
    /// A silent or unreadable block of graph-data.
    GraphData,
    /// Its risks cannot be read, or two of one name differ in their rules: a client would drop the target.
    Risk,
    /// `previous.remove`, `previous.remove_regex` or `next.remove` of release metadata.
    Metadata,
    /// A local policy.
    Policy,
}

/// What became of a declared edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    Open,
    /// With the number of its risk set.
    Conditional(u32),
    Blocked(Blocked),
}

/// The first code of a risk set.
const SETS: u32 = 8;

impl State {
    fn code(self) -> u32 {
        match self {
            Self::Open => 0,
            Self::Blocked(Blocked::GraphData) => 1,
            Self::Blocked(Blocked::Risk) => 2,
            Self::Blocked(Blocked::Metadata) => 3,
            Self::Blocked(Blocked::Policy) => 4,
            Self::Conditional(set) => SETS.saturating_add(set),
        }
    }

    fn of(code: u32) -> Self {
        match code {
            0 => Self::Open,
            1 => Self::Blocked(Blocked::GraphData),
            2 => Self::Blocked(Blocked::Risk),
            3 => Self::Blocked(Blocked::Metadata),
            4..SETS => Self::Blocked(Blocked::Policy),
            set => Self::Conditional(set - SETS),
        }
    }
}

/// An edge between two nodes of a table, by their index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub to: u32,
    pub from: u32,
    pub state: State,
}

/// A release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    /// Index into the graph's versions.
    pub version: u32,
    pub payload: SmolStr,
    /// Number of the channel set.
    pub channels: u32,
    /// The image's metadata and what graph-data adds; the three keys that follow from the graph are not in it.
    pub metadata: Arc<Metadata>,
    /// The expressions of all blocks of this release, joined by `|`, as upstream shows them.
    pub remove_regex: Option<SmolStr>,
}

/// One architecture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub arch: Arch,
    /// By version.
    pub nodes: Vec<Node>,
    /// Per target, where its edges start; one more at the end.
    in_start: Vec<u32>,
    /// By target, then by source.
    in_from: Vec<u32>,
    in_state: Vec<u32>,
    /// Per source, where its edges start; one more at the end.
    out_start: Vec<u32>,
    /// By source, then by target: target and index of the edge.
    out_edge: Vec<(u32, u32)>,
    /// Edges with an end that is no release here: (from, to) as the graph's or foreign versions.
    pub dangling: Arc<[(crate::version::Version, crate::version::Version)]>,
}

fn index(n: usize) -> u32 {
    // Nodes and edges number thousands; what is read is bounded far below 2^32.
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Table {
    /// Puts a table together: nodes by version, edges by (to, from), each pair once.
    pub(crate) fn new(arch: Arch, nodes: Vec<Node>, edges: &[Edge]) -> Self {
        let mut in_start = vec![0_u32; nodes.len() + 1];
        let mut out_start = vec![0_u32; nodes.len() + 1];
        for edge in edges {
            in_start[edge.to as usize + 1] += 1;
            out_start[edge.from as usize + 1] += 1;
        }
        for starts in [&mut in_start, &mut out_start] {
            let mut sum = 0;
            for start in starts.iter_mut() {
                sum += *start;
                *start = sum;
            }
        }
        let mut next = out_start.clone();
        let mut out_edge = vec![(0, 0); edges.len()];
        for (at, edge) in edges.iter().enumerate() {
            let slot = &mut next[edge.from as usize];
            out_edge[*slot as usize] = (edge.to, index(at));
            *slot += 1;
        }
        Self {
            arch,
            nodes,
            in_start,
            in_from: edges.iter().map(|edge| edge.from).collect(),
            in_state: edges.iter().map(|edge| edge.state.code()).collect(),
            out_start,
            out_edge,
            dangling: Arc::default(),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        index(self.nodes.len())
    }

    pub(crate) fn node(&self, node: u32) -> &Node {
        &self.nodes[node as usize]
    }

    /// The node of a version of the graph.
    pub(crate) fn node_of(&self, version: u32) -> Option<u32> {
        self.nodes
            .binary_search_by_key(&version, |node| node.version)
            .ok()
            .map(index)
    }

    /// All edges, by (to, from).
    pub(crate) fn edges(&self) -> impl Iterator<Item = Edge> {
        (0..self.len()).flat_map(move |to| self.incoming(to))
    }

    /// The edges into a node, by source.
    pub(crate) fn incoming(&self, to: u32) -> impl Iterator<Item = Edge> {
        let range = self.in_start[to as usize] as usize..self.in_start[to as usize + 1] as usize;
        let states = &self.in_state[range.clone()];
        self.in_from[range]
            .iter()
            .zip(states)
            .map(move |(&from, &code)| Edge {
                to,
                from,
                state: State::of(code),
            })
    }

    /// The edges out of a node, by target.
    pub(crate) fn outgoing(&self, from: u32) -> impl DoubleEndedIterator<Item = Edge> {
        let range = self.out_start[from as usize] as usize..self.out_start[from as usize + 1] as usize;
        self.out_edge[range].iter().map(move |&(to, edge)| Edge {
            to,
            from,
            state: State::of(self.in_state[edge as usize]),
        })
    }

    /// The edge between two nodes, if it was ever declared.
    pub(crate) fn edge(&self, from: u32, to: u32) -> Option<Edge> {
        let start = self.in_start[to as usize] as usize;
        let end = self.in_start[to as usize + 1] as usize;
        let at = self.in_from[start..end].binary_search(&from).ok()?;
        Some(Edge {
            to,
            from,
            state: State::of(self.in_state[start + at]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_from_both_ends() {
        let node = |version| Node {
            version,
            payload: SmolStr::default(),
            channels: 0,
            metadata: Arc::default(),
            remove_regex: None,
        };
        let edges = [
            Edge {
                to: 1,
                from: 0,
                state: State::Open,
            },
            Edge {
                to: 2,
                from: 0,
                state: State::Conditional(3),
            },
            Edge {
                to: 2,
                from: 1,
                state: State::Blocked(Blocked::Metadata),
            },
        ];
        let table = Table::new(Arch::amd64(), (0..3).map(|v| node(v * 10)).collect(), &edges);
        assert_eq!(table.edges().collect::<Vec<_>>(), edges);
        assert_eq!(table.outgoing(0).collect::<Vec<_>>(), edges[..2]);
        assert_eq!(table.incoming(2).collect::<Vec<_>>(), edges[1..]);
        assert_eq!(table.edge(1, 2), Some(edges[2]));
        assert_eq!(table.edge(1, 0), None);
        assert_eq!(table.node_of(20), Some(2));
        assert_eq!(table.node_of(5), None);
    }

    #[test]
    fn every_state_survives_its_code() {
        for state in [
            State::Open,
            State::Conditional(0),
            State::Conditional(290),
            State::Blocked(Blocked::GraphData),
            State::Blocked(Blocked::Risk),
            State::Blocked(Blocked::Metadata),
            State::Blocked(Blocked::Policy),
        ] {
            assert_eq!(State::of(state.code()), state);
        }
    }
}
