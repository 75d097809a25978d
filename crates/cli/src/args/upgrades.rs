//! Arguments of the commands that show and change an upgrade.

use api::report::Phase;
use chrono::TimeDelta;
use clap::Args;

use super::values::{Switch as _, duration, object_name, phases};

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
    #[arg(short, long, switch(), requires = "name")]
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
    /// Show only clusters in this phase. May be repeated, also with commas.
    #[arg(
        long = "phase",
        value_name = "PHASE",
        ignore_case = true,
        value_delimiter = ',',
        value_parser = phases()
    )]
    pub phases: Vec<Phase>,
    /// Show only clusters with this reason, as in the column REASON. May be repeated, also with commas.
    #[arg(long = "reason", value_name = "REASON", value_delimiter = ',')]
    pub reasons: Vec<String>,
    /// Show only clusters whose ManagedCluster has these labels, such as region=eu,tier!=test.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Sort by this field of the rows, a JSONPath such as .since or .toVersion.
    #[arg(long, value_name = "JSONPATH", value_parser = crate::template::Path::read)]
    pub sort_by: Option<crate::template::Path>,
    /// After the table, print each row that changes, until you press Ctrl-C.
    #[arg(short, long, switch(), conflicts_with = "sort_by")]
    pub watch: bool,
}

/// Flags of `cluster`.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// Name of the ManagedCluster.
    #[arg(value_parser = object_name)]
    pub cluster: String,
}

/// Flags of `history`.
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: Option<String>,
}

/// Flags of `check`.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Check whether the hub is ready for the installation.
    #[arg(long)]
    pub pre: bool,
    /// Namespace of the controller.
    #[arg(long, value_name = "NAMESPACE", default_value = "mcu-system", value_parser = object_name)]
    pub controller_namespace: String,
}

/// Flags of `version`.
#[derive(Clone, Debug, Args)]
pub struct VersionArgs {
    /// Show only the version of the plugin, without asking the hub.
    #[arg(long)]
    pub client: bool,
    /// Namespace of the controller.
    #[arg(long, value_name = "NAMESPACE", default_value = "mcu-system", value_parser = object_name)]
    pub controller_namespace: String,
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
    /// Names of the ManagedClusters to retry. The default is all that failed.
    #[arg(value_name = "CLUSTER", value_parser = object_name)]
    pub clusters: Vec<String>,
    /// Retry only clusters that failed for this reason, one of those that kubectl mcu causes shows. May be repeated.
    #[arg(long = "reason", value_name = "REASON")]
    pub reasons: Vec<String>,
    /// Edit nothing, and print which clusters would be retried.
    #[arg(long)]
    pub dry_run: bool,
    /// Ask for the retry even if the reports show no cluster to retry.
    #[arg(long)]
    pub force: bool,
}

/// Flags of `skip` and `abort`.
#[derive(Clone, Debug, Args)]
pub struct LeaveOutArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Names of the ManagedClusters to leave out.
    #[arg(value_name = "CLUSTER", required = true, value_parser = object_name)]
    pub clusters: Vec<String>,
    /// Why they are left out. The reason is kept in the spec.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Leave canaries out, too. The other clusters then start without them.
    #[arg(long)]
    pub acknowledge_canary: bool,
    /// Edit nothing, and print what would happen to the clusters.
    #[arg(long)]
    pub dry_run: bool,
}

/// Flags of `unskip`.
#[derive(Clone, Debug, Args)]
pub struct UnskipArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Names of the ManagedClusters to take back.
    #[arg(value_name = "CLUSTER", required = true, value_parser = object_name)]
    pub clusters: Vec<String>,
    /// Edit nothing, and print what would happen.
    #[arg(long)]
    pub dry_run: bool,
}

/// Flags of `accept`.
#[derive(Clone, Debug, Args)]
pub struct AcceptArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Name of the risk, as the clusters report it.
    pub risk: String,
    /// How the spec is edited.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// Flags of `ack`.
#[derive(Clone, Debug, Args)]
pub struct AckArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// Key of the gate, such as ack-4.19-admissionregistration-v1beta1-api-removals-in-4.20.
    pub key: String,
    /// How the spec is edited.
    #[command(flatten)]
    pub consent: ConsentArgs,
}

/// Flags of `accept` and `ack`.
#[derive(Clone, Debug, Args)]
pub struct ConsentArgs {
    /// Why it is accepted or acknowledged. The reason is kept in the spec.
    #[arg(long, value_name = "TEXT")]
    pub reason: String,
    /// Edit nothing, and print the part of the spec that would change, as a manifest for a Git repository.
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask. Without a terminal, nothing is asked in any case.
    #[arg(short, long)]
    pub yes: bool,
}
