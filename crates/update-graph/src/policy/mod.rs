//! Policies: what a site changes in the graph it serves, as a chain in configuration. Each is a pure function of a graph.

mod workbench;

use serde::{Deserialize, Serialize};

use crate::graph::{Blocked, Edge, Graph, State};
use crate::metadata::key;
use crate::pattern::Pattern;
use crate::problem::{Problem, Rule};
use crate::query::preference;
use crate::release::ExtraEdge;
use crate::version::{Arch, Version};

use workbench::{Draft, Workbench};

/// One policy. In configuration a mapping with its name under `policy`:
///
/// ```yaml
/// - policy: channel-filter
///   channels: [stable, eus-4.16]
/// - policy: node-remove
///   versions: [4.16.3]
///   regex: ^4[.]12[.]
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "policy", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Policy {
    /// Only these channels exist, each given by name or by the part before the first `-`. Releases only in other channels are removed.
    ChannelFilter {
        /// The channels that stay.
        channels: Vec<String>,
    },
    /// Only these architectures exist.
    ArchFilter {
        /// The architectures that stay.
        arches: Vec<Arch>,
    },
    /// Releases go, with their edges.
    NodeRemove {
        /// These releases, of all architectures.
        #[serde(default)]
        versions: Vec<Version>,
        /// Those in whose `VERSION+ARCH` this is found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        regex: Option<Pattern>,
        /// Those whose metadata says `release.remove`.
        #[serde(default)]
        marked: bool,
    },
    /// Edges are added. What graph-data or metadata blocks stays blocked, what graph-data makes conditional is
    /// conditional.
    EdgeAdd {
        /// The edges; without architecture for every one that has both ends.
        edges: Vec<ExtraEdge>,
    },
    /// Edges are removed, conditional ones as well.
    EdgeRemove {
        /// These edges; without architecture for all.
        #[serde(default)]
        edges: Vec<ExtraEdge>,
        /// All edges in whose `VERSION+ARCH` of the start this is found.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Pattern>,
        /// All edges in whose `VERSION+ARCH` of the end this is found; with `from`, those of which both hold.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Pattern>,
    },
    /// A request that names its version is answered with what that version can reach, and nothing else.
    Slim,
}

/// Policies in the order they are applied.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Chain(pub Vec<Policy>);

impl Chain {
    /// True when the chain slims answers. The graph stays complete; [`crate::View::reachable_from`] does it per request.
    #[must_use]
    pub fn slims(&self) -> bool {
        self.0.contains(&Policy::Slim)
    }

    /// Applies the policies in order. Entries that concern nothing are reported.
    #[must_use]
    pub fn apply(&self, graph: Graph) -> (Graph, Vec<Problem>) {
        if self.0.iter().all(|policy| *policy == Policy::Slim) {
            return (graph, Vec::new());
        }
        let mut problems = Vec::new();
        let mut bench = Workbench::new(graph);
        for policy in &self.0 {
            apply(policy, &mut bench, &mut problems);
        }
        problems.sort();
        problems.dedup();
        (bench.finish(), problems)
    }
}

fn apply(policy: &Policy, bench: &mut Workbench, problems: &mut Vec<Problem>) {
    match policy {
        Policy::Slim => {}
        Policy::ArchFilter { arches } => {
            for arch in arches
                .iter()
                .filter(|arch| !bench.tables.iter().any(|table| table.arch == **arch))
            {
                let message = format!("arch-filter: no release for {arch} is known");
                problems.push(Problem::new(Rule::PolicyUnmatched, message));
            }
            bench.tables.retain(|table| arches.contains(&table.arch));
        }
        Policy::ChannelFilter { channels } => {
            for wanted in channels {
                let one = std::slice::from_ref(wanted);
                if !bench.graph.channels().any(|name| preference(one, name).is_some()) {
                    let message = format!("channel-filter: no channel is {wanted}");
                    problems.push(Problem::new(Rule::PolicyUnmatched, message));
                }
            }
            bench.keep_channels(|name| {
                channels
                    .iter()
                    .any(|c| preference(std::slice::from_ref(c), name).is_some())
            });
        }
        Policy::NodeRemove {
            versions,
            regex,
            marked,
        } => {
            for version in versions.iter().filter(|version| !bench.holds(version)) {
                let message = format!("node-remove: release {version} is not known");
                problems.push(Problem::new(Rule::PolicyUnmatched, message));
            }
            bench.remove_nodes(|version, arch, node| {
                versions.contains(version)
                    || regex
                        .as_ref()
                        .is_some_and(|regex| regex.found_in(&version.with_arch(arch)))
                    || (*marked && node.metadata.is_true(key::REMOVE))
            });
        }
        Policy::EdgeAdd { edges } => {
            for edge in edges {
                add(bench, edge, problems);
            }
        }
        Policy::EdgeRemove { edges, from, to } => remove(bench, edges, from.as_ref(), to.as_ref(), problems),
    }
}

