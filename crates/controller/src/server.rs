//! The admin server: metrics, health, version and log level over HTTP/1.1.
//!
//! | route | response |
//! |---|---|
//! | `GET /metrics` | `OpenMetrics` if accepted, otherwise the classic text format |
//! | `GET /livez`, `GET /readyz` (`?verbose`) | 200 `ok`, or 503 and the failed checks, one per line |
//! | `GET /version` | the version as JSON |
//! | `GET /log-level` | the current log filter |
//! | `PUT /log-level` | replaces the filter by the body; only from the loopback interface (`kubectl port-forward` arrives there) |
//!
//! [`telemetry::server`](telemetry::server) limits connections. No handler takes a lock of the main loop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, StatusCode};
use telemetry::exposition;
use telemetry::logs::LogControl;
use telemetry::server::Limits;

use crate::health::{self, Finding, Readiness};
use crate::metrics::Metrics;

/// Few connections and short timeouts, because the only clients are a scraper, the kubelet and an operator.
pub const LIMITS: Limits = Limits {
    connections: 64,
    backlog: 128,
    header_timeout: Duration::from_secs(5),
    idle_timeout: Duration::from_secs(5),
    write_timeout: Duration::from_secs(5),
    head: 16 * 1024,
    drain: Duration::ZERO,
};
/// Largest body of a request, in bytes.
const MAX_BODY: usize = 4096;

/// What the server exposes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    /// Values of `/metrics`.
    pub metrics: Arc<Metrics>,
    /// Findings of `/livez` and `/readyz`.
    pub readiness: Arc<Readiness>,
    /// Filter behind `/log-level`.
    pub logs: LogControl,
}

/// The routes, for the server and for tests without one.
pub fn router(admin: Admin) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .route("/log-level", get(log_level).put(set_log_level))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(admin)
}

async fn metrics(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    exposition::answer(&headers, admin.metrics.registry())
}

async fn livez(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    answer("livez", &admin.readiness.alive(), query.as_deref())
}

async fn readyz(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    answer("readyz", &admin.readiness.ready(), query.as_deref())
}

fn answer(endpoint: &str, findings: &[Finding], query: Option<&str>) -> Response {
    let status = if health::passes(findings) {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let wordy = query.is_some_and(|query| {
        query
            .split('&')
            .any(|pair| pair.split_once('=').map_or(pair, |(key, _)| key) == "verbose")
    });
    let body = if wordy {
        health::verbose(endpoint, findings)
    } else {
        health::spec(findings)
    };
    (status, body).into_response()
}

async fn version() -> Response {
    let body = serde_json::json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")});
    axum::Json(body).into_response()
}

async fn log_level(State(admin): State<Admin>) -> String {
    format!("{}\n", admin.logs.current())
}

async fn set_log_level(
    State(admin): State<Admin>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    filter: String,
) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        let reason =
            "the log level can only be changed through the loopback interface; use kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    match admin.logs.set(&filter) {
        Ok(()) => {
            let filter = admin.logs.current();
            tracing::info!(%filter, %peer, "log level changed");
            format!("{filter}\n").into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests;
