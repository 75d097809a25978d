//! `bench fleet`: a whole fleet upgrade on a real hub, measured from outside by the audit log.
//!
//! Owns the configuration, the hub and what both kinds of rounds share. With agents, a round is a rollout from start to
//! end; with silent agents (`--agent-seconds 0`), it is the creation of every work beside a bare client's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use serde::Serialize;
use serde_json::{Value, json};
use testenv::process::tail;
use testenv::{Controllers, FleetSpec, Hub, fleet, hub::wait_until};

use super::audit::{AuditLog, Request};
use super::bars::{Bar, Nature, Side, float};
use super::measures::{self, Count};
use super::{rollout_round, silent_round};
use crate::stage::{self, AGENTS_USER, CONTROLLER_USER};
use crate::workspace::{Binaries, Profile};

/// Namespace of the upgrade, and the set of all clusters.
pub(super) const NAMESPACE: &str = "bench";
const SET: &str = "fleet";
/// How long a controller that has nothing to do may take to become quiet.
const SETTLING: Duration = Duration::from_mins(1);
/// Clusters per second up to which the time to done is judged: those of 500 clusters, window 50 and agents of 2 s. Each costs
/// the hub seven writes; what asks for more measures how many of them its two cores can take.
const JUDGED_PACE: f64 = 25.0;
/// A controller that asked for nothing this long has become quiet.
const QUIET: Duration = Duration::from_secs(4);

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct FleetArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub clusters: usize,
    /// maxConcurrency.
    #[arg(long, value_name = "W", default_value_t = 50)]
    pub window: usize,
    /// From a work's creation to its terminal feedback, Partial in between; 0: agents that stay silent.
    #[arg(long, value_name = "S", default_value_t = 2.0)]
    pub agent_seconds: f64,
    /// Finished upgrades of the same clusters beside the one that is measured, with all their reports: measured once without
    /// them and once with them. Not with silent agents.
    #[arg(long, value_name = "M", default_value_t = 0)]
    pub history: usize,
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
        float(self.clusters.div_ceil(self.window.max(1))) * self.agent_seconds
    }

    /// Clusters that an ideal rollout upgrades per second.
    fn pace(&self) -> f64 {
        float(self.clusters) / self.ideal()
    }

    pub(super) fn spec(&self) -> Value {
        json!({
            "clusterSelector": {"clusterSets": [SET]},
            "clusterVersion": {"channel": "stable-4.12", "version": "4.12.0"},
            "upgradeStrategy": {"maxConcurrency": self.window},
        })
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
    /// Requests answered 404 or 409, but for the first look at the Lease.
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
    window: usize,
    agent_seconds: f64,
    rounds: Vec<Round>,
    bars: Vec<Bar>,
    met: bool,
}

/// Measures and prints; says whether every bar was met.
///
/// # Errors
/// The hub, the controller or the agents do not work as they should.
pub async fn run(args: &FleetArgs) -> Result<bool> {
    let report = measure(args, Profile::Release).await?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    Ok(report.met)
}

/// A short run for its counts: requests, waste, idleness, size of the status. Times are not judged.
///
/// # Errors
/// A count misses its bar, or the run fails.
pub async fn check_counts() -> Result<()> {
    let args = FleetArgs {
        clusters: 100,
        window: 25,
        agent_seconds: 1.0,
        runs: None,
        history: 0,
        idle_seconds: 10,
        json: false,
        keep_audit: None,
    };
    let report = measure(&args, Profile::own()).await?;
    print(&report);
    let missed: Vec<String> = report
        .bars
        .iter()
        .filter(|bar| bar.nature == Nature::Count && !bar.met)
        .map(ToString::to_string)
        .collect();
    if !missed.is_empty() {
        bail!("{}", missed.join("; "));
    }
    Ok(())
}

async fn measure(args: &FleetArgs, profile: Profile) -> Result<Report> {
    let binaries = Binaries::build(profile)?;
    let rounds = if args.silent() {
        silent_round::rounds(args, &binaries, args.runs()).await?
    } else {
        let mut rounds = Vec::new();
        for number in 1..=args.runs() {
            note(&format!("round {number} of {}", args.runs()));
            if args.history > 0 {
                let without = FleetArgs {
                    history: 0,
                    ..args.clone()
                };
                rounds.push(rollout_round::round(&without, &binaries).await?);
            }
            rounds.push(rollout_round::round(args, &binaries).await?);
        }
        rounds
    };
    let bars = bars(args, &rounds);
    Ok(Report {
        clusters: args.clusters,
        window: args.window,
        agent_seconds: args.agent_seconds,
        met: bars.iter().all(|bar| bar.met),
        rounds,
        bars,
    })
}

