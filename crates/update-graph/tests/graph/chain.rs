//! Services in a chain, on made-up graphs: what one serves makes the next one serve the same.

use proptest::prelude::*;
use repository::data::ServedGraph;
use update_graph::Arch;

use crate::checks::chain::again;

#[test]
fn an_old_capture_with_conditional_edges_in_both_lists_is_read() {
    let text = r#"{"nodes":[{"version":"4.1.0","payload":"a","metadata":{}},{"version":"4.1.1","payload":"b",
        "metadata":{"io.openshift.upgrades.graph.release.channels":"stable-4.1"}}],"edges":[[0,1]],
        "conditionalEdges":[{"edges":[{"from":"4.1.0","to":"4.1.1"}],
        "risks":[{"url":"https://e/","name":"Leak","message":"m","matchingRules":[{"type":"Always"}]}]}]}"#;
    let graph = again(text.as_bytes(), &Arch::amd64(), None);
    let counts = graph.counts(None);
    assert_eq!((counts.edges, counts.conditional_edges), (0, 1));
}

fn metadata() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".{0,6}".prop_map(Into::into),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            prop::collection::btree_map("[a-z\"\\\\é]{1,3}", inner, 0..3)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_graph_survives_being_served_and_read(
        nodes in prop::collection::btree_map(
            (4_u64..6, 0_u64..4, 0_u64..4),
            (
                prop::collection::btree_map("[a-z.\"é]{1,12}", metadata(), 0..4),
                prop::collection::btree_set(0_u8..4, 0..4),
            ),
            1..12,
        ),
        edges in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_u8..8), 0..40),
    ) {
        let text = document(&nodes.into_iter().collect::<Vec<_>>(), &edges);
        let graph = again(text.as_bytes(), &Arch::amd64(), None);
        let whole = graph.whole();
        let next = again(&whole, &Arch::amd64(), None);
        prop_assert_eq!(String::from_utf8(next.whole()).unwrap(), String::from_utf8(whole).unwrap());
        for channel in graph.channels() {
            let body = graph.body(channel, &Arch::amd64());
            ServedGraph::read(&body).unwrap();
            prop_assert_eq!(&next.body(channel, &Arch::amd64()), &body);
            prop_assert_eq!(&again(&body, &Arch::amd64(), None).body(channel, &Arch::amd64()), &body);
        }
    }
}

type Node = (
    (u64, u64, u64),
    (
        std::collections::BTreeMap<String, serde_json::Value>,
        std::collections::BTreeSet<u8>,
    ),
);

/// A served graph as another program would write it.
fn document(nodes: &[Node], edges: &[(prop::sample::Index, prop::sample::Index, u8)]) -> String {
    use serde_json::json;
    let version = |at: usize| {
        let (x, y, z) = nodes[at].0;
        format!("{x}.{y}.{z}")
    };
    let listed: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(at, (_, (metadata, channels)))| {
            let mut metadata = metadata.clone();
            let names: Vec<_> = channels.iter().map(|c| format!("stable-{c}")).collect();
            if !names.is_empty() {
                metadata.insert(
                    "io.openshift.upgrades.graph.release.channels".into(),
                    names.join(",").into(),
                );
            }
            json!({"version": version(at), "payload": format!("q/r@sha256:{at}"), "metadata": metadata})
        })
        .collect();
    let (mut open, mut groups, mut seen) = (Vec::new(), Vec::new(), std::collections::BTreeSet::new());
    for (a, b, kind) in edges {
        let (a, b) = (a.index(nodes.len()), b.index(nodes.len()));
        let (from, to) = (a.min(b), a.max(b));
        if from == to || !seen.insert((from, to)) {
            continue;
        }
        if *kind < 4 {
            open.push(json!([from, to]));
        } else {
            let risks: Vec<_> = (4..=*kind)
                .map(|k| {
                    json!({"url": "https://e/", "name": format!("R{k}"), "message": "m\n",
                    "matchingRules": [{"type": "PromQL", "promql": {"promql": "up\n"}}]})
                })
                .collect();
            groups.push(json!({"edges": [{"from": version(from), "to": version(to)}], "risks": risks}));
        }
    }
    json!({"version": 1, "nodes": listed, "edges": open, "conditionalEdges": groups}).to_string()
}
