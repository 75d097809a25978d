//! minSuccessTime: the soak (3.1).

use anyhow::{Context as _, Result};
use api::names::ANNOTATION_SOAK_STARTED_AT;
use api::names::Step::{Operators, Platform, PostAction};
use api::report::{Phase, ReportRow, Stage};
use api::time::parse_rfc3339;
use chrono::TimeDelta;
use e2e::{Scenario, TARGET, sample};
use serde_json::{Value, json};

fn soaking(seconds: u32, change: &Value) -> Value {
    let mut spec = json!({"upgradeStrategy": {"minSuccessTime": format!("{seconds}s")}});
    sample::join(&mut spec, change);
    spec
}

#[tokio::test]
async fn a_soaking_cluster_holds_no_slot_and_completes_when_its_time_is_over() -> Result<()> {
    let s = Scenario::new(2).await?;
    // Long enough to look at on a slow machine.
    s.create(soaking(
        20,
        &json!({"upgradeStrategy": {"maxConcurrency": 1}, "postUpgradeAction": sample::action("check")}),
    ))
    .await?;
    s.agent(1).completed().await?;
    let work = s
        .work_until(1, Platform, "soak noted", |work| {
            !work.annotation(ANNOTATION_SOAK_STARTED_AT).is_empty()
        })
        .await?;
    let began = parse_rfc3339(work.annotation(ANNOTATION_SOAK_STARTED_AT)).context("a time")?;
    s.work(2, Platform).await?;
    let seen = s.settle().await?;
    assert_eq!(
        (
            seen.clusters().initialized,
            seen.clusters().complete,
            seen.clusters().partial_upgrade
        ),
        (2, 0, 0)
    );
    assert_eq!(s.created(1, PostAction), 0, "the soak delays the post-action");
    s.until("complete", |seen| seen.clusters().complete == 1).await?;
    let post_action = s.work(1, PostAction).await?;
    let end = |row: &ReportRow| {
        let soak = row.steps.iter().find(|step| step.name == Stage::Soak)?;
        soak.finished_at
    };
    let row = s
        .up()
        .row_until(s.c(1), "the soak is recorded", |row| end(row).is_some())
        .await?;
    let ended = end(&row).context("the soak has an end")?;
    assert!(ended - began >= TimeDelta::seconds(20), "{began} to {ended}");
    assert!(
        post_action.started() >= Some(ended),
        "{:?}",
        post_action.started()
    );
    s.gone(1, Platform).await
}

#[tokio::test]
async fn a_failing_cluster_regresses_in_its_soak() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(soaking(600, &json!({}))).await?;
    for number in [1, 2] {
        s.agent(number).completed().await?;
        s.up()
            .row_until(s.c(number), "soaking", |row| row.phase == Phase::Soaking)
            .await?;
    }
    let failing = [
        ("version", json!(TARGET)),
        ("state", json!("Completed")),
        ("failing", json!("True")),
        ("failingMessage", json!("etcd is degraded")),
    ];
    s.agent(1).values(Platform, &failing).await?;
    s.agent(2).feedback("4.12.9", "Partial").await?;
    let seen = s.until("both failed", |seen| seen.clusters().failed == 2).await?;
    for number in [1, 2] {
        assert_eq!(
            seen.failed(s.c(number)).context("it is listed")?.reason,
            "RegressedInSoak"
        );
    }
    assert!(
        seen.failed(s.c(1))
            .context("listed")?
            .message
            .contains("etcd is degraded")
    );
    Ok(())
}

/// In an operators-only upgrade only time is watched, and the operators work bears the note.
#[tokio::test]
async fn an_operators_only_upgrade_soaks_by_time() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(soaking(
        3,
        &json!({"clusterVersion": null, "ocpOperators": {"approveAllUpgrades": true}}),
    ))
    .await?;
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.work_until(1, Operators, "soak noted", |work| {
        !work.annotation(ANNOTATION_SOAK_STARTED_AT).is_empty()
    })
    .await?;
    s.complete().await?;
    s.gone(1, Operators).await
}
