//! How many clusters are in flight, and in which order they start.

use anyhow::Result;
use api::names::Step::Platform;
use e2e::Scenario;
use serde_json::json;

fn slots(size: usize) -> serde_json::Value {
    json!({"upgradeStrategy": {"maxConcurrency": size}})
}

/// That no status ever shows more clusters in flight than `maxConcurrency` is an invariant of every test.
#[tokio::test]
async fn never_more_clusters_than_max_concurrency_are_in_flight_and_all_finish() -> Result<()> {
    let s = Scenario::new(10).await?;
    s.create(slots(2)).await?;
    let seen = s
        .until("all slots are taken", |seen| seen.in_flight() == 2)
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

/// 3.1: a percent of all selected clusters, rounded up, at least one.
#[tokio::test]
async fn a_max_concurrency_in_percent_is_rounded_up() -> Result<()> {
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
