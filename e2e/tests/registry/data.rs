//! Releases as images, and served graphs to compare with: those of the sample, and the real ones.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use e2e::data::{RELEASES, read};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use testenv::image::{Family, Image};

/// A release as a scrape finds it.
#[derive(Debug, Clone, Deserialize)]
pub struct Release {
    pub version: String,
    pub metadata: Map<String, Value>,
    pub previous: Vec<String>,
}

impl Release {
    /// The file inside its image.
    pub fn release_metadata(&self) -> Vec<u8> {
        let metadata = json!({
            "kind": "cincinnati-metadata-v0", "version": self.version, "previous": self.previous, "next": [],
            "metadata": self.metadata,
        });
        metadata.to_string().into_bytes()
    }

    pub fn image(&self, family: Family, architecture: &str) -> Result<Image> {
        Image::release(family, architecture, &self.release_metadata())
    }
}

/// Releases, graph-data, and the graphs that they must result in.
pub struct Corpus {
    pub releases: Vec<Release>,
    pub graph_data: PathBuf,
    /// The expected graphs by channel.
    pub expected: Vec<(String, Graph)>,
    /// Releases that exist for other architectures too, sorted as text.
    pub shared: [&'static str; 3],
    /// A channel that contains these.
    pub shared_channel: &'static str,
    /// More requests than this go wrong.
    pub stumbles: usize,
}

impl Corpus {
    /// The sample in the repository.
    pub fn sample() -> Result<Self> {
        let dir = repository::data::sample("update-graph");
        Ok(Self {
            releases: serde_json::from_slice(&std::fs::read(dir.join("releases.json"))?)?,
            graph_data: dir.join("graph-data"),
            expected: expected(&dir, ".json", |path| {
                Ok(serde_json::from_slice(&std::fs::read(path)?)?)
            })?,
            shared: ["4.14.3", "4.14.6", "4.14.7"],
            shared_channel: "candidate-4.14",
            stumbles: 10,
        })
    }

    /// The real data. `None`, and a line on standard error that says so, where they are missing.
    pub fn real() -> Result<Option<Self>> {
        let Some(dir) = repository::data::directory("update-graph") else {
            return Ok(None);
        };
        Ok(Some(Self {
            releases: releases(&dir)?,
            graph_data: dir.join("graph-data.tar.gz"),
            expected: expected(&dir, ".json.gz", read::<Value>)?,
            shared: ["4.14.10", "4.14.11", "4.15.0"],
            shared_channel: "candidate-4.15",
            stumbles: 200,
        }))
    }
}

/// All real releases, with every known previous one, also those that blocks hide.
fn releases(dir: &Path) -> Result<Vec<Release>> {
    let mut releases: Vec<Release> = read(&dir.join(RELEASES))?;
    let mut extra: BTreeMap<String, Vec<String>> = read(&dir.join("extra-previous-amd64.json.gz"))?;
    for release in &mut releases {
        release
            .previous
            .extend(extra.remove(&release.version).unwrap_or_default());
    }
    if !extra.is_empty() {
        bail!("extra previous entries for unknown releases: {:?}", extra.keys());
    }
    Ok(releases)
}

/// The channels with an expected graph, and that graph.
fn expected(dir: &Path, ending: &str, read: impl Fn(&Path) -> Result<Value>) -> Result<Vec<(String, Graph)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir.join("expected"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(ending));
        let name = name.context("not a captured graph")?.to_owned();
        found.push((name, Graph::read(&read(&path)?)?));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// What is judged of a served graph; order and grouping are free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Graph {
    /// Version to payload.
    pub nodes: BTreeMap<String, String>,
    /// Version to the channels it names.
    pub channels: BTreeMap<String, BTreeSet<String>>,
    /// From and to.
    pub edges: BTreeSet<(String, String)>,
    /// From and to, and the names of the risks.
    pub conditional: BTreeMap<(String, String), BTreeSet<String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Body {
    nodes: Vec<Node>,
    edges: Vec<(usize, usize)>,
    #[serde(default)]
    conditional_edges: Vec<Group>,
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

impl Graph {
    /// Reads a served body; anything that appears twice is an error.
    pub fn read(body: &Value) -> Result<Self> {
        let body: Body = serde_json::from_value(body.clone())?;
        let mut graph = Self::default();
        for node in &body.nodes {
            let channels = node.metadata.get("io.openshift.upgrades.graph.release.channels");
            let channels = channels.and_then(Value::as_str).unwrap_or_default();
            graph.channels.insert(
                node.version.clone(),
                channels.split(',').map(str::to_owned).collect(),
            );
            if graph
                .nodes
                .insert(node.version.clone(), node.payload.clone())
                .is_some()
            {
                bail!("node {} twice", node.version);
            }
        }
        let version = |index: usize| {
            let node = body.nodes.get(index).context("an edge leads out of the graph")?;
            anyhow::Ok(node.version.clone())
        };
        for (from, to) in &body.edges {
            let edge = (version(*from)?, version(*to)?);
            if !graph.edges.insert(edge.clone()) {
                bail!("edge {edge:?} twice");
            }
        }
        for group in body.conditional_edges {
            let names: BTreeSet<String> = group.risks.into_iter().map(|risk| risk.name).collect();
            for Pair { from, to } in group.edges {
                let edge = (from, to);
                if graph.edges.contains(&edge) {
                    bail!("{edge:?} is both open and conditional");
                }
                if graph.conditional.insert(edge.clone(), names.clone()).is_some() {
                    bail!("conditional edge {edge:?} twice");
                }
            }
        }
        Ok(graph)
    }

    /// The same graph with payloads of another place.
    pub fn with_payloads(mut self, payload: impl Fn(&str) -> String) -> Self {
        for (version, old) in &mut self.nodes {
            *old = payload(version);
        }
        self
    }

    /// The first things in which two graphs differ; empty when they are equal.
    pub fn differences(&self, expected: &Self) -> Vec<String> {
        let mut found = Vec::new();
        compare("node", &self.nodes, &expected.nodes, &mut found);
        compare("channels of", &self.channels, &expected.channels, &mut found);
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
        found.truncate(10);
        found
    }
}

fn compare<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
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
