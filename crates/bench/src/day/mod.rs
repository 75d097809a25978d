//! `bench day`: a day of a fleet, with everything that goes wrong on one, upgraded by the unchanged controller.
//!
//! The day is played twice: once as it is, and once with `spec.preflight`, so that clusters which would refuse never start. This file has the
//! run and its report. Simulated time runs faster than real time, and the times of the spec are divided by
//! the same factor. The bench judges how each cluster ends, not how fast.

mod fixtures;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::{ManagedClustersUpgradeReport, ReportRow};
use clap::Args;
use e2e::audit::measures::float;
use e2e::testbed;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use repository::{Profile, Programs};
use serde::Serialize;
use serde_json::json;
use testenv::process::tail;
use testenv::{Controllers, Hub, fleet};

use self::fixtures::{Expect, Fixtures};
use self::verdict::{Mismatch, Tally};
use crate::fleet::test_bed::{note, warm};
use crate::thresholds::{Side, Threshold, show};

const NAMESPACE: &str = "day";
const SET: &str = "fleet";
const UPGRADE: &str = "day";
const CONTROLLER: &str = "mcu-controller";
/// Most writes of all agents together at one time.
const AGENT_WRITES: usize = 16;
const POLL: Duration = Duration::from_millis(500);
const PROGRESS: Duration = Duration::from_secs(15);
/// Flags of a controller that asks clusters before they start.
const ASKING: [&str; 2] = ["--agents-support-read-only", "--preflight-rate=1000"];

/// What to run.
#[derive(Clone, Debug, Args)]
pub struct DayArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub clusters: usize,
    /// maxConcurrency.
    #[arg(long = "max-concurrency", value_name = "N", default_value_t = 100)]
    pub slots: usize,
    /// How many times faster time runs. What the hub needs for its writes is not scaled, so it counts as so many times more.
    #[arg(long, value_name = "F", default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..))]
    pub factor: u32,
    /// Play only the day on which clusters are asked first.
    #[arg(long)]
    pub preflight: bool,
    /// Seed of what happens to which cluster.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl DayArgs {
    fn wall(&self, minutes: u32) -> Duration {
        Duration::from_mins(minutes.into()) / self.factor
    }
}

/// The outcome of a day.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    clusters: usize,
    slots: usize,
    factor: u32,
    seed: u64,
    /// Whether clusters are asked before they start.
    asked: bool,
    /// From the creation of the upgrade to the last cluster's end, on the wall's clock.
    seconds: f64,
    /// The same in simulated hours.
    simulated_hours: f64,
    /// Simulated hours that the canaries, and then all slots without a gap between two clusters, need for the same updates.
    needed_hours: f64,
    /// Simulated hours for the same updates, started in the same order, if no slot is ever free while a cluster waits.
    gapless_hours: f64,
    complete: usize,
    failed: usize,
    blocked: usize,
    /// Clusters that held a slot for a cause of which they could have told before.
    held_in_vain: usize,
    /// Simulated hours until each cluster that does not start was told with its cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    told_hours: Option<f64>,
    thresholds: Vec<Threshold>,
    /// Failed clusters by cause. The cause of a timeout is what the cluster waited for.
    causes: BTreeMap<String, usize>,
    cases: Vec<Tally>,
    mismatches: Vec<Mismatch>,
    met: bool,
}

/// Runs a day and prints what came out; says whether every cluster ended as it should.
///
/// # Errors
/// The hub, the controller or the agents do not work, or the day does not end.
pub async fn run(args: &DayArgs) -> Result<bool> {
    let mut met = true;
    let days: &[bool] = if args.preflight { &[true] } else { &[false, true] };
    for &asked in days {
        let report = upgrade(args, asked).await?;
        show(&report, args.json, print)?;
        met &= report.met;
    }
    Ok(met)
}

