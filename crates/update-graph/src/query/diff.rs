//! Differences between two graphs: what a new snapshot changes.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::graph::{Edge, Graph, ReleaseRef, State, Table};
use crate::metadata::key;
use crate::version::{Arch, Version};

/// A release of an architecture.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ReleaseId {
    /// The architecture.
    pub arch: Arch,
    /// The version.
    pub version: Version,
}

/// What changed of a release that is in both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// Another image under the same version.
    Payload,
    /// Other metadata.
    Metadata,
    /// Other channels.
    Channels,
}

/// A release that is in both and not the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseChange {
    /// Which.
    #[serde(flatten)]
    pub release: ReleaseId,
    /// In what.
    pub changes: Vec<Change>,
    /// Channels it is new in.
    pub channels_added: Vec<String>,
    /// Channels it is gone from.
    pub channels_removed: Vec<String>,
}

/// What a graph says of an edge.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase", tag = "state", content = "risks")]
pub enum EdgeState {
    /// Nothing, or an end is missing.
    Absent,
    /// Declared, but not served.
    Blocked,
    /// Served with risks, by name.
    Conditional(Vec<String>),
    /// Served.
    Open,
}

/// An edge that is not the same in both.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EdgeChange {
    /// The architecture.
    pub arch: Arch,
    /// The start.
    pub from: Version,
    /// The end.
    pub to: Version,
    /// In the first graph.
    pub before: EdgeState,
    /// In the second graph.
    pub after: EdgeState,
}

/// All that differs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diff {
    /// Channels only in the second graph.
    pub channels_added: Vec<String>,
    /// Channels only in the first graph.
    pub channels_removed: Vec<String>,
    /// Releases only in the second graph.
    pub added: Vec<ReleaseId>,
    /// Releases only in the first graph.
    pub removed: Vec<ReleaseId>,
    /// Releases in both that changed.
    pub changed: Vec<ReleaseChange>,
    /// Edges that changed, those of added and removed releases included.
    pub edges: Vec<EdgeChange>,
    /// Risks whose text or rules changed, or that are new or gone, by name.
    pub risks: Vec<String>,
}

impl Diff {
    /// True when there is no difference.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares two graphs by what they serve: an edge that is blocked in one and absent in the other is no change. Lists are
/// in order: by architecture, then by version.
#[must_use]
pub fn diff(before: &Graph, after: &Graph) -> Diff {
    let mut diff = Diff::default();
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (before.channels().collect(), after.channels().collect());
    diff.channels_added = new.difference(&old).map(|&name| name.to_owned()).collect();
    diff.channels_removed = old.difference(&new).map(|&name| name.to_owned()).collect();
    let risks = |graph: &Graph| -> BTreeSet<_> { graph.risks.iter().cloned().collect() };
    let (old, new) = (risks(before), risks(after));
    let names: BTreeSet<_> = old
        .symmetric_difference(&new)
        .map(|risk| risk.name.to_string())
        .collect();
    diff.risks = names.into_iter().collect();
    let arches: BTreeSet<&Arch> = before.arches().chain(after.arches()).collect();
    for arch in arches {
        releases(before, after, arch, &mut diff);
        edges(before, after, arch, &mut diff);
    }
    diff
}

fn releases(before: &Graph, after: &Graph, arch: &Arch, diff: &mut Diff) {
    let by_version =
        |graph| -> BTreeMap<_, _> { Graph::releases(graph, arch).map(|r| (r.version(), r)).collect() };
    let (old, new): (BTreeMap<&Version, ReleaseRef<'_>>, BTreeMap<_, _>) =
        (by_version(before), by_version(after));
    let id = |version: &&Version| ReleaseId {
        arch: arch.clone(),
        version: (*version).clone(),
    };
    diff.added
        .extend(new.keys().filter(|version| !old.contains_key(*version)).map(id));
    diff.removed
        .extend(old.keys().filter(|version| !new.contains_key(*version)).map(id));
    for (version, a) in &old {
        let Some(b) = new.get(version) else { continue };
        let (was, is): (BTreeSet<_>, BTreeSet<_>) = (a.channels().collect(), b.channels().collect());
        let mut changes = Vec::new();
        if a.payload() != b.payload() {
            changes.push(Change::Payload);
        }
        if metadata(a) != metadata(b) {
            changes.push(Change::Metadata);
        }
        if was != is {
            changes.push(Change::Channels);
        }
        if !changes.is_empty() {
            diff.changed.push(ReleaseChange {
                release: id(version),
                changes,
                channels_added: is.difference(&was).map(|&name| name.to_owned()).collect(),
                channels_removed: was.difference(&is).map(|&name| name.to_owned()).collect(),
            });
        }
    }
}

/// Metadata less a `manifestref` that repeats the payload's digest: a served graph adds it, a release list need not.
fn metadata<'g>(release: &ReleaseRef<'g>) -> Vec<(&'g str, &'g str)> {
    let metadata = release.metadata();
    let repeats = metadata.get_str(key::MANIFESTREF).as_deref() == release.digest();
    let own = metadata.iter();
    own.filter(|(key, _)| !(repeats && *key == key::MANIFESTREF))
        .collect()
}

fn state(graph: &Graph, edge: Option<&Edge>) -> EdgeState {
    match edge.map(|edge| edge.state) {
        None => EdgeState::Absent,
        Some(State::Open) => EdgeState::Open,
        Some(State::Blocked(_)) => EdgeState::Blocked,
        Some(State::Conditional(set)) => {
            EdgeState::Conditional(graph.risks_of(set).map(|risk| risk.name.to_string()).collect())
        }
    }
}

/// Versions of one graph in the other's order: a key by which edges of both can be merged.
fn keyed<'g>(graph: &'g Graph, table: Option<&'g Table>) -> Vec<(&'g Version, &'g Version, Edge)> {
    let version = |table: &Table, node: u32| graph.version(table.node(node).version);
    let edges = table
        .into_iter()
        .flat_map(|table| table.edges().map(move |edge| (table, edge)));
    edges
        .map(|(table, edge)| (version(table, edge.to), version(table, edge.from), edge))
        .collect()
}

fn edges(before: &Graph, after: &Graph, arch: &Arch, diff: &mut Diff) {
    let old = keyed(before, before.table(arch));
    let new = keyed(after, after.table(arch));
    let (mut a, mut b) = (old.iter().peekable(), new.iter().peekable());
    // Both are by (to, from).
    while let Some(ends) = match (a.peek(), b.peek()) {
        (Some(a), Some(b)) => Some((a.0, a.1).min((b.0, b.1))),
        (Some(a), None) => Some((a.0, a.1)),
        (None, Some(b)) => Some((b.0, b.1)),
        (None, None) => None,
    } {
        let was = a.next_if(|edge| (edge.0, edge.1) == ends).map(|(.., edge)| edge);
        let is = b.next_if(|edge| (edge.0, edge.1) == ends).map(|(.., edge)| edge);
        let (before, after) = (state(before, was), state(after, is));
        let served = |state: &EdgeState| matches!(state, EdgeState::Open | EdgeState::Conditional(_));
        if before != after && (served(&before) || served(&after)) {
            let (to, from) = ends;
            diff.edges.push(EdgeChange {
                arch: arch.clone(),
                from: from.clone(),
                to: to.clone(),
                before,
                after,
            });
        }
    }
}
