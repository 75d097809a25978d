//! The command line of `graph`: where the graph comes from, and what is asked of it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use update_graph::query::Target;
use update_graph::{Arch, Version};

pub(crate) const EXAMPLES: &str = "\
Examples:
  # Where can 4.14.10 go, by a service or by a mirror's own files
  kubectl mcu graph next 4.14.10 --url https://updates.example.com/api/upgrades_info
  kubectl mcu graph next 4.14.10 --releases releases.json.gz --graph-data graph-data/

  # From here to there, conditional edges included
  kubectl mcu graph path 4.14.10 4.16.20 --conditional --url https://updates.example.com/api/upgrades_info

  # What does a change of graph-data change for clusters
  kubectl mcu graph diff main/ branch/ --releases releases.json.gz";

const CHANNELS_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph channels --url https://updates.example.com/api/upgrades_info
  kubectl mcu graph channels --releases releases.json.gz --graph-data graph-data.tar.gz --arch arm64 --default-arch arm64";

const NEXT_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph next 4.14.10 --url https://updates.example.com/api/upgrades_info
  # What a cluster on this channel is offered
  kubectl mcu graph next 4.14.10 --channel eus-4.16 --url https://api.openshift.com/api/upgrades_info -o wide";

const PATH_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph path 4.12.0 4.16.20 --releases releases.json.gz --graph-data graph-data/
  # Over conditional edges too, but only with risks that somebody has accepted
  kubectl mcu graph path 4.14.10 4.16.20 --accept-risk OVNIPsecConnectivity --accept-risk OVNIPsecPausedMCPConnectivity --graph graph.json";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # Why is 4.14.16 not offered
  kubectl mcu graph explain 4.13.30 4.14.16 --releases releases.json.gz --graph-data graph-data/";

const STRANDED_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph stranded --releases releases.json.gz --graph-data graph-data/
  kubectl mcu graph stranded --channel stable-4.16 --url https://updates.example.com/api/upgrades_info";

const DIFF_EXAMPLES: &str = "\
Examples:
  # Two versions of graph-data over the same releases
  kubectl mcu graph diff graph-data-main.tar.gz graph-data-branch/ --releases releases.json.gz
  # A saved answer against what is served now
  kubectl mcu graph diff yesterday.json https://updates.example.com/api/upgrades_info --channel stable-4.16";

/// Flags of `graph`.
#[derive(Clone, Debug, Args)]
pub struct GraphArgs {
    /// What to ask.
    #[command(subcommand)]
    pub command: GraphCommand,
}

/// What to ask of an update graph.
#[derive(Clone, Debug, Subcommand)]
pub enum GraphCommand {
    /// List channels with their releases.
    #[command(after_help = CHANNELS_EXAMPLES)]
    Channels(ChannelsArgs),
    /// List the releases that a release can be updated to, with their risks.
    #[command(after_help = NEXT_EXAMPLES)]
    Next(NextArgs),
    /// Find the way from one release to another, across channels and minor versions.
    #[command(after_help = PATH_EXAMPLES)]
    Path(PathArgs),
    /// Say why an update is offered, conditional or absent: file, risk and regular expression.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// List releases that nothing leads on from, or only conditional updates.
    #[command(after_help = STRANDED_EXAMPLES)]
    Stranded(StrandedArgs),
    /// Show what differs between two graphs.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
}

/// Where the graph comes from: a service, or files.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "source", required = true, multiple = true)]
pub struct Source {
    /// Address of an update service, as in spec.upstream of a ClusterVersion.
    #[arg(long, value_name = "URL", conflicts_with_all = ["releases", "graph", "graph_data"])]
    pub url: Option<String>,
    /// File of releases (JSON, may be gzipped), as a scrape of a registry yields it; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub releases: Vec<PathBuf>,
    /// File of a served graph (JSON, may be gzipped); may be repeated.
    #[arg(long, value_name = "FILE")]
    pub graph: Vec<PathBuf>,
    /// graph-data for the releases: a directory, or a tar archive (may be gzipped).
    #[arg(long, value_name = "PATH")]
    pub graph_data: Option<PathBuf>,
    /// Architecture of the releases of files that do not say theirs.
    #[arg(long, value_name = "ARCH", default_value = "amd64", conflicts_with = "url")]
    pub default_arch: Arch,
}

/// Which part of the graph is meant.
#[derive(Clone, Debug, Default, Args)]
pub struct Part {
    /// Architecture: amd64, arm64, ppc64le, s390x or multi.
    #[arg(long, value_name = "ARCH", default_value = "amd64")]
    pub arch: Arch,
    /// Only this channel, or all of a family such as stable; may be repeated. All channels by default.
    #[arg(long = "channel", value_name = "CHANNEL")]
    pub channels: Vec<String>,
}

/// Flags of `graph channels`.
#[derive(Clone, Debug, Args)]
pub struct ChannelsArgs {
    /// Where the graph comes from.
    #[command(flatten)]
    pub source: Source,
    /// Which part is meant.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph next`.
#[derive(Clone, Debug, Args)]
pub struct NextArgs {
    /// The release to update.
    pub from: Version,
    /// Where the graph comes from.
    #[command(flatten)]
    pub source: Source,
    /// Which part is meant.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph path`.
#[derive(Clone, Debug, Args)]
pub struct PathArgs {
    /// The release to start from.
    pub from: Version,
    /// The release to arrive at, or a minor version such as 4.16 for its newest release.
    pub to: Target,
    /// Use conditional updates whatever their risks.
    #[arg(long)]
    pub conditional: bool,
    /// Use conditional updates all of whose risks are named so; may be repeated.
    #[arg(long = "accept-risk", value_name = "NAME", conflicts_with = "conditional")]
    pub accept_risks: Vec<String>,
    /// Pass through candidates and hotfixes too.
    #[arg(long)]
    pub pre_releases: bool,
    /// Ways to show beside the best one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub alternatives: usize,
    /// Where the graph comes from.
    #[command(flatten)]
    pub source: Source,
    /// Which part is meant.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph explain`.
#[derive(Clone, Debug, Args)]
pub struct ExplainArgs {
    /// The release to update.
    pub from: Version,
    /// The release to update to.
    pub to: Version,
    /// Where the graph comes from.
    #[command(flatten)]
    pub source: Source,
    /// Which part is meant.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph stranded`.
#[derive(Clone, Debug, Args)]
pub struct StrandedArgs {
    /// Where the graph comes from.
    #[command(flatten)]
    pub source: Source,
    /// Which part is meant.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph diff`.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The graph as it was: address of a service, file of a served graph, or graph-data for --releases.
    pub old: String,
    /// The graph as it is.
    pub new: String,
    /// File of releases (JSON, may be gzipped) that OLD and NEW are graph-data for; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub releases: Vec<PathBuf>,
    /// Architecture of the releases of files that do not say theirs.
    #[arg(long, value_name = "ARCH", default_value = "amd64")]
    pub default_arch: Arch,
    /// Which part is meant.
    #[command(flatten)]
    pub part: Part,
}
