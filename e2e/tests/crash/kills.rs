//! kill -9 at any write, then a restart: nothing is done twice, lost or reset.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::names::Step::{self, Operators, Platform, PostAction, PreAction};
use api::report::Phase;
use chrono::{DateTime, TimeDelta, Utc};
use e2e::proxy::{Request, Verdict};
use e2e::{FaultScenario, Players, WAIT_TIMEOUT, sample};
use futures::future::try_join_all;
use http::Method;
use serde_json::{Value, json};

use crate::test_hub;

/// Runs of the sweep at a time: they wait more than they work.
const AT_ONCE: usize = 8;
/// Far more writes than a rollout of two clusters has: something writes in circles.
const TOO_MANY: usize = 120;

const STEPS: [Step; 4] = [PreAction, Platform, Operators, PostAction];

/// A rollout to be cut off.
#[derive(Clone, Copy)]
struct Rollout {
    clusters: usize,
    /// Time that agents take for each answer.
    pace: Duration,
    /// Writes it has at least.
    fewest: usize,
}

fn whole() -> Value {
    json!({
        "preUpgradeAction": sample::action("backup"), "ocpOperators": {"approveAllUpgrades": true},
        "postUpgradeAction": sample::action("check"), "upgradeStrategy": {"maxConcurrency": 1},
    })
}

/// Writes that are part of the record; an Event that is lost is lost.
fn counts(request: &Request) -> bool {
    request.is_write() && !request.about("events")
}

/// Freezes at the n-th write that [`counts`], once the hub has carried it out.
fn freeze_after(test: &FaultScenario, position: usize) {
    let seen = AtomicUsize::new(0);
    test.proxy.judge(move |request| {
        if counts(request) && seen.fetch_add(1, Ordering::SeqCst) + 1 == position {
            Verdict::FreezeAfter
        } else {
            Verdict::Pass
        }
    });
}

/// Freezes when the hub has carried out the first write of this kind.
fn freeze_after_first(test: &FaultScenario, wanted: impl Fn(&Request) -> bool + Send + 'static) {
    let done = AtomicBool::new(false);
    test.proxy.judge(move |request| {
        if wanted(request) && !done.swap(true, Ordering::SeqCst) {
            Verdict::FreezeAfter
        } else {
            Verdict::Pass
        }
    });
}

/// One run: killed after the hub has carried out write `position`, restarted, complete. False: there is no such write.
async fn killed_at(rollout: Rollout, position: usize) -> Result<bool> {
    let test = FaultScenario::new(&test_hub().await?, rollout.clusters).await?;
    freeze_after(&test, position);
    let players = Players::paced(&test.scenario, test.scenario.names().to_vec(), rollout.pace);
    test.scenario.create(whole()).await?;
    let controller = test.controller().await?;
    // The last works are deleted when the upgrade is complete already.
    let over = async {
        test.scenario.complete().await?;
        all_gone(&test, rollout.clusters).await
    };
    let reached = tokio::select! {
        biased;
        frozen = test.proxy.frozen(WAIT_TIMEOUT) => { ensure!(frozen, "neither frozen nor complete\n{}", test.scenario.dump()); true }
        seen = over => { seen?; test.proxy.frozen(Duration::from_secs(4)).await }
    };
    controller.kill().await?;
    let clocks = test.clocks();
    test.proxy.judge(|_| Verdict::Pass);
    test.proxy.thaw();
    let restarted = test.controller().await?;
    test.scenario
        .complete()
        .await
        .with_context(|| format!("killed after write {position}"))?;
    test.once_and_unreset(&STEPS, &clocks)
        .await
        .with_context(|| format!("killed after write {position}"))?;
    all_gone(&test, rollout.clusters).await?;
    drop((players, restarted));
    Ok(reached)
}

/// Waits until no work of the rollout is left.
async fn all_gone(test: &FaultScenario, clusters: usize) -> Result<()> {
    for number in 1..=clusters {
        for step in STEPS {
            test.scenario.gone(number, step).await?;
        }
    }
    Ok(())
}

