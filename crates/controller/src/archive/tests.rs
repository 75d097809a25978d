use api::names::{ANNOTATION_COMPLETED, ANNOTATION_UPGRADE_UID, Step};
use api::views::Report;
use observe::index::Change;
use resolve::works::{Templates, WorkFlags};
use rollout::testing::record;
use serde_json::{Value, json};

use super::*;
use crate::apply::{WriteError, WriteErrorKind};
use crate::fixture::{cluster, context, note, spec, work};
use crate::state::context::Context;

fn revision(spec: &Value) -> String {
    let spec = serde_json::from_value(spec.clone()).unwrap();
    Templates::new(&spec, &WorkFlags::default()).revision().to_owned()
}

/// An upgrade whose status says that it is complete.
fn object(version: u64, spec: &Value) -> Value {
    let completed = json!({
        "upgrade": "ns/u1", "revision": revision(spec), "time": "2026-05-28T11:00:00.000Z", "clusters": 2,
    });
    json!({
        "metadata": {
            "name": "u1", "namespace": "ns", "uid": "u1", "resourceVersion": version.to_string(), "generation": 1,
            "creationTimestamp": "2026-05-28T10:00:00Z", "finalizers": [api::names::FINALIZER],
            "annotations": {ANNOTATION_COMPLETED: completed.to_string(), ANNOTATION_UPGRADE_UID: "u1"},
        },
        "spec": spec,
        "status": {"observedGeneration": 1, "state": "Complete", "phases": {"Complete": 2}},
    })
}

fn two() -> Value {
    spec(&["c1", "c2"])
}

fn upgrade(value: Value) -> Upgrade {
    serde_json::from_value(value).unwrap()
}

fn row(cluster: &str, phase: &str) -> Value {
    json!({"cluster": cluster, "phase": phase, "since": "2026-05-28T11:00:00Z", "revision": revision(&two())})
}

fn report(version: u64, rows: &[Value]) -> Report {
    serde_json::from_value(json!({
        "metadata": {"name": "u1-report-1", "namespace": "ns", "resourceVersion": version.to_string(),
            "ownerReferences": [{
                "apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "ManagedClustersUpgrade",
                "name": "u1", "uid": "u1", "controller": true, "blockOwnerDeletion": true,
            }]},
        "rows": rows,
    }))
    .unwrap()
}

fn complete() -> Report {
    report(3, &[row("c1", "Complete"), row("c2", "Complete")])
}

/// A leader whose lists have delivered a finished upgrade with these reports.
fn led(reports: &[Report]) -> Context {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.apply_upgrade(upgrade(object(2, &two())));
        state.begin_term();
        for report in reports {
            state.observe_report(report, false, false, Utc::now());
        }
        state.owns_records = true;
    });
    context
}

