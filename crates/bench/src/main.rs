//! `cargo xtask bench`: measurements against the thresholds of `docs/benchmarks.md`.
//!
//! Times are measured on release builds; where the threshold is a ratio, both sides run on the same hub in the same run.

mod dashboard;
mod day;
mod estimate;
mod fleet;
mod graph;
mod hub_sim_run;
mod plan;
mod sizing;
mod thresholds;
mod verdicts;
mod windows;

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use clap::Parser;
use repository::Profile;
use testenv::console;

/// Measure against the thresholds of docs/benchmarks.md.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", version)]
enum BenchCommand {
    /// A fleet upgrade on a real hub with simulated agents.
    Fleet(fleet::FleetArgs),
    /// A day of a fleet: everything that goes wrong on one, and how each cluster ends. Not a measurement of time.
    Day(day::DayArgs),
    /// One plan over a large fleet, and the rehearsal of its upgrade.
    Plan(plan::PlanArgs),
    /// How good the estimate of the end of an upgrade is. Not a measurement of time.
    Estimate(estimate::EstimateArgs),
    /// How long a fleet of 3,500 clusters takes, by slots and maintenance windows. Not a measurement of time.
    Sizing,
    /// The upgrade of a very large fleet on a simulated hub: what the controller needs for it.
    HubSim(hub_sim_run::HubSimArgs),
    /// The dashboard of a large fleet in a browser: first paint, changes, memory.
    Dashboard(dashboard::DashboardArgs),
    /// The update graph: snapshot, service and path query, on real data.
    Graph(graph::GraphBenchArgs),
    /// A short fleet upgrade for its counts, which do not depend on the machine: a step of `cargo xtask test`.
    #[command(hide = true)]
    Counts,
    /// The bare client of `bench hub-sim`.
    #[command(hide = true)]
    BareClient(hub_sim_run::BareClientArgs),
    /// The bare server of `bench graph`.
    #[command(hide = true)]
    BareServer(graph::bare::BareArgs),
}

fn main() -> ExitCode {
    let command = BenchCommand::parse();
    console::run(|| run(&command))
}

/// Runs a measurement; the exit code says whether every threshold was met.
fn run(command: &BenchCommand) -> Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new()?;
    let met = match command {
        BenchCommand::BareServer(args) => {
            runtime.block_on(graph::bare::serve(args))?;
            true
        }
        BenchCommand::BareClient(args) => {
            runtime.block_on(hub_sim_run::bare_client(args))?;
            true
        }
        BenchCommand::HubSim(args) => {
            require_release()?;
            runtime.block_on(hub_sim_run::run(args))?
        }
        BenchCommand::Dashboard(args) => {
            require_release()?;
            runtime.block_on(dashboard::run(args))?
        }
        BenchCommand::Counts => {
            runtime.block_on(fleet::check_counts())?;
            runtime.block_on(hub_sim_run::check_counts())?;
            runtime.block_on(dashboard::check_counts())?;
            true
        }
        BenchCommand::Day(args) => {
            ensure!(
                runtime.block_on(day::run(args))?,
                "not every cluster ended as it should"
            );
            true
        }
        BenchCommand::Fleet(args) => {
            require_release()?;
            runtime.block_on(fleet::run(args))?
        }
        BenchCommand::Plan(args) => {
            require_release()?;
            plan::run(args)?
        }
        BenchCommand::Estimate(args) => estimate::run(args)?,
        BenchCommand::Sizing => {
            sizing::run()?;
            true
        }
        BenchCommand::Graph(args) => {
            require_release()?;
            graph::run(args)?
        }
    };
    ensure!(met, "a threshold was missed");
    Ok(ExitCode::SUCCESS)
}

/// # Errors
/// This is a debug build, whose times say nothing.
fn require_release() -> Result<()> {
    if Profile::own() != Profile::Release {
        bail!("times are those of release builds: run cargo xtask bench");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        BenchCommand::command().debug_assert();
    }
}
