//! The graph: every release of every architecture, every edge anybody declared, and what became of it. Immutable.

mod channels;
mod table;
mod view;

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use smol_str::SmolStr;

pub(crate) use channels::Channels;
pub use table::Blocked;
pub(crate) use table::{Edge, Node, State, Table};
pub use view::View;

use crate::graph_data::Block;
use crate::metadata::{Metadata, key};
use crate::risk::Risk;
use crate::version::{Arch, Version};

/// All releases and edges. Built by [`crate::Builder`], never changed; a policy makes another one, which shares what is
/// equal.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    /// Distinct versions over all architectures, in order; a node holds an index.
    pub(crate) versions: Arc<[Version]>,
    pub(crate) channels: Arc<Channels>,
    /// Distinct risks, by name.
    pub(crate) risks: Arc<[Arc<Risk>]>,
    /// Distinct sets of risks, each ascending; `State::Conditional` holds an index.
    pub(crate) risk_sets: Arc<[Box<[u32]>]>,
    /// The blocks of graph-data, for explanations.
    pub(crate) blocks: Arc<[Block]>,
    /// By architecture.
    pub(crate) tables: Vec<Arc<Table>>,
}

/// A release of a graph.
#[derive(Debug, Clone, Copy)]
pub struct ReleaseRef<'g> {
    pub(crate) graph: &'g Graph,
    pub(crate) table: &'g Table,
    pub(crate) node: u32,
}

impl<'g> ReleaseRef<'g> {
    fn data(&self) -> &'g Node {
        self.table.node(self.node)
    }

    /// The version.
    #[must_use]
    pub fn version(&self) -> &'g Version {
        self.graph.version(self.data().version)
    }

    /// The architecture.
    #[must_use]
    pub fn arch(&self) -> &'g Arch {
        &self.table.arch
    }

    /// The image by digest.
    #[must_use]
    pub fn payload(&self) -> &'g str {
        &self.data().payload
    }

    /// The digest of the image, `sha256:…`, if the payload names one.
    #[must_use]
    pub fn digest(&self) -> Option<&'g str> {
        digest_of(self.payload())
    }

    /// The errata page.
    #[must_use]
    pub fn url(&self) -> Option<Cow<'g, str>> {
        self.data()
            .metadata
            .get_str(key::URL)
            .filter(|url| !url.is_empty())
    }

    /// The image's own metadata and what graph-data adds to it.
    #[must_use]
    pub fn metadata(&self) -> &'g Metadata {
        &self.data().metadata
    }

    /// The channels, in the order they are served in.
    pub fn channels(&self) -> impl Iterator<Item = &'g str> + use<'g> {
        let graph = self.graph;
        graph
            .channels
            .set(self.data().channels)
            .ids
            .iter()
            .map(|&id| graph.channels.name(id))
    }
}

/// The part of a payload behind `@`.
pub(crate) fn digest_of(payload: &str) -> Option<&str> {
    payload.rsplit_once('@').map(|(_, digest)| digest)
}

/// How large a graph is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Releases.
    pub releases: usize,
    /// Edges without condition.
    pub edges: usize,
    /// Edges with risks.
    pub conditional_edges: usize,
    /// Edges that are not served.
    pub blocked_edges: usize,
}

impl Graph {
    /// The architectures, by name.
    pub fn arches(&self) -> impl Iterator<Item = &Arch> {
        self.tables.iter().map(|table| &table.arch)
    }

    /// Every channel of graph-data and of the releases, in the order they are served in.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.names.iter().map(SmolStr::as_str)
    }

    /// The distinct risks, by name.
    pub fn risks(&self) -> impl Iterator<Item = &Risk> {
        self.risks.iter().map(AsRef::as_ref)
    }

    /// The releases of an architecture, by version.
    pub fn releases(&self, arch: &Arch) -> impl Iterator<Item = ReleaseRef<'_>> {
        let table = self.table(arch);
        let nodes = table.map_or(0, Table::len);
        (0..nodes).filter_map(move |node| {
            table.map(|table| ReleaseRef {
                graph: self,
                table,
                node,
            })
        })
    }

    /// One release.
    #[must_use]
    pub fn release(&self, arch: &Arch, version: &Version) -> Option<ReleaseRef<'_>> {
        let table = self.table(arch)?;
        let node = self.node_of(table, version)?;
        Some(ReleaseRef {
            graph: self,
            table,
            node,
        })
    }

    /// How many releases and edges an architecture has, or all of them together.
    #[must_use]
    pub fn counts(&self, arch: Option<&Arch>) -> Counts {
        let mut counts = Counts::default();
        for table in self
            .tables
            .iter()
            .filter(|table| arch.is_none_or(|arch| table.arch == *arch))
        {
            counts.releases += table.nodes.len();
            for edge in table.edges() {
                match edge.state {
                    State::Open => counts.edges += 1,
                    State::Conditional(_) => counts.conditional_edges += 1,
                    State::Blocked(_) => counts.blocked_edges += 1,
                }
            }
        }
        counts
    }

    /// What is served for a channel and an architecture; with no channel, all releases of the architecture.
    #[must_use]
    pub fn view<'g>(&'g self, channel: Option<&str>, arch: &Arch) -> View<'g> {
        View::new(self, channel, arch)
    }

    pub(crate) fn version(&self, id: u32) -> &Version {
        // The builder makes ids together with the table that they index.
        &self.versions[id as usize]
    }

    pub(crate) fn table(&self, arch: &Arch) -> Option<&Table> {
        let at = self.tables.binary_search_by(|table| table.arch.cmp(arch)).ok()?;
        self.tables.get(at).map(AsRef::as_ref)
    }

    pub(crate) fn node_of(&self, table: &Table, version: &Version) -> Option<u32> {
        let id = u32::try_from(self.versions.binary_search(version).ok()?).ok()?;
        table.node_of(id)
    }

    pub(crate) fn risks_of(&self, set: u32) -> impl Iterator<Item = &Arc<Risk>> {
        self.risk_sets[set as usize]
            .iter()
            .map(|&risk| &self.risks[risk as usize])
    }

    /// The blocks that cover a target, by file.
    pub(crate) fn blocks_of<'g>(
        &'g self,
        to: &'g Version,
        arch: &'g Arch,
    ) -> impl Iterator<Item = &'g Block> {
        self.blocks
            .iter()
            .filter(move |b| b.to == *to && b.arch.as_ref().is_none_or(|a| a == arch))
    }
}
