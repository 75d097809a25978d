//! `cargo xtask hub`: the binaries of a hub, and a hub that runs until it is stopped.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use repository::{Profile, Programs};
use testenv::assets::ToolCache;
use testenv::detached::{self, Record};
use testenv::placement::{self, PlacementSpec};
use testenv::{Assets, Controllers, FleetSpec, Hub, Tool, console, fleet, one_program, stderr_progress};

/// The set that `hub up --clusters` makes, the placement that chooses all of it, and their namespace.
const SET: &str = "fleet";
const NAMESPACE: &str = "default";

/// A hub for manual use and scripts
#[derive(Debug, Parser)]
#[command(name = "cargo xtask hub", bin_name = "cargo xtask hub", version)]
enum HubCommand {
    /// Locate or build the binaries of a hub and of a registry; the last line is the directory that holds them.
    Assets,
    /// Start a hub that outlives this command, and print its kubeconfig.
    ///
    /// Without --sim it is real: etcd, kube-apiserver, kube-controller-manager and OCM's placement controller, which are downloaded
    /// or built at first. Controller and agents are not started: run yours.
    ///
    /// With --sim it is simulated in memory and needs Rust and a C compiler: an API server with all CRDs, a scheduler of Placements, an agent
    /// with a simulated cluster behind each ManagedCluster, and the real mcu-controller, unless --no-controller is given. Every
    /// client is an administrator, and there are no admission policies.
    Up {
        /// Managed clusters to create, in ManagedClusterSet `fleet`, bound in namespace `default`.
        #[arg(long, value_name = "N", default_value_t = 0)]
        clusters: usize,
        /// Simulate the hub in memory, with agents and controller.
        #[arg(long)]
        sim: bool,
        /// Without mcu-controller on the simulated hub, so that you can run yours.
        #[arg(long, requires = "sim")]
        no_controller: bool,
    },
    /// Stop the hub started by `up` and remove its data.
    Down,
}

fn main() -> ExitCode {
    let command = HubCommand::parse();
    console::run(|| {
        tokio::runtime::Runtime::new()?.block_on(run(command))?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn run(command: HubCommand) -> Result<()> {
    match command {
        HubCommand::Assets => assets().await,
        HubCommand::Up {
            clusters,
            sim: true,
            no_controller,
        } => simulated(clusters, no_controller).await,
        HubCommand::Up { clusters, .. } => up(clusters).await,
        HubCommand::Down => down().await,
    }
}

async fn assets() -> Result<()> {
    let cache = ToolCache::from_env()?;
    let assets = Assets::locate_or_build_in(&cache, &Tool::ALL, &stderr_progress).await?;
    for tool in Tool::ALL {
        eprintln!("{:<24} {}", tool.binary(), assets.path(tool).display());
    }
    println!("{}", assets.dir().display());
    Ok(())
}

/// One detached hub at a time.
fn ensure_none() -> Result<()> {
    match Record::load()? {
        Some(record) => bail!(
            "a hub runs already, KUBECONFIG={}; stop it with `hub down`",
            record.kubeconfig.display()
        ),
        None => Ok(()),
    }
}

async fn up(clusters: usize) -> Result<()> {
    ensure_none()?;
    let assets = Assets::locate_or_build(&stderr_progress).await?;
    let hub = Hub::builder()
        .assets(assets)
        .controller_manager(Controllers::standard())
        .placement()
        .detached()
        .start()
        .await?;
    if clusters > 0 {
        eprintln!("creating {clusters} clusters");
        populate(&hub, clusters)
            .await
            .context("the hub runs; stop it with `hub down`")?;
    }
    eprintln!(
        "real hub (kube-apiserver) at {}, data and logs in {}",
        hub.server(),
        hub.dir().display()
    );
    println!("{}", hub.kubeconfig_path().display());
    Ok(())
}

async fn simulated(clusters: usize, no_controller: bool) -> Result<()> {
    ensure_none()?;
    let programs = Programs::build(Profile::Quick(&["demo", "kubectl-mcu"]))?;
    let mut arguments = vec!["serve".to_owned(), format!("--clusters={clusters}")];
    arguments.extend(no_controller.then(|| "--no-controller".to_owned()));
    let record = one_program::start("demo", &programs.path("demo"), &arguments).await?;
    eprintln!(
        "SIMULATED hub in memory, log in {}\nkubectl-mcu is in {}\n\
         an update takes half a minute here; an expected end is that of real clusters, hours away, until 5 clusters have finished \
         and the controller estimates again, which it does every 5 minutes",
        record.dir.display(),
        programs.dir().display()
    );
    println!("{}", record.kubeconfig.display());
    Ok(())
}

async fn populate(hub: &Hub, clusters: usize) -> Result<()> {
    let fleet = FleetSpec::numbered("spoke", clusters)
        .in_set(SET)
        .bound_in(NAMESPACE);
    fleet::create(hub.client(), &fleet).await?;
    placement::write(hub.client(), NAMESPACE, SET, &PlacementSpec::of_sets(&[SET])).await
}

async fn down() -> Result<()> {
    let stopped = detached::down().await?;
    eprintln!("{}", if stopped { "hub stopped" } else { "no hub runs" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::HubCommand::command().debug_assert();
    }
}
