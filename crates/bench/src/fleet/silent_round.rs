//! Rounds without agents: the controller fills as many slots as there are clusters, and a bare client sends the same bytes.
//!
//! Both sides run on the same hub, one after the other, each with the hub as the other found it: no works, no other
//! client at work. They take turns in going first.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use e2e::audit::Request;
use e2e::audit::measures::{self, float};
use e2e::testbed::{self, CONTROLLER_USER};
use kube::api::DynamicObject;
use repository::Programs;

use super::bare::{self, Works};
use super::test_bed::{TestBed, note, peak_rss_mib, status_bytes};
use super::{FleetArgs, Round};

const POLL: Duration = Duration::from_millis(200);
/// Enough for a hub that manages only ten creations a second.
const SLOWEST: f64 = 10.0;

/// Measures on one hub; the bare client goes first in every second round.
pub(super) async fn rounds(args: &FleetArgs, programs: &Programs, count: usize) -> Result<Vec<Round>> {
    let mut bed = TestBed::prepare(args).await?;
    let mut rounds = Vec::new();
    for number in 0..count {
        let bare_first = number % 2 == 1;
        let mut round = Round {
            bare_first: Some(bare_first),
            ..Round::default()
        };
        if bare_first {
            bare_side(args, &mut bed, &mut round).await?;
        }
        let name = format!("bench-{}", number + 1);
        controller_side(args, &mut bed, programs, &name, &mut round).await?;
        if !bare_first {
            bare_side(args, &mut bed, &mut round).await?;
        }
        rounds.push(round);
    }
    bed.close(args).await?;
    Ok(rounds)
}

/// A fresh controller creates every work, is watched while nothing happens, and removes them with the upgrade.
async fn controller_side(
    args: &FleetArgs,
    bed: &mut TestBed,
    programs: &Programs,
    name: &str,
    round: &mut Round,
) -> Result<()> {
    let process = format!("mcu-controller-{name}");
    bed.log.skip()?;
    let pid = testbed::controller(&bed.hub, programs, &process, &[]).await?;
    note(&format!("{name}: the controller creates {} works", args.clusters));
    let upgrade = bed.create(args, name).await?;
    let mut requests = match created(args, bed).await {
        Ok(requests) => requests,
        Err(error) => bail!(
            "{error:#}; the end of the controller's log:\n{}",
            bed.log_of(&process)
        ),
    };
    requests.extend(bed.settle().await?);
    round.create_rate = measures::create_rate(&measures::creations(&requests, CONTROLLER_USER));
    round.requests = measures::counts(&requests);
    let total: usize = round.requests.iter().map(|count| count.times).sum();
    round.requests_per_cluster = float(total) / float(args.clusters);
    round.wasted = measures::wasted(&requests);
    let live = bed.read(name).await?.context("the upgrade is gone")?;
    round.status_bytes = status_bytes(&live);
    Works::of(&upgrade, args.clusters)?.compare(&bed.hub).await?;
    round.idle_per_minute = bed.idle(args.idle_seconds).await?;
    note(&format!("{name}: the controller removes its works"));
    bed.delete(name).await?;
    gone(args, bed, name).await?;
    round.peak_rss_mib = peak_rss_mib(pid);
    let controller = bed.hub.take(&process).context("the controller is gone")?;
    controller.stop(Duration::from_secs(10)).await?;
    Ok(())
}

/// The bare client creates the works of an upgrade that no controller sees, and removes them.
async fn bare_side(args: &FleetArgs, bed: &mut TestBed, round: &mut Round) -> Result<()> {
    const NAME: &str = "bare";
    let upgrade = bed.create(args, NAME).await?;
    let works = Works::of(&upgrade, args.clusters)?;
    bed.log.skip()?;
    note(&format!(
        "the bare client creates {} works over {} connections",
        args.clusters,
        bare::CONNECTIONS
    ));
    let client = bed.controller_client().await?;
    works.create(&client).await?;
    let requests = created(args, bed).await?;
    round.bare_rate = Some(measures::create_rate(&measures::creations(
        &requests,
        CONTROLLER_USER,
    )));
    works.delete(bed.hub.client()).await?;
    bed.delete(NAME).await
}

/// Waits until the audit log shows every creation; returns everything read meanwhile.
async fn created(args: &FleetArgs, bed: &mut TestBed) -> Result<Vec<Request>> {
    let timeout = Duration::from_secs_f64(60.0 + float(args.clusters) / SLOWEST);
    let started = Instant::now();
    let mut requests = Vec::new();
    loop {
        requests.extend(bed.log.read()?);
        let count = measures::creations(&requests, CONTROLLER_USER).len();
        if count >= args.clusters {
            return Ok(requests);
        }
        if started.elapsed() > timeout {
            bail!("only {count} of {} works after {timeout:?}", args.clusters);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until the upgrade is gone, and with it its works.
async fn gone(args: &FleetArgs, bed: &TestBed, name: &str) -> Result<()> {
    let timeout = Duration::from_secs_f64(60.0 + float(args.clusters) / SLOWEST);
    let started = Instant::now();
    let mut last: Option<DynamicObject>;
    loop {
        last = bed.read(name).await?;
        if last.is_none() {
            return Ok(());
        }
        if started.elapsed() > timeout {
            bail!("the upgrade is not gone after {timeout:?}: {last:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}
