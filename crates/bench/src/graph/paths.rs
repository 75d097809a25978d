//! Path queries on all stable channels merged.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::audit::measures::percentile;
use serde::Serialize;
use update_graph::query::{PathQuery, Target, path};
use update_graph::{Arch, Graph, Version};

use super::millis;

/// The family of channels that is merged.
const FAMILY: &str = "stable";
/// Queries per pair; the fastest counts, since a query does the same each time and the machine does not.
const REPEATS: usize = 5;
/// Every n-th release is a start, and every n-th later release an end.
const STARTS: usize = 40;
const ENDS: usize = 60;

/// The cost of path queries.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Paths {
    /// Stable releases.
    pub(super) releases: usize,
    /// The queried pairs, each with conditional edges and without.
    pub(super) queries: usize,
    /// Of these, those with a path.
    pub(super) found: usize,
    pub(super) median_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) slowest_ms: f64,
    pub(super) slowest: String,
    /// From the oldest release to the newest, with five alternatives.
    pub(super) alternatives_ms: f64,
}

impl fmt::Display for Paths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "paths among {} stable releases: {} queries, {} with a path, median {:.3} ms, p99 {:.3} ms, slowest {:.3} ms ({}); \
             {:.3} ms with five alternatives",
            self.releases,
            self.queries,
            self.found,
            self.median_ms,
            self.p99_ms,
            self.slowest_ms,
            self.slowest,
            self.alternatives_ms
        )
    }
}

/// Asks for paths between releases of all ages.
pub(super) fn measure(graph: &Graph) -> Result<Paths> {
    let arch = Arch::amd64();
    let stable: Vec<Version> = graph
        .releases(&arch)
        .filter(|release| release.channels().any(|name| name.starts_with("stable-")))
        .map(|release| release.version().clone())
        .collect();
    ensure!(stable.len() > STARTS, "only {} stable releases", stable.len());
    let (mut times, mut found) = (Vec::new(), 0);
    for (at, from) in stable.iter().enumerate().step_by(STARTS) {
        for to in stable[at + 1..].iter().step_by(ENDS) {
            for conditional in [false, true] {
                let query = PathQuery {
                    conditional,
                    channels: vec![FAMILY.to_owned()],
                    ..PathQuery::new(arch.clone(), from.clone(), Target::Version(to.clone()))
                };
                let (time, has_path) = ask(graph, &query)?;
                found += usize::from(has_path);
                times.push((time, format!("{from} -> {to}")));
            }
        }
    }
    times.sort_unstable();
    let (slowest, pair) = times.last().cloned().context("no pair")?;
    let sorted: Vec<Duration> = times.iter().map(|(time, _)| *time).collect();
    Ok(Paths {
        releases: stable.len(),
        queries: times.len(),
        found,
        median_ms: millis(percentile(&sorted, 50)),
        p99_ms: millis(percentile(&sorted, 99)),
        slowest_ms: millis(slowest),
        slowest: pair,
        alternatives_ms: alternatives(graph, &arch, &stable)?,
    })
}

fn alternatives(graph: &Graph, arch: &Arch, stable: &[Version]) -> Result<f64> {
    let (Some(first), Some(last)) = (stable.first(), stable.last()) else {
        return Ok(0.0);
    };
    let query = PathQuery {
        conditional: true,
        channels: vec![FAMILY.to_owned()],
        limit: 6,
        ..PathQuery::new(arch.clone(), first.clone(), Target::Version(last.clone()))
    };
    Ok(millis(ask(graph, &query)?.0))
}

/// The fastest of some queries, and whether there is a path.
fn ask(graph: &Graph, query: &PathQuery) -> Result<(Duration, bool)> {
    let (mut best, mut has_path) = (Duration::MAX, false);
    for _ in 0..REPEATS {
        let started = Instant::now();
        let paths = black_box(path(graph, black_box(query))?);
        best = best.min(started.elapsed());
        has_path = paths.unreachable.is_none();
    }
    Ok((best, has_path))
}
