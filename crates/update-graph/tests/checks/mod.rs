//! The shared parts of the tests on the sample and on the real data: the data, an oracle, and the checks of both.

pub mod chain;
pub mod laws;
pub mod mutation;
pub mod old_reader;
pub mod oracle;

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use repository::data::ServedGraph;
use serde_json::Value;
use update_graph::{Arch, Builder, Graph, GraphData, Problem, graph_data, release_list};

/// A test for each check that needs nothing but a corpus. The argument gives the corpus, or `None` to skip the tests.
macro_rules! test_each_check {
    ($corpus:expr) => {
        test_each_check! { $corpus;
            a_whole_graph_served_again_is_the_same: chain::a_whole_graph_served_again_is_the_same;
            a_filtered_graph_served_again_is_the_same: chain::a_filtered_graph_served_again_is_the_same;
            a_captured_body_served_again_is_the_same: chain::a_captured_body_served_again_is_the_same;
            inputs_in_any_order_give_equal_bytes: laws::order_and_repetition_mean_nothing;
            versions_that_are_damaged_are_refused_or_keep_the_laws:
                mutation::versions_that_are_damaged_are_refused_or_keep_the_laws;
            served_graphs_that_are_damaged_are_refused_or_keep_the_laws:
                mutation::served_graphs_that_are_damaged_are_refused_or_keep_the_laws;
            release_lists_and_metadata_that_are_damaged_cost_themselves:
                mutation::release_lists_and_metadata_that_are_damaged_cost_themselves;
            graph_data_that_are_damaged_never_block_less: mutation::graph_data_that_are_damaged_never_block_less;
            archives_that_are_damaged_are_refused_or_read: mutation::archives_that_are_damaged_are_refused_or_read;
        }
    };
    ($corpus:expr; $($name:ident: $module:ident::$check:ident;)*) => {
        $(#[test]
        fn $name() {
            let corpus: Option<$crate::checks::Corpus> = $corpus;
            if let Some(corpus) = corpus {
                $crate::checks::$module::$check(&corpus);
            }
        })*
    };
}
pub(crate) use test_each_check;

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
            let got = ServedGraph::read(&graph.body(channel, &Arch::amd64())).unwrap();
            assert_eq!(
                got.differences(&ServedGraph::read(expected).unwrap()),
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
            ServedGraph::read(&body)
                .unwrap()
                .differences(&oracle.body(channel)),
            [""; 0],
            "{channel}"
        );
        assert_eq!(body, bare.body(channel, &Arch::amd64()), "{channel}");
    }
    oracle.channels().count()
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
