//! Edges: gathering what is declared, and deciding what becomes of each.

use std::collections::BTreeMap;

use super::nodes::{Merged, blocks_of};
use super::{Shared, risk_number};
use crate::graph::{Blocked, Edge, State};
use crate::graph_data::{Block, Effect};
use crate::metadata::{Metadata, key};
use crate::pattern::Pattern;
use crate::problem::{Problem, Rule};
use crate::version::{Arch, Version};

/// An edge as target and source in one number, so that sorting groups by target.
type Key = u64;

fn key_of(from: u32, to: u32) -> Key {
    (u64::from(to) << 32) | u64::from(from)
}

fn ends(key: Key) -> (u32, u32) {
    ((key & 0xffff_ffff) as u32, (key >> 32) as u32)
}

pub(super) struct Declared {
    /// Ascending, each once.
    pub edges: Vec<Key>,
    /// Edges with an end that is no release.
    pub dangling: Vec<(Version, Version)>,
}

struct Collector<'a> {
    nodes: &'a [Merged],
    arch: &'a Arch,
    edges: Vec<Key>,
    dangling: Vec<(Version, Version)>,
    problems: &'a mut Vec<Problem>,
}

impl Collector<'_> {
    fn find(&self, version: &Version) -> Option<u32> {
        let at = self
            .nodes
            .binary_search_by(|node| node.version.cmp(version))
            .ok()?;
        u32::try_from(at).ok()
    }

    fn push(&mut self, from: u32, to: u32) {
        if from < to {
            self.edges.push(key_of(from, to));
            return;
        }
        let (from, to) = (
            &self.nodes[from as usize].version,
            &self.nodes[to as usize].version,
        );
        let message = format!("{}: {from} -> {to} does not lead up and is dropped", self.arch);
        self.problems.push(Problem::new(Rule::EdgeDown, message));
    }

    fn incoming(&mut self, from: &Version, to: u32) {
        match self.find(from) {
            Some(from) => self.push(from, to),
            None => self
                .dangling
                .push((from.clone(), self.nodes[to as usize].version.clone())),
        }
    }

    fn outgoing(&mut self, from: u32, to: &Version) {
        match self.find(to) {
            Some(to) => self.push(from, to),
            None => self
                .dangling
                .push((self.nodes[from as usize].version.clone(), to.clone())),
        }
    }

    /// The versions in a value joined by `,`.
    fn versions(&mut self, at: u32, metadata: &Metadata, key: &str) -> Vec<Version> {
        let mut versions = Vec::new();
        if metadata.get(key).is_some() && metadata.get_str(key).is_none() {
            let message = format!(
                "{}: {key} is no string",
                self.nodes[at as usize].version.with_arch(self.arch)
            );
            self.problems
                .push(Problem::new(Rule::ReleaseMetadataValue, message));
        }
        for entry in super::inputs::listed(metadata, key) {
            match Version::parse(&entry) {
                Ok(version) => versions.push(version),
                Err(e) => {
                    let message = format!(
                        "{}: {key}: {e}",
                        self.nodes[at as usize].version.with_arch(self.arch)
                    );
                    self.problems.push(Problem::new(Rule::ReleaseVersion, message));
                }
            }
        }
        versions
    }
}