/// The bars of a configuration, on the worst of its rounds; the create ratio on their mean.
fn bars(args: &FleetArgs, rounds: &[Round]) -> Vec<Bar> {
    let worst = |value: fn(&Round) -> f64| rounds.iter().map(value).fold(0.0, f64::max);
    let mut bars = Vec::new();
    if args.silent() {
        let sum = |value: fn(&Round) -> f64| rounds.iter().map(value).sum::<f64>();
        let ratio = sum(|round| round.create_rate) / sum(|round| round.bare_rate.unwrap_or(f64::NAN));
        bars.push(Bar::time(
            "create rate over the bare client's",
            (Side::AtLeast, 0.8),
            ratio,
            "",
        ));
    } else {
        if args.pace() <= JUDGED_PACE {
            bars.push(Bar::time(
                "time to done over the ideal",
                (Side::AtMost, 1.2),
                worst(|round| round.over_ideal.unwrap_or(f64::NAN)),
                "",
            ));
        }
        bars.push(Bar::count(
            "requests per cluster",
            (Side::AtMost, 3.0),
            worst(|round| round.requests_per_cluster),
            "",
        ));
    }
    bars.push(Bar::count(
        "wasted requests (404, 409)",
        (Side::AtMost, 0.0),
        worst(|round| float(round.wasted)),
        "",
    ));
    if rounds.iter().any(|round| round.reactions > 0) {
        bars.push(Bar::time(
            "terminal status to next start, p99",
            (Side::Below, 500.0),
            worst(|round| round.reaction_p99_ms),
            "ms",
        ));
    }
    bars.push(Bar::count(
        "idle requests per minute beyond lease and watches",
        (Side::AtMost, 0.0),
        worst(|round| round.idle_per_minute),
        "",
    ));
    if args.history > 0 {
        let cpu = |with: bool| -> f64 {
            let of = rounds.iter().filter(|round| (round.history > 0) == with);
            of.map(|round| round.cpu_seconds).sum()
        };
        bars.push(Bar::time(
            "CPU of the controller with history over without",
            (Side::AtMost, 1.2),
            cpu(true) / cpu(false),
            "",
        ));
    }
    bars.push(Bar::count(
        "peak RSS",
        (Side::Below, if args.history > 0 { 200.0 } else { 150.0 }),
        worst(|round| round.peak_rss_mib),
        "MiB",
    ));
    bars.push(Bar::count(
        "status as JSON",
        (Side::Below, 16.0),
        worst(|round| float(round.status_bytes) / 1024.0),
        "KiB",
    ));
    bars
}

fn print(report: &Report) {
    println!(
        "fleet of {}, window {}, agents {}",
        report.clusters,
        report.window,
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
    for bar in &report.bars {
        println!("{bar}");
    }
}

/// Longest time until the API server has its caches.
const WARMING: Duration = Duration::from_secs(30);

/// A line of progress.
pub(super) fn note(line: &str) {
    eprintln!("bench: {line}");
}

/// A hub with the product installed and a fleet, and its audit log.
pub(super) struct Ground {
    pub(super) hub: Hub,
    pub(super) log: AuditLog,
}

impl Ground {
    /// Starts and fills a hub.
    pub(super) async fn prepare(args: &FleetArgs) -> Result<Self> {
        let builder = Hub::builder()
            .controller_manager(Controllers::collectors())
            .ocm_crds()
            .audit();
        let hub = stage::with_agents(builder).start().await?;
        stage::deploy(&hub).await?;
        note(&format!("creating {} clusters", args.clusters));
        let fleet = FleetSpec::numbered("spoke", args.clusters)
            .in_set(SET)
            .bound_in(NAMESPACE);
        fleet::create(hub.client(), &fleet).await?;
        // A fleet is there long before its upgrade. The API server would keep the events of its making in memory, and look
        // through them whenever it collects its garbage.
        hub.restart_apiserver().await?;
        warm(&hub).await?;
        let path = hub.audit_log().context("the hub has no audit log")?;
        let mut log = AuditLog::new(path, &[CONTROLLER_USER, AGENTS_USER]);
        log.skip()?;
        Ok(Self { hub, log })
    }

    pub(super) fn upgrades(&self) -> Api<DynamicObject> {
        stage::upgrades(&self.hub, NAMESPACE)
    }

    /// Creates the upgrade.
    pub(super) async fn create(&self, args: &FleetArgs, name: &str) -> Result<DynamicObject> {
        stage::create_upgrade(&self.hub, NAMESPACE, name, &args.spec()).await
    }

    /// Reads the upgrade; `None` when it is gone.
    pub(super) async fn read(&self, name: &str) -> Result<Option<DynamicObject>> {
        Ok(self.upgrades().get_opt(name).await?)
    }

    /// Deletes the upgrade; the controller removes its works.
    pub(super) async fn delete(&self, name: &str) -> Result<()> {
        self.upgrades()
            .delete(name, &kube::api::DeleteParams::default())
            .await?;
        Ok(())
    }

    /// The end of a process's log, for errors.
    pub(super) fn log_of(&self, process: &str) -> String {
        tail(&self.hub.dir().join(format!("{process}.log")), 15)
    }

    /// Stops the hub; its audit log is kept if that was asked for.
    pub(super) async fn close(self, args: &FleetArgs) -> Result<()> {
        if let (Some(keep), Some(log)) = (&args.keep_audit, self.hub.audit_log()) {
            std::fs::copy(log, keep).with_context(|| format!("cannot write {}", keep.display()))?;
        }
        self.hub.stop().await
    }

    /// Waits until the controller has been quiet for a while; returns what it asked until then.
    pub(super) async fn settle(&mut self) -> Result<Vec<Request>> {
        let mut all = Vec::new();
        let (started, mut last) = (Instant::now(), Instant::now());
        while last.elapsed() < QUIET {
            if started.elapsed() > SETTLING {
                note("the controller does not become quiet");
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
            let new = self.log.read()?;
            if measures::beyond_lease(&new) > 0 {
                last = Instant::now();
            }
            all.extend(new);
        }
        Ok(all)
    }

    /// Watches a controller that has nothing to do; requests beyond Lease and watches, per minute.
    pub(super) async fn idle(&mut self, seconds: u32) -> Result<f64> {
        if seconds == 0 {
            return Ok(0.0);
        }
        note(&format!("watching {seconds} s of idleness"));
        self.log.read()?;
        tokio::time::sleep(Duration::from_secs(seconds.into())).await;
        let requests = self.log.read()?;
        for count in measures::counts(&requests)
            .iter()
            .filter(|count| count.resource != "leases")
        {
            note(&format!("idle: {count:?}"));
        }
        Ok(float(measures::beyond_lease(&requests)) * 60.0 / f64::from(seconds))
    }
}

/// Waits until the API server serves what the controller watches from its cache, as any hub does that has not just been
/// born: until then it answers 429 or 410, and a watch is tried again a second or two later.
pub(super) async fn warm(hub: &Hub) -> Result<()> {
    let kinds = [
        (api::GROUP, api::VERSION, "ManagedClustersUpgrade"),
        (api::GROUP, api::VERSION, "ManagedClustersUpgradeReport"),
        (api::GROUP, "v1beta1", "Placement"),
        (api::GROUP, "v1beta1", "PlacementDecision"),
        (api::GROUP, "v1beta2", "ManagedClusterSet"),
        (api::GROUP, "v1beta2", "ManagedClusterSetBinding"),
        (api::GROUP, "v1", "ManagedCluster"),
        ("work.open-cluster-management.io", "v1", "ManifestWork"),
    ];
    for (group, version, kind) in kinds {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let objects = Api::<DynamicObject>::all_with(hub.client().clone(), &resource);
        // From the cache, whatever its age: refused while there is none.
        let cached = kube::api::ListParams::default().match_any().limit(1);
        let what = format!("{} are served from the cache", resource.plural);
        wait_until(&what, WARMING, || async {
            Ok(objects.list(&cached).await.is_ok())
        })
        .await?;
    }
    Ok(())
}

/// Peak resident memory of a process in MiB; zero where there is no `/proc`.
pub(super) fn peak_rss_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .split_whitespace()
            .next()?
            .parse::<f64>()
            .ok()
    });
    kib.unwrap_or_default() / 1024.0
}

