//! `spoke-sim agents`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use kube::Client;
use spoke_sim::fault::{Simulator, help};
use spoke_sim::{Agents, Pace, Scenario};

use super::{config, duration, log, stop_signal};

/// The text of `--help` before the options.
pub fn long_about() -> String {
    format!("{ABOUT}{}", help(Simulator::Agents))
}

const ABOUT: &str = "\
Simulates the work agents of clusters on a hub.

The agents apply the ManifestWorks in the namespaces of their clusters to clusters in memory, and report on them as the real
work agent does: finalizer, conditions, feedback values, condition rules. Behind the agents a ClusterVersion accepts, performs
and completes updates on a scaled clock, Jobs run and end, and workloads become available. The simulated clusters start anew
with the program.

Faults are given by a scenario file (--scenario), by flags (--fault), or at run time by an annotation:

  kubectl annotate managedcluster spoke-3 --overwrite 'spoke-sim.mcu/fault=failing=etcd is down'
  kubectl annotate managedcluster spoke-3 --overwrite spoke-sim.mcu/fault=none

Faults, several of them joined by ; with defaults in parentheses. Durations are simulated time unless noted otherwise:
";

/// Arguments of `spoke-sim agents`.
#[derive(Args)]
pub struct AgentsArgs {
    /// Kubeconfig of the hub; KUBECONFIG, ~/.kube/config or the service account when absent
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
    /// Clusters to simulate: names or patterns with *, separated by commas
    #[arg(
        long,
        value_name = "PATTERN",
        value_delimiter = ',',
        conflicts_with = "all",
        required_unless_present = "all"
    )]
    clusters: Vec<String>,
    /// Simulate every cluster of the hub
    #[arg(long)]
    all: bool,
    /// Only works with these labels
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    work_selector: String,
    /// Take exactly SECONDS from the creation of a work to its final feedback, with one Partial half-way; 0: the agents write nothing
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["time_scale", "update_duration"])]
    agent_seconds: Option<f64>,
    /// Real time per simulated time: 0.01 makes an hour 36 seconds
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0 / 120.0)]
    time_scale: f64,
    /// How long an update takes, before scaling
    #[arg(long, value_name = "DURATION", default_value = "60m", value_parser = duration)]
    update_duration: Duration,
    /// Scenario file (YAML): faults and installed versions. Without it, clusters whose ManagedCluster tells no version have 4.19.15
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Faults of some clusters: name=PATTERN:FAULT, label=KEY=VALUE:FAULT, index=N:FAULT, percent=P:FAULT
    #[arg(long = "fault", value_name = "SELECTOR:FAULT")]
    faults: Vec<String>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Interval at which agents poll resources, times 1 to 1.9; 0s reports changes at once
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    status_sync_interval: Duration,
    /// Collect lists and objects as raw JSON (an alpha feature gate of the agents)
    #[arg(long)]
    raw_feedback_json_string: bool,
    /// Maximum length of a raw JSON value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    max_json_raw_length: usize,
    /// Maximum number of concurrent writes to the hub
    #[arg(long, default_value_t = 48)]
    concurrency: usize,
    /// Set Available=Unknown on the ManagedClusters whose agent is away
    #[arg(long)]
    heartbeat: bool,
    /// Serve /metrics and /healthz here, e.g. 127.0.0.1:9090
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Log filter, e.g. info or debug
    #[arg(long, env = "SPOKE_SIM_LOG", default_value = "info")]
    log: String,
}

/// Simulates until a signal arrives.
pub async fn run(args: &AgentsArgs) -> Result<()> {
    log(&args.log)?;
    let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let agents = start(args, Client::try_from(config).context("client")?).await?;
    agents.ready().await;
    let stats = agents.stats();
    tracing::info!(clusters = stats.clusters, works = stats.works, "running");
    stop_signal().await?;
    tracing::info!(stats = ?agents.stats(), "stopping");
    agents.stop().await;
    Ok(())
}

async fn start(args: &AgentsArgs, client: Client) -> Result<Agents> {
    let mut scenario = scenario(args.scenario.as_deref())?;
    for fault in &args.faults {
        scenario.add_flag(fault)?;
    }
    let mut builder = Agents::builder(client)
        .clusters(if args.all {
            Vec::new()
        } else {
            args.clusters.clone()
        })
        .work_selector(&args.work_selector)
        .scenario(scenario)
        .seed(args.seed)
        .status_sync_interval(args.status_sync_interval)
        .concurrency(args.concurrency)
        .heartbeat(args.heartbeat);
    builder = match args.agent_seconds {
        Some(seconds) => builder.agent_seconds(seconds),
        None => builder.pace(Pace::scaled(args.time_scale, args.update_duration)),
    };
    if args.raw_feedback_json_string {
        builder = builder.raw_json(args.max_json_raw_length);
    }
    if let Some(address) = args.listen {
        builder = builder.listen(address);
    }
    builder.start().await.context("starting the agents")
}

/// What a scenario file says, or clusters of a current version.
fn scenario(file: Option<&Path>) -> Result<Scenario> {
    let Some(path) = file else {
        return Ok(Scenario {
            version: "4.19.15".to_owned(),
            ..Scenario::default()
        });
    };
    std::fs::read_to_string(path)
        .with_context(|| format!("reading {}", path.display()))?
        .parse::<Scenario>()
        .with_context(|| format!("reading {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_without_a_scenario_have_the_version_that_the_help_says() {
        let version = scenario(None).unwrap().version;
        let command = AgentsArgs::augment_args(clap::Command::new("agents"));
        let mut flags = command.get_arguments();
        let flag = flags.find(|flag| flag.get_id() == "scenario").unwrap();
        assert!(flag.get_help().unwrap().to_string().ends_with(&version));
    }
}