/// Everything that is declared for an architecture: by releases, by metadata that adds, by extra edges, by served graphs.
pub(super) fn declared(
    shared: &Shared<'_>,
    arch: &Arch,
    nodes: &[Merged],
    problems: &mut Vec<Problem>,
) -> Declared {
    let edges = Vec::with_capacity(
        nodes
            .iter()
            .map(|node| node.previous.len() + node.next.len())
            .sum(),
    );
    let mut collector = Collector {
        nodes,
        arch,
        edges,
        dangling: Vec::new(),
        problems,
    };
    for (at, node) in (0..).zip(nodes) {
        for from in &node.previous {
            collector.incoming(from, at);
        }
        for to in &node.next {
            collector.outgoing(at, to);
        }
        let raw = shared
            .version_id(&node.version)
            .map_or(&[][..], |id| &shared.raw[id as usize]);
        for metadata in node.rules.iter().chain(raw.iter().copied()) {
            for from in collector.versions(at, metadata, key::PREVIOUS_ADD) {
                collector.incoming(&from, at);
            }
            for to in collector.versions(at, metadata, key::NEXT_ADD) {
                collector.outgoing(at, &to);
            }
        }
    }
    for edge in shared
        .extra
        .iter()
        .filter(|edge| edge.arch.as_ref().is_none_or(|only| only == arch))
    {
        match (collector.find(&edge.from), collector.find(&edge.to)) {
            (Some(from), Some(to)) => collector.push(from, to),
            // For all architectures: this one need not have both.
            (from, to) if edge.arch.is_some() || from.is_some() || to.is_some() => {
                collector.dangling.push((edge.from.clone(), edge.to.clone()));
            }
            _ => {}
        }
    }
    served(shared, arch, &mut collector);
    let Collector {
        mut edges,
        mut dangling,
        ..
    } = collector;
    edges.sort_unstable();
    edges.dedup();
    dangling.sort_unstable();
    dangling.dedup();
    if let Some((from, to)) = dangling.first() {
        let message = format!(
            "{arch}: {} edges with an end that is no release, such as {from} -> {to}",
            dangling.len()
        );
        problems.push(Problem::new(Rule::EdgeUnknown, message));
    }
    Declared { edges, dangling }
}

fn served(shared: &Shared<'_>, arch: &Arch, collector: &mut Collector<'_>) {
    for served in shared.served {
        let conditional = served.conditional.iter().flat_map(|group| &group.edges);
        for &(from, to) in served.edges.iter().chain(conditional) {
            // Checked when it was read.
            let (from, to) = (&served.nodes[from as usize], &served.nodes[to as usize]);
            if from.arch != *arch {
                continue;
            }
            if to.arch != *arch {
                let message = format!(
                    "{} -> {} crosses architectures and is dropped",
                    from.version.with_arch(&from.arch),
                    to.version.with_arch(&to.arch)
                );
                collector.problems.push(Problem::new(Rule::EdgeUnknown, message));
                continue;
            }
            match (collector.find(&from.version), collector.find(&to.version)) {
                (Some(from), Some(to)) => collector.push(from, to),
                _ => collector
                    .dangling
                    .push((from.version.clone(), to.version.clone())),
            }
        }
    }
}

/// The risks that served graphs give for a pair; `None` among them if one cannot be read.
type Given = BTreeMap<Key, Vec<Option<u32>>>;

fn given(shared: &Shared<'_>, arch: &Arch, nodes: &[Merged]) -> Given {
    let find = |version: &Version| {
        let at = nodes.binary_search_by(|node| node.version.cmp(version)).ok()?;
        u32::try_from(at).ok()
    };
    let mut given = Given::new();
    for served in shared.served {
        for group in &served.conditional {
            let risks: Vec<Option<u32>> = match &group.risks {
                Some(risks) => risks
                    .iter()
                    .map(|risk| risk_number(&shared.risks, risk))
                    .collect(),
                None => vec![None],
            };
            for &(from, to) in &group.edges {
                let (from, to) = (&served.nodes[from as usize], &served.nodes[to as usize]);
                if from.arch != *arch || to.arch != *arch {
                    continue;
                }
                if let (Some(from), Some(to)) = (find(&from.version), find(&to.version)) {
                    given.entry(key_of(from, to)).or_default().extend(&risks);
                }
            }
        }
    }
    given
}

pub(super) struct Outcome {
    /// By (to, from).
    pub edges: Vec<Edge>,
    pub risk_sets: Vec<Box<[u32]>>,
}

/// Whether each distinct expression is found in each source; computed on first use.
struct Matches {
    /// `VERSION+ARCH` per node.
    names: Vec<String>,
    known: Vec<u8>,
}

