//! The configuration: flags override the file, and the file overrides defaults.
//!
//! Contradictions are errors: two sources of releases, no source, or releases without graph-data, which would open all
//! blocked edges.

#![expect(
    clippy::doc_markdown,
    reason = "comments on flags are the help text, where backticks would show"
)]

pub mod file;

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use serde::{Deserialize, Deserializer};
use telemetry::listen::ListenAddr;
use telemetry::logs::{self, EnvFilter, Format};
use telemetry::server::Limits;
use update_graph::Arch;
use update_graph::policy::Chain;

use crate::source::location::Location;
use crate::source::registry::name::Repository;
use crate::source::retry::Backoff;

use file::File;

/// The source of graph-data, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GraphDataSetting {
    /// From there.
    From(Location),
    /// `none`: every declared edge is open, and only channels that releases name themselves exist.
    Without,
}

impl FromStr for GraphDataSetting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            Ok(Self::Without)
        } else {
            text.parse().map(Self::From)
        }
    }
}

impl<'de> Deserialize<'de> for GraphDataSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where releases and graph-data come from.
#[derive(Clone, Debug, Default, Args)]
pub struct SourceFlags {
    /// Release list file, plain or gzip: an array of {version, payload, metadata, previous}, or {TO: [FROM, ...]} with
    /// further edges. May be repeated; all files together are the releases.
    #[arg(long, value_name = "FILE", help_heading = "Source", conflicts_with_all = ["registry", "graph"], num_args = 1..)]
    pub releases: Vec<PathBuf>,

    /// Repository of release images: HOST/PATH. Plain HTTP is used only with the loopback interface.
    #[arg(long, value_name = "REPO", help_heading = "Source", conflicts_with = "graph")]
    pub registry: Option<Repository>,

    /// Graph JSON: a file, or the URL of another service's /graph, filtered by channel and arch or whole. May be
    /// repeated.
    #[arg(long, value_name = "FILE|URL", help_heading = "Source")]
    pub graph: Vec<Location>,

    /// Channels and blocked edges: a directory, a tar.gz file, the URL of one (such as a graph-builder's /graph-data),
    /// an image oci://HOST/PATH:TAG, or none.
    #[arg(long, value_name = "PATH|URL|IMAGE", help_heading = "Source")]
    pub graph_data: Option<GraphDataSetting>,

    /// Configuration file (TOML, YAML or JSON). Flags win over it.
    #[arg(long, value_name = "FILE", help_heading = "Source")]
    pub config: Option<PathBuf>,

    /// Architecture of releases and graphs that do not say theirs, and of requests without arch.
    #[arg(long, value_name = "ARCH", help_heading = "Source")]
    pub default_arch: Option<String>,

    /// Docker config file with logins for registries.
    #[arg(long, value_name = "FILE", help_heading = "Registry")]
    pub credentials: Option<PathBuf>,

    /// PEM file with certificates to trust besides the system's. May be repeated.
    #[arg(long, value_name = "FILE", help_heading = "Registry")]
    pub ca: Vec<PathBuf>,

    /// Images in work at a time.
    #[arg(long, value_name = "N", help_heading = "Registry")]
    pub concurrency: Option<usize>,

    /// Longest silence of a registry or URL before a request counts as failed.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = "Registry")]
    pub timeout: Option<Duration>,

    /// Format of the log on standard error.
    #[arg(long, value_name = "FORMAT", value_enum, help_heading = "Log")]
    pub log_format: Option<Format>,

    /// Log filter: LEVEL or TARGET=LEVEL, separated by commas; levels are off, error, warn, info, debug, trace.
    #[arg(long, value_name = "FILTER", env = "RUST_LOG", help_heading = "Log")]
    pub log_level: Option<String>,
}

/// Flags of `serve`.
#[derive(Clone, Debug, Default, Args)]
pub struct ServeFlags {
    #[command(flatten)]
    #[expect(missing_docs, reason = "the flags' own comments are the documentation")]
    pub source: SourceFlags,

    /// Address to serve on: HOST:PORT, or :PORT for all interfaces. Port 0 picks a free one; the log says which.
    /// [default: :8080]
    #[arg(long, value_name = "ADDR", help_heading = "Service")]
    pub listen: Option<ListenAddr>,

    /// Address for probes and metrics only. Without it, they are served on the address of the graph.
    #[arg(long, value_name = "ADDR", help_heading = "Service")]
    pub status_listen: Option<ListenAddr>,

    /// Prefix of the protocol's paths. [default: /api/upgrades_info]
    #[arg(long, value_name = "PATH", help_heading = "Service")]
    pub path_prefix: Option<String>,

