//! Serves `/metrics` as the cluster-version operator does, and `/healthz`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cvo::operator_state::operators;
use super::informer::Informer;
use super::metrics::{OperatorReport, render};

/// The data that the server shows.
#[derive(Clone)]
pub(super) struct MetricsSources {
    pub report: watch::Receiver<OperatorReport>,
    pub version: Informer,
    pub operators: Informer,
    pub dark: watch::Receiver<bool>,
    pub ready: watch::Receiver<bool>,
}

/// Serves until it is stopped.
pub(super) async fn run(listener: TcpListener, sources: MetricsSources, stop: CancellationToken) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(sources);
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
    if let Err(error) = server.await {
        tracing::warn!(%error, "serving metrics failed");
    }
}

async fn healthz(State(sources): State<MetricsSources>) -> (StatusCode, &'static str) {
    if *sources.ready.borrow() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "objects not listed yet\n")
    }
}

async fn metrics(State(sources): State<MetricsSources>) -> impl IntoResponse {
    let report = sources.report.borrow().clone();
    // An operator that is away serves no metrics, so that Prometheus sees its target down.
    if *sources.dark.borrow() || !report.up {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "the operator is away\n".to_owned(),
        )
            .into_response();
    }
    let version = sources.version.get(None, "version");
    let version = version.and_then(|version| serde_json::from_value(version).ok());
    let operators = operators(&sources.operators.all());
    let text = render(&report, version.as_ref(), &operators);
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response()
}
