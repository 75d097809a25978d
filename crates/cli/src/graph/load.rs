//! Builds a graph from the files or the service that the command line names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use std::collections::BTreeSet;

use update_graph::v1::Served;
use update_graph::{Arch, Builder, Graph, GraphData, Problem, Severity, graph_data, release_list};

use super::args::{Part, Source};
use super::discovery::{self, Need};
use crate::failure::Failure;

/// A graph, with the problems that were found while loading it.
pub(crate) struct Loaded {
    pub(crate) graph: Graph,
    /// Problems in the data.
    pub(crate) problems: Vec<Problem>,
    /// False for a served graph: it contains the resulting updates, but not the files that led to them.
    pub(crate) knows_why: bool,
}

impl Loaded {
    fn of((graph, problems): (Graph, Vec<Problem>), knows_why: bool) -> Self {
        Self {
            graph,
            problems,
            knows_why,
        }
    }

    /// The warnings about problems in the data; empty if there are none.
    pub(crate) fn warnings(&self) -> String {
        let errors = self
            .problems
            .iter()
            .filter(|problem| problem.severity() == Severity::Error);
        let errors: Vec<&Problem> = errors.collect();
        match errors.as_slice() {
            [] => String::new(),
            [first] => format!("Warning: {first}\n"),
            [first, rest @ ..] => format!(
                "Warning: {first}\nWarning: the data contain {} more errors; run update-service lint to list them\n",
                rest.len()
            ),
        }
    }
}

/// Loads the part of the graph that a query needs.
///
/// # Errors
/// A file cannot be read or has the wrong format, the graph-data are rejected, or the service does not respond.
pub(crate) async fn load(
    source: &Source,
    part: &Part,
    need: &Need,
    timeout: Option<Duration>,
) -> Result<Loaded, Failure> {
    match &source.url {
        Some(url) => from_service(url, part, need, timeout).await,
        None => from_files(source),
    }
}

/// Checks that the graph has the wanted channels. Otherwise a mistyped name, or missing graph-data, would make every answer
/// empty.
///
/// # Errors
/// The graph has no channel, or a wanted channel is missing.
pub(crate) fn demand_channels(loaded: &Loaded, source: &Source, wanted: &[String]) -> Result<(), Failure> {
    let names: Vec<&str> = loaded.graph.channels().collect();
    let in_service = source.url.is_some();
    if names.is_empty() && !in_service {
        return Err(Failure::Other(if source.graph_data.is_none() {
            "no release is in a channel; also give --graph-data, which lists channels and blocked edges"
                .to_owned()
        } else {
            "no release is in a channel; the channels in --graph-data list none of them".to_owned()
        }));
    }
    let family = |name: &str| name.split_once('-').map_or(name, |(family, _)| family).to_owned();
    let known = |wanted: &String| names.iter().any(|name| name == wanted || family(name) == *wanted);
    match wanted.iter().find(|wanted| !known(wanted)) {
        Some(name) => Err(Failure::Other(format!(
            "no channel {name:?} contains a release; run kubectl mcu graph channels to list the channels that do"
        ))),
        None => Ok(()),
    }
}

/// Checks that the files contain releases for the architecture. Otherwise every answer would be empty.
///
/// # Errors
/// The files contain no release for the architecture.
pub(crate) fn demand_arch(loaded: &Loaded, source: &Source, wanted: &Arch) -> Result<(), Failure> {
    let mut known: Vec<&str> = loaded.graph.arches().map(Arch::as_str).collect();
    if source.url.is_some() || known.is_empty() || known.contains(&wanted.as_str()) {
        return Ok(());
    }
    known.sort_unstable();
    Err(Failure::Other(format!(
        "no release for {wanted} is known: the files contain releases for {}, and releases that do not state their architecture count as {}; if these are for {wanted}, use --default-arch {wanted}",
        known.join(", "),
        source.default_arch
    )))
}

/// Loads files only.
///
/// # Errors
/// As [`load`].
pub(crate) fn from_files(source: &Source) -> Result<Loaded, Failure> {
    let arch = &source.default_arch;
    if source.releases.is_empty() && source.graph.is_empty() {
        return Err(Failure::Other(
            "--graph-data contains no releases; also give --releases or --graph".to_owned(),
        ));
    }
    let mut builder = Builder::new();
    for path in &source.releases {
        let list = release_list::parse(&read(path)?, arch).map_err(|error| in_file(path, &error))?;
        builder = builder.list(list);
    }
    for path in &source.graph {
        let served = Served::parse(&read(path)?, arch).map_err(|error| in_file(path, &error))?;
        builder = builder.served(served);
    }
    let mut found = Vec::new();
    if let Some(path) = &source.graph_data {
        let (data, problems) = read_graph_data(path)?;
        builder = builder.graph_data(Arc::new(data));
        found = problems;
    }
    let mut loaded = Loaded::of(builder.build(), !source.releases.is_empty());
    loaded.problems.extend(found);
    Ok(loaded)
}

