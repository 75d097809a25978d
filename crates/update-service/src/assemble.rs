//! From settings to sources that can be read.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::config::{Connection, ReleaseSource, Sources};
use crate::refresh::releases::Releases;
use crate::source::fetch::Fetcher;
use crate::source::graph_data::GraphDataSource;
use crate::source::location::Location;
use crate::source::registry::Registry;
use crate::source::registry::cache::Cache;
use crate::source::registry::client::{Client, Settings};
use crate::source::registry::credentials::Credentials;
use crate::source::registry::name::{Repository, is_loopback};

/// The sources that settings name, ready to be read. Files with logins and certificates are read now.
///
/// # Errors
/// When one of those files cannot be used, or the state directory cannot be made.
pub fn sources(sources: &Sources) -> anyhow::Result<(Releases, Option<GraphDataSource>)> {
    let connection = &sources.connection;
    let ca = certificates(&connection.ca)?;
    let fetcher = Fetcher::new(&ca, connection.timeout, connection.backoff).context("--ca")?;
    let credentials = credentials(connection.credentials.as_deref())?;
    if let Some(directory) = &sources.state_dir {
        std::fs::create_dir_all(directory).with_context(|| format!("--state-dir {}", directory.display()))?;
    }
    warn_of_plain_http(sources);
    let registry = match &sources.releases {
        ReleaseSource::Registry(repository) => {
            let client = client(repository, connection, &ca, &credentials)?;
            let cache = cache(sources.state_dir.as_deref())?;
            Some(Registry::new(client, cache, connection.concurrency))
        }
        ReleaseSource::Lists(_) | ReleaseSource::Graphs(_) => None,
    };
    let releases = Releases::new(sources, &fetcher, registry).context("no registry")?;
    let graph_data = match &sources.graph_data {
        None => None,
        Some(location) => {
            let client = match location {
                Location::Image(image) => Some(client(&image.repository, connection, &ca, &credentials)?),
                Location::Path(_) | Location::Url(_) => None,
            };
            Some(GraphDataSource::new(location.clone(), fetcher, client))
        }
    };
    Ok((releases, graph_data))
}

/// What comes over plain HTTP can be changed by anybody on the way, and decides which releases clusters are offered.
fn warn_of_plain_http(sources: &Sources) {
    let graphs = match &sources.releases {
        ReleaseSource::Graphs(graphs) => graphs.as_slice(),
        ReleaseSource::Lists(_) | ReleaseSource::Registry(_) => &[],
    };
    for location in graphs.iter().chain(&sources.graph_data) {
        let Location::Url(url) = location else { continue };
        if url.scheme() == "http" && !url.host_str().is_some_and(is_loopback) {
            tracing::warn!(%location, "this source is read over plain HTTP, so anybody on the way can change it; use https");
        }
    }
}

fn client(
    repository: &Repository,
    connection: &Connection,
    ca: &[u8],
    credentials: &Credentials,
) -> anyhow::Result<Client> {
    let settings = Settings {
        backoff: connection.backoff,
        timeout: connection.timeout,
        ca: ca.to_vec(),
    };
    let login = credentials.find(repository).cloned();
    Client::new(repository.clone(), login, &settings).context("--ca")
}

fn cache(state_dir: Option<&Path>) -> anyhow::Result<Cache> {
    match state_dir {
        None => {
            tracing::warn!("without --state-dir a restart scrapes every image again");
            Ok(Cache::in_memory())
        }
        Some(directory) => {
            let directory = directory.join("images");
            Cache::on_disk(&directory).with_context(|| directory.display().to_string())
        }
    }
}

fn certificates(files: &[PathBuf]) -> anyhow::Result<Vec<u8>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(std::fs::read(file).with_context(|| format!("--ca {}", file.display()))?);
        all.push(b'\n');
    }
    Ok(all)
}

fn credentials(file: Option<&Path>) -> anyhow::Result<Credentials> {
    let Some(file) = file else {
        return Ok(Credentials::default());
    };
    let bytes = std::fs::read(file).with_context(|| format!("--credentials {}", file.display()))?;
    Credentials::parse(&bytes).with_context(|| format!("--credentials {}", file.display()))
}
