//! `bench fleet`: a whole fleet upgrade on a real hub, measured from outside by the audit log.
//!
//! This file has the configuration, the thresholds and the report. With agents, a round is a rollout from start to end; with
//! silent agents (`--agent-seconds 0`), it is the creation of every work beside a bare client's.

pub mod bare;
pub mod history;
mod rollout_round;
mod silent_round;
pub mod test_bed;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use e2e::audit::measures::{Count, float};
use repository::{Profile, Programs};
use serde::Serialize;
use serde_json::{Value, json};

use crate::thresholds::{Side, Threshold, require_counts, show};
use test_bed::note;

/// Namespace of the upgrade, and the set of all clusters.
const NAMESPACE: &str = "bench";
const SET: &str = "fleet";
/// Clusters per second up to which the time to done has a threshold: the rate of 500 clusters, 50 slots and agents of 2 s.
/// Each cluster costs the hub seven writes; a higher rate would measure how many writes its two cores can take.
const JUDGED_PACE: f64 = 25.0;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct FleetArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub clusters: usize,
    /// maxConcurrency.
    #[arg(long = "max-concurrency", value_name = "N", default_value_t = 50)]
    pub slots: usize,
    /// From a work's creation to its terminal feedback, Partial in between; 0: agents that stay silent.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub agent_seconds: f64,
    /// Finished upgrades of the same clusters beside the one that is measured, with all their reports: measured once without
    /// them and once with them. Not with silent agents.
    #[arg(long, value_name = "M", default_value_t = 0)]
    pub history: usize,
    /// Ask every cluster before it starts (spec.preflight), while the upgrade is paused. Not with silent agents.
    #[arg(long)]
    pub preflight: bool,
    /// Times to measure; 1, or 2 with silent agents, so that each side goes first once.
    #[arg(long, value_name = "N")]
    pub runs: Option<usize>,
    /// How long the controller is watched when it has nothing to do.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub idle_seconds: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Copy the audit log of the last hub here, to look into a result.
    #[arg(long, value_name = "FILE")]
    pub keep_audit: Option<PathBuf>,
}

impl FleetArgs {
    pub(super) fn silent(&self) -> bool {
        self.agent_seconds <= 0.0
    }

    fn runs(&self) -> usize {
        self.runs.unwrap_or(if self.silent() { 2 } else { 1 }).max(1)
    }

    /// Seconds of a rollout in which no slot is ever empty and nothing takes any time but the agents.
    pub(super) fn ideal(&self) -> f64 {
        float(self.clusters.div_ceil(self.slots.max(1))) * self.agent_seconds
    }

    /// Clusters that an ideal rollout upgrades per second.
    fn pace(&self) -> f64 {
        float(self.clusters) / self.ideal()
    }

    pub(super) fn spec(&self) -> Value {
        let mut spec = json!({
            "clusterSelector": {"clusterSets": [SET]},
            "clusterVersion": {"channel": "stable-4.20", "version": "4.20.4"},
            "upgradeStrategy": {"maxConcurrency": self.slots},
        });
        if self.preflight {
            spec["preflight"] = json!({"mode": "Require"});
            spec["paused"] = json!(true);
        }
        spec
    }
}

/// What one round found.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Round {
    /// Seconds from the creation of the upgrade to Complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub done_seconds: Option<f64>,
    /// The same over the ideal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_ideal: Option<f64>,
    /// The controller's requests from its start to the end of the rollout, watches aside.
    pub requests: Vec<Count>,
    /// Their number per cluster.
    pub requests_per_cluster: f64,
    /// Requests answered 404 or 409, except the first read of the Lease.
    pub wasted: usize,
    /// ManifestWorks created per second by the controller.
    pub create_rate: f64,
    /// The same by a bare client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_rate: Option<f64>,
    /// True when the bare client went first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_first: Option<bool>,
    /// Number of reactions that could be observed.
    pub reactions: usize,
    /// Median reaction in milliseconds.
    pub reaction_p50_ms: f64,
    /// 99th percentile of the reactions in milliseconds.
    pub reaction_p99_ms: f64,
    /// Requests beyond Lease and watches while all clusters had answered and waited, per minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_idle_per_minute: Option<f64>,
    /// Requests beyond Lease and watches while there was nothing to do, per minute.
    pub idle_per_minute: f64,
    /// Peak resident memory of the controller in MiB.
    pub peak_rss_mib: f64,
    /// Seconds of CPU that the controller used from the creation of the upgrade to Complete.
    pub cpu_seconds: f64,
    /// Finished upgrades that were there.
    pub history: usize,
    /// Size of the largest status that was seen, as compact JSON.
    pub status_bytes: usize,
}

/// The outcome of a bench.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    clusters: usize,
    slots: usize,
    agent_seconds: f64,
    rounds: Vec<Round>,
    thresholds: Vec<Threshold>,
    met: bool,
}

/// Measures and prints; says whether every threshold was met.
///
/// # Errors
/// The hub, the controller or the agents do not work as they should.
pub async fn run(args: &FleetArgs) -> Result<bool> {
    let report = measure(args, Profile::Release).await?;
    show(&report, args.json, print)?;
    Ok(report.met)
}

/// A short run for its counts: requests, waste, idleness, size of the status. Times are not judged.
///
/// # Errors
/// A count misses its threshold, or the run fails.
pub async fn check_counts() -> Result<()> {
    let args = FleetArgs {
        clusters: 100,
        slots: 25,
        agent_seconds: 1.0,
        runs: None,
        history: 0,
        preflight: false,
        idle_seconds: 10,
        json: false,
        keep_audit: None,
    };
    for preflight in [false, true] {
        let args = FleetArgs {
            preflight,
            ..args.clone()
        };
        let report = measure(&args, Profile::own()).await?;
        print(&report);
        require_counts(&report.thresholds)?;
    }
    Ok(())
}

