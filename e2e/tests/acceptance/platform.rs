//! The platform work, its feedback, its clock.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use api::names::Step::{Operators, Platform};
use api::names::{ANNOTATION_STARTED_AT, LABEL_MCU_UID, LABEL_STEP};
use api::report::Phase;
use api::time::to_rfc3339;
use chrono::{TimeDelta, Utc};
use e2e::{Scenario, TestHub, sample};
use serde_json::{Value, json};
use testenv::fleet;

/// How late the controller may act on a deadline. A machine that is shared may be slow, so this only tells a deadline that was
/// missed.
const MAX_LATE: TimeDelta = TimeDelta::seconds(30);

fn feedback_names(work: &Value) -> BTreeSet<String> {
    let rules = work["spec"]["manifestConfigs"][0]["feedbackRules"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    rules
        .iter()
        .flat_map(|rule| rule["jsonPaths"].as_array().cloned().unwrap_or_default())
        .filter_map(|path| path["name"].as_str().map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn the_platform_work_carries_clusterversion_and_binding_and_orphans_clusterversion() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    let work = s.work(1, Platform).await?;
    let metadata = &work.raw["metadata"];
    assert_eq!(metadata["name"], format!("{}-cluster-upgrade", s.c(1)));
    assert_eq!(metadata["namespace"], s.c(1));
    assert_eq!(work.label(LABEL_STEP), "cluster-upgrade");
    assert_eq!(work.label(LABEL_MCU_UID), s.up().now()?.raw["metadata"]["uid"]);
    let [version, binding] = work.manifests() else {
        anyhow::bail!("two manifests: {}", work.raw)
    };
    assert_eq!(version["kind"], "ClusterVersion");
    assert_eq!(
        version["spec"],
        json!({"clusterID": fleet::cluster_id(s.c(1)), "channel": "stable-4.12",
            "desiredUpdate": {"force": false, "image": "", "version": "4.12.0"}})
    );
    assert_eq!(
        (binding["kind"].as_str(), binding["metadata"]["name"].as_str()),
        (Some("ClusterRoleBinding"), Some("admin-ocm"))
    );
    assert_eq!(binding["roleRef"]["name"], "cluster-admin");
    assert_eq!(
        binding["subjects"],
        json!([{"kind": "ServiceAccount", "name": "klusterlet-work-sa", "namespace": "open-cluster-management-agent"}])
    );
    let delete = &work.raw["spec"]["deleteOption"];
    assert_eq!(delete["propagationPolicy"], "SelectivelyOrphan");
    assert_eq!(
        delete["selectivelyOrphans"]["orphaningRules"][0],
        json!({"group": "config.openshift.io", "resource": "clusterversions", "name": "version", "namespace": ""})
    );
    let config = &work.raw["spec"]["manifestConfigs"][0];
    assert_eq!(config["updateStrategy"]["type"], "ServerSideApply");
    assert_eq!(config["updateStrategy"]["serverSideApply"]["force"], true);
    assert_eq!(
        config["updateStrategy"]["serverSideApply"]["fieldManager"],
        "work-agent-mcu"
    );
    Ok(())
}

#[tokio::test]
async fn the_platform_work_asks_for_the_feedback_of_clusterversion() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    let work = s.work(1, Platform).await?;
    let names = feedback_names(&work.raw);
    for name in ["version", "state", "verified", "message"] {
        assert!(names.contains(name), "{name} in {names:?}");
    }
    let identifier = &work.raw["spec"]["manifestConfigs"][0]["resourceIdentifier"];
    assert_eq!(
        [&identifier["group"], &identifier["resource"], &identifier["name"]],
        ["config.openshift.io", "clusterversions", "version"]
    );
    Ok(())
}

#[tokio::test]
async fn image_and_upstream_are_written_when_set_and_only_then() -> Result<()> {
    let s = Scenario::new(2).await?;
    let image = "quay.io/openshift-release-dev/ocp-release@sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let one = |number| json!({"clusterSelector": sample::selector(s.id(), &s.some(&[number]))});
    let mut with = one(1);
    sample::join(
        &mut with,
        &json!({"clusterVersion": {"image": image, "upstream": "https://updates.example.com/graph"}}),
    );
    let mut without = one(2);
    sample::join(
        &mut without,
        &json!({"clusterVersion": {"image": "", "upstream": ""}}),
    );
    s.upgrade("with").create(with).await?;
    s.upgrade("without").create(without).await?;
    let spec = s.work(1, Platform).await?.manifests()[0]["spec"].clone();
    assert_eq!(spec["upstream"], "https://updates.example.com/graph");
    assert_eq!(spec["desiredUpdate"]["image"], image);
    let spec = s.work(2, Platform).await?.manifests()[0]["spec"].clone();
    assert!(spec.get("upstream").is_none(), "{spec}");
    assert_eq!(spec["desiredUpdate"]["image"], "");
    Ok(())
}

#[tokio::test]
async fn the_cluster_id_comes_from_claim_or_label() -> Result<()> {
    let ids = [
        "11111111-2222-4333-8444-555555555555",
        "66666666-7777-4888-8999-000000000000",
    ];
    let s = Scenario::of(&TestHub::shared().await?, 2, |number, cluster| match number {
        1 => cluster.without_claims().claim(fleet::CLUSTER_ID_CLAIM, ids[0]),
        _ => cluster.without_claims().label("clusterID", ids[1]),
    })
    .await?;
    s.create(json!({})).await?;
    for (number, id) in [(1, ids[0]), (2, ids[1])] {
        assert_eq!(
            s.work(number, Platform).await?.manifests()[0]["spec"]["clusterID"],
            id
        );
    }
    Ok(())
}

#[tokio::test]
async fn without_a_cluster_id_it_is_left_out_and_a_malformed_one_blocks_until_it_is_fixed() -> Result<()> {
    let s = Scenario::of(&TestHub::shared().await?, 3, |number, cluster| match number {
        1 => cluster.without_claims(),
        2 => cluster.without_claims().label("clusterID", "none-of-that"),
        _ => cluster,
    })
    .await?;
    let strategy = json!({"maxConcurrency": 1});
    s.create(json!({"upgradeStrategy": strategy, "ocpOperators": sample::operators(&["gitops"])}))
        .await?;
    let spec = s.work(1, Platform).await?.manifests()[0]["spec"].clone();
    assert!(spec.get("clusterID").is_none(), "{spec}");
    let played = s.play(&[1, 2, 3]);
    let seen = s
        .until("the others are done", |seen| seen.clusters().complete == 2)
        .await?;
    assert_eq!(seen.clusters().pending, 1);
    let note = seen.waiting(s.c(2)).context("the blocked cluster is listed")?;
    assert_eq!(
        (note.phase, note.reason.as_str()),
        (Phase::Blocked, "InvalidClusterID")
    );
    assert_eq!(s.created(2, Platform) + s.created(2, Operators), 0);
    let id = "11111111-2222-4333-8444-555555555555";
    fleet::set_labels(s.client(), s.c(2), &[("clusterID", Some(id))]).await?;
    s.complete().await?;
    drop(played);
    Ok(())
}

/// The four tests that follow show each of these states by itself.
#[tokio::test]
async fn a_cluster_is_initialized_then_partial_then_complete_as_its_feedback_says() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    s.agent(1).available(Platform).await?;
    let seen = s
        .until("initialized", |seen| seen.clusters().initialized == 1)
        .await?;
    assert_eq!(seen.clusters().partial_upgrade, 0);
    assert!(seen.is_not("InProgress") && seen.is("Applied"));

    s.agent(1).feedback("4.11.9", "Completed").await?;
    let seen = s.settle().await?;
    assert_eq!((seen.clusters().initialized, seen.clusters().complete), (1, 0));

    s.agent(1).partial().await?;
    let seen = s
        .until("partial", |seen| seen.clusters().partial_upgrade == 1)
        .await?;
    assert!(seen.is("InProgress") && seen.is("Reconciling") && seen.is_not("Complete"));

    s.agent(1).completed().await?;
    let seen = s.complete().await?;
    assert_eq!(seen.clusters().complete, 1);
    assert!(seen.is_not("InProgress") && seen.is_not("Failed") && seen.is("Ready") && seen.is("Applied"));
    s.gone(1, Platform).await
}

