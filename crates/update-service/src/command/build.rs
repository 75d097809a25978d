//! `update-service build`: the answers as files.
//!
//! | file | content |
//! |---|---|
//! | `graph/ARCH/CHANNEL.json`, `.json.gz` | the graph of a channel |
//! | `graph/empty.json` | the answer for unknown channels and architectures |
//! | `whole-graph.json`, `.json.gz` | everything, for another service |
//! | `index.json` | what there is, with ETags |
//!
//! A file is written only if its content changes, whole or not at all; the index comes last; files of an earlier build
//! that are not part of this one go.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use telemetry::logs;
use update_graph::{Arch, Builder, Graph, GraphData, Problem, Severity};

use crate::assemble;
use crate::config::{SourceFlags, log_settings};
use crate::refresh::{self, threads};
use crate::serve::accept::Encoding;
use crate::snapshot::{Body, Variant};

/// Flags of `build`.
#[derive(Clone, Debug, Args)]
pub struct BuildFlags {
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags' own comments are the documentation")]
    pub source: SourceFlags,

    /// Directory to write to; made if it is missing.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

#[derive(Serialize, Deserialize)]
struct Index {
    graphs: Vec<Entry>,
    /// Every file of the build but this one.
    files: BTreeSet<String>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    channel: String,
    arch: String,
    path: String,
    releases: usize,
    bytes: usize,
    etag: String,
}

/// Reads the sources once and writes the files.
///
/// # Errors
/// When anything cannot be read or written.
pub fn run(flags: &BuildFlags) -> anyhow::Result<ExitCode> {
    let file = flags.source.file()?;
    let (format, filter) = log_settings(&flags.source, &file)?;
    logs::install(format, filter)?;
    let sources = flags.source.sources(&file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (graph, problems) = runtime.block_on(read(&sources))?;
    for problem in problems
        .iter()
        .filter(|problem| problem.severity() == Severity::Error)
    {
        tracing::warn!(%problem, remedy = problem.remedy(), "a problem in the data");
    }
    let written = write(&graph, &flags.out).with_context(|| flags.out.display().to_string())?;
    let counts = graph.counts(None);
    tracing::info!(releases = counts.releases, graphs = written, out = %flags.out.display(), "written");
    Ok(ExitCode::SUCCESS)
}

/// The graph that the sources make now. A release that cannot be read fails the build: nothing is known of it from
/// before, and clusters that run it must not lose it.
async fn read(sources: &crate::config::Sources) -> anyhow::Result<(Graph, Vec<Problem>)> {
    let (mut releases, graph_data) = assemble::sources(sources)?;
    let mut problems = Vec::new();
    let mut builder = Builder::new().threads(threads());
    if let Some(mut source) = graph_data {
        let files = source.read().await?.context("no graph-data")?;
        let (data, found) = GraphData::from_files(files, threads())?;
        problems.extend(found);
        problems.extend(refresh::lacks(&data).map_err(anyhow::Error::msg)?);
        builder = builder.graph_data(Arc::new(data));
    }
    let read = releases.fetch().await?;
    let change = releases.take(read, &|_, _| true).whole()?;
    if let Some(trouble) = change.troubles.first() {
        bail!(
            "{} of the listed releases are of no use; the first: {}: {}",
            change.troubles.len(),
            trouble.name,
            trouble.why
        );
    }
    let (graph, found) = refresh::build(releases.build(builder), sources.policy.clone());
    problems.extend(found);
    Ok((graph, problems))
}

/// Writes all files; gives the number of graphs.
///
/// # Errors
/// Those of the file system.
pub fn write(graph: &Graph, out: &Path) -> io::Result<usize> {
    let mut files = BTreeSet::new();
    let mut graphs = Vec::new();
    let mut put = |path: &str, bytes: &[u8]| -> io::Result<()> {
        replace(&out.join(path), bytes)?;
        files.insert(path.to_owned());
        Ok(())
    };
    for arch in graph.arches().filter(|arch| nameable(arch.as_str())) {
        for channel in graph.channels().filter(|channel| nameable(channel)) {
            let view = graph.view(Some(channel), arch);
            let body = Body::of(view.body());
            let (identity, gzip) = (body.make(Encoding::Identity), body.make(Encoding::Gzip));
            let path = format!("graph/{arch}/{channel}.json");
            put(&path, &identity.bytes)?;
            put(&format!("{path}.gz"), &gzip.bytes)?;
            graphs.push(entry(channel, arch, path, view.len(), identity));
        }
    }
    put("graph/empty.json", &graph.body("", &Arch::amd64()))?;
    let whole = Body::of(graph.whole());
    put("whole-graph.json", &whole.make(Encoding::Identity).bytes)?;
    put("whole-graph.json.gz", &whole.make(Encoding::Gzip).bytes)?;
    let written = graphs.len();
    let before = index(&out.join("index.json"));
    let new = Index { graphs, files };
    replace(&out.join("index.json"), &serde_json::to_vec_pretty(&new)?)?;
    for stale in before.iter().filter(|path| !new.files.contains(*path)) {
        // An index is a file that anybody may have written: only what we could have written goes.
        let ours = stale.starts_with("graph/") && !stale.contains("..");
        if ours {
            let _ = std::fs::remove_file(out.join(stale));
        }
    }
    Ok(written)
}

fn entry(channel: &str, arch: &Arch, path: String, releases: usize, identity: &Variant) -> Entry {
    Entry {
        channel: channel.to_owned(),
        arch: arch.to_string(),
        path,
        releases,
        bytes: identity.bytes.len(),
        etag: identity.etag.to_str().unwrap_or_default().to_owned(),
    }
}

/// True when a channel can be a file name and can be requested.
fn nameable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.')
}

fn index(path: &Path) -> BTreeSet<String> {
    std::fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Index>(&bytes).ok())
        .map_or_else(BTreeSet::new, |index| index.files)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, bytes)?;
    std::fs::rename(&beside, path)
}

#[cfg(test)]
mod tests;
