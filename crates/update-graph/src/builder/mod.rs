//! The builder: several inputs become one graph. Equal input gives an equal graph, in whatever order it is given.

mod edges;
mod inputs;
mod nodes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::graph::{Channels, Edge, Graph, State, Table};
use crate::graph_data::{Effect, GraphData};
use crate::metadata::Metadata;
use crate::problem::{Problem, Rule};
use crate::release::{ExtraEdge, Release, ReleaseList};
use crate::risk::Risk;
use crate::v1::Served;
use crate::version::{Arch, Version};

use inputs::Inputs;

/// Collects inputs.
#[derive(Debug, Clone)]
pub struct Builder {
    releases: Vec<Release>,
    extra: Vec<ExtraEdge>,
    served: Vec<Served>,
    data: Arc<GraphData>,
    threads: usize,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            releases: Vec::new(),
            extra: Vec::new(),
            served: Vec::new(),
            data: Arc::default(),
            threads: 1,
        }
    }

    /// Adds releases of a scrape.
    #[must_use]
    pub fn releases(mut self, releases: impl IntoIterator<Item = Release>) -> Self {
        self.releases.extend(releases);
        self
    }

    /// Adds edges besides those that releases declare.
    #[must_use]
    pub fn extra_edges(mut self, edges: impl IntoIterator<Item = ExtraEdge>) -> Self {
        self.extra.extend(edges);
        self
    }

    /// Adds a release list file.
    #[must_use]
    pub fn list(self, list: ReleaseList) -> Self {
        self.releases(list.releases).extra_edges(list.extra)
    }

    /// Adds a graph that another service serves. Its edges are taken as they are: what its metadata adds or removes has
    /// been added and removed.
    #[must_use]
    pub fn served(mut self, served: Served) -> Self {
        self.served.push(served);
        self
    }

    /// Sets the channels and blocked edges. Those of a served graph stay besides.
    #[must_use]
    pub fn graph_data(mut self, data: Arc<GraphData>) -> Self {
        self.data = data;
        self
    }

    /// How many threads may work, one architecture each; 1 if not set.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Builds the graph. Wrong input is left out and reported; it does not affect the rest.
    #[must_use]
    pub fn build(self) -> (Graph, Vec<Problem>) {
        let mut problems = Vec::new();
        for served in &self.served {
            problems.extend(served.problems.iter().cloned());
        }
        let inputs = Inputs::gather(self.releases, &self.served, &mut problems);
        let shared = Shared::new(&self.data, &inputs, &self.served, self.extra);
        let jobs: Vec<_> = inputs.arches.into_iter().collect();
        let parts = in_threads(jobs, self.threads, |(arch, input)| part(&shared, arch, input));
        merge(&shared, parts, problems)
    }
}

/// What all architectures share while they are built.
struct Shared<'a> {
    data: &'a GraphData,
    served: &'a [Served],
    versions: Arc<[Version]>,
    risks: Arc<[Arc<Risk>]>,
    /// Per block, the number of its risk.
    block_risks: Vec<Option<u32>>,
    /// Per version, the blocks of it, by file.
    blocks: Vec<Vec<u32>>,
    /// Per version, what graph-data adds to its metadata.
    raw: Vec<Vec<&'a Metadata>>,
    channels: Channels,
    /// Per version, its channels.
    in_channels: Vec<Vec<(Option<&'a Arch>, u32)>>,
    extra: Vec<ExtraEdge>,
}

