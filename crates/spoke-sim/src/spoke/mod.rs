//! One simulated cluster on a real kube-apiserver with the real CRDs.
//!
//! - [`setup`], [`clock`]: what the cluster is like, and how fast its time passes
//! - [`informer`], [`status_writer`]: reading by watches, and writing as the only writer
//! - [`install`]: installs the cluster
//! - [`cvo`]: the cluster-version operator, by the model of [`cvo_model`]; it queries [`updates`] and [`prometheus`]
//! - [`rollout`]: `ClusterOperators`, machines and pools
//! - [`olm`]: Subscriptions and InstallPlans
//! - [`kubelet`]: pods as processes
//! - [`tcp_proxy`], [`metrics`]: what others see of the cluster
//!
//! A real kube-controller-manager runs Jobs, namespaces, garbage collection and role aggregation.

pub mod clock;
pub mod cvo;
mod error;
pub mod informer;
pub mod install;
pub mod kinds;
pub mod kubelet;
pub mod metrics;
pub mod olm;
mod options;
pub mod prometheus;
pub mod rollout;
mod serve;
pub mod setup;
pub mod status_writer;
pub mod tcp_proxy;
pub mod updates;
mod wiring;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::clock::Clock;
pub use self::error::StartError;
use self::kubelet::{Access, Context};
pub use self::options::Options;
use self::status_writer::StatusWriter;
use self::wiring::Wiring;
use crate::seeded_rng::SeededRng;

/// A running simulated cluster. Dropping it stops it; [`Spoke::stop`] also waits for its tasks.
pub struct Spoke {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    ready: watch::Receiver<bool>,
    metrics: Option<SocketAddr>,
    proxy: Option<SocketAddr>,
    clock: Clock,
}

impl Spoke {
    /// Installs what is missing on the cluster and starts its controllers. Returns when the cluster is installed.
    ///
    /// # Errors
    /// An address cannot be bound, or the API server or a CRD is missing.
    pub async fn start(config: Config, options: Options) -> Result<Self, StartError> {
        let client = Client::try_from(config.clone()).map_err(|error| StartError::Client(Box::new(error)))?;
        let metrics = listen(options.listen).await?;
        let proxy = listen(options.tcp_proxy).await?;
        let (dark, blackout) = watch::channel(false);
        let mut writer = StatusWriter::new(client.clone(), blackout.clone());
        let installed = install::install(&mut writer, &options.setup, options.seed).await?;
        let proxy_address = address(proxy.as_ref());
        let access = Access::new(&config, proxy_address.map(|proxy| proxy.to_string()).as_deref())
            .map_err(StartError::Directory)?;
        let context = Context::new(
            client.clone(),
            access,
            &options.dir,
            options.kubectl.as_deref(),
            options.setup.jobs.clone(),
            options.seed,
            blackout,
        )
        .map_err(StartError::Directory)?;
        let mut wiring = Wiring {
            client,
            clock: Clock::new(installed.at, options.speed),
            setup: Arc::new(options.setup.clone()),
            dark,
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            rng: SeededRng::new(options.seed),
        };
        let metrics_address = address(metrics.as_ref());
        if let Some(listener) = proxy {
            let upstream = upstream(&config);
            let proxy = tcp_proxy::run(listener, upstream, wiring.dark.subscribe(), wiring.stop.clone());
            wiring.tasks.spawn(proxy);
        }
        let ready = wiring.start(&options, &installed, context, metrics)?;
        Ok(Self {
            stop: wiring.stop,
            tasks: wiring.tasks,
            ready,
            metrics: metrics_address,
            proxy: proxy_address,
            clock: wiring.clock,
        })
    }

    /// Waits until all objects are listed and all controllers run.
    pub async fn ready(&self) {
        // The sender lives as long as the tasks.
        let _ = self.ready.clone().wait_for(|ready| *ready).await;
    }

    /// The address of `/metrics`.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The address of the TCP proxy in front of the API server.
    #[must_use]
    pub fn proxy_address(&self) -> Option<SocketAddr> {
        self.proxy
    }

    /// The simulated clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Ends all processes and tasks.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Drop for Spoke {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn listen(address: Option<SocketAddr>) -> Result<Option<TcpListener>, StartError> {
    let Some(address) = address else { return Ok(None) };
    let listener = TcpListener::bind(address).await;
    listener
        .map(Some)
        .map_err(|source| StartError::Listen { address, source })
}

fn address(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
}

/// `host:port` of the API server.
fn upstream(config: &Config) -> String {
    let url = &config.cluster_url;
    format!(
        "{}:{}",
        url.host().unwrap_or("localhost"),
        url.port_u16().unwrap_or(443)
    )
}
