//! Answers to requests.
//!
//! Each request is checked in this order: path, body, method, Accept, mandatory parameters, values. A request for a graph
//! looks up a finished body and copies nothing. Requests with bodies are rejected, and so are methods other than GET, HEAD
//! and OPTIONS.

pub mod accept;
pub mod error;
pub mod etag;
pub mod extras;
pub mod openapi;
pub mod query;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{self, Request};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use telemetry::exposition;
use tower::ServiceBuilder;
use tower_http::set_header::SetResponseHeaderLayer;
use update_graph::{Graph, Version};

use crate::metrics::PathMetrics;
use crate::snapshot::{NotMade, Snapshot, Variant};
use crate::state::State;
use error::ApiError;
use query::Query;

/// The methods of a resource; others get 405.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const ANYONE: HeaderValue = HeaderValue::from_static("*");
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const VARY: HeaderValue = HeaderValue::from_static("Accept, Accept-Encoding");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What the answers depend on besides the snapshot.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Prefix of the protocol's paths: with a leading slash and none at the end, or empty.
    pub prefix: String,
    /// Parameters that every request for a graph must have, sorted.
    pub mandatory: Vec<String>,
    /// Architecture of requests without one.
    pub default_arch: String,
    /// Answer with what the client's version can reach only.
    pub slim: bool,
    /// Serve the graph and what belongs to it.
    pub graph: bool,
    /// Serve probes and metrics.
    pub status: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resource {
    Graph,
    Whole,
    OpenApi,
    Channels,
    Paths,
    Explain,
    Live,
    Ready,
    Metrics,
}

/// What the handlers share.
#[derive(Debug)]
struct App {
    state: Arc<State>,
    settings: Settings,
    openapi: Variant,
}

type SharedApp = extract::State<Arc<App>>;

/// A question beyond the protocol: its answer as JSON, from a graph, the parameters and the default architecture.
type Extra = fn(&Graph, &Query<'_>, &str) -> Result<Bytes, ApiError>;

/// The routes by the settings.
pub fn router(state: &Arc<State>, settings: Settings) -> Router {
    let mut router = Router::new();
    for (path, resource) in resources(&settings) {
        let metrics = state.metrics().path(&path, resource == Resource::Whole);
        let endpoint = endpoint(resource)
            .options(preflight)
            .fallback(method_not_allowed)
            .layer(from_fn_with_state(metrics, count_and_refuse_bodies));
        router = router.route(&path, endpoint);
    }
    let headers = ServiceBuilder::new()
        .layer(SetResponseHeaderLayer::overriding(
            header::ACCESS_CONTROL_ALLOW_ORIGIN,
            ANYONE,
        ))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::CACHE_CONTROL,
            NO_STORE,
        ));
    let app = App {
        state: Arc::clone(state),
        openapi: openapi::document(&settings),
        settings,
    };
    router
        .fallback(not_found)
        .layer(headers)
        .with_state(Arc::new(app))
}

fn endpoint(resource: Resource) -> MethodRouter<Arc<App>> {
    match resource {
        Resource::Graph | Resource::Whole => get(move |app: SharedApp, request: Request| async move {
            app.graph(resource, &request.into_parts().0).await
        }),
        Resource::OpenApi => get(openapi),
        Resource::Channels => extra(extras::channels),
        Resource::Paths => extra(extras::paths),
        Resource::Explain => extra(extras::explain),
        Resource::Live => get(live),
        Resource::Ready => get(ready),
        Resource::Metrics => get(metrics),
    }
}

fn extra(extra: Extra) -> MethodRouter<Arc<App>> {
    get(move |app: SharedApp, request: Request| async move {
        app.extra(extra, request.uri().query().map(str::to_owned)).await
    })
}

async fn count_and_refuse_bodies(
    extract::State(metrics): extract::State<PathMetrics>,
    request: Request,
    next: Next,
) -> Response {
    metrics.requested();
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    (StatusCode::PAYLOAD_TOO_LARGE, close, "requests have no body\n").into_response()
}

async fn not_found(request: Request) -> StatusCode {
    tracing::debug!(path = request.uri().path(), "nothing there");
    StatusCode::NOT_FOUND
}

async fn method_not_allowed() -> impl IntoResponse {
    (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, ALLOW)])
}

async fn preflight() -> impl IntoResponse {
    let headers = [
        (header::ALLOW, ALLOW),
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            HeaderValue::from_static("GET, HEAD"),
        ),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, ANYONE),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400")),
    ];
    (StatusCode::NO_CONTENT, headers)
}

async fn openapi(app: SharedApp, request: Request) -> Response {
    conditional(request.headers(), &app.openapi, JSON, None)
}