/// Size of an object's status as compact JSON.
pub(super) fn status_bytes(object: &DynamicObject) -> usize {
    object
        .data
        .get("status")
        .map_or(0, |status| status.to_string().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(clusters: usize, window: usize, agent_seconds: f64) -> FleetArgs {
        FleetArgs {
            clusters,
            window,
            agent_seconds,
            runs: None,
            history: 0,
            idle_seconds: 60,
            json: false,
            keep_audit: None,
        }
    }

    #[test]
    fn the_ideal_is_whole_windows_of_the_agents_time() {
        assert!((args(500, 50, 2.0).ideal() - 20.0).abs() < f64::EPSILON);
        assert!((args(501, 50, 2.0).ideal() - 22.0).abs() < f64::EPSILON);
    }

    #[test]
    fn silent_agents_are_measured_twice_and_judged_by_the_rate() {
        let silent = args(10, 10, 0.0);
        assert_eq!(silent.runs(), 2);
        let round = |create: f64, bare: f64| Round {
            create_rate: create,
            bare_rate: Some(bare),
            ..Round::default()
        };
        let bars = bars(&silent, &[round(700.0, 800.0), round(500.0, 700.0)]);
        assert!((bars[0].measured - 0.8).abs() < 1e-9 && bars[0].met);
        assert!(!bars.iter().any(|bar| bar.what.contains("ideal")));
    }

    #[test]
    fn the_time_is_judged_where_the_hub_can_keep_up() {
        let judged = |args: &FleetArgs| {
            let bars = bars(args, &[Round::default()]);
            bars.iter().any(|bar| bar.what.contains("ideal"))
        };
        assert!(judged(&args(500, 50, 2.0)));
        assert!(!judged(&args(10_000, 1_000, 30.0)));
    }

    #[test]
    fn the_worst_round_counts() {
        let round = |wasted| Round {
            wasted,
            over_ideal: Some(1.0),
            ..Round::default()
        };
        let bars = bars(&args(10, 5, 1.0), &[round(0), round(1)]);
        assert!(bars.iter().any(|bar| bar.what.starts_with("wasted") && !bar.met));
    }

    #[test]
    fn this_process_has_a_peak() {
        if std::path::Path::new("/proc/self/status").exists() {
            assert!(peak_rss_mib(std::process::id()) > 1.0);
        }
    }
}
