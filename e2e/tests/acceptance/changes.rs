//! Membership and spec change while the upgrade runs.

use anyhow::{Context as _, Result};
use api::names::Step::{Operators, Platform, PostAction, PreAction};
use api::names::{ANNOTATION_REVISION, ANNOTATION_STARTED_AT};
use api::report::Phase;
use e2e::{Scenario, sample};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use testenv::{ClusterSpec, fleet};

/// All clusters by a placement, so that one can leave it.
async fn placed(s: &Scenario, change: Value) -> Result<()> {
    let all: Vec<usize> = (1..=s.names().len()).collect();
    s.decide("fleet", &all).await?;
    let mut spec = json!({"clusterSelector": null, "placement": [{"name": "fleet"}]});
    sample::join(&mut spec, &change);
    s.create(spec).await
}

#[tokio::test]
async fn a_partial_cluster_that_leaves_goes_through_all_its_steps_and_counts() -> Result<()> {
    let s = Scenario::new(2).await?;
    placed(
        &s,
        json!({"ocpOperators": {"approveAllUpgrades": true}, "postUpgradeAction": sample::action("check")}),
    )
    .await?;
    s.first_is_partial().await?;
    s.decide("fleet", &[2]).await?;
    s.up()
        .row_until(s.c(1), "it left", |row| row.left_selection)
        .await?;
    s.agent(1).completed().await?;
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.work(1, PostAction).await?;
    s.agent(1).available(PostAction).await?;
    let seen = s
        .until("it is complete", |seen| seen.clusters().complete == 1)
        .await?;
    assert_eq!(seen.clusters().total, 2, "still counted");
    let players = s.play(&[2]);
    s.complete().await?;
    drop(players);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_leaves_before_its_start_is_dropped() -> Result<()> {
    let s = Scenario::new(3).await?;
    placed(&s, json!({"upgradeStrategy": {"maxConcurrency": 1}})).await?;
    s.until("three", |seen| seen.clusters().total == 3).await?;
    s.decide("fleet", &[1, 3]).await?;
    let seen = s.until("two", |seen| seen.clusters().total == 2).await?;
    assert_eq!(seen.clusters().pending, 1);
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    assert_eq!(s.created(2, Platform), 0);
    s.up().row_gone(s.c(2)).await
}

/// Decisions are rewritten non-atomically: a cluster that is back within seconds never left.
#[tokio::test]
async fn a_cluster_that_is_missing_for_a_moment_is_not_dropped() -> Result<()> {
    let s = Scenario::new(2).await?;
    placed(&s, json!({"preUpgradeAction": sample::action("backup")})).await?;
    s.work(1, PreAction).await?;
    s.decide("fleet", &[2]).await?;
    s.settle().await?;
    s.decide("fleet", &[1, 2]).await?;
    s.agent(1).available(PreAction).await?;
    s.work(1, Platform).await?;
    assert_eq!(s.created(1, PreAction), 1);
    assert!(
        s.up()
            .history()
            .iter()
            .skip_while(|seen| seen.clusters().total < 2)
            .all(|seen| seen.clusters().total == 2)
    );
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_leaves_in_its_pre_action_loses_it() -> Result<()> {
    let s = Scenario::new(2).await?;
    placed(&s, json!({"preUpgradeAction": sample::action("backup")})).await?;
    s.work(1, PreAction).await?;
    s.decide("fleet", &[2]).await?;
    s.gone(1, PreAction).await?;
    let seen = s.until("dropped", |seen| seen.clusters().total == 1).await?;
    assert_eq!(seen.clusters().pending, 1);
    assert_eq!(s.created(1, Platform), 0);
    Ok(())
}

#[tokio::test]
async fn a_cluster_that_joins_is_upgraded_and_complete_is_false_until_then() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(
        json!({"clusterSelector": {"matchExpressions": null}, "upgradeStrategy": {"maxConcurrency": 1}}),
    )
    .await?;
    s.work(1, Platform).await?;
    let add = async |name: &str| {
        let cluster = ClusterSpec::new(name).in_set(s.id());
        fleet::create_cluster(s.client(), &cluster).await
    };
    let (second, third) = (format!("{}-x2", s.id()), format!("{}-x3", s.id()));
    add(&second).await?;
    let seen = s.until("two", |seen| seen.clusters().total == 2).await?;
    assert_eq!(seen.clusters().pending, 1);
    let players = e2e::Players::of(&s, vec![s.c(1).to_owned(), second.clone()]);
    s.complete().await?;
    add(&third).await?;
    s.until("complete no more", |seen| {
        seen.is_not("Complete") && seen.clusters().total == 3
    })
    .await?;
    let joined = e2e::Players::of(&s, vec![third.clone()]);
    let seen = s.complete().await?;
    assert_eq!(seen.clusters().complete, 3);
    drop((players, joined));
    Ok(())
}

#[tokio::test]
async fn when_the_placement_is_deleted_clusters_in_flight_finish() -> Result<()> {
    let s = Scenario::new(3).await?;
    placed(&s, json!({"upgradeStrategy": {"maxConcurrency": 1}})).await?;
    s.first_is_partial().await?;
    let kind = |name| {
        ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "cluster.open-cluster-management.io",
            "v1beta1",
            name,
        ))
    };
    let placements: Api<DynamicObject> = Api::namespaced_with(s.client().clone(), s.id(), &kind("Placement"));
    placements.delete("fleet", &DeleteParams::default()).await?;
    let decisions: Api<DynamicObject> =
        Api::namespaced_with(s.client().clone(), s.id(), &kind("PlacementDecision"));
    decisions
        .delete_collection(&DeleteParams::default(), &kube::api::ListParams::default())
        .await?;
    let seen = s.until("one is left", |seen| seen.clusters().total == 1).await?;
    assert_eq!(seen.clusters().partial_upgrade, 1);
    s.agent(1).completed().await?;
    let seen = s
        .until("it is done", |seen| seen.clusters().complete == 1)
        .await?;
    assert!(seen.is_not("Selected"));
    assert_eq!(s.created(2, Platform) + s.created(3, Platform), 0);
    Ok(())
}

