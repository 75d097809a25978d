//! A round with agents that work: from the creation of the upgrade to Complete, and the quiet after it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use e2e::audit::Request;
use e2e::audit::measures::{self, float};
use e2e::testbed::{self, CONTROLLER_USER};
use futures::StreamExt as _;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use repository::Programs;
use serde_json::Value;
use testenv::hub::wait_until;

use super::history;
use super::test_bed::{TestBed, note, peak_rss_mib, status_bytes};
use super::{FleetArgs, Round};

const UPGRADE: &str = "bench";
const CONTROLLER: &str = "mcu-controller";
/// Writes of all agents together at one time, for each of the machine's cores: enough to keep the API server busy. More
/// upgrade the fleet no sooner, but have every request wait for more others (docs/benchmarks.md has the figures).
const AGENT_WRITES: usize = 2;
const PROGRESS: Duration = Duration::from_secs(10);
/// What clusters offer before they are asked for it.
const OFFERS: &str = "{version: 4.19.15, channel: stable-4.20, updates: [4.20.4]}";
/// Flags of a controller that asks clusters before they start, as fast as it can.
const ASKING: [&str; 2] = ["--agents-support-read-only", "--preflight-rate=1000"];
/// Longest time until all clusters have answered.
const ANSWERS_TIMEOUT: Duration = Duration::from_mins(5);

/// Measures one rollout on a separate hub.
pub(super) async fn round(args: &FleetArgs, programs: &Programs) -> Result<Round> {
    let mut bed = TestBed::prepare(args).await?;
    history::create(args, &bed).await?;
    bed.log.skip()?;
    let cores = std::thread::available_parallelism().context("how many cores has this machine?")?;
    let mut flags = vec![
        format!("--agent-seconds={}", args.agent_seconds),
        format!("--concurrency={}", AGENT_WRITES * cores.get()),
    ];
    if args.preflight {
        let scenario = bed.hub.dir().join("offers.yaml");
        std::fs::write(&scenario, OFFERS).with_context(|| format!("cannot write {}", scenario.display()))?;
        flags.push(format!("--scenario={}", scenario.display()));
    }
    testbed::agents(&bed.hub, programs, &flags).await?;
    let flags: &[&str] = if args.preflight { &ASKING } else { &[] };
    let pid = testbed::controller(&bed.hub, programs, CONTROLLER, flags).await?;
    let mut round = Round {
        history: args.history,
        ..Round::default()
    };
    bed.create(args, UPGRADE).await?;
    let mut requests = Vec::new();
    if args.preflight {
        note("asking");
        requests = asked(&mut bed, args, &mut round).await?;
        bed.resume(UPGRADE).await?;
    }
    note("upgrading");
    let started = Instant::now();
    let before = history::cpu_seconds(pid);
    let end = follow(&bed, args, &mut round, started).await;
    if let Err(error) = end {
        bail!(
            "{error:#}; the end of the controller's log:\n{}",
            bed.log_of(CONTROLLER)
        );
    }
    round.cpu_seconds = history::cpu_seconds(pid) - before;
    requests.extend(bed.settle().await?);
    requests.sort_by_key(|request| request.answered);
    judge(args, &requests, &mut round);
    round.idle_per_minute = bed.idle(args.idle_seconds).await?;
    round.peak_rss_mib = peak_rss_mib(pid);
    bed.close(args).await?;
    Ok(round)
}

/// Waits until all clusters of the paused upgrade have answered, and then watches whether anything more is sent. Returns the requests until
/// then.
async fn asked(bed: &mut TestBed, args: &FleetArgs, round: &mut Round) -> Result<Vec<Request>> {
    let ready = || async {
        let upgrade = bed.read(UPGRADE).await?.context("the upgrade is gone")?;
        let ready = upgrade.data["status"]["preflight"]["ready"].as_u64().unwrap_or(0);
        Ok(usize::try_from(ready)? >= args.clusters)
    };
    let answered = wait_until("all clusters have answered", ANSWERS_TIMEOUT, ready).await;
    answered.with_context(|| bed.log_of(CONTROLLER))?;
    let requests = bed.settle().await?;
    round.asked_idle_per_minute = Some(bed.idle(args.idle_seconds).await?);
    Ok(requests)
}

/// Waits until the upgrade is complete, and notes how long that took and how large its status became.
async fn follow(bed: &TestBed, args: &FleetArgs, round: &mut Round, started: Instant) -> Result<()> {
    let limit = Duration::from_secs_f64(args.ideal() * 5.0) + Duration::from_mins(3);
    let config = watcher::Config::default().fields(&format!("metadata.name={UPGRADE}"));
    let mut events = std::pin::pin!(watcher(bed.upgrades(), config).default_backoff());
    let mut shown = Instant::now();
    let mut last = Value::Null;
    loop {
        let next = tokio::time::timeout(limit.saturating_sub(started.elapsed()), events.next());
        let Ok(event) = next.await else {
            bail!("the upgrade does not end within {limit:?}: {last}")
        };
        let upgrade = match event.context("the watch ended")? {
            Ok(Event::Apply(upgrade) | Event::InitApply(upgrade)) => upgrade,
            Ok(Event::Delete(_)) => bail!("the upgrade is gone"),
            Ok(Event::Init | Event::InitDone) => continue,
            Err(error) => {
                note(&format!("watching the upgrade: {error}"));
                continue;
            }
        };
        round.status_bytes = round.status_bytes.max(status_bytes(&upgrade));
        if is_true(&upgrade, "Complete") {
            let seconds = started.elapsed().as_secs_f64();
            round.done_seconds = Some(seconds);
            round.over_ideal = Some(seconds / args.ideal());
            return Ok(());
        }
        last = upgrade.data["status"].clone();
        if last["clustersSummery"]["failed"].as_i64().unwrap_or(0) > 0 {
            bail!(
                "the upgrade does not succeed: {last} after {:?}",
                started.elapsed()
            );
        }
        if shown.elapsed() > PROGRESS {
            shown = Instant::now();
            let progress = last["progress"].as_str().unwrap_or("?");
            note(&format!("{:.0} s: {progress}", started.elapsed().as_secs_f64()));
        }
    }
}

fn judge(args: &FleetArgs, requests: &[Request], round: &mut Round) {
    round.requests = measures::counts(requests);
    let total: usize = round.requests.iter().map(|count| count.times).sum();
    round.requests_per_cluster = float(total) / float(args.clusters);
    round.wasted = measures::wasted(requests);
    round.create_rate = measures::create_rate(&measures::creations(requests, CONTROLLER_USER));
    let reactions = measures::reactions(requests, args.slots);
    let millis = |percent| measures::percentile(&reactions, percent).as_secs_f64() * 1000.0;
    round.reactions = reactions.len();
    round.reaction_p50_ms = millis(50);
    round.reaction_p99_ms = millis(99);
}

/// Whether a condition of an object is True.
pub(super) fn is_true(object: &DynamicObject, r#type: &str) -> bool {
    let conditions = object.data["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition: &Value| condition["type"] == r#type && condition["status"] == "True")
}