async fn measure(args: &FleetArgs, profile: Profile) -> Result<Report> {
    let programs = Programs::build(profile)?;
    let rounds = if args.silent() {
        silent_round::rounds(args, &programs, args.runs()).await?
    } else {
        let mut rounds = Vec::new();
        for number in 1..=args.runs() {
            note(&format!("round {number} of {}", args.runs()));
            if args.history > 0 {
                let without = FleetArgs {
                    history: 0,
                    ..args.clone()
                };
                rounds.push(rollout_round::round(&without, &programs).await?);
            }
            rounds.push(rollout_round::round(args, &programs).await?);
        }
        rounds
    };
    let thresholds = thresholds(args, &rounds);
    Ok(Report {
        clusters: args.clusters,
        slots: args.slots,
        agent_seconds: args.agent_seconds,
        met: thresholds.iter().all(|threshold| threshold.met),
        rounds,
        thresholds,
    })
}

/// The thresholds of a configuration, on the worst of its rounds; the create ratio on their mean.
fn thresholds(args: &FleetArgs, rounds: &[Round]) -> Vec<Threshold> {
    let worst = |value: fn(&Round) -> f64| rounds.iter().map(value).fold(0.0, f64::max);
    let mut thresholds = Vec::new();
    if args.silent() {
        let sum = |value: fn(&Round) -> f64| rounds.iter().map(value).sum::<f64>();
        let ratio = sum(|round| round.create_rate) / sum(|round| round.bare_rate.unwrap_or(f64::NAN));
        thresholds.push(Threshold::time(
            "create rate over the bare client's",
            (Side::AtLeast, 0.8),
            ratio,
            "",
        ));
    } else {
        if args.pace() <= JUDGED_PACE {
            thresholds.push(Threshold::time(
                "time to done over the ideal",
                (Side::AtMost, 1.2),
                worst(|round| round.over_ideal.unwrap_or(f64::INFINITY)),
                "",
            ));
        }
        thresholds.push(Threshold::count(
            "requests per cluster",
            (Side::AtMost, if args.preflight { 5.0 } else { 3.0 }),
            worst(|round| round.requests_per_cluster),
            "",
        ));
    }
    thresholds.push(Threshold::count(
        "wasted requests (404, 409)",
        (Side::AtMost, 0.0),
        worst(|round| float(round.wasted)),
        "",
    ));
    if rounds.iter().any(|round| round.reactions > 0) {
        thresholds.push(Threshold::time(
            "terminal status to next start, p99",
            (Side::Below, 500.0),
            worst(|round| round.reaction_p99_ms),
            "ms",
        ));
    }
    thresholds.push(Threshold::count(
        "idle requests per minute beyond lease and watches",
        (Side::AtMost, 0.0),
        worst(|round| round.idle_per_minute),
        "",
    ));
    if args.preflight {
        thresholds.push(Threshold::count(
            "the same while a fleet that has answered waits",
            (Side::AtMost, 0.0),
            worst(|round| round.asked_idle_per_minute.unwrap_or(f64::INFINITY)),
            "",
        ));
    }
    if args.history > 0 {
        thresholds.push(cpu_beside_history(rounds));
    }
    thresholds.push(Threshold::count(
        "peak RSS",
        (Side::Below, if args.history > 0 { 200.0 } else { 150.0 }),
        worst(|round| round.peak_rss_mib),
        "MiB",
    ));
    thresholds.push(Threshold::count(
        "status as JSON",
        (Side::Below, 16.0),
        worst(|round| float(round.status_bytes) / 1024.0),
        "KiB",
    ));
    thresholds
}

/// What finished upgrades cost those that run.
fn cpu_beside_history(rounds: &[Round]) -> Threshold {
    let cpu = |with: bool| -> f64 {
        let of = rounds.iter().filter(|round| (round.history > 0) == with);
        of.map(|round| round.cpu_seconds).sum()
    };
    Threshold::time(
        "CPU of the controller with history over without",
        (Side::AtMost, 1.2),
        cpu(true) / cpu(false),
        "",
    )
}

fn print(report: &Report) {
    println!(
        "fleet of {}, {} slots, agents {}",
        report.clusters,
        report.slots,
        if report.agent_seconds > 0.0 {
            format!("of {} s", report.agent_seconds)
        } else {
            "silent".to_owned()
        }
    );
    for (number, round) in (1..).zip(&report.rounds) {
        print!("\nround {number}: ");
        if let (Some(done), Some(over)) = (round.done_seconds, round.over_ideal) {
            print!("done after {done:.1} s, {over:.3} of the ideal; ");
        }
        if let (Some(bare), Some(first)) = (round.bare_rate, round.bare_first) {
            let order = if first {
                "bare client first"
            } else {
                "controller first"
            };
            print!(
                "{:.0} creates/s, bare client {bare:.0}/s, ratio {:.3} ({order}); ",
                round.create_rate,
                round.create_rate / bare
            );
        }
        if round.reactions > 0 {
            print!(
                "reaction p50 {:.0} ms, p99 {:.0} ms of {}; ",
                round.reaction_p50_ms, round.reaction_p99_ms, round.reactions
            );
        }
        println!(
            "{:.2} requests per cluster; {:.1} s of CPU and {:.0} MiB at most, beside {} finished upgrades",
            round.requests_per_cluster, round.cpu_seconds, round.peak_rss_mib, round.history
        );
        for count in &round.requests {
            println!(
                "  {:>8}  {:<8} {:<48} {}",
                count.times, count.verb, count.resource, count.code
            );
        }
    }
    println!();
    for threshold in &report.thresholds {
        println!("{threshold}");
    }
}

#[cfg(test)]
mod tests;
