//! `mcu-controller`: upgrades fleets of OpenShift clusters from an Open Cluster Management hub.
//!
//! Starts the parts and stops them in order: main loop, Events, Lease. Everything else is in the library.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use controller::connect;
use controller::controller::{self as daemon, Parts};
use controller::events::Publisher;
use controller::flags::Flags;
use controller::health::Readiness;
use controller::lease;
use controller::metrics::Metrics;
use controller::server::{self, Admin};
use controller::shutdown;
use telemetry::logs::{self, LogControl};
use tokio_util::sync::CancellationToken;

fn main() -> ExitCode {
    let flags = Flags::parse();
    let result = prepare(&flags).and_then(|logs| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(serve(&flags, logs));
        runtime.shutdown_timeout(Duration::from_millis(100));
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "mcu-controller failed");
            ExitCode::FAILURE
        }
    }
}

fn prepare(flags: &Flags) -> anyhow::Result<LogControl> {
    let control = logs::install(flags.log_format, logs::parse(&flags.log_level)?)?;
    rustls::crypto::ring::default_provider()
        .install_default()
        .map_err(|_| anyhow::anyhow!("a TLS provider is installed already"))?;
    Ok(control)
}

async fn serve(flags: &Flags, logs: LogControl) -> anyhow::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "mcu-controller is starting");
    if !flags.approver_image.contains("@sha256:") {
        tracing::warn!(
            image = flags.approver_image,
            "the image of the InstallPlan approver has no digest, so the code that runs on the clusters can change; set --approver-image to IMAGE@sha256:DIGEST"
        );
    }
    let end = telemetry::shutdown::on_signal()?;
    let metrics = Arc::new(Metrics::new());
    let readiness = Arc::new(Readiness::new());
    let admin = Admin {
        metrics: Arc::clone(&metrics),
        readiness: Arc::clone(&readiness),
        logs,
    };
    let listener = flags
        .listen
        .bind(server::LIMITS.backlog)
        .with_context(|| format!("--listen {}", flags.listen))?;
    let server = tokio::spawn(telemetry::server::serve(
        listener,
        server::router(admin),
        server::LIMITS,
        telemetry::server::ServerMetrics::default(),
        CancellationToken::new(),
    ));

    let config = flags.client_config().await?;
    let lease_config = flags.lease_config(&config.default_namespace)?;
    let identity = lease_config.identity.clone();
    let client = connect::client(config)?;

    let resign = CancellationToken::new();
    let (leadership, election) = if flags.leader_elect {
        let (handle, task) = lease::run(client.clone(), lease_config, resign.clone());
        (handle, Some(task))
    } else {
        (lease::Handle::always(), None)
    };
    tokio::spawn(Arc::clone(&metrics).follow_election(leadership.subscribe()));
    let stop_events = CancellationToken::new();
    let (events, event_task) = Publisher::start(
        client.clone(),
        leadership.fence(),
        Arc::clone(&metrics),
        identity,
        stop_events.clone(),
    );

    let parts = Parts {
        metrics,
        readiness,
        leadership,
        events,
        shutdown: end.clone(),
    };
    let outcome = shutdown::bounded(daemon::run(client, flags, parts), &end).await;

    // No more writes are running. The remaining Events are sent while this replica still holds the lease,
    // which is released afterwards.
    stop_events.cancel();
    event_task.await.context("events")?;
    resign.cancel();
    if let Some(election) = election {
        election.await.context("election")?;
    }
    server.abort();
    tracing::info!("mcu-controller has stopped");
    outcome
}
