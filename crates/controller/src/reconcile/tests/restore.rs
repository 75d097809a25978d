//! Upgrades that are restored from a backup: with a new UID, without a status, and without the objects that
//! the backup does not contain.

use api::conditions::{COMPLETE, READY};
use api::names::{ANNOTATION_COMPLETED, ANNOTATION_RESUME_RESTORED, ANNOTATION_UPGRADE_UID};
use api::views::Report;
use observe::testing::claimed;

use super::*;

/// The restored upgrade, with the name `up` and the annotations that it had.
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

fn add_upgrade(hub: &TestHub, view: Upgrade) {
    hub.context.with(|state| state.apply_upgrade(view));
}

fn status(hub: &TestHub, uid: &str) -> ManagedClustersUpgradeStatus {
    hub.context.with(|state| state.upgrades[uid].status.previous())
}

fn shown<'a>(status: &'a ManagedClustersUpgradeStatus, type_: &str) -> (&'a str, &'a str) {
    let mut conditions = status.conditions.iter();
    let found = conditions.find(|condition| condition.type_ == type_).unwrap();
    (&found.status, &found.reason)
}

fn note(hub: &TestHub, uid: &str, key: &str) -> Option<String> {
    hub.context.with(|state| {
        let annotations = state.upgrades[uid].object.metadata.annotations.clone()?;
        annotations.get(key).cloned()
    })
}

/// Changes an annotation like a user.
fn annotate(hub: &mut TestHub, uid: &str, key: &str, value: &str) {
    hub.version += 1;
    let version = hub.version;
    hub.context.with(|state| {
        let mut view = Upgrade::clone(&state.upgrades[uid].object);
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
                "kind": "ManagedClustersUpgrade", "name": "up", "uid": uid, "controller": true}]},
        "rows": [],
    }))
    .unwrap()
}

/// Runs the upgrade `up` with UID `old` to its end and returns the annotation about its completion.
fn completed(spec: &Value) -> String {
    let mut hub = hub(&["c1"]);
    add_upgrade(&hub, restored("old", spec.clone(), &[]));
    hub.settle();
    let finished = done(&mut hub, "c1", "old");
    hub.deliver(&Change::Applied(finished));
    hub.pass("old");
    assert_eq!(
        note(&hub, "old", ANNOTATION_COMPLETED),
        None,
        "no record says so yet"
    );
    write_rows(&mut hub, "old");
    hub.settle();
    assert!(
        hub.pass("old")
            .iter()
            .all(|job| !matches!(job.write, Write::Annotate { .. })),
        "it is written once"
    );
    assert_eq!(note(&hub, "old", ANNOTATION_UPGRADE_UID).as_deref(), Some("old"));
    note(&hub, "old", ANNOTATION_COMPLETED).unwrap()
}

#[tokio::test]
async fn the_uid_is_noted_with_the_finalizer() {
    let mut hub = hub(&["c1"]);
    let mut view = restored("new", operators(&["c1"]), &[]);
    view.metadata.finalizers = None;
    add_upgrade(&hub, view);
    assert_eq!(works(&hub.settle()), ["new: create c1-operators-upgrade"]);
    assert_eq!(note(&hub, "new", ANNOTATION_UPGRADE_UID).as_deref(), Some("new"));
}

