//! A served graph, read so that a test can compare it with the expected one of the data.
//!
//! It shares no code with the crates that write such graphs, so that a mistake of theirs is not repeated here.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

/// The metadata of a release that lists its channels.
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// At most this many differences are listed.
const MAX_DIFFERENCES: usize = 10;

/// The parts of a served graph that must be as expected. The order of its lists and the grouping of its conditional edges do
/// not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedGraph {
    /// The releases, by version.
    pub nodes: BTreeMap<String, ServedNode>,
    /// The edges without a condition: source and target.
    pub edges: BTreeSet<(String, String)>,
    /// The names of the risks of each conditional edge, by its source and target.
    pub conditional: BTreeMap<(String, String), BTreeSet<String>>,
}

/// A release of a [`ServedGraph`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedNode {
    /// The image.
    pub payload: String,
    /// The channels that the release is in.
    pub channels: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Body {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
    #[serde(rename = "conditionalEdges")]
    conditional: Vec<Group>,
}

#[derive(Deserialize)]
struct Node {
    version: String,
    payload: String,
    metadata: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Group {
    edges: Vec<Pair>,
    risks: Vec<Risk>,
}

#[derive(Deserialize)]
struct Pair {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Risk {
    name: String,
}

impl ServedGraph {
    /// Reads the JSON of a graph.
    ///
    /// # Errors
    /// It is not a graph, it contains something twice, an edge is both open and conditional or has an end that is not in the
    /// graph, or a group of conditional edges is empty.
    pub fn read(body: &[u8]) -> Result<Self> {
        let body: Body = serde_json::from_slice(body)?;
        let mut graph = Self::default();
        for node in &body.nodes {
            let channels = node.metadata.get(CHANNELS).and_then(Value::as_str);
            let channels = channels.unwrap_or_default().split(',');
            let read = ServedNode {
                payload: node.payload.clone(),
                channels: channels
                    .filter(|name| !name.is_empty())
                    .map(str::to_owned)
                    .collect(),
            };
            let earlier = graph.nodes.insert(node.version.clone(), read);
            ensure!(earlier.is_none(), "node {} twice", node.version);
        }
        let version = |index: usize| {
            let node = body.nodes.get(index).context("an edge leads out of the graph")?;
            anyhow::Ok(node.version.clone())
        };
        for &(from, to) in &body.edges {
            let edge = (version(from)?, version(to)?);
            ensure!(graph.edges.insert(edge.clone()), "edge {edge:?} twice");
        }
        for group in body.conditional {
            graph.add(group)?;
        }
        Ok(graph)
    }

    fn add(&mut self, group: Group) -> Result<()> {
        ensure!(
            !group.edges.is_empty() && !group.risks.is_empty(),
            "an empty group of conditional edges"
        );
        let count = group.risks.len();
        let names: BTreeSet<String> = group.risks.into_iter().map(|risk| risk.name).collect();
        ensure!(names.len() == count, "a risk twice among {names:?}");
        for Pair { from, to } in group.edges {
            let edge = (from, to);
            ensure!(
                !self.edges.contains(&edge),
                "{edge:?} is both open and conditional"
            );
            ensure!(
                self.nodes.contains_key(&edge.0) && self.nodes.contains_key(&edge.1),
                "conditional edge {edge:?} leads out of the graph"
            );
            let earlier = self.conditional.insert(edge.clone(), names.clone());
            ensure!(earlier.is_none(), "conditional edge {edge:?} twice");
        }
        Ok(())
    }

    /// The same graph with other payloads, each made from the version of its release.
    #[must_use]
    pub fn with_payloads(mut self, payload: impl Fn(&str) -> String) -> Self {
        for (version, node) in &mut self.nodes {
            node.payload = payload(version);
        }
        self
    }

    /// The first differences from another graph; empty if the two are equal.
    #[must_use]
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare("node", &self.nodes, &expected.nodes, &mut found);
        let missing = expected.edges.difference(&self.edges);
        found.extend(missing.map(|edge| format!("edge {edge:?} is missing")));
        let surplus = self.edges.difference(&expected.edges);
        found.extend(surplus.map(|edge| format!("edge {edge:?} is too much")));
        compare(
            "conditional edge",
            &self.conditional,
            &expected.conditional,
            &mut found,
        );
        found.truncate(MAX_DIFFERENCES);
        found
    }
}

fn compare<K: Ord + Debug, V: PartialEq + Debug>(
    what: &str,
    got: &BTreeMap<K, V>,
    expected: &BTreeMap<K, V>,
    found: &mut Vec<String>,
) {
    for (key, value) in expected {
        match got.get(key) {
            None => found.push(format!("{what} {key:?} is missing")),
            Some(other) if other != value => {
                found.push(format!("{what} {key:?}: {other:?}, expected {value:?}"));
            }
            Some(_) => {}
        }
    }
    for key in got.keys().filter(|key| !expected.contains_key(key)) {
        found.push(format!("{what} {key:?} is too much"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Releases 1 and 2, an open edge between them if `open`, and a conditional one under these risks for each list.
    fn body(open: bool, conditional: &[&[&str]]) -> Vec<u8> {
        let node = |version: &str| json!({"version": version, "payload": format!("image-{version}"), "metadata": {CHANNELS: "fast,stable"}});
        let group = |risks: &&[&str]| {
            let risks: Vec<Value> = risks.iter().map(|name| json!({"name": name})).collect();
            json!({"edges": [{"from": "1", "to": "2"}], "risks": risks})
        };
        let edges = if open { json!([[0, 1]]) } else { json!([]) };
        let groups: Vec<Value> = conditional.iter().map(group).collect();
        json!({"nodes": [node("1"), node("2")], "edges": edges, "conditionalEdges": groups})
            .to_string()
            .into_bytes()
    }

    #[test]
    fn equal_graphs_have_no_differences_and_others_name_theirs() {
        let open = ServedGraph::read(&body(true, &[])).unwrap();
        let risky = ServedGraph::read(&body(false, &[&["a"]])).unwrap();
        assert_eq!(open.differences(&open), [""; 0]);
        assert_eq!(
            open.differences(&risky),
            [
                r#"edge ("1", "2") is too much"#,
                r#"conditional edge ("1", "2") is missing"#
            ]
        );
        let other = ServedGraph::read(&body(false, &[&["b"]])).unwrap();
        assert_eq!(
            risky.differences(&other),
            [r#"conditional edge ("1", "2"): {"a"}, expected {"b"}"#]
        );
        let moved = open.clone().with_payloads(|version| format!("mirror-{version}"));
        assert_eq!(open.differences(&moved).len(), 2);
        assert!(open.differences(&ServedGraph::default())[0].starts_with("node \"1\" is too much"));
    }

    #[test]
    fn what_is_there_twice_or_leads_nowhere_is_refused() {
        for broken in [
            body(true, &[&["a"]]),
            body(false, &[&["a"], &["b"]]),
            body(false, &[&["a", "a"]]),
            body(false, &[&[]]),
            br#"{"nodes": [], "edges": [[0, 1]], "conditionalEdges": []}"#.to_vec(),
            br#"{"nodes": [], "edges": [], "conditionalEdges": [{"edges": [{"from": "1", "to": "2"}], "risks": [{"name": "a"}]}]}"#.to_vec(),
        ] {
            assert!(ServedGraph::read(&broken).is_err(), "{}", String::from_utf8_lossy(&broken));
        }
    }
}
