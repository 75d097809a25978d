//! `cargo xtask demo`: shows a fleet upgrade on a real hub from start to end.
//!
//! This file builds the programs, handles Ctrl-C, and says what is left behind with `--keep`; [`phases`] has the course of
//! the upgrade. The demo only uses what every user can see: status, report rows and works.

mod fixtures;
mod phases;
mod snapshot;
mod summary;
mod view;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Parser;
use repository::{Profile, Programs};
use testenv::detached::{self, Record};
use testenv::{Assets, Hub, Tool, console, stderr_progress};
use tokio::signal::unix::{SignalKind, signal};

use fixtures::{FEWEST, Fixtures, NAMESPACE, UPGRADE};
use view::View;

/// Exit code after Ctrl-C, as shells have it.
const INTERRUPTED: u8 = 130;

/// Upgrade a fleet of simulated clusters on a real hub while you watch.
#[derive(Clone, Debug, Parser)]
#[command(name = "cargo xtask demo", bin_name = "cargo xtask demo", version)]
struct DemoArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 24)]
    clusters: usize,
    /// Leave the hub running, and print how to look around on it.
    #[arg(long)]
    keep: bool,
    /// No colours.
    #[arg(long)]
    no_color: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = DemoArgs::parse();
    console::run(|| run(&args))
}

/// Runs the demo; the exit code is 0 when the end is as expected.
///
/// # Errors
/// Something is missing and cannot be built, or the end is not as expected; the message says what.
fn run(args: &DemoArgs) -> Result<ExitCode> {
    if args.clusters < FEWEST {
        bail!("--clusters: at least {FEWEST}, two canaries and two that will fail");
    }
    if args.keep
        && let Some(record) = Record::load()?
    {
        bail!(
            "a hub runs already, KUBECONFIG={}; stop it with cargo xtask hub down",
            record.kubeconfig.display()
        );
    }
    eprintln!("building the programs");
    let programs = Programs::build(Profile::own())?;
    tokio::runtime::Runtime::new()?.block_on(async {
        tokio::select! {
            outcome = show(args, &programs) => outcome.map(|()| ExitCode::SUCCESS),
            stopped = interrupted() => {
                stopped?;
                eprintln!("\ninterrupted; cleaning up");
                if args.keep {
                    detached::down().await?;
                }
                Ok(ExitCode::from(INTERRUPTED))
            }
        }
    })
}

async fn interrupted() -> Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

async fn show(args: &DemoArgs, programs: &Programs) -> Result<()> {
    let assets = Assets::locate_or_build(&stderr_progress).await?;
    let fixtures = Fixtures::new(args.clusters);
    let mut view = View::new(args.no_color);
    let hub = phases::prepare(&mut view, assets, &fixtures, programs, args.keep).await?;
    let outcome = phases::run(&mut view, &hub, &fixtures).await;
    if args.keep {
        let farewell = farewell(&hub, programs, &fixtures);
        // Also after a failure: a user who keeps the hub wants to inspect it.
        match &outcome {
            Ok(result) => finish(args, result)?,
            Err(_) => eprintln!(),
        }
        eprintln!("{farewell}");
        outcome.map(drop)
    } else {
        view.settle();
        hub.stop().await?;
        finish(args, &outcome?)
    }
}

fn finish(args: &DemoArgs, result: &summary::Summary) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string_pretty(result)?);
    } else {
        print!("\n{result}");
    }
    Ok(())
}

/// How to inspect a hub that stays.
fn farewell(hub: &Hub, programs: &Programs, fixtures: &Fixtures) -> String {
    let tools = hub
        .assets()
        .path(Tool::Kubectl)
        .parent()
        .map(|dir| dir.display().to_string())
        .unwrap_or_default();
    format!(
        "\nThe hub stays. To look around:\n\n  \
         export KUBECONFIG={}\n  \
         export PATH={tools}:{}:$PATH\n  \
         kubectl get mcu -n {NAMESPACE} -o wide\n  \
         kubectl mcu status {UPGRADE} -n {NAMESPACE}\n  \
         kubectl mcu clusters {UPGRADE} -n {NAMESPACE}\n  \
         kubectl mcu why {UPGRADE} {} -n {NAMESPACE}\n  \
         kubectl get events -n {NAMESPACE} --sort-by=.metadata.creationTimestamp\n  \
         kubectl patch mcu {UPGRADE} -n {NAMESPACE} --type=merge -p '{{\"spec\":{{\"clusterVersion\":{{\"version\":\"4.12.1\"}}}}}}'\n\n\
         Logs are in {}\n\
         To stop it: cargo xtask hub down",
        hub.kubeconfig_path().display(),
        programs.dir().display(),
        fixtures.failing,
        hub.dir().display(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        DemoArgs::command().debug_assert();
    }
}
