//! The configuration file: TOML, or YAML (and with it JSON) by its extension.
//!
//! An unknown key is an error that names the key, because a setting that is silently ignored could do harm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Deserializer};
use telemetry::listen::ListenAddr;
use telemetry::logs;
use update_graph::policy::Chain;

use super::GraphDataSetting;
use crate::source::location::Location;
use crate::source::registry::name::Repository;

/// Everything the file may say; what it does not say has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// What is served, and where.
    #[serde(default)]
    pub service: Service,
    /// What connections may do.
    #[serde(default)]
    pub limits: Limits,
    /// Where releases and graph-data come from.
    #[serde(default)]
    pub source: Source,
    /// Settings for requests to a registry.
    #[serde(default)]
    pub registry: Registry,
    /// Logs.
    #[serde(default)]
    pub log: Log,
    /// Policies, applied in this order to every graph. Without this key, releases that are marked removed go.
    pub policy: Option<Chain>,
}

/// Section `service`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// `HOST:PORT` or `:PORT`.
    pub listen: Option<ListenAddr>,
    /// Address for probes and metrics only.
    pub status_listen: Option<ListenAddr>,
    /// Prefix of the protocol's paths.
    pub path_prefix: Option<String>,
    /// Parameters that every request for a graph must have.
    pub mandatory_client_parameters: Option<Vec<String>>,
    /// Architecture where none is said.
    pub default_arch: Option<String>,
}

/// Section `limits`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Connections served at a time.
    pub connections: Option<usize>,
    /// Connections that wait in the kernel.
    pub backlog: Option<u32>,
    /// Time for a request's head.
    #[serde(default, deserialize_with = "duration")]
    pub header_timeout: Option<Duration>,
    /// Time between requests of a connection.
    #[serde(default, deserialize_with = "duration")]
    pub idle_timeout: Option<Duration>,
    /// Time in which a client must take a part of an answer.
    #[serde(default, deserialize_with = "duration")]
    pub write_timeout: Option<Duration>,
    /// Largest head of a request, in bytes.
    pub head_bytes: Option<usize>,
    /// Time for requests in work at the end.
    #[serde(default, deserialize_with = "duration")]
    pub drain: Option<Duration>,
}

/// Section `source`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Release list files.
    #[serde(default)]
    pub releases: Vec<PathBuf>,
    /// A repository of releases.
    #[serde(default, deserialize_with = "parsed")]
    pub registry: Option<Repository>,
    /// Served graphs.
    #[serde(default)]
    pub graph: Vec<Location>,
    /// Channels and blocked edges.
    pub graph_data: Option<GraphDataSetting>,
    /// Time between two reads of the sources.
    #[serde(default, deserialize_with = "duration")]
    pub refresh: Option<Duration>,
    /// Time between two checks of files for changes.
    #[serde(default, deserialize_with = "duration")]
    pub watch: Option<Duration>,
    /// Directory of what must survive a restart.
    pub state_dir: Option<PathBuf>,
}

/// Section `registry`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// Docker config with logins.
    pub credentials: Option<PathBuf>,
    /// PEM files trusted besides the system's.
    #[serde(default)]
    pub ca: Vec<PathBuf>,
    /// Images in work at a time.
    pub concurrency: Option<usize>,
    /// Longest silence.
    #[serde(default, deserialize_with = "duration")]
    pub timeout: Option<Duration>,
    /// Attempts for each request.
    pub attempts: Option<u32>,
}

/// Section `log`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Form of the lines.
    pub format: Option<logs::Format>,
    /// Filter.
    pub level: Option<String>,
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map(Some).map_err(|error| {
        serde::de::Error::custom(format!(
            "{text:?} is no duration such as 500ms, 30s or 5m: {error}"
        ))
    })
}

fn parsed<'de, D: Deserializer<'de>, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: std::str::FromStr,
    T::Err: std::fmt::Display,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl File {
    /// Reads the file.
    ///
    /// # Errors
    /// When it cannot be read, or says something that is not understood; the message names it.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let extension = path.extension().and_then(|extension| extension.to_str());
        match extension {
            Some("toml") => toml::from_str(&text).with_context(|| path.display().to_string()),
            Some("yaml" | "yml" | "json") if text.trim().is_empty() => Ok(Self::default()),
            Some("yaml" | "yml" | "json") => {
                serde_saphyr::from_str(&text).with_context(|| path.display().to_string())
            }
            _ => bail!(
                "{}: the extension must be toml, yaml, yml or json",
                path.display()
            ),
        }
    }
}
