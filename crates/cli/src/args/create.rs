//! Arguments of `create`.

use clap::{ArgGroup, Args, ValueEnum};

use super::values::{duration_text, object_name};

/// Flags of `create`.
#[derive(Clone, Debug, Args)]
#[command(group(ArgGroup::new("selection").required(true).multiple(true).args(["sets", "selector", "placements", "clusters"])))]
#[command(group(ArgGroup::new("target").required(true).multiple(true).args(["to", "image", "operators"])))]
pub struct CreateArgs {
    /// Name of the upgrade.
    #[arg(value_parser = object_name)]
    pub name: String,
    /// ManagedClusterSet whose clusters are upgraded. May be repeated. The namespace needs a ManagedClusterSetBinding for it.
    #[arg(long = "set", value_name = "SET", value_parser = object_name)]
    pub sets: Vec<String>,
    /// Upgrade the clusters with these labels, such as region=eu,tier!=test.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Upgrade this cluster. May be repeated.
    #[arg(long = "name", value_name = "CLUSTER", value_parser = object_name)]
    pub clusters: Vec<String>,
    /// Upgrade the clusters that this Placement of the namespace selects. May be repeated.
    #[arg(long = "placement", value_name = "PLACEMENT", value_parser = object_name)]
    pub placements: Vec<String>,
    /// Version to upgrade to.
    #[arg(long, value_name = "VERSION")]
    pub to: Option<String>,
    /// Channel of the version.
    #[arg(long, value_name = "CHANNEL", requires = "to")]
    pub channel: Option<String>,
    /// Release image to upgrade to, with its digest.
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    /// Approve the upgrades of all operators, after the update of the platform.
    #[arg(long)]
    pub operators: bool,
    /// Upgrade the clusters with these labels first, such as canary=true. To name a cluster, write metadata.name=CLUSTER; a word alone
    /// stands for the clusters that have a label of that name, whatever its value.
    #[arg(long, value_name = "SELECTOR")]
    pub canary: Option<String>,
    /// How many clusters may be upgraded at the same time, such as 5 or 10%.
    #[arg(long, value_name = "NUMBER")]
    pub max_concurrency: Option<String>,
    /// How many clusters may fail before no other one starts, such as 3 or 2%.
    #[arg(long, value_name = "NUMBER")]
    pub max_failures: Option<String>,
    /// Time limit for an action on one cluster, such as 15m. If unset, that of the update.
    #[arg(long, value_name = "DURATION", value_parser = duration_text)]
    pub action_timeout: Option<String>,
    /// Time limit for the update of one cluster, such as 3h.
    #[arg(long, value_name = "DURATION", value_parser = duration_text)]
    pub cluster_upgrade_timeout: Option<String>,
    /// How long an upgraded cluster must stay healthy, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = duration_text)]
    pub min_success_time: Option<String>,
    /// Create it paused: no cluster starts before you resume it.
    #[arg(long)]
    pub paused: bool,
    /// Create nothing. --dry-run alone means client, which prints the manifest after it is checked as lint checks it.
    #[arg(
        long,
        value_enum,
        value_name = "STRATEGY",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client"
    )]
    pub dry_run: DryRun,
}

/// What `--dry-run` asks for. The values are those of kubectl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Create the upgrade.
    None,
    /// Print the manifest without asking the hub.
    Client,
    /// Send it to the hub, which checks it, adds defaults and stores nothing; print what the hub makes of it.
    Server,
}
