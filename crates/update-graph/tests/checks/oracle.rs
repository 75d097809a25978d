//! The rules of `docs/design/update-graph.md` once more, as plainly as they can be written and sharing nothing with the
//! crate: a channel's body, made from the files.

use std::collections::{BTreeMap, BTreeSet};

use repository::data::{ServedGraph, ServedNode};
use serde_json::Value;

/// From and to.
type Edges = BTreeSet<(String, String)>;
/// Names of risks by edge.
type Conditional = BTreeMap<(String, String), BTreeSet<String>>;

pub struct Oracle {
    releases: BTreeMap<String, String>,
    edges: Edges,
    conditional: Conditional,
    channels: BTreeMap<String, BTreeSet<String>>,
}

const GRAPH: &str = "io.openshift.upgrades.graph.";

/// Adds and removes the edges that the metadata of releases name.
fn apply_metadata(releases: &[Value], edges: &mut BTreeSet<(String, String)>) {
    let named = |release: &Value, key: &str| -> Vec<String> {
        let list = release["metadata"][format!("{GRAPH}{key}")].as_str();
        list.into_iter()
            .flat_map(|list| list.split(','))
            .map(str::to_owned)
            .collect()
    };
    let version = |release: &Value| release["version"].as_str().unwrap().to_owned();
    for release in releases {
        edges.extend(
            named(release, "previous.add")
                .into_iter()
                .map(|from| (from, version(release))),
        );
        edges.extend(
            named(release, "next.add")
                .into_iter()
                .map(|to| (version(release), to)),
        );
    }
    for release in releases {
        for from in named(release, "previous.remove") {
            edges.retain(|edge| edge.1 != version(release) || edge.0 != from && from != "*");
        }
        for to in named(release, "next.remove") {
            edges.retain(|edge| edge.0 != version(release) || edge.1 != to && to != "*");
        }
    }
}

fn plain(version: &str) -> &str {
    version.split('+').next().unwrap()
}

struct File {
    to: String,
    from: regex::Regex,
    risk: Option<String>,
}

/// Edges that no file blocks, and those that files make conditional with the names of their risks. `blocks`: files by the
/// version that they block.
fn sort_edges(raw: Edges, blocks: &BTreeMap<String, Vec<File>>) -> (Edges, Conditional) {
    let (mut edges, mut conditional) = (BTreeSet::new(), BTreeMap::new());
    for (from, to) in raw {
        let name = format!("{from}+amd64");
        let covers = |file: &&File| file.to == to || file.to == format!("{to}+amd64");
        let all = blocks.get(&to).into_iter().flatten();
        let hits: Vec<_> = all
            .filter(covers)
            .filter(|file| file.from.is_match(&name))
            .collect();
        let risks: BTreeSet<String> = hits.iter().filter_map(|file| file.risk.clone()).collect();
        if !risks.is_empty() {
            conditional.insert((from, to), risks);
        } else if hits.is_empty() {
            edges.insert((from, to));
        }
    }
    (edges, conditional)
}

impl Oracle {
    pub fn new(
        releases: &[Value],
        extra: &BTreeMap<String, Vec<String>>,
        files: &[(String, Vec<u8>)],
    ) -> Self {
        let mut payloads = BTreeMap::new();
        let mut raw: BTreeSet<(String, String)> = BTreeSet::new();
        for release in releases {
            let version = release["version"].as_str().unwrap().to_owned();
            for previous in release["previous"].as_array().unwrap() {
                raw.insert((previous.as_str().unwrap().to_owned(), version.clone()));
            }
            payloads.insert(version, release["payload"].as_str().unwrap().to_owned());
        }
        for (to, previous) in extra {
            raw.extend(previous.iter().map(|from| (from.clone(), to.clone())));
        }
        apply_metadata(releases, &mut raw);
        let number = |version: &String| semver::Version::parse(version).unwrap();
        raw.retain(|(from, to)| {
            payloads.contains_key(from) && payloads.contains_key(to) && number(from) < number(to)
        });
        let mut blocks: BTreeMap<String, Vec<File>> = BTreeMap::new();
        let mut channels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, content) in files {
            if path == "raw/metadata.json" {
                let added: BTreeMap<String, BTreeMap<String, String>> =
                    serde_json::from_slice(content).unwrap();
                for (version, metadata) in added {
                    if let Some(regex) = metadata.get(&format!("{GRAPH}previous.remove_regex")) {
                        let regex = regex::Regex::new(regex).unwrap();
                        raw.retain(|(from, to)| *to != version || !regex.is_match(&format!("{from}+amd64")));
                    }
                }
            }
            let text = std::str::from_utf8(content).unwrap();
            if path.starts_with("channels/") {
                let file: Value = serde_saphyr::from_str(text).unwrap();
                let versions = file["versions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|v| v.as_str().unwrap());
                let amd64 = versions.filter(|v| !v.contains('+') || v.ends_with("+amd64"));
                let versions = amd64
                    .map(|v| plain(v).to_owned())
                    .filter(|v| payloads.contains_key(v));
                channels.insert(file["name"].as_str().unwrap().to_owned(), versions.collect());
            } else if path.starts_with("blocked-edges/") {
                let file: Value = serde_saphyr::from_str(text).unwrap();
                let (to, from) = (file["to"].as_str().unwrap(), file["from"].as_str().unwrap());
                blocks.entry(plain(to).to_owned()).or_default().push(File {
                    to: to.to_owned(),
                    from: regex::Regex::new(from).unwrap(),
                    risk: file["name"].as_str().map(str::to_owned),
                });
            }
        }
        let (edges, conditional) = sort_edges(raw, &blocks);
        Self {
            releases: payloads,
            edges,
            conditional,
            channels,
        }
    }

    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(String::as_str)
    }

    pub fn body(&self, channel: &str) -> ServedGraph {
        let held = &self.channels[channel];
        let both = |(from, to): &(String, String)| held.contains(from) && held.contains(to);
        let of = |version: &String| -> BTreeSet<String> {
            let holding = self
                .channels
                .iter()
                .filter(|(_, versions)| versions.contains(version));
            holding.map(|(name, _)| name.clone()).collect()
        };
        let node = |version: &String| ServedNode {
            payload: self.releases[version].clone(),
            channels: of(version),
        };
        ServedGraph {
            nodes: held
                .iter()
                .map(|version| (version.clone(), node(version)))
                .collect(),
            edges: self.edges.iter().filter(|e| both(e)).cloned().collect(),
            conditional: self
                .conditional
                .iter()
                .filter(|(e, _)| both(e))
                .map(|(e, risks)| (e.clone(), risks.clone()))
                .collect(),
        }
    }
}
