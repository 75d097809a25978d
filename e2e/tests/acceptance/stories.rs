//! Five user stories, each as its user would live it.

use anyhow::{Context as _, Result};
use api::names::Step::{Operators, Platform, PostAction, PreAction};
use api::report::Phase;
use e2e::{Scenario, sample};
use serde_json::json;

/// "As end user, I want to perform a pre-upgrade action like backup workload data."
#[tokio::test]
async fn story_1_workloads_are_backed_up_before_the_upgrade() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"preUpgradeAction": sample::job_action("backup")}))
        .await?;
    for number in [1, 2] {
        let work = s.work(number, PreAction).await?;
        assert_eq!(work.manifests()[0]["kind"], "Job");
        s.agent(number).available(PreAction).await?;
    }
    s.settle().await?;
    assert_eq!(
        s.having(Platform),
        Vec::<usize>::new(),
        "a backup that exists is not a backup that is done"
    );
    for number in [1, 2] {
        s.agent(number)
            .values(
                PreAction,
                &[("JobComplete", json!("True")), ("JobSucceeded", json!(1))],
            )
            .await?;
        s.agent(number).completed().await?;
    }
    let seen = s.complete().await?;
    assert_eq!((seen.pre().total, seen.pre().available), (2, 2));
    Ok(())
}

/// "As end user, I want to upgrade group of managed clusters and be able to monitor the upgrade process per cluster."
#[tokio::test]
async fn story_2_a_group_is_upgraded_and_each_cluster_is_monitored() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.decide("group", &[1, 2, 3]).await?;
    s.create(json!({"clusterSelector": null, "placement": [{"name": "group"}], "upgradeStrategy": {"maxConcurrency": 2}}))
        .await?;
    s.agent(1).partial().await?;
    s.agent(2).available(Platform).await?;
    for (number, phase) in [(1, Phase::Partial), (2, Phase::Initialized), (3, Phase::Pending)] {
        let row = s
            .up()
            .row_until(s.c(number), "its phase", |row| row.phase == phase)
            .await?;
        assert!(phase != Phase::Pending || row.reason == "WaitingForSlot");
    }
    let seen = s
        .until("counted", |seen| seen.clusters().partial_upgrade == 1)
        .await?;
    let counts = seen.clusters();
    assert_eq!((counts.total, counts.initialized, counts.pending), (3, 2, 1));
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    for number in 1..=3 {
        s.up()
            .row_until(s.c(number), "complete", |row| row.phase == Phase::Complete)
            .await?;
    }
    Ok(())
}

/// "As end user, I want to approve OLM operator upgrade for a group of managed clusters."
#[tokio::test]
async fn story_3_operator_upgrades_are_approved_for_a_group() -> Result<()> {
    let s = Scenario::new(3).await?;
    let include = sample::operators(&["openshift-gitops-operator"]);
    s.create(json!({"clusterVersion": null, "ocpOperators": include}))
        .await?;
    for number in 1..=3 {
        let work = s.work(number, Operators).await?;
        assert_eq!(
            work.approver_env("INCLUDELIST"),
            Some("openshift-gitops-operator,openshift-operators")
        );
        s.agent(number).job(json!({"active": 1})).await?;
    }
    s.until("running", |seen| seen.clusters().partial_upgrade == 3)
        .await?;
    for number in 1..=3 {
        s.agent(number)
            .job(json!({"succeeded": 1, "jobComplete": "True"}))
            .await?;
    }
    let seen = s.complete().await?;
    assert_eq!(seen.clusters().complete, 3);
    Ok(())
}

/// "As end user, I want to upgrade group of managed clusters in batches and identify canary clusters for the upgrade
/// process."
#[tokio::test]
async fn story_4_a_group_is_upgraded_in_batches_after_its_canaries() -> Result<()> {
    let s = Scenario::new(6).await?;
    let strategy = json!({"maxConcurrency": 2, "canaryClusters": sample::canaries(&s.some(&[5]))});
    s.create(json!({"upgradeStrategy": strategy})).await?;
    s.work(5, Platform).await?;
    s.settle().await?;
    assert_eq!(s.having(Platform), [5]);
    s.agent(5).completed().await?;
    s.work(1, Platform).await?;
    s.work(2, Platform).await?;
    let seen = s.settle().await?;
    assert_eq!((seen.in_flight(), seen.canaries().complete), (2, 1));
    s.gone(5, Platform).await?;
    assert_eq!(s.having(Platform), [1, 2]);
    let players = s.play_all();
    let seen = s.complete().await?;
    drop(players);
    assert_eq!(seen.clusters().complete, 6);
    Ok(())
}

/// "As end user, I want to perform a post-upgrade action like workload health checks."
#[tokio::test]
async fn story_5_workloads_are_checked_after_the_upgrade() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"postUpgradeAction": sample::job_action("health-check")}))
        .await?;
    s.settle().await?;
    assert_eq!(s.having(PostAction), Vec::<usize>::new());
    for number in [1, 2] {
        s.agent(number).completed().await?;
    }
    s.agent(1)
        .values(
            PostAction,
            &[("JobComplete", json!("True")), ("JobSucceeded", json!(1))],
        )
        .await?;
    s.agent(2)
        .values(PostAction, &[("jobFailed", json!("True"))])
        .await?;
    let seen = s
        .until("one is unhealthy", |seen| seen.clusters().failed == 1)
        .await?;
    assert_eq!((seen.post().available, seen.post().degraded), (1, 1));
    let note = seen.failed(s.c(2)).context("it is listed")?;
    assert_eq!(note.reason, "PostActionFailed");
    assert!(seen.is("Failed") && seen.is_not("Complete"));
    Ok(())
}
