//! A service inside the test's process.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::listen::ListenAddr;
use telemetry::server::{self, Limits};
use tokio_util::sync::CancellationToken;
use update_graph::policy::Chain;
use update_service::config::{Connection, ReleaseSource, Sources};
use update_service::metrics::Metrics;
use update_service::refresh::{Refresher, Timing};
use update_service::serve::{Settings, router};
use update_service::source::location::Location;
use update_service::source::retry::Backoff;
use update_service::state::State;

/// How long a condition may take to hold.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

pub const QUICK: Backoff = Backoff {
    attempts: 3,
    first: Duration::from_millis(5),
    most: Duration::from_millis(20),
};

pub fn install_ring() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// Sources that are read all the time.
pub fn sources(releases: ReleaseSource, graph_data: Option<Location>) -> Sources {
    Sources {
        releases,
        graph_data,
        default_arch: update_graph::Arch::amd64(),
        connection: Connection {
            credentials: None,
            ca: Vec::new(),
            concurrency: 4,
            timeout: Duration::from_millis(500),
            backoff: QUICK,
        },
        refresh: Duration::from_millis(40),
        watch: Duration::from_millis(10),
        state_dir: None,
        policy: None,
    }
}

pub struct Running {
    pub address: SocketAddr,
    pub state: Arc<State>,
    shutdown: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Running {
    /// Serves what the sources give.
    pub fn start(sources: &Sources) -> Self {
        let running = Self::serve(Limits::default());
        running.read(sources);
        running
    }

    /// Serves nothing yet.
    pub fn serve(limits: Limits) -> Self {
        install_ring();
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(State::new(Arc::clone(&metrics)));
        let settings = Settings {
            prefix: "/api/upgrades_info".to_owned(),
            mandatory: vec!["channel".to_owned()],
            default_arch: "amd64".to_owned(),
            slim: false,
            graph: true,
            status: true,
        };
        let router = router(&state, settings);
        let listener = "127.0.0.1:0".parse::<ListenAddr>().unwrap();
        let listener = listener.bind(limits.backlog).unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let metrics = metrics.server().clone();
        tokio::spawn(server::serve(listener, router, limits, metrics, shutdown.clone()));
        Self {
            address,
            state,
            shutdown,
        }
    }

    /// Starts to read the sources.
    pub fn read(&self, sources: &Sources) {
        self.read_with(sources, sources.policy.clone());
    }

    fn read_with(&self, sources: &Sources, chain: Option<Chain>) {
        let (releases, graph_data) = update_service::assemble::sources(sources).unwrap();
        let timing = Timing {
            refresh: sources.refresh,
            watch: sources.watch,
        };
        let refresher = Refresher::new(releases, graph_data, chain, Arc::clone(&self.state), timing);
        refresher.start(self.shutdown.clone()).unwrap();
    }

    pub fn url(&self, rest: &str) -> String {
        format!("http://{}{rest}", self.address)
    }

    pub async fn get(&self, rest: &str) -> (u16, Vec<u8>) {
        let answer = reqwest::get(self.url(rest)).await.unwrap();
        let status = answer.status().as_u16();
        (status, answer.bytes().await.unwrap().to_vec())
    }

    pub async fn graph(&self, channel: &str) -> Value {
        let (status, body) = self
            .get(&format!("/api/upgrades_info/v1/graph?channel={channel}"))
            .await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }

    /// The versions of stable-4.1.
    pub async fn versions(&self) -> Vec<String> {
        let body = self.graph("stable-4.1").await;
        let nodes = body["nodes"].as_array().unwrap().iter();
        nodes
            .map(|node| node["version"].as_str().unwrap().to_owned())
            .collect()
    }

    pub async fn edges(&self) -> usize {
        self.graph("stable-4.1").await["edges"].as_array().unwrap().len()
    }

    pub async fn ready(&self) {
        until("it is ready", async || self.get("/readyz").await.0 == 200).await;
    }

    /// The value of a series; 0 if it is not there.
    pub fn metric(&self, series: &str) -> f64 {
        metric(&self.state, series)
    }

    /// Waits until the sources have been read this many more times.
    pub async fn readings(&self, more: f64) {
        let series = "cincinnati_gb_graph_upstream_scrapes_total";
        let from = self.metric(series);
        until("more readings", async || self.metric(series) >= from + more).await;
    }
}

pub fn metric(state: &State, series: &str) -> f64 {
    let text = state.metrics().classic().unwrap();
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
        .unwrap_or(0.0)
}

/// Waits until a condition holds.
pub async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < WAIT_TIMEOUT, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
