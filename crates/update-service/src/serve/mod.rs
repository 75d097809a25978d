//! Answers to requests.
//!
//! Owns the routes, the order of checks (path, method, body, Accept, mandatory parameters, values) and the headers.
//! What is served often is ready: a request for a graph looks up a body and copies nothing. Refuses bodies of requests,
//! and methods other than GET, HEAD and OPTIONS.

pub mod accept;
pub mod address;
pub mod error;
pub mod etag;
pub mod extras;
pub mod listener;
pub mod openapi;
pub mod query;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use update_graph::Version;

use crate::metrics::{CLASSIC, Metrics, OPENMETRICS, PathMetrics};
use crate::snapshot::{NotMade, Snapshot, Variant};
use crate::state::State;
use error::ApiError;
use listener::Handler;
use query::Query;

/// An answer, whole and in memory.
pub type Answer = Response<Full<Bytes>>;

/// What may be asked of a resource; the rest is 405.
const ALLOW: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");
const ANYONE: HeaderValue = HeaderValue::from_static("*");
const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const VARY: HeaderValue = HeaderValue::from_static("Accept, Accept-Encoding");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What the answers depend on besides the snapshot.
#[derive(Clone, Debug)]
pub struct Settings {
    /// In front of the protocol's paths: one leading slash and none at the end, or empty.
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

#[derive(Debug)]
struct Route {
    resource: Resource,
    metrics: PathMetrics,
}

/// Answers requests from the state.
#[derive(Debug)]
pub struct App {
    state: Arc<State>,
    settings: Settings,
    routes: HashMap<String, Route>,
    openapi: Variant,
}

impl App {
    /// With routes as the settings say.
    #[must_use]
    pub fn new(state: Arc<State>, settings: Settings) -> Self {
        let mut routes = HashMap::new();
        for (path, resource) in paths(&settings) {
            let metrics = state.metrics().path(&path, resource == Resource::Whole);
            routes.insert(path, Route { resource, metrics });
        }
        let openapi = openapi::document(&settings);
        Self {
            state,
            settings,
            routes,
            openapi,
        }
    }

    /// Every path that is served, sorted.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let mut paths: Vec<&str> = self.routes.keys().map(String::as_str).collect();
        paths.sort_unstable();
        paths
    }

    /// The answer to one request.
    pub async fn answer<B: Body>(&self, request: &Request<B>) -> Answer {
        let path = request.uri().path();
        let Some(route) = self.routes.get(path) else {
            tracing::debug!(path, "nothing there");
            return plain(StatusCode::NOT_FOUND, Bytes::new());
        };
        route.metrics.requested();
        if !request.body().is_end_stream() {
            let mut answer = plain(
                StatusCode::PAYLOAD_TOO_LARGE,
                Bytes::from_static(b"requests have no body\n"),
            );
            answer
                .headers_mut()
                .insert(header::CONNECTION, HeaderValue::from_static("close"));
            return answer;
        }
        match *request.method() {
            Method::GET | Method::HEAD => {
                self.resource(route.resource, request.headers(), request.uri().query())
                    .await
            }
            Method::OPTIONS => preflight(),
            _ => {
                let mut answer = plain(StatusCode::METHOD_NOT_ALLOWED, Bytes::new());
                answer.headers_mut().insert(header::ALLOW, ALLOW);
                answer
            }
        }
    }

    async fn resource(&self, resource: Resource, headers: &HeaderMap, query: Option<&str>) -> Answer {
        let metrics = self.state.metrics();
        match resource {
            Resource::Graph | Resource::Whole => {
                let started = Instant::now();
                let answer = self.graph(resource, headers, query).await;
                metrics.served(started.elapsed());
                answer.unwrap_or_else(|error| {
                    let (kind, status) = error.kind();
                    metrics.refused(status.as_u16(), kind, resource == Resource::Whole);
                    refusal(&error)
                })
            }
            Resource::OpenApi => conditional(headers, &self.openapi, JSON, None),
            Resource::Channels | Resource::Paths | Resource::Explain => {
                let query = query.map(str::to_owned);
                self.extra(resource, query)
                    .await
                    .unwrap_or_else(|error| refusal(&error))
            }
            Resource::Live => self.live(),
            Resource::Ready => self.ready(),
            Resource::Metrics => encoded_metrics(metrics, headers),
        }
    }

    /// Dead when the refresher is: what is served would never change again, and nobody would know.
    fn live(&self) -> Answer {
        match self.state.silence() {
            None => plain(StatusCode::OK, Bytes::from_static(b"ok\n")),
            Some(silence) => {
                let text = format!(
                    "the refresher has given no sign of life for {} s\n",
                    silence.as_secs()
                );
                plain(StatusCode::SERVICE_UNAVAILABLE, Bytes::from(text))
            }
        }
    }

