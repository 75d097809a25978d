//! Reports: one row per selected cluster, durable before works go, in bounded shards; a bounded status.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use api::names::Step::{Platform, PreAction};
use api::report::{Outcome, Phase, Stage};
use e2e::view::Kind;
use e2e::{Scenario, TestHub, sample};
use serde_json::json;

#[tokio::test]
async fn every_selected_cluster_has_a_row_from_selection_on_and_a_history_at_the_end() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(json!({
        "preUpgradeAction": sample::action("backup"), "ocpOperators": {"approveAllUpgrades": true},
        "upgradeStrategy": {"maxConcurrency": 1, "canaryClusters": sample::canaries(&s.some(&[2]))},
    }))
    .await?;
    s.up()
        .row_until(s.c(3), "pending", |row| {
            row.phase == Phase::Pending && !row.reason.is_empty()
        })
        .await?;
    let rows = s.up().rows();
    assert_eq!(
        rows.keys().collect::<Vec<_>>(),
        s.names().iter().collect::<Vec<_>>()
    );
    assert!(rows[s.c(2)].canary && !rows[s.c(1)].canary);
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    let row = s
        .up()
        .row_until(s.c(1), "complete", |row| row.phase == Phase::Complete)
        .await?;
    assert_eq!(row.to_version, "4.12.0");
    let names: Vec<Stage> = row.steps.iter().map(|step| step.name).collect();
    assert_eq!(names, [Stage::PreAction, Stage::Platform, Stage::Operators]);
    for step in &row.steps {
        assert_eq!(step.outcome, Some(Outcome::Succeeded));
        assert!(step.finished_at.context("it has ended")? >= step.started_at);
    }
    assert!(
        row.steps
            .windows(2)
            .all(|pair| pair[0].finished_at.unwrap() <= pair[1].started_at),
        "{:?}",
        row.steps
    );
    Ok(())
}

/// The platform work of a complete cluster is deleted only after its row says Complete: at every event the work or the row
/// existed.
#[tokio::test]
async fn a_terminal_row_is_written_before_the_work_is_removed() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({})).await?;
    for number in [1, 2] {
        s.agent(number).hold(Platform).await?;
        s.agent(number).completed().await?;
    }
    for number in [1, 2] {
        s.work_until(number, Platform, "being deleted", e2e::Work::terminating)
            .await?;
        // Asked from the API server itself: the view's watches are not ordered among each other.
        let reports = s
            .api(Kind::Report, s.id())
            .list(&kube::api::ListParams::default())
            .await?;
        let rows: Vec<_> = reports
            .items
            .iter()
            .filter_map(|report| report.data["rows"].as_array())
            .flatten()
            .collect();
        let row = rows
            .iter()
            .find(|row| row["cluster"] == s.c(number))
            .context("a row")?;
        assert_eq!(row["phase"], "Complete");
        s.agent(number).release(Platform).await?;
    }
    s.complete().await?;
    Ok(())
}

/// A report has at most 250 rows, and a cluster stays in its report. That the status stays small is an invariant.
#[tokio::test]
async fn reports_are_sharded_and_stable() -> Result<()> {
    let s = Scenario::new(260).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 2}}))
        .await?;
    let shards = async |what: &str, condition: &dyn Fn(&[BTreeSet<String>]) -> bool| {
        s.wait(what, |known| {
            let mut shards: Vec<(String, BTreeSet<String>)> = known
                .in_namespace(Kind::Report, s.id())
                .map(|report| {
                    let rows = report["rows"].as_array().cloned().unwrap_or_default();
                    let names = rows
                        .iter()
                        .filter_map(|row| row["cluster"].as_str().map(str::to_owned))
                        .collect();
                    (
                        report["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                        names,
                    )
                })
                .collect();
            shards.sort();
            let sets: Vec<BTreeSet<String>> = shards.into_iter().map(|shard| shard.1).collect();
            condition(&sets).then_some(sets)
        })
        .await
    };
    let whole = |sets: &[BTreeSet<String>]| sets.iter().map(BTreeSet::len).sum::<usize>() == 260;
    let before = shards("260 rows", &whole).await?;
    assert_eq!(before.len(), 2);
    assert!(before.iter().all(|set| set.len() <= 250));
    let seen = s.until("counted", |seen| seen.clusters().total == 260).await?;
    assert_eq!(seen.status.waiting_clusters.len(), 10);
    let left_out = seen.status.truncated.context("some are left out")?;
    assert!(left_out.waiting >= 240, "{left_out:?}");
    for number in [1, 2] {
        s.agent(number).completed().await?;
        s.up()
            .row_until(s.c(number), "complete", |row| row.phase == Phase::Complete)
            .await?;
    }
    let after = shards("260 rows", &whole).await?;
    assert_eq!(before, after, "no cluster changed its report");
    Ok(())
}

