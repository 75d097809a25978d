//! Arguments of the commands that read files.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::values::{object_name, share};

/// Flags of `lint`.
#[derive(Clone, Debug, Args)]
pub struct LintArgs {
    /// File with YAML or JSON documents, a directory of such files, or - for standard input. May be repeated.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// How to treat unknown fields, as in kubectl: strict reports them as violations.
    #[arg(long, value_enum, default_value = "strict", value_name = "LEVEL")]
    pub validate: UnknownFields,
}

/// How unknown fields are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnknownFields {
    /// Report unknown fields as violations, as `kubectl apply` does by default.
    #[default]
    Strict,
    /// Report unknown fields as warnings.
    Warn,
    /// Ignore unknown fields.
    Ignore,
}

/// Flags of `updates`.
#[derive(Clone, Debug, Args)]
pub struct UpdatesArgs {
    /// File with the ClusterVersion of the cluster as YAML or JSON, or - for standard input. Without it, the plugin reads the cluster itself.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Also show supported updates that are not recommended, with the reason and the message of each.
    #[arg(long, conflicts_with = "to")]
    pub include_not_recommended: bool,
    /// Request the update to this version. With a file, only check the request and print the patch.
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Request the update even if it is not recommended.
    #[arg(long, requires = "to")]
    pub allow_not_recommended: bool,
    /// Request the update even if the cluster is failing, is updating, or rejects its current request.
    #[arg(long, requires = "to")]
    pub allow_upgrade_with_warnings: bool,
}

/// Flags of `rehearse`.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("upgrade").required(true).args(["name", "file"])))]
pub struct RehearseArgs {
    /// Name of an upgrade on the hub. It is rehearsed from where it stands.
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
    /// File with the manifest of one upgrade as YAML or JSON, or - for standard input. It is rehearsed as if it were applied now.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read this directory instead of the hub. It was written with --save.
    #[arg(long, value_name = "DIR", conflicts_with = "save")]
    pub from: Option<PathBuf>,
    /// Save what was read of the hub in this directory, which must be empty or missing.
    #[arg(long, value_name = "DIR")]
    pub save: Option<PathBuf>,
    /// File with the durations of steps. Without it, reports of the hub and past updates of the clusters count, or usual times are assumed.
    #[arg(long, value_name = "FILE")]
    pub durations: Option<PathBuf>,
    /// Share of clusters whose update fails, such as 0.02 or 2%.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub failure_rate: f64,
}

/// Flags of `plan`.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("planned").required(true).args(["name", "file"])))]
pub struct PlanArgs {
    /// Name of an upgrade on the hub. It is planned from where it stands, and as if it were resumed if it is paused.
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
    /// File with the manifest of one upgrade as YAML or JSON, or - for standard input. It is planned as if it were applied now.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read this directory instead of the hub. It was written with kubectl mcu rehearse --save.
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// File with the durations of steps. It counts before everything else that is known.
    #[arg(long, value_name = "FILE")]
    pub durations: Option<PathBuf>,
}

/// Flags of `windows`.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("whose").required(true).args(["name", "file"])))]
pub struct WindowsArgs {
    /// Name of an upgrade on the hub.
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
    /// File with the manifest of one upgrade as YAML or JSON, or - for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Read this directory instead of the hub. It was written with rehearse --save.
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
    /// Show only this cluster.
    #[arg(long, value_name = "CLUSTER", value_parser = object_name)]
    pub managed_cluster: Option<String>,
    /// Number of openings to show, from 1 to 100.
    #[arg(long, value_name = "N", default_value = "3", value_parser = openings)]
    pub next: usize,
}

fn openings(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=100).contains(number));
    number.ok_or_else(|| "must be a number from 1 to 100".to_owned())
}