#[tokio::test]
async fn a_cluster_without_feedback_is_initialized_and_not_in_progress() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    s.agent(1).available(Platform).await?;
    let seen = s
        .until("initialized", |seen| seen.clusters().initialized == 1)
        .await?;
    assert_eq!(seen.clusters().partial_upgrade, 0);
    assert!(seen.is_not("InProgress"));
    s.up()
        .row_until(s.c(1), "Initialized", |row| row.phase == Phase::Initialized)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_completed_older_version_is_not_completion() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    s.agent(1).feedback("4.11.0", "Completed").await?;
    s.up()
        .row_until(s.c(1), "the old version is known", |row| {
            row.from_version == "4.11.0"
        })
        .await?;
    let seen = s.settle().await?;
    assert_eq!((seen.clusters().initialized, seen.clusters().complete), (1, 0));
    assert!(s.has(1, Platform));
    Ok(())
}

#[tokio::test]
async fn a_partial_target_is_in_progress() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({})).await?;
    s.agent(1).partial().await?;
    let seen = s
        .until("partial", |seen| seen.clusters().partial_upgrade == 1)
        .await?;
    assert!(seen.is("InProgress"));
    assert_eq!(seen.reason("InProgress"), "ManagedClustersUpgradeInProgress");
    Ok(())
}

