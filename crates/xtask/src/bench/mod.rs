//! `cargo xtask bench`: measurements against the bars of `docs/benchmarks.md`.
//!
//! Times are measured on release builds; where the bar is a ratio, both sides run on the same hub in the same run.

pub mod audit;
mod bare;
pub mod bars;
mod day;
pub mod fleet;
pub mod graph;
mod history;
pub mod measures;
mod plan;
mod rollout_round;
mod silent_round;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Subcommand;

use crate::workspace::{Reentry, in_release};

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// A fleet upgrade on a real hub with simulated agents.
    Fleet(fleet::FleetArgs),
    /// A day of a fleet: everything that goes wrong on one, and how each cluster ends. Not a measurement of time.
    Day(day::DayArgs),
    /// One plan over a large fleet.
    Plan(plan::PlanArgs),
    /// The update graph: snapshot, service and path query, on real data.
    Graph(graph::GraphBenchArgs),
    /// The bare server of `bench graph`.
    #[command(hide = true)]
    BareServer(graph::bare::BareArgs),
}

/// Runs a measurement; the exit code says whether every bar was met.
///
/// # Errors
/// The measurement itself fails.
pub fn run(command: &BenchCommand) -> Result<ExitCode> {
    if let BenchCommand::BareServer(args) = command {
        tokio::runtime::Runtime::new()?.block_on(graph::bare::serve(args))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let BenchCommand::Day(args) = command {
        if !tokio::runtime::Runtime::new()?.block_on(day::run(args))? {
            bail!("not every cluster ended as it should");
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Reentry::Done(code) = in_release()? {
        return Ok(u8::try_from(code).map_or(ExitCode::FAILURE, ExitCode::from));
    }
    let met = match command {
        BenchCommand::Fleet(args) => tokio::runtime::Runtime::new()?.block_on(fleet::run(args))?,
        BenchCommand::Plan(args) => plan::run(args)?,
        BenchCommand::Graph(args) => graph::run(args)?,
        BenchCommand::Day(_) | BenchCommand::BareServer(_) => true,
    };
    if !met {
        bail!("a bar was missed");
    }
    Ok(ExitCode::SUCCESS)
}
