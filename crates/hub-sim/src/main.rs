//! `hub-sim serve`: an in-memory hub on a port of this machine.

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use hub_sim::{Hub, Options, exit_code, kubeconfig, serve};
use tokio::net::TcpListener;

/// An in-memory Kubernetes API server with the kinds of a hub.
#[derive(Debug, Parser)]
#[command(name = "hub-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a hub until interrupted. Nothing is kept afterwards.
    Serve(Serve),
}

#[derive(Debug, clap::Args)]
struct Serve {
    /// Address to listen on. There is no authentication, so only this machine should reach it.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))]
    listen: SocketAddr,
    /// File to which a kubeconfig for this hub is written.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// `CustomResourceDefinitions` (YAML or JSON, one per file) to serve besides the built-in ones.
    #[arg(long = "crd", value_name = "FILE")]
    crds: Vec<PathBuf>,
    /// Changes per kind that are remembered for watches and pages. A watch that needs older ones is told to list again.
    #[arg(long, default_value_t = 10_000)]
    history: usize,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Command::Serve(options) = Cli::parse().command;
    exit_code(run(&options).await.map(|()| ExitCode::SUCCESS))
}

async fn run(options: &Serve) -> Result<()> {
    let hub = Hub::new(Options {
        seed: u64::from(std::process::id()),
        history: options.history,
        ..Options::default()
    });
    for path in &options.crds {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let crd = serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))?;
        hub.add_crd(&crd)
            .map_err(|why| anyhow::anyhow!("{}: {why}", path.display()))?;
    }
    let listener = TcpListener::bind(options.listen)
        .await
        .with_context(|| format!("cannot listen on {}", options.listen))?;
    let address = listener.local_addr()?;
    if let Some(path) = &options.kubeconfig {
        std::fs::write(path, kubeconfig(address))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("hub-sim serves http://{address}");
    std::io::stdout().flush()?;
    tokio::spawn(hub.clone().keep_collecting_garbage());
    tokio::spawn(hub.clone().keep_deciding_placements());
    tokio::select! {
        () = serve(&listener, &hub) => Ok(()),
        result = tokio::signal::ctrl_c() => Ok(result?),
    }
}