#[tokio::test]
async fn all_clusters_completed_is_complete() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({})).await?;
    s.agent(1).partial().await?;
    s.agent(1).completed().await?;
    let seen = s
        .until("one complete", |seen| seen.clusters().complete == 1)
        .await?;
    assert!(seen.is_not("Complete"));
    s.agent(2).partial().await?;
    s.agent(2).completed().await?;
    let seen = s.complete().await?;
    assert_eq!(seen.clusters().complete, 2);
    assert!(seen.is_not("InProgress") && !seen.is("Failed"));
    Ok(())
}

#[tokio::test]
async fn a_cluster_at_the_target_is_complete_by_its_first_feedback() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    s.agent(1).completed().await?;
    s.complete().await?;
    assert!(
        s.up()
            .history()
            .iter()
            .all(|seen| seen.clusters().partial_upgrade == 0)
    );
    assert_eq!(
        s.created(1, Platform),
        1,
        "the work is created even so: the channel must be applied"
    );
    Ok(())
}

#[tokio::test]
async fn feedback_of_wrong_types_and_unknown_names_harms_nobody() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.create(json!({})).await?;
    let agent = s.agent(1);
    agent
        .values(
            Platform,
            &[
                ("version", json!(7)),
                ("state", json!(true)),
                ("nonsense", json!({"a": [1]})),
            ],
        )
        .await?;
    let odd = json!({"conditions": [], "resourceStatus": {"manifests": [
        {"resourceMeta": {"ordinal": 99, "kind": "ClusterVersion"}, "conditions": [],
         "statusFeedback": {"values": [
            {"name": "version", "fieldValue": {"type": "JsonRaw", "jsonRaw": "["}},
            {"name": "state", "fieldValue": {"type": "Integer", "integer": 5}}]}}]}});
    s.agent(2).raw_status(Platform, &odd).await?;
    s.agent(3).completed().await?;
    let seen = s
        .until("the third is done", |seen| seen.clusters().complete == 1)
        .await?;
    assert_eq!(seen.clusters().initialized, 3);
    assert_eq!(seen.clusters().failed, 0);
    for number in [1, 2] {
        s.agent(number).completed().await?;
    }
    s.complete().await?;
    Ok(())
}

