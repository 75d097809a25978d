//! `spoke-sim`: simulated clusters for a real hub.

mod command;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::command::{agents, cluster};

/// Simulated clusters for a real Open Cluster Management hub
#[derive(Parser)]
#[command(name = "spoke-sim", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Simulates the work agents of clusters on a hub
    #[command(long_about = agents::long_about())]
    Agents(Box<agents::AgentsArgs>),
    /// Simulates what runs on one OpenShift cluster on its real API server
    #[command(long_about = cluster::long_about())]
    Cluster(Box<cluster::ClusterArgs>),
}

#[tokio::main]
async fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Agents(args) => agents::run(&args).await,
        Command::Cluster(args) => cluster::run(&args).await,
    };
    // Returned, it would be followed by a backtrace where RUST_BACKTRACE is set.
    if let Err(error) = outcome {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
