//! One spoke: what runs on a cluster, played on a real kube-apiserver with the real CRDs.
//!
//! - [`setup`], [`fault`], [`clock`]: what the cluster is like, what goes wrong, how fast time passes
//! - [`mirror`], [`desk`]: reading by watches, writing as the only writer
//! - [`birth`]: the cluster as it is installed
//! - [`cvo`]: the cluster-version operator, by the law of [`clusterversion`]; [`updates`] and [`prometheus`] are whom
//!   it asks
//! - [`rollout`]: `ClusterOperators`, machines and pools
//! - [`olm`]: Subscriptions and InstallPlans
//! - [`kubelet`]: pods as processes
//! - [`door`], [`metrics`]: what others see of it
//!
//! Jobs, namespaces, garbage collection and role aggregation are those of a real kube-controller-manager.

pub mod birth;
pub mod clock;
pub mod cvo;
pub mod desk;
pub mod door;
pub mod fault;
pub mod kinds;
pub mod kubelet;
pub mod metrics;
pub mod mirror;
pub mod olm;
mod options;
pub mod prometheus;
pub mod rollout;
mod serve;
pub mod setup;
mod stage;
pub mod updates;

use std::net::SocketAddr;
use std::sync::Arc;

use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::clock::Clock;
use self::desk::Desk;
use self::kubelet::{Access, Context};
pub use self::options::Options;
use self::stage::Stage;
use crate::dice::Dice;

/// The spoke cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The cluster cannot be installed.
    #[error("installing the cluster")]
    Birth(#[from] birth::BirthError),
    /// There is no client for the API server.
    #[error("client of the API server")]
    Client(#[source] Box<kube::Error>),
    /// There is no client for the update service and Prometheus.
    #[error("HTTP client")]
    Http(#[from] reqwest::Error),
    /// The directory of the pods cannot be made, or the certificate authorities cannot be read.
    #[error("files of the pods")]
    Directory(#[source] std::io::Error),
}

/// A spoke that is played; dropping it stops it, less gently than [`Spoke::stop`].
pub struct Spoke {
    stop: CancellationToken,
    tasks: JoinSet<()>,
    ready: watch::Receiver<bool>,
    metrics: Option<SocketAddr>,
    door: Option<SocketAddr>,
    clock: Clock,
}

impl Spoke {
    /// Installs what is missing and starts to play; returns when the cluster is installed.
    ///
    /// # Errors
    /// An address, the API server or a CRD is not there.
    pub async fn start(config: Config, options: Options) -> Result<Self, StartError> {
        let client = Client::try_from(config.clone()).map_err(|error| StartError::Client(Box::new(error)))?;
        let metrics = listen(options.listen).await?;
        let door = listen(options.door).await?;
        let (dark, blackout) = watch::channel(false);
        let mut desk = Desk::new(client.clone(), blackout.clone());
        let born = birth::install(&mut desk, &options.setup, options.seed).await?;
        let door_address = door.as_ref().and_then(|door| door.local_addr().ok());
        let access = Access::new(&config, door_address.map(|door| door.to_string()).as_deref())
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
        let mut stage = Stage {
            client,
            clock: Clock::new(born.at, options.speed),
            setup: Arc::new(options.setup.clone()),
            dark,
            stop: CancellationToken::new(),
            tasks: JoinSet::new(),
            dice: Dice::new(options.seed),
        };
        let addresses = (address(metrics.as_ref()), door_address);
        if let Some(door) = door {
            let upstream = upstream(&config);
            let door = door::run(door, upstream, stage.dark.subscribe(), stage.stop.clone());
            stage.tasks.spawn(door);
        }
        let ready = stage.play(&options, &born, context, metrics)?;
        Ok(Self {
            stop: stage.stop,
            tasks: stage.tasks,
            ready,
            metrics: addresses.0,
            door: addresses.1,
            clock: stage.clock,
        })
    }

    /// Waits until all objects are listed and everything plays.
    pub async fn ready(&self) {
        // The sender lives as long as the tasks.
        let _ = self.ready.clone().wait_for(|ready| *ready).await;
    }

    /// Where `/metrics` is served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Where the API server is reached as long as no outage is played.
    #[must_use]
    pub fn door_address(&self) -> Option<SocketAddr> {
        self.door
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