/// The recorded time of the failure is not before the deadline.
#[tokio::test]
async fn a_silent_cluster_fails_at_its_deadline_and_gives_its_slot_to_the_next() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "5s", "maxConcurrency": 1}}))
        .await?;
    let work = s.work(1, Platform).await?;
    let started = work.started().context("the work bears its start")?;
    s.work(2, Platform).await?;
    let seen = s
        .until("the first failed", |seen| seen.clusters().failed == 1)
        .await?;
    assert!(
        seen.is("Failed") && seen.message("Failed").contains('1'),
        "{}",
        seen.message("Failed")
    );
    assert_eq!(
        seen.failed(s.c(1)).context("it is listed")?.reason,
        "ClusterUpgradeTimeout"
    );
    let row = s
        .up()
        .row_until(s.c(1), "Failed", |row| row.phase == Phase::Failed)
        .await?;
    let late = row.since - (started + TimeDelta::seconds(5));
    assert!(late >= TimeDelta::zero() && late < MAX_LATE, "{late} late");
    assert!(
        s.has(1, Platform),
        "a failed cluster keeps its work: nothing is deleted mid-upgrade"
    );
    Ok(())
}

/// One write of the work brings both the completion and a start long ago.
#[tokio::test]
async fn completion_seen_together_with_the_deadline_wins() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"upgradeStrategy": {"clusterUpgradeTimeout": "1h"}}))
        .await?;
    s.first_is_partial().await?;
    // The status goes first; the plan that sees the old start sees the completion too.
    s.agent(1).completed().await?;
    let long_ago = to_rfc3339(Utc::now() - TimeDelta::hours(2));
    let change = json!({"metadata": {"annotations": {ANNOTATION_STARTED_AT: long_ago}}});
    // The work may be gone already, which is the same success.
    let _ = s.patch_as_controller(s.c(1), Platform, &change).await;
    s.complete().await?;
    assert!(s.up().history().iter().all(|seen| seen.clusters().failed == 0));
    Ok(())
}

/// The staleness rule: feedback of an earlier generation of the work or of ClusterVersion does not count.
#[tokio::test]
async fn stale_feedback_is_waited_out() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    let stale = [
        ("version", json!("4.12.0")),
        ("state", json!("Completed")),
        ("desiredVersion", json!("4.11.0")),
        ("generation", json!(5)),
        ("observedGeneration", json!(4)),
    ];
    s.agent(1).values(Platform, &stale).await?;
    assert_eq!(s.settle().await?.clusters().complete, 0);
    let fresh = [
        ("version", json!("4.12.0")),
        ("state", json!("Completed")),
        ("desiredVersion", json!("4.12.0")),
        ("generation", json!(5)),
        ("observedGeneration", json!(5)),
    ];
    s.agent(1).values(Platform, &fresh).await?;
    s.complete().await?;
    Ok(())
}

/// With an image alone, the image is the target; the history's version may still be empty.
#[tokio::test]
async fn an_upgrade_by_image_is_judged_by_the_image() -> Result<()> {
    let s = Scenario::new(1).await?;
    let digest = |c: char| format!("quay.io/ocp@sha256:{}", c.to_string().repeat(64));
    s.create(json!({"clusterVersion": {"version": null, "image": digest('a')}}))
        .await?;
    s.agent(1)
        .values(
            Platform,
            &[("image", json!(digest('b'))), ("state", json!("Completed"))],
        )
        .await?;
    assert_eq!(s.settle().await?.clusters().complete, 0);
    s.agent(1)
        .values(
            Platform,
            &[
                ("image", json!(digest('a'))),
                ("state", json!("Completed")),
                ("version", json!("")),
            ],
        )
        .await?;
    s.complete().await?;
    Ok(())
}
