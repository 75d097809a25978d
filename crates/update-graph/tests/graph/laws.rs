//! Properties of the builder: neither the order of inputs nor a repeated input changes the graph.

use proptest::prelude::*;
use update_graph::{Arch, Builder, Graph, Release, release_list};

use crate::checks::SeededRng;
use crate::checks::laws::shuffled;

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
        let (_, other, others) = body(shuffled(releases.clone(), &mut SeededRng::new(seed)));
        prop_assert_eq!(&whole, &other);
        prop_assert_eq!(problems, others);
        // Only upward edges between releases remain, each once.
        let mut seen = std::collections::BTreeSet::new();
        for next in graph.releases(&Arch::amd64()) {
            prop_assert!(seen.insert(next.version().clone()));
        }
    }
}
