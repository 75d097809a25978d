//! Pausing and the failure budget (3.1).

use anyhow::{Context as _, Result};
use api::names::Step::{Platform, PreAction};
use e2e::{Scenario, sample};
use serde_json::json;

#[tokio::test]
async fn paused_nothing_starts_and_what_runs_runs_all_its_steps() -> Result<()> {
    let s = Scenario::new(2).await?;
    let strategy = json!({"maxConcurrency": 1});
    s.create(json!({"upgradeStrategy": strategy, "ocpOperators": {"approveAllUpgrades": true}}))
        .await?;
    s.agent(1).partial().await?;
    s.edit(json!({"paused": true})).await?;
    let seen = s.until("paused", |seen| seen.reason("Ready") == "Paused").await?;
    assert!(seen.is_not("Ready") && seen.is_not("Stalled") && seen.is("Reconciling"));
    s.agent(1).completed().await?;
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.until("the first is done", |seen| seen.clusters().complete == 1)
        .await?;
    // The works of the first are removed at leisure.
    let seen = s
        .until("nothing is under way", |seen| seen.is_not("Reconciling"))
        .await?;
    assert_eq!(s.created(2, Platform), 0);
    assert!(seen.is_not("Stalled"), "paused is not stalled");
    assert_eq!(seen.waiting(s.c(2)).context("it is listed")?.reason, "Paused");
    s.edit(json!({"paused": false})).await?;
    s.work(2, Platform).await?;
    Ok(())
}

#[tokio::test]
async fn the_clock_runs_on_while_paused() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "4s"}}))
        .await?;
    s.work(1, Platform).await?;
    s.edit(json!({"paused": true})).await?;
    let seen = s.until("failed", |seen| seen.clusters().failed == 1).await?;
    assert_eq!(seen.reason("Ready"), "Paused");
    Ok(())
}

#[tokio::test]
async fn more_failures_than_allowed_stop_new_starts_and_those_in_flight_finish() -> Result<()> {
    let s = Scenario::new(5).await?;
    let strategy = json!({"maxConcurrency": 3, "maxFailures": 1});
    s.create(json!({"preUpgradeAction": sample::action("backup"), "upgradeStrategy": strategy}))
        .await?;
    s.agent(1).degraded(PreAction).await?;
    s.work(4, PreAction).await?;
    s.agent(2).degraded(PreAction).await?;
    s.until("two are degraded", |seen| seen.pre().degraded == 2)
        .await?;
    for number in [3, 4] {
        s.agent(number).available(PreAction).await?;
        s.agent(number).completed().await?;
    }
    let seen = s
        .until("stalled", |seen| seen.stalled("MaxFailuresExceeded"))
        .await?;
    assert_eq!(seen.clusters().complete, 2);
    assert_eq!(
        seen.waiting(s.c(5)).context("it is listed")?.reason,
        "MaxFailuresExceeded"
    );
    assert_eq!(s.created(5, PreAction), 0);
    s.edit(json!({"upgradeStrategy": {"maxFailures": 2}})).await?;
    s.work(5, PreAction).await?;
    Ok(())
}

#[tokio::test]
async fn a_budget_in_percent_is_rounded_up_and_does_not_count_canaries() -> Result<()> {
    let s = Scenario::new(5).await?;
    // 25 % of five is two; nought would stop at the first.
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1, "maxFailures": "25%", "clusterUpgradeTimeout": "2s"}}))
        .await?;
    let seen = s
        .until("stalled", |seen| seen.stalled("MaxFailuresExceeded"))
        .await?;
    assert_eq!((seen.clusters().failed, seen.clusters().pending), (3, 2));
    assert_eq!(s.created(4, Platform), 0);
    Ok(())
}
