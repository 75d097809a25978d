//! What the tests on the sample and the tests on the real data share: the data, an oracle, and checks that hold of both.

pub mod chain;
pub mod laws;
pub mod mutation;
pub mod old_reader;
pub mod oracle;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use update_graph::{Arch, Builder, Graph, GraphData, Problem, graph_data, release_list};

/// Releases, graph-data and the bodies that they must result in.
pub struct Corpus {
    /// The releases: a JSON array with one release per line.
    pub releases: Vec<u8>,
    /// More previous versions by version, as JSON.
    pub extra: Vec<u8>,
    /// graph-data as an archive (`tar.gz`).
    pub archive: Vec<u8>,
    /// The expected bodies by channel.
    pub expected: BTreeMap<String, Vec<u8>>,
    /// Names of three channels with an expected body.
    pub three: [&'static str; 3],
}

impl Corpus {
    /// The files of graph-data.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        graph_data::tar_files(&self.archive).unwrap()
    }

    /// graph-data, which have no problems.
    pub fn graph_data(&self) -> Arc<GraphData> {
        let (data, problems) = GraphData::from_tar(&self.archive, 1).unwrap();
        assert_eq!(problems, []);
        Arc::new(data)
    }

    /// The graph, with the extra previous versions or without.
    pub fn graph(&self, extra: bool) -> (Graph, Vec<Problem>) {
        let amd64 = Arch::amd64();
        let mut builder = Builder::new().graph_data(self.graph_data());
        builder = builder.list(release_list::parse(&self.releases, &amd64).unwrap());
        if extra {
            builder = builder.list(release_list::parse(&self.extra, &amd64).unwrap());
        }
        builder.build()
    }

    /// The oracle on the same data.
    pub fn oracle(&self) -> oracle::Oracle {
        let releases: Vec<Value> = serde_json::from_slice(&self.releases).unwrap();
        oracle::Oracle::new(
            &releases,
            &serde_json::from_slice(&self.extra).unwrap(),
            &self.files(),
        )
    }
}

pub fn bytes(dir: &Path, name: &str) -> Vec<u8> {
    std::fs::read(dir.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The bodies in the files of `expected/`, by channel.
pub fn expected(dir: &Path, ending: &str) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(dir.join("expected")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            let body = std::fs::read(&path).unwrap();
            let body = if ending == ".json.gz" { gunzip(&body) } else { body };
            (name.strip_suffix(ending).unwrap().to_owned(), body)
        })
        .collect()
}

pub fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_end(&mut plain)
        .unwrap();
    plain
}

/// The graph has the expected bodies. Returns how many there are.
pub fn bodies_are_as_expected(corpus: &Corpus) -> usize {
    for extra in [false, true] {
        let (graph, _) = corpus.graph(extra);
        for (channel, expected) in &corpus.expected {
            let got = Judged::read(&graph.body(channel, &Arch::amd64()));
            assert_eq!(
                got.differences(&Judged::read(expected)),
                [""; 0],
                "{channel}, extra: {extra}"
            );
        }
    }
    corpus.expected.len()
}

/// Every channel is what the oracle says. Returns how many there are.
pub fn channels_are_as_the_oracle_says(corpus: &Corpus) -> usize {
    let (graph, _) = corpus.graph(true);
    let (bare, _) = corpus.graph(false);
    let oracle = corpus.oracle();
    for channel in oracle.channels() {
        let body = graph.body(channel, &Arch::amd64());
        assert_eq!(
            Judged::read(&body).differences(&oracle.body(channel)),
            [""; 0],
            "{channel}"
        );
        assert_eq!(body, bare.body(channel, &Arch::amd64()), "{channel}");
    }
    oracle.channels().count()
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
pub struct SeededRng(u64);

impl SeededRng {
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