impl Matches {
    fn found(&mut self, block: &Block, from: u32) -> bool {
        let Some(pattern) = &block.from else { return true };
        let at = block.pattern_id as usize * self.names.len() + from as usize;
        let Some(known) = self.known.get_mut(at) else {
            return true;
        };
        if *known == 0 {
            let name = self.names.get(from as usize).map_or("", String::as_str);
            *known = 1 + u8::from(pattern.found_in(name));
        }
        *known == 2
    }
}

/// What becomes of each declared edge.
pub(super) fn outcome(
    shared: &Shared<'_>,
    arch: &Arch,
    nodes: &[Merged],
    declared: &[Key],
    problems: &mut Vec<Problem>,
) -> Outcome {
    let given = given(shared, arch, nodes);
    let removals = Removals::new(shared, arch, nodes, problems);
    let mut matches = Matches {
        names: nodes.iter().map(|node| node.version.with_arch(arch)).collect(),
        known: vec![0; shared.data.patterns as usize * nodes.len()],
    };
    let mut sets = Sets::default();
    let mut edges = Vec::with_capacity(declared.len());
    for group in declared.chunk_by(|a, b| a >> 32 == b >> 32) {
        let Some((_, to)) = group.first().map(|&key| ends(key)) else {
            continue;
        };
        let version = shared.version_id(&nodes[to as usize].version).unwrap_or_default();
        let blocks = blocks_of(shared, version, arch);
        // Most sources of a target are hit by the same blocks.
        let mut seen: Vec<(Vec<u64>, State)> = Vec::new();
        let mut hits = vec![0_u64; blocks.len().div_ceil(64)];
        for &key in group {
            let (from, _) = ends(key);
            hits.fill(0);
            for (at, (_, block)) in blocks.iter().enumerate() {
                if matches.found(block, from) {
                    hits[at / 64] |= 1 << (at % 64);
                }
            }
            let risks = given.get(&key);
            let known = seen
                .iter()
                .find(|(mask, _)| *mask == hits)
                .filter(|_| risks.is_none());
            let mut state = if let Some((_, state)) = known {
                *state
            } else {
                let hit = blocks
                    .iter()
                    .enumerate()
                    .filter(|(at, _)| hits[at / 64] >> (at % 64) & 1 == 1);
                let state = decide(shared, hit.map(|(_, &block)| block), risks, &mut sets);
                if risks.is_none() {
                    seen.push((hits.clone(), state));
                }
                state
            };
            if state == State::Open && removals.concern(from, to, &matches.names[from as usize], nodes) {
                state = State::Blocked(Blocked::Metadata);
            }
            edges.push(Edge { to, from, state });
        }
    }
    Outcome {
        edges,
        risk_sets: sets.sets,
    }
}

/// Risks make an edge conditional; without any, a silent block removes it (`docs/design/update-graph.md#rules`). A broken
/// block removes it in any case, and so do risks that no client accepts together.
fn decide<'b>(
    shared: &Shared<'_>,
    hits: impl Iterator<Item = (u32, &'b Block)>,
    given: Option<&Vec<Option<u32>>>,
    sets: &mut Sets,
) -> State {
    let (mut risks, mut silent, mut broken) = (Vec::new(), false, false);
    for (number, block) in hits {
        match block.effect {
            Effect::Silent => silent = true,
            Effect::Broken => broken = true,
            Effect::Risk(_) => risks.extend(shared.block_risks[number as usize]),
        }
    }
    if broken {
        return State::Blocked(Blocked::GraphData);
    }
    for risk in given.into_iter().flatten() {
        match risk {
            Some(risk) => risks.push(*risk),
            None => return State::Blocked(Blocked::Risk),
        }
    }
    if risks.is_empty() {
        return if silent {
            State::Blocked(Blocked::GraphData)
        } else {
            State::Open
        };
    }
    risks.sort_unstable();
    risks.dedup();
    let risk = |number: u32| &shared.risks[number as usize];
    let conflict = |pair: &[u32]| {
        risk(pair[0]).name == risk(pair[1]).name
            && risk(pair[0]).matching_rules != risk(pair[1]).matching_rules
    };
    if risks.windows(2).any(conflict) {
        return State::Blocked(Blocked::Risk);
    }
    risks.dedup_by(|a, b| risk(*a).name == risk(*b).name);
    State::Conditional(sets.number(risks))
}

