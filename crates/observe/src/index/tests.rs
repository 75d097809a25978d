mod properties;

use api::names::Step;
use chrono::TimeZone;
use rollout::StepStatus;
use serde_json::{Value, json};

use super::*;

fn now() -> DateTime<Utc> {
    Utc.timestamp_opt(1_780_000_000, 0).unwrap()
}

/// A ManifestWork of a step, as the hub would return it.
struct Given {
    cluster: &'static str,
    step: Step,
    upgrade: &'static str,
    uid: &'static str,
    version: u64,
    done: bool,
    dying: bool,
}

fn given(version: u64) -> Given {
    Given {
        cluster: "c1",
        step: Step::Operators,
        upgrade: "up-1",
        uid: "w1",
        version,
        done: false,
        dying: false,
    }
}

impl Given {
    fn work(&self) -> ManifestWork {
        let status = if self.done {
            json!({
                "conditions": [{"type": "Applied", "status": "True", "observedGeneration": 1}],
                "resourceStatus": {"manifests": [{
                    "resourceMeta": {"ordinal": 4, "group": "batch", "kind": "Job", "resource": "jobs",
                        "name": "installplan-approver", "namespace": "installplan-approver"},
                    "statusFeedback": {"values": [
                        {"name": "succeeded", "fieldValue": {"type": "Integer", "integer": 1}},
                        {"name": "jobComplete", "fieldValue": {"type": "String", "string": "True"}},
                    ]},
                }]},
            })
        } else {
            Value::Null
        };
        let deleted = self.dying.then_some("2026-05-28T20:00:00Z");
        serde_json::from_value(json!({
            "metadata": {
                "name": self.step.work_name(self.cluster),
                "namespace": self.cluster,
                "uid": self.uid,
                "generation": 1,
                "resourceVersion": self.version.to_string(),
                "deletionTimestamp": deleted,
                "labels": {
                    "cluster.open-cluster-management.io/managedclustersupgrade-uid": self.upgrade,
                    "cluster.open-cluster-management.io/upgrade-step": self.step.as_str(),
                },
                "annotations": {"cluster.open-cluster-management.io/upgrade-revision": "r1"},
            },
            "status": status,
        }))
        .unwrap()
    }

    fn applied(&self) -> Change<ManifestWork> {
        Change::Applied(self.work())
    }

    fn deleted(&self) -> Change<ManifestWork> {
        Change::Deleted(self.work())
    }
}

fn slot(index: &Index) -> Option<&Arc<WorkView>> {
    index.work_of("c1", Step::Operators)
}

fn take_dirty(index: &mut Index) -> Vec<String> {
    let mut dirty: Vec<String> = std::mem::take(&mut index.dirty)
        .iter()
        .map(ToString::to_string)
        .collect();
    dirty.sort();
    dirty
}

fn names(clusters: &[Arc<str>]) -> Vec<String> {
    let mut names: Vec<String> = clusters.iter().map(ToString::to_string).collect();
    names.sort();
    names
}

fn seen(works: &[(&str, Step)]) -> AHashSet<(Arc<str>, Step)> {
    works
        .iter()
        .map(|(name, step)| (Arc::from(*name), *step))
        .collect()
}

#[test]
fn the_fixture_of_a_finished_job_reads_as_succeeded() {
    let mut index = Index::default();
    index.work(
        &Given {
            done: true,
            ..given(1)
        }
        .applied(),
        now(),
    );
    assert_eq!(slot(&index).unwrap().work.status, StepStatus::Succeeded);
}

#[test]
fn an_older_version_never_replaces_a_newer_one() {
    let mut index = Index::default();
    index.work(
        &Given {
            done: true,
            ..given(9)
        }
        .applied(),
        now(),
    );
    take_dirty(&mut index);
    index.work(&given(8).applied(), now());
    assert_eq!(slot(&index).unwrap().version, 9);
    assert_eq!(slot(&index).unwrap().work.status, StepStatus::Succeeded);
    assert!(take_dirty(&mut index).is_empty());
}

