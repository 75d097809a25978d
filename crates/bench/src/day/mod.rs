//! `bench day`: a day of a fleet, with everything that goes wrong on one, upgraded by the unchanged controller.
//!
//! This file has the run and its report. Simulated time runs faster than real time, and the times of the spec are divided by
//! the same factor. The bench judges how each cluster ends, not how fast.

mod fixtures;
mod verdict;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use api::{ManagedClustersUpgradeReport, ReportRow};
use clap::Args;
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
use crate::thresholds::show;

const NAMESPACE: &str = "day";
const SET: &str = "fleet";
const UPGRADE: &str = "day";
const CONTROLLER: &str = "mcu-controller";
/// Most writes of all agents together at one time.
const AGENT_WRITES: usize = 16;
const POLL: Duration = Duration::from_millis(500);
const PROGRESS: Duration = Duration::from_secs(15);

/// What to run.
#[derive(Clone, Debug, Args)]
pub struct DayArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub clusters: usize,
    /// maxConcurrency.
    #[arg(long = "max-concurrency", value_name = "N", default_value_t = 100)]
    pub slots: usize,
    /// How many times faster time runs.
    #[arg(long, value_name = "F", default_value_t = 180, value_parser = clap::value_parser!(u32).range(1..))]
    pub factor: u32,
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
    /// From the creation of the upgrade to the last cluster's end, on the wall's clock.
    seconds: f64,
    /// The same in simulated hours.
    simulated_hours: f64,
    complete: usize,
    failed: usize,
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
    let report = upgrade(args).await?;
    show(&report, args.json, print)?;
    Ok(report.met)
}

async fn upgrade(args: &DayArgs) -> Result<Report> {
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
    std::fs::write(&scenario, fixtures::scenario(args.factor))
        .with_context(|| format!("cannot write {}", scenario.display()))?;
    let flags = [
        format!("--scenario={}", scenario.display()),
        format!("--time-scale={}", 1.0 / f64::from(args.factor)),
        format!("--update-duration={}m", fixtures::UPDATE_MINUTES),
        format!("--seed={}", args.seed),
        format!("--concurrency={AGENT_WRITES}"),
    ];
    testbed::agents(&hub, &programs, &flags).await?;
    testbed::controller(&hub, &programs, CONTROLLER).await?;
    note("the day begins");
    let begun = Instant::now();
    let spec = fixtures::spec(SET, args.slots, args.factor);
    testbed::create_upgrade(&hub, NAMESPACE, UPGRADE, &spec).await?;
    let ended = match follow(&hub, &fixtures, args).await {
        Ok(ended) => ended,
        Err(error) => bail!(
            "{error:#}; the end of the controller's log:\n{}",
            tail(&hub.dir().join(format!("{CONTROLLER}.log")), 15)
        ),
    };
    let seconds = begun.elapsed().as_secs_f64();
    hub.stop().await?;
    Ok(report(args, &fixtures, &ended, seconds))
}

/// The clusters when all of them have come to their end.
struct Ended {
    rows: BTreeMap<String, ReportRow>,
    /// What each cluster waited for when its upgrade was last seen under way.
    waited_for: BTreeMap<String, String>,
}

fn report(args: &DayArgs, fixtures: &Fixtures, ended: &Ended, seconds: f64) -> Report {
    let rows = &ended.rows;
    // Nobody is quicker than the simulator's variation allows.
    let shortest = args.wall(fixtures::UPDATE_MINUTES).as_secs_f64() * 0.75;
    let (cases, mismatches) = verdict::judge(&fixtures.clusters, rows, shortest);
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
    Report {
        clusters: args.clusters,
        slots: args.slots,
        factor: args.factor,
        seed: args.seed,
        seconds,
        simulated_hours: seconds * f64::from(args.factor) / 3600.0,
        complete: cases.iter().map(|tally| tally.complete).sum(),
        failed: cases.iter().map(|tally| tally.failed).sum(),
        causes: by_cause,
        met: mismatches.is_empty(),
        cases,
        mismatches,
    }
}

/// Follows the reports until every cluster has come to its end, and fixes on the way what administrators would.
async fn follow(hub: &Hub, fixtures: &Fixtures, args: &DayArgs) -> Result<Ended> {
    let mut fixers = Fixers::new(hub, fixtures, args);
    // Every slot taken by clusters that time out, twice over.
    let rounds = u32::try_from(args.clusters.div_ceil(args.slots.max(1)))?.saturating_add(2);
    let limit = args.wall(fixtures::TIMEOUT_MINUTES) * rounds * 2 + Duration::from_mins(3);
    let (begun, mut shown) = (Instant::now(), Instant::now());
    let mut waited_for = BTreeMap::new();
    loop {
        let rows = rows(hub).await?;
        verdict::note_reasons(&rows, &mut waited_for);
        let ended = rows.values().filter(|row| verdict::has_ended(row)).count();
        if ended >= args.clusters {
            return Ok(Ended { rows, waited_for });
        }
        if begun.elapsed() > limit {
            let stuck = rows.values().filter(|row| !verdict::has_ended(row));
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
    fn new(hub: &Hub, fixtures: &'a Fixtures, args: &DayArgs) -> Self {
        let gvk = GroupVersionKind::gvk("cluster.open-cluster-management.io", "v1", "ManagedCluster");
        let waiting = fixtures
            .clusters
            .iter()
            .filter_map(|(name, case)| match case.expect {
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
        "{} clusters, {} slots, {:.1} simulated hours in {:.0} s (time runs {} times faster), seed {}",
        report.clusters, report.slots, report.simulated_hours, report.seconds, report.factor, report.seed
    );
    println!(
        "\n{:<20} {:>8} {:>8} {:>6} {:>10}  expected",
        "case", "clusters", "complete", "failed", "mismatches"
    );
    for tally in &report.cases {
        println!(
            "{:<20} {:>8} {:>8} {:>6} {:>10}  {}",
            tally.case, tally.clusters, tally.complete, tally.failed, tally.mismatches, tally.expected
        );
    }
    println!(
        "{:<20} {:>8} {:>8} {:>6} {:>10}",
        "all",
        report.clusters,
        report.complete,
        report.failed,
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