/// Reports belong to their upgrade and go with it.
#[tokio::test]
async fn reports_are_collected_with_their_upgrade() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"paused": true})).await?;
    s.up().row_until(s.c(1), "there", |_| true).await?;
    s.up().delete().await?;
    s.up().gone().await?;
    s.wait("no report", |known| {
        known
            .in_namespace(Kind::Report, s.id())
            .next()
            .is_none()
            .then_some(())
    })
    .await
}

/// A report that somebody deletes or edits is written anew, because it is the record.
#[tokio::test]
async fn a_report_deleted_by_hand_is_written_again() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.agent(1).completed().await?;
    s.up()
        .row_until(s.c(1), "complete", |row| row.phase == Phase::Complete)
        .await?;
    let reports = s.api(Kind::Report, s.id());
    for report in reports.list(&kube::api::ListParams::default()).await?.items {
        reports
            .delete(
                report.metadata.name.as_deref().unwrap_or_default(),
                &kube::api::DeleteParams::default(),
            )
            .await?;
    }
    s.gone(1, Platform).await?;
    s.up()
        .row_until(s.c(1), "complete again", |row| row.phase == Phase::Complete)
        .await?;
    s.agent(2).completed().await?;
    s.complete().await?;
    assert_eq!(s.created(1, Platform), 1, "what is done stays done");
    Ok(())
}

/// A fleet at rest causes no writes, whatever it waits for. Writes of other upgrades show that time has passed.
#[tokio::test]
async fn an_upgrade_at_rest_is_not_written() -> Result<()> {
    let s = Scenario::of(&TestHub::shared().await?, 5, |number, cluster| match number {
        1 => cluster.without_claims().label("clusterID", "malformed"),
        2 => cluster.claim(testenv::fleet::PRODUCT_CLAIM, "ROSA"),
        _ => cluster,
    })
    .await?;
    s.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.agent(3).degraded(PreAction).await?;
    let players = s.play(&[4, 5]);
    let at_rest = |seen: &e2e::Seen| seen.stalled("ClustersFailed") && seen.clusters().complete == 2;
    s.until("at rest", at_rest).await?;
    for (number, phase) in [
        (1, Phase::Blocked),
        (2, Phase::Blocked),
        (3, Phase::PreActionDegraded),
        (4, Phase::Complete),
        (5, Phase::Complete),
    ] {
        s.up()
            .row_until(s.c(number), "its phase", |row| row.phase == phase)
            .await?;
    }
    s.gone(4, Platform).await?;
    s.gone(5, Platform).await?;
    drop(players);
    let clock = Scenario::new(1).await?;
    clock.create(json!({"paused": true})).await?;
    clock.settle().await?;
    let versions = || {
        s.test_hub().view().look(|known| {
            let all = [Kind::Upgrade, Kind::Report].map(|kind| {
                let objects = known.in_namespace(kind, s.id());
                objects
                    .map(|object| object["metadata"]["resourceVersion"].to_string())
                    .collect::<Vec<_>>()
            });
            all.concat()
        })
    };
    let before = versions();
    clock.settle().await?;
    clock.settle().await?;
    assert_eq!(versions(), before, "{}", s.dump());
    Ok(())
}
