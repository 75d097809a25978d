//! The command line: commands, flags, help texts and examples. It decides nothing.

mod approvals;
mod completion;
mod connection;
mod create;
mod dashboard;
mod examples;
mod files;
mod output;
mod upgrades;
mod values;

use clap::{Args, Parser, Subcommand};

use self::approvals::{APPROVALS_EXAMPLES, APPROVE_EXAMPLES};
pub use self::approvals::{ApprovalsArgs, ApproveArgs};
pub use self::completion::{CompleteArgs, CompletionArgs, Shell};
pub use self::connection::ConnectionArgs;
pub use self::create::{CreateArgs, DryRun};
pub use self::dashboard::DashboardArgs;
pub use self::examples::AFTER_HELP;
use self::examples::{
    ABORT_EXAMPLES, ACCEPT_EXAMPLES, ACK_EXAMPLES, CAUSES_EXAMPLES, CHECK_EXAMPLES, CLUSTER_EXAMPLES,
    CLUSTERS_EXAMPLES, COMPLETION_EXAMPLES, CREATE_EXAMPLES, EXPORT_EXAMPLES, HISTORY_EXAMPLES,
    LINT_EXAMPLES, ORPHANS_EXAMPLES, PAUSE_EXAMPLES, PLAN_EXAMPLES, PREFLIGHT_EXAMPLES, REHEARSE_EXAMPLES,
    RESUME_EXAMPLES, RETRY_EXAMPLES, SKIP_EXAMPLES, STATUS_EXAMPLES, UPDATES_EXAMPLES, WHY_EXAMPLES,
    WINDOWS_EXAMPLES,
};
pub use self::files::{LintArgs, PlanArgs, RehearseArgs, UnknownFields, UpdatesArgs, WindowsArgs};
pub use self::output::Output;
pub use self::upgrades::{
    AcceptArgs, AckArgs, CheckArgs, ClusterArgs, ClustersArgs, ConsentArgs, HistoryArgs, LeaveOutArgs,
    NameArgs, RetryArgs, StatusArgs, UnskipArgs, VersionArgs, WhyArgs,
};
use self::values::{Switch as _, namespace};

/// Shows and controls the upgrades of OpenShift fleets.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubectl-mcu", bin_name = "kubectl mcu", version, after_help = AFTER_HELP)]
#[command(arg_required_else_help = true)]
pub struct Cli {
    /// Flags that all commands have in common.
    #[command(flatten, next_help_heading = "Options of all commands")]
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
    /// Use all namespaces, also where --namespace names one. This works only when upgrades are listed.
    #[arg(short = 'A', long, global = true, switch())]
    pub all_namespaces: bool,
    /// Output format. jsonpath=TEMPLATE and custom-columns=SPEC are read as kubectl reads them; csv is for export.
    #[arg(short, long, global = true, value_name = "FORMAT", value_parser = self::output::Formats)]
    pub output: Option<Output>,
    /// Print tables without the line of headers.
    #[arg(long, global = true, switch())]
    pub no_headers: bool,
    /// How to reach the hub or the cluster.
    #[command(flatten)]
    pub connection: ConnectionArgs,
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
    /// Group the clusters that failed or wait by cause: how many, an example, and what to do.
    #[command(after_help = CAUSES_EXAMPLES)]
    Causes(NameArgs),
    /// Show one cluster in all upgrades of the namespace, or with -A of all namespaces.
    #[command(after_help = CLUSTER_EXAMPLES)]
    Cluster(ClusterArgs),
    /// Explain one cluster: its phase, the cause, its history, and the next step.
    #[command(after_help = WHY_EXAMPLES)]
    Why(WhyArgs),
    /// List the upgrades by start, with their length. With NAME, list what happened on its clusters, in order.
    #[command(after_help = HISTORY_EXAMPLES)]
    History(HistoryArgs),
    /// Write the record of all clusters of an upgrade as CSV or JSON.
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(NameArgs),
    /// Create an upgrade. With --dry-run, print its manifest instead.
    #[command(after_help = CREATE_EXAMPLES)]
    Create(Box<CreateArgs>),
    /// Stop starting clusters. Clusters in flight finish all their steps.
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(NameArgs),
    /// Start clusters again.
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(NameArgs),
    /// Retry the clusters that failed or whose pre-action is degraded.
    #[command(after_help = RETRY_EXAMPLES)]
    Retry(RetryArgs),
    /// Leave clusters out of an upgrade. They count as neither complete nor failed.
    #[command(after_help = SKIP_EXAMPLES)]
    Skip(LeaveOutArgs),
    /// Withdraw the update from clusters that have not accepted it yet. They count as neither complete nor failed.
    #[command(after_help = ABORT_EXAMPLES)]
    Abort(LeaveOutArgs),
    /// Take skipped or aborted clusters back into the upgrade.
    Unskip(UnskipArgs),
    /// List the checkpoints at which upgrades wait for approvals, and who approved.
    #[command(after_help = APPROVALS_EXAMPLES)]
    Approvals(ApprovalsArgs),
    /// Approve the plan of an upgrade at a checkpoint, after it is shown.
    #[command(after_help = APPROVE_EXAMPLES)]
    Approve(ApproveArgs),
    /// Check that the hub and the controller are set up to upgrade clusters. With --pre, check the hub before the installation.
    #[command(after_help = CHECK_EXAMPLES)]
    Check(CheckArgs),
    /// Show the versions of the plugin and of the controller, and whether they fit together.
    Version(VersionArgs),
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
    /// Show the plan of an upgrade without changing anything: order, groups of blockers, hours, and when it ends.
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanArgs),
    /// Show when the clusters of an upgrade may start, by its maintenance windows and their time zones.
    #[command(after_help = WINDOWS_EXAMPLES)]
    Windows(WindowsArgs),
    /// Group the clusters that have not started by what they say to the update, with what to do.
    #[command(after_help = PREFLIGHT_EXAMPLES)]
    Preflight(NameArgs),
    /// Accept a risk of the update by name, after its text is shown.
    #[command(after_help = ACCEPT_EXAMPLES)]
    Accept(AcceptArgs),
    /// Acknowledge a gate of the update by key, after its text is shown.
    #[command(after_help = ACK_EXAMPLES)]
    Ack(AckArgs),
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