fn later(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// What must be read after all due comparisons.
fn wanted(context: &Context) -> Vec<String> {
    context.with(|state| {
        state.pass_on_selection_changes();
        state.index.dirty.clear();
        state.compare_at = Instant::now();
        state.compare(later(10));
        let found = state.to_be_read(later(10));
        found.into_iter().flat_map(|one| one.reports).collect()
    })
}

fn archived(context: &Context) -> bool {
    context.with(|state| state.upgrades["u1"].archive.is_some())
}

fn index(context: &Context, change: impl FnOnce(&mut observe::index::Index)) {
    context.with(|state| change(&mut state.index));
}

fn labelled(name: &str, labels: &Value) -> api::views::ManagedCluster {
    let mut cluster = cluster(name);
    cluster.metadata.labels = serde_json::from_value(labels.clone()).unwrap();
    cluster
}

#[test]
fn of_a_finished_upgrade_counts_are_kept_and_no_records() {
    let context = led(&[complete()]);
    assert!(archived(&context) && wanted(&context).is_empty());
    context.with(|state| {
        let entry = &state.upgrades["u1"];
        let archive = entry.archive.as_ref().unwrap();
        assert_eq!((archive.rows(), archive.shard_count()), (2, 1));
        assert!(entry.rows.all().is_empty() && entry.selected.clusters.is_empty() && entry.spec.is_err());
        assert!(!entry.is_due() && state.archives_at(later(60)).is_none());
    });
}

#[test]
fn a_finished_upgrade_takes_over_nothing_that_one_of_its_name_left_once_it_is_compared() {
    let context = led(&[complete()]);
    assert!(archived(&context));
    let takes_over = |cluster: &str| context.with(|state| state.may_take_over("ns/u1", cluster));
    assert!(takes_over("c1"), "its records are not compared yet");
    assert!(wanted(&context).is_empty());
    assert!(!takes_over("c1"), "it is complete there");
    context.with(|state| {
        let archive = state.upgrades.get_mut("u1").unwrap().archive.as_mut().unwrap();
        archive.want(Instant::now());
    });
    assert!(takes_over("c1"), "it is to be read again");
    assert!(!takes_over("c3"), "which it does not select");
}

#[test]
fn a_finished_upgrade_is_not_looked_at_when_something_changes_that_does_not_select() {
    let context = led(&[complete()]);
    assert!(wanted(&context).is_empty());
    index(&context, |index| {
        let labels = json!({"openshiftVersion": "4.13.0"});
        index.cluster(&Change::Applied(labelled("c1", &labels)));
    });
    context.with(|state| {
        let due = state.due(chrono::Utc::now(), later(60), false);
        assert!(due.is_empty() && state.archives_at(later(60)).is_none());
    });
}

#[test]
fn a_finished_upgrade_is_read_again_when_its_records_say_something_else() {
    let half = report(3, &[row("c1", "Complete"), row("c2", "Pending")]);
    let newer = report(3, &[row("c1", "Complete"), row("c2", "Retired")]);
    let mut other = row("c2", "Complete");
    other["revision"] = json!("0123456789abcdef");
    let other = report(3, &[row("c1", "Complete"), other]);
    let short = report(3, &[row("c1", "Complete")]);
    for changed in [half, newer, other, short] {
        assert_eq!(wanted(&led(&[changed])), ["u1-report-1"]);
    }
    led(&[]).with(|state| {
        state.compare(later(10));
        assert_eq!(state.to_be_read(later(10)).len(), 1, "no report at all");
    });
}

#[test]
fn a_finished_upgrade_is_read_again_when_its_report_is_changed_or_removed() {
    let context = led(&[complete()]);
    assert!(wanted(&context).is_empty());
    context.with(|state| state.observe_report(&report(4, &[row("c1", "Complete")]), false, true, Utc::now()));
    assert_eq!(wanted(&context), ["u1-report-1"]);
    let context = led(&[complete()]);
    assert!(wanted(&context).is_empty());
    context.with(|state| {
        state.retain_reports(&ahash::AHashSet::new(), 9, true);
        state.compare_at = Instant::now();
        state.compare(later(60));
        assert_eq!(state.to_be_read(later(10)).len(), 1);
    });
}

#[test]
fn a_finished_upgrade_is_read_again_when_its_selection_changes() {
    let mut everything = two();
    everything["clusterSelector"] = json!({"matchLabels": {"site": "north"}});
    let joined = |key: &str| {
        let context = context(&[]);
        context.with(|state| {
            let north = json!({"site": "north"});
            for name in ["c1", "c2"] {
                state.index.cluster(&Change::Applied(labelled(name, &north)));
            }
            state.index.cluster(&Change::Applied(labelled("c3", &json!({}))));
            state.apply_upgrade(upgrade(object(2, &everything)));
            state.begin_term();
            let mut rows = [row("c1", "Complete"), row("c2", "Complete")];
            for row in &mut rows {
                row["revision"] = json!(revision(&everything));
            }
            state.observe_report(&report(3, &rows), false, false, Utc::now());
            state.owns_records = true;
        });
        assert!(wanted(&context).is_empty());
        index(&context, |index| {
            index.cluster(&Change::Applied(labelled("c3", &json!({key: "north"}))));
        });
        wanted(&context)
    };
    assert_eq!(joined("site"), ["u1-report-1"]);
    assert!(joined("zone").is_empty());
}

#[test]
fn a_finished_upgrade_is_read_again_when_a_work_carries_its_uid() {
    let context = led(&[complete()]);
    assert!(wanted(&context).is_empty());
    index(&context, |index| {
        let work = work("c1", Step::Platform, "u1", 7);
        index.work(&Change::Applied(work), chrono::Utc::now());
    });
    context.with(|state| {
        assert!(state.due(chrono::Utc::now(), later(60), false).is_empty());
        assert_eq!(state.to_be_read(later(10)).len(), 1);
    });
}

type Edit<'a> = &'a dyn Fn(&mut Value);
type Matter<'a> = (&'a str, &'a dyn Fn(&mut State));

#[test]
fn a_finished_upgrade_is_read_again_when_its_object_changes() {
    let spec_changed = |object: &mut Value| object["spec"]["paused"] = json!(true);
    let retried = |object: &mut Value| {
        object["metadata"]["annotations"][api::names::ANNOTATION_RETRY_FAILED] = json!("t1");
    };
    let deleted =
        |object: &mut Value| object["metadata"]["deletionTimestamp"] = json!("2026-05-28T12:00:00Z");
    let status_changed = |object: &mut Value| object["status"]["progress"] = json!("0/2");
    let labelled = |object: &mut Value| object["metadata"]["labels"] = json!({"a": "b"});
    let changes: [(Edit<'_>, bool); 5] = [
        (&spec_changed, true),
        (&retried, true),
        (&deleted, true),
        (&status_changed, true),
        (&labelled, false),
    ];
    for (number, (change, expected)) in changes.into_iter().enumerate() {
        let context = led(&[complete()]);
        assert!(wanted(&context).is_empty());
        let mut object = object(9, &two());
        change(&mut object);
        context.with(|state| state.apply_upgrade(upgrade(object)));
        assert_eq!(!wanted(&context).is_empty(), expected, "change {number}");
    }
}

#[test]
fn what_was_read_is_worked_on_with_all_its_records() {
    let context = led(&[complete()]);
    context.with(|state| {
        state.apply_upgrade(upgrade({
            let mut edited = object(9, &two());
            edited["spec"]["paused"] = json!(true);
            edited["metadata"]["generation"] = json!(2);
            edited
        }));
        assert_eq!(state.to_be_read(later(0)).len(), 1);
        assert!(state.to_be_read(later(0)).is_empty(), "once at a time");
        let read = |version| Some((upgrade(object(version, &two())), vec![complete()]));
        state.was_read("u1", read(8), later(0));
        assert!(
            state.upgrades["u1"].archive.is_some(),
            "that is older than what is known"
        );
        assert!(state.to_be_read(later(0)).is_empty(), "not again at once");
        assert_eq!(state.to_be_read(later(6)).len(), 1);
        state.was_read("u1", None, later(6));
        assert!(state.to_be_read(later(12)).is_empty(), "ever less often");
        assert_eq!(state.to_be_read(later(17)).len(), 1);
        state.was_read("u1", read(9), later(17));
        let entry = &state.upgrades["u1"];
        assert!(entry.archive.is_none() && entry.dirty && entry.spec.is_ok());
        assert_eq!(entry.rows.all().len(), 2);
        assert!(entry.rows.all().values().all(|row| row.written.is_some()));
    });
}

#[test]
fn a_report_that_changed_while_it_was_read_is_read_again() {
    let context = led(&[report(3, &[row("c1", "Complete")])]);
    assert_eq!(wanted(&context).len(), 1);
    context.with(|state| {
        state.observe_report(&report(5, &[row("c1", "Pending")]), false, true, Utc::now());
        let read = Some((
            upgrade(object(2, &two())),
            vec![report(3, &[row("c1", "Complete")])],
        ));
        state.was_read("u1", read, later(0));
        assert!(state.upgrades["u1"].archive.is_some());
    });
}

/// A leader with an upgrade in memory that is complete and has nothing left to do.
fn resting() -> Context {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.apply_upgrade(upgrade(object(2, &two())));
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.refresh_selection(&state.index, false);
        for name in ["c1", "c2"] {
            let mut record: rollout::Record = record(rollout::Phase::Complete).into();
            record.attempt.revision = Arc::from(revision(&two()));
            note(entry, name, record);
        }
        crate::fixture::write(entry);
        entry.dirty = false;
        entry.last_reconcile = Some((Instant::now(), Duration::ZERO));
    });
    context
}