#[tokio::test]
async fn a_new_version_reaches_every_cluster_whatever_its_phase() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 3}}))
        .await?;
    s.agent(1).completed().await?;
    s.until("the first is done", |seen| seen.clusters().complete == 1)
        .await?;
    s.agent(2).partial().await?;
    s.agent(3).feedback("4.11.0", "Completed").await?;
    s.work(4, Platform).await?;
    s.until("one is partial", |seen| seen.clusters().partial_upgrade == 1)
        .await?;
    s.edit(json!({"upgradeStrategy": {"maxConcurrency": 2}})).await?;
    s.until("two slots", |seen| {
        seen.status.effective_max_concurrency == Some(2)
    })
    .await?;
    let old = s.work(3, Platform).await?;

    s.edit(json!({"clusterVersion": {"version": "4.12.1"}})).await?;
    // Initialized: the same work, asking for the new version, with a fresh clock and the new revision.
    let new = s
        .work_until(3, Platform, "re-pointed", |work| work.target() == "4.12.1")
        .await?;
    assert_eq!(new.uid(), old.uid());
    assert_ne!(
        new.annotation(ANNOTATION_REVISION),
        old.annotation(ANNOTATION_REVISION)
    );
    assert_ne!(
        new.annotation(ANNOTATION_STARTED_AT),
        old.annotation(ANNOTATION_STARTED_AT)
    );
    // Partial: it finishes what it began.
    s.settle().await?;
    assert_eq!(s.work(2, Platform).await?.target(), "4.12.0");
    // Done: back to the queue.
    let seen = s
        .until("the first waits again", |seen| seen.clusters().complete == 0)
        .await?;
    assert!(seen.clusters().pending >= 1, "{:?}", seen.clusters());
    s.agent(2).completed().await?;
    let players = s.play_all();
    s.work_until(2, Platform, "queued again and started", |work| {
        work.target() == "4.12.1"
    })
    .await?;
    let seen = s.complete().await?;
    drop(players);
    assert_eq!(
        (seen.clusters().complete, seen.status.observed_generation),
        (4, Some(seen.generation()))
    );
    let rows = s.up().rows();
    assert!(
        s.names()
            .iter()
            .all(|name| rows.get(name).is_some_and(|row| row.to_version == "4.12.1"))
    );
    Ok(())
}

#[tokio::test]
async fn operators_edited_before_their_job_are_in_its_list() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"ocpOperators": sample::operators(&["first"])}))
        .await?;
    s.first_is_partial().await?;
    s.edit(json!({"ocpOperators": sample::operators(&["second"])}))
        .await?;
    s.settle().await?;
    s.agent(1).completed().await?;
    let work = s.work(1, Operators).await?;
    assert_eq!(
        work.approver_env("INCLUDELIST"),
        Some("second,openshift-operators")
    );
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.complete().await?;
    assert_eq!((s.created(1, Platform), s.created(1, Operators)), (1, 1));
    Ok(())
}

/// The Job's template is immutable, so the work is deleted and created anew.
#[tokio::test]
async fn operators_edited_while_their_job_runs_get_a_new_job() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"ocpOperators": sample::operators(&["first"])}))
        .await?;
    s.agent(1).completed().await?;
    s.agent(1).hold(Operators).await?;
    s.agent(1).job(json!({"active": 1})).await?;
    let old = s.work(1, Operators).await?;
    s.edit(json!({"ocpOperators": sample::operators(&["second"])}))
        .await?;
    let dying = s
        .work_until(1, Operators, "deleted", e2e::Work::terminating)
        .await?;
    assert_eq!(dying.uid(), old.uid());
    assert_eq!(
        dying.approver_env("INCLUDELIST"),
        Some("first,openshift-operators"),
        "never patched"
    );
    s.settle().await?;
    assert_eq!(s.created(1, Operators), 1, "awaited before it is created again");
    s.agent(1).release(Operators).await?;
    let new = s
        .work_until(1, Operators, "created again", |work| work.uid() != old.uid())
        .await?;
    assert_eq!(
        new.approver_env("INCLUDELIST"),
        Some("second,openshift-operators")
    );
    assert_eq!(new.generation(), 1);
    s.agent(1).job(json!({"succeeded": 1})).await?;
    s.complete().await?;
    assert_eq!(s.created(1, Platform), 1, "what was done is not done again");
    Ok(())
}

