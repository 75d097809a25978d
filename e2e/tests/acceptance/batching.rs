//! How many clusters are in flight, and in which order they start.

use anyhow::{Context as _, Result};
use api::names::Step::Platform;
use chrono::{DateTime, Utc};
use e2e::Scenario;
use serde_json::json;

fn window(size: usize) -> serde_json::Value {
    json!({"upgradeStrategy": {"maxConcurrency": size}})
}

/// That no status ever shows more clusters in flight than `maxConcurrency` is an invariant of every test.
#[tokio::test]
async fn never_more_clusters_than_the_window_are_in_flight_and_all_finish() -> Result<()> {
    let s = Scenario::new(10).await?;
    s.create(window(2)).await?;
    let seen = s
        .until("the window is full", |seen| seen.in_flight() == 2)
        .await?;
    assert_eq!(seen.clusters().pending, 8);
    assert_eq!(s.settle().await?.clusters().pending, 8);
    assert_eq!(s.having(Platform), [1, 2]);
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    for seen in s.up().history() {
        let counts = seen.clusters();
        assert!(
            counts.initialized - counts.complete - counts.failed <= 2,
            "{counts:?}"
        );
    }
    assert!((1..=10).all(|number| s.created(number, Platform) == 1));
    Ok(())
}

#[tokio::test]
async fn a_changed_window_acts_at_once_and_aborts_nobody() -> Result<()> {
    let s = Scenario::new(8).await?;
    s.create(window(2)).await?;
    s.until("two", |seen| seen.in_flight() == 2).await?;
    s.edit(window(4)).await?;
    s.until("four", |seen| seen.in_flight() == 4).await?;
    assert_eq!(s.having(Platform), [1, 2, 3, 4]);
    s.edit(window(1)).await?;
    s.until("the window is one", |seen| {
        seen.status.effective_max_concurrency == Some(1)
    })
    .await?;
    for done in 1..=3 {
        s.agent(done).completed().await?;
        let seen = s
            .until("one more done", |seen| {
                seen.clusters().complete == i64::try_from(done).unwrap()
            })
            .await?;
        assert_eq!(seen.clusters().initialized, 4, "nobody starts, nobody is aborted");
    }
    s.settle().await?;
    assert_eq!(s.created(5, Platform), 0);
    s.agent(4).completed().await?;
    s.work(5, Platform).await?;
    s.settle().await?;
    assert_eq!(s.created(6, Platform), 0);
    Ok(())
}

#[tokio::test]
async fn a_failed_cluster_does_not_stop_the_rest() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1, "clusterUpgradeTimeout": "4s"}}))
        .await?;
    s.work(1, Platform).await?;
    let players = s.play(&[2, 3]);
    let seen = s
        .until("the rest is done", |seen| seen.clusters().complete == 2)
        .await?;
    drop(players);
    assert_eq!(seen.clusters().failed, 1);
    assert!(seen.is("Failed") && seen.is_not("Complete"));
    Ok(())
}

/// Clusters start by name in every run.
#[tokio::test]
async fn the_same_fleet_starts_in_the_same_order() -> Result<()> {
    let s = Scenario::new(5).await?;
    let mut orders: Vec<Vec<usize>> = Vec::new();
    for run in ["first", "second"] {
        let upgrade = s.upgrade(run);
        upgrade
            .create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
            .await?;
        let mut starts: Vec<(DateTime<Utc>, usize)> = Vec::new();
        for _ in 0..5 {
            let known: Vec<usize> = starts.iter().map(|start| start.1).collect();
            let (number, work) = s
                .wait("the next start", |seen| {
                    (1..=5)
                        .filter(|number| !known.contains(number))
                        .find_map(|number| seen.work(s.c(number), Platform).map(|work| (number, work)))
                })
                .await?;
            starts.push((work.started().context("the work bears its start")?, number));
            s.agent(number).completed().await?;
        }
        upgrade.until("complete", |seen| seen.is("Complete")).await?;
        starts.sort_unstable();
        orders.push(starts.into_iter().map(|(_, number)| number).collect());
        upgrade.delete().await?;
        upgrade.gone().await?;
    }
    assert_eq!(orders, [[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]]);
    Ok(())
}

/// 3.1: a percent of all selected clusters, rounded up, at least one.
#[tokio::test]
async fn a_window_in_percent_is_rounded_up() -> Result<()> {
    let s = Scenario::new(5).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": "30%"}}))
        .await?;
    let seen = s.until("two of five", |seen| seen.in_flight() == 2).await?;
    assert_eq!(seen.status.effective_max_concurrency, Some(2));
    s.edit(json!({"upgradeStrategy": {"maxConcurrency": "1%"}}))
        .await?;
    let seen = s
        .until("one", |seen| seen.status.effective_max_concurrency == Some(1))
        .await?;
    assert_eq!(seen.clusters().initialized, 2);
    s.edit(json!({"upgradeStrategy": {"maxConcurrency": "100%"}}))
        .await?;
    s.until("all", |seen| seen.in_flight() == 5).await?;
    Ok(())
}
