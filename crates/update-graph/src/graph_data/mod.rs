//! graph-data: the repository of channels and blocked edges, read from a directory's files or an archive. Fails closed.

mod block;
mod channel;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol_str::SmolStr;

pub use block::{Block, Effect};
pub(crate) use block::{BlockFile, Tails, read_block};
pub(crate) use channel::read_channel;
pub use channel::{Channel, ChannelEntry};

use crate::metadata::Metadata;
use crate::pattern::Pattern;
use crate::problem::{Problem, Rule};
use crate::risk::Risk;
use crate::version::Version;

/// A data set that was refused: the last good one stays in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("graph-data refused: {}", self.first())]
pub struct Refused {
    /// Everything that was found, not only what refused it.
    pub problems: Vec<Problem>,
}

impl Refused {
    fn first(&self) -> String {
        let fatal = |p: &&Problem| {
            matches!(
                p.rule,
                Rule::SchemaVersion
                    | Rule::Archive
                    | Rule::RawMetadata
                    | Rule::ChannelUnreadable
                    | Rule::BlockTarget
            )
        };
        self.problems
            .iter()
            .find(fatal)
            .map_or_else(String::new, ToString::to_string)
    }
}

/// A data set of schema 1.x.
#[derive(Debug, Default)]
pub struct GraphData {
    /// What the file `version` says.
    pub schema: Option<Version>,
    /// The channels, by file name.
    pub channels: Vec<Channel>,
    /// The blocked edges, by file name.
    pub blocks: Arc<[Block]>,
    /// Metadata to add to releases of every architecture.
    pub raw: Vec<(Version, Metadata)>,
    /// How many distinct patterns the blocks hold.
    pub(crate) patterns: u32,
}

/// True for the path (below the top) of a file of graph-data. These are the files of upstream's allow list without the licence.
#[must_use]
pub fn wanted(path: &str) -> bool {
    let path = path.strip_prefix("./").unwrap_or(path);
    path == "version"
        || path == "raw/metadata.json"
        || path.starts_with("channels/")
        || path.starts_with("blocked-edges/")
}

/// Where a file belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Version,
    Raw,
    Channel,
    Block,
    /// Looks like a file of graph-data, but is not read.
    Skipped,
    Other,
}

pub(crate) fn place(path: &str) -> Place {
    if path == "version" {
        return Place::Version;
    }
    if path == "raw/metadata.json" {
        return Place::Raw;
    }
    let Some((directory, file)) = path.split_once('/') else {
        return Place::Other;
    };
    let kind = match directory {
        "channels" => Place::Channel,
        "blocked-edges" => Place::Block,
        _ => return Place::Other,
    };
    let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
    let yaml = extension.strip_prefix('y').and_then(|e| e.strip_suffix("ml"));
    if !file.contains('/') && yaml.is_some_and(|a| !a.is_empty() && a.bytes().all(|b| b == b'a')) {
        return kind;
    }
    let base = file.rsplit('/').next().unwrap_or(file);
    let hidden = base.starts_with('.') || matches!(base, "OWNERS" | "README.md");
    if hidden { Place::Other } else { Place::Skipped }
}

impl GraphData {
    /// Reads the files of a directory or an image: pairs of path and content, the path relative to the top, in any order.
    /// Files that are not graph-data are ignored; [`wanted`] says which need not be read at all. With two `threads`,
    /// channels are read beside blocked edges.
    ///
    /// # Errors
    /// [`Refused`] when a wrong answer could not be excluded: another schema, a channel that cannot be read, a block
    /// whose target cannot be read.
    pub fn from_files(
        files: impl IntoIterator<Item = (String, Vec<u8>)>,
        threads: usize,
    ) -> Result<(Self, Vec<Problem>), Refused> {
        let (data, mut findings) = read(&ordered(files), threads);
        findings.problems.sort();
        if findings.refused {
            return Err(Refused {
                problems: findings.problems,
            });
        }
        Ok((data, findings.problems))
    }