#[test]
fn an_answer_that_the_watch_has_overtaken_does_not_bring_a_deleted_work_back() {
    let mut index = Index::default();
    index.work(&given(5).applied(), now());
    index.work(&given(6).deleted(), now());
    index.answered_work(&given(5).work(), now());
    assert!(slot(&index).is_none(), "the answer to the creation came last");
}

#[test]
fn an_answer_that_the_watch_has_not_told_yet_counts_at_once() {
    let mut index = Index::default();
    index.answered_work(&given(5).work(), now());
    assert!(slot(&index).is_some());
    assert_eq!(take_dirty(&mut index), ["up-1"]);
    index.work(&given(5).applied(), now());
    assert!(take_dirty(&mut index).is_empty(), "our own write is not a change");
}

#[test]
fn an_upgrade_is_dirty_only_when_planning_would_see_a_difference() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    assert_eq!(take_dirty(&mut index), ["up-1"]);
    index.work(&given(2).applied(), now());
    assert!(
        take_dirty(&mut index).is_empty(),
        "only the resource version moved"
    );
    index.work(
        &Given {
            done: true,
            ..given(3)
        }
        .applied(),
        now(),
    );
    assert_eq!(take_dirty(&mut index), ["up-1"]);
    index.work(&given(4).deleted(), now());
    assert_eq!(take_dirty(&mut index), ["up-1"]);
}

#[test]
fn a_doomed_work_stays_terminating_whatever_late_events_say() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    assert!(slot(&index).unwrap().work.terminating);
    index.work(&given(2).applied(), now());
    assert!(slot(&index).unwrap().work.terminating);
}

#[test]
fn the_version_of_an_accepted_deletion_shows_whether_a_list_is_from_an_older_storage() {
    let mut index = Index::default();
    let work = given(5).work();
    index.work(&given(5).applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    index.note_deletion("c1", Step::Operators, "other", 8);
    assert_eq!((index.version_of(&work), index.newest_work()), (5, 5));
    index.note_deletion("c1", Step::Operators, "w1", 8);
    assert_eq!((index.version_of(&work), index.newest_work()), (8, 8));
    index.note_deletion("c1", Step::Operators, "w1", 0);
    assert_eq!(index.version_of(&work), 8);
    // The watch reports it later.
    let dying = Given {
        dying: true,
        ..given(8)
    };
    index.work(&dying.applied(), now());
    assert!(slot(&index).unwrap().work.terminating);
}

#[test]
fn a_deletion_that_did_not_come_about_is_taken_back() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    index.work(&given(2).applied(), now());
    index.unmark_deleting("c1", Step::Operators, "w1");
    assert!(!slot(&index).unwrap().work.terminating);
    index.mark_deleting("c1", Step::Operators, "w1", None);
    index.work(
        &Given {
            dying: true,
            ..given(3)
        }
        .applied(),
        now(),
    );
    index.unmark_deleting("c1", Step::Operators, "w1");
    assert!(slot(&index).unwrap().work.terminating, "somebody else deletes it");
}

#[test]
fn a_deletion_that_one_upgrade_requested_ends_with_the_takeover_by_another() {
    let taken = |version| Given {
        upgrade: "up-2",
        ..given(version)
    };
    let is_terminating = |index: &Index| slot(index).unwrap().work.terminating;
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    index.work(&taken(2).applied(), now());
    assert!(!is_terminating(&index), "the requested version is gone");
    index.mark_deleting("c1", Step::Operators, "w1", Some(1));
    assert!(!is_terminating(&index), "the request comes too late");
    index.mark_deleting("c1", Step::Operators, "w1", Some(2));
    assert!(is_terminating(&index));
}

