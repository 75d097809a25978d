//! `cargo xtask demo`: shows a fleet upgrade from start to end, on a hub in memory or, with `--real-hub`, on a real one.
//!
//! This file reads the command line and handles Ctrl-C. [`simulated`] and [`real`] start a hub with everything on it, [`story`] has
//! the course of the upgrade, and [`picture`] shows it with `kubectl mcu status -w`. The demo only uses what every user can see:
//! status, report rows and works. `demo serve` is the hub of `cargo xtask hub up --sim`.

mod claims;
mod fixtures;
mod fleet;
mod narrator;
mod picture;
#[cfg(feature = "real-hub")]
mod real;
#[cfg(not(feature = "real-hub"))]
mod real {
    //! Stands in for the real hub in a build without it.
    use anyhow::{Result, bail};

    /// Says how to get the real hub.
    pub async fn show(_: &crate::DemoArgs) -> Result<Option<crate::Kept>> {
        bail!("this program was built without the real hub; run cargo xtask demo --real-hub")
    }

    /// There is nothing to clean up.
    pub async fn clean_up() -> Result<()> {
        Ok(())
    }
}
mod serve;
mod simulated;
mod snapshot;
mod story;
mod summary;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use fixtures::FEWEST;

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Upgrade a fleet of simulated clusters while you watch.
///
/// The hub is simulated, too: an API server in memory with a scheduler of Placements. The controller and kubectl mcu are the real
/// ones. With --real-hub the hub is etcd, kube-apiserver and OCM's placement controller, which are downloaded or built at first.
/// `NO_COLOR` turns colours off.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask demo", bin_name = "cargo xtask demo", version)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    demo: DemoArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Serve a simulated hub with its clusters until interrupted.
    #[command(hide = true)]
    Serve(serve::ServeArgs),
}

/// How to show the upgrade.
#[derive(Clone, Debug, clap::Args)]
struct DemoArgs {
    /// Clusters of the fleet
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clusters)]
    clusters: usize,
    /// Use a real hub: etcd, kube-apiserver, OCM's placement controller; its programs are downloaded or built at first
    #[arg(long)]
    real_hub: bool,
    /// Keep the hub after the end, and print how to look around on it: a simulated hub until Ctrl-C, a real one until
    /// cargo xtask hub down
    #[arg(long)]
    keep: bool,
    /// Print only the summary to standard output, as JSON
    #[arg(long)]
    json: bool,
}

fn clusters(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|_| "not a number".to_owned())?;
    if count < FEWEST {
        return Err(format!("at least {FEWEST}: two canaries and two that will fail"));
    }
    Ok(count)
}

/// A hub that is kept until Ctrl-C, and the directory of its kubeconfig.
type Kept = (simulated::SimulatedHub, tempfile::TempDir);

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let outcome = match &cli.command {
        Some(Command::Serve(args)) => in_runtime(serve::run(args)),
        None => in_runtime(run(&cli.demo)),
    };
    hub_sim::exit_code(outcome)
}

fn in_runtime(program: impl Future<Output = Result<ExitCode>>) -> Result<ExitCode> {
    tokio::runtime::Runtime::new()?.block_on(program)
}

/// Runs the demo; the exit code is 0 when the end is as expected.
async fn run(args: &DemoArgs) -> Result<ExitCode> {
    let kept = tokio::select! {
        biased;
        stopped = interrupted() => {
            stopped?;
            eprintln!("\ninterrupted; cleaning up");
            if args.real_hub && args.keep {
                real::clean_up().await?;
            }
            return Ok(ExitCode::from(INTERRUPTED));
        }
        shown = show(args) => shown?,
    };
    if let Some(_kept) = kept {
        interrupted().await?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn show(args: &DemoArgs) -> Result<Option<Kept>> {
    if args.real_hub {
        Box::pin(real::show(args)).await
    } else {
        Box::pin(simulated::show(args)).await
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn interrupted() -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

fn finish(args: &DemoArgs, result: &summary::Summary) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(result)?);
    } else {
        print!("\n{result}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_fleet_too_small_for_the_story_is_refused() {
        assert!(Cli::try_parse_from(["demo", "--clusters", "3"]).is_err());
        assert!(Cli::try_parse_from(["demo", "--clusters", "4"]).is_ok());
    }
}
