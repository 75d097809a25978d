//! Rounds without agents: the controller fills a window as large as the fleet, and a bare client sends the same bytes.
//!
//! Both sides run on the same hub, one after the other, each with the hub as the other found it: no works, no other
//! client at work. They take turns in going first.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use kube::api::DynamicObject;

use super::audit::Request;
use super::bare::{self, Works};
use super::bars::float;
use super::fleet::{FleetArgs, Ground, Round, note, peak_rss_mib, status_bytes};
use super::measures;
use crate::stage::{self, CONTROLLER_USER};
use crate::workspace::Binaries;

const POLL: Duration = Duration::from_millis(200);
/// Even a hub that manages ten creations a second is not given up.
const SLOWEST: f64 = 10.0;

/// Measures on one hub; the bare client goes first in every second round.
pub(super) async fn rounds(args: &FleetArgs, binaries: &Binaries, count: usize) -> Result<Vec<Round>> {
    let mut ground = Ground::prepare(args).await?;
    let mut rounds = Vec::new();
    for number in 0..count {
        let bare_first = number % 2 == 1;
        let mut round = Round {
            bare_first: Some(bare_first),
            ..Round::default()
        };
        if bare_first {
            bare_side(args, &mut ground, &mut round).await?;
        }
        let name = format!("bench-{}", number + 1);
        controller_side(args, &mut ground, binaries, &name, &mut round).await?;
        if !bare_first {
            bare_side(args, &mut ground, &mut round).await?;
        }
        rounds.push(round);
    }
    ground.close(args).await?;
    Ok(rounds)
}

/// A fresh controller creates every work, is watched while nothing happens, and removes them with the upgrade.
async fn controller_side(
    args: &FleetArgs,
    ground: &mut Ground,
    binaries: &Binaries,
    name: &str,
    round: &mut Round,
) -> Result<()> {
    let process = format!("mcu-controller-{name}");
    ground.log.skip()?;
    let pid = stage::controller(&ground.hub, binaries, &process).await?;
    note(&format!("{name}: the controller creates {} works", args.clusters));
    let upgrade = ground.create(args, name).await?;
    let mut requests = match created(args, ground).await {
        Ok(requests) => requests,
        Err(error) => bail!(
            "{error:#}; the end of the controller's log:\n{}",
            ground.log_of(&process)
        ),
    };
    requests.extend(ground.settle().await?);
    round.create_rate = measures::create_rate(&measures::creations(&requests, CONTROLLER_USER));
    round.requests = measures::counts(&requests);
    let total: usize = round.requests.iter().map(|count| count.times).sum();
    round.requests_per_cluster = float(total) / float(args.clusters);
    round.wasted = measures::wasted(&requests);
    let live = ground.read(name).await?.context("the upgrade is gone")?;
    round.status_bytes = status_bytes(&live);
    Works::of(&upgrade, args.clusters)?.compare(&ground.hub).await?;
    round.idle_per_minute = ground.idle(args.idle_seconds).await?;
    note(&format!("{name}: the controller removes its works"));
    ground.delete(name).await?;
    gone(args, ground, name).await?;
    round.peak_rss_mib = peak_rss_mib(pid);
    let controller = ground.hub.take(&process).context("the controller is gone")?;
    controller.stop(Duration::from_secs(10)).await?;
    Ok(())
}

/// The bare client creates the works of an upgrade that no controller sees, and removes them.
async fn bare_side(args: &FleetArgs, ground: &mut Ground, round: &mut Round) -> Result<()> {
    const NAME: &str = "bare";
    let upgrade = ground.create(args, NAME).await?;
    let works = Works::of(&upgrade, args.clusters)?;
    ground.log.skip()?;
    note(&format!(
        "the bare client creates {} works over {} connections",
        args.clusters,
        bare::CONNECTIONS
    ));
    let client = ground
        .hub
        .service_account_kubeconfig("mcu-system", "mcu-controller")
        .await?
        .client()
        .await?;
    works.create(&client).await?;
    let requests = created(args, ground).await?;
    round.bare_rate = Some(measures::create_rate(&measures::creations(
        &requests,
        CONTROLLER_USER,
    )));
    works.delete(ground.hub.client()).await?;
    ground.delete(NAME).await
}

/// Waits until the audit log shows every creation; returns everything read meanwhile.
async fn created(args: &FleetArgs, ground: &mut Ground) -> Result<Vec<Request>> {
    let patience = Duration::from_secs_f64(60.0 + float(args.clusters) / SLOWEST);
    let started = Instant::now();
    let mut requests = Vec::new();
    loop {
        requests.extend(ground.log.read()?);
        let count = measures::creations(&requests, CONTROLLER_USER).len();
        if count >= args.clusters {
            return Ok(requests);
        }
        if started.elapsed() > patience {
            bail!("only {count} of {} works after {patience:?}", args.clusters);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until the upgrade is gone, and with it its works.
async fn gone(args: &FleetArgs, ground: &Ground, name: &str) -> Result<()> {
    let patience = Duration::from_secs_f64(60.0 + float(args.clusters) / SLOWEST);
    let started = Instant::now();
    let mut last: Option<DynamicObject>;
    loop {
        last = ground.read(name).await?;
        if last.is_none() {
            return Ok(());
        }
        if started.elapsed() > patience {
            bail!("the upgrade is not gone after {patience:?}: {last:?}");
        }
        tokio::time::sleep(POLL).await;
    }
}