#[test]
fn an_upgrade_that_is_complete_and_at_rest_is_archived() {
    let context = resting();
    context.with(|state| {
        state.archive_at_rest(later(4));
        assert!(state.upgrades["u1"].archive.is_none(), "not at once");
        state.archive_at_rest(later(6));
        let archive = state.upgrades["u1"].archive.as_ref().unwrap();
        assert_eq!(archive.rows(), 2);
    });
    assert!(wanted(&context).is_empty());
}

#[test]
fn an_upgrade_with_something_left_to_do_is_not_archived() {
    let at = chrono::Utc::now();
    let c1: Arc<str> = Arc::from("c1");
    let matters: [Matter<'_>; 9] = [
        ("a change", &|state| {
            state.upgrades.get_mut("u1").unwrap().dirty = true;
        }),
        ("a time to wake", &|state| {
            state.upgrades.get_mut("u1").unwrap().wake_at = Some(at);
        }),
        ("a write", &|state| {
            state.upgrades.get_mut("u1").unwrap().begin(&c1, None);
        }),
        ("a failed write", &|state| {
            let entry = state.upgrades.get_mut("u1").unwrap();
            entry.fail(&c1, at, &WriteError::new(WriteErrorKind::Broken, "no"));
        }),
        ("a cluster to check again", &|state| {
            state
                .upgrades
                .get_mut("u1")
                .unwrap()
                .record_missing_namespace(&c1, at);
        }),
        ("a clock that is wrong", &|state| {
            state.upgrades.get_mut("u1").unwrap().skew = Some(chrono::TimeDelta::seconds(40));
        }),
        ("a status to write", &|state| {
            let status = api::ManagedClustersUpgradeStatus::default();
            let entry = state.upgrades.get_mut("u1").unwrap();
            entry.status.set(status, rollout::testing::at(0));
        }),
        ("a record to write", &|state| {
            let entry = state.upgrades.get_mut("u1").unwrap();
            note(entry, "c2", record(rollout::Phase::Complete));
        }),
        ("a work", &|state| {
            let work = work("c1", Step::Platform, "u1", 7);
            state.index.work(&Change::Applied(work), at);
        }),
    ];
    for (what, make) in matters {
        let context = resting();
        context.with(|state| {
            make(state);
            state.archive_at_rest(later(6));
            assert!(state.upgrades["u1"].archive.is_none(), "{what}");
        });
    }
}

