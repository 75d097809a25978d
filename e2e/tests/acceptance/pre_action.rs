//! What happens before the upgrade of a cluster.

use anyhow::Result;
use api::names::Step::{Platform, PreAction};
use api::report::Phase;
use e2e::{Scenario, sample};
use serde_json::{Value, json};

fn backup(change: &Value) -> Value {
    let mut spec = json!({"preUpgradeAction": sample::action("backup")});
    sample::join(&mut spec, change);
    spec
}

#[tokio::test]
async fn the_pre_action_comes_first_and_is_counted() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(backup(&json!({"upgradeStrategy": {"maxConcurrency": 2}})))
        .await?;
    let work = s.work(1, PreAction).await?;
    assert_eq!(work.manifests()[0]["metadata"]["name"], "backup");
    s.agent(1).applied(PreAction).await?;
    let seen = s.until("applied", |seen| seen.pre().applied == 1).await?;
    assert!(seen.is("Applied"));
    assert_eq!(
        (seen.pre().total, seen.pre().available, seen.pre().progressing),
        (2, 0, 2)
    );
    assert_eq!(
        (seen.clusters().initialized, seen.clusters().pending),
        (0, 4),
        "a pre-action is not an upgrade yet"
    );
    s.settle().await?;
    assert_eq!(s.having(Platform), Vec::<usize>::new());
    assert_eq!(s.having(PreAction), [1, 2]);
    Ok(())
}

#[tokio::test]
async fn a_degraded_pre_action_holds_back_its_own_cluster_only() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(backup(&json!({}))).await?;
    s.agent(2).degraded(PreAction).await?;
    let players = s.play(&[1, 3]);
    let seen = s
        .until("the others are done and their works gone", |seen| {
            seen.clusters().complete == 2 && seen.stalled("ClustersFailed")
        })
        .await?;
    drop(players);
    assert_eq!((seen.pre().degraded, seen.clusters().pending), (1, 1));
    assert!(seen.is_not("Complete"));
    s.settle().await?;
    assert_eq!(s.created(2, Platform), 0);
    s.up()
        .row_until(s.c(2), "degraded", |row| row.phase == Phase::PreActionDegraded)
        .await?;
    Ok(())
}

#[tokio::test]
async fn pre_actions_are_deleted_when_all_clusters_are_complete() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(backup(&json!({}))).await?;
    for number in [1, 2] {
        s.agent(number).available(PreAction).await?;
    }
    s.agent(1).completed().await?;
    s.until("one complete", |seen| seen.clusters().complete == 1)
        .await?;
    s.settle().await?;
    assert_eq!(s.having(PreAction), [1, 2]);
    s.agent(2).completed().await?;
    s.complete().await?;
    s.gone(1, PreAction).await?;
    s.gone(2, PreAction).await?;
    let seen = s.settle().await?;
    assert_eq!(
        (seen.pre().total, seen.pre().available),
        (2, 2),
        "the counts survive the works"
    );
    Ok(())
}

#[tokio::test]
async fn after_a_failure_only_the_pre_actions_of_complete_clusters_go() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(backup(
        &json!({"upgradeStrategy": {"clusterUpgradeTimeout": "4s"}}),
    ))
    .await?;
    for number in [1, 2] {
        s.agent(number).available(PreAction).await?;
    }
    s.agent(1).completed().await?;
    s.until("one of each", |seen| {
        seen.clusters().complete == 1 && seen.clusters().failed == 1
    })
    .await?;
    s.gone(1, PreAction).await?;
    s.settle().await?;
    assert_eq!(s.having(PreAction), [2]);
    s.up().delete().await?;
    s.up().gone().await?;
    s.gone(2, PreAction).await
}

/// A Job of an action must have succeeded; that it exists is not enough.
#[tokio::test]
async fn a_job_of_an_action_counts_when_it_succeeded_and_is_degraded_when_it_failed() -> Result<()> {
    let s = Scenario::new(4).await?;
    let one = |numbers: &[usize], action: Value| json!({"clusterSelector": sample::selector(s.id(), &s.some(numbers)), "preUpgradeAction": action});
    s.upgrade("declared")
        .create(one(&[1], sample::declared_job_action("backup")))
        .await?;
    s.upgrade("plain")
        .create(one(&[2, 3, 4], sample::job_action("backup")))
        .await?;
    let rules = s.work(2, PreAction).await?.raw["spec"]["manifestConfigs"][0]["feedbackRules"].clone();
    assert_eq!(rules[0]["type"], "WellKnownStatus");
    assert_eq!(rules[1]["jsonPaths"][0]["name"], "jobFailed");

    s.agent(1).values(PreAction, &[("failed", json!(1))]).await?;
    s.upgrade("declared")
        .until("degraded", |seen| seen.pre().degraded == 1)
        .await?;
    s.agent(2)
        .values(PreAction, &[("jobFailed", json!("True"))])
        .await?;
    s.agent(3).available(PreAction).await?;
    s.agent(4)
        .values(
            PreAction,
            &[("JobComplete", json!("True")), ("JobSucceeded", json!(1))],
        )
        .await?;
    let one_of_each = |seen: &e2e::Seen| {
        let pre = seen.pre();
        (pre.degraded, pre.progressing, pre.available) == (1, 1, 1)
    };
    s.upgrade("plain").until("one of each", one_of_each).await?;
    s.work(4, Platform).await?;
    s.upgrade("plain").settle().await?;
    assert_eq!(s.having(Platform), [4]);
    Ok(())
}

/// Applied=False alone is progress, not failure.
#[tokio::test]
async fn an_action_that_cannot_be_applied_yet_is_progressing_and_says_why() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(backup(&json!({}))).await?;
    s.agent(1)
        .not_applied(PreAction, "namespaces \"backup\" not found")
        .await?;
    let row = s
        .up()
        .row_until(s.c(1), "the cause", |row| row.reason == "NotApplied")
        .await?;
    assert!(row.message.contains("not found"), "{}", row.message);
    let seen = s.settle().await?;
    assert_eq!((seen.pre().progressing, seen.pre().degraded), (1, 0));
    Ok(())
}
