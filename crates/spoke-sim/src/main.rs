//! `spoke-sim`: simulated clusters for a real hub.

mod command;

use anyhow::Result;
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
    /// Plays the work agents of clusters on a hub
    #[command(long_about = agents::LONG)]
    Agents(Box<agents::AgentsArgs>),
    /// Plays what runs on one OpenShift cluster on its real API server
    #[command(long_about = cluster::LONG)]
    Cluster(Box<cluster::ClusterArgs>),
}

#[tokio::main]
async fn main() -> Result<()> {
    match Cli::parse().command {
        Command::Agents(args) => agents::run(&args).await,
        Command::Cluster(args) => cluster::run(&args).await,
    }
}
