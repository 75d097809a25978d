//! A graph out of what the command line names: files, or the answers of a service.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use std::collections::BTreeSet;

use update_graph::v1::Served;
use update_graph::{Arch, Builder, Graph, GraphData, Problem, Severity, graph_data, release_list};

use super::args::{Part, Source};
use super::discovery::{self, Need};
use super::service::Service;
use crate::failure::Failure;

/// A graph, and what is to be known about it.
pub(crate) struct Loaded {
    pub(crate) graph: Graph,
    /// What was found wrong on the way.
    pub(crate) problems: Vec<Problem>,
    /// False for a service: it serves what became of the edges, not why.
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

    /// What to say about problems beside the answer; empty when there is none.
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
                "Warning: {first}\nWarning: {} more errors in the data; update-service lint lists them\n",
                rest.len()
            ),
        }
    }
}

/// Loads what a question needs.
///
/// # Errors
/// A file cannot be read or is not what it should be, graph-data is refused, or the service does not answer.
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

/// Without channels, or with a name that is mistyped, every question would be answered by "nothing".
///
/// # Errors
/// No channel is there, or one that is wanted is not.
pub(crate) fn demand_channels(loaded: &Loaded, source: &Source, wanted: &[String]) -> Result<(), Failure> {
    let names: Vec<&str> = loaded.graph.channels().collect();
    let in_service = source.url.is_some();
    if names.is_empty() && !in_service {
        return Err(Failure::Other(if source.graph_data.is_none() {
            "no release is in a channel: give --graph-data, which lists channels and blocked edges".to_owned()
        } else {
            "no release is in a channel: --graph-data lists none".to_owned()
        }));
    }
    let family = |name: &str| name.split_once('-').map_or(name, |(family, _)| family).to_owned();
    let known = |wanted: &String| names.iter().any(|name| name == wanted || family(name) == *wanted);
    match wanted.iter().find(|wanted| !known(wanted)) {
        Some(name) => Err(Failure::Other(format!(
            "no channel {name:?} holds a release; kubectl mcu graph channels lists those that do"
        ))),
        None => Ok(()),
    }
}

/// Files that hold nothing for an architecture would answer every question by "nothing", too.
///
/// # Errors
/// No release of the architecture is there.
pub(crate) fn demand_arch(loaded: &Loaded, source: &Source, wanted: &Arch) -> Result<(), Failure> {
    let mut known: Vec<&str> = loaded.graph.arches().map(Arch::as_str).collect();
    if source.url.is_some() || known.is_empty() || known.contains(&wanted.as_str()) {
        return Ok(());
    }
    known.sort_unstable();
    Err(Failure::Other(format!(
        "no release for {wanted} is known: the files hold {}, and what says no architecture counts as {}; if that is of {wanted}, give --default-arch {wanted}",
        known.join(", "),
        source.default_arch
    )))
}

/// Loads files alone.
///
/// # Errors
/// As [`load`].
pub(crate) fn from_files(source: &Source) -> Result<Loaded, Failure> {
    let arch = &source.default_arch;
    if source.releases.is_empty() && source.graph.is_empty() {
        return Err(Failure::Other(
            "--graph-data alone has no releases; give --releases or --graph too".to_owned(),
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

/// Loads the channels of a service that a question needs.
async fn from_service(
    url: &str,
    part: &Part,
    need: &Need,
    timeout: Option<Duration>,
) -> Result<Loaded, Failure> {
    let service = Service::new(url, timeout)?;
    // Families of channels cannot be asked for, only searched.
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

/// The files of graph-data below a directory, by their path in it.
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
            error.contains("the files hold amd64") && error.contains("--default-arch arm64"),
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
