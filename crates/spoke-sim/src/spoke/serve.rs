//! `/metrics` as the cluster-version operator exports them, and `/healthz`.

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cvo::inputs::operators;
use super::metrics::{Exhibit, render};
use super::mirror::Mirror;

/// What the server shows.
#[derive(Clone)]
pub(super) struct Show {
    pub exhibit: watch::Receiver<Exhibit>,
    pub version: Mirror,
    pub operators: Mirror,
    pub dark: watch::Receiver<bool>,
    pub ready: watch::Receiver<bool>,
}

/// Serves until stopped.
pub(super) async fn run(listener: TcpListener, show: Show, stop: CancellationToken) {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .with_state(show);
    let server = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await });
    if let Err(error) = server.await {
        tracing::warn!(%error, "serving metrics failed");
    }
}

async fn healthz(State(show): State<Show>) -> (StatusCode, &'static str) {
    if *show.ready.borrow() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "objects not listed yet\n")
    }
}

async fn metrics(State(show): State<Show>) -> impl IntoResponse {
    let exhibit = show.exhibit.borrow().clone();
    // An operator that is away serves nothing, so that Prometheus sees its target down.
    if *show.dark.borrow() || !exhibit.up {
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            "the operator is away\n".to_owned(),
        )
            .into_response();
    }
    let version = show.version.get(None, "version");
    let version = version.and_then(|version| serde_json::from_value(version).ok());
    let operators = operators(&show.operators.all());
    let text = render(&exhibit, version.as_ref(), &operators);
    (
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response()
}