    /// Parameters that a request for a graph must have, separated by commas. [default: channel]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Service")]
    pub mandatory_params: Option<Vec<String>>,

    /// Connections served at a time. [default: 1024]
    #[arg(long, value_name = "N", help_heading = "Service")]
    pub max_connections: Option<usize>,

    /// Time between two reads of the sources. [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = "Source")]
    pub refresh: Option<Duration>,

    /// Directory for state that survives a restart: digests of images, and which releases are known. Without it, a
    /// restart reads everything again and forgets releases that are not listed at that moment.
    #[arg(long, value_name = "DIR", help_heading = "Source")]
    pub state_dir: Option<PathBuf>,
}

/// Where releases come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReleaseSource {
    /// Release list files.
    Lists(Vec<PathBuf>),
    /// A repository of release images.
    Registry(Repository),
    /// Served graphs.
    Graphs(Vec<Location>),
}

/// Settings for requests to registries and URLs.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Docker config with logins.
    pub credentials: Option<PathBuf>,
    /// PEM files.
    pub ca: Vec<PathBuf>,
    /// Images in work at a time.
    pub concurrency: usize,
    /// Longest silence.
    pub timeout: Duration,
    /// Attempts and pauses.
    pub backoff: Backoff,
}

/// The sources, checked.
#[derive(Clone, Debug)]
pub struct Sources {
    /// Where releases come from.
    pub releases: ReleaseSource,
    /// Where graph-data comes from, if any.
    pub graph_data: Option<Location>,
    /// Architecture where none is said.
    pub default_arch: Arch,
    /// Settings for requests to them.
    pub connection: Connection,
    /// Time between two reads.
    pub refresh: Duration,
    /// Time between two checks of files for changes.
    pub watch: Duration,
    /// Directory of what must survive a restart.
    pub state_dir: Option<PathBuf>,
    /// Policies in order; none said means that releases go that are marked removed.
    pub policy: Option<Chain>,
}

/// Everything `serve` needs, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to serve.
    pub listen: ListenAddr,
    /// Where to serve probes and metrics, if not beside the graph.
    pub status_listen: Option<ListenAddr>,
    /// One leading slash and none at the end, or empty.
    pub path_prefix: String,
    /// Sorted.
    pub mandatory: Vec<String>,
    /// What connections may do.
    pub limits: Limits,
    /// Sources.
    pub sources: Sources,
}

/// How to log: form and filter.
///
/// # Errors
/// When the filter is not understood.
pub fn log_settings(flags: &SourceFlags, file: &File) -> anyhow::Result<(Format, EnvFilter)> {
    let level = flags
        .log_level
        .as_deref()
        .or(file.log.level.as_deref())
        .unwrap_or("info");
    let filter = logs::parse(logs::or_default(level)).context("--log-level")?;
    Ok((flags.log_format.or(file.log.format).unwrap_or_default(), filter))
}

impl SourceFlags {
    /// The file that the flags name, or an empty one.
    ///
    /// # Errors
    /// Those of [`File::read`].
    pub fn file(&self) -> anyhow::Result<File> {
        self.config
            .as_deref()
            .map_or_else(|| Ok(File::default()), File::read)
    }

    fn releases(&self, file: &File) -> anyhow::Result<ReleaseSource> {
        let flags = release_source(&self.releases, self.registry.as_ref(), &self.graph)?;
        let filed = release_source(
            &file.source.releases,
            file.source.registry.as_ref(),
            &file.source.graph,
        )?;
        flags
            .or(filed)
            .context("no releases: set --releases, --registry or --graph")
    }

