//! What happens after the upgrade of a cluster.

use anyhow::Result;
use api::names::Step::{Operators, PostAction};
use e2e::{Scenario, sample};
use serde_json::{Value, json};

fn check(change: &Value) -> Value {
    let mut spec = json!({"postUpgradeAction": sample::action("health-check")});
    sample::join(&mut spec, change);
    spec
}

#[tokio::test]
async fn the_post_action_comes_on_complete_clusters_after_their_operators() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(check(&json!({"ocpOperators": {"approveAllUpgrades": true}})))
        .await?;
    s.agent(1).completed().await?;
    s.work(1, Operators).await?;
    s.settle().await?;
    assert_eq!(s.created(1, PostAction), 0);
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.work(1, PostAction).await?;
    let seen = s.until("counted", |seen| seen.post().total == 1).await?;
    assert_eq!(seen.clusters().complete, 1);
    assert_eq!(s.having(PostAction), [1]);
    assert!(seen.is_not("Complete"));
    Ok(())
}

#[tokio::test]
async fn a_degraded_post_action_fails_its_cluster_and_a_late_recovery_heals_it() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(check(&json!({}))).await?;
    for number in [1, 2] {
        s.agent(number).completed().await?;
    }
    s.agent(1).available(PostAction).await?;
    s.until("two complete", |seen| seen.clusters().complete == 2)
        .await?;
    s.agent(2).degraded(PostAction).await?;
    // It stalls when the works of the first are gone, too.
    let seen = s
        .until("failed", |seen| {
            seen.clusters().failed == 1 && seen.stalled("ClustersFailed")
        })
        .await?;
    assert_eq!((seen.clusters().complete, seen.post().degraded), (1, 1));
    assert!(seen.is("Failed") && seen.is_not("Complete"));
    s.up()
        .row_until(s.c(2), "failed", |row| row.reason == "PostActionFailed")
        .await?;
    s.agent(2).available(PostAction).await?;
    let seen = s.complete().await?;
    assert_eq!((seen.clusters().complete, seen.clusters().failed), (2, 0));
    assert!(seen.is_not("Failed"));
    Ok(())
}

#[tokio::test]
async fn with_all_post_actions_available_it_is_complete_and_they_are_deleted() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(check(&json!({}))).await?;
    for number in [1, 2] {
        s.agent(number).completed().await?;
    }
    s.agent(1).available(PostAction).await?;
    let seen = s
        .until("one available", |seen| seen.post().available == 1)
        .await?;
    assert!(seen.is_not("Complete"));
    s.settle().await?;
    assert_eq!(s.having(PostAction), [1, 2]);
    s.agent(2).available(PostAction).await?;
    s.complete().await?;
    s.gone(1, PostAction).await?;
    s.gone(2, PostAction).await?;
    let seen = s.settle().await?;
    assert_eq!((seen.post().total, seen.post().available), (2, 2));
    assert!(seen.is("Complete"));
    Ok(())
}
