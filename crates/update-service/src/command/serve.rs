//! `update-service serve`: puts the parts together and takes them down in order.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use telemetry::{logs, server, shutdown};

use crate::assemble;
use crate::config::{Config, ServeFlags, log_settings};
use crate::metrics::Metrics;
use crate::refresh::{Refresher, Timing};
use crate::serve::{Settings, router};
use crate::state::State;

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// When the settings are wrong or an address cannot be bound.
pub fn run(flags: &ServeFlags) -> anyhow::Result<ExitCode> {
    let file = flags.source.file()?;
    let (format, filter) = log_settings(&flags.source, &file)?;
    logs::install(format, filter)?;
    let config = flags.config(&file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(serve(&config));
    runtime.shutdown_timeout(Duration::from_millis(100));
    result.map(|()| ExitCode::SUCCESS)
}

async fn serve(config: &Config) -> anyhow::Result<()> {
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "update-service starts");
    let shutdown = shutdown::on_signal()?;
    let metrics = Arc::new(Metrics::new());
    let state = Arc::new(State::new(Arc::clone(&metrics)));
    let (releases, graph_data) = assemble::sources(&config.sources)?;

    let settings = Settings {
        prefix: config.path_prefix.clone(),
        mandatory: config.mandatory.clone(),
        default_arch: config.sources.default_arch.to_string(),
        slim: config
            .sources
            .policy
            .as_ref()
            .is_some_and(update_graph::policy::Chain::slims),
        graph: true,
        status: config.status_listen.is_none(),
    };
    let mut servers = Vec::new();
    if let Some(address) = config.status_listen {
        let settings = Settings {
            graph: false,
            status: true,
            ..settings.clone()
        };
        servers.push((address, router(&state, settings)));
    }
    servers.push((config.listen, router(&state, settings)));
    let mut serving = tokio::task::JoinSet::new();
    for (address, router) in servers {
        let listener = address
            .bind(config.limits.backlog)
            .with_context(|| format!("cannot listen on {address}"))?;
        let metrics = metrics.server().clone();
        serving.spawn(server::serve(
            listener,
            router,
            config.limits,
            metrics,
            shutdown.clone(),
        ));
    }
    let timing = Timing {
        refresh: config.sources.refresh,
        watch: config.sources.watch,
    };
    let chain = config.sources.policy.clone();
    let refresher = Refresher::new(releases, graph_data, chain, state, timing).start(shutdown.clone())?;
    let mut refresher = tokio::task::spawn_blocking(move || refresher.join());
    // Without the refresher the last graph would be served for ever, unnoticed. So the process ends with it and is
    // restarted.
    let outcome = tokio::select! {
        biased;
        ended = &mut refresher => refreshed(ended),
        () = async { while serving.join_next().await.is_some() {} } => Ok(()),
    };
    let told = shutdown.is_cancelled();
    shutdown.cancel();
    while serving.join_next().await.is_some() {}
    if !told {
        return outcome.and(Err(anyhow::anyhow!("a part of the service has ended by itself")));
    }
    // Nothing is lost with a reading that is cut off: it was not taken in yet.
    if !refresher.is_finished() {
        refreshed(refresher.await)?;
    }
    outcome?;
    tracing::info!("update-service has ended");
    Ok(())
}

/// How the thread of the refresher ended.
fn refreshed(ended: Result<std::thread::Result<()>, tokio::task::JoinError>) -> anyhow::Result<()> {
    ended?.map_err(|_| anyhow::anyhow!("the refresher failed"))
}
