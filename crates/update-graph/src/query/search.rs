//! Search: the edges a query may use, as a compact graph, and the best ways through it.

use super::mask_of;
use super::path_query::PathQuery;
use crate::graph::{Edge, Graph, State, Table};
use crate::version::Version;

/// What a query allows, worked out once per query.
pub(super) struct Rules<'g> {
    pub graph: &'g Graph,
    pub table: &'g Table,
    /// The requested channels, as bits.
    pub mask: Vec<u64>,
    /// Per risk set: true when its edges may be used.
    sets: Vec<bool>,
    pre_releases: bool,
    start: u32,
}

/// Why an edge cannot be used, the least grave last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hurdle {
    Conditional,
    PreRelease,
    Channel,
    Blocked,
    /// More than one minor version: never.
    Minor,
}

impl<'g> Rules<'g> {
    pub(super) fn new(graph: &'g Graph, table: &'g Table, query: &PathQuery, start: u32) -> Self {
        let sets = (0..)
            .zip(graph.risk_sets.iter())
            .map(|(set, _)| {
                query.conditional
                    || graph
                        .risks_of(set)
                        .all(|risk| query.accepted.contains(risk.name.as_str()))
            })
            .collect();
        let mask = mask_of(graph, &query.channels);
        Self {
            graph,
            table,
            mask,
            sets,
            pre_releases: query.pre_releases,
            start,
        }
    }

    pub(super) fn version(&self, node: u32) -> &'g Version {
        self.graph.version(self.table.node(node).version)
    }

    /// True when the ends share a requested channel.
    pub(super) fn share_channel(&self, from: u32, to: u32) -> bool {
        let bits = |node: u32| &self.graph.channels.set(self.table.node(node).channels).bits;
        bits(from)
            .iter()
            .zip(bits(to))
            .zip(&self.mask)
            .any(|((a, b), mask)| a & b & mask != 0)
    }

    /// The most severe obstacle of an edge on a path to `target`; `None` if there is none.
    pub(super) fn hurdle(&self, edge: Edge, target: u32) -> Option<Hurdle> {
        let (from, to) = (self.version(edge.from), self.version(edge.to));
        if !from.within_one_minor(to) {
            return Some(Hurdle::Minor);
        }
        if matches!(edge.state, State::Blocked(_)) {
            return Some(Hurdle::Blocked);
        }
        if !self.share_channel(edge.from, edge.to) {
            return Some(Hurdle::Channel);
        }
        let passes = |node: u32| {
            self.pre_releases || node == self.start || node == target || !self.version(node).is_pre_release()
        };
        if !passes(edge.from) || !passes(edge.to) {
            return Some(Hurdle::PreRelease);
        }
        match edge.state {
            State::Conditional(set) if !self.sets[set as usize] => Some(Hurdle::Conditional),
            _ => None,
        }
    }
}

/// The usable edges among the nodes from a start to a target, both included, by source and then newest first.
pub(super) struct Reduced {
    start: u32,
    target: u32,
    starts: Vec<u32>,
    targets: Vec<u32>,
}

/// No way from here.
const NEVER: u32 = u32::MAX;

impl Reduced {
    /// Only nodes that the start leads to have edges.
    pub(super) fn new(rules: &Rules<'_>, target: u32) -> Self {
        let start = rules.start;
        let count = target.saturating_sub(start) as usize + 1;
        let mut reached = vec![false; count];
        reached[0] = true;
        let mut starts = Vec::with_capacity(count + 1);
        let mut targets = Vec::new();
        for at in 0..count {
            starts.push(u32::try_from(targets.len()).unwrap_or(NEVER));
            // Edges lead to newer releases, so all edges into this release have been seen.
            if !reached[at] {
                continue;
            }
            let node = start + u32::try_from(at).unwrap_or_default();
            for edge in rules.table.outgoing(node).rev() {
                if edge.to <= target && rules.hurdle(edge, target).is_none() {
                    targets.push(edge.to - start);
                    reached[(edge.to - start) as usize] = true;
                }
            }
        }
        starts.push(u32::try_from(targets.len()).unwrap_or(NEVER));
        Self {
            start,
            target,
            starts,
            targets,
        }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn out(&self, at: usize) -> &[u32] {
        &self.targets[self.starts[at] as usize..self.starts[at + 1] as usize]
    }

    /// The best paths as lists of nodes, start and target included: fewest hops first, then the newest release at the
    /// first hop where they differ. At most `count` of them.
    pub(super) fn best(&self, count: usize) -> Vec<Vec<u32>> {
        let mut paths = Vec::new();
        let (fewest, most) = self.lengths();
        if fewest == NEVER || self.start > self.target {
            return paths;
        }
        // layers[l][v]: true when a path of exactly l hops leads from v to the target.
        let mut layers: Vec<Vec<bool>> = Vec::new();
        let mut first = vec![false; self.count()];
        if let Some(last) = first.last_mut() {
            *last = true;
        }
        layers.push(first);
        for length in 1..=most {
            if paths.len() >= count {
                break;
            }
            let Some(below) = layers.last() else { break };
            let layer = (0..self.count())
                .map(|at| self.out(at).iter().any(|&to| below[to as usize]))
                .collect();
            layers.push(layer);
            if length >= fewest {
                let mut walk = vec![0];
                self.walk(length as usize, &layers, &mut walk, &mut paths, count);
            }
        }
        paths
    }

    fn walk(
        &self,
        left: usize,
        layers: &[Vec<bool>],
        walk: &mut Vec<u32>,
        paths: &mut Vec<Vec<u32>>,
        count: usize,
    ) {
        let Some(&at) = walk.last() else { return };
        if !layers[left][at as usize] {
            return;
        }
        if left == 0 {
            paths.push(walk.iter().map(|&at| at + self.start).collect());
            return;
        }
        for &to in self.out(at as usize) {
            if paths.len() >= count {
                return;
            }
            walk.push(to);
            self.walk(left - 1, layers, walk, paths, count);
            walk.pop();
        }
    }

    /// The fewest and the most hops from the start to the target.
    fn lengths(&self) -> (u32, u32) {
        let count = self.count();
        let mut fewest = vec![NEVER; count];
        let mut most = vec![0_u32; count];
        fewest[count - 1] = 0;
        for at in (0..count - 1).rev() {
            for &to in self.out(at) {
                let to = to as usize;
                if fewest[to] != NEVER {
                    fewest[at] = fewest[at].min(fewest[to] + 1);
                    most[at] = most[at].max(most[to] + 1);
                }
            }
        }
        (fewest[0], most[0])
    }
}