    async fn graph(
        &self,
        resource: Resource,
        headers: &HeaderMap,
        query: Option<&str>,
    ) -> Result<Answer, ApiError> {
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

    async fn extra(&self, resource: Resource, query: Option<String>) -> Result<Answer, ApiError> {
        let snapshot = self.snapshot()?;
        let arch = self.settings.default_arch.clone();
        // A search takes a millisecond or two: not on a thread that serves.
        let answered = tokio::task::spawn_blocking(move || {
            let (graph, query) = (snapshot.graph(), Query::parse(query.as_deref()));
            match resource {
                Resource::Paths => extras::paths(graph, &query, &arch),
                Resource::Explain => extras::explain(graph, &query, &arch),
                _ => extras::channels(graph, &query),
            }
        });
        let body = answered
            .await
            .map_err(|error| ApiError::Encoding(error.to_string()))??;
        let mut answer = plain(StatusCode::OK, body);
        answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
        answer.headers_mut().insert(header::CACHE_CONTROL, REVALIDATE);
        Ok(answer)
    }

    fn ready(&self) -> Answer {
        let missing = self.state.missing();
        if missing.is_empty() {
            return plain(StatusCode::OK, Bytes::from_static(b"ok\n"));
        }
        plain(
            StatusCode::SERVICE_UNAVAILABLE,
            Bytes::from(missing.join("\n") + "\n"),
        )
    }
}

impl Handler for App {
    async fn handle(&self, request: Request<Incoming>) -> Answer {
        self.answer(&request).await
    }
}

/// Every path with what it leads to.
fn paths(settings: &Settings) -> Vec<(String, Resource)> {
    let mut paths = Vec::new();
    let prefix = &settings.prefix;
    if settings.graph {
        for (path, resource) in [("/graph", Resource::Graph), ("/v1/graph", Resource::Graph)] {
            paths.push((format!("{prefix}{path}"), resource));
        }
        paths.push((format!("{prefix}/openapi"), Resource::OpenApi));
        // The protocol knows nothing of these: they are found with and without the prefix.
        let extras = [
            ("/v1/openapi", Resource::OpenApi),
            ("/v1/whole-graph", Resource::Whole),
            ("/v1/channels", Resource::Channels),
            ("/v1/paths", Resource::Paths),
            ("/v1/explain", Resource::Explain),
        ];
        for (path, resource) in extras {
            paths.push((format!("{prefix}{path}"), resource));
            paths.push((path.to_owned(), resource));
        }
    }
    if settings.status {
        // The names of both upstream servers.
        let probes = [
            ("/livez", Resource::Live),
            ("/liveness", Resource::Live),
            ("/readyz", Resource::Ready),
            ("/readiness", Resource::Ready),
            ("/metrics", Resource::Metrics),
        ];
        paths.extend(probes.map(|(path, resource)| (path.to_owned(), resource)));
    }
    paths
}

fn plain(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    if status != StatusCode::NOT_FOUND && status != StatusCode::NO_CONTENT {
        headers.insert(header::CONTENT_TYPE, TEXT);
    }
    answer
}

fn refusal(error: &ApiError) -> Answer {
    let mut answer = plain(error.kind().1, error.body());
    answer.headers_mut().insert(header::CONTENT_TYPE, JSON);
    if matches!(error, ApiError::NoGraph(_)) {
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from_static("10"));
    }
    answer
}

fn preflight() -> Answer {
    let mut answer = plain(StatusCode::NO_CONTENT, Bytes::new());
    let headers = answer.headers_mut();
    headers.insert(header::ALLOW, ALLOW);
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("GET, HEAD"),
    );
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, ANYONE);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    answer
}

/// The body, or 304 to a client that has it.
fn conditional(
    headers: &HeaderMap,
    variant: &Variant,
    media_type: HeaderValue,
    encoding: Option<accept::Encoding>,
) -> Answer {
    let fresh = etag::matches(headers, &variant.etag);
    let body = if fresh {
        Bytes::new()
    } else {
        variant.bytes.clone()
    };
    let mut answer = Response::new(Full::new(body));
    let out = answer.headers_mut();
    out.reserve(8);
    out.insert(header::ETAG, variant.etag.clone());
    out.insert(header::CACHE_CONTROL, REVALIDATE);
    out.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, ANYONE);
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

fn encoded_metrics(metrics: &Metrics, headers: &HeaderMap) -> Answer {
    let open = headers.get_all(header::ACCEPT).iter().any(|value| {
        value
            .to_str()
            .is_ok_and(|value| value.contains("application/openmetrics-text"))
    });
    let (media_type, text) = if open {
        (OPENMETRICS, metrics.openmetrics())
    } else {
        (CLASSIC, metrics.classic())
    };
    match text {
        Ok(text) => {
            let mut answer = plain(StatusCode::OK, text.into());
            answer
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
            answer
        }
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string().into()),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