    /// The parts of a complete data set that are missing here. Reading accepts such a set; the caller decides whether to serve it.
    #[must_use]
    pub fn lacks(&self) -> Vec<Problem> {
        let missing = |is_empty: bool, rule, what: &str| is_empty.then(|| Problem::new(rule, what));
        [
            missing(
                self.channels.is_empty(),
                Rule::ChannelsMissing,
                "no file channels/*.yaml is there",
            ),
            missing(
                self.blocks.is_empty(),
                Rule::BlocksMissing,
                "no file blocked-edges/*.yaml is there: nothing is blocked",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Reads a tar or tar.gz, its members at the root or below one top directory.
    ///
    /// # Errors
    /// As [`GraphData::from_files`], besides when the archive is broken, too large, or holds links in the place of files.
    pub fn from_tar(bytes: &[u8], threads: usize) -> Result<(Self, Vec<Problem>), Refused> {
        Self::from_files(tar_files(bytes)?, threads)
    }
}

/// The files of an archive, their paths relative to the directory that holds `version`.
///
/// # Errors
/// [`Refused`] when the archive is broken, too large, or holds links in the place of files.
pub fn tar_files(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Refused> {
    let relative = |path: &str| -> Option<(String, String)> {
        let path = path.strip_prefix("./").unwrap_or(path);
        if wanted(path) {
            return Some((String::new(), path.to_owned()));
        }
        let (top, rest) = path.split_once('/')?;
        wanted(rest).then(|| (top.to_owned(), rest.to_owned()))
    };
    let files = crate::unpack::untar(bytes, |path| relative(path).is_some()).map_err(|e| Refused {
        problems: vec![Problem::new(Rule::Archive, e.to_string())],
    })?;
    let mut placed: Vec<(String, String, Vec<u8>)> = files
        .into_iter()
        .filter_map(|(path, content)| relative(&path).map(|(top, rest)| (top, rest, content)))
        .collect();
    let top = placed
        .iter()
        .filter(|(_, rest, _)| rest == "version")
        .map(|(top, ..)| top.clone())
        .min();
    let Some(top) = top else {
        let message = "no file `version`: this is no graph-data";
        return Err(Refused {
            problems: vec![Problem::new(Rule::SchemaVersion, message)],
        });
    };
    placed.retain(|(t, ..)| *t == top);
    Ok(placed
        .into_iter()
        .map(|(_, rest, content)| (rest, content))
        .collect())
}

/// What a run over the files has found so far.
#[derive(Default)]
pub(crate) struct Findings {
    pub problems: Vec<Problem>,
    pub refused: bool,
}

impl Findings {
    pub(crate) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn refuse(&mut self, problem: Problem) {
        self.refused = true;
        self.problems.push(problem);
    }

    fn join(&mut self, other: Self) {
        self.refused |= other.refused;
        self.problems.extend(other.problems);
    }
}

/// Files sorted by path, so that equal input gives equal output in whatever order a directory is listed.
pub(crate) fn ordered(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = files
        .into_iter()
        .map(|(path, content)| {
            (
                path.strip_prefix("./").map(str::to_owned).unwrap_or(path),
                content,
            )
        })
        .collect();
    files.sort();
    files
}

/// Reads what can be read; the findings say whether that may be used.
pub(crate) fn read(files: &[(String, Vec<u8>)], threads: usize) -> (GraphData, Findings) {
    let mut findings = Findings::default();
    let schema = read_schema(files, &mut findings);
    let raw = read_raw(files, &mut findings);
    let channel_files: Vec<_> = of(files, Place::Channel).collect();
    let block_files: Vec<_> = of(files, Place::Block).collect();
    for (path, _) in of(files, Place::Skipped) {
        findings.report(Problem::in_file(
            path,
            None,
            Rule::BlockSkipped,
            "not read: no `.yaml` file of its directory",
        ));
    }
    let (channels, blocks) = if threads > 1 {
        std::thread::scope(|scope| {
            let beside = scope.spawn(|| read_channels(&channel_files));
            let blocks = read_blocks(&block_files);
            // A panic of the other thread is this one's.
            let channels = beside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            (channels, blocks)
        })
    } else {
        (read_channels(&channel_files), read_blocks(&block_files))
    };
    let (channels, found) = channels;
    findings.join(found);
    let (parsed, found) = blocks;
    findings.join(found);
    let (blocks, patterns) = compile(parsed, &mut findings);
    (
        GraphData {
            schema,
            channels,
            blocks: blocks.into(),
            raw,
            patterns,
        },
        findings,
    )
}

fn of(files: &[(String, Vec<u8>)], wanted: Place) -> impl Iterator<Item = (&str, &[u8])> {
    files
        .iter()
        .filter(move |(path, _)| place(path) == wanted)
        .map(|(path, c)| (path.as_str(), c.as_slice()))
}

fn read_schema(files: &[(String, Vec<u8>)], findings: &mut Findings) -> Option<Version> {
    let Some((path, content)) = of(files, Place::Version).next() else {
        findings.refuse(Problem::new(
            Rule::SchemaVersion,
            "no file `version`: this is no graph-data",
        ));
        return None;
    };
    match std::str::from_utf8(content)
        .map_err(|e| e.to_string())
        .and_then(|text| Version::parse(text.trim()).map_err(|e| e.to_string()))
    {
        Ok(version) if version.major() == 1 => {
            if version.minor() > 2 {
                let message = format!("schema {version} is newer than 1.2, which is the newest known");
                findings.report(Problem::in_file(path, Some(1), Rule::SchemaMinor, message));
            }
            Some(version)
        }
        Ok(version) => {
            let message = format!("schema {version} is not of major 1");
            findings.refuse(Problem::in_file(path, Some(1), Rule::SchemaVersion, message));
            None
        }
        Err(message) => {
            findings.refuse(Problem::in_file(path, Some(1), Rule::SchemaVersion, message));
            None
        }
    }
}

fn read_raw(files: &[(String, Vec<u8>)], findings: &mut Findings) -> Vec<(Version, Metadata)> {
    let Some((path, content)) = of(files, Place::Raw).next() else {
        return Vec::new();
    };
    let entries: BTreeMap<SmolStr, Metadata> = match serde_json::from_slice(content) {
        Ok(entries) => entries,
        Err(e) => {
            let line = u32::try_from(e.line()).ok();
            findings.refuse(Problem::in_file(path, line, Rule::RawMetadata, e.to_string()));
            return Vec::new();
        }
    };
    let mut raw = Vec::new();
    for (version, metadata) in entries {
        match Version::parse(&version) {
            Ok(version) => raw.push((version, metadata)),
            Err(e) => findings.report(Problem::in_file(path, None, Rule::RawMetadata, e.to_string())),
        }
    }
    raw
}

fn read_channels(files: &[(&str, &[u8])]) -> (Vec<Channel>, Findings) {
    let mut findings = Findings::default();
    let channels = files
        .iter()
        .filter_map(|(path, content)| read_channel(path, content, &mut findings))
        .collect();
    (channels, findings)
}

fn read_blocks(files: &[(&str, &[u8])]) -> (Vec<BlockFile>, Findings) {
    let mut findings = Findings::default();
    let mut tails = Tails::default();
    let mut blocks = Vec::with_capacity(files.len());
    for (path, content) in files {
        read_block(path, content, &mut tails, &mut blocks, &mut findings);
    }
    (blocks, findings)
}

/// Compiles each distinct expression once. One that does not compile blocks every source.
fn compile(files: Vec<BlockFile>, findings: &mut Findings) -> (Vec<Block>, u32) {
    let mut patterns: BTreeMap<SmolStr, Result<(u32, Pattern), String>> = BTreeMap::new();
    let mut risks: BTreeSet<Arc<Risk>> = BTreeSet::new();
    let mut count = 0;
    let mut blocks = Vec::with_capacity(files.len());
    for file in files {
        let mut effect = file.effect;
        let mut pattern = None;
        if let Some(text) = file.from {
            let compiled = patterns
                .entry(text)
                .or_insert_with_key(|text| match Pattern::new(text) {
                    Ok(pattern) => {
                        count += 1;
                        Ok((count - 1, pattern))
                    }
                    Err(e) => Err(e.to_string().split_whitespace().collect::<Vec<_>>().join(" ")),
                });
            match compiled {
                Ok(known) => pattern = Some(known.clone()),
                Err(message) => {
                    findings.report(Problem::in_file(
                        &file.file,
                        file.from_line,
                        Rule::BlockRegex,
                        message.clone(),
                    ));
                    effect = Effect::Broken;
                }
            }
        }
        if let Effect::Risk(risk) = &mut effect {
            match risks.get(risk) {
                Some(known) => *risk = Arc::clone(known),
                None => {
                    risks.insert(Arc::clone(risk));
                }
            }
        }
        let (pattern_id, from) = pattern.map_or((0, None), |(id, pattern)| (id, Some(pattern)));
        blocks.push(Block {
            file: file.file,
            to: file.to,
            arch: file.arch,
            from,
            effect,
            fixed_in: file.fixed_in,
            pattern_id,
        });
    }
    (blocks, count)
}

#[cfg(test)]
mod tests;