/// Every position there is.
async fn sweep(rollout: Rollout) -> Result<()> {
    let mut next = 1;
    while next < TOO_MANY {
        let wave = (next..next + AT_ONCE).map(|position| killed_at(rollout, position));
        let reached = try_join_all(wave).await?;
        if let Some(last) = reached.iter().position(|reached| !reached) {
            let positions = next + last - 1;
            ensure!(
                positions >= rollout.fewest,
                "only {positions} writes: the sweep missed some"
            );
            return Ok(());
        }
        next += AT_ONCE;
    }
    anyhow::bail!("more than {TOO_MANY} writes")
}

/// Agents that answer at once: the writes of steps follow each other closely.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_writes_a_rollout_completes_with_every_work_created_once() -> Result<()> {
    // Eight works created and deleted, a finalizer, a status and a report.
    sweep(Rollout {
        clusters: 2,
        pace: Duration::ZERO,
        fewest: 19,
    })
    .await
}

/// Agents that take their time: statuses and records are written between the steps too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_any_two_writes_a_slow_rollout_completes_with_every_work_created_once() -> Result<()> {
    // Four works created and deleted, a finalizer, a status for most of the six answers, some reports.
    sweep(Rollout {
        clusters: 1,
        pace: Duration::from_millis(1100),
        fewest: 15,
    })
    .await
}

#[tokio::test]
async fn a_work_whose_creation_was_the_last_act_is_adopted() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    freeze_after_first(&test, |request| {
        request.method == Method::POST && request.about("manifestworks")
    });
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    let first = test.controller().await?;
    ensure!(
        test.proxy.frozen(WAIT_TIMEOUT).await,
        "no work was created\n{}",
        s.dump()
    );
    first.kill().await?;
    let work = s.work(1, Platform).await?;
    assert_eq!(
        s.up().now()?.clusters().initialized,
        0,
        "killed before the status said so"
    );
    test.proxy.thaw();
    let _second = test.controller().await?;
    s.until("adopted", |seen| seen.clusters().initialized == 1)
        .await?;
    s.agent(1).completed().await?;
    s.agent(2).completed().await?;
    s.complete().await?;
    assert_eq!((s.created(1, Platform), s.created(2, Platform)), (1, 1));
    let row = s
        .up()
        .row_until(s.c(1), "complete", |row| row.phase == Phase::Complete)
        .await?;
    assert_eq!(Some(row.steps[0].started_at), work.started());
    Ok(())
}

/// That `maxConcurrency` holds is an invariant of every status.
#[tokio::test]
async fn a_rollout_survives_restart_after_restart() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 5).await?;
    let s = &test.scenario;
    s.create(json!({"ocpOperators": {"approveAllUpgrades": true}, "upgradeStrategy": {"maxConcurrency": 2}}))
        .await?;
    let mut clocks = e2e::fault_scenario::Clocks::new();
    for number in 1..=5 {
        let controller = test.controller().await?;
        s.agent(number).partial().await?;
        s.up()
            .row_until(s.c(number), "partial", |row| row.phase == Phase::Partial)
            .await?;
        s.agent(number).completed().await?;
        s.work(number, Operators).await?;
        clocks.extend(test.clocks());
        controller.kill().await?;
        let begun = (1..=5).filter(|&other| s.created(other, Platform) > 0).count();
        assert!(begun <= number + 1, "{begun} have begun, {} are done", number - 1);
        // Reports that arrive while no controller runs count all the same.
        s.agent(number).job(json!({"succeeded": 1})).await?;
    }
    let _last = test.controller().await?;
    s.complete().await?;
    test.once_and_unreset(&[Platform, Operators], &clocks).await
}

/// How long a step or a soak may take in tests of restarts: the 40 s of their specs. A machine where a controller takes longer than
/// that to start looks like a countdown that began anew.
const LIMIT: TimeDelta = TimeDelta::seconds(40);

