//! A reader of schema 1.0.0, which knows only `to` and `from`: on the same data every risky edge is gone, the safe side.

use std::collections::BTreeMap;

use serde::Deserialize;
use update_graph::{Arch, graph_data};

use crate::data::{Judged, bytes, dir, real};

#[derive(Deserialize)]
struct Old {
    to: String,
    from: String,
}

#[test]
fn a_reader_that_knows_only_to_and_from_sees_every_risky_edge_gone() {
    let Some(dir) = dir() else { return };
    let mut blocks: BTreeMap<String, Vec<regex::Regex>> = BTreeMap::new();
    let mut compiled: BTreeMap<String, regex::Regex> = BTreeMap::new();
    for (path, content) in graph_data::tar_files(&bytes(&dir, "graph-data.tar.gz")).unwrap() {
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
    let (graph, _) = real(&dir, true);
    for channel in ["eus-4.16", "candidate-4.14", "stable-4.22", "fast-4.6"] {
        let body = Judged::read(&graph.body(channel, &Arch::amd64()));
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
}
