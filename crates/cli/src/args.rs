//! The command line: commands, flags, help texts and examples. It decides nothing.

mod completion;
mod dashboard;
mod examples;
mod files;
mod upgrades;
mod values;

use std::path::PathBuf;

use chrono::TimeDelta;
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use self::completion::{CompleteArgs, CompletionArgs, Shell};
pub use self::dashboard::DashboardArgs;
pub use self::examples::AFTER_HELP;
use self::examples::{
    CLUSTERS_EXAMPLES, COMPLETION_EXAMPLES, LINT_EXAMPLES, ORPHANS_EXAMPLES, PAUSE_EXAMPLES,
    REHEARSE_EXAMPLES, RESUME_EXAMPLES, RETRY_EXAMPLES, STATUS_EXAMPLES, UPDATES_EXAMPLES, WHY_EXAMPLES,
};
pub use self::files::{LintArgs, RehearseArgs, UnknownFields, UpdatesArgs};
pub use self::upgrades::{ClustersArgs, NameArgs, RetryArgs, StatusArgs, WhyArgs};
use self::values::{namespace, request_timeout};

/// Shows and controls the upgrades of OpenShift fleets.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-mcu", bin_name = "kubectl mcu", version, after_help = AFTER_HELP)]
#[command(disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Cli {
    /// Flags that all commands have in common.
    #[command(flatten)]
    pub common: Common,
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that all commands have in common.
#[derive(Clone, Debug, Default, Args)]
pub struct Common {
    /// Namespace of the upgrade. The default is the namespace of the context.
    #[arg(short, long, global = true, value_name = "NAMESPACE", value_parser = namespace)]
    pub namespace: Option<String>,
    /// Use all namespaces. This works only when upgrades are listed.
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Output format.
    #[arg(short, long, global = true, value_enum, value_name = "FORMAT")]
    pub output: Option<Output>,
    /// Kubeconfig file. The default is KUBECONFIG, then ~/.kube/config, then the service account of the pod.
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig to use.
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// User to impersonate.
    #[arg(long = "as", global = true, value_name = "USER")]
    pub impersonate: Option<String>,
    /// Group to impersonate. May be repeated.
    #[arg(
        long = "as-group",
        global = true,
        value_name = "GROUP",
        requires = "impersonate"
    )]
    pub impersonate_group: Vec<String>,
    /// Time limit of one request to the hub or the cluster, such as 30s. It does not apply to watches. 0 means no limit.
    #[arg(long, global = true, value_name = "DURATION", default_value = "30s", value_parser = request_timeout)]
    pub request_timeout: TimeDelta,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table with additional columns.
    Wide,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Names only.
    Name,
}

/// The commands.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Show the status of an upgrade. Without NAME, list upgrades.
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// List the clusters of an upgrade with their phases.
    #[command(after_help = CLUSTERS_EXAMPLES)]
    Clusters(ClustersArgs),
    /// Explain one cluster: its phase, the cause, its history, and the next step.
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
    /// Stop starting clusters. Clusters in flight finish all their steps.
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(NameArgs),
    /// Start clusters again.
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(NameArgs),
    /// Retry the clusters that failed or whose pre-action is degraded.
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(RetryArgs),
    /// Check manifests offline against the rules of admission and of the controller.
    #[command(after_help = LINT_EXAMPLES)]
    Lint(LintArgs),
    /// Query an update graph: list updates, find paths, and explain why an update is not offered.
    #[command(after_help = crate::graph::args::EXAMPLES, arg_required_else_help = true)]
    Graph(Box<crate::graph::args::GraphArgs>),
    /// Show the updates of one cluster and what blocks them, or request an update.
    #[command(after_help = UPDATES_EXAMPLES)]
    Updates(UpdatesArgs),
    /// Rehearse an upgrade on the data of the hub without changing it: order, hours, and what would stop it.
    #[command(after_help = REHEARSE_EXAMPLES)]
    Rehearse(RehearseArgs),
    /// Serve a live page with a map of the fleet on this machine, with your rights.
    #[command(after_help = self::dashboard::EXAMPLES)]
    Dashboard(DashboardArgs),
    /// List ManifestWorks that are left over from upgrades that no longer exist.
    #[command(after_help = ORPHANS_EXAMPLES)]
    Orphans,
    /// Print a completion script.
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion(CompletionArgs),
    /// Print candidates for kubectl's completion of plugins.
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
}

#[cfg(test)]
mod tests;
