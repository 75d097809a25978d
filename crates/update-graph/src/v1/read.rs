//! Reading what another service serves: its own graph or a filtered one, of this program, of upstream, or of old.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use smol_str::SmolStr;

use crate::metadata::{Metadata, key};
use crate::problem::{Problem, Rule};
use crate::risk::{Risk, RiskFields};
use crate::version::{Arch, Version, VersionError};

/// Why a graph was not read. It is refused as a whole: half a graph is a wrong one.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Broken compression, or too large.
    #[error("graph: {0}")]
    Unpack(String),
    /// No JSON, a field missing or twice, a value of another type.
    #[error("graph: {0}")]
    Json(#[from] serde_json::Error),
    /// A node with an invalid version.
    #[error("graph: node: {0}")]
    Version(#[from] VersionError),
    /// Two nodes of one version and architecture.
    #[error("graph: two nodes of version {0}")]
    Duplicate(String),
    /// An edge between nodes that do not exist.
    #[error("graph: edge [{0}, {1}] with {2} nodes")]
    Index(u32, u32, usize),
}

/// A graph as it was served.
#[derive(Debug, Clone, Default)]
pub struct Served {
    pub(crate) nodes: Vec<ServedNode>,
    /// Pairs of indices.
    pub(crate) edges: Vec<(u32, u32)>,
    pub(crate) conditional: Vec<ServedConditional>,
    /// What was found besides: pairs named twice, ends that are no node, risks that cannot be read.
    pub problems: Vec<Problem>,
}

#[derive(Debug, Clone)]
pub(crate) struct ServedNode {
    pub version: Version,
    pub arch: Arch,
    /// `None` for an abstract node.
    pub payload: Option<SmolStr>,
    pub metadata: Metadata,
}

#[derive(Debug, Clone)]
pub(crate) struct ServedConditional {
    /// Pairs of indices.
    pub edges: Vec<(u32, u32)>,
    /// `None` if they cannot be read: the edges are then blocked.
    pub risks: Option<Vec<Arc<Risk>>>,
}

#[derive(Deserialize)]
struct Document {
    nodes: Vec<NodeDocument>,
    edges: Vec<(u32, u32)>,
    #[serde(rename = "conditionalEdges", default)]
    conditional: Option<Vec<Group>>,
}

#[derive(Deserialize)]
struct NodeDocument {
    version: String,
    #[serde(default)]
    payload: Option<SmolStr>,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Group {
    edges: Vec<Pair>,
    /// `qualifiers` in an early draft of the protocol.
    #[serde(alias = "qualifiers", default)]
    risks: Vec<MaybeRisk>,
}

#[derive(Deserialize)]
struct Pair {
    from: String,
    to: String,
}

/// A risk, or `None` if it is not whole: that concerns its edges, not the graph.
struct MaybeRisk(Option<Risk>);

impl<'de> Deserialize<'de> for MaybeRisk {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Mapping;
        impl<'de> Visitor<'de> for Mapping {
            type Value = MaybeRisk;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a risk")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MaybeRisk, A::Error> {
                let mut fields = RiskFields::default();
                while let Some(key) = map.next_key::<String>()? {
                    if !fields.take(&key, &mut map)? {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(MaybeRisk(fields.whole()))
            }
        }
        deserializer.deserialize_map(Mapping)
    }
}

impl Served {
    /// Reads a served graph, plain or gzip; `default_arch` is the one that a filtered graph was asked for.
    ///
    /// Clients cope with a pair that is conditional and not (older captures have them: conditional wins), with conditional
    /// edges missing altogether, with the draft's field names, and with unknown fields; so does this. It is as strict as
    /// upstream on what must be there, on fields twice, and on versions.
    ///
    /// # Errors
    /// [`ReadError`]; the whole graph is refused.
    pub fn parse(bytes: &[u8], default_arch: &Arch) -> Result<Self, ReadError> {
        let plain = crate::unpack::gunzip(bytes).map_err(|e| ReadError::Unpack(e.to_string()))?;
        let document: Document = serde_json::from_slice(&plain)?;
        let mut served = Self::default();
        let mut index: BTreeMap<(Version, Arch), u32> = BTreeMap::new();
        for (at, node) in (0..).zip(document.nodes) {
            let node = node_of(node, default_arch)?;
            let identity = (node.version.clone(), node.arch.clone());
            if index.insert(identity, at).is_some() {
                return Err(ReadError::Duplicate(node.version.with_arch(&node.arch)));
            }
            served.nodes.push(node);
        }
        for &(from, to) in &document.edges {
            if from.max(to) as usize >= served.nodes.len() {
                return Err(ReadError::Index(from, to, served.nodes.len()));
            }
        }
        served.edges = document.edges;
        served.edges.sort_unstable();
        let before = served.edges.len();
        served.edges.dedup();
        if served.edges.len() < before {
            let message = format!("{} pairs in `edges` more than once", before - served.edges.len());
            served.problems.push(Problem::new(Rule::EdgeDuplicate, message));
        }
        for group in document.conditional.unwrap_or_default() {
            served.conditional_group(group, &index, default_arch);
        }
        Ok(served)
    }

    fn conditional_group(
        &mut self,
        group: Group,
        index: &BTreeMap<(Version, Arch), u32>,
        default_arch: &Arch,
    ) {
        let find = |text: &str| {
            let (version, arch) = Version::split(text).ok()?;
            index
                .get(&(version, arch.unwrap_or_else(|| default_arch.clone())))
                .copied()
        };
        let mut edges = Vec::with_capacity(group.edges.len());
        for pair in group.edges {
            if let Some(ends) = find(&pair.from).zip(find(&pair.to)) {
                edges.push(ends);
            } else {
                let message = format!("conditional edge {} -> {}: no such node", pair.from, pair.to);
                self.problems.push(Problem::new(Rule::EdgeUnknown, message));
            }
        }
        let risks: Option<Vec<_>> = group
            .risks
            .into_iter()
            .map(|MaybeRisk(risk)| risk.map(Arc::new))
            .collect();
        let risks = risks.filter(|risks| !risks.is_empty());
        if risks.is_none() {
            let message = format!(
                "{} conditional edges without readable risk are blocked",
                edges.len()
            );
            self.problems.push(Problem::new(Rule::RiskRules, message));
        }
        self.conditional.push(ServedConditional { edges, risks });
    }
}

/// The version and the architecture of a node: its build, else what its metadata says, else `default_arch`.
///
/// # Errors
/// [`VersionError`] when the text is no semantic version.
pub fn version_of(
    text: &str,
    metadata: &Metadata,
    default_arch: &Arch,
) -> Result<(Version, Arch), VersionError> {
    let (version, build) = Version::split(text)?;
    let arch = build.or_else(|| arch_in(metadata));
    Ok((version, arch.unwrap_or_else(|| default_arch.clone())))
}

fn arch_in(metadata: &Metadata) -> Option<Arch> {
    Arch::parse(&metadata.get_str(key::ARCH)?).ok()
}

fn node_of(mut node: NodeDocument, default_arch: &Arch) -> Result<ServedNode, ReadError> {
    let (version, arch) = version_of(&node.version, &node.metadata, default_arch)?;
    if arch_in(&node.metadata).is_some() {
        node.metadata.remove(key::ARCH);
    }
    Ok(ServedNode {
        version,
        arch,
        payload: node.payload,
        metadata: node.metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Served, ReadError> {
        Served::parse(text.as_bytes(), &Arch::amd64())
    }

    #[test]
    fn what_must_be_there_is_demanded() {
        for text in [
            "",
            "{}",
            r#"{"nodes":[]}"#,
            r#"{"edges":[]}"#,
            r#"{"nodes":[],"nodes":[],"edges":[]}"#,
            r#"{"nodes":[{"version":""}],"edges":[]}"#,
            r#"{"nodes":[{"version":"4.1.0","version":"4.1.0"}],"edges":[]}"#,
            r#"{"nodes":[{"version":"4.1.0"},{"version":"4.1.0"}],"edges":[]}"#,
            r#"{"nodes":[{"version":"4.1.0"},{"version":"4.1.0+amd64"}],"edges":[]}"#,
            r#"{"nodes":[{"version":"4.1.0"}],"edges":[[0,1]]}"#,
            r#"{"nodes":[{"version":"4.1.0"}],"edges":[[0]]}"#,
            r#"{"nodes":[{"version":"4.1.0"}],"edges":[[0,-1]]}"#,
            r#"{"nodes":[{"version":"4.1.0"}],"edges":[[0,0,0]]}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn abstract_nodes_unknown_fields_and_the_draft_are_read() {
        let served = parse(
            r#"{"version":1,"new":{},"nodes":[{"version":"4.1.0"},{"version":"4.1.1","payload":"p","x":1}],
                "edges":[[0,1],[0,1]],
                "conditionalEdges":[{"edges":[{"from":"4.1.0","to":"4.1.1"},{"from":"4.1.0","to":"4.1.2"}],
                "qualifiers":[{"reason":"Leak","blockedClusters":{"promql":"up"}}]},
                {"edges":[{"from":"4.1.0","to":"4.1.1"}],"risks":[{"name":"Bare"}]}]}"#,
        )
        .unwrap();
        assert_eq!(served.nodes[0].payload, None);
        assert_eq!(served.edges, [(0, 1)]);
        assert_eq!(served.conditional[0].edges, [(0, 1)]);
        assert_eq!(served.conditional[0].risks.as_ref().unwrap()[0].name, "Leak");
        assert!(served.conditional[1].risks.is_none());
        assert_eq!(served.problems.len(), 3);
    }
}
