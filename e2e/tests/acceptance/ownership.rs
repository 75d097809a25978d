//! Ownership of works: adoption, foreign works, two upgrades on one cluster, works deleted by hand, deletion.

use anyhow::{Context as _, Result};
use api::names::Step::{Operators, Platform, PostAction, PreAction};
use api::names::{ANNOTATION_STARTED_AT, LABEL_MCU_UID, Step};
use api::report::Phase;
use e2e::view::Kind;
use e2e::{Scenario, sample};
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};

/// A work under one of our names that was there before the policy that keeps these names for the controller: only the
/// controller's account can still make one.
fn foreign(s: &Scenario, number: usize, step: Step, labels: &Value) -> Value {
    json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": step.work_name(s.c(number)), "namespace": s.c(number), "labels": labels},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": "default"}}]}},
    })
}

/// A foreign work is never overwritten, and when it is deleted the cluster starts (after a backoff from 30 s, or at once by
/// an event that concerns the cluster).
#[tokio::test]
async fn a_foreign_work_blocks_its_cluster_only_and_is_left_alone() -> Result<()> {
    let s = Scenario::new(2).await?;
    let theirs = s
        .post_as_controller(s.c(1), &foreign(&s, 1, Platform, &json!({})))
        .await?;
    s.create(json!({"upgradeStrategy": {"maxConcurrency": 1}}))
        .await?;
    s.agent(2).completed().await?;
    let seen = s.until("blocked", |seen| seen.stalled("ClustersBlocked")).await?;
    let note = seen.waiting(s.c(1)).context("it is listed")?;
    assert_eq!((note.phase, note.reason.as_str()), (Phase::Blocked, "Conflict"));
    let now = s.api(Kind::Work, s.c(1)).get(&Platform.work_name(s.c(1))).await?;
    assert_eq!(
        now.metadata.resource_version.as_deref(),
        theirs["metadata"]["resourceVersion"].as_str()
    );
    s.delete_work(1, Platform).await?;
    s.gone(1, Platform).await?;
    s.work_until(1, Platform, "ours, within the first back-off", |work| {
        !work.label(LABEL_MCU_UID).is_empty()
    })
    .await?;
    s.agent(1).completed().await?;
    s.complete().await?;
    Ok(())
}

/// A work with our UID and without a record is adopted. The crash tests show the same after a crash.
#[tokio::test]
async fn a_work_of_ours_that_is_already_there_is_adopted() -> Result<()> {
    let s = Scenario::new(1).await?;
    let model = s.upgrade("model");
    model.create(json!({})).await?;
    let mut work = sample::without_server_fields(&s.work(1, Platform).await?.raw);
    model.delete().await?;
    model.gone().await?;
    s.gone(1, Platform).await?;
    s.create(json!({"paused": true})).await?;
    s.until("paused", |seen| seen.reason("Ready") == "Paused").await?;
    let uid = s.up().now()?.raw["metadata"]["uid"].clone();
    let metadata = &mut work["metadata"];
    metadata["labels"][LABEL_MCU_UID] = uid;
    metadata["annotations"][api::names::ANNOTATION_OWNER] = json!(format!("{}/up", s.id()));
    let posted = s.post_as_controller(s.c(1), &work).await?;
    s.work_until(1, Platform, "posted", |work| {
        work.uid() == posted["metadata"]["uid"]
    })
    .await?;
    let created = s.created(1, Platform);
    s.edit(json!({"paused": false})).await?;
    s.until("initialized", |seen| seen.clusters().initialized == 1)
        .await?;
    s.agent(1).completed().await?;
    s.complete().await?;
    assert_eq!(
        s.created(1, Platform),
        created,
        "it was adopted, not created again"
    );
    Ok(())
}

/// A cluster belongs to one upgrade; the other waits and takes over when it is done.
#[tokio::test]
async fn two_upgrades_on_one_cluster_take_turns() -> Result<()> {
    let s = Scenario::new(2).await?;
    let (first, second) = (s.upgrade("first"), s.upgrade("second"));
    first
        .create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.work(1, PreAction).await?;
    s.work(2, PreAction).await?;
    second
        .create(json!({"clusterVersion": {"version": "4.12.7"}}))
        .await?;
    let seen = second
        .until("blocked", |seen| {
            seen.waiting(s.c(1)).is_some_and(|note| note.reason == "Conflict")
        })
        .await?;
    let note = seen.waiting(s.c(1)).context("it is listed")?;
    assert_eq!(note.phase, Phase::Blocked);
    assert!(note.message.contains("first"), "{}", note.message);
    assert_eq!((seen.in_flight(), s.created(1, Platform)), (0, 0));
    assert!(seen.is("Reconciling"), "it goes on by itself");
    for number in [1, 2] {
        s.agent(number).available(PreAction).await?;
        s.agent(number).completed().await?;
    }
    first.until("complete", |seen| seen.is("Complete")).await?;
    let uid = second.now()?.raw["metadata"]["uid"].clone();
    for number in [1, 2] {
        let work = s
            .work_until(number, Platform, "the second's", |work| {
                work.label(LABEL_MCU_UID) == uid
            })
            .await?;
        assert_eq!(work.target(), "4.12.7");
        s.agent(number).feedback("4.12.7", "Completed").await?;
    }
    second.until("complete", |seen| seen.is("Complete")).await?;
    first.sound()
}

