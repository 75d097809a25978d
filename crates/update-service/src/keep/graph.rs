//! The same rule for a graph that another service serves: a node that was listed once stays, with its edges, until three
//! complete answers in a row lack it.
//!
//! This file merges an answer with the nodes that it lost. It works on the JSON, so unknown parts stay unchanged. Nodes are
//! told apart by version and architecture, as by the reader of the merged graph: in a graph of amd64, `4.1.0` and
//! `4.1.0+amd64` are one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use update_graph::{Arch, Metadata, Version, v1};

use super::{Change, Lost, MAX_MISSED_LISTINGS, Reason};

const FORMAT: u32 = 1;

/// The error of an answer without any node. Nothing at all is a mistake somewhere, and takes nothing away.
const EMPTY: &str = "the answer holds no release; check channel and arch in the address, and that the service has graph-data that list them";

/// A served graph as far as joining needs to understand it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Body {
    nodes: Vec<Box<RawValue>>,
    edges: Vec<(usize, usize)>,
    #[serde(rename = "conditionalEdges", default, deserialize_with = "null_is_none")]
    conditional: Vec<Group>,
}

/// Some services write `null` for an empty list.
fn null_is_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Group>, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Group {
    edges: Vec<Pair>,
    #[serde(alias = "qualifiers", default)]
    risks: Vec<Box<RawValue>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pair {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Named {
    version: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Serialize, Deserialize)]
struct File {
    format: u32,
    source: String,
    missed: BTreeMap<String, u32>,
    body: Body,
}

/// Remembers the nodes of one served graph.
#[derive(Debug)]
pub struct GraphKeeper {
    body: Body,
    /// Answers in a row that lacked a node, by its [`name`].
    missed: BTreeMap<String, u32>,
    default_arch: Arch,
    file: Option<PathBuf>,
    source: String,
}

impl GraphKeeper {
    /// Without a memory beyond the process.
    #[must_use]
    pub fn in_memory(source: &str, default_arch: Arch) -> Self {
        Self {
            body: Body::default(),
            missed: BTreeMap::new(),
            default_arch,
            file: None,
            source: source.to_owned(),
        }
    }

    /// With what `file` remembers of this source; as for [`Keeper::on_disk`](super::Keeper::on_disk).
    #[must_use]
    pub fn on_disk(source: &str, default_arch: Arch, file: &Path) -> Self {
        let mut keeper = Self::in_memory(source, default_arch);
        match read(file, source) {
            Ok(Some(stored)) => (keeper.body, keeper.missed) = (stored.body, stored.missed),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(path = %file.display(), %error, "what was known of a graph cannot be read");
            }
        }
        keeper.file = Some(file.to_owned());
        keeper
    }

    /// Takes in an answer, plain JSON, and gives it back with what it lost and must not have lost yet.
    ///
    /// # Errors
    /// When it is no graph, or one without nodes; nothing is changed then.
    pub fn take(&mut self, answer: &[u8]) -> Result<(Vec<u8>, Change), serde_json::Error> {
        let mut new: Body = serde_json::from_slice(answer)?;
        if new.nodes.is_empty() {
            return Err(serde_json::Error::custom(EMPTY));
        }
        let versions = names(&new, &self.default_arch)?;
        let present: BTreeSet<&str> = versions.iter().map(String::as_str).collect();
        let old = names(&self.body, &self.default_arch)?;
        let mut change = Change {
            changed: true,
            ..Change::default()
        };
        let mut missed = BTreeMap::new();
        for version in old.iter().filter(|version| !present.contains(version.as_str())) {
            let times = self.missed.get(version).copied().unwrap_or(0) + 1;
            if times >= MAX_MISSED_LISTINGS {
                change.lost.extend(self.lost(version));
            } else {
                tracing::info!(%version, times, "a node is not served upstream any more");
                missed.insert(version.clone(), times);
            }
        }
        self.join(&mut new, versions, &old, &missed);
        (self.body, self.missed) = (new, missed);
        Ok((serde_json::to_vec(&self.body)?, change))
    }

    /// The source said once more what it said before: the graph, if a node leaves for it.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn again(&mut self) -> Result<Option<(Vec<u8>, Change)>, serde_json::Error> {
        if self.missed.is_empty() {
            return Ok(None);
        }
        let mut answer = self.body.clone();
        let missed = &self.missed;
        answer.drop_nodes(&self.default_arch, |version| missed.contains_key(version))?;
        self.take(&serde_json::to_vec(&answer)?).map(Some)
    }

    /// Graphs are read before they get here, so that every version is one.
    fn lost(&self, version: &str) -> Option<Lost> {
        let (number, arch) = Version::split(version).ok()?;
        tracing::warn!(%version, reason = Reason::Unlisted.as_str(), "a release leaves the graph");
        Some(Lost {
            version: number,
            arch: arch.unwrap_or_else(|| self.default_arch.clone()),
            reason: Reason::Unlisted,
        })
    }

    /// Adds the kept nodes and those of their edges whose other end is there.
    fn join(&self, new: &mut Body, versions: Vec<String>, old: &[String], kept: &BTreeMap<String, u32>) {
        if kept.is_empty() {
            return;
        }
        let mut places: HashMap<String, usize> = versions.into_iter().zip(0..).collect();
        for (version, node) in old.iter().zip(&self.body.nodes) {
            if kept.contains_key(version) {
                places.insert(version.clone(), new.nodes.len());
                new.nodes.push(node.clone());
            }
        }
        let touches = |from: &str, to: &str| kept.contains_key(from) || kept.contains_key(to);
        for (from, to) in &self.body.edges {
            let (Some(from), Some(to)) = (old.get(*from), old.get(*to)) else {
                continue;
            };
            if let (true, Some(a), Some(b)) = (touches(from, to), places.get(from), places.get(to)) {
                new.edges.push((*a, *b));
            }
        }
        for group in &self.body.conditional {
            let edges: Vec<Pair> = group
                .edges
                .iter()
                .filter(|pair| {
                    pair.ends(&self.default_arch).is_some_and(|(from, to)| {
                        touches(&from, &to) && places.contains_key(&from) && places.contains_key(&to)
                    })
                })
                .cloned()
                .collect();
            if !edges.is_empty() {
                let risks = group.risks.clone();
                new.conditional.push(Group { edges, risks });
            }
        }
    }

    /// The graph as it was when the process ended last.
    #[must_use]
    pub fn remembered(&self) -> Option<Vec<u8>> {
        if self.body.nodes.is_empty() {
            return None;
        }
        serde_json::to_vec(&self.body).ok()
    }

    /// How many nodes are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.body.nodes.len()
    }

    /// How many nodes are kept although they are not served any more.
    #[must_use]
    pub fn retained(&self) -> usize {
        self.missed.len()
    }

    /// Writes the memory, if it has a file; as for [`Keeper::save`](super::Keeper::save).
    pub fn save(&self) {
        let Some(path) = &self.file else { return };
        let file = File {
            format: FORMAT,
            source: self.source.clone(),
            missed: self.missed.clone(),
            body: self.body.clone(),
        };
        let written = serde_json::to_vec(&file)
            .map_err(io::Error::from)
            .and_then(|bytes| crate::durable::write(path, &bytes));
        if let Err(error) = written {
            tracing::warn!(path = %path.display(), %error, "cannot write what is known of a graph");
        }
    }
}

