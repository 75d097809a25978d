//! `spoke-sim agents`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use kube::Client;
use spoke_sim::{Agents, Pace, Scenario};

use super::{config, duration, log, stop_signal};

pub const LONG: &str = "\
Plays the work agents of clusters on a hub.

ManifestWorks in the namespaces of the played clusters are applied to simulated clusters held in memory and
reported on as the real work agent does: finalizer, conditions, feedback values, condition rules. Behind the
agents a ClusterVersion accepts, progresses and completes updates on a scaled clock, Jobs run and end, workloads
become available. The simulated clusters are as new at every start.

Faults are given by a scenario file (--scenario), by flags (--fault), or while it runs by an annotation:

  kubectl annotate managedcluster spoke-3 --overwrite 'spoke-sim.mcu/fault=failing=etcd is down'
  kubectl annotate managedcluster spoke-3 --overwrite spoke-sim.mcu/fault=none

Faults (several are joined by ;):
  slow[=FACTOR]               everything takes FACTOR times longer (5)
  stuck[=PERCENT]             updates stay Partial at PERCENT (85), Jobs never end
  failing[=MESSAGE]           updates end up Failing=True, Jobs fail
  job-fails[=MESSAGE]         Jobs fail
  flapping[=PERIOD[,available]]  the agent (with `available`: the objects) is away every other PERIOD (30s)
  offline                     the agent writes nothing
  refusing[=REASON: MESSAGE]  Upgradeable=False; minor updates are not accepted
  lying[=stale|early]         feedback stays at the old version, or says Completed too early
  forbidden[=always]          no RBAC for ClusterVersion until a work grants it (always: never)
  unoffered                   no version is on offer: version-only requests are Invalid
  not-in-channel              no channel has the release that runs; as unoffered
  risk=NAME[: MESSAGE]        what is asked for is not recommended: the risk applies; as unoffered

These are the words of `spoke-sim cluster`, with durations in simulated time:
  slow-operator=OPERATOR[,DURATION]  the update waits so long for it (45m)
  degraded=OPERATOR[,DURATION]       so long Degraded in mid-update (40m; for-ever)
  unavailable=OPERATOR[,DURATION]    so long not available in mid-update (5m)
  drain-stuck=master[,DURATION]      a master cannot be drained (for ever)
  unverified[=MESSAGE]               releases cannot be verified
  update-service-outage              no updates are retrieved; as unoffered";

/// Arguments of `spoke-sim agents`.
#[derive(Args)]
pub struct AgentsArgs {
    /// Kubeconfig of the hub; KUBECONFIG, ~/.kube/config or the service account when absent
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
    /// Clusters to play: names or patterns with *, separated by commas
    #[arg(
        long,
        value_name = "PATTERN",
        value_delimiter = ',',
        conflicts_with = "all",
        required_unless_present = "all"
    )]
    clusters: Vec<String>,
    /// Play every cluster of the hub
    #[arg(long)]
    all: bool,
    /// Works with these labels only
    #[arg(long, value_name = "SELECTOR", default_value = "")]
    work_selector: String,
    /// From create to terminal feedback in exactly SECONDS, one Partial half-way; 0: agents that write nothing
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["time_scale", "update_duration"])]
    agent_seconds: Option<f64>,
    /// Simulated over real time: 0.01 makes an hour 36 seconds
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0 / 120.0)]
    time_scale: f64,
    /// What an update takes in real time, before scaling
    #[arg(long, value_name = "DURATION", default_value = "60m", value_parser = duration)]
    update_duration: Duration,
    /// Scenario file (YAML): faults and installed versions
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// Fault of some clusters: name=PATTERN:FAULT, label=KEY=VALUE:FAULT, index=N:FAULT, percent=P:FAULT
    #[arg(long = "fault", value_name = "SELECTOR:FAULT")]
    faults: Vec<String>,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Feedback of polled resources is this late, times 1-1.9; 0s reports changes at once
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    status_sync_interval: Duration,
    /// Collect lists and objects as raw JSON (the agents' alpha gate)
    #[arg(long)]
    raw_feedback_json_string: bool,
    /// Longest raw JSON value, bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    max_json_raw_length: usize,
    /// Most writes to the hub at one time
    #[arg(long, default_value_t = 48)]
    concurrency: usize,
    /// Show clusters whose agent is away as Available=Unknown on their ManagedCluster
    #[arg(long)]
    heartbeat: bool,
    /// Serve /metrics and /healthz here, e.g. 127.0.0.1:9090
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Log filter, e.g. info or debug
    #[arg(long, env = "SPOKE_SIM_LOG", default_value = "info")]
    log: String,
}

/// Plays until a signal.
pub async fn run(args: &AgentsArgs) -> Result<()> {
    log(&args.log)?;
    let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let agents = start(args, Client::try_from(config).context("client")?).await?;
    agents.ready().await;
    let stats = agents.stats();
    tracing::info!(clusters = stats.clusters, works = stats.works, "playing");
    stop_signal().await?;
    tracing::info!(stats = ?agents.stats(), "stopping");
    agents.stop().await;
    Ok(())
}

async fn start(args: &AgentsArgs, client: Client) -> Result<Agents> {
    let mut scenario = match &args.scenario {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("reading {}", path.display()))?
            .parse()
            .with_context(|| format!("reading {}", path.display()))?,
        None => Scenario::default(),
    };
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