#[test]
fn notes_about_an_object_do_not_touch_its_successor() {
    let mut index = Index::default();
    let successor = Given {
        uid: "w2",
        ..given(7)
    };
    index.work(&successor.applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    index.remove_work("c1", Step::Operators, "w1", now());
    index.work(&given(8).deleted(), now());
    assert!(!slot(&index).unwrap().work.terminating);
    index.remove_work("c1", Step::Operators, "w2", now());
    assert!(slot(&index).is_none());
}

#[test]
fn a_new_object_under_the_name_inherits_nothing() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    let successor = Given {
        uid: "w2",
        ..given(3)
    };
    index.work(&successor.applied(), now());
    assert!(!slot(&index).unwrap().work.terminating);
}

#[test]
fn evidence_of_a_vanished_work_is_kept_only_when_it_had_succeeded() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.work(&given(2).deleted(), now());
    assert!(slot(&index).is_none());

    let done = Given {
        done: true,
        ..given(3)
    };
    index.work(&done.applied(), now());
    index.work(&done.deleted(), now());
    assert!(slot(&index).unwrap().work.vanished);
    assert_eq!(names(&index.clusters_of("up-1")), ["c1"]);
}

#[test]
fn success_told_only_by_the_deletion_itself_is_kept() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.work(
        &Given {
            done: true,
            dying: true,
            ..given(2)
        }
        .deleted(),
        now(),
    );
    let work = &slot(&index).unwrap().work;
    assert!(work.vanished && !work.terminating);
}

#[test]
fn a_work_that_we_deleted_leaves_no_evidence() {
    let mut index = Index::default();
    let done = Given {
        done: true,
        ..given(1)
    };
    index.work(&done.applied(), now());
    index.mark_deleting("c1", Step::Operators, "w1", None);
    index.work(&done.deleted(), now());
    assert!(slot(&index).is_none());
}

#[test]
fn a_relist_drops_what_is_gone() {
    let mut index = Index::default();
    for (cluster, version) in [("c1", 1), ("c2", 2), ("c3", 3)] {
        index.work(
            &Given {
                cluster,
                ..given(version)
            }
            .applied(),
            now(),
        );
    }
    take_dirty(&mut index);
    index.relist_works();
    index.listed_work(
        &Given {
            cluster: "c2",
            ..given(2)
        }
        .work(),
        now(),
    );
    index.retain_works(&seen(&[("c2", Step::Operators)]), 2, now());
    assert!(index.works("c1").is_none());
    assert!(
        index.works("c3").is_none(),
        "the newest work too, though the list holds nothing as new"
    );
    assert_eq!(names(&index.clusters_of("up-1")), ["c2"]);
    assert_eq!(take_dirty(&mut index), ["up-1"]);
}

#[test]
fn a_relist_keeps_what_was_created_after_the_list() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    index.relist_works();
    index.listed_work(&given(1).work(), now());
    let created = Given {
        cluster: "c2",
        ..given(9)
    };
    index.answered_work(&created.work(), now());
    index.retain_works(&seen(&[("c1", Step::Operators)]), 1, now());
    assert_eq!(names(&index.clusters_of("up-1")), ["c1", "c2"]);
}

/// A pre-action whose work a time to live removes while no replica leads, or while the lists after an outage are read.
#[test]
fn a_list_does_not_remove_the_evidence_of_a_success_that_no_plan_has_noted() {
    let mut index = Index::default();
    let done = crate::testing::finished("c1", "up-1", 1);
    index.work(&Change::Applied(done.clone()), now());
    index.work(&Change::Deleted(done), now());
    for _ in 0..2 {
        index.relist_works();
        index.retain_works(&seen(&[]), 9, now());
        assert!(slot(&index).is_some_and(|view| view.work.vanished));
    }
}

#[test]
fn a_relist_keeps_the_evidence_of_success_for_a_while() {
    let mut index = Index::default();
    index.work(
        &Given {
            done: true,
            ..given(1)
        }
        .applied(),
        now(),
    );
    index.relist_works();
    index.retain_works(&seen(&[]), 0, now());
    assert!(slot(&index).unwrap().work.vanished);
    index.relist_works();
    index.retain_works(&seen(&[]), 0, now() + chrono::TimeDelta::minutes(10));
    assert!(slot(&index).is_none());
}