    /// The sources that flags and file name together.
    ///
    /// # Errors
    /// When they contradict each other or something is missing.
    pub fn sources(&self, file: &File) -> anyhow::Result<Sources> {
        let releases = self.releases(file)?;
        let graph_data = self.graph_data.clone().or_else(|| file.source.graph_data.clone());
        let graph_data = match (graph_data, &releases) {
            (Some(GraphDataSetting::From(location)), _) => Some(location),
            (Some(GraphDataSetting::Without), _) | (None, ReleaseSource::Graphs(_)) => None,
            (None, _) => bail!(
                "no graph-data: set --graph-data, or --graph-data none for a graph in which nothing is blocked"
            ),
        };
        let arch = self
            .default_arch
            .as_deref()
            .or(file.service.default_arch.as_deref());
        let backoff = Backoff::default();
        let connection = Connection {
            credentials: self
                .credentials
                .clone()
                .or_else(|| file.registry.credentials.clone()),
            ca: if self.ca.is_empty() {
                file.registry.ca.clone()
            } else {
                self.ca.clone()
            },
            concurrency: at_least_one(self.concurrency.or(file.registry.concurrency), 16, "concurrency")?,
            timeout: self
                .timeout
                .or(file.registry.timeout)
                .unwrap_or(Duration::from_secs(30)),
            backoff: Backoff {
                attempts: file.registry.attempts.unwrap_or(backoff.attempts).max(1),
                ..backoff
            },
        };
        Ok(Sources {
            releases,
            graph_data,
            default_arch: Arch::parse(arch.unwrap_or("amd64")).context("default architecture")?,
            connection,
            refresh: file.source.refresh.unwrap_or(Duration::from_mins(5)),
            watch: file.source.watch.unwrap_or(Duration::from_secs(2)),
            state_dir: file.source.state_dir.clone(),
            policy: file.policy.clone(),
        })
    }
}

fn release_source(
    lists: &[PathBuf],
    registry: Option<&Repository>,
    graphs: &[Location],
) -> anyhow::Result<Option<ReleaseSource>> {
    Ok(match (lists, registry, graphs) {
        ([], None, []) => None,
        (lists, None, []) => Some(ReleaseSource::Lists(lists.to_vec())),
        ([], Some(registry), []) => Some(ReleaseSource::Registry(registry.clone())),
        ([], None, graphs) => {
            if graphs.iter().any(|graph| matches!(graph, Location::Image(_))) {
                bail!("a graph is a file or a URL, not an image");
            }
            Some(ReleaseSource::Graphs(graphs.to_vec()))
        }
        _ => bail!("releases come from one of: release lists, a registry, graphs"),
    })
}

fn at_least_one(value: Option<usize>, default: usize, name: &str) -> anyhow::Result<usize> {
    match value.unwrap_or(default) {
        0 => bail!("{name} must be at least 1"),
        value => Ok(value),
    }
}

impl ServeFlags {
    /// Flags over file over defaults.
    ///
    /// # Errors
    /// When settings contradict each other or something is missing.
    pub fn config(&self, file: &File) -> anyhow::Result<Config> {
        let mut sources = self.source.sources(file)?;
        sources.refresh = self.refresh.unwrap_or(sources.refresh);
        sources.state_dir = self.state_dir.clone().or(sources.state_dir);
        if sources.refresh.is_zero() || sources.watch.is_zero() {
            bail!("the time between two readings must not be zero");
        }
        let prefix = self
            .path_prefix
            .as_deref()
            .or(file.service.path_prefix.as_deref());
        let mandatory = self
            .mandatory_params
            .clone()
            .or_else(|| file.service.mandatory_client_parameters.clone());
        let mut mandatory = mandatory.unwrap_or_else(|| vec!["channel".to_owned()]);
        mandatory.retain(|name| !name.is_empty());
        mandatory.sort();
        mandatory.dedup();
        Ok(Config {
            listen: self.listen.or(file.service.listen).unwrap_or_default(),
            status_listen: self.status_listen.or(file.service.status_listen),
            path_prefix: normalized(prefix.unwrap_or("/api/upgrades_info"))?,
            mandatory,
            limits: self.limits(&file.limits)?,
            sources,
        })
    }

    fn limits(&self, file: &file::Limits) -> anyhow::Result<Limits> {
        let default = Limits::default();
        let limits = Limits {
            connections: at_least_one(
                self.max_connections.or(file.connections),
                default.connections,
                "connections",
            )?,
            backlog: file.backlog.unwrap_or(default.backlog),
            header_timeout: file.header_timeout.unwrap_or(default.header_timeout),
            idle_timeout: file.idle_timeout.unwrap_or(default.idle_timeout),
            write_timeout: file.write_timeout.unwrap_or(default.write_timeout),
            head: file.head_bytes.unwrap_or(default.head),
            drain: file.drain.unwrap_or(default.drain),
        };
        if limits.head < 8192 {
            bail!("limits.head_bytes must be at least 8192");
        }
        Ok(limits)
    }
}

/// One leading slash and none at the end; empty for the root.
fn normalized(prefix: &str) -> anyhow::Result<String> {
    let parts: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
    if !parts.iter().all(|part| part.chars().all(legal)) {
        bail!("path prefix {prefix:?}: letters, digits and - . _ ~ between slashes only");
    }
    Ok(parts.iter().flat_map(|part| ["/", part]).collect())
}

#[cfg(test)]
mod tests;
