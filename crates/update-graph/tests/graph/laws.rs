//! Laws of the builder: the order of inputs means nothing, and neither does giving one twice.

use proptest::prelude::*;
use update_graph::{Arch, Builder, Graph, GraphData, Release, graph_data, release_list};

use crate::data::{Dice, bytes, dir};

/// Fisher and Yates.
fn shuffled<T>(mut items: Vec<T>, dice: &mut Dice) -> Vec<T> {
    for at in (1..items.len()).rev() {
        items.swap(at, dice.below(at + 1));
    }
    items
}

#[test]
fn real_inputs_in_any_order_give_equal_bytes() {
    let Some(dir) = dir() else { return };
    let amd64 = Arch::amd64();
    let releases = release_list::parse(&bytes(&dir, "releases-amd64.json.gz"), &amd64)
        .unwrap()
        .releases;
    let extra = release_list::parse(&bytes(&dir, "extra-previous-amd64.json.gz"), &amd64)
        .unwrap()
        .extra;
    let files = graph_data::tar_files(&bytes(&dir, "graph-data.tar.gz")).unwrap();
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
    let mut dice = Dice::new(4);
    let mut turned = shuffled(releases.clone(), &mut dice);
    for release in &mut turned {
        release.previous = shuffled(std::mem::take(&mut release.previous), &mut dice);
    }
    // And some releases twice.
    turned.extend(releases.into_iter().step_by(7));
    let (other, others) = build(turned, shuffled(extra, &mut dice), shuffled(files, &mut dice));
    assert!(graph.whole() == other.whole());
    assert_eq!(problems, others);
    assert!(update_graph::query::diff(&graph, &other).is_empty());
}

fn release(version: &str, payload: &str, previous: &[String]) -> Release {
    let list =
        serde_json::json!([{"version": version, "payload": payload, "previous": previous}]).to_string();
    release_list::parse(list.as_bytes(), &Arch::amd64())
        .unwrap()
        .releases
        .remove(0)
}

fn body(releases: Vec<Release>) -> (Graph, Vec<u8>, String) {
    let (graph, problems) = Builder::new().releases(releases).build();
    let whole = graph.whole();
    (graph, whole, format!("{problems:?}"))
}

proptest! {
    #[test]
    fn made_up_releases_in_any_order_give_equal_bytes(
        releases in prop::collection::vec((0_u8..6, 0_u8..2, prop::collection::vec(0_u8..8, 0..6)), 0..10),
        seed in any::<u64>(),
    ) {
        let make = |&(patch, payload, ref previous): &(u8, u8, Vec<u8>)| {
            let previous: Vec<_> = previous.iter().map(|p| format!("4.1.{p}")).collect();
            release(&format!("4.1.{patch}"), &format!("p{payload}"), &previous)
        };
        let releases: Vec<_> = releases.iter().map(make).collect();
        let (graph, whole, problems) = body(releases.clone());
        let (_, other, others) = body(shuffled(releases.clone(), &mut Dice::new(seed)));
        prop_assert_eq!(&whole, &other);
        prop_assert_eq!(problems, others);
        // Only upward edges between releases remain, each once.
        let mut seen = std::collections::BTreeSet::new();
        for next in graph.releases(&Arch::amd64()) {
            prop_assert!(seen.insert(next.version().clone()));
        }
    }
}
