//! Views: the part of a graph that one request is answered with.

use crate::graph::{Edge, Graph, ReleaseRef, State, Table};
use crate::version::{Arch, Version};

/// Releases of one architecture, of one channel or all, and the served edges among them.
#[derive(Debug, Clone)]
pub struct View<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) table: Option<&'g Table>,
    /// Nodes, ascending.
    pub(crate) nodes: Vec<u32>,
    /// Per node of the table, its place in `nodes`.
    places: Vec<u32>,
}

/// Not in the view.
const ABSENT: u32 = u32::MAX;

impl<'g> View<'g> {
    pub(crate) fn new(graph: &'g Graph, channel: Option<&str>, arch: &Arch) -> Self {
        let table = graph.table(arch);
        let mask = graph
            .channels
            .mask(|name| channel.is_none_or(|channel| name == channel));
        let nodes = match table {
            Some(table) => (0..table.len())
                .filter(|&node| {
                    let set = graph.channels.set(table.node(node).channels);
                    channel.is_none() || set.bits.iter().zip(&mask).any(|(a, b)| a & b != 0)
                })
                .collect(),
            None => Vec::new(),
        };
        Self::of(graph, table, nodes)
    }

    fn of(graph: &'g Graph, table: Option<&'g Table>, nodes: Vec<u32>) -> Self {
        let mut places = vec![ABSENT; table.map_or(0, |table| table.nodes.len())];
        for (place, &node) in (0..).zip(&nodes) {
            places[node as usize] = place;
        }
        Self {
            graph,
            table,
            nodes,
            places,
        }
    }

    /// The view cut down to a release and what can be reached from it over served edges of the view, conditional ones
    /// included. A release that is not in the view leaves nothing, as the client then has nothing to choose from.
    #[must_use]
    pub fn reachable_from(&self, version: &Version) -> Self {
        let start = self.table.and_then(|table| self.graph.node_of(table, version));
        let mut nodes = Vec::new();
        if let (Some(table), Some(start)) = (self.table, start.filter(|&node| self.holds(node))) {
            let mut reached = vec![false; table.nodes.len()];
            reached[start as usize] = true;
            // Edges lead up: one pass in version order finds all.
            for node in start..table.len() {
                if !reached[node as usize] {
                    continue;
                }
                nodes.push(node);
                for edge in self.served(table.outgoing(node)) {
                    reached[edge.to as usize] = true;
                }
            }
        }
        Self::of(self.graph, self.table, nodes)
    }

    /// The releases, by version.
    pub fn releases(&self) -> impl Iterator<Item = ReleaseRef<'g>> {
        let (graph, table) = (self.graph, self.table);
        self.nodes
            .iter()
            .filter_map(move |&node| table.map(|table| ReleaseRef { graph, table, node }))
    }

    /// The number of releases.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True when it contains nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(crate) fn holds(&self, node: u32) -> bool {
        self.place(node).is_some()
    }

    pub(crate) fn place(&self, node: u32) -> Option<u32> {
        self.places
            .get(node as usize)
            .copied()
            .filter(|&place| place != ABSENT)
    }

    /// Those edges that are served and have both ends in the view.
    pub(crate) fn served(&self, edges: impl Iterator<Item = Edge>) -> impl Iterator<Item = Edge> {
        edges.filter(|edge| {
            !matches!(edge.state, State::Blocked(_)) && self.holds(edge.from) && self.holds(edge.to)
        })
    }
}