impl Body {
    fn drop_nodes(
        &mut self,
        default_arch: &Arch,
        gone: impl Fn(&str) -> bool,
    ) -> Result<(), serde_json::Error> {
        let versions = names(self, default_arch)?;
        let mut places = vec![None; versions.len()];
        let mut kept = 0;
        for (place, version) in places.iter_mut().zip(&versions) {
            if !gone(version) {
                *place = Some(kept);
                kept += 1;
            }
        }
        let mut alive = places.iter().map(Option::is_some);
        self.nodes.retain(|_| alive.next().unwrap_or(false));
        let place = |at: usize| places.get(at).copied().flatten();
        self.edges = self
            .edges
            .iter()
            .filter_map(|(from, to)| Some((place(*from)?, place(*to)?)))
            .collect();
        for group in &mut self.conditional {
            group.edges.retain(|pair| {
                let ends = pair.ends(default_arch);
                ends.is_none_or(|(from, to)| !gone(&from) && !gone(&to))
            });
        }
        self.conditional.retain(|group| !group.edges.is_empty());
        Ok(())
    }
}

fn names(body: &Body, default_arch: &Arch) -> Result<Vec<String>, serde_json::Error> {
    body.nodes.iter().map(|node| name(node, default_arch)).collect()
}

/// A node's version with its architecture, which another answer may have as its build, in its metadata, or not at all.
fn name(node: &RawValue, default_arch: &Arch) -> Result<String, serde_json::Error> {
    let Named { version, metadata } = serde_json::from_str(node.get())?;
    let named = v1::version_of(&version, &metadata, default_arch);
    let (version, arch) = named.map_err(serde_json::Error::custom)?;
    Ok(version.with_arch(&arch))
}

impl Pair {
    /// The names of its nodes, if it has versions.
    fn ends(&self, default_arch: &Arch) -> Option<(String, String)> {
        let name = |text: &str| {
            let (version, arch) = Version::split(text).ok()?;
            Some(version.with_arch(arch.as_ref().unwrap_or(default_arch)))
        };
        Some((name(&self.from)?, name(&self.to)?))
    }
}

fn read(path: &Path, source: &str) -> io::Result<Option<File>> {
    let Some(bytes) = crate::durable::read(path)? else {
        return Ok(None);
    };
    let file: File = serde_json::from_slice(&bytes)?;
    if file.format != FORMAT || file.source != source {
        let text = "it is of another format or about something else";
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests;