#[test]
fn a_work_that_changes_hands_concerns_both_owners_and_whoever_waits() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    take_dirty(&mut index);
    index.work_released = false;
    let taken = Given {
        upgrade: "up-2",
        ..given(2)
    };
    index.work(&taken.applied(), now());
    assert_eq!(take_dirty(&mut index), ["up-1", "up-2"]);
    assert!(index.work_released);
    assert!(index.clusters_of("up-1").is_empty());
    assert_eq!(names(&index.clusters_of("up-2")), ["c1"]);
}

#[test]
fn the_end_of_a_work_is_news_for_whoever_waits_for_its_cluster() {
    let mut index = Index::default();
    index.work(&given(1).applied(), now());
    assert!(!index.work_released);
    index.work(&given(2).deleted(), now());
    assert!(index.work_released);
}

#[test]
fn a_work_is_known_by_its_name_and_owner_even_without_the_label_of_its_step() {
    let mut index = Index::default();
    let mut work = given(1).work();
    work.metadata
        .labels
        .as_mut()
        .unwrap()
        .remove("cluster.open-cluster-management.io/upgrade-step");
    index.work(&Change::Applied(work), now());
    assert!(slot(&index).is_some());

    let mut other = given(2).work();
    other.metadata.name = Some("c1-something-else".to_owned());
    other.metadata.uid = Some("w9".to_owned());
    index.work(&Change::Applied(other), now());
    assert_eq!(index.work_count(), 1);
}

fn cluster(version: u64, available: &str, accepted: &Value) -> ManagedCluster {
    serde_json::from_value(json!({
        "metadata": {"name": "c1", "resourceVersion": version.to_string(), "labels": {"b": "2", "a": "1"}},
        "spec": accepted,
        "status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": available}]},
    }))
    .unwrap()
}

#[test]
fn a_managed_cluster_moves_the_epoch_only_when_its_view_changes() {
    let mut index = Index::default();
    let accepted = json!({"hubAcceptsClient": true});
    index.cluster(&Change::Applied(cluster(1, "True", &accepted)));
    let epoch = index.epoch;
    index.all_dirty = false;
    index.cluster(&Change::Applied(cluster(2, "True", &accepted)));
    assert_eq!(index.epoch, epoch);
    assert!(!index.all_dirty);
    index.cluster(&Change::Applied(cluster(3, "Unknown", &accepted)));
    assert_eq!(index.epoch, epoch + 1);
    assert!(index.all_dirty);
    index.retain_clusters(&AHashSet::default());
    assert!(index.clusters.is_empty());
    assert_eq!(index.epoch, epoch + 2);
}

#[test]
fn a_spec_that_cannot_be_read_is_unknown_and_not_a_refusal() {
    let mut index = Index::default();
    index.cluster(&Change::Applied(cluster(1, "True", &json!("odd"))));
    let view = &index.clusters["c1"];
    assert!(view.accepted && view.unreadable.is_some());
    index.cluster(&Change::Applied(cluster(2, "True", &Value::Null)));
    assert!(!index.clusters["c1"].accepted);
}

#[test]
fn a_cluster_that_is_registered_anew_has_no_evidence_of_its_earlier_works() {
    let mut index = crate::testing::index(&["c1"]);
    let cluster = crate::testing::cluster("c1");
    let done = |version| Given {
        done: true,
        ..given(version)
    };
    index.work(&done(5).applied(), now());
    index.cluster(&Change::Deleted(cluster.clone()));
    index.work(&done(6).deleted(), now());
    assert!(slot(&index).is_none() && index.works("c1").is_none());
    // The watch of works is behind.
    index.work(&done(7).applied(), now());
    index.work(&done(8).deleted(), now());
    assert!(slot(&index).is_some_and(|view| view.work.vanished));
    index.cluster(&Change::Applied(cluster.clone()));
    assert!(slot(&index).is_none() && index.works("c1").is_none());
    index.cluster(&Change::Deleted(cluster.clone()));
    index.work(&done(9).applied(), now());
    index.cluster(&Change::Applied(cluster));
    assert!(slot(&index).is_some_and(|view| view.unconfirmed));
}

