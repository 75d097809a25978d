//! Small graphs for tests.

use std::sync::Arc;

use update_graph::{Arch, Builder, Graph, GraphData, release_list};

use crate::metrics::Metrics;
use crate::snapshot::{Press, Snapshot};
use crate::state::State;

/// Three releases in a row, one step conditional, one blocked.
pub fn graph() -> Graph {
    graph_of(&["4.1.0", "4.1.1", "4.1.2"])
}

/// These releases, each reachable from all before, in stable-4.1 and fast-4.1.
pub fn graph_of(versions: &[&str]) -> Graph {
    let releases: Vec<String> = versions
        .iter()
        .enumerate()
        .map(|(number, version)| {
            let previous: Vec<String> = versions[..number].iter().map(|v| format!("\"{v}\"")).collect();
            format!(
                r#"{{"version": "{version}", "payload": "r/p@sha256:{number}", "previous": [{}]}}"#,
                previous.join(",")
            )
        })
        .collect();
    let list = format!("[{}]", releases.join(","));
    let list = release_list::parse(list.as_bytes(), &Arch::amd64()).unwrap();
    let channel = |name: &str| format!("name: {name}\nversions: [{}]\n", versions.join(", ")).into_bytes();
    let risk = "to: 4.1.2\nfrom: ^4[.]1[.]0[+].*$\nurl: https://e/r\nname: Leak\nmessage: It leaks.\n\
        matchingRules:\n- type: Always\n";
    let files = [
        ("version".to_owned(), b"1.1.0\n".to_vec()),
        ("channels/stable-4.1.yaml".to_owned(), channel("stable-4.1")),
        ("channels/fast-4.1.yaml".to_owned(), channel("fast-4.1")),
        (
            "blocked-edges/4.1.2-Leak.yaml".to_owned(),
            risk.as_bytes().to_vec(),
        ),
        (
            "blocked-edges/4.1.1.yaml".to_owned(),
            b"to: 4.1.1\nfrom: .*\n".to_vec(),
        ),
    ];
    let (data, _) = GraphData::from_files(files, 1).unwrap();
    Builder::new().list(list).graph_data(Arc::new(data)).build().0
}

/// A snapshot of a graph with a separate press.
pub fn snapshot(graph: Graph) -> Arc<Snapshot> {
    let press = Arc::new(Press::new(Arc::new(Metrics::new())));
    Arc::new(Snapshot::new(graph, press))
}

/// A state that serves a graph.
pub fn state(graph: Graph) -> Arc<State> {
    let state = State::new(Arc::new(Metrics::new()));
    state.publish(snapshot(graph));
    Arc::new(state)
}
