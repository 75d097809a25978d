//! The real data, and small made-up graphs.

#![expect(
    clippy::disallowed_methods,
    reason = "a test is told by its environment where the data are"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use update_graph::{Arch, Builder, Graph, GraphData, Problem, release_list};

/// The directory of the real data; nothing, with a line that says why, where it may be missing.
pub fn dir() -> Option<PathBuf> {
    let root = std::env::var_os("MCU_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let dir = root.join("update-graph");
    if dir.join("releases-amd64.json.gz").is_file() {
        return Some(dir);
    }
    let why = format!(
        "no real data in {}: set MCU_DATA to the directory that holds update-graph/",
        dir.display()
    );
    assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "{why}");
    eprintln!("skipped: {why}");
    None
}

pub fn bytes(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

pub fn graph_data(dir: &Path) -> Arc<GraphData> {
    let (data, problems) = GraphData::from_tar(&bytes(dir, "graph-data.tar.gz"), 1).unwrap();
    assert_eq!(problems, [], "the real graph-data are read without a complaint");
    Arc::new(data)
}

/// The real graph, with the extra previous entries or without.
pub fn real(dir: &Path, extra: bool) -> (Graph, Vec<Problem>) {
    let amd64 = Arch::amd64();
    let mut builder = Builder::new().graph_data(graph_data(dir));
    builder = builder.list(release_list::parse(&bytes(dir, "releases-amd64.json.gz"), &amd64).unwrap());
    if extra {
        builder =
            builder.list(release_list::parse(&bytes(dir, "extra-previous-amd64.json.gz"), &amd64).unwrap());
    }
    builder.build()
}

/// What is judged of a body; order and grouping are free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Judged {
    /// Version to payload and channels.
    pub nodes: BTreeMap<String, (String, BTreeSet<String>)>,
    pub edges: BTreeSet<(String, String)>,
    pub conditional: BTreeMap<(String, String), BTreeSet<String>>,
}

#[derive(Deserialize)]
struct Body {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
    #[serde(rename = "conditionalEdges")]
    conditional: Vec<Group>,
}

#[derive(Deserialize)]
struct Node {
    version: String,
    payload: String,
    metadata: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Group {
    edges: Vec<Pair>,
    risks: Vec<Named>,
}

#[derive(Deserialize)]
struct Pair {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl Judged {
    /// Reads a body; what appears twice, and a pair that is open and conditional, fails.
    pub fn read(body: &[u8]) -> Self {
        let body: Body = serde_json::from_slice(body).unwrap();
        let mut judged = Self::default();
        for node in &body.nodes {
            let channels = node.metadata.get("io.openshift.upgrades.graph.release.channels");
            let channels = channels.and_then(Value::as_str).unwrap_or_default();
            let channels = channels
                .split(',')
                .filter(|c| !c.is_empty())
                .map(str::to_owned)
                .collect();
            let known = judged
                .nodes
                .insert(node.version.clone(), (node.payload.clone(), channels));
            assert!(known.is_none(), "node {} twice", node.version);
        }
        for (from, to) in body.edges {
            let edge = (body.nodes[from].version.clone(), body.nodes[to].version.clone());
            assert!(judged.edges.insert(edge.clone()), "{edge:?} twice");
        }
        for group in body.conditional {
            assert!(
                !group.edges.is_empty() && !group.risks.is_empty(),
                "an empty group"
            );
            let count = group.risks.len();
            let names: BTreeSet<_> = group.risks.into_iter().map(|risk| risk.name).collect();
            assert_eq!(names.len(), count, "{names:?}");
            for Pair { from, to } in group.edges {
                let edge = (from, to);
                assert!(!judged.edges.contains(&edge), "{edge:?} is open and conditional");
                assert!(
                    judged.nodes.contains_key(&edge.0) && judged.nodes.contains_key(&edge.1),
                    "{edge:?}"
                );
                assert!(
                    judged.conditional.insert(edge.clone(), names.clone()).is_none(),
                    "{edge:?} twice"
                );
            }
        }
        judged
    }

    /// The first things in which two differ.
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare("node", &self.nodes, &expected.nodes, &mut found);
        for edge in self.edges.symmetric_difference(&expected.edges) {
            let word = if expected.edges.contains(edge) {
                "missing"
            } else {
                "too much"
            };
            found.push(format!("edge {edge:?} is {word}"));
        }
        compare(
            "conditional edge",
            &self.conditional,
            &expected.conditional,
            &mut found,
        );
        found.truncate(10);
        found
    }
}

fn compare<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
    what: &str,
    got: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    found: &mut Vec<String>,
) {
    let keys: BTreeSet<_> = got.keys().chain(expected.keys()).collect();
    for key in keys.into_iter().filter(|key| got.get(*key) != expected.get(*key)) {
        found.push(format!(
            "{what} {key:?}: {:?}, expected {:?}",
            got.get(key),
            expected.get(key)
        ));
    }
}

/// A number generator that gives the same on every machine (xorshift64*).
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll()).unwrap() % bound.max(1)
    }
}