/// If neither owns a work, the older upgrade goes first, even while it is paused. The newer one says so, and writes that
/// only once.
#[tokio::test]
async fn an_older_upgrade_that_is_paused_holds_its_clusters_quietly() -> Result<()> {
    let s = Scenario::new(1).await?;
    let (older, newer) = (s.upgrade("older"), s.upgrade("newer"));
    older.create(json!({"paused": true})).await?;
    let created = |seen: &e2e::Seen| seen.raw["metadata"]["creationTimestamp"].clone();
    let first = created(
        &older
            .until("paused", |seen| seen.reason("Ready") == "Paused")
            .await?,
    );
    // Creation times are whole seconds: create until one is younger.
    loop {
        // Its target differs, so the result of the older upgrade is not yet the newer one's, and its turn is visible.
        newer
            .create(json!({"clusterVersion": {"version": "4.12.8"}}))
            .await?;
        let second = created(&newer.until("seen", |_| true).await?);
        if second != first {
            break;
        }
        newer.delete().await?;
        newer.gone().await?;
        s.gone(1, Platform).await?;
    }
    let begun = s.created(1, Platform);
    let row = newer
        .row_until(s.c(1), "blocked", |row| row.reason == "Conflict")
        .await?;
    assert!(row.message.contains("older"), "{}", row.message);
    newer.settle().await?;
    older.settle().await?;
    newer.settle().await?;
    assert_eq!(newer.rows()[s.c(1)].since, row.since, "{}", s.dump());
    assert_eq!(s.created(1, Platform), begun);
    older.edit(json!({"paused": false})).await?;
    s.agent(1).completed().await?;
    older.until("complete", |seen| seen.is("Complete")).await?;
    newer.until("its turn", |seen| seen.in_flight() == 1).await?;
    Ok(())
}

/// Last month's failed upgrade does not block this month's. Its platform work is taken over in place.
#[tokio::test]
async fn kept_works_of_an_older_failed_upgrade_give_way() -> Result<()> {
    let s = Scenario::new(1).await?;
    let (old, new) = (s.upgrade("old"), s.upgrade("new"));
    old.create(json!({"preUpgradeAction": sample::action("backup"), "upgradeStrategy": {"clusterUpgradeTimeout": "4s"}}))
        .await?;
    s.agent(1).available(PreAction).await?;
    s.agent(1).available(Platform).await?;
    old.until("failed", |seen| seen.clusters().failed == 1).await?;
    let kept = s.work(1, Platform).await?;
    new.create(json!({"clusterVersion": {"version": "4.12.8"}}))
        .await?;
    let uid = new.until("seen", |_| true).await?.raw["metadata"]["uid"].clone();
    let taken = s
        .work_until(1, Platform, "taken over", |work| work.label(LABEL_MCU_UID) == uid)
        .await?;
    assert_eq!(taken.uid(), kept.uid(), "in place, never deleted");
    assert_eq!(taken.target(), "4.12.8");
    assert!(taken.started() > kept.started(), "with a clock of its own");
    s.gone(1, PreAction).await?;
    s.agent(1).feedback("4.12.8", "Completed").await?;
    new.until("complete", |seen| seen.is("Complete")).await?;
    let row = old
        .row_until(s.c(1), "its row stays as the record", |_| true)
        .await?;
    assert_eq!(row.phase, Phase::Failed);
    old.sound()
}

/// `PreActionDegraded` is not terminal: the newer upgrade names who holds the cluster and what would help.
#[tokio::test]
async fn a_degraded_pre_action_of_another_upgrade_holds_the_cluster() -> Result<()> {
    let s = Scenario::new(1).await?;
    let (old, new) = (s.upgrade("old"), s.upgrade("new"));
    old.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.agent(1).degraded(PreAction).await?;
    old.until("degraded", |seen| seen.pre().degraded == 1).await?;
    new.create(json!({})).await?;
    let seen = new
        .until("stalled", |seen| seen.stalled("ClustersBlocked"))
        .await?;
    let note = seen.waiting(s.c(1)).context("it is listed")?;
    assert!(
        note.reason == "Conflict" && note.message.contains("old"),
        "{}",
        note.message
    );
    old.delete().await?;
    old.gone().await?;
    s.work(1, Platform).await?;
    Ok(())
}

