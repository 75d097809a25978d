//! The command line: commands, flags, help texts and examples. It decides nothing.

use std::path::PathBuf;

use api::report::Phase;
use chrono::TimeDelta;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

/// The help text after the list of commands.
pub const AFTER_HELP: &str = "\
Examples:
  # Follow an upgrade until it is Ready (exit 0) or Stalled (exit 3)
  kubectl mcu status spring -w --timeout 6h

  # Which clusters failed, and why one of them did
  kubectl mcu clusters spring --phase Failed
  kubectl mcu why spring edge-17

  # Check a manifest before it is committed, and rehearse it
  kubectl mcu lint -f upgrade.yaml
  kubectl mcu rehearse -f upgrade.yaml

  # List the updates of one cluster, and what blocks them
  kubectl mcu updates --context edge-17 --include-not-recommended

  # Find a path from one release to another
  kubectl mcu graph path 4.12.0 4.16 --url https://updates.example.com/api/upgrades_info

Exit codes:
  0    the command succeeded; with status -w, the upgrade is Ready
  1    the hub or the cluster rejected the request, an object was not found, lint found violations, no path exists, or the requested update is not allowed
  2    the command line is invalid
  3    status -w: the upgrade is Stalled and needs somebody to act; rehearse: the upgrade would stop before it is complete
  4    status -w: the time limit of --timeout passed first
  130  the command was interrupted by Ctrl-C

`kubectl mcu <Tab>` needs an executable kubectl_complete-mcu in PATH: see `kubectl mcu completion --help`.";

const STATUS_EXAMPLES: &str = "\
Examples:
  # List the upgrades of the namespace, then those of all namespaces
  kubectl mcu status
  kubectl mcu status -A -o wide

  # Show one upgrade: its counts, its slots, what it is waiting for, and what to do
  kubectl mcu status spring -n upgrades

  # In a pipeline: exit 0 on Ready, 3 on Stalled, 4 after two hours
  kubectl mcu status spring -w --timeout 2h";

const CLUSTERS_EXAMPLES: &str = "\
Examples:
  kubectl mcu clusters spring
  kubectl mcu clusters spring --phase Failed --phase Blocked -o wide
  kubectl mcu clusters spring --phase Complete -o name";

const WHY_EXAMPLES: &str = "\
Examples:
  kubectl mcu why spring edge-17
  kubectl mcu why spring edge-17 -o json";

const PAUSE_EXAMPLES: &str = "\
Examples:
  kubectl mcu pause spring";

const RESUME_EXAMPLES: &str = "\
Examples:
  kubectl mcu resume spring";

const RETRY_EXAMPLES: &str = "\
Examples:
  # List the failed clusters, fix them, then retry them
  kubectl mcu clusters spring --phase Failed --phase PreActionDegraded
  kubectl mcu retry spring";

const LINT_EXAMPLES: &str = "\
Examples:
  kubectl mcu lint -f upgrade.yaml
  kustomize build overlays/prod | kubectl mcu lint -f -
  kubectl mcu lint -f fleet/ --validate warn -o json";

const UPDATES_EXAMPLES: &str = "\
Examples:
  # Read a cluster through its own kubeconfig, or its ClusterVersion from a file
  kubectl mcu updates --kubeconfig edge-17.kubeconfig
  oc get clusterversion version -o yaml | kubectl mcu updates -f - --include-not-recommended

  # Request an update; read the risks before you request one that is not recommended
  kubectl mcu updates --context edge-17 --to 4.14.9
  kubectl mcu updates --context edge-17 --to 4.14.10 --allow-not-recommended";

const REHEARSE_EXAMPLES: &str = "\
Examples:
  # What would happen if this file were applied now, beside all other upgrades of the hub
  kubectl mcu rehearse -f upgrade.yaml

  # How an upgrade that is under way will go on, if 2 of 100 clusters fail
  kubectl mcu rehearse spring -n upgrades --failure-rate 2%

  # Save what was read, and rehearse again without a hub
  kubectl mcu rehearse spring -n upgrades --save hub-of-today
  kubectl mcu rehearse -f upgrade.yaml --from hub-of-today --durations hub-of-today/durations.yaml -o json";

const ORPHANS_EXAMPLES: &str = "\
Examples:
  # List what all deleted upgrades left over, then only what those of one namespace left over
  kubectl mcu orphans
  kubectl mcu orphans -n upgrades -o wide";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  # Complete kubectl-mcu itself
  source <(kubectl mcu completion bash)

  # Complete `kubectl mcu` through kubectl's own completion
  kubectl mcu completion kubectl > ~/.local/bin/kubectl_complete-mcu
  chmod +x ~/.local/bin/kubectl_complete-mcu";

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
    /// File with the durations of steps. Without it, reports of the hub count, or usual times are assumed.
    #[arg(long, value_name = "FILE")]
    pub durations: Option<PathBuf>,
    /// Share of clusters whose update fails, such as 0.02 or 2%.
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub failure_rate: f64,
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

/// Flags of `completion`.
#[derive(Clone, Debug, Args)]
pub struct CompletionArgs {
    /// The shell, or kubectl for the executable kubectl_complete-mcu.
    #[arg(value_enum)]
    pub shell: Shell,
}

/// The programs that a completion script is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// bash.
    Bash,
    /// zsh.
    Zsh,
    /// fish.
    Fish,
    /// kubectl's completion of plugins, which works in any shell.
    Kubectl,
}

/// The words of the command line to complete. The last word is unfinished.
#[derive(Clone, Debug, Args)]
pub struct CompleteArgs {
    /// Words after `kubectl mcu`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

fn phases() -> impl TypedValueParser<Value = Phase> {
    let names = Phase::ALL.map(|phase| PossibleValue::new(phase.as_str()));
    PossibleValuesParser::new(names).try_map(|text| {
        Phase::ALL
            .into_iter()
            .find(|phase| phase.as_str().eq_ignore_ascii_case(&text))
            .ok_or("not a phase")
    })
}

/// A share from 0 to 1, or from 0% to 100%.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text
        .strip_suffix('%')
        .map_or((text, 1.0), |number| (number, 100.0));
    let share = number.parse::<f64>().ok().map(|number| number / unit);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "must be a share from 0 to 1, or from 0% to 100%".to_owned())
}

fn duration(text: &str) -> Result<TimeDelta, String> {
    api::validate::parse_duration(text)
        .ok_or_else(|| "must be a duration such as 30s, 90m or 1h30m (days are not supported)".to_owned())
}

/// A duration, or a number of seconds as in kubectl.
fn request_timeout(text: &str) -> Result<TimeDelta, String> {
    let seconds = text.parse::<u32>().ok();
    seconds.map_or_else(
        || duration(text),
        |seconds| Ok(TimeDelta::seconds(seconds.into())),
    )
}

/// The name of a namespace. An empty text means none, because a script may pass an unset variable.
fn namespace(text: &str) -> Result<String, String> {
    if text.is_empty() {
        return Ok(String::new());
    }
    object_name(text)
}

/// The name of an object as the API server accepts it. Other texts could change the path of the request.
fn object_name(text: &str) -> Result<String, String> {
    let message = "a name consists of at most 253 lower-case letters, digits, - and ., and begins and ends with a letter or a digit";
    let name = api::validate::is_subdomain(text).then(|| text.to_owned());
    name.ok_or_else(|| message.to_owned())
}

#[cfg(test)]
mod tests;
