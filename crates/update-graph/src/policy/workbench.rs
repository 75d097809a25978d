//! The workbench: a graph taken apart, changed, and put together again with its sets numbered in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Blocked, Channels, Edge, Graph, Node, State, Table};
use crate::graph_data::Effect;
use crate::metadata::{Metadata, key};
use crate::pattern::Pattern;
use crate::version::{Arch, Version};

/// The table of an architecture, open to change.
pub(super) struct Draft {
    pub arch: Arch,
    pub nodes: Vec<Node>,
    /// By (to, from).
    pub edges: Vec<Edge>,
    dangling: Arc<[(Version, Version)]>,
}

impl Draft {
    pub(super) fn find(&self, from: u32, to: u32) -> Option<usize> {
        self.edges
            .binary_search_by_key(&(to, from), |edge| (edge.to, edge.from))
            .ok()
    }

    pub(super) fn insert(&mut self, edge: Edge) {
        if let Err(at) = self
            .edges
            .binary_search_by_key(&(edge.to, edge.from), |edge| (edge.to, edge.from))
        {
            self.edges.insert(at, edge);
        }
    }
}

pub(super) struct Workbench {
    /// The original graph; its tables are not used.
    pub graph: Graph,
    pub tables: Vec<Draft>,
    sets: Vec<Box<[u32]>>,
}

impl Workbench {
    pub(super) fn new(graph: Graph) -> Self {
        let tables = graph
            .tables
            .iter()
            .map(|table| Draft {
                arch: table.arch.clone(),
                nodes: table.nodes.clone(),
                edges: table.edges().collect(),
                dangling: Arc::clone(&table.dangling),
            })
            .collect();
        let sets = graph.risk_sets.to_vec();
        Self { graph, tables, sets }
    }

    pub(super) fn node(&self, table: usize, version: &Version) -> Option<u32> {
        let nodes = &self.tables[table].nodes;
        let at = nodes
            .binary_search_by(|node| self.graph.version(node.version).cmp(version))
            .ok()?;
        u32::try_from(at).ok()
    }

    pub(super) fn holds(&self, version: &Version) -> bool {
        (0..self.tables.len()).any(|table| self.node(table, version).is_some())
    }

    pub(super) fn remove_nodes(&mut self, remove: impl Fn(&Version, &Arch, &Node) -> bool) {
        let graph = &self.graph;
        for table in &mut self.tables {
            let gone: Vec<bool> = table
                .nodes
                .iter()
                .map(|node| remove(graph.version(node.version), &table.arch, node))
                .collect();
            if !gone.contains(&true) {
                continue;
            }
            let mut places = Vec::with_capacity(gone.len());
            let mut place = 0_u32;
            for &gone in &gone {
                places.push(place);
                place += u32::from(!gone);
            }
            let mut at = 0;
            table.nodes.retain(|_| {
                at += 1;
                !gone[at - 1]
            });
            table.edges.retain_mut(|edge| {
                let stays = !gone[edge.from as usize] && !gone[edge.to as usize];
                edge.from = places[edge.from as usize];
                edge.to = places[edge.to as usize];
                stays
            });
        }
    }

    pub(super) fn keep_channels(&mut self, keep: impl Fn(&str) -> bool) {
        let old = Arc::clone(&self.graph.channels);
        let mut channels = Channels::new(old.names.iter().filter(|name| keep(name)).cloned().collect());
        let numbers: Vec<Option<u32>> = old.names.iter().map(|name| channels.id(name)).collect();
        let sets: Vec<u32> = old
            .sets
            .iter()
            .map(|set| {
                let ids: Vec<u32> = set.ids.iter().filter_map(|&id| numbers[id as usize]).collect();
                channels.intern(&ids)
            })
            .collect();
        for node in self.tables.iter_mut().flat_map(|table| &mut table.nodes) {
            node.channels = sets[node.channels as usize];
        }
        self.graph.channels = Arc::new(channels);
        self.remove_nodes(|_, _, node| node.channels == 0);
    }

