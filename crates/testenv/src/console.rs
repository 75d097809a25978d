//! What programs that start a hub do first and last: logs on standard error, the TLS provider, the way errors are shown.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use anyhow::Result;
use tracing_subscriber::EnvFilter;

/// The client's own complaints are left out: while a hub starts, requests fail until it is ready.
const LOG: &str = "warn,kube_client=off";

/// Sets up logs and TLS, runs a program, and shows its error.
pub fn run(program: impl FnOnce() -> Result<ExitCode>) -> ExitCode {
    // Fails when a provider is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(EnvFilter::new(LOG))
        .init();
    program().unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