/// Waits until two seconds before a time, and returns the time then. A countdown that begins with a process which is started
/// now ends long after that time, so that a machine which is somewhat slow does not look like one.
async fn shortly_before(end: DateTime<Utc>) -> DateTime<Utc> {
    let pause = end - TimeDelta::seconds(2) - Utc::now();
    tokio::time::sleep(pause.to_std().unwrap_or_default()).await;
    Utc::now()
}

/// A deadline is a point in time, not a countdown of the process.
#[tokio::test]
async fn a_restart_does_not_move_a_deadline() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 1).await?;
    let s = &test.scenario;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "40s"}}))
        .await?;
    let first = test.controller().await?;
    s.first_is_partial().await?;
    let started = s
        .work(1, Platform)
        .await?
        .started()
        .context("the work bears its start")?;
    first.kill().await?;
    let restarted = shortly_before(started + LIMIT).await;
    let _second = test.controller().await?;
    s.until("failed", |seen| seen.clusters().failed == 1).await?;
    let row = s
        .up()
        .row_until(s.c(1), "failed", |row| row.phase == Phase::Failed)
        .await?;
    assert!(
        row.since >= started + LIMIT && row.since < restarted + LIMIT,
        "begun at {started}, restarted at {restarted}, failed at {}",
        row.since
    );
    Ok(())
}

/// A deadline that passes while no controller runs is kept as soon as one does; so is a completion, which wins.
#[tokio::test]
async fn what_became_due_while_nobody_ran_is_done_at_once() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    // Long enough that no machine is so slow that the first controller still runs at the deadline.
    let limit = TimeDelta::seconds(40);
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "40s"}}))
        .await?;
    let first = test.controller().await?;
    for number in [1, 2] {
        s.agent(number).partial().await?;
    }
    s.until("both partial", |seen| seen.clusters().partial_upgrade == 2)
        .await?;
    first.kill().await?;
    let mut last = None;
    for number in [1, 2] {
        last = last.max(s.work(number, Platform).await?.started());
    }
    let deadline = last.context("the works bear their start")? + limit;
    ensure!(
        Utc::now() < deadline,
        "the machine is too slow for this test: the controller was killed after the deadline"
    );
    // The deadline is kept by the record, so its time has to pass.
    let pause = deadline + TimeDelta::seconds(1) - Utc::now();
    tokio::time::sleep(pause.to_std().unwrap_or_default()).await;
    s.agent(2).completed().await?;
    let _second = test.controller().await?;
    let seen = s
        .until("both are judged", |seen| {
            seen.clusters().failed + seen.clusters().complete == 2
        })
        .await?;
    let judged = (seen.clusters().failed, seen.clusters().complete);
    ensure!(
        judged == (1, 1),
        "failed and complete are {judged:?}\n{}",
        s.dump()
    );
    Ok(())
}

/// The soak's clock is on the work.
#[tokio::test]
async fn a_restart_does_not_move_the_end_of_a_soak() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 1).await?;
    let s = &test.scenario;
    s.create(json!({"upgradeStrategy": {"minSuccessTime": "40s"}}))
        .await?;
    let first = test.controller().await?;
    s.agent(1).completed().await?;
    let note = api::names::ANNOTATION_SOAK_STARTED_AT;
    let work = s
        .work_until(1, Platform, "soak noted", |work| {
            !work.annotation(note).is_empty()
        })
        .await?;
    let began = api::time::parse_rfc3339(work.annotation(note)).context("a time")?;
    first.kill().await?;
    let restarted = shortly_before(began + LIMIT).await;
    let _second = test.controller().await?;
    s.complete().await?;
    let row = s
        .up()
        .row_until(s.c(1), "complete", |row| row.phase == Phase::Complete)
        .await?;
    assert!(
        row.since >= began + LIMIT && row.since < restarted + LIMIT,
        "begun at {began}, restarted at {restarted}, complete at {}",
        row.since
    );
    Ok(())
}

