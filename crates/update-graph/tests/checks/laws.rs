//! Neither the order of inputs nor a repeated input changes the graph.

use update_graph::{Arch, Builder, GraphData, Release, release_list};

use super::{Corpus, SeededRng};

/// Fisher and Yates.
pub fn shuffled<T>(mut items: Vec<T>, rng: &mut SeededRng) -> Vec<T> {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.below(at + 1));
    }
    items
}

/// The same inputs in another order, and some of them twice, give equal bytes.
pub fn order_and_repetition_mean_nothing(corpus: &Corpus) {
    let amd64 = Arch::amd64();
    let releases = release_list::parse(&corpus.releases, &amd64).unwrap().releases;
    let extra = release_list::parse(&corpus.extra, &amd64).unwrap().extra;
    let files = corpus.files();
    let build = |releases: Vec<Release>, extra, files| {
        let (data, _) = GraphData::from_files(files, 2).unwrap();
        Builder::new()
            .releases(releases)
            .extra_edges(extra)
            .graph_data(data.into())
            .threads(2)
            .build()
    };
    let (graph, problems) = build(releases.clone(), extra.clone(), files.clone());
    let mut rng = SeededRng::new(4);
    let mut turned = shuffled(releases.clone(), &mut rng);
    for release in &mut turned {
        release.previous = shuffled(std::mem::take(&mut release.previous), &mut rng);
    }
    // And some releases twice.
    turned.extend(releases.into_iter().step_by(7));
    let (other, others) = build(turned, shuffled(extra, &mut rng), shuffled(files, &mut rng));
    assert!(graph.whole() == other.whole());
    assert_eq!(problems, others);
    assert!(update_graph::query::diff(&graph, &other).is_empty());
}
