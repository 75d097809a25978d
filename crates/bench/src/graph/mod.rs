//! `bench graph`: measures the update service on the real update graph, from reading files to answering requests.
//!
//! This file has the configuration, the thresholds and the report. The snapshot and the path query are measured in this
//! process ([`snapshot`]). The service is measured as a separate process ([`served`]) under a load generator ([`load`]), in
//! comparison with a bare server ([`bare`]).

pub mod bare;
mod data;
mod load;
mod paths;
mod served;
mod snapshot;

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use e2e::audit::measures::float;
use repository::{Profile, Programs};
use serde::Serialize;

use crate::fleet::test_bed::note;
use crate::thresholds::{Side, Threshold, show};
use data::Files;
use served::{Bench, Memory, Served};
use snapshot::Snapshots;

/// Requests per second of openshift/cincinnati's policy-engine on a machine of this class, over five architectures
/// (eus-4.16, 8 connections).
const POLICY_ENGINE: f64 = 11.0;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct GraphBenchArgs {
    /// Length of each load.
    #[arg(long, value_name = "SECONDS", default_value_t = 4)]
    pub seconds: u32,
    /// Rounds of full load and of half load; service and bare server take turns in going first.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rounds: usize,
    /// Keep-alive connections of the load generator, one request at a time on each.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub connections: usize,
    /// Snapshots per number of architectures; the median counts.
    #[arg(long, value_name = "N", default_value_t = 11)]
    pub snapshots: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The outcome of a bench.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// The channel with the largest body.
    largest: String,
    snapshots: Snapshots,
    served: Vec<Served>,
    memory: Memory,
    thresholds: Vec<Threshold>,
    met: bool,
}

/// Measures and prints; says whether every threshold was met.
///
/// # Errors
/// The real data is missing, or the service does not work as it should.
pub fn run(args: &GraphBenchArgs) -> Result<bool> {
    let programs = Programs::build(Profile::Release)?;
    let files = Files::read()?;
    let (snapshots, channels) = snapshot::measure(args, &files)?;
    let largest = snapshots.largest.clone();
    note("starting the service with five architectures");
    let bench = Bench::start(args, &programs, &files, &channels, &largest)?;
    let served = vec![bench.served("identity")?, bench.served("gzip")?];
    let memory = bench.memory()?;
    let thresholds = thresholds(&snapshots, &served, &memory);
    let report = Report {
        largest,
        snapshots,
        served,
        memory,
        met: thresholds.iter().all(|threshold| threshold.met),
        thresholds,
    };
    show(&report, args.json, print)?;
    Ok(report.met)
}

fn thresholds(snapshots: &Snapshots, served: &[Served], memory: &Memory) -> Vec<Threshold> {
    let mut thresholds = vec![
        Threshold::time(
            "snapshot of one architecture, median",
            (Side::AtMost, 150.0),
            snapshots.one.median_ms,
            "ms",
        ),
        Threshold::time(
            "snapshot of five architectures, median",
            (Side::AtMost, 500.0),
            snapshots.five.median_ms,
            "ms",
        ),
        Threshold::time(
            "path on all stable channels, slowest pair",
            (Side::Below, 2.0),
            snapshots.paths.slowest_ms,
            "ms",
        ),
    ];
    for side in served {
        let encoding = side.encoding;
        thresholds.push(Threshold::time(
            &format!("{encoding}: requests/s over the bare server's"),
            (Side::AtLeast, 0.8),
            side.ratio,
            "",
        ));
        let slowest = side.service_rates.iter().copied().fold(f64::INFINITY, f64::min);
        thresholds.push(Threshold::time(
            &format!("{encoding}: requests/s over policy-engine's {POLICY_ENGINE}"),
            (Side::AtLeast, 200.0),
            slowest / POLICY_ENGINE,
            "×",
        ));
        thresholds.push(Threshold::time(
            &format!("{encoding}: p99 at half load, median round"),
            (Side::Below, 5.0),
            side.half_load_p99_ms,
            "ms",
        ));
    }
    thresholds.push(Threshold::count(
        "peak RSS, five architectures, one swap under load",
        (Side::Below, 200.0),
        memory.peak_mib,
        "MiB",
    ));
    thresholds
}

fn print(report: &Report) {
    let Report {
        snapshots, memory, ..
    } = report;
    println!("update graph, largest channel {}\n", report.largest);
    println!("{snapshots}\n");
    println!(
        "{:<9} {:>9} {:>12} {:>12} {:>7} {:>14} {:>12} {:>12} {:>15}",
        "ENCODING",
        "BYTES",
        "SERVICE/S",
        "BARE/S",
        "RATIO",
        "FULL P99 MS",
        "HALF P50 MS",
        "HALF P99 MS",
        "BARE HALF P99"
    );
    for side in &report.served {
        println!(
            "{:<9} {:>9} {:>12.0} {:>12.0} {:>7.3} {:>14.2} {:>12.2} {:>12.2} {:>15.2}",
            side.encoding,
            side.bytes,
            mean(&side.service_rates),
            mean(&side.bare_rates),
            side.ratio,
            side.full_load_p99_ms,
            side.half_load_p50_ms,
            side.half_load_p99_ms,
            median(side.bare_half_load_p99s_ms.clone()),
        );
    }
    println!(
        "\npeak RSS: {:.1} MiB loaded, {:.1} with every body, {:.1} after a swap under load ({:.2} s, p99 {:.2} ms)\n",
        memory.loaded_mib, memory.all_bodies_mib, memory.peak_mib, memory.swap_seconds, memory.swap_p99_ms
    );
    for threshold in &report.thresholds {
        println!("{threshold}");
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / float(values.len().max(1))
}

/// The middle one; of an even number the greater of the two in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Milliseconds.
fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