impl<'a> Shared<'a> {
    fn new(data: &'a GraphData, inputs: &Inputs, served: &'a [Served], mut extra: Vec<ExtraEdge>) -> Self {
        extra.sort();
        extra.dedup();
        let versions = inputs.versions();
        let id = |version: &Version| versions.binary_search(version).ok();
        let mut blocks = vec![Vec::new(); versions.len()];
        for (number, block) in (0..).zip(data.blocks.iter()) {
            if let Some(at) = id(&block.to) {
                blocks[at].push(number);
            }
        }
        let mut raw = vec![Vec::new(); versions.len()];
        for (version, metadata) in &data.raw {
            if let Some(at) = id(version) {
                raw[at].push(metadata);
            }
        }
        let names = data
            .channels
            .iter()
            .map(|channel| channel.name.clone())
            .chain(inputs.channel_names());
        let channels = Channels::new(names.collect());
        let mut in_channels = vec![Vec::new(); versions.len()];
        for channel in &data.channels {
            let Some(number) = channels.id(&channel.name) else {
                continue;
            };
            for entry in &channel.entries {
                if let Some(at) = id(&entry.version) {
                    in_channels[at].push((entry.arch.as_ref(), number));
                }
            }
        }
        let risks = risks(data, served);
        let block_risks = data
            .blocks
            .iter()
            .map(|block| match &block.effect {
                Effect::Risk(risk) => risk_number(&risks, risk),
                Effect::Silent | Effect::Broken => None,
            })
            .collect();
        Self {
            data,
            served,
            versions: versions.into(),
            risks,
            block_risks,
            blocks,
            raw,
            channels,
            in_channels,
            extra,
        }
    }

    fn version_id(&self, version: &Version) -> Option<u32> {
        self.versions
            .binary_search(version)
            .ok()
            .and_then(|at| u32::try_from(at).ok())
    }
}

/// Risks are numbered by name; those of one name with different texts are adjacent.
fn risk_order(a: &Risk, b: &Risk) -> std::cmp::Ordering {
    a.name.cmp(&b.name).then_with(|| a.cmp(b))
}

fn risks(data: &GraphData, served: &[Served]) -> Arc<[Arc<Risk>]> {
    let mut risks: Vec<Arc<Risk>> = Vec::new();
    for block in data.blocks.iter() {
        if let Effect::Risk(risk) = &block.effect {
            risks.push(Arc::clone(risk));
        }
    }
    // Most blocks share theirs, so pointers are compared before texts.
    risks.sort_by_key(Arc::as_ptr);
    risks.dedup_by(|a, b| Arc::ptr_eq(a, b));
    for group in served.iter().flat_map(|served| &served.conditional) {
        risks.extend(group.risks.iter().flatten().cloned());
    }
    risks.sort_by(|a, b| risk_order(a, b));
    risks.dedup();
    risks.into()
}

fn risk_number(risks: &[Arc<Risk>], risk: &Risk) -> Option<u32> {
    risks
        .binary_search_by(|known| risk_order(known, risk))
        .ok()
        .and_then(|at| u32::try_from(at).ok())
}

/// One architecture. Sets of channels and risks are numbered per architecture.
struct Part {
    arch: Arch,
    nodes: Vec<nodes::Draft>,
    edges: Vec<Edge>,
    risk_sets: Vec<Box<[u32]>>,
    dangling: Vec<(Version, Version)>,
    problems: Vec<Problem>,
}

fn part(shared: &Shared<'_>, arch: Arch, inputs: Vec<inputs::Input>) -> Part {
    let mut problems = Vec::new();
    let merged = nodes::merge(inputs, &arch, &mut problems);
    let declared = edges::declared(shared, &arch, &merged, &mut problems);
    let outcome = edges::outcome(shared, &arch, &merged, &declared.edges, &mut problems);
    let nodes = merged
        .into_iter()
        .map(|node| nodes::draft(shared, &arch, node))
        .collect();
    Part {
        arch,
        nodes,
        edges: outcome.edges,
        risk_sets: outcome.risk_sets,
        dangling: declared.dangling,
        problems,
    }
}