/// An edit taken back must not revive old works with their old clocks.
#[tokio::test]
async fn an_edit_taken_back_starts_afresh_and_completes() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.agent(1).available(Platform).await?;
    s.until("initialized", |seen| seen.clusters().initialized == 1)
        .await?;
    s.edit(json!({"clusterVersion": {"version": "4.12.5"}})).await?;
    let between = s
        .work_until(1, Platform, "re-pointed", |work| work.target() == "4.12.5")
        .await?;
    s.edit(json!({"clusterVersion": {"version": "4.12.0"}})).await?;
    let work = s
        .work_until(1, Platform, "pointed back", |work| work.target() == "4.12.0")
        .await?;
    let started = work.started().context("the work bears its start")?;
    assert!(Some(started) > between.started(), "with a clock of its own");
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    assert_eq!(s.created(1, Platform), 1);
    Ok(())
}

/// An invalid edit starts nothing and stops nothing, and taking it back is enough.
#[tokio::test]
async fn an_invalid_edit_lets_what_is_in_flight_end_and_starts_nothing_until_it_is_fixed() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.first_is_partial().await?;
    s.edit(json!({"postUpgradeAction": sample::action_with_a_manifest_twice("restore")}))
        .await?;
    s.until("invalid", |seen| seen.stalled("InvalidSpec")).await?;
    s.agent(1).completed().await?;
    let seen = s
        .until("the first is complete", |seen| seen.clusters().complete == 1)
        .await?;
    assert!(seen.stalled("InvalidSpec"));
    assert!(
        seen.waiting(s.c(2))
            .is_some_and(|note| note.reason == "InvalidSpec"),
        "{:?}",
        seen.waiting(s.c(2))
    );
    assert_eq!(s.created(2, Platform), 0);
    s.edit(json!({"postUpgradeAction": null})).await?;
    let players = s.play_all();
    s.complete().await?;
    drop(players);
    assert_eq!(s.created(1, Platform), 1, "what was done is not done again");
    Ok(())
}

/// A cluster that is deleted is dropped without a failure, and its slot is free.
#[tokio::test]
async fn a_cluster_deleted_mid_upgrade_is_dropped_without_failure() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.first_is_partial().await?;
    fleet::delete_cluster(s.client(), s.c(1)).await?;
    s.agent(2).completed().await?;
    let seen = s.complete().await?;
    assert_eq!((seen.clusters().total, seen.clusters().failed), (1, 0));
    s.up().row_gone(s.c(1)).await
}

/// Eligibility: an unavailable cluster waits without a slot and starts when its agent is back.
#[tokio::test]
async fn an_unavailable_cluster_waits_without_a_slot() -> Result<()> {
    let s = Scenario::new(2).await?;
    fleet::set_available(s.client(), s.c(1), "Unknown").await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.work(2, Platform).await?;
    let seen = s.settle().await?;
    let note = seen.waiting(s.c(1)).context("it is listed")?;
    assert_eq!(
        (note.phase, note.reason.as_str()),
        (Phase::Pending, "ClusterUnavailable")
    );
    assert_eq!(s.created(1, Platform), 0);
    s.agent(2).completed().await?;
    s.until("the second is done", |seen| seen.clusters().complete == 1)
        .await?;
    fleet::set_available(s.client(), s.c(1), "True").await?;
    s.agent(1).completed().await?;
    s.complete().await?;
    Ok(())
}

/// A namespace that is being deleted takes its cluster with it, as a deleted `ManagedCluster` does.
#[tokio::test]
async fn a_cluster_whose_namespace_is_deleted_is_dropped_without_failure() -> Result<()> {
    let s = Scenario::new(2).await?;
    s.create(json!({"ocpOperators": {"approveAllUpgrades": true}, "upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.first_is_partial().await?;
    // Add-ons with finalizers keep a cluster's namespace terminating for a while.
    let objects: Api<ConfigMap> = Api::namespaced(s.client().clone(), s.c(1));
    let kept = json!({"metadata": {"name": "kept", "finalizers": ["example.com/keep"]}});
    objects
        .create(&PostParams::default(), &serde_json::from_value(kept)?)
        .await?;
    let namespaces: Api<Namespace> = Api::all(s.client().clone());
    namespaces.delete(s.c(1), &DeleteParams::default()).await?;
    let players = s.play(&[2]);
    s.until("the second is done", |seen| seen.clusters().complete == 1)
        .await?;
    let seen = s
        .until("the first is dropped", |seen| seen.clusters().total == 1)
        .await?;
    drop(players);
    let released = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    objects.patch("kept", &PatchParams::default(), &released).await?;
    assert_eq!(seen.clusters().failed, 0);
    Ok(())
}