/// A retry that was requested while no controller ran is carried out, and no restart repeats it.
#[tokio::test]
async fn a_retry_is_neither_lost_nor_repeated_by_a_crash() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 2).await?;
    let s = &test.scenario;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "2s"}}))
        .await?;
    let first = test.controller().await?;
    s.until("both failed", |seen| seen.clusters().failed == 2).await?;
    s.up()
        .row_until(s.c(2), "failed", |row| row.phase == Phase::Failed)
        .await?;
    first.kill().await?;
    s.edit(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "1h"}}))
        .await?;
    s.up().retry("again").await?;
    let failed = [s.work(1, Platform).await?, s.work(2, Platform).await?];
    freeze_after_first(&test, |request| {
        request.method == Method::PATCH && request.about("manifestworks")
    });
    let second = test.controller().await?;
    ensure!(
        test.proxy.frozen(WAIT_TIMEOUT).await,
        "no work was retried\n{}",
        s.dump()
    );
    second.kill().await?;
    test.proxy.thaw();
    let clocks = test.clocks();
    let _third = test.controller().await?;
    s.until("retried", |seen| {
        seen.status.observed_retry.as_deref() == Some("again") && seen.clusters().failed == 0
    })
    .await?;
    for (index, old) in failed.iter().enumerate() {
        let new = s
            .work_until(index + 1, Platform, "a fresh clock", |work| {
                work.started() > old.started()
            })
            .await?;
        assert_eq!(new.uid(), old.uid());
        let kept = clocks.get(&(s.c(index + 1).to_owned(), Step::Platform)).copied();
        assert!(
            kept == old.started() || kept == new.started(),
            "retried once: {kept:?} {:?}",
            new.started()
        );
        s.agent(index + 1).completed().await?;
    }
    s.complete().await?;
    Ok(())
}

/// The deletion of an upgrade continues after a crash.
#[tokio::test]
async fn a_deletion_that_was_cut_off_goes_on() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 3).await?;
    let s = &test.scenario;
    s.create(json!({})).await?;
    let first = test.controller().await?;
    for number in 1..=3 {
        s.work(number, Platform).await?;
    }
    freeze_after_first(&test, |request| request.method == Method::DELETE);
    s.up().delete().await?;
    ensure!(
        test.proxy.frozen(WAIT_TIMEOUT).await,
        "nothing was deleted\n{}",
        s.dump()
    );
    first.kill().await?;
    test.proxy.thaw();
    let _second = test.controller().await?;
    s.up().gone().await?;
    for number in 1..=3 {
        s.gone(number, Platform).await?;
    }
    Ok(())
}

/// An upgrade deleted while no controller ran is waited for by its finalizer.
#[tokio::test]
async fn an_upgrade_deleted_while_nobody_ran_is_tidied_up() -> Result<()> {
    let test = FaultScenario::new(&test_hub().await?, 1).await?;
    let s = &test.scenario;
    s.create(json!({})).await?;
    let first = test.controller().await?;
    s.work(1, Platform).await?;
    first.kill().await?;
    s.up().delete().await?;
    let _second = test.controller().await?;
    s.up().gone().await?;
    s.gone(1, Platform).await
}

/// A crash between a terminal row and the removal of its work: the work goes, the step is not done again.
#[tokio::test]
async fn a_finished_cluster_stays_finished_whatever_was_tidied_up() -> Result<()> {
    let test = Arc::new(FaultScenario::new(&test_hub().await?, 2).await?);
    let s = &test.scenario;
    freeze_after_first(&test, |request| {
        request.method == Method::DELETE && request.about("manifestworks")
    });
    s.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    let first = test.controller().await?;
    s.agent(1).available(PreAction).await?;
    s.agent(1).completed().await?;
    ensure!(
        test.proxy.frozen(WAIT_TIMEOUT).await,
        "nothing was tidied up\n{}",
        s.dump()
    );
    first.kill().await?;
    test.proxy.thaw();
    s.delete_work(1, PreAction).await?;
    let _second = test.controller().await?;
    s.agent(2).available(PreAction).await?;
    s.agent(2).completed().await?;
    s.complete().await?;
    assert_eq!((s.created(1, PreAction), s.created(1, Platform)), (1, 1));
    Ok(())
}