fn merge(shared: &Shared<'_>, parts: Vec<Part>, mut problems: Vec<Problem>) -> (Graph, Vec<Problem>) {
    let mut channels = shared.channels.clone();
    // Sets are numbered in the order of their members, not in that of the input.
    let channel_sets: BTreeSet<&Vec<u32>> =
        parts.iter().flat_map(|p| &p.nodes).map(|n| &n.channels).collect();
    for set in channel_sets {
        channels.intern(set);
    }
    let risk_sets: BTreeSet<Box<[u32]>> = parts.iter().flat_map(|p| p.risk_sets.iter().cloned()).collect();
    let numbers: BTreeMap<&[u32], u32> = risk_sets.iter().map(AsRef::as_ref).zip(0..).collect();
    let mut tables = Vec::with_capacity(parts.len());
    for mut part in parts {
        let renumbered: Vec<u32> = part
            .risk_sets
            .iter()
            .map(|set| numbers.get(set.as_ref()).copied().unwrap_or_default())
            .collect();
        for edge in &mut part.edges {
            if let State::Conditional(set) = edge.state {
                edge.state = State::Conditional(renumbered[set as usize]);
            }
        }
        let nodes: Vec<_> = part
            .nodes
            .into_iter()
            .map(|node| node.finish(&mut channels))
            .collect();
        let mut table = Table::new(part.arch, nodes, &part.edges);
        table.dangling = part.dangling.into();
        problems.append(&mut part.problems);
        problems.extend(disconnected(shared, &table));
        tables.push(Arc::new(table));
    }
    problems.sort();
    problems.dedup();
    let graph = Graph {
        versions: Arc::clone(&shared.versions),
        channels: Arc::new(channels),
        risks: Arc::clone(&shared.risks),
        risk_sets: risk_sets.into_iter().collect(),
        blocks: Arc::clone(&shared.data.blocks),
        tables,
    };
    (graph, problems)
}

/// Reports the parts of an architecture that no served edge connects.
fn disconnected(shared: &Shared<'_>, table: &Table) -> Option<Problem> {
    fn root(parents: &mut [u32], mut node: u32) -> u32 {
        while parents[node as usize] != node {
            let next = parents[node as usize];
            parents[node as usize] = parents[next as usize];
            node = next;
        }
        node
    }
    let mut parents: Vec<u32> = (0..table.len()).collect();
    for edge in table
        .edges()
        .filter(|edge| !matches!(edge.state, State::Blocked(_)))
    {
        let (a, b) = (root(&mut parents, edge.from), root(&mut parents, edge.to));
        parents[a.max(b) as usize] = a.min(b);
    }
    let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
    for node in 0..table.len() {
        *sizes.entry(root(&mut parents, node)).or_default() += 1;
    }
    if sizes.len() < 2 {
        return None;
    }
    let mut parts: Vec<_> = sizes.into_iter().map(|(node, size)| (size, node)).collect();
    parts.sort_unstable();
    let named: Vec<String> = parts
        .iter()
        .take(5)
        .map(|(size, node)| {
            format!(
                "{size} from {}",
                shared.versions[table.node(*node).version as usize]
            )
        })
        .collect();
    let message = format!(
        "{}: {} parts without connection; the smallest: {}",
        table.arch,
        parts.len(),
        named.join(", ")
    );
    Some(Problem::new(Rule::Disconnected, message))
}

/// Does the jobs in their order on several threads; the results keep the order.
fn in_threads<J: Send, R: Send>(jobs: Vec<J>, threads: usize, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let threads = threads.clamp(1, jobs.len().max(1));
    if threads == 1 {
        return jobs.into_iter().map(work).collect();
    }
    let queue = std::sync::Mutex::new(jobs.into_iter().enumerate());
    let take = || {
        queue
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .next()
    };
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let worker = || {
            let mut done = Vec::new();
            while let Some((at, job)) = take() {
                done.push((at, work(job)));
            }
            done
        };
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(worker)).collect();
        let mut done = worker();
        for other in others {
            // A panic of another thread is this one's.
            done.extend(
                other
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests;
