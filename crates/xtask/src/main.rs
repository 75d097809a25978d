//! The toolbox: everything that is done to this repository by hand or by CI, as `cargo xtask COMMAND`.
//!
//! Owns the commands and the way errors are shown. Refuses to be depended on: no crate of the product knows it.

mod bench;
mod crds;
mod demo;
mod deny;
mod docs;
mod e2e;
mod fence;
mod hub;
mod stage;
mod suite;
mod workspace;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;
use workspace::root;

/// The client's complaints are left out: while a hub starts, asking in vain is how it is waited for.
const LOG: &str = "warn,kube_client=off";

/// Tools of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Upgrade a fleet of simulated clusters on a real hub, before your eyes.
    Demo(demo::DemoArgs),
    /// Run what CI runs: format, lints, fence, drift, dependencies, all tests and a short bench.
    Test(suite::TestArgs),
    /// Upgrade real spokes: a hub, three clusters with OCM's own agents, and everything that can go wrong.
    E2e(e2e::E2eArgs),
    /// A hub for hands and scripts.
    #[command(subcommand)]
    Hub(hub::HubCommand),
    /// Generate the CRDs in crds/.
    Crds {
        /// Only compare; fail if they differ.
        #[arg(long)]
        check: bool,
    },
    /// Generate the reference in docs/reference/.
    Docs {
        /// Only compare; fail if it differs.
        #[arg(long)]
        check: bool,
    },
    /// Check which room depends on which, what pure rooms reach, and house manners.
    Fence,
    /// Measure against the bars of docs/benchmarks.md.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(EnvFilter::new(LOG))
        .init();
    match run(cli.command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Demo(args) => return demo::run(&args),
        Command::Bench(bench) => return bench::run(&bench),
        Command::Test(args) => suite::run(args)?,
        Command::E2e(args) => e2e::run(&args)?,
        Command::Hub(command) => tokio::runtime::Runtime::new()?.block_on(hub::run(command))?,
        Command::Crds { check: true } => crds::check(root())?,
        Command::Crds { check: false } => crds::write(root())?,
        Command::Docs { check: true } => docs::check(root())?,
        Command::Docs { check: false } => docs::write(root())?,
        Command::Fence => fence::run()?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