#[tokio::test]
async fn a_restored_upgrade_writes_nothing_to_any_cluster_until_it_is_resumed() {
    let mut hub = hub(&["c1"]);
    add_upgrade(
        &hub,
        restored("new", operators(&["c1"]), &[(ANNOTATION_UPGRADE_UID, "old")]),
    );
    assert!(works(&hub.settle()).is_empty());
    let restored_status = status(&hub, "new");
    let (reason, message) = stalled(&restored_status);
    assert_eq!(reason, "Restored");
    assert!(message.contains("kubectl mcu resume up -n ns"), "{message}");
    assert_eq!(shown(&restored_status, READY), ("False", "Restored"));
    assert_eq!(restored_status.state, Some(UpgradeState::Stalled));
    annotate(&mut hub, "new", ANNOTATION_RESUME_RESTORED, "old");
    assert!(works(&hub.settle()).is_empty(), "said of an earlier life");
    annotate(&mut hub, "new", ANNOTATION_RESUME_RESTORED, "new");
    assert_eq!(works(&hub.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn a_restored_upgrade_asks_no_cluster_until_it_is_resumed() {
    let mut hub = hub(&["c1"]);
    let mut spec = crate::fixture::spec(&["c1"]);
    spec["clusterVersion"] = json!({"channel": "stable-4.20", "version": "4.20.4"});
    spec["preflight"] = json!({"mode": "Require", "setChannel": true});
    add_upgrade(&hub, restored("new", spec, &[(ANNOTATION_UPGRADE_UID, "old")]));
    assert!(works(&hub.settle()).is_empty());
    annotate(&mut hub, "new", ANNOTATION_RESUME_RESTORED, "new");
    assert_eq!(works(&hub.settle()), ["new: create c1-probe"]);
}

#[tokio::test]
async fn reports_of_another_uid_tell_a_restore_even_after_they_are_gone_and_the_controller_is_new() {
    let first = |finalizer: bool| {
        let mut hub = hub(&["c1"]);
        hub.context.with(|state| {
            state.begin_term();
            state.observe_report(&report("old"), false, false, Utc::now());
        });
        let mut view = restored("new", operators(&["c1"]), &[]);
        if !finalizer {
            view.metadata.finalizers = None;
        }
        add_upgrade(&hub, view);
        assert!(works(&hub.settle()).is_empty());
        assert_eq!(stalled(&status(&hub, "new")).0, "Restored");
        assert_eq!(note(&hub, "new", ANNOTATION_UPGRADE_UID).as_deref(), Some("old"));
        note(&hub, "new", ANNOTATION_UPGRADE_UID).unwrap()
    };
    for finalizer in [true, false] {
        let life = first(finalizer);
        let mut second = hub(&["c1"]);
        let left = restored("new", operators(&["c1"]), &[(ANNOTATION_UPGRADE_UID, &life)]);
        add_upgrade(&second, left);
        assert!(works(&second.settle()).is_empty());
        assert_eq!(stalled(&status(&second, "new")).0, "Restored");
    }
}

#[tokio::test]
async fn reports_that_are_left_of_an_upgrade_that_was_deleted_do_not_hold_its_successor() {
    let mut hub = hub(&["c1"]);
    add_upgrade(&hub, restored("old", operators(&[]), &[]));
    hub.context.with(|state| {
        state.observe_report(&report("old"), false, true, Utc::now());
        state.delete_upgrade("old");
        state.observe_report(&report("old"), false, true, Utc::now());
    });
    add_upgrade(&hub, restored("new", operators(&["c1"]), &[]));
    assert_eq!(works(&hub.settle()), ["new: create c1-operators-upgrade"]);
}

#[tokio::test]
async fn an_upgrade_whose_controller_died_before_its_first_status_goes_on() {
    let mut hub = hub(&["c1"]);
    add_upgrade(
        &hub,
        restored("new", operators(&["c1"]), &[(ANNOTATION_UPGRADE_UID, "new")]),
    );
    assert_eq!(works(&hub.settle()), ["new: create c1-operators-upgrade"]);
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
    let mut hub = hub(&["c1"]);
    add_upgrade(&hub, restored("new", spec, &notes));
    assert!(works(&hub.settle()).is_empty());
    let restored_status = status(&hub, "new");
    assert_eq!(shown(&restored_status, COMPLETE), ("True", "CompletedBefore"));
    assert_eq!(shown(&restored_status, READY), ("True", "CompletedBefore"));
    assert_eq!(
        (restored_status.state, restored_status.progress.as_deref()),
        (Some(UpgradeState::Complete), Some("1/1"))
    );
    assert_eq!(
        restored_status.observed_retry.as_deref(),
        Some("of an earlier life")
    );
    // It blocks no other upgrade, not even after a restart of the controller.
    hub.add_upgrade(&Given {
        spec: operators(&["c1"]),
        created: "2026-05-28T11:00:00Z",
        ..upgrade("younger", &[])
    });
    hub.context.with(State::begin_term);
    assert_eq!(works(&hub.settle()), ["younger: create c1-operators-upgrade"]);
    assert_eq!(shown(&status(&hub, "new"), COMPLETE), ("True", "CompletedBefore"));
}

/// A leader has found that the records are gone, has noted that, and has died before it told of it.
#[tokio::test]
async fn what_was_complete_before_and_is_not_told_so_yet_is_told_by_the_next_leader() {
    let spec = operators(&["c1"]);
    let mut note: Value = serde_json::from_str(&completed(&spec)).unwrap();
    note["restoredAs"] = json!("up-uid");
    let note = note.to_string();
    let notes = [
        (ANNOTATION_UPGRADE_UID, "up-uid"),
        (ANNOTATION_COMPLETED, note.as_str()),
    ];
    let mut view = restored("up-uid", spec, &notes);
    let complete = json!({"observedGeneration": 1, "state": "Complete"});
    view.status = serde_json::from_value(complete).unwrap();
    for is_told in [false, true] {
        let mut hub = hub(&["c1"]);
        hub.context.with(|state| state.owns_records = false);
        add_upgrade(&hub, view.clone());
        let is_archived = hub
            .context
            .with(|state| state.upgrades["up-uid"].archive.is_some());
        assert_eq!(is_archived, is_told);
        hub.context.with(|state| {
            state.begin_term();
            state.owns_records = true;
        });
        let expected: &[&str] = if is_told { &[] } else { &["up-uid: status"] };
        assert_eq!(hub.settle(), expected);
        assert_eq!(
            shown(&status(&hub, "up-uid"), COMPLETE),
            ("True", "CompletedBefore")
        );
        view.status = hub
            .context
            .with(|state| state.upgrades["up-uid"].object.status.clone());
    }
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
        let mut hub = hub(&["c1"]);
        add_upgrade(&hub, restored("new", spec.clone(), &notes));
        assert!(works(&hub.settle()).is_empty());
        hub
    };
    let mut retried = back();
    annotate(&mut retried, "new", api::names::ANNOTATION_RETRY_FAILED, "again");
    assert_eq!(works(&retried.settle()), ["new: create c1-operators-upgrade"]);
    let mut edited = back();
    edited.version += 1;
    let version = edited.version;
    edited.context.with(|state| {
        let mut view = Upgrade::clone(&state.upgrades["new"].object);
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
    for (text, expected) in [
        (other_revision.as_str(), ""),
        (&other_name, ""),
        ("{", "is ignored: it does not have the expected form"),
    ] {
        let mut hub = hub(&["c1"]);
        let notes = [(ANNOTATION_UPGRADE_UID, "old"), (ANNOTATION_COMPLETED, text)];
        add_upgrade(&hub, restored("new", spec.clone(), &notes));
        assert!(works(&hub.settle()).is_empty());
        let status = status(&hub, "new");
        let (reason, message) = stalled(&status);
        assert_eq!(reason, "Restored");
        assert!(message.contains(expected), "{message}");
    }
}

#[tokio::test]
async fn a_restored_upgrade_and_one_whose_target_is_older_hold_no_cluster_that_others_want() {
    for older in ["restored", "outdated"] {
        let mut hub = hub(&["c1"]);
        let mut spec = crate::fixture::spec(&["c1"]);
        let mut running = cluster("c1");
        running.metadata.labels = Some([("openshiftVersion".to_owned(), "4.11.9".to_owned())].into());
        hub.context
            .with(|state| state.index.cluster(&Change::Applied(running)));
        let mut notes = vec![(ANNOTATION_UPGRADE_UID, "before")];
        if older == "outdated" {
            spec["clusterVersion"]["version"] = json!("4.10.0");
            notes.clear();
        }
        add_upgrade(&hub, restored("old", spec, &notes));
        hub.add_upgrade(&Given {
            created: "2026-05-28T11:00:00Z",
            ..upgrade("young", &["c1"])
        });
        assert_eq!(
            works(&hub.settle()),
            ["young: create c1-cluster-upgrade"],
            "{older}"
        );
    }
}

/// A hub with cluster `c1`, which claims 4.11.0, and an upgrade `up` with this target. The upgrade has just taken the cluster
/// to 4.12.0, with its present spec if `current`, and the controller was restarted since.
fn just_upgraded(target: &str, current: bool) -> TestHub {
    let hub = hub(&["c1"]);
    let mut spec = crate::fixture::spec(&["c1"]);
    spec["clusterVersion"]["version"] = json!(target);
    add_upgrade(&hub, restored("u1", spec, &[]));
    let now = hub.context.now();
    hub.context.with(|state| {
        state.index.cluster(&Change::Applied(claimed("c1", "4.11.0")));
        let revision = state.upgrades["u1"].in_force().unwrap().policy.revision.to_string();
        let mut written = report("u1");
        written.rows = serde_json::from_value(json!([{
            "cluster": "c1", "phase": "Complete", "since": now, "fromVersion": "4.11.0", "toVersion": "4.12.0",
            "revision": if current { &revision } else { "r0" },
            "steps": [{"name": "Platform", "startedAt": now, "finishedAt": now, "outcome": "Succeeded"}],
        }]))
        .unwrap();
        state.observe_report(&written, false, false, now);
    });
    hub
}

#[tokio::test]
async fn a_cluster_that_was_just_upgraded_is_not_taken_back_before_its_claim_follows() {
    let mut edited = just_upgraded("4.11.5", false);
    assert!(works(&edited.settle()).is_empty());
    assert_eq!(edited.phase("u1", "c1"), Some(Phase::Blocked));
}

#[tokio::test]
async fn no_other_upgrade_takes_a_cluster_back_that_was_just_upgraded() {
    let mut hub = just_upgraded("4.12.0", true);
    let mut young = Given {
        created: "2026-05-28T11:00:00Z",
        ..upgrade("young", &["c1"])
    };
    young.spec["clusterVersion"]["version"] = json!("4.11.5");
    hub.add_upgrade(&young);
    assert!(works(&hub.settle()).is_empty());
    assert_eq!(hub.phase("young", "c1"), Some(Phase::Blocked));
    let mut claim = |version| {
        let change = Change::Applied(claimed("c1", version));
        hub.context.with(|state| state.index.cluster(&change));
        hub.settle()
    };
    assert!(
        works(&claim("4.11.1")).is_empty(),
        "a late claim of an earlier update"
    );
    assert_eq!(works(&claim("4.11.0")), ["young: create c1-cluster-upgrade"]);
}
