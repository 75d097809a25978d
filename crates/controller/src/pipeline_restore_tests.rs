//! Upgrades that come back from a backup: with a new UID, without a status, and without what the backup does not take.

use api::conditions::{COMPLETE, READY};
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, ANNOTATION_UPGRADE_UID};
use api::views::Report;

use super::*;

/// The upgrade as it comes back: name `up`, with the annotations it had.
fn restored(uid: &'static str, spec: Value, notes: &[(&str, &str)]) -> Upgrade {
    let given = Given {
        name: "up",
        spec,
        ..upgrade(uid, &[])
    };
    let mut view = given.view();
    for (key, value) in notes {
        let annotations = view.metadata.annotations.get_or_insert_default();
        annotations.insert((*key).to_owned(), (*value).to_owned());
    }
    view
}

fn knows(desktop: &Desktop, view: Upgrade) {
    desktop.hall.with(|state| state.apply_upgrade(view));
}

fn status(desktop: &Desktop, uid: &str) -> ManagedClustersUpgradeStatus {
    desktop.hall.with(|state| state.desks[uid].status.previous())
}

fn shown<'a>(status: &'a ManagedClustersUpgradeStatus, type_: &str) -> (&'a str, &'a str) {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_).unwrap();
    (&found.status, &found.reason)
}

fn note(desktop: &Desktop, uid: &str, key: &str) -> Option<String> {
    desktop.hall.with(|state| {
        let annotations = state.desks[uid].view.metadata.annotations.clone()?;
        annotations.get(key).cloned()
    })
}

/// Changes an annotation as a user would.
fn annotate(desktop: &mut Desktop, uid: &str, key: &str, value: &str) {
    desktop.version += 1;
    let version = desktop.version;
    desktop.hall.with(|state| {
        let mut view = Upgrade::clone(&state.desks[uid].view);
        view.metadata.resource_version = Some(version.to_string());
        let annotations = view.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        state.apply_upgrade(view);
    });
}

/// A report of an upgrade `up` with this UID.
fn report(uid: &str) -> Report {
    serde_json::from_value(json!({
        "metadata": {"name": "up-report-1", "namespace": "ns", "resourceVersion": "5",
            "labels": {LABEL_MCU: "up", LABEL_MCU_UID: uid},
            "ownerReferences": [{"apiVersion": "cluster.open-cluster-management.io/v1beta1",
                "kind": "ManagedClustersUpgrade", "name": "up", "uid": uid}]},
        "rows": [],
    }))
    .unwrap()
}

/// Runs the upgrade `up` with UID `old` to its end; returns the annotation about that.
fn completed(spec: &Value) -> String {
    let mut desktop = desktop(&["c1"]);
    knows(&desktop, restored("old", spec.clone(), &[]));
    desktop.settle();
    let finished = done(&mut desktop, "c1", "old");
    desktop.tells(&Change::Applied(finished));
    desktop.look_at("old");
    assert_eq!(
        note(&desktop, "old", ANNOTATION_COMPLETED),
        None,
        "no record says so yet"
    );
    write_rows(&mut desktop, "old");
    desktop.settle();
    assert!(
        desktop
            .look_at("old")
            .iter()
            .all(|job| !matches!(job.effect, Effect::Annotate { .. })),
        "it is written once"
    );
    assert_eq!(
        note(&desktop, "old", ANNOTATION_UPGRADE_UID).as_deref(),
        Some("old")
    );
    note(&desktop, "old", ANNOTATION_COMPLETED).unwrap()
}

#[tokio::test]
async fn the_uid_is_noted_with_the_finalizer() {
    let mut desktop = desktop(&["c1"]);
    let mut view = restored("new", operators(&["c1"]), &[]);
    view.metadata.finalizers = None;
    knows(&desktop, view);
    assert_eq!(works(&desktop.settle()), ["new: create c1-operators-upgrade"]);
    assert_eq!(
        note(&desktop, "new", ANNOTATION_UPGRADE_UID).as_deref(),
        Some("new")
    );
}

