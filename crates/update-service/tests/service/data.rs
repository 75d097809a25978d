//! The real data, and small made-up ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The directory of the real data; nothing, with a line that says why, where it may be missing.
pub fn dir() -> Option<PathBuf> {
    let root = std::env::var_os("MCU_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let dir = root.join("update-graph");
    if dir.join("releases-amd64.json.gz").is_file() {
        return Some(dir);
    }
    let why = format!(
        "no real data in {}: set MCU_DATA to the directory that holds update-graph/",
        dir.display()
    );
    assert!(!std::env::var("CI").is_ok_and(|value| value == "true"), "{why}");
    eprintln!("skipped: {why}");
    None
}

/// The captured answers: channel and body.
pub fn expected(dir: &Path) -> Vec<(String, Value)> {
    let mut expected: Vec<(String, Value)> = std::fs::read_dir(dir.join("expected"))
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let channel = name.strip_suffix(".json.gz").unwrap().to_owned();
            (
                channel,
                serde_json::from_slice(&gunzip(std::fs::read(&path).unwrap())).unwrap(),
            )
        })
        .collect();
    expected.sort_by(|(a, _), (b, _)| a.cmp(b));
    assert!(expected.len() >= 12);
    expected
}

pub fn gunzip(bytes: Vec<u8>) -> Vec<u8> {
    update_service::source::fetch::gunzip(bytes).unwrap()
}

/// What equality of graphs is judged by: nodes with payload and channels, edges, conditional edges with risk names.
#[derive(Debug, PartialEq)]
pub struct Shape {
    nodes: BTreeMap<String, (String, BTreeSet<String>)>,
    edges: BTreeSet<(String, String)>,
    conditional: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Shape {
    pub fn of(body: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let nodes = body["nodes"].as_array().unwrap();
        let versions: Vec<String> = nodes.iter().map(|node| text(&node["version"])).collect();
        let mut shape = Self {
            nodes: BTreeMap::new(),
            edges: BTreeSet::new(),
            conditional: BTreeMap::new(),
        };
        for node in nodes {
            let channels = node["metadata"]["io.openshift.upgrades.graph.release.channels"].as_str();
            let channels = channels
                .unwrap_or_default()
                .split(',')
                .map(str::to_owned)
                .collect();
            let known = shape
                .nodes
                .insert(text(&node["version"]), (text(&node["payload"]), channels));
            assert!(known.is_none(), "a node twice");
        }
        for edge in body["edges"].as_array().unwrap() {
            let end = |at: usize| versions[usize::try_from(edge[at].as_u64().unwrap()).unwrap()].clone();
            assert!(shape.edges.insert((end(0), end(1))), "an edge twice");
        }
        for group in body["conditionalEdges"].as_array().unwrap() {
            let risks: BTreeSet<String> = group["risks"]
                .as_array()
                .unwrap()
                .iter()
                .map(|risk| text(&risk["name"]))
                .collect();
            for edge in group["edges"].as_array().unwrap() {
                let edge = (text(&edge["from"]), text(&edge["to"]));
                assert!(
                    !shape.edges.contains(&edge),
                    "an edge that is conditional and not"
                );
                assert!(
                    shape.conditional.insert(edge, risks.clone()).is_none(),
                    "a conditional edge twice"
                );
            }
        }
        shape
    }
}

/// A release list: each version reachable from all before.
pub fn list(versions: &[&str]) -> String {
    let releases: Vec<String> = versions
        .iter()
        .enumerate()
        .map(|(number, version)| {
            let previous: Vec<String> = versions[..number].iter().map(|v| format!("\"{v}\"")).collect();
            let payload = format!("r.example/p@sha256:{}", version.replace('.', "0"));
            format!(
                r#"{{"version": "{version}", "payload": "{payload}", "previous": [{}]}}"#,
                previous.join(",")
            )
        })
        .collect();
    format!("[{}]", releases.join(","))
}

/// Graph-data with these releases in stable-4.1, and the blocks.
pub fn graph_data(directory: &Path, versions: &[&str], blocks: &[(&str, &str)]) {
    std::fs::create_dir_all(directory.join("channels")).unwrap();
    std::fs::create_dir_all(directory.join("blocked-edges")).unwrap();
    std::fs::write(directory.join("version"), "1.1.0\n").unwrap();
    let channel = format!("name: stable-4.1\nversions: [{}]\n", versions.join(", "));
    std::fs::write(directory.join("channels/stable-4.1.yaml"), channel).unwrap();
    for (name, text) in blocks {
        std::fs::write(directory.join("blocked-edges").join(name), text).unwrap();
    }
}