/// Fails when the refresher is dead, because the served graph would never change again, unnoticed.
async fn live(app: SharedApp) -> Response {
    match app.state.silence() {
        None => "ok\n".into_response(),
        Some(silence) => {
            let text = format!(
                "the refresher has given no sign of life for {} s\n",
                silence.as_secs()
            );
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

async fn ready(app: SharedApp) -> Response {
    let missing = app.state.missing();
    if missing.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n").into_response()
}

async fn metrics(app: SharedApp, request: Request) -> Response {
    exposition::answer(request.headers(), app.state.metrics().registry())
}

impl App {
    async fn graph(&self, resource: Resource, request: &Parts) -> Response {
        let metrics = self.state.metrics();
        let started = Instant::now();
        let answer = self
            .look_up(resource, &request.headers, request.uri.query())
            .await;
        metrics.served(started.elapsed());
        answer.unwrap_or_else(|error| {
            let (kind, status) = error.kind();
            metrics.refused(status.as_u16(), kind, resource == Resource::Whole);
            error.into_response()
        })
    }

    async fn look_up(
        &self,
        resource: Resource,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Response, ApiError> {
        let media_type = accept::media_type(headers).ok_or(ApiError::InvalidContentType)?;
        let encoding = accept::encoding(headers).ok_or(ApiError::InvalidContentType)?;
        let query = Query::parse(query);
        let wanted = if resource == Resource::Graph {
            query.demand(&self.settings.mandatory)?;
            Some((query.channel()?, query.arch(&self.settings.default_arch)?))
        } else {
            None
        };
        let snapshot = self.snapshot()?;
        let version = query.get("version").filter(|_| self.settings.slim);
        let version = version.and_then(|version| Version::parse(version).ok());
        let variant = match (wanted, &version) {
            (None, _) => snapshot.whole(encoding).await,
            (Some((channel, arch)), Some(version)) => snapshot.slim(channel, arch, version, encoding).await,
            (Some((channel, arch)), None) => snapshot.body(channel, arch, encoding).await,
        };
        let variant = variant.map_err(|NotMade| ApiError::Encoding(NotMade.to_string()))?;
        Ok(conditional(
            headers,
            &variant,
            media_type.header(),
            Some(encoding),
        ))
    }

    fn snapshot(&self) -> Result<Arc<Snapshot>, ApiError> {
        self.state
            .snapshot()
            .ok_or_else(|| ApiError::NoGraph(self.state.missing().join("; ")))
    }

    async fn extra(&self, extra: Extra, query: Option<String>) -> Result<Response, ApiError> {
        let snapshot = self.snapshot()?;
        let arch = self.settings.default_arch.clone();
        // A search takes a millisecond or two: not on a thread that serves.
        let answered = tokio::task::spawn_blocking(move || {
            extra(snapshot.graph(), &Query::parse(query.as_deref()), &arch)
        });
        let body = answered
            .await
            .map_err(|error| ApiError::Encoding(error.to_string()))??;
        let headers = [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, REVALIDATE)];
        Ok((headers, body).into_response())
    }
}

/// Every path with what it leads to.
fn resources(settings: &Settings) -> BTreeMap<String, Resource> {
    let mut paths = BTreeMap::new();
    let prefix = &settings.prefix;
    if settings.graph {
        paths.insert(format!("{prefix}/graph"), Resource::Graph);
        paths.insert(format!("{prefix}/v1/graph"), Resource::Graph);
        paths.insert(format!("{prefix}/openapi"), Resource::OpenApi);
        // The protocol knows nothing of these: they are found with and without the prefix.
        for (path, resource) in [
            ("/v1/openapi", Resource::OpenApi),
            ("/v1/whole-graph", Resource::Whole),
            ("/v1/channels", Resource::Channels),
            ("/v1/paths", Resource::Paths),
            ("/v1/explain", Resource::Explain),
        ] {
            paths.insert(format!("{prefix}{path}"), resource);
            paths.insert(path.to_owned(), resource);
        }
    }
    if settings.status {
        // The names of both upstream servers.
        for (path, resource) in [
            ("/livez", Resource::Live),
            ("/liveness", Resource::Live),
            ("/readyz", Resource::Ready),
            ("/readiness", Resource::Ready),
            ("/metrics", Resource::Metrics),
        ] {
            paths.insert(path.to_owned(), resource);
        }
    }
    paths
}

/// The body, or 304 to a client that has it.
fn conditional(
    headers: &HeaderMap,
    variant: &Variant,
    media_type: HeaderValue,
    encoding: Option<accept::Encoding>,
) -> Response {
    let fresh = etag::matches(headers, &variant.etag);
    let body = if fresh {
        Body::empty()
    } else {
        variant.bytes.clone().into()
    };
    let mut answer = Response::new(body);
    let out = answer.headers_mut();
    out.reserve(8);
    out.insert(header::ETAG, variant.etag.clone());
    out.insert(header::CACHE_CONTROL, REVALIDATE);
    out.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("ETag"),
    );
    if encoding.is_some() {
        out.insert(header::VARY, VARY);
    }
    if fresh {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        return answer;
    }
    out.insert(header::CONTENT_TYPE, media_type);
    if encoding == Some(accept::Encoding::Gzip) {
        out.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    answer
}

#[cfg(test)]
mod tests;
