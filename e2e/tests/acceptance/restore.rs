//! Upgrades that come back from a backup: with new UIDs, without statuses, works and reports.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use api::names::Step::{Platform, PreAction};
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, LABEL_MCU};
use api::report::Phase;
use e2e::view::Kind;
use e2e::{Scenario, Seen, sample};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

fn annotation<'a>(seen: &'a Seen, name: &str) -> &'a str {
    seen.raw["metadata"]["annotations"][name]
        .as_str()
        .unwrap_or_default()
}

/// An upgrade as a backup has it: without a status and without what the API server gives.
fn backed_up(seen: &Seen) -> Result<Value> {
    let mut object = sample::without_server_fields(&seen.raw);
    object.as_object_mut().context("an object")?.remove("status");
    Ok(object)
}

fn created(s: &Scenario) -> BTreeMap<(usize, &'static str), usize> {
    let steps = [PreAction, Platform];
    let of = |number: usize| steps.map(|step| ((number, step.as_str()), s.created(number, step)));
    [1, 2].into_iter().flat_map(of).collect()
}

/// Removes what a lost hub loses: the upgrades with their works and reports.
async fn lose(s: &Scenario, names: &[&str]) -> Result<()> {
    for name in names {
        s.upgrade(name).delete().await?;
        s.upgrade(name).gone().await?;
    }
    for number in [1, 2] {
        s.gone(number, PreAction).await?;
        s.gone(number, Platform).await?;
    }
    for name in names {
        let of_it = ListParams::default().labels(&format!("{LABEL_MCU}={name}"));
        s.api(Kind::Report, s.id())
            .delete_collection(&DeleteParams::default(), &of_it)
            .await?;
    }
    Ok(())
}

/// A backup restores the upgrades without their statuses, works and reports. A complete upgrade is shown as complete and does
/// not run again, others wait until somebody resumes them, and no cluster is downgraded.
#[tokio::test]
async fn after_a_restore_nothing_is_written_to_clusters_until_an_upgrade_is_resumed() -> Result<()> {
    let s = Scenario::new(2).await?;
    let (done, half) = (s.upgrade("done"), s.upgrade("half"));
    done.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    let players = s.play_all();
    let complete = done
        .until("complete, durably", |seen| {
            seen.is("Complete") && !annotation(seen, ANNOTATION_COMPLETED).is_empty()
        })
        .await?;
    drop(players);
    half.create(json!({"clusterVersion": {"version": "4.12.7"}, "paused": true}))
        .await?;
    let paused = half
        .until("paused", |seen| seen.reason("Ready") == "Paused")
        .await?;
    let mut backup = [backed_up(&complete)?, backed_up(&paused)?];
    backup[1]["spec"]["paused"] = json!(false);

    lose(&s, &["done", "half"]).await?;
    let client = s.test_hub().client().await?;
    testenv::fleet::set_claims(
        &client,
        s.c(2),
        &[(testenv::fleet::VERSION_CLAIM, Some("4.13.1"))],
    )
    .await?;
    let before = created(&s);
    for object in &backup {
        s.post(Kind::Upgrade, s.id(), object).await?;
    }

    let shown = done
        .until("complete before", |seen| {
            seen.reason("Complete") == "CompletedBefore"
        })
        .await?;
    assert!(shown.is("Ready") && shown.clusters().complete == 2);
    let held = half.until("held", |seen| seen.stalled("Restored")).await?;
    assert!(
        held.message("Stalled").contains("kubectl mcu resume half"),
        "{}",
        held.message("Stalled")
    );
    half.settle().await?;
    done.settle().await?;
    assert_eq!(created(&s), before, "{}", s.dump());

    // What `kubectl mcu resume half` writes.
    let uid = held.raw["metadata"]["uid"].clone();
    let patch = json!({"metadata": {"uid": uid, "annotations": {ANNOTATION_RESUME_RESTORED: uid}}});
    s.patch(Kind::Upgrade, s.id(), "half", &patch).await?;
    let work = s.work(1, Platform).await?;
    assert_eq!(work.target(), "4.12.7");
    let row = half
        .row_until(s.c(2), "blocked", |row| row.reason == "NewerThanTarget")
        .await?;
    assert_eq!(row.phase, Phase::Blocked);
    assert!(row.message.contains("4.13.1"), "{}", row.message);
    s.agent(1).feedback("4.12.7", "Completed").await?;
    half.until("all that may be is done", |seen| seen.stalled("ClustersBlocked"))
        .await?;
    assert_eq!(s.created(2, Platform), before[&(2, Platform.as_str())]);
    assert!(done.now()?.reason("Complete") == "CompletedBefore");
    Ok(())
}
