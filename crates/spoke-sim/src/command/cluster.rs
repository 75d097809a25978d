//! `spoke-sim cluster`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use spoke_sim::fault::{Simulator, help};
use spoke_sim::spoke::setup::Setup;
use spoke_sim::spoke::{Options, Spoke};

use super::{config, log, stop_signal};

/// The text of `--help` before the options.
pub fn long_about() -> String {
    format!("{ABOUT}{}", help(Simulator::Cluster))
}

const ABOUT: &str = "\
Simulates what runs on one OpenShift cluster on its real API server.

The API server needs the CRDs of ClusterVersion, ClusterOperator and MachineConfigPool, and those of OLM to simulate
Subscriptions. A kube-controller-manager runs Jobs, namespaces, garbage collection and role aggregation. Simulated are the
cluster-version operator (by the rules of the real one), the cluster operators, the machines and their pools, OLM, and the
kubelet: the commands of pods run as processes of this machine, with `oc` and `kubectl` on their PATH.

The simulator installs the cluster if it is missing, and continues from what the API server holds after a restart.

Faults are given by the scenario (--scenario), by flags (--fault), or at run time by an annotation:

  kubectl annotate clusterversion version --overwrite 'spoke-sim.mcu/fault=degraded=network,50m'
  kubectl annotate clusterversion version --overwrite spoke-sim.mcu/fault=none

Faults, several of them joined by ; with defaults in parentheses. Durations are simulated time: with --speed 60 an hour is a
minute.
";

/// Arguments of `spoke-sim cluster`.
#[derive(Args)]
pub struct ClusterArgs {
    /// Kubeconfig of the cluster; KUBECONFIG, ~/.kube/config or the service account when absent
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long)]
    context: Option<String>,
    /// Scenario file (YAML): installed version, payloads, gates, operators, durations, faults
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// A fault in addition to those of the scenario
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// How many times faster than real time the cluster's clock runs
    #[arg(long, value_name = "FACTOR", default_value_t = 60.0)]
    speed: f64,
    /// URL of the update service's graph; takes precedence over spec.upstream
    #[arg(long, value_name = "URL")]
    update_service: Option<String>,
    /// URL of the cluster's Prometheus; without it no risk can be evaluated
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Serve /metrics and /healthz here
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Forward connections to the API server from here, except during a simulated outage
    #[arg(long, value_name = "ADDR")]
    tcp_proxy: Option<SocketAddr>,
    /// The kubectl that pods find as oc and kubectl on their PATH
    #[arg(long, value_name = "FILE")]
    kubectl: Option<PathBuf>,
    /// Directory of the pods, with their output in logs/; a temporary one when absent
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Log filter, e.g. info or debug
    #[arg(long, env = "SPOKE_SIM_LOG", default_value = "info")]
    log: String,
}

/// Simulates until a signal arrives.
pub async fn run(args: &ClusterArgs) -> Result<()> {
    log(&args.log)?;
    let options = options(args)?;
    let scratch = args.dir.is_none().then(|| options.dir.clone());
    let result = simulate(args, options).await;
    if let Some(scratch) = scratch {
        let _ = std::fs::remove_dir_all(scratch);
    }
    result
}

async fn simulate(args: &ClusterArgs, options: Options) -> Result<()> {
    let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let start = Spoke::start(config, options);
    let spoke = tokio::select! {
        spoke = start => spoke.context("starting the cluster")?,
        stopped = stop_signal() => return stopped,
    };
    tokio::select! {
        () = spoke.ready() => {
            tracing::info!(metrics = ?spoke.metrics_address(), tcp_proxy = ?spoke.proxy_address(), "running");
            stop_signal().await?;
        }
        stopped = stop_signal() => stopped?,
    }
    tracing::info!("stopping");
    spoke.stop().await;
    Ok(())
}

fn options(args: &ClusterArgs) -> Result<Options> {
    let mut setup: Setup = match &args.scenario {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("reading {}", path.display()))?
            .parse()
            .with_context(|| format!("reading {}", path.display()))?,
        None => Setup::default(),
    };
    for fault in &args.faults {
        setup
            .faults
            .extend(fault, Simulator::Cluster)
            .context("--fault")?;
    }
    anyhow::ensure!(
        args.speed.is_finite() && args.speed > 0.0,
        "--speed: expected a positive number"
    );
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("spoke-sim-cluster-{}", std::process::id())),
    };
    Ok(Options {
        update_service: args.update_service.clone(),
        prometheus: args.prometheus.clone(),
        listen: args.listen,
        tcp_proxy: args.tcp_proxy,
        kubectl: args.kubectl.clone(),
        seed: args.seed,
        ..Options::new(setup, args.speed, dir)
    })
}
