//! Releases as images, and served graphs to compare with: those of the sample, and the real ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use e2e::data::{RELEASES, read, unzipped};
use repository::data::ServedGraph;
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
    pub expected: Vec<(String, ServedGraph)>,
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
            expected: expected(&dir, ".json", |path| Ok(std::fs::read(path)?))?,
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
            expected: expected(&dir, ".json.gz", unzipped)?,
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
fn expected(
    dir: &Path,
    ending: &str,
    read: impl Fn(&Path) -> Result<Vec<u8>>,
) -> Result<Vec<(String, ServedGraph)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir.join("expected"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(ending));
        let name = name.context("not a captured graph")?.to_owned();
        found.push((name, ServedGraph::read(&read(&path)?)?));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