#[derive(Default)]
struct Sets {
    sets: Vec<Box<[u32]>>,
    numbers: BTreeMap<Box<[u32]>, u32>,
}

impl Sets {
    fn number(&mut self, risks: Vec<u32>) -> u32 {
        if let Some(&known) = self.numbers.get(risks.as_slice()) {
            return known;
        }
        let number = u32::try_from(self.sets.len()).unwrap_or(u32::MAX);
        let set: Box<[u32]> = risks.into();
        self.sets.push(set.clone());
        self.numbers.insert(set, number);
        number
    }
}

/// What release metadata removes.
#[derive(Default)]
struct Removals {
    by_target: BTreeMap<u32, Vec<Removal>>,
    by_source: BTreeMap<u32, Vec<Removal>>,
}

enum Removal {
    All,
    These(Vec<Version>),
    Found(Pattern),
}

impl Removals {
    fn new(shared: &Shared<'_>, arch: &Arch, nodes: &[Merged], problems: &mut Vec<Problem>) -> Self {
        let mut removals = Self::default();
        for (at, node) in (0..).zip(nodes) {
            let raw = shared
                .version_id(&node.version)
                .map_or(&[][..], |id| &shared.raw[id as usize]);
            for metadata in node.rules.iter().chain(raw.iter().copied()) {
                for key in [key::PREVIOUS_REMOVE, key::PREVIOUS_REMOVE_REGEX, key::NEXT_REMOVE] {
                    if metadata.get(key).is_none() {
                        continue;
                    }
                    let removal = Removal::read(metadata, key).unwrap_or_else(|reason| {
                        let name = node.version.with_arch(arch);
                        let message = format!("{name}: {key}: {reason}; all its edges are removed");
                        problems.push(Problem::new(Rule::ReleaseMetadataValue, message));
                        Removal::All
                    });
                    let of_source = key == key::NEXT_REMOVE;
                    let map = if of_source {
                        &mut removals.by_source
                    } else {
                        &mut removals.by_target
                    };
                    map.entry(at).or_default().push(removal);
                }
            }
        }
        removals
    }

    fn concern(&self, from: u32, to: u32, name: &str, nodes: &[Merged]) -> bool {
        let hit = |removals: &BTreeMap<u32, Vec<Removal>>, at: u32, other: u32| {
            removals.get(&at).is_some_and(|list| {
                list.iter().any(|removal| match removal {
                    Removal::All => true,
                    Removal::These(versions) => versions.contains(&nodes[other as usize].version),
                    Removal::Found(pattern) => pattern.found_in(name),
                })
            })
        };
        hit(&self.by_target, to, from) || hit(&self.by_source, from, to)
    }
}

impl Removal {
    /// Reads a value; one that cannot be read in full is an error, the caller then removes everything.
    fn read(metadata: &Metadata, key: &str) -> Result<Self, String> {
        let text = metadata.get_str(key).ok_or("no string")?;
        if key == key::PREVIOUS_REMOVE_REGEX {
            return Pattern::new(&text)
                .map(Self::Found)
                .map_err(|_| "no regular expression".to_owned());
        }
        if text.trim() == "*" {
            return Ok(Self::All);
        }
        let entries = super::inputs::listed(metadata, key);
        let versions: Result<Vec<_>, _> = entries.iter().map(|entry| Version::parse(entry)).collect();
        versions.map(Self::These).map_err(|e| e.to_string())
    }
}