async fn upgrade(args: &DayArgs, asked: bool) -> Result<Report> {
    let programs = Programs::build(Profile::own())?;
    let builder = Hub::builder()
        .controller_manager(Controllers::collectors())
        .ocm_crds();
    let hub = testbed::with_agents(builder).start().await?;
    testbed::deploy(&hub).await?;
    let fixtures = Fixtures::new(args.clusters, args.seed);
    note(&format!("creating {} clusters", args.clusters));
    fleet::create(hub.client(), &fixtures.fleet(SET, NAMESPACE)).await?;
    warm(&hub).await?;
    let scenario = hub.dir().join("day.yaml");
    std::fs::write(&scenario, fixtures::scenario(args.factor, asked))
        .with_context(|| format!("cannot write {}", scenario.display()))?;
    let flags = [
        format!("--scenario={}", scenario.display()),
        format!("--time-scale={}", 1.0 / f64::from(args.factor)),
        format!("--update-duration={}m", fixtures::UPDATE_MINUTES),
        format!("--seed={}", args.seed),
        format!("--concurrency={AGENT_WRITES}"),
    ];
    testbed::agents(&hub, &programs, &flags).await?;
    let flags: &[&str] = if asked { &ASKING } else { &[] };
    testbed::controller(&hub, &programs, CONTROLLER, flags).await?;
    note("the day begins");
    let begun = Instant::now();
    let spec = fixtures::spec(SET, args.slots, args.factor, asked);
    testbed::create_upgrade(&hub, NAMESPACE, UPGRADE, &spec).await?;
    let ended = match follow(&hub, &fixtures, args, asked).await {
        Ok(ended) => ended,
        Err(error) => bail!(
            "{error:#}; the end of the controller's log:\n{}",
            tail(&hub.dir().join(format!("{CONTROLLER}.log")), 15)
        ),
    };
    let seconds = begun.elapsed().as_secs_f64();
    hub.stop().await?;
    Ok(report(args, &fixtures, &ended, (seconds, asked)))
}

/// The clusters when all of them have come to their end.
#[derive(Default)]
struct Ended {
    rows: BTreeMap<String, ReportRow>,
    /// What each cluster waited for when its upgrade was last seen under way.
    waited_for: BTreeMap<String, String>,
    /// Clusters that held a slot for a cause of which they could have told before.
    held_in_vain: BTreeSet<String>,
    /// When the last cluster that does not start was told with its cause.
    told: Option<Duration>,
}

fn report(args: &DayArgs, fixtures: &Fixtures, ended: &Ended, (seconds, asked): (f64, bool)) -> Report {
    let rows = &ended.rows;
    // Nobody is quicker than the simulator's variation allows.
    let shortest = args.wall(fixtures::UPDATE_MINUTES).as_secs_f64() * 0.75;
    let (cases, mismatches) = verdict::judge(&fixtures.clusters, rows, (shortest, asked));
    let mut by_cause = BTreeMap::new();
    for (name, row) in rows
        .iter()
        .filter(|(_, row)| row.phase == api::report::Phase::Failed)
    {
        let waited_for = ended.waited_for.get(name).map(String::as_str);
        *by_cause
            .entry(verdict::cause(row, waited_for).to_owned())
            .or_default() += 1;
    }
    let hours = |seconds: f64| seconds * f64::from(args.factor) / 3600.0;
    let simulated_hours = hours(seconds);
    let needed_hours = fixtures::CANARY_HOURS + hours(verdict::slot_seconds(rows)) / float(args.slots);
    let gapless_hours = hours(verdict::gapless_seconds(rows, args.slots));
    let told_hours = ended.told.map(|told| hours(told.as_secs_f64()));
    let held_in_vain = ended.held_in_vain.len();
    let thresholds = if asked {
        thresholds((simulated_hours, gapless_hours), told_hours, held_in_vain)
    } else {
        Vec::new()
    };
    let is_met = thresholds.iter().all(|threshold| threshold.met);
    Report {
        asked,
        clusters: args.clusters,
        slots: args.slots,
        factor: args.factor,
        seed: args.seed,
        seconds,
        simulated_hours,
        needed_hours,
        gapless_hours,
        held_in_vain,
        told_hours,
        thresholds,
        complete: cases.iter().map(|tally| tally.complete).sum(),
        failed: cases.iter().map(|tally| tally.failed).sum(),
        blocked: cases.iter().map(|tally| tally.blocked).sum(),
        causes: by_cause,
        met: mismatches.is_empty() && is_met,
        cases,
        mismatches,
    }
}