/// The deleted work of an unfinished step is created again with its clock, that of a finished step never.
#[tokio::test]
async fn a_work_deleted_by_hand_comes_back_with_its_clock_unless_its_step_is_done() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({"preUpgradeAction": sample::action("backup")}))
        .await?;
    s.agent(1).available(PreAction).await?;
    let first = s.work(1, Platform).await?;
    s.first_is_partial().await?;
    s.delete_work(1, PreAction).await?;
    s.delete_work(1, Platform).await?;
    let second = s
        .work_until(1, Platform, "created again", |work| work.uid() != first.uid())
        .await?;
    assert_eq!(
        second.annotation(ANNOTATION_STARTED_AT),
        first.annotation(ANNOTATION_STARTED_AT)
    );
    s.agent(1).completed().await?;
    s.complete().await?;
    assert_eq!(
        (s.created(1, PreAction), s.created(1, Platform)),
        (1, 2),
        "a backup does not run twice"
    );
    Ok(())
}

/// Deletion of the upgrade: own works of all four kinds go, foreign ones stay, held ones are not waited for.
#[tokio::test]
async fn a_deleted_upgrade_takes_its_works_with_it_and_waits_for_no_dead_agent() -> Result<()> {
    let s = Scenario::new(4).await?;
    s.create(json!({
        "preUpgradeAction": sample::action("backup"), "ocpOperators": {"approveAllUpgrades": true},
        "postUpgradeAction": sample::action("check"),
    }))
    .await?;
    let foreign = foreign(&s, 1, PostAction, &json!({"app": "theirs"}));
    s.post_as_controller(s.c(1), &foreign).await?;
    for number in [2, 3, 4] {
        s.agent(number).available(PreAction).await?;
    }
    for number in [3, 4] {
        s.agent(number).completed().await?;
    }
    s.agent(4).job(json!({"succeeded": 1})).await?;
    s.work(1, PreAction).await?;
    s.work(2, Platform).await?;
    s.work(3, Operators).await?;
    s.work(4, PostAction).await?;
    s.agent(2).hold(Platform).await?;
    s.up().delete().await?;
    s.up().gone().await?;
    for (number, step) in [
        (1, PreAction),
        (2, PreAction),
        (3, Operators),
        (3, PreAction),
        (4, PostAction),
    ] {
        s.gone(number, step).await?;
    }
    s.work_until(2, Platform, "held by its agent", e2e::Work::terminating)
        .await?;
    assert!(s.has(1, PostAction), "a foreign work is not ours to delete");
    s.agent(2).release(Platform).await?;
    s.gone(2, Platform).await
}

#[tokio::test]
async fn objects_that_no_upgrade_concerns_are_not_written() -> Result<()> {
    let s = Scenario::new(3).await?;
    s.post_as_controller(s.c(3), &foreign(&s, 3, Platform, &json!({"app": "theirs"})))
        .await?;
    s.decide("theirs", &[3]).await?;
    let versions = async || -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (kind, plural) in [
            ("ManagedCluster", "v1"),
            ("ManagedClusterSet", "v1beta2"),
            ("Placement", "v1beta1"),
            ("PlacementDecision", "v1beta1"),
            ("ManagedClusterSetBinding", "v1beta2"),
        ] {
            let gvk = kube::core::GroupVersionKind::gvk("cluster.open-cluster-management.io", plural, kind);
            let resource = kube::api::ApiResource::from_gvk(&gvk);
            let api: kube::Api<kube::api::DynamicObject> = kube::Api::all_with(s.client().clone(), &resource);
            let found = api
                .list(&ListParams::default())
                .await?
                .items
                .into_iter()
                .map(|object| object.metadata);
            all.extend(
                found
                    .filter(|meta| {
                        format!("{:?}{:?}", meta.namespace, meta.name).contains(&format!("\"{}", s.id()))
                    })
                    .map(|meta| format!("{kind} {:?} {:?}", meta.name, meta.resource_version)),
            );
        }
        let works = s
            .api(Kind::Work, s.c(3))
            .list(&ListParams::default())
            .await?
            .items;
        all.extend(
            works
                .into_iter()
                .map(|work| format!("work {:?}", work.metadata.resource_version)),
        );
        Ok(all)
    };
    let before = versions().await?;
    assert!(before.len() >= 7, "{before:?}");
    let players = s.play(&[1, 2]);
    s.create(json!({"clusterSelector": sample::selector(s.id(), &s.some(&[1, 2]))}))
        .await?;
    s.complete().await?;
    drop(players);
    s.up().delete().await?;
    s.up().gone().await?;
    assert_eq!(versions().await?, before);
    Ok(())
}

/// An upgrade that was deleted without our finalizer on it leaves nothing behind either.
#[tokio::test]
async fn the_finalizer_is_there_before_the_first_work() -> Result<()> {
    let s = Scenario::new(1).await?;
    s.create(json!({})).await?;
    s.work(1, Platform).await?;
    let with_work = s.api(Kind::Upgrade, s.id()).get("up").await?;
    assert_eq!(
        with_work.metadata.finalizers.unwrap_or_default(),
        [api::names::FINALIZER]
    );
    s.api(Kind::Upgrade, s.id())
        .delete("up", &DeleteParams::default())
        .await?;
    s.up().gone().await?;
    s.gone(1, Platform).await
}
