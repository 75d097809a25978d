//! `demo serve`: the hub of `cargo xtask hub up --sim`, a simulated hub to play with.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use spoke_sim::Pace;
use tracing_subscriber::EnvFilter;

use super::fixtures::FROM;
use super::fleet::Fleet;
use super::interrupted;
use super::simulated::{LOG, SimulatedHub};

/// The set of the clusters, the Placement that selects all of it, and their namespace: as on a real hub of `cargo xtask hub up`.
const SET: &str = "fleet";
const NAMESPACE: &str = "default";
/// Simulated over real time: an update of an hour takes half a minute.
const PACE: (f64, Duration) = (1.0 / 120.0, Duration::from_hours(1));

/// What to serve.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// File to which the kubeconfig is written when everything runs.
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// Managed clusters, each behind a simulated work agent.
    #[arg(long, value_name = "N", default_value_t = 0)]
    clusters: usize,
    /// Do not run the controller.
    #[arg(long)]
    no_controller: bool,
}

/// Serves until interrupted.
pub async fn run(args: &ServeArgs) -> Result<ExitCode> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(EnvFilter::new(LOG))
        .init();
    let mut hub = SimulatedHub::start().await?;
    if args.clusters > 0 {
        fleet(args.clusters).create(hub.client()).await?;
    }
    hub.start_agents(Pace::scaled(PACE.0, PACE.1)).await?;
    if !args.no_controller {
        hub.start_controller()?;
    }
    // Whoever waits for the file must not find a part of it.
    let partial = args.kubeconfig.with_extension("partial");
    std::fs::write(&partial, hub.kubeconfig())
        .and_then(|()| std::fs::rename(&partial, &args.kubeconfig))
        .with_context(|| format!("cannot write {}", args.kubeconfig.display()))?;
    interrupted().await?;
    Ok(ExitCode::SUCCESS)
}

fn fleet(clusters: usize) -> Fleet {
    let width = clusters.to_string().len().max(4);
    let names = (1..=clusters).map(|number| format!("spoke-{number:0width$}"));
    Fleet {
        sets: vec![(SET.to_owned(), names.collect())],
        namespace: NAMESPACE.to_owned(),
        placement: SET.to_owned(),
        version: FROM.to_owned(),
    }
}