/// What asking clusters first must bring.
fn thresholds((day, gapless): (f64, f64), told_hours: Option<f64>, held_in_vain: usize) -> Vec<Threshold> {
    let held = float(held_in_vain);
    let told = told_hours.unwrap_or(f64::INFINITY);
    vec![
        Threshold::count(
            "the whole day over one without a free slot",
            (Side::AtMost, 1.05),
            day / gapless,
            "",
        ),
        Threshold::count("slots held in vain", (Side::AtMost, 0.0), held, ""),
        Threshold::count("until each cause is told", (Side::AtMost, 1.0), told, "h"),
    ]
}

/// Follows the reports until every cluster has come to its end, and fixes on the way what administrators would.
async fn follow(hub: &Hub, fixtures: &Fixtures, args: &DayArgs, asked: bool) -> Result<Ended> {
    let mut fixers = Fixers::new(hub, fixtures, args, asked);
    // Every slot taken by clusters that time out, twice over.
    let rounds = u32::try_from(args.clusters.div_ceil(args.slots.max(1)))?.saturating_add(2);
    let limit = args.wall(fixtures::TIMEOUT_MINUTES) * rounds * 2 + Duration::from_mins(3);
    let (begun, mut shown) = (Instant::now(), Instant::now());
    let mut seen = Ended::default();
    loop {
        let rows = rows(hub).await?;
        verdict::note_reasons(&rows, &mut seen.waited_for);
        seen.note(&rows, fixtures, &fixers, (asked, begun.elapsed()));
        let is_blocked = |(name, case): &&(String, &fixtures::Case)| {
            let row = rows.get(name);
            row.is_some_and(|row| verdict::is_blocked_as(row, case.expected(asked)))
        };
        let blocked = fixtures.clusters.iter().filter(is_blocked).count();
        let ended = blocked + rows.values().filter(|row| verdict::has_ended(row)).count();
        if ended >= args.clusters {
            return Ok(Ended { rows, ..seen });
        }
        if begun.elapsed() > limit {
            let stuck = rows
                .values()
                .filter(|row| !verdict::has_ended(row) && row.phase != api::report::Phase::Blocked);
            let first: Vec<&ReportRow> = stuck.take(3).collect();
            bail!(
                "{ended} of {} clusters ended within {limit:?}; others: {first:?}",
                args.clusters
            );
        }
        fixers.look(&rows).await?;
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            let hours = begun.elapsed().as_secs_f64() * f64::from(args.factor) / 3600.0;
            note(&format!(
                "{hours:.1} simulated hours: {ended} of {} ended",
                args.clusters
            ));
        }
        tokio::time::sleep(POLL).await;
    }
}

impl Ended {
    /// Notes who holds a slot in vain, and when causes are told.
    fn note(
        &mut self,
        rows: &BTreeMap<String, ReportRow>,
        fixtures: &Fixtures,
        fixers: &Fixers<'_>,
        (asked, elapsed): (bool, Duration),
    ) {
        let mut untold = false;
        for (name, case) in fixtures.clusters.iter().filter(|(_, case)| case.told.is_some()) {
            let Some(row) = rows.get(name) else {
                untold = true;
                continue;
            };
            let is_broken = fixers.waiting.contains_key(&**name) || matches!(case.expect, Expect::Failed(..));
            if is_broken && !row.steps.is_empty() {
                self.held_in_vain.insert(name.clone());
            }
            let expect = case.expected(asked);
            untold |= matches!(expect, Expect::Blocked(_)) && !verdict::is_blocked_as(row, expect);
        }
        if asked && !untold && self.told.is_none() {
            self.told = Some(elapsed);
        }
    }
}

