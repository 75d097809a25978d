//! A reader of schema 1.0.0, which knows only `to` and `from`: on the same data every risky edge is gone, the safe side.

use std::collections::BTreeMap;

use repository::data::ServedGraph;
use serde::Deserialize;
use update_graph::Arch;

use super::Corpus;

#[derive(Deserialize)]
struct Old {
    to: String,
    from: String,
}

/// A reader that knows only `to` and `from` sees every risky edge gone, in these channels.
pub fn risky_edges_are_gone(corpus: &Corpus, channels: &[&str]) {
    let mut blocks: BTreeMap<String, Vec<regex::Regex>> = BTreeMap::new();
    let mut compiled: BTreeMap<String, regex::Regex> = BTreeMap::new();
    for (path, content) in corpus.files() {
        if !path.starts_with("blocked-edges/") {
            continue;
        }
        let old: Old = serde_saphyr::from_str(std::str::from_utf8(&content).unwrap()).unwrap();
        let regex = compiled
            .entry(old.from)
            .or_insert_with_key(|from| regex::Regex::new(from).unwrap());
        blocks
            .entry(old.to.split('+').next().unwrap().to_owned())
            .or_default()
            .push(regex.clone());
    }
    let blocked = |from: &str, to: &str| {
        let name = format!("{from}+amd64");
        blocks
            .get(to)
            .is_some_and(|regexes| regexes.iter().any(|regex| regex.is_match(&name)))
    };
    let (graph, _) = corpus.graph(true);
    let mut risky = 0;
    for channel in channels {
        let body = ServedGraph::read(&graph.body(channel, &Arch::amd64())).unwrap();
        risky += body.conditional.len();
        for (from, to) in body.conditional.keys() {
            assert!(
                blocked(from, to),
                "{from} -> {to} is risky and the old reader would offer it"
            );
        }
        for (from, to) in &body.edges {
            assert!(
                !blocked(from, to),
                "{from} -> {to} is open and the old reader would not offer it"
            );
        }
    }
    assert!(risky > 0);
}
