//! Services in a chain: what one serves, whole or filtered, makes the next one serve the same.

use std::sync::Arc;

use repository::data::ServedGraph;
use update_graph::v1::Served;
use update_graph::{Arch, Builder, Graph, GraphData, release_list};

use super::Corpus;

/// The graph of a service that is fed with a served graph.
pub fn again(body: &[u8], arch: &Arch, data: Option<Arc<GraphData>>) -> Graph {
    let served = Served::parse(body, arch).unwrap();
    assert_eq!(served.problems, []);
    let builder = Builder::new().served(served);
    match data {
        Some(data) => builder.graph_data(data).build().0,
        None => builder.build().0,
    }
}

fn five(corpus: &Corpus) -> Graph {
    let mut builder = Builder::new().graph_data(corpus.graph_data()).threads(2);
    for arch in ["amd64", "arm64", "multi", "ppc64le", "s390x"] {
        builder = builder.list(release_list::parse(&corpus.releases, &arch.parse().unwrap()).unwrap());
    }
    builder.build().0
}

pub fn a_whole_graph_served_again_is_the_same(corpus: &Corpus) {
    let graph = five(corpus);
    let whole = graph.whole();
    // With and without its own graph-data: blocks that have been applied change nothing.
    for data in [None, Some(corpus.graph_data())] {
        let next = again(&whole, &Arch::amd64(), data);
        assert!(next.whole() == whole);
        assert_eq!(update_graph::query::diff(&graph, &next).changed, []);
        for arch in graph.arches() {
            for channel in corpus.expected.keys() {
                assert!(
                    next.body(channel, arch) == graph.body(channel, arch),
                    "{channel} {arch}"
                );
            }
        }
    }
}

pub fn a_filtered_graph_served_again_is_the_same(corpus: &Corpus) {
    let (graph, _) = corpus.graph(true);
    for channel in corpus.expected.keys() {
        let body = graph.body(channel, &Arch::amd64());
        assert!(
            again(&body, &Arch::amd64(), None).body(channel, &Arch::amd64()) == body,
            "{channel}"
        );
        // For another requested architecture.
        let s390x: Arch = "s390x".parse().unwrap();
        assert!(
            again(&body, &s390x, None).body(channel, &s390x) == body,
            "{channel}"
        );
    }
}

pub fn a_captured_body_served_again_is_the_same(corpus: &Corpus) {
    for (name, captured) in &corpus.expected {
        let graph = again(captured, &Arch::amd64(), None);
        let got = ServedGraph::read(&graph.body(name, &Arch::amd64())).unwrap();
        let expected = ServedGraph::read(captured).unwrap();
        assert_eq!(got.differences(&expected), [""; 0], "{name}");
    }
}
