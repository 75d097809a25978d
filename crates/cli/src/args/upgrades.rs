//! Arguments of the commands that show and change an upgrade.

use api::report::Phase;
use chrono::TimeDelta;
use clap::Args;

use super::values::{duration, object_name, phases};

/// Names an upgrade.
#[derive(Clone, Debug, Args)]
pub struct NameArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
}

/// Flags of `status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
    /// Follow the upgrade until it is Ready or Stalled. A terminal is redrawn; any other output gets one line per change.
    #[arg(short, long, requires = "name")]
    pub watch: bool,
    /// Time limit for following the upgrade, such as 90m or 6h. 0 means no limit.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration, requires = "watch")]
    pub timeout: TimeDelta,
}

/// Flags of `clusters`.
#[derive(Clone, Debug, Args)]
pub struct ClustersArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Show only clusters in this phase. May be repeated.
    #[arg(long = "phase", value_name = "PHASE", ignore_case = true, value_parser = phases())]
    pub phases: Vec<Phase>,
}

/// Flags of `why`.
#[derive(Clone, Debug, Args)]
pub struct WhyArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Name of the ManagedCluster.
    #[arg(value_parser = object_name)]
    pub cluster: String,
}

/// Flags of `retry`.
#[derive(Clone, Debug, Args)]
pub struct RetryArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Set the annotation even if the reports show no cluster to retry.
    #[arg(long)]
    pub force: bool,
}
