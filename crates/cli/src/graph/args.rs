//! The command line of `graph`: the source of the graph and the query.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use update_graph::query::Target;
use update_graph::{Arch, Version};

pub(crate) const EXAMPLES: &str = "\
Examples:
  # List the updates of 4.18.20, from a service or from the files of a mirror
  kubectl mcu graph next 4.18.20 --url https://updates.example.com/api/upgrades_info
  kubectl mcu graph next 4.18.20 --releases releases.json.gz --graph-data graph-data/

  # Find a path that may use conditional updates
  kubectl mcu graph path 4.18.20 4.20.4 --conditional --url https://updates.example.com/api/upgrades_info

  # Show how a change of graph-data affects clusters
  kubectl mcu graph diff main/ branch/ --releases releases.json.gz";

const CHANNELS_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph channels --url https://updates.example.com/api/upgrades_info
  kubectl mcu graph channels --releases releases.json.gz --graph-data graph-data.tar.gz --arch arm64 --default-arch arm64";

const NEXT_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph next 4.18.20 --url https://updates.example.com/api/upgrades_info
  # List the updates that a cluster on this channel is offered
  kubectl mcu graph next 4.18.20 --channel eus-4.20 --url https://api.openshift.com/api/upgrades_info -o wide";

const PATH_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph path 4.18.20 4.20.35 --releases releases.json.gz --graph-data graph-data/
  # Also use conditional updates, but only those with accepted risks
  kubectl mcu graph path 4.18.20 4.19.28 --accept-risk IPsecLargeClusterConnectivity --accept-risk PrecisionTimeProtocolDPLLPins --graph graph.json";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  # Find out why 4.19.9 is not offered
  kubectl mcu graph explain 4.18.20 4.19.9 --releases releases.json.gz --graph-data graph-data/";

const STRANDED_EXAMPLES: &str = "\
Examples:
  kubectl mcu graph stranded --releases releases.json.gz --graph-data graph-data/
  kubectl mcu graph stranded --channel stable-4.20 --url https://updates.example.com/api/upgrades_info";

const DIFF_EXAMPLES: &str = "\
Examples:
  # Compare two versions of graph-data for the same releases
  kubectl mcu graph diff graph-data-main.tar.gz graph-data-branch/ --releases releases.json.gz
  # Compare a saved graph with the one that is served now
  kubectl mcu graph diff yesterday.json https://updates.example.com/api/upgrades_info --channel stable-4.20";

/// Flags of `graph`.
#[derive(Clone, Debug, Args)]
pub struct GraphArgs {
    /// The query.
    #[command(subcommand)]
    pub command: GraphCommand,
}

/// Queries to an update graph.
#[derive(Clone, Debug, Subcommand)]
pub enum GraphCommand {
    /// List channels with their releases.
    #[command(after_help = CHANNELS_EXAMPLES)]
    Channels(ChannelsArgs),
    /// List the releases that a release can be updated to, with their risks.
    #[command(after_help = NEXT_EXAMPLES)]
    Next(NextArgs),
    /// Find a path from one release to another, across channels and minor versions.
    #[command(after_help = PATH_EXAMPLES)]
    Path(PathArgs),
    /// Explain why an update is offered, conditional or missing, by file, risk and regular expression.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// List releases that have no updates, or only conditional ones.
    #[command(after_help = STRANDED_EXAMPLES)]
    Stranded(StrandedArgs),
    /// Show the differences between two graphs.
    #[command(after_help = DIFF_EXAMPLES)]
    Diff(DiffArgs),
}

/// The source of the graph: a service or files.
#[derive(Clone, Debug, Default, Args)]
#[group(id = "source", required = true, multiple = true)]
pub struct Source {
    /// Address of an update service, as in spec.upstream of a ClusterVersion.
    #[arg(long, value_name = "URL", conflicts_with_all = ["releases", "graph", "graph_data"])]
    pub url: Option<String>,
    /// File with releases (JSON, may be gzipped), as a scrape of a registry produces it. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub releases: Vec<PathBuf>,
    /// File with a served graph (JSON, may be gzipped). May be repeated.
    #[arg(long, value_name = "FILE")]
    pub graph: Vec<PathBuf>,
    /// graph-data for the releases: a directory, or a tar archive (may be gzipped).
    #[arg(long, value_name = "PATH")]
    pub graph_data: Option<PathBuf>,
    /// Architecture of releases in files that do not state it.
    #[arg(long, value_name = "ARCH", default_value = "amd64", conflicts_with = "url")]
    pub default_arch: Arch,
}

/// The part of the graph that the query is about.
#[derive(Clone, Debug, Default, Args)]
pub struct Part {
    /// Architecture: amd64, arm64, ppc64le, s390x or multi.
    #[arg(long, value_name = "ARCH", default_value = "amd64")]
    pub arch: Arch,
    /// Use only this channel, or all channels of a family such as stable. May be repeated. The default is all channels.
    #[arg(long = "channel", value_name = "CHANNEL")]
    pub channels: Vec<String>,
}

/// Flags of `graph channels`.
#[derive(Clone, Debug, Args)]
pub struct ChannelsArgs {
    /// The source of the graph.
    #[command(flatten)]
    pub source: Source,
    /// The part of the graph that the query is about.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph next`.
#[derive(Clone, Debug, Args)]
pub struct NextArgs {
    /// The release to update.
    pub from: Version,
    /// The source of the graph.
    #[command(flatten)]
    pub source: Source,
    /// The part of the graph that the query is about.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph path`.
#[derive(Clone, Debug, Args)]
pub struct PathArgs {
    /// The release to start from.
    pub from: Version,
    /// The target release, or a minor version such as 4.20 for its newest release.
    pub to: Target,
    /// Use conditional updates regardless of their risks.
    #[arg(long)]
    pub conditional: bool,
    /// Accept this risk: a conditional update is used if all its risks are accepted. May be repeated.
    #[arg(long = "accept-risk", value_name = "NAME", conflicts_with = "conditional")]
    pub accept_risks: Vec<String>,
    /// Also pass through candidates and hotfixes.
    #[arg(long)]
    pub pre_releases: bool,
    /// Number of paths to show in addition to the best one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub alternatives: usize,
    /// The source of the graph.
    #[command(flatten)]
    pub source: Source,
    /// The part of the graph that the query is about.
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
    /// The source of the graph.
    #[command(flatten)]
    pub source: Source,
    /// The part of the graph that the query is about.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph stranded`.
#[derive(Clone, Debug, Args)]
pub struct StrandedArgs {
    /// The source of the graph.
    #[command(flatten)]
    pub source: Source,
    /// The part of the graph that the query is about.
    #[command(flatten)]
    pub part: Part,
}

/// Flags of `graph diff`.
#[derive(Clone, Debug, Args)]
pub struct DiffArgs {
    /// The old graph: the address of a service, a file with a served graph, or graph-data for --releases.
    pub old: String,
    /// The new graph, in one of the same forms.
    pub new: String,
    /// File with the releases (JSON, may be gzipped) that the graph-data OLD and NEW are for. May be repeated.
    #[arg(long, value_name = "FILE")]
    pub releases: Vec<PathBuf>,
    /// Architecture of releases in files that do not state it.
    #[arg(long, value_name = "ARCH", default_value = "amd64")]
    pub default_arch: Arch,
    /// The part of the graph that the query is about.
    #[command(flatten)]
    pub part: Part,
}
