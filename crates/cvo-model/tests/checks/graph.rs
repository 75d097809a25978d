//! What the client makes of served graphs.

use std::collections::BTreeSet;

use cvo_model::retrieval::{GraphAnswer, GraphQuery, Retrieved, read};
use serde_json::Value;

/// Targets of the edges out of a version: open ones, and conditional ones.
fn edges(graph: &Value, version: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let nodes = graph["nodes"].as_array().unwrap();
    let at = |index: &Value| {
        nodes[usize::try_from(index.as_u64().unwrap()).unwrap()]["version"]
            .as_str()
            .unwrap()
    };
    let open = graph["edges"].as_array().unwrap().iter();
    let open = open
        .filter(|edge| at(&edge[0]) == version)
        .map(|edge| at(&edge[1]).to_owned());
    let groups = graph["conditionalEdges"].as_array().unwrap().iter();
    let pairs = groups.flat_map(|group| group["edges"].as_array().unwrap());
    let conditional = pairs.filter(|pair| pair["from"] == version);
    let conditional = conditional.map(|pair| pair["to"].as_str().unwrap().to_owned());
    (open.collect(), conditional.collect())
}

fn offered(retrieved: &Retrieved) -> (BTreeSet<String>, BTreeSet<String>) {
    let open = retrieved.updates.iter().map(|release| release.version.clone());
    let conditional = retrieved
        .conditional
        .iter()
        .map(|update| update.release.version.clone());
    (open.collect(), conditional.collect())
}

/// Every edge of the graphs is offered with its metadata. Checks every `step`-th release.
pub fn edges_are_offered(graphs: Vec<(String, Vec<u8>)>, step: usize) {
    for (channel, body) in graphs {
        let graph: Value = serde_json::from_slice(&body).unwrap();
        for node in graph["nodes"].as_array().unwrap().iter().step_by(step) {
            let version = node["version"].as_str().unwrap();
            let question = GraphQuery {
                service: "https://u".to_owned(),
                architecture: "amd64".to_owned(),
                current_architecture: "amd64".to_owned(),
                channel: channel.clone(),
                cluster_id: "a93465d5-61b2-42cd-a10a-33840e6add93".to_owned(),
                version: version.to_owned(),
            };
            let retrieved = read(&question, &GraphAnswer::ok(body.clone())).unwrap();
            assert_eq!(retrieved.diagnostics, [], "{channel} {version}");
            assert_eq!(retrieved.current.version, version);
            assert!(
                retrieved.current.channels.contains(&channel),
                "{channel} {version}"
            );
            let (open, conditional) = edges(&graph, version);
            let open = open.difference(&conditional).cloned().collect();
            assert_eq!(offered(&retrieved), (open, conditional), "{channel} {version}");
        }
    }
}