/// Loads the channels of a service that a query needs.
async fn from_service(
    url: &str,
    part: &Part,
    need: &Need,
    timeout: Option<Duration>,
) -> Result<Loaded, Failure> {
    let service = super::service(url, timeout)?;
    // A service cannot be asked for a family of channels, so the channels of a family must be discovered.
    let named = !part.channels.is_empty() && part.channels.iter().all(|channel| channel.contains('-'));
    let bodies = if named {
        let channels: BTreeSet<String> = part.channels.iter().cloned().collect();
        discovery::fetch_channels(&service, &part.arch, &channels).await?
    } else if let Need::All = need {
        let channels = service.channels(&part.arch).await?;
        discovery::fetch_channels(&service, &part.arch, &channels).await?
    } else {
        discovery::fetch(&service, &part.arch, need).await?
    };
    let mut builder = Builder::new();
    for body in bodies {
        let served = Served::parse(&body, &part.arch)
            .map_err(|error| Failure::Other(format!("{}: {error}", service.base())))?;
        builder = builder.served(served);
    }
    Ok(Loaded::of(builder.build(), false))
}

/// Reads graph-data from a directory or an archive.
pub(crate) fn read_graph_data(path: &Path) -> Result<(GraphData, Vec<Problem>), Failure> {
    let read = if path.is_dir() {
        GraphData::from_files(files_below(path)?, 1)
    } else {
        GraphData::from_tar(&read(path)?, 1)
    };
    read.map_err(|refused| in_file(path, &refused))
}

/// The graph-data files below a directory, each with its path relative to the directory.
fn files_below(top: &Path) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut files = Vec::new();
    for place in ["version", "raw/metadata.json", "channels", "blocked-edges"] {
        let path = top.join(place);
        let paths: Vec<PathBuf> = if path.is_dir() {
            let entries = std::fs::read_dir(&path).map_err(|error| in_file(&path, &error))?;
            entries
                .map(|entry| {
                    entry
                        .map(|entry| entry.path())
                        .map_err(|error| in_file(&path, &error))
                })
                .collect::<Result<_, _>>()?
        } else if path.is_file() {
            vec![path]
        } else {
            Vec::new()
        };
        for path in paths.into_iter().filter(|path| path.is_file()) {
            let Some(name) = path.strip_prefix(top).ok().and_then(Path::to_str) else {
                continue;
            };
            if graph_data::wanted(name) {
                files.push((name.to_owned(), read(&path)?));
            }
        }
    }
    Ok(files)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| in_file(path, &error))
}

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Other(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::graph::fixtures::graph;

    #[test]
    fn an_architecture_that_the_files_do_not_hold_is_refused_with_the_flag_that_says_otherwise() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("releases.json");
        std::fs::write(&path, r#"[{"version": "4.1.0", "payload": "p"}]"#).unwrap();
        let arm64: Arch = "arm64".parse().unwrap();
        let mut source = Source {
            releases: vec![path],
            ..Source::default()
        };
        let demand = |source: &Source| {
            let loaded = from_files(source).unwrap_or_else(|failure| panic!("{failure:?}"));
            demand_arch(&loaded, source, &arm64).map_err(|failure| format!("{failure:?}"))
        };
        let error = demand(&source).unwrap_err();
        assert!(
            error.contains("the files contain releases for amd64") && error.contains("--default-arch arm64"),
            "{error}"
        );
        source.default_arch = arm64.clone();
        assert_eq!(demand(&source), Ok(()));
    }

    #[test]
    fn a_channel_that_is_mistyped_and_a_graph_without_channels_are_said_to_be_so() {
        let demand = |graph: Graph, source: &Source, wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
            let loaded = Loaded::of((graph, Vec::new()), true);
            demand_channels(&loaded, source, &wanted).map_err(|failure| format!("{failure:?}"))
        };
        let (files, url) = (Source::default(), Some("http://h".to_owned()));
        let service = Source {
            url,
            ..Source::default()
        };
        let name = graph().channels().next().unwrap().to_owned();
        let family = name.split('-').next().unwrap().to_owned();
        assert_eq!(demand(graph(), &files, &[&name, &family]), Ok(()));
        assert!(
            demand(graph(), &files, &[&name, "nope"])
                .unwrap_err()
                .contains("nope")
        );
        assert!(
            demand(Graph::default(), &files, &[])
                .unwrap_err()
                .contains("--graph-data")
        );
        // A service may have nothing for an architecture.
        assert_eq!(demand(Graph::default(), &service, &[]), Ok(()));
        assert!(demand(Graph::default(), &service, &[&name]).is_err());
    }
}