#[test]
fn an_upgrade_that_an_earlier_release_finished_is_read_once_to_note_that() {
    let bare = || {
        let mut bare = object(2, &two());
        bare["metadata"]["annotations"] = json!({});
        upgrade(bare)
    };
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.begin_term();
        state.apply_upgrade(bare());
        state.observe_report(&complete(), false, false, Utc::now());
        state.owns_records = true;
        state.compare(later(1));
        assert!(state.upgrades["u1"].archive.is_some() && state.oldest_unresolved(later(1)).is_none());
        assert_eq!(state.to_be_read(later(1)).len(), 1);
        state.was_read("u1", Some((bare(), vec![complete()])), later(1));
        let entry = state.upgrades.get_mut("u1").unwrap();
        assert!(entry.archive.is_none());
        entry.dirty = false;
        entry.last_reconcile = Some((later(1), Duration::ZERO));
        state.archive_at_rest(later(10));
        assert!(
            state.upgrades["u1"].archive.is_none(),
            "the note is not written yet"
        );
    });
}

#[test]
fn a_finished_upgrade_whose_status_an_earlier_release_wrote_is_read_once_to_write_the_whole_one() {
    for (phases, number) in [(json!({"Complete": 2}), 0), (json!({}), 1)] {
        let context = context(&["c1", "c2"]);
        context.with(|state| {
            let mut object = object(2, &two());
            object["status"]["phases"] = phases;
            state.begin_term();
            state.apply_upgrade(upgrade(object));
            state.observe_report(&complete(), false, false, Utc::now());
            state.owns_records = true;
            state.compare(later(1));
            assert_eq!(state.to_be_read(later(1)).len(), number);
        });
    }
}

#[test]
fn a_few_finished_upgrades_at_a_time_are_in_memory_to_be_noted() {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.begin_term();
        for number in 0..20 {
            let mut bare = object(2, &two());
            bare["metadata"]["annotations"] = json!({});
            bare["metadata"]["name"] = json!(format!("u{number}"));
            bare["metadata"]["uid"] = json!(format!("u{number}"));
            state.apply_upgrade(upgrade(bare));
        }
        let first = state.to_be_read(later(0));
        assert_eq!(first.len(), READS);
        for one in first {
            let mut read = object(2, &two());
            read["metadata"]["name"] = json!(&*one.name);
            read["metadata"]["uid"] = json!(&*one.uid);
            state.was_read(&one.uid, Some((upgrade(read), Vec::new())), later(0));
        }
        assert!(state.to_be_read(later(1)).is_empty(), "those are not at rest yet");
        assert_eq!(state.to_be_read(later(6)).len(), READS);
    });
}

