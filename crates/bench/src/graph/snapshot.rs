//! From file bytes to a graph that answers, and how fast it answers: in this process, without HTTP.

use std::fmt;
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use e2e::audit::measures::float;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use update_graph::{Arch, Builder, Graph, GraphData, release_list};

use super::data::{ARCHITECTURES, Files};
use super::paths::{self, Paths};
use super::{GraphBenchArgs, millis};
use crate::fleet::test_bed::note;

/// As many as the machine of the thresholds has.
const THREADS: usize = 2;

/// The cost of snapshots.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Snapshots {
    /// The channel with the largest body for amd64.
    pub(super) largest: String,
    /// The real data.
    pub(super) one: Times,
    /// The same releases for five architectures, with different digests.
    pub(super) five: Times,
    /// Bodies of every channel of one architecture.
    pub(super) bodies: Bodies,
    pub(super) paths: Paths,
}

/// From bytes (gzip, tar, JSON, YAML) to a graph that answers; bodies aside.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Times {
    pub(super) releases: usize,
    pub(super) median_ms: f64,
    pub(super) slowest_ms: f64,
}

/// Encoding of bodies, which a service does on their first request.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bodies {
    pub(super) channels: usize,
    pub(super) bytes: usize,
    pub(super) gzip_bytes: usize,
    pub(super) write_ms: f64,
    pub(super) gzip_ms: f64,
    /// The largest body alone.
    pub(super) largest_bytes: usize,
    pub(super) largest_write_ms: f64,
    pub(super) largest_gzip_ms: f64,
}

impl fmt::Display for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, times) in [
            ("one architecture", &self.one),
            ("five architectures", &self.five),
        ] {
            writeln!(
                f,
                "snapshot, {name}: {} releases, median {:.1} ms, slowest {:.1} ms",
                times.releases, times.median_ms, times.slowest_ms
            )?;
        }
        let bodies = &self.bodies;
        writeln!(
            f,
            "bodies of {} channels of one architecture: {:.2} MB written in {:.1} ms, {:.2} MB gzipped in {:.1} ms",
            bodies.channels,
            megabytes(bodies.bytes),
            bodies.write_ms,
            megabytes(bodies.gzip_bytes),
            bodies.gzip_ms
        )?;
        writeln!(
            f,
            "the largest, {}: {} bytes, written in {:.2} ms, gzipped in {:.2} ms",
            self.largest, bodies.largest_bytes, bodies.largest_write_ms, bodies.largest_gzip_ms
        )?;
        write!(f, "{}", self.paths)
    }
}

fn megabytes(bytes: usize) -> f64 {
    float(bytes) / 1e6
}

/// Measures; returns all channels too.
pub(super) fn measure(args: &GraphBenchArgs, files: &Files) -> Result<(Snapshots, Vec<String>)> {
    note("snapshots of one architecture");
    let (one, graph) = times(args, &files.releases, &files.graph_data)?;
    note("snapshots of five architectures");
    let (five, of_five) = times(args, &files.releases_for_all(0)?, &files.graph_data)?;
    anyhow::ensure!(
        of_five.arches().count() == ARCHITECTURES.len(),
        "not five architectures"
    );
    drop(of_five);
    note("bodies and paths");
    let channels: Vec<String> = graph.channels().map(str::to_owned).collect();
    let (largest, bodies) = bodies(&graph, &channels)?;
    let paths = paths::measure(&graph)?;
    let snapshots = Snapshots {
        largest,
        one,
        five,
        bodies,
        paths,
    };
    Ok((snapshots, channels))
}

/// What the service does with file bytes.
fn snapshot(releases: &[u8], graph_data: &[u8]) -> Result<Graph> {
    let (list, data) = std::thread::scope(|scope| {
        let list = scope.spawn(|| release_list::parse(releases, &Arch::amd64()));
        let data = GraphData::from_tar(graph_data, 1);
        (list.join(), data)
    });
    let list = list.map_err(|_| anyhow::anyhow!("reading panicked"))??;
    let (data, _) = data?;
    let (graph, _) = Builder::new()
        .list(list)
        .graph_data(Arc::new(data))
        .threads(THREADS)
        .build();
    Ok(graph)
}

fn times(args: &GraphBenchArgs, releases: &[u8], graph_data: &[u8]) -> Result<(Times, Graph)> {
    // Not measured: the first one pays for memory that later ones find.
    let mut graph = snapshot(releases, graph_data)?;
    let mut times = Vec::new();
    for _ in 0..args.snapshots.max(1) {
        let started = Instant::now();
        let next = snapshot(black_box(releases), black_box(graph_data))?;
        times.push(started.elapsed());
        graph = next;
    }
    times.sort_unstable();
    let times = Times {
        releases: graph.counts(None).releases,
        median_ms: millis(times[times.len() / 2]),
        slowest_ms: millis(times.last().copied().unwrap_or_default()),
    };
    Ok((times, graph))
}

/// The body of every channel, written and gzipped once; the name of the largest.
fn bodies(graph: &Graph, channels: &[String]) -> Result<(String, Bodies)> {
    let arch = Arch::amd64();
    let mut found = Bodies {
        channels: channels.len(),
        bytes: 0,
        gzip_bytes: 0,
        write_ms: 0.0,
        gzip_ms: 0.0,
        largest_bytes: 0,
        largest_write_ms: 0.0,
        largest_gzip_ms: 0.0,
    };
    let mut largest = None;
    for channel in channels {
        let started = Instant::now();
        let body = graph.body(channel, &arch);
        let written = started.elapsed();
        let started = Instant::now();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        gzip.write_all(&body)?;
        let packed = gzip.finish()?;
        let zipped: Duration = started.elapsed();
        found.bytes += body.len();
        found.gzip_bytes += packed.len();
        found.write_ms += millis(written);
        found.gzip_ms += millis(zipped);
        if body.len() > found.largest_bytes {
            largest = Some(channel.clone());
            found.largest_bytes = body.len();
            found.largest_write_ms = millis(written);
            found.largest_gzip_ms = millis(zipped);
        }
    }
    Ok((largest.context("no channel")?, found))
}