/// The watch of the works may be behind that of the clusters.
#[test]
fn a_work_that_was_seen_before_its_cluster_was_registered_anew_counts_only_once_it_was_read() {
    for (is_seen_to_go, is_there) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut index = crate::testing::index(&["c1"]);
        let mut cluster = crate::testing::cluster("c1");
        index.work(&given(5).applied(), now());
        if is_seen_to_go {
            index.cluster(&Change::Deleted(cluster.clone()));
        }
        cluster.metadata.creation_timestamp = serde_json::from_value(json!("2026-11-22T10:00:00Z")).unwrap();
        index.cluster(&Change::Applied(cluster));
        let is_unconfirmed = |index: &Index| slot(index).is_some_and(|view| view.unconfirmed);
        assert!(is_unconfirmed(&index));
        index.work(&given(6).applied(), now());
        assert!(is_unconfirmed(&index), "this change may be from before");
        let Change::Applied(read) = given(6).applied() else {
            panic!("a work that exists")
        };
        if is_there {
            index.answered_work(&read, now());
            assert!(slot(&index).is_some() && !is_unconfirmed(&index));
        } else {
            index.mark_vanished("c1", Step::Operators, "w1", now());
            assert!(slot(&index).is_none());
        }
    }
}

/// The watch of the works may be so far behind that it reports works that were already read as absent.
#[test]
fn a_work_that_the_watch_reports_after_its_cluster_was_registered_anew_counts_only_once_it_was_read() {
    let registered = |at: &str| {
        let mut cluster = crate::testing::cluster("c1");
        cluster.metadata.creation_timestamp = serde_json::from_value(json!(at)).unwrap();
        cluster
    };
    let work = |version| {
        let mut work = given(version).work();
        work.metadata.creation_timestamp = serde_json::from_value(json!("2026-11-22T10:00:00Z")).unwrap();
        work
    };
    let is_unconfirmed = |index: &Index| slot(index).is_some_and(|view| view.unconfirmed);
    for (at, is_older) in [("2026-11-22T10:00:00Z", false), ("2026-11-22T10:00:01Z", true)] {
        let mut index = Index::default();
        let first = registered("2026-11-22T09:00:00Z");
        index.cluster(&Change::Applied(first.clone()));
        index.answered_work(&work(5), now());
        index.cluster(&Change::Deleted(first));
        index.mark_vanished("c1", Step::Operators, "w1", now());
        index.cluster(&Change::Applied(registered(at)));
        for version in [5, 6] {
            index.work(&Change::Applied(work(version)), now());
            assert_eq!(is_unconfirmed(&index), is_older);
        }
        index.answered_work(&work(6), now());
        index.work(&Change::Applied(work(7)), now());
        assert!(slot(&index).is_some() && !is_unconfirmed(&index), "it was read");
    }
    let mut index = Index::default();
    index.cluster(&Change::Applied(registered("2026-11-22T10:00:01Z")));
    index.listed_work(&work(5), now());
    index.work(&Change::Applied(work(6)), now());
    assert!(
        slot(&index).is_some() && !is_unconfirmed(&index),
        "a list is current"
    );
}

/// A write that would change nothing is answered with a version that is known. So what is known of an object must not depend on
/// when it was read.
#[test]
fn the_note_of_a_soak_is_read_as_it_is_although_it_is_in_the_future() {
    let began = now() + chrono::TimeDelta::hours(2);
    let mut work = given(5).work();
    let notes = work.metadata.annotations.get_or_insert_default();
    notes.insert(
        api::names::ANNOTATION_SOAK_STARTED_AT.to_owned(),
        api::time::to_rfc3339(began),
    );
    let mut index = Index::default();
    index.work(&Change::Applied(work), now());
    assert_eq!(slot(&index).unwrap().work.soak_started, Some(began));
}
