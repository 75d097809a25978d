//! The admin server: metrics, health, version and log level over HTTP/1.1.
//!
//! Owns the listener, its limits and the routes:
//!
//! | route | answer |
//! |---|---|
//! | `GET /metrics` | `OpenMetrics` if accepted, else the classic text format |
//! | `GET /livez`, `GET /readyz` (`?verbose`) | 200 `ok`, or 503 and what is missing, one per line |
//! | `GET /version` | the version as JSON |
//! | `GET /log-level` | the log filter in force |
//! | `PUT /log-level` | replaces it by the body; from the loopback interface only (`kubectl port-forward` arrives there) |
//!
//! Refuses to be held up or to hold up: few connections at a time, short deadlines for headers, bodies and answers,
//! and no lock that the pipeline takes.

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::{HeaderMap, Request, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::health::{self, Finding, Readiness};
use super::logs::LogControl;
use super::metrics::{CLASSIC, Metrics, OPENMETRICS};

/// Connections served at a time; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// A client must have sent its headers within this time, and send the next request of a connection within it.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// A request must be read and answered within this time.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection ends after this time whatever it does, so that slow readers do not keep a place.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// Largest body of a request, in bytes.
const MAX_BODY: usize = 4096;
/// Largest request head, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Where to listen: `HOST:PORT`, `[V6]:PORT` or `:PORT` for all interfaces; port 0 picks a free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddr(SocketAddr, bool);

impl FromStr for ListenAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(port) = text.strip_prefix(':') {
            let port = port
                .parse()
                .map_err(|_| format!("{port:?} is no port; use for example :8080"))?;
            return Ok(Self(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)), true));
        }
        let text = text.replace("localhost:", "127.0.0.1:");
        text.parse()
            .map(|address| Self(address, false))
            .map_err(|_| format!("{text:?} is no address; use for example :8080 or 127.0.0.1:0"))
    }
}

impl fmt::Display for ListenAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.1 {
            write!(f, ":{}", self.0.port())
        } else {
            self.0.fmt(f)
        }
    }
}

impl ListenAddr {
    /// Binds, and logs the bound address in a line `listening address=...`. All interfaces means IPv6 and IPv4, or
    /// IPv4 alone on a host without IPv6.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(self) -> std::io::Result<TcpListener> {
        let listener = match TcpListener::bind(self.0).await {
            Err(_) if self.1 => TcpListener::bind((Ipv4Addr::UNSPECIFIED, self.0.port())).await?,
            bound => bound?,
        };
        tracing::info!(address = %listener.local_addr()?, "listening");
        Ok(listener)
    }
}

/// What the server shows. Cheap to clone.
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
        .with_state(admin)
}

async fn metrics(State(admin): State<Admin>, headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter().any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("application/openmetrics-text"))
    });
    let (content_type, text) = if accepts {
        (OPENMETRICS, admin.metrics.encode_openmetrics())
    } else {
        (CLASSIC, admin.metrics.encode_classic())
    };
    match text {
        Ok(text) => ([(header::CONTENT_TYPE, content_type)], text).into_response(),
        Err(fmt::Error) => (StatusCode::INTERNAL_SERVER_ERROR, "a value cannot be encoded\n").into_response(),
    }
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
        health::brief(findings)
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
    body: Body,
) -> Response {
    if !peer.ip().to_canonical().is_loopback() {
        let reason =
            "the log level is changed through the loopback interface only; use kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, reason).into_response();
    }
    let Ok(bytes) = to_bytes(body, MAX_BODY).await else {
        return (StatusCode::PAYLOAD_TOO_LARGE, "the filter is too long\n").into_response();
    };
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return (StatusCode::BAD_REQUEST, "the filter is not UTF-8\n").into_response();
    };
    match admin.logs.set(text) {
        Ok(()) => {
            let filter = admin.logs.current();
            tracing::info!(%filter, %peer, "log level changed");
            format!("{filter}\n").into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

/// Serves until `shutdown`. Errors of single connections are the clients' and are not reported.
pub async fn serve(listener: TcpListener, admin: Admin, shutdown: CancellationToken) {
    let router = router(admin);
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let accepted = shutdown.run_until_cancelled(async {
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (place, listener.accept().await)
        });
        match accepted.await {
            None => return,
            Some((place, Ok((stream, peer)))) => {
                let router = router.clone();
                connections.spawn(async move {
                    let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection(stream, peer, router)).await;
                    drop(place);
                });
            }
            Some((_, Err(error))) => {
                // Out of file descriptors or the like: pausing lets the connections that hold them end.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, peer: SocketAddr, router: Router) {
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(handle(router, request.map(Body::new), peer).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "connection ended");
    }
}

async fn handle(router: Router, mut request: Request<Body>, peer: SocketAddr) -> Response {
    use tower::ServiceExt;
    request.extensions_mut().insert(ConnectInfo(peer));
    match tokio::time::timeout(REQUEST_TIMEOUT, router.oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => (StatusCode::REQUEST_TIMEOUT, "the request took too long\n").into_response(),
    }
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