fn concerned(edge: &ExtraEdge, arch: &Arch) -> bool {
    edge.arch.as_ref().is_none_or(|only| only == arch)
}

fn add(bench: &mut Workbench, edge: &ExtraEdge, problems: &mut Vec<Problem>) {
    let name = format!("{} -> {}", edge.from, edge.to);
    let mut matched = false;
    for at in 0..bench.tables.len() {
        let arch = bench.tables[at].arch.clone();
        if !concerned(edge, &arch) {
            continue;
        }
        let Some((from, to)) = bench.node(at, &edge.from).zip(bench.node(at, &edge.to)) else {
            continue;
        };
        matched = true;
        if from >= to {
            let message = format!("edge-add: {name} does not lead up and is dropped");
            problems.push(Problem::new(Rule::EdgeDown, message));
            continue;
        }
        let known = bench.tables[at]
            .find(from, to)
            .map(|place| bench.tables[at].edges[place].state);
        let state = known.unwrap_or_else(|| {
            let state = bench.judge(at, from, to);
            bench.tables[at].insert(Edge { to, from, state });
            state
        });
        if matches!(state, State::Blocked(_)) {
            let message = format!("edge-add: {name} is blocked for {arch} and stays so");
            problems.push(Problem::new(Rule::PolicyBlocked, message));
        }
    }
    if !matched {
        let message = format!("edge-add: {name}: no architecture has both releases");
        problems.push(Problem::new(Rule::PolicyUnmatched, message));
    }
}

fn remove(
    bench: &mut Workbench,
    edges: &[ExtraEdge],
    from: Option<&Pattern>,
    to: Option<&Pattern>,
    problems: &mut Vec<Problem>,
) {
    const REMOVED: State = State::Blocked(Blocked::Policy);
    for edge in edges {
        let mut matched = false;
        for at in 0..bench.tables.len() {
            if !concerned(edge, &bench.tables[at].arch) {
                continue;
            }
            let ends = bench.node(at, &edge.from).zip(bench.node(at, &edge.to));
            let table = &mut bench.tables[at];
            if let Some(place) = ends.and_then(|(from, to)| table.find(from, to)) {
                table.edges[place].state = REMOVED;
                matched = true;
            }
        }
        if !matched {
            let message = format!("edge-remove: there is no {} -> {}", edge.from, edge.to);
            problems.push(Problem::new(Rule::PolicyUnmatched, message));
        }
    }
    if from.is_none() && to.is_none() {
        return;
    }
    let graph = &bench.graph;
    for Draft {
        arch, nodes, edges, ..
    } in &mut bench.tables
    {
        let found = |pattern: Option<&Pattern>| -> Vec<bool> {
            let name = |node: &crate::graph::Node| graph.version(node.version).with_arch(arch);
            nodes
                .iter()
                .map(|node| pattern.is_none_or(|pattern| pattern.found_in(&name(node))))
                .collect()
        };
        let (starts, ends) = (found(from), found(to));
        for edge in edges
            .iter_mut()
            .filter(|edge| starts[edge.from as usize] && ends[edge.to as usize])
        {
            edge.state = REMOVED;
        }
    }
}

#[cfg(test)]
mod tests;
