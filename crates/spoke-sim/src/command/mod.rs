//! The commands of `spoke-sim`: each reads its flags and simulates until a signal arrives.

pub mod agents;
pub mod cluster;

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use spoke_sim::fault::parse_duration;

fn duration(text: &str) -> Result<Duration, String> {
    if matches!(text, "0" | "0s") {
        return Ok(Duration::ZERO);
    }
    parse_duration(text).ok_or_else(|| format!("\"{text}\" is not a duration such as 30s or 60m"))
}

fn log(filter: &str) -> Result<()> {
    let filter = tracing_subscriber::EnvFilter::try_new(filter).context("--log")?;
    tracing_subscriber::fmt()
        // At lower levels the client prints whole objects.
        .with_env_filter(filter.add_directive("kube_client::client=error".parse()?))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    // This fails only if a provider is already installed, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}

async fn config(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Config> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    match kubeconfig {
        Some(path) => {
            let kubeconfig =
                Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .context("kubeconfig")
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.context("kubeconfig"),
        None => Config::infer()
            .await
            .context("no kubeconfig and no service account"),
    }
}

async fn stop_signal() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM")?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result.context("SIGINT"),
        _ = terminate.recv() => Ok(()),
    }
}
