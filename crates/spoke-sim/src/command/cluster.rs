//! `spoke-sim cluster`.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;
use spoke_sim::spoke::setup::Setup;
use spoke_sim::spoke::{Options, Spoke};

use super::{config, log, stop_signal};

/// What `--help` says.
pub const LONG: &str = "\
Plays what runs on one OpenShift cluster on its real API server.

The API server has the CRDs of ClusterVersion, ClusterOperator and MachineConfigPool, and OLM's if Subscriptions
are to be played; a kube-controller-manager runs Jobs, namespaces, garbage collection and role aggregation. Played
are the cluster-version operator (by the rules of the real one), the cluster operators, the machines and their pools,
OLM, and the kubelet: pods' own commands run as processes of this machine, with `oc` and `kubectl` on their PATH.

The cluster is installed where it is missing, and a restart goes on from what the API server holds.

Faults are given by the scenario (--scenario), by flags (--fault), or while it runs by an annotation:

  kubectl annotate clusterversion version --overwrite 'spoke-sim.mcu/fault=degraded=network,50m'
  kubectl annotate clusterversion version --overwrite spoke-sim.mcu/fault=none

Durations of faults are simulated time: with --speed 60 an hour is a minute.

Faults (several are joined by ;):
  slow[=FACTOR]                     payload, operators and machines take FACTOR times longer (5)
  slow-operator=NAME[,DURATION]     an operator takes so much longer (45m)
  degraded=NAME[,DURATION]          Degraded=True for so long from the start of its update (40m)
  unavailable=NAME[,DURATION]       Available=False likewise (5m)
  cluster-down[=DURATION]           the apply loop finds the API servers down after they rolled (3m)
  apply-failing[=DURATION]          a Deployment cannot be applied then; with cluster-down: MultipleErrors (3m)
  drain-stuck[=POOL[,DURATION]]     the first machine of a pool cannot be drained (worker, for-ever)
  pull-failing[=POOL[,DURATION]]    the first machine of a pool cannot pull its system (master, 30m)
  api-outage[=DURATION]             nobody reaches the API server through --door while a master reboots (10m)
  unverified[=MESSAGE]              payloads cannot be verified
  monitoring-outage[=DURATION]      PromQL cannot be evaluated; with a duration from the start of each update
  update-service-outage[=DURATION]  the update service cannot be reached; likewise
  retarget=VERSION[,AFTER]          an admin asks for another version in mid-update (15m)
  not-upgradeable=NAME[,REASON: MESSAGE]  Upgradeable=False on an operator
  deleting=RESOURCE                 a resource of the release hangs in deletion
  no-install-plan                   OLM makes no InstallPlans
  frozen                            the cluster-version operator is away";

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
    /// A fault beyond those of the scenario
    #[arg(long = "fault", value_name = "FAULT")]
    faults: Vec<String>,
    /// How many times faster than real the cluster's clock runs
    #[arg(long, value_name = "FACTOR", default_value_t = 60.0)]
    speed: f64,
    /// URL of the update service's graph; wins over spec.upstream
    #[arg(long, value_name = "URL")]
    update_service: Option<String>,
    /// URL of the cluster's Prometheus; without one no risk can be evaluated
    #[arg(long, value_name = "URL")]
    prometheus: Option<String>,
    /// Serve /metrics and /healthz here
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Forward to the API server from here, as long as no outage is played
    #[arg(long, value_name = "ADDR")]
    door: Option<SocketAddr>,
    /// The kubectl that pods find as oc and kubectl
    #[arg(long, value_name = "FILE")]
    kubectl: Option<PathBuf>,
    /// Directory of the pods, their output is in logs/; a temporary one when absent
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Log filter, e.g. info or debug
    #[arg(long, env = "SPOKE_SIM_LOG", default_value = "info")]
    log: String,
}

/// Plays until a signal.
pub async fn run(args: &ClusterArgs) -> Result<()> {
    log(&args.log)?;
    let options = options(args)?;
    let scratch = args.dir.is_none().then(|| options.dir.clone());
    let played = play(args, options).await;
    if let Some(scratch) = scratch {
        let _ = std::fs::remove_dir_all(scratch);
    }
    played
}

async fn play(args: &ClusterArgs, options: Options) -> Result<()> {
    let config = config(args.kubeconfig.as_deref(), args.context.as_deref()).await?;
    let start = Spoke::start(config, options);
    let spoke = tokio::select! {
        spoke = start => spoke.context("starting the cluster")?,
        stopped = stop_signal() => return stopped,
    };
    tokio::select! {
        () = spoke.ready() => {
            tracing::info!(metrics = ?spoke.metrics_address(), door = ?spoke.door_address(), "playing");
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
        setup.faults.add(fault).context("--fault")?;
    }
    anyhow::ensure!(
        args.speed.is_finite() && args.speed > 0.0,
        "--speed: a positive number is wanted"
    );
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("spoke-sim-cluster-{}", std::process::id())),
    };
    Ok(Options {
        update_service: args.update_service.clone(),
        prometheus: args.prometheus.clone(),
        listen: args.listen,
        door: args.door,
        kubectl: args.kubectl.clone(),
        seed: args.seed,
        ..Options::new(setup, args.speed, dir)
    })
}
