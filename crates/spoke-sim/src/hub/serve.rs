//! `/metrics` and `/healthz`.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use super::agents_state::Shared;

pub(super) async fn run(listener: TcpListener, shared: Arc<Shared>) {
    let stop = shared.stop.clone();
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(shared);
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
    if let Err(error) = server.await {
        tracing::warn!(%error, "serving metrics failed");
    }
}

async fn healthz(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.listed.load(Ordering::Acquire) {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "works not listed yet\n")
    }
}

async fn metrics(State(shared): State<Arc<Shared>>) -> String {
    let (stats, bytes) = {
        let clusters = shared.clusters.lock();
        (clusters.stats, clusters.bytes() as u64)
    };
    let rows = [
        (
            "spoke_sim_clusters",
            "gauge",
            "Simulated clusters.",
            stats.clusters,
        ),
        ("spoke_sim_works", "gauge", "Known ManifestWorks.", stats.works),
        (
            "spoke_sim_object_bytes",
            "gauge",
            "Bytes of simulated objects.",
            bytes,
        ),
        (
            "spoke_sim_applies_total",
            "counter",
            "Passes that applied manifests.",
            stats.applies,
        ),
        (
            "spoke_sim_finalizers_added_total",
            "counter",
            "Finalizer additions.",
            stats.holds,
        ),
        (
            "spoke_sim_status_writes_total",
            "counter",
            "Status writes.",
            stats.statuses,
        ),
        (
            "spoke_sim_finalizers_removed_total",
            "counter",
            "Finalizer removals.",
            stats.releases,
        ),
        (
            "spoke_sim_write_conflicts_total",
            "counter",
            "Writes that the hub refused with 409.",
            stats.conflicts,
        ),
        (
            "spoke_sim_write_failures_total",
            "counter",
            "Writes that failed for another reason.",
            stats.failures,
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in rows {
        let _ = write!(
            text,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}\n"
        );
    }
    text
}
