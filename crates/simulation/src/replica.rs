//! A replica of the real controller: its loop, lease, writers and Events, on a wire of its own.

use std::sync::{Arc, OnceLock};

use anyhow::Result;
use clap::Parser as _;
use controller::controller::{self as daemon, Parts};
use controller::events::Publisher;
use controller::flags::Flags;
use controller::health::Readiness;
use controller::lease;
use controller::metrics::Metrics;
use controller::sources::Sources;
use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::names::NAMESPACE;
use crate::time::MachineClock;
use crate::wire::Wire;

/// The flags of replicas, without and with the word that all agents read objects without writing them. Reading them takes as long
/// as ten requests.
fn flags(agents_read: bool) -> Result<&'static Flags, clap::Error> {
    static FLAGS: [OnceLock<Flags>; 2] = [OnceLock::new(), OnceLock::new()];
    let known = &FLAGS[usize::from(agents_read)];
    if let Some(flags) = known.get() {
        return Ok(flags);
    }
    let plain = [
        "mcu-controller",
        "--write-concurrency=8",
        "--approver-image=approver@sha256:00",
    ];
    let agents_read = agents_read.then_some("--agents-support-read-only");
    let flags = Flags::try_parse_from(plain.into_iter().chain(agents_read))?;
    Ok(known.get_or_init(|| flags))
}

/// A running replica. Dropping it kills it: nothing of it runs any more, and what it sent is still on its way.
#[derive(Debug)]
pub struct Replica {
    tasks: Vec<JoinHandle<()>>,
    metrics: Arc<Metrics>,
}

impl Replica {
    /// Starts a replica. `identity` is unique to this start.
    ///
    /// # Errors
    /// The flags contradict each other.
    pub fn start(wire: Wire, identity: &str, clock: &MachineClock, seed: u64) -> Result<Self> {
        let flags = flags(wire.network().ground.options.asks())?;
        let client = Client::new(wire, NAMESPACE);
        let clock = clock.clone();
        let sources = Sources::simulated(move || clock.wall(), seed);
        let metrics = Arc::new(Metrics::new());
        let mut config = flags.lease_config(NAMESPACE)?;
        identity.clone_into(&mut config.identity);
        let shutdown = CancellationToken::new();
        let (leadership, election) = lease::run(client.clone(), config, &sources, shutdown.clone());
        let (events, sender) = Publisher::start(
            client.clone(),
            leadership.fence(),
            Arc::clone(&metrics),
            identity.to_owned(),
            &sources,
            shutdown.clone(),
        );
        let parts = Parts {
            metrics: Arc::clone(&metrics),
            readiness: Arc::new(Readiness::new()),
            leadership,
            events,
            sources,
            shutdown,
        };
        let main = tokio::spawn(async move {
            // A replica whose watch or writer ends is restarted by the kubelet, which the run plays.
            let _ = daemon::run(client, flags, parts).await;
        });
        Ok(Self {
            tasks: vec![main, election, sender],
            metrics,
        })
    }

    /// Ends its main loop, as an error would.
    pub fn end_loop(&self) {
        if let Some(main) = self.tasks.first() {
            main.abort();
        }
    }

    /// Ends what publishes Events, as a panic would.
    pub fn end_events(&self) {
        if let Some(sender) = self.tasks.last() {
            sender.abort();
        }
    }

    /// Whether its main loop, its election or what publishes its Events has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.tasks.iter().any(JoinHandle::is_finished)
    }

    /// Its metrics, which outlive it.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}