    /// Whether metadata removes an edge. `remove_regex` of a release out of a served graph stands for all blocks that the
    /// other service knows and this one does not.
    fn removed(&self, table: &Draft, from: u32, to: u32) -> bool {
        let (source, target) = (&table.nodes[from as usize], &table.nodes[to as usize]);
        let names = |metadata: &Metadata, key: &str, node: &Node| {
            let value = metadata.get_str(key).unwrap_or_default();
            let is_it =
                |entry: &str| Version::parse(entry).is_ok_and(|v| v == *self.graph.version(node.version));
            value
                .split(',')
                .map(str::trim)
                .any(|entry| entry == "*" || is_it(entry))
        };
        let name = self.graph.version(source.version).with_arch(&table.arch);
        let hit = |regex: &str| Pattern::new(regex).map_or(true, |pattern| pattern.found_in(&name));
        target.remove_regex.as_deref().is_some_and(hit)
            || names(&target.metadata, key::PREVIOUS_REMOVE, source)
            || names(&source.metadata, key::NEXT_REMOVE, target)
    }

    /// What graph-data and metadata make of an edge that no release declared, by its ends in a table.
    pub(super) fn judge(&mut self, table: usize, from: u32, to: u32) -> State {
        let table = &self.tables[table];
        let version = |node: u32| self.graph.version(table.nodes[node as usize].version);
        let (arch, to_version) = (&table.arch, version(to));
        let name = version(from).with_arch(arch);
        let (mut risks, mut silent) = (BTreeSet::new(), false);
        let hits = self
            .graph
            .blocks_of(to_version, arch)
            .filter(|b| b.from.as_ref().is_none_or(|p| p.found_in(&name)));
        for block in hits {
            match &block.effect {
                Effect::Silent => silent = true,
                Effect::Broken => return State::Blocked(Blocked::GraphData),
                Effect::Risk(risk) => {
                    let number = self.graph.risks.iter().position(|known| known == risk);
                    risks.extend(number.and_then(|number| u32::try_from(number).ok()));
                }
            }
        }
        if risks.is_empty() {
            return if silent {
                State::Blocked(Blocked::GraphData)
            } else if self.removed(table, from, to) {
                State::Blocked(Blocked::Metadata)
            } else {
                State::Open
            };
        }
        let names: BTreeSet<_> = risks
            .iter()
            .map(|&risk| &self.graph.risks[risk as usize].name)
            .collect();
        if names.len() < risks.len() {
            return State::Blocked(Blocked::Risk);
        }
        let set: Box<[u32]> = risks.into_iter().collect();
        let number = self
            .sets
            .iter()
            .position(|known| *known == set)
            .unwrap_or_else(|| {
                self.sets.push(set);
                self.sets.len() - 1
            });
        State::Conditional(u32::try_from(number).unwrap_or(u32::MAX))
    }

    pub(super) fn finish(self) -> Graph {
        let Self {
            mut graph,
            tables,
            sets,
        } = self;
        let ordered: BTreeSet<Box<[u32]>> = sets.iter().cloned().collect();
        let numbers: BTreeMap<&[u32], u32> = ordered.iter().map(AsRef::as_ref).zip(0..).collect();
        let renumbered: Vec<u32> = sets
            .iter()
            .map(|set| numbers.get(set.as_ref()).copied().unwrap_or_default())
            .collect();
        graph.tables = tables
            .into_iter()
            .map(|mut draft| {
                for edge in &mut draft.edges {
                    if let State::Conditional(set) = edge.state {
                        edge.state = State::Conditional(renumbered[set as usize]);
                    }
                }
                let mut table = Table::new(draft.arch, draft.nodes, &draft.edges);
                table.dangling = draft.dangling;
                Arc::new(table)
            })
            .collect();
        graph.risk_sets = ordered.into_iter().collect();
        graph
    }
}