#[test]
fn younger_upgrades_wait_until_it_is_known_whether_an_archived_one_goes_on_but_not_for_ever() {
    let context = led(&[complete()]);
    context.with(|state| {
        let mut younger = object(5, &two());
        for (field, value) in [
            ("name", "u2"),
            ("uid", "u2"),
            ("creationTimestamp", "2026-05-29T10:00:00Z"),
        ] {
            younger["metadata"][field] = json!(value);
        }
        younger["status"] = Value::Null;
        state.apply_upgrade(upgrade(younger));
        let due = |state: &mut State, at: Instant| {
            let due = state.due(chrono::Utc::now(), at, false);
            due.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(
            due(state, later(1)).is_empty(),
            "the records of the older one were not compared yet"
        );
        state.compare(later(1));
        assert_eq!(due(state, later(1)), ["u2"]);
        let mut edited = object(9, &two());
        edited["metadata"]["generation"] = json!(2);
        state.apply_upgrade(upgrade(edited));
        assert!(
            due(state, later(2)).is_empty(),
            "the older one may want its clusters"
        );
        assert!(state.archives_at(later(2)).is_some());
        assert_eq!(state.to_be_read(later(2)).len(), 1);
        let next = state.next(chrono::Utc::now(), later(2), false);
        assert!(
            next > later(5),
            "nothing is to be done until it was read, or the wait is over"
        );
        assert_eq!(due(state, later(12)), ["u2"]);
    });
}

#[test]
fn a_follower_archives_what_becomes_complete() {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.end_term();
        let mut running = object(2, &two());
        running["status"] = json!({"observedGeneration": 1, "state": "Running"});
        state.apply_upgrade(upgrade(running));
        state.observe_report(&complete(), false, false, Utc::now());
        assert!(state.upgrades["u1"].archive.is_none());
        state.apply_upgrade(upgrade(object(4, &two())));
        assert_eq!(state.upgrades["u1"].archive.as_ref().unwrap().rows(), 2);
    });
}

#[test]
fn a_finished_upgrade_of_a_namespace_that_is_not_served_is_read_again_when_it_goes_on() {
    let context = led(&[complete()]);
    context.with(|state| state.settings.namespaces = vec![Arc::from("elsewhere")]);
    assert!(wanted(&context).is_empty());
    context.with(|state| {
        let mut edited = object(9, &two());
        edited["metadata"]["generation"] = json!(2);
        state.apply_upgrade(upgrade(edited));
        assert_eq!(state.to_be_read(later(10)).len(), 1);
    });
}

#[test]
fn evidence_of_a_work_that_is_gone_keeps_nothing_in_memory() {
    let context = resting();
    context.with(|state| {
        let mut gone = crate::fixture::finished("c1", "u1", 7);
        state
            .index
            .work(&Change::Applied(gone.clone()), chrono::Utc::now());
        state.archive_at_rest(later(6));
        assert!(state.upgrades["u1"].archive.is_none());
        gone.metadata.resource_version = Some("8".to_owned());
        state.index.work(&Change::Deleted(gone), chrono::Utc::now());
        state.archive_at_rest(later(6));
        assert!(state.upgrades["u1"].archive.is_some());
    });
}

#[test]
fn a_finished_upgrade_is_read_again_when_a_cluster_that_left_it_is_deleted() {
    let mut left = row("c2", "Complete");
    left["leftSelection"] = json!(true);
    let mut one = object(2, &spec(&["c1"]));
    let revised = |row: &mut Value| row["revision"] = json!(revision(&spec(&["c1"])));
    let mut first = row("c1", "Complete");
    revised(&mut first);
    one["metadata"]["resourceVersion"] = json!("2");
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.begin_term();
        state.apply_upgrade(upgrade(one));
        state.observe_report(&report(3, &[first, left]), false, false, Utc::now());
        state.owns_records = true;
    });
    assert!(wanted(&context).is_empty());
    index(&context, |index| index.cluster(&Change::Deleted(cluster("c2"))));
    assert_eq!(wanted(&context), ["u1-report-1"]);
}

#[test]
fn clusters_that_left_an_upgrade_are_known_after_it_was_archived() {
    let context = context(&["c1", "c2"]);
    context.with(|state| {
        state.apply_upgrade(upgrade(object(2, &two())));
        let entry = state.upgrades.get_mut("u1").unwrap();
        entry.former.insert(Arc::from("c3"));
        state.begin_term();
        let entry = &state.upgrades["u1"];
        assert!(entry.archive.is_some() && entry.former.contains("c3"));
    });
}

#[test]
fn what_a_follower_archived_is_counted_anew_in_each_term() {
    let context = led(&[complete()]);
    context.with(|state| {
        state.end_term();
        state.begin_term();
        assert_eq!(state.upgrades["u1"].archive.as_ref().unwrap().rows(), 0);
        state.observe_report(&complete(), false, false, Utc::now());
        state.owns_records = true;
    });
    assert!(wanted(&context).is_empty());
}

mod at_work;
mod late;
mod probes;
mod told;
mod versions;
