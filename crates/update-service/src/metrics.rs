//! Every series of the service, and their encoding.
//!
//! The names under `cincinnati_gb_` and `cincinnati_pe_` are those of upstream's graph-builder and policy-engine, so that
//! dashboards and alerts keep working. Other series are under `update_service_`. All values of a label are known when the
//! process starts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use telemetry::{exposition, process, server};

use crate::keep::Reason;

pub use labels::Source;

mod labels;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UriPath {
    uri_path: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabel {
    code: u16,
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Build {
    git_commit: &'static str,
    version: &'static str,
}

type One = [(&'static str, &'static str); 1];
type Number = Gauge<f64, AtomicU64>;

/// Requests of one path, with handles ready so that a request looks nothing up.
#[derive(Clone, Debug)]
pub struct PathMetrics {
    requests: Counter,
    whole: Option<Counter>,
}

impl PathMetrics {
    /// A request came.
    pub fn requested(&self) {
        self.requests.inc();
        if let Some(whole) = &self.whole {
            whole.inc();
        }
    }
}

/// All series, registered once. Shared as `Arc`.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    gb: GraphBuilder,
    pe: PolicyEngine,
    own: Own,
    published: Arc<Published>,
}

/// What upstream's graph-builder counts.
#[derive(Debug)]
struct GraphBuilder {
    releases: Gauge,
    raw_releases: Gauge,
    refreshed: Gauge,
    scrapes: Counter,
    errors: Counter,
    first_scrape: Number,
    scrape_duration: Histogram,
    requests: Family<UriPath, Counter>,
    response_errors: Family<ErrorLabel, Counter>,
}

impl GraphBuilder {
    fn new(r: &mut Registrar) -> Self {
        Self {
            releases: r.add(
                "cincinnati_gb_graph_final_releases",
                "Releases in the final graph",
                Gauge::default(),
            ),
            raw_releases: r.add(
                "cincinnati_gb_graph_upstream_raw_releases",
                "Releases read from the source",
                Gauge::default(),
            ),
            refreshed: r.add(
                "cincinnati_gb_graph_last_successful_refresh_timestamp",
                "Time of the last successful refresh, in seconds since the Unix epoch",
                Gauge::default(),
            ),
            scrapes: r.add(
                "cincinnati_gb_graph_upstream_scrapes",
                "Readings of the source",
                Counter::default(),
            ),
            errors: r.add(
                "cincinnati_gb_graph_upstream_errors",
                "Readings of the source that failed",
                Counter::default(),
            ),
            first_scrape: r.add(
                "cincinnati_gb_graph_initial_upstream_scrape_duration",
                "Time of the first successful reading of the source, in seconds",
                Number::default(),
            ),
            scrape_duration: r.add(
                "cincinnati_gb_graph_upstream_scrapes_duration",
                "Time to read the source, in seconds",
                Histogram::new([0.1, 1.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 60.0, 300.0]),
            ),
            requests: r.add(
                "cincinnati_gb_graph_incoming_requests",
                "Requests for the whole graph, by path",
                Family::default(),
            ),
            response_errors: r.add(
                "cincinnati_gb_graph_response_errors",
                "Requests for the whole graph that were answered by an error, by status and kind",
                Family::default(),
            ),
        }
    }
}

/// What upstream's policy-engine counts.
#[derive(Debug)]
struct PolicyEngine {
    requests: Family<UriPath, Counter>,
    duration: Histogram,
    response_errors: Family<ErrorLabel, Counter>,
    upstream: Counter,
    upstream_errors: Counter,
}

impl PolicyEngine {
    fn new(r: &mut Registrar) -> Self {
        Self {
            requests: r.add(
                "cincinnati_pe_graph_incoming_requests",
                "Requests, by path",
                Family::default(),
            ),
            duration: r.add(
                "cincinnati_pe_graph_serve_duration_seconds",
                "Time from a request for a graph to its answer",
                Histogram::new([
                    0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 5.0,
                ]),
            ),
            response_errors: r.add(
                "cincinnati_pe_graph_response_errors",
                "Requests for a graph that were answered by an error, by status and kind",
                Family::default(),
            ),
            upstream: r.add(
                "cincinnati_pe_http_upstream_requests",
                "Readings of an upstream service's graph",
                Counter::default(),
            ),
            upstream_errors: r.add(
                "cincinnati_pe_http_upstream_errors",
                "Readings of an upstream service's graph that failed",
                Counter::default(),
            ),
        }
    }
}

/// Series that neither of them has.
#[derive(Debug)]
struct Own {
    snapshots: Counter,
    lost: Family<One, Counter>,
    retained: Gauge,
    unreadable: Gauge,
    failed: Family<One, Gauge>,
    last_error: Family<One, Gauge>,
    problems: Family<One, Gauge>,
    body_duration: Histogram,
    server: server::ServerMetrics,
}

impl Own {
    fn new(r: &mut Registrar) -> Self {
        let server = server::ServerMetrics::default();
        r.add(
            "update_service_connections",
            "Open connections",
            server.open.clone(),
        );
        r.add(
            "update_service_closed_connections",
            "Connections that were ended for their clients' sake or lack of it, by reason",
            server.closed.clone(),
        );
        Self {
            server,
            snapshots: r.add(
                "update_service_snapshots",
                "Snapshots published",
                Counter::default(),
            ),
            lost: r.add(
                "update_service_lost_releases",
                "Releases that left the graph, by reason",
                Family::default(),
            ),
            retained: r.add(
                "update_service_retained_releases",
                "Releases that are kept although the source does not list them now",
                Gauge::default(),
            ),
            unreadable: r.add(
                "update_service_unreadable_releases",
                "Names that the source lists and that cannot be read or are of no use",
                Gauge::default(),
            ),
            failed: r.add(
                "update_service_source_failed",
                "1 while the last reading of a source failed, else 0",
                Family::default(),
            ),
            last_error: r.add(
                "update_service_source_last_error_timestamp_seconds",
                "Time of the last failed reading of a source, in seconds since the Unix epoch; 0 for never",
                Family::default(),
            ),
            problems: r.add(
                "update_service_problems",
                "Problems found in the data being served, by severity",
                Family::default(),
            ),
            body_duration: r.add(
                "update_service_body_seconds",
                "Time to make a body that was not ready",
                Histogram::new([0.0005, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5]),
            ),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

struct Registrar(Registry);

impl Registrar {
    fn add<M: prometheus_client::registry::Metric + Clone>(
        &mut self,
        name: &str,
        help: &str,
        metric: M,
    ) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }
}

impl Metrics {
    /// Registers every series. Those over closed label sets start at zero, so that a rate is known from the first
    /// scrape on.
    #[must_use]
    pub fn new() -> Self {
        let mut r = Registrar(Registry::default());
        let published = Arc::new(Published::default());
        let metrics = Self {
            gb: GraphBuilder::new(&mut r),
            pe: PolicyEngine::new(&mut r),
            own: Own::new(&mut r),
            published: Arc::clone(&published),
            registry: Registry::default(),
        };
        metrics.zeros();
        let build = Build {
            git_commit: option_env!("GIT_COMMIT").unwrap_or("unknown"),
            version: env!("CARGO_PKG_VERSION"),
        };
        for name in [
            "cincinnati_gb_build",
            "cincinnati_pe_build",
            "update_service_build",
        ] {
            r.0.register(name, "The running version", Info::new(build.clone()));
        }
        r.0.register_collector(Box::new(published));
        r.0.register_collector(Box::new(process::Process));
        Self {
            registry: r.0,
            ..metrics
        }
    }

    fn zeros(&self) {
        for reason in Reason::ALL {
            drop(self.own.lost.get_or_create(&[("reason", reason.as_str())]));
        }
        for source in Source::ALL {
            drop(self.own.failed.get_or_create(&[("source", source.as_str())]));
            drop(self.own.last_error.get_or_create(&[("source", source.as_str())]));
        }
    }

    /// The counters of a path. Paths are those of the routes.
    #[must_use]
    pub fn path(&self, uri_path: &str, whole: bool) -> PathMetrics {
        let label = UriPath {
            uri_path: uri_path.to_owned(),
        };
        PathMetrics {
            requests: self.pe.requests.get_or_create(&label).clone(),
            whole: whole.then(|| self.gb.requests.get_or_create(&label).clone()),
        }
    }

    /// A graph was answered with after this time.
    pub fn served(&self, took: Duration) {
        self.pe.duration.observe(took.as_secs_f64());
    }

    /// A request for a graph was refused.
    pub fn refused(&self, code: u16, kind: &'static str, whole: bool) {
        let label = ErrorLabel { code, kind };
        let family = if whole {
            &self.gb.response_errors
        } else {
            &self.pe.response_errors
        };
        family.get_or_create(&label).inc();
    }

    /// A source was read, or not, in this time.
    pub fn source_read(&self, source: Source, upstream_graph: bool, took: Duration, success: bool) {
        let label = [("source", source.as_str())];
        self.own.failed.get_or_create(&label).set(i64::from(!success));
        if !success {
            self.own.last_error.get_or_create(&label).set(now());
        }
        if source == Source::GraphData {
            return;
        }
        self.gb.scrapes.inc();
        self.gb.scrape_duration.observe(took.as_secs_f64());
        if success && self.gb.first_scrape.get() == 0.0 {
            self.gb.first_scrape.set(took.as_secs_f64());
        }
        if !success {
            self.gb.errors.inc();
        }
        if upstream_graph {
            self.pe.upstream.inc();
            if !success {
                self.pe.upstream_errors.inc();
            }
        }
    }

    /// Everything was read without error, whether it changed or not.
    pub fn refreshed(&self) {
        self.gb.refreshed.set(now());
    }

    /// A snapshot with this number of releases was published.
    pub fn published(&self, releases: usize, made: SystemTime) {
        self.own.snapshots.inc();
        self.gb.releases.set(whole(releases));
        self.published.at.store(Some(Arc::new(made)));
    }

    /// What the source gave: releases read, names that are kept although missing, names of no use.
    pub fn listed(&self, read: usize, retained: usize, unreadable: usize) {
        self.gb.raw_releases.set(whole(read));
        self.own.retained.set(whole(retained));
        self.own.unreadable.set(whole(unreadable));
    }

    /// A release left.
    pub fn lost(&self, reason: Reason) {
        self.own.lost.get_or_create(&[("reason", reason.as_str())]).inc();
    }

    /// Problems in the served data.
    pub fn problems(&self, severity: &'static str, count: usize) {
        self.own
            .problems
            .get_or_create(&[("severity", severity)])
            .set(whole(count));
    }

    /// A body was made in this time.
    pub fn body_made(&self, took: Duration) {
        self.own.body_duration.observe(took.as_secs_f64());
    }

    /// The series of the HTTP server.
    #[must_use]
    pub fn server(&self) -> &server::ServerMetrics {
        &self.own.server
    }

    /// Every series.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Everything as `OpenMetrics` text.
    ///
    /// # Errors
    /// [`fmt::Error`] when a value cannot be encoded.
    pub fn openmetrics(&self) -> Result<String, fmt::Error> {
        exposition::openmetrics(&self.registry)
    }

    /// Everything in the classic text format.
    ///
    /// # Errors
    /// [`fmt::Error`] when a value cannot be encoded.
    pub fn classic(&self) -> Result<String, fmt::Error> {
        exposition::classic(&self.registry)
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Age of the snapshot, read at the scrape.
#[derive(Debug, Default)]
struct Published {
    at: ArcSwapOption<SystemTime>,
}

impl Collector for Published {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Some(at) = self.at.load_full() else {
            return Ok(());
        };
        let age = SystemTime::now().duration_since(*at).unwrap_or_default();
        let metric = encoder.encode_descriptor(
            "update_service_snapshot_age_seconds",
            "Time since the snapshot being served was made.",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(age.as_secs_f64()).encode(metric)
    }
}

#[cfg(test)]
mod tests;
