//! Retries, by the annotation and by the spec: what failed is done again, what succeeded is not (3.1).

use anyhow::Result;
use api::names::ANNOTATION_STARTED_AT;
use api::names::Step::{Operators, Platform, PostAction, PreAction};
use api::report::{Phase, ReportRow};
use e2e::{Scenario, sample};
use serde_json::json;

#[tokio::test]
async fn a_failed_platform_step_is_retried_in_place_with_a_fresh_clock() -> Result<()> {
    let s = Scenario::new(2).await?;
    let strategy = json!({"clusterUpgradeTimeout": "4s"});
    s.create(json!({"preUpgradeAction": sample::action("backup"), "upgradeStrategy": strategy}))
        .await?;
    s.agent(1).available(PreAction).await?;
    s.agent(1).available(Platform).await?;
    let players = s.play(&[2]);
    s.until("one failed, one complete", |seen| {
        seen.clusters().failed == 1 && seen.clusters().complete == 1
    })
    .await?;
    drop(players);
    let old = s.work(1, Platform).await?;
    s.edit(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "1h"}}))
        .await?;
    s.up().retry("again").await?;
    let new = s
        .work_until(1, Platform, "a fresh clock", |work| {
            work.annotation(ANNOTATION_STARTED_AT) != old.annotation(ANNOTATION_STARTED_AT)
        })
        .await?;
    assert_eq!(new.uid(), old.uid(), "never deleted mid-upgrade");
    let seen = s
        .until("running again", |seen| seen.clusters().failed == 0)
        .await?;
    assert!(seen.is_not("Failed"));
    let running = |row: &ReportRow| row.retry == "again" && row.phase == Phase::Initialized;
    s.up().row_until(s.c(1), "running again", running).await?;
    s.agent(1).completed().await?;
    let seen = s.until("complete", |seen| {
        seen.is("Complete") && seen.status.observed_retry.as_deref() == Some("again")
    });
    seen.await?;
    assert_eq!(
        (
            s.created(1, PreAction),
            s.created(1, Platform),
            s.created(2, Platform)
        ),
        (1, 1, 1)
    );
    Ok(())
}

#[tokio::test]
async fn a_failed_operators_job_is_deleted_awaited_and_created_again() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"ocpOperators": {"approveAllUpgrades": true}}))
        .await?;
    s.agent(1).completed().await?;
    s.agent(1).hold(Operators).await?;
    s.agent(1).job(json!({"failed": 1, "jobFailed": "True"})).await?;
    s.until("failed", |seen| seen.clusters().failed == 1).await?;
    let old = s.work(1, Operators).await?;
    s.up().retry("1").await?;
    s.work_until(1, Operators, "deleted", e2e::Work::terminating)
        .await?;
    s.settle().await?;
    assert_eq!(s.created(1, Operators), 1);
    s.agent(1).release(Operators).await?;
    s.work_until(1, Operators, "created again", |work| work.uid() != old.uid())
        .await?;
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.complete().await?;
    assert_eq!(
        (s.created(1, Platform), s.created(1, Operators)),
        (1, 2),
        "the platform was done"
    );
    Ok(())
}

#[tokio::test]
async fn a_degraded_pre_action_is_deleted_and_created_again() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.agent(1).degraded(PreAction).await?;
    s.until("degraded", |seen| seen.pre().degraded == 1).await?;
    let old = s.work(1, PreAction).await?;
    s.up().retry("1").await?;
    s.work_until(1, PreAction, "created again", |work| work.uid() != old.uid())
        .await?;
    s.agent(1).available(PreAction).await?;
    s.agent(1).completed().await?;
    s.complete().await?;
    Ok(())
}

#[tokio::test]
async fn a_degraded_post_action_is_created_again_and_nothing_else() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"postUpgradeAction": sample::action("check")}))
        .await?;
    s.agent(1).completed().await?;
    s.agent(1).degraded(PostAction).await?;
    s.until("failed", |seen| seen.clusters().failed == 1).await?;
    let old = s.work(1, PostAction).await?;
    s.up().retry("1").await?;
    s.work_until(1, PostAction, "created again", |work| work.uid() != old.uid())
        .await?;
    s.agent(1).available(PostAction).await?;
    s.complete().await?;
    assert_eq!((s.created(1, Platform), s.created(1, PostAction)), (1, 2));
    Ok(())
}

#[tokio::test]
async fn each_value_retries_once_and_a_retried_canary_opens_the_gate() -> Result<()> {
    let s = Scenario::new(2).await?;
    let strategy = json!({"clusterUpgradeTimeout": "3s", "canaryClusters": sample::canaries(&s.some(&[1]))});
    s.create(json!({"upgradeStrategy": strategy})).await?;
    s.until("stalled", |seen| seen.stalled("CanaryFailed")).await?;
    s.up().retry("1").await?;
    s.until("moving", |seen| {
        seen.is("Reconciling") && seen.clusters().failed == 0
    })
    .await?;
    s.until("failed again", |seen| seen.stalled("CanaryFailed"))
        .await?;
    let seen = s.settle().await?;
    assert_eq!(seen.clusters().failed, 1, "the same value does nothing more");
    assert_eq!(seen.status.observed_retry.as_deref(), Some("1"));
    s.edit(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "1h"}}))
        .await?;
    s.up().retry("2").await?;
    s.until("moving", |seen| seen.clusters().failed == 0).await?;
    s.agent(1).completed().await?;
    s.agent(2).completed().await?;
    s.complete().await?;
    Ok(())
}

#[tokio::test]
async fn an_entry_of_the_spec_retries_the_clusters_that_it_names_once_and_leaves_the_others_failed()
-> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "4s"}}))
        .await?;
    s.agent(1).available(Platform).await?;
    s.agent(2).available(Platform).await?;
    s.until("both failed", |seen| seen.clusters().failed == 2).await?;
    let entry = |id: &str, more: serde_json::Value| {
        let mut entry = json!({"id": id});
        sample::join(&mut entry, &more);
        entry
    };
    let first = entry("first", json!({"clusters": [s.c(1)]}));
    let strategy = |retry: serde_json::Value| json!({"upgradeStrategy": {"clusterUpgradeTimeout": "1h", "retry": retry}});
    s.edit(strategy(json!([first]))).await?;
    s.up()
        .row_until(s.c(1), "retried", |row| {
            row.retry == "first" && row.phase == Phase::Initialized
        })
        .await?;
    let seen = s
        .until("carried out", |seen| seen.status.retries == ["first"])
        .await?;
    assert_eq!(seen.clusters().failed, 1);
    s.agent(1).completed().await?;
    s.until("complete", |seen| seen.clusters().complete == 1).await?;
    let second = entry("second", json!({"reasons": ["ClusterUpgradeTimeout"]}));
    let none = entry("third", json!({"clusters": [s.c(1)]}));
    s.edit(strategy(json!([first, second, none]))).await?;
    s.up()
        .row_until(s.c(2), "retried", |row| {
            row.retry == "second" && row.phase == Phase::Initialized
        })
        .await?;
    s.agent(2).completed().await?;
    let seen = s
        .until("complete", |seen| {
            seen.is("Complete") && seen.status.retries.len() == 3
        })
        .await?;
    assert_eq!(seen.status.retries, ["first", "second", "third"]);
    let refused = s.edit(strategy(json!([{"id": "not a name"}]))).await.unwrap_err();
    assert!(
        format!("{refused:#}").contains("spec.upgradeStrategy.retry[0].id"),
        "{refused:#}"
    );
    Ok(())
}