async fn rows(hub: &Hub) -> Result<BTreeMap<String, ReportRow>> {
    let reports: Api<ManagedClustersUpgradeReport> = Api::namespaced(hub.client().clone(), NAMESPACE);
    let list = reports.list(&ListParams::default()).await?;
    let rows = list.items.into_iter().flat_map(|report| report.spec.rows);
    Ok(rows.map(|row| (row.cluster.clone(), row)).collect())
}

/// Simulates administrators, who fix a cluster some time after its cause was reported.
struct Fixers<'a> {
    clusters: Api<DynamicObject>,
    /// The clusters to be fixed, and the cause that must be reported first.
    waiting: BTreeMap<&'a str, &'static str>,
    /// When each cause was reported.
    told: BTreeMap<&'a str, Instant>,
    delay: Duration,
}

impl<'a> Fixers<'a> {
    fn new(hub: &Hub, fixtures: &'a Fixtures, args: &DayArgs, asked: bool) -> Self {
        let gvk = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
        let waiting = fixtures
            .clusters
            .iter()
            .filter_map(|(name, case)| match case.expected(asked) {
                Expect::CompleteAfter(cause) => Some((name.as_str(), cause)),
                _ => None,
            });
        Self {
            clusters: Api::all_with(hub.client().clone(), &ApiResource::from_gvk(&gvk)),
            waiting: waiting.collect(),
            told: BTreeMap::new(),
            delay: args.wall(fixtures::FIX_MINUTES),
        }
    }

    async fn look(&mut self, rows: &BTreeMap<String, ReportRow>) -> Result<()> {
        for (&name, &cause) in &self.waiting {
            if rows.get(name).is_some_and(|row| row.reason == cause) {
                self.told.entry(name).or_insert_with(Instant::now);
            }
        }
        let due = self.told.iter().filter(|(_, told)| told.elapsed() >= self.delay);
        let due: Vec<&str> = due.map(|(name, _)| *name).collect();
        for name in due {
            let patch = json!({"metadata": {"annotations": {spoke_sim::fault::ANNOTATION: "none"}}});
            self.clusters
                .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
                .with_context(|| format!("{name} cannot be fixed"))?;
            self.waiting.remove(name);
            self.told.remove(name);
        }
        Ok(())
    }
}

fn print(report: &Report) {
    println!(
        "{} clusters, {} slots, clusters are {} first, {:.1} simulated hours in {:.0} s (time runs {} times faster), seed {}",
        report.clusters,
        report.slots,
        if report.asked { "asked" } else { "not asked" },
        report.simulated_hours,
        report.seconds,
        report.factor,
        report.seed
    );
    println!(
        "{} clusters held a slot for a cause of which they could have told before; canaries and slots need {:.1} h, in this order {:.1} h",
        report.held_in_vain, report.needed_hours, report.gapless_hours
    );
    for threshold in &report.thresholds {
        println!("{threshold}");
    }
    println!(
        "\n{:<20} {:>8} {:>8} {:>6} {:>7} {:>10}  expected",
        "case", "clusters", "complete", "failed", "blocked", "mismatches"
    );
    for tally in &report.cases {
        println!(
            "{:<20} {:>8} {:>8} {:>6} {:>7} {:>10}  {}",
            tally.case,
            tally.clusters,
            tally.complete,
            tally.failed,
            tally.blocked,
            tally.mismatches,
            tally.expected
        );
    }
    println!(
        "{:<20} {:>8} {:>8} {:>6} {:>7} {:>10}",
        "all",
        report.clusters,
        report.complete,
        report.failed,
        report.blocked,
        report.mismatches.len()
    );
    println!("\nfailures by cause");
    for (cause, count) in &report.causes {
        println!("{count:>8}  {cause}");
    }
    for mismatch in &report.mismatches {
        println!(
            "\nMISMATCH {} ({}): {}\n  {} {}: {}",
            mismatch.cluster,
            mismatch.case,
            mismatch.problem,
            mismatch.phase,
            mismatch.reason,
            mismatch.message
        );
    }
}