#[tokio::test]
async fn a_restored_upgrade_writes_nothing_to_any_cluster_until_it_is_resumed() {
    let mut desktop = desktop(&["c1"]);
    knows(
        &desktop,
        restored("new", operators(&["c1"]), &[(ANNOTATION_UPGRADE_UID, "old")]),
    );
    assert!(works(&desktop.settle()).is_empty());
    let told = status(&desktop, "new");
    let (reason, message) = stalled(&told);
    assert_eq!(reason, "Restored");
    assert!(message.contains("kubectl mcu resume up -n ns"), "{message}");
    assert_eq!(shown(&told, READY), ("False", "Restored"));
    assert_eq!(told.state, Some(UpgradeState::Stalled));
    annotate(&mut desktop, "new", ANNOTATION_RESUME_RESTORED, "old");
    assert!(works(&desktop.settle()).is_empty(), "said of an earlier life");
    annotate(&mut desktop, "new", ANNOTATION_RESUME_RESTORED, "new");
    assert_eq!(works(&desktop.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn reports_of_another_uid_tell_a_restore_even_after_they_are_gone_and_the_controller_is_new() {
    let first = |finalizer: bool| {
        let mut desktop = desktop(&["c1"]);
        desktop.hall.with(|state| {
            state.begin_term();
            state.observe_report(&report("old"), false, false);
        });
        let mut view = restored("new", operators(&["c1"]), &[]);
        if !finalizer {
            view.metadata.finalizers = None;
        }
        knows(&desktop, view);
        assert!(works(&desktop.settle()).is_empty());
        assert_eq!(stalled(&status(&desktop, "new")).0, "Restored");
        assert_eq!(
            note(&desktop, "new", ANNOTATION_UPGRADE_UID).as_deref(),
            Some("old")
        );
        note(&desktop, "new", ANNOTATION_UPGRADE_UID).unwrap()
    };
    for finalizer in [true, false] {
        let life = first(finalizer);
        let mut second = desktop(&["c1"]);
        let left = restored("new", operators(&["c1"]), &[(ANNOTATION_UPGRADE_UID, &life)]);
        knows(&second, left);
        assert!(works(&second.settle()).is_empty());
        assert_eq!(stalled(&status(&second, "new")).0, "Restored");
    }
}

#[tokio::test]
async fn reports_that_are_left_of_an_upgrade_that_was_deleted_do_not_hold_its_successor() {
    let mut desktop = desktop(&["c1"]);
    knows(&desktop, restored("old", operators(&[]), &[]));
    desktop.hall.with(|state| {
        state.observe_report(&report("old"), false, true);
        state.delete_upgrade("old");
        state.observe_report(&report("old"), false, true);
    });
    knows(&desktop, restored("new", operators(&["c1"]), &[]));
    assert_eq!(works(&desktop.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn an_upgrade_whose_controller_died_before_its_first_status_goes_on() {
    let mut desktop = desktop(&["c1"]);
    knows(
        &desktop,
        restored("new", operators(&["c1"]), &[(ANNOTATION_UPGRADE_UID, "new")]),
    );
    assert_eq!(works(&desktop.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn an_upgrade_that_was_complete_before_its_restore_is_not_run_again() {
    let spec = operators(&["c1"]);
    let note_of_old = completed(&spec);
    let notes = [
        (ANNOTATION_UPGRADE_UID, "old"),
        (ANNOTATION_COMPLETED, note_of_old.as_str()),
        (api::names::ANNOTATION_RETRY_FAILED, "of an earlier life"),
    ];
    let mut desktop = desktop(&["c1"]);
    knows(&desktop, restored("new", spec, &notes));
    assert!(works(&desktop.settle()).is_empty());
    let told = status(&desktop, "new");
    assert_eq!(shown(&told, COMPLETE), ("True", "CompletedBefore"));
    assert_eq!(shown(&told, READY), ("True", "CompletedBefore"));
    assert_eq!(
        (told.state, told.progress.as_deref()),
        (Some(UpgradeState::Complete), Some("1/1"))
    );
    assert_eq!(told.observed_retry.as_deref(), Some("of an earlier life"));
    // It blocks nobody, and stays so when the controller starts anew.
    desktop.knows(&Given {
        spec: operators(&["c1"]),
        created: "2026-05-28T11:00:00Z",
        ..upgrade("younger", &[])
    });
    desktop.hall.with(|state| state.begin_term());
    assert_eq!(works(&desktop.settle()), ["younger: create c1-operators-upgrade"]);
    assert_eq!(
        shown(&status(&desktop, "new"), COMPLETE),
        ("True", "CompletedBefore")
    );
}

#[tokio::test]
async fn a_new_retry_or_a_new_revision_runs_an_upgrade_that_was_complete_before_anew() {
    let spec = operators(&["c1"]);
    let note_of_old = completed(&spec);
    let back = || {
        let notes = [
            (ANNOTATION_UPGRADE_UID, "old"),
            (ANNOTATION_COMPLETED, note_of_old.as_str()),
        ];
        let mut desktop = desktop(&["c1"]);
        knows(&desktop, restored("new", spec.clone(), &notes));
        assert!(works(&desktop.settle()).is_empty());
        desktop
    };
    let mut retried = back();
    annotate(&mut retried, "new", api::names::ANNOTATION_RETRY_FAILED, "again");
    assert_eq!(works(&retried.settle()), ["new: create c1-operators-upgrade"]);
    let mut edited = back();
    edited.version += 1;
    let version = edited.version;
    edited.hall.with(|state| {
        let mut view = Upgrade::clone(&state.desks["new"].view);
        view.metadata.resource_version = Some(version.to_string());
        view.metadata.generation = Some(2);
        let mut other = spec.clone();
        other["ocpOperators"] = json!({"include": [{"namespace": "a", "name": "b"}]});
        view.spec = serde_json::from_value(other).unwrap();
        state.apply_upgrade(view);
    });
    assert_eq!(works(&edited.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn a_completion_of_another_revision_name_or_form_does_not_count() {
    let spec = operators(&["c1"]);
    let good = completed(&spec);
    let revision = serde_json::from_str::<Value>(&good).unwrap()["revision"].clone();
    let other_revision = good.replace(revision.as_str().unwrap(), "0123456789abcdef");
    let other_name = good.replace("ns/up", "ns/copied-from");
    for (text, told) in [
        (other_revision.as_str(), ""),
        (&other_name, ""),
        ("{", "is ignored: it is not of the expected form"),
    ] {
        let mut desktop = desktop(&["c1"]);
        let notes = [(ANNOTATION_UPGRADE_UID, "old"), (ANNOTATION_COMPLETED, text)];
        knows(&desktop, restored("new", spec.clone(), &notes));
        assert!(works(&desktop.settle()).is_empty());
        let status = status(&desktop, "new");
        let (reason, message) = stalled(&status);
        assert_eq!(reason, "Restored");
        assert!(message.contains(told), "{message}");
    }
}

#[tokio::test]
async fn a_restored_upgrade_and_one_whose_target_is_older_hold_no_cluster_that_others_want() {
    for older in ["restored", "outdated"] {
        let mut desktop = desktop(&["c1"]);
        let mut spec = crate::fixture::spec(&["c1"]);
        let mut running = cluster("c1");
        running.metadata.labels = Some([("openshiftVersion".to_owned(), "4.11.9".to_owned())].into());
        desktop
            .hall
            .with(|state| state.index.cluster(&Change::Applied(running)));
        let mut notes = vec![(ANNOTATION_UPGRADE_UID, "before")];
        if older == "outdated" {
            spec["clusterVersion"]["version"] = json!("4.10.0");
            notes.clear();
        }
        knows(&desktop, restored("old", spec, &notes));
        desktop.knows(&Given {
            created: "2026-05-28T11:00:00Z",
            ..upgrade("young", &["c1"])
        });
        assert_eq!(
            works(&desktop.settle()),
            ["young: create c1-cluster-upgrade"],
            "{older}"
        );
    }
}

#[tokio::test]
async fn a_cluster_that_was_just_upgraded_is_not_taken_back_before_its_claim_follows() {
    let desktop = desktop(&["c1"]);
    let mut before = cluster("c1");
    before.metadata.labels = Some([("openshiftVersion".to_owned(), "4.11.0".to_owned())].into());
    desktop
        .hall
        .with(|state| state.index.cluster(&Change::Applied(before)));
    let mut desktop = desktop;
    let mut paused = upgrade("u1", &["c1"]);
    paused.spec["paused"] = json!(true);
    desktop.knows(&paused);
    desktop.settle();
    desktop.hall.with(|state| {
        let desk = state.desks.get_mut("u1").unwrap();
        let mut record: Record = rollout::testing::record(Phase::Complete)
            .succeeded(rollout::Stage::Platform, 0)
            .into();
        record.attempt.revision = Arc::clone(&desk.in_force().unwrap().policy.revision);
        crate::fixture::note(desk, "c1", record);
    });
    let mut edited = upgrade("u1", &["c1"]);
    edited.version = 1_000;
    edited.spec["clusterVersion"]["version"] = json!("4.11.5");
    let mut view = edited.view();
    view.metadata.generation = Some(2);
    knows(&desktop, view);
    for _ in 0..2 {
        assert!(works(&desktop.settle()).is_empty());
        assert_eq!(desktop.phase("u1", "c1"), Some(Phase::Blocked));
        desktop.look_at("u1");
    }
}
