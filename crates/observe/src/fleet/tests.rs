use api::names::{ANNOTATION_OWNER, ANNOTATION_REVISION, ANNOTATION_STARTED_AT};
use rollout::testing::{RecordBuilder, at, first_attempt, record};
use rollout::{Attempt, Busy, Phase};

use super::*;
use crate::fixture::{TestUpgrade, upgrade};
use crate::index::Change;
use crate::preflight::{Asker, Questions};
use crate::testing::{claimed, finished, index, reporting, work};
use crate::writes::{BlockerKind, Forbidden, LastReading, RunningWrites, Unsettled};

mod registered_anew;

fn observed(entry: &TestUpgrade, index: &mut Index) -> Fleet {
    entry.observe(&[], index, at(0)).fleet
}

fn names(fleet: &Fleet) -> Vec<&str> {
    fleet.clusters.iter().map(|cluster| &*cluster.name).collect()
}

fn one(fleet: &Fleet, name: &str) -> Cluster {
    let found = fleet.clusters.iter().find(|cluster| *cluster.name == *name);
    found.unwrap().clone()
}

#[test]
fn the_fleet_is_the_union_of_selection_and_records_by_name() {
    let mut index = index(&["a", "b", "c", "d"]);
    let mut entry = upgrade("mine", &["b", "d"], &index);
    entry.note("c", record(Phase::Partial));
    index.work(&Change::Applied(work("a", Step::Platform, "mine", 5)), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "mine", 6)), at(0));
    let Observation { fleet, unaccounted } = entry.observe(&[], &mut index, at(0));
    assert_eq!(names(&fleet), ["b", "c", "d"]);
    assert_eq!(unaccounted, ["a".into()], "a work alone draws no cluster in");
    let selected: Vec<bool> = fleet
        .clusters
        .iter()
        .map(|cluster| cluster.selection == Selection::In)
        .collect();
    assert_eq!(selected, [true, false, true]);
    assert_eq!(
        one(&fleet, "b").step_work(Step::Platform).ours().unwrap().attempt,
        Attempt {
            revision: Arc::from("r1"),
            retry: Arc::from("")
        }
    );
}

#[test]
fn a_work_with_another_upgrades_uid_and_not_its_owner_is_not_taken_over() {
    let mut index = index(&["a", "b"]);
    let other = upgrade("other", &[], &index);
    let entry = upgrade("mine", &["a", "b"], &index);
    let mut forged = work("a", Step::Platform, "other", 5);
    let notes = forged.metadata.annotations.as_mut().unwrap();
    notes.insert(ANNOTATION_OWNER.to_owned(), "strangers/work".to_owned());
    index.work(&Change::Applied(forged), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "other", 6)), at(0));
    let fleet = entry.observe(&[other], &mut index, at(0)).fleet;
    let step = |name: &str| one(&fleet, name).step_work(Step::Platform).clone();
    assert!(matches!(step("a"), StepWork::Foreign { .. }), "{:?}", step("a"));
    assert_eq!(step("b"), StepWork::Rival { terminating: false });
}

#[test]
fn a_work_with_our_uid_and_another_owner_is_not_ours() {
    let mut index = index(&["a", "b"]);
    let entry = upgrade("mine", &["a", "b"], &index);
    let mut forged = work("a", Step::Platform, "mine", 5);
    let notes = forged.metadata.annotations.as_mut().unwrap();
    notes.insert(ANNOTATION_OWNER.to_owned(), "ns/other".to_owned());
    index.work(&Change::Applied(forged), at(0));
    index.work(&Change::Applied(work("b", Step::Platform, "mine", 6)), at(0));
    let fleet = observed(&entry, &mut index);
    assert_eq!(*one(&fleet, "a").step_work(Step::Platform), StepWork::Absent);
    assert!(one(&fleet, "b").step_work(Step::Platform).ours().is_some());
}

#[test]
fn a_work_with_another_owner_is_not_ours_even_if_its_attempt_cannot_be_read() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["a", "b"], &index);
    for (cluster, owner) in [("a", "strangers/other"), ("b", "ns/mine")] {
        let mut changed = work(cluster, Step::Platform, "mine", 5);
        let notes = changed.metadata.annotations.as_mut().unwrap();
        notes.insert(ANNOTATION_OWNER.to_owned(), owner.to_owned());
        notes.insert(ANNOTATION_REVISION.to_owned(), "f".repeat(300));
        index.work(&Change::Applied(changed), at(0));
    }
    for is_deleting in [false, true] {
        entry.is_deleting = is_deleting;
        let fleet = observed(&entry, &mut index);
        assert_eq!(*one(&fleet, "a").step_work(Step::Platform), StepWork::Absent);
        assert!(one(&fleet, "b").step_work(Step::Platform).is_unreadable());
    }
}

#[test]
fn the_version_is_what_the_platform_work_reports_else_what_one_reported_last_else_the_claim() {
    let mut index = index(&[]);
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    let entry = upgrade("mine", &["a"], &index);
    let mut version = |change: Option<Change<_>>| {
        if let Some(change) = change {
            index.work(&change, at(0));
        }
        one(&observed(&entry, &mut index), "a").version.to_string()
    };
    let old = |version| work("a", Step::Platform, "older", version);
    assert_eq!(version(None), "4.14.9");
    assert_eq!(
        version(Some(Change::Applied(reporting(old(5), "4.14.13")))),
        "4.14.13"
    );
    assert_eq!(
        version(Some(Change::Deleted(reporting(old(6), "4.14.13")))),
        "4.14.13"
    );
    let mine = work("a", Step::Platform, "mine", 7);
    assert_eq!(version(Some(Change::Applied(mine))), "4.14.13", "no feedback yet");
    let mine = reporting(work("a", Step::Platform, "mine", 8), "4.14.14");
    assert_eq!(version(Some(Change::Applied(mine))), "4.14.14");
}

#[test]
fn what_a_work_reported_last_is_not_forgotten_by_a_clock_that_is_not_trusted() {
    let mut index = index(&[]);
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    let mut entry = upgrade("mine", &["a"], &index);
    let seen = |version| reporting(work("a", Step::Platform, "older", version), "4.14.13");
    index.work(&Change::Applied(seen(5)), at(0));
    index.work(&Change::Deleted(seen(6)), at(0));
    let mut version_in_two_days = |clock_trusted| {
        for (time, clock_trusted) in [(at(60), true), (at(2 * 86_400), clock_trusted)] {
            let asker = Asker {
                uid: "mine",
                key: "ns/mine",
                agents_can_read: true,
                clock_trusted,
                rate: 0,
            };
            entry
                .preflights
                .refresh(&Questions::default(), asker, &index, time);
        }
        let fleet = entry.observe(&[], &mut index, at(2 * 86_400)).fleet;
        one(&fleet, "a").version.to_string()
    };
    assert_eq!(version_in_two_days(false), "4.14.13");
    assert_eq!(version_in_two_days(true), "4.14.9");
}

#[test]
fn what_a_work_reports_that_is_older_than_its_cluster_does_not_outweigh_a_newer_claim() {
    let mut index = index(&[]);
    let mut registered = claimed("a", "4.14.15");
    registered.metadata.creation_timestamp = created("2026-05-28T11:00:00Z");
    index.cluster(&Change::Applied(registered));
    let entry = upgrade("mine", &["a"], &index);
    let mut version = |number, since: &str, reported: &str| {
        let mut seen = reporting(work("a", Step::Platform, "mine", number), reported);
        seen.metadata.creation_timestamp = created(since);
        index.listed_work(&seen, at(0));
        one(&observed(&entry, &mut index), "a").version.to_string()
    };
    let earlier = "2026-05-28T10:59:59Z";
    assert_eq!(version(5, earlier, "4.14.9"), "4.14.15", "of an earlier life");
    assert_eq!(version(6, earlier, "4.14.16"), "4.14.16", "the claim may be late");
    let later = "2026-05-28T11:00:00Z";
    assert_eq!(version(7, later, "4.14.9"), "4.14.9", "of this registration");
}

#[test]
fn the_newest_of_report_claim_and_memory_counts() {
    let mut index = index(&[]);
    index.cluster(&Change::Applied(claimed("a", "4.14.15")));
    let entry = upgrade("mine", &["a"], &index);
    let mut versions = |reported: &str, number| {
        let mine = reporting(work("a", Step::Platform, "mine", number), reported);
        index.work(&Change::Applied(mine), at(0));
        let cluster = one(&observed(&entry, &mut index), "a");
        (cluster.version.to_string(), cluster.newest_version.to_string())
    };
    let pair = |reported: &str, newest: &str| (reported.to_owned(), newest.to_owned());
    assert_eq!(versions("4.14.9", 5), pair("4.14.9", "4.14.15"));
    assert_eq!(versions("4.14.16", 6), pair("4.14.16", "4.14.16"));
    assert_eq!(
        versions("latest", 7),
        pair("latest", "4.14.16"),
        "it told that before"
    );
}

#[test]
fn the_last_claim_counts_while_there_is_none_that_is_a_version() {
    let mut index = index(&[]);
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    let entry = upgrade("mine", &["a"], &index);
    let mut version = |claim: &str| {
        index.cluster(&Change::Applied(claimed("a", claim)));
        one(&observed(&entry, &mut index), "a").version.to_string()
    };
    assert_eq!(version("4.14.13"), "4.14.13");
    for claim in ["nonsense", "", "4.14"] {
        assert_eq!(version(claim), "4.14.13", "{claim:?}");
    }
    assert_eq!(
        version("4.14.12"),
        "4.14.12",
        "somebody has taken the cluster back"
    );
    assert_eq!(version("nonsense"), "4.14.12");
}

#[test]
fn a_cluster_that_comes_back_has_not_left() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    entry.left.insert(Arc::from("a"), at(0));
    let fleet = observed(&entry, &mut index);
    assert_eq!(one(&fleet, "a").selection, Selection::In);
    let left = |cluster: &Cluster| matches!(cluster.selection, Selection::Left(_));
    assert!(!fleet.clusters.iter().any(left));
}

#[test]
fn what_the_controller_knows_of_its_writes_reaches_the_planner() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    let name: Arc<str> = Arc::from("a");
    let attempt = first_attempt();
    let writes = RunningWrites {
        count: 2,
        starting: Some(attempt.clone()),
    };
    entry.running.insert(Arc::clone(&name), writes);
    let until = |second| {
        Some(Forbidden {
            first: at(0),
            last: at(second),
        })
    };
    let backoff = Backoff {
        until: at(5),
        failures: 7,
        text: Arc::from("forbidden"),
        uncertain: false,
        start_forbidden: until(60),
        deletion_forbidden: until(59),
    };
    entry.backoff.insert(Arc::clone(&name), backoff);
    let unsettled = [Step::Platform, Step::Operators].map(|step| Unsettled {
        step,
        attempt: attempt.clone(),
        created: None,
        given_up: None,
    });
    entry.unsettled.insert(Arc::clone(&name), unsettled.into());
    let reading = LastReading {
        step: Step::Operators,
        asked: at(1),
        answered: at(2),
    };
    entry.readings.insert(Arc::clone(&name), reading);
    entry.block("a", Step::PreAction, BlockerKind::Refused(Arc::from("no")));
    entry.block("a", Step::Operators, BlockerKind::ForeignTerminating);
    index.work(&Change::Applied(work("a", Step::Platform, "mine", 5)), at(0));
    let cluster = one(&entry.observe(&[], &mut index, at(62)).fleet, "a");
    assert_eq!(cluster.busy, Some(Busy::Starting));
    let backoff = cluster.backoff.clone().unwrap();
    assert_eq!(
        (
            backoff.until,
            &*backoff.error,
            backoff.lasting,
            backoff.deletion_lasting
        ),
        (at(5), "forbidden", true, false)
    );
    assert_eq!(
        (cluster.unsettled, cluster.late),
        (Some(Step::Operators), Some(Step::Platform)),
        "the platform work exists, and a late creation may bring it back"
    );
    assert_eq!(cluster.read, Some((Step::Operators, at(1))));
    let refused = StepWork::Refused {
        retry_at: at(30),
        message: Arc::from("no"),
    };
    assert_eq!(*cluster.step_work(Step::PreAction), refused);
    let foreign = StepWork::ForeignTerminating { retry_at: at(30) };
    assert_eq!(*cluster.step_work(Step::Operators), foreign);
    assert!(cluster.step_work(Step::Platform).ours().is_some());
    let later = one(&entry.observe(&[], &mut index, at(63)).fleet, "a");
    assert_eq!(later.read, None, "an old result");
}

/// Otherwise the work of the second one would be deleted, and come back.
#[test]
fn every_step_whose_creation_may_still_be_carried_out_is_told() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    for (step, version) in [(Step::PreAction, 5), (Step::Platform, 6), (Step::Operators, 7)] {
        index.work(&Change::Applied(work("a", step, "mine", version)), at(0));
    }
    let attempt = index.work_of("a", Step::Platform).unwrap().work.attempt.clone();
    let unsettled = [Step::PreAction, Step::Platform, Step::Operators].map(|step| Unsettled {
        step,
        attempt: attempt.clone(),
        created: Some(attempt.clone()),
        given_up: None,
    });
    entry.unsettled.insert(Arc::from("a"), unsettled.into());
    let cluster = one(&observed(&entry, &mut index), "a");
    for step in [Step::PreAction, Step::Platform, Step::Operators] {
        assert!(cluster.may_come_back(step), "{step}");
    }
    assert!(!cluster.may_come_back(Step::PostAction));
}

#[test]
fn a_start_in_doubt_is_awaited_before_one_that_runs_unless_it_takes_no_slot() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    let name: Arc<str> = Arc::from("a");
    let [earlier, present, next] = ["r0", "r1", "r2"].map(|revision| Attempt {
        revision: Arc::from(revision),
        ..first_attempt()
    });
    let writes = RunningWrites {
        count: 1,
        starting: Some(next.clone()),
    };
    entry.running.insert(Arc::clone(&name), writes);
    let mut awaited = |step: Step, created: Option<&Attempt>| {
        let unsettled = Unsettled {
            step,
            attempt: present.clone(),
            created: created.cloned(),
            given_up: None,
        };
        entry.unsettled.insert(Arc::clone(&name), vec![unsettled]);
        one(&observed(&entry, &mut index), "a").awaited_attempt
    };
    assert_eq!(awaited(Step::Platform, Some(&earlier)), Some(earlier.clone()));
    assert_eq!(
        awaited(Step::Platform, None),
        Some(next.clone()),
        "a change creates nothing"
    );
    assert_eq!(awaited(Step::PostAction, Some(&earlier)), Some(next));
}

#[test]
fn a_row_of_a_cluster_that_left_says_whether_it_is_a_canary() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["b"], &index);
    entry.note("a", record(Phase::Partial));
    entry.note("b", record(Phase::Partial));
    for row in entry.rows.values_mut() {
        row.canary = true;
    }
    let fleet = observed(&entry, &mut index);
    assert!(one(&fleet, "a").canary);
    assert!(!one(&fleet, "b").canary, "the selection decides");
}

#[test]
fn a_cluster_whose_row_may_be_unreadable_is_blocked() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &["a", "b"], &index);
    entry.is_incomplete = true;
    entry.note("b", record(Phase::Pending));
    let fleet = observed(&entry, &mut index);
    let Eligibility::Blocked { reason, .. } = one(&fleet, "a").eligibility else {
        panic!("{fleet:?}");
    };
    assert_eq!(reason, Reason::UnreadableRecord);
    assert_eq!(one(&fleet, "b").eligibility, Eligibility::Eligible);
}

#[test]
fn a_work_that_is_in_the_way_outweighs_what_is_left_of_a_vanished_one() {
    for upgrade_of_work in ["mine", "other"] {
        let mut index = index(&["a"]);
        let mut entry = upgrade("mine", &["a"], &index);
        let done = finished("a", upgrade_of_work, 5);
        index.work(&Change::Applied(done.clone()), at(0));
        index.work(&Change::Deleted(done), at(0));
        assert!(index.work_of("a", Step::Operators).unwrap().work.vanished);
        entry.block("a", Step::Operators, BlockerKind::Foreign);
        let found = one(&observed(&entry, &mut index), "a");
        assert_eq!(
            *found.step_work(Step::Operators),
            StepWork::Foreign { retry_at: at(30) }
        );
    }
}

#[test]
fn what_is_left_of_a_vanished_work_counts_no_more_once_its_cluster_was_dropped() {
    let mut index = index(&["a"]);
    let entry = upgrade("mine", &["a"], &index);
    let done = finished("a", "mine", 5);
    index.work(&Change::Applied(done.clone()), at(0));
    index.work(&Change::Deleted(done), at(0));
    for (dropped_by, is_left) in [("other", true), ("mine", false)] {
        index.forget_vanished("a", dropped_by);
        let found = one(&observed(&entry, &mut index), "a");
        assert_eq!(*found.step_work(Step::Operators) != StepWork::Absent, is_left);
    }
}

/// A replica that did not lead saw the work go. Since then the leader has begun the same attempt anew, because an edit was taken back.
#[test]
fn what_is_left_of_a_vanished_work_proves_nothing_to_a_row_that_is_later_and_does_not_tell_of_it() {
    // The work names ten o'clock as its start.
    let since = |time: &str, told: bool| {
        let mut index = index(&["a"]);
        let mut entry = upgrade("mine", &["a"], &index);
        let done = finished("a", "mine", 5);
        index.work(&Change::Applied(done.clone()), at(0));
        index.work(&Change::Deleted(done), at(0));
        let mut row = Record::from(record(Phase::Initialized));
        row.since = time.parse().unwrap();
        if told {
            let started = "2026-05-28T10:00:00Z".parse::<DateTime<Utc>>().unwrap();
            let stage = record(Phase::Operators).stage(Stage::Operators, (started - at(0)).num_seconds());
            row.stages = Record::from(stage).stages;
        }
        entry.note("a", row);
        let found = one(&observed(&entry, &mut index), "a");
        found.step_work(Step::Operators).clone()
    };
    let is_left = |time: &str, told: bool| matches!(since(time, told), StepWork::Ours(_));
    assert!(is_left("2026-05-28T09:50:00Z", false), "it began in this phase");
    assert!(
        is_left("2026-05-28T10:00:59Z", false),
        "clocks of two leaders differ"
    );
    assert!(
        is_left("2026-05-28T10:30:00Z", true),
        "the row tells of its start"
    );
    assert_eq!(since("2026-05-28T10:30:00Z", false), StepWork::Absent);
}

#[test]
fn a_cluster_whose_namespace_is_missing_is_gone_for_a_while() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    entry.note("b", record(Phase::Partial));
    let fleet = observed(&entry, &mut index);
    assert!(!one(&fleet, "a").gone);
    assert!(one(&fleet, "b").gone, "it has no ManagedCluster");
    entry.missing.insert(Arc::from("a"), at(0));
    assert!(one(&observed(&entry, &mut index), "a").gone);
    let later = entry.observe(&[], &mut index, at(0) + MISSING_RETRY).fleet;
    assert!(!one(&later, "a").gone);
}

#[test]
fn an_upgrade_that_is_deleted_also_sees_clusters_that_left_while_this_process_ran() {
    let mut index = index(&["a", "b"]);
    let mut entry = upgrade("mine", &[], &index);
    entry.former.insert(Arc::from("b"));
    for (cluster, version) in [("a", 5), ("b", 6)] {
        let work = work(cluster, Step::PreAction, "mine", version);
        index.work(&Change::Applied(work), at(0));
    }
    assert_eq!(entry.observe(&[], &mut index, at(0)).unaccounted.len(), 2);
    entry.is_deleting = true;
    let observation = entry.observe(&[], &mut index, at(0));
    assert_eq!(names(&observation.fleet), ["b"]);
    assert_eq!(observation.unaccounted, ["a".into()]);
}

#[test]
fn a_work_whose_annotations_are_not_ours_tells_no_attempt_and_blocks_its_cluster() {
    let long = "a".repeat(65);
    for (key, value) in [
        ("upgrade-revision", long.as_str()),
        ("upgrade-revision", ""),
        ("upgrade-revision", "not a hash"),
        ("upgrade-retry", &"t".repeat(257)),
        ("upgrade-step-hash", &long),
        ("upgrade-target-version", "4.12\u{1b}[2J"),
        ("upgrade-target-version", &"4".repeat(129)),
    ] {
        let mut index = index(&["c1"]);
        let mut spoiled = work("c1", Step::Platform, "u1", 7);
        let name = ALL_ANNOTATIONS.iter().find(|name| name.ends_with(key)).unwrap();
        let notes = spoiled.metadata.annotations.as_mut().unwrap();
        notes.insert((*name).to_owned(), value.to_owned());
        index.work(&Change::Applied(spoiled), at(0));
        let entry = upgrade("u1", &["c1"], &index);
        let fleet = observed(&entry, &mut index);
        let cluster = one(&fleet, "c1");
        assert!(
            matches!(cluster.step_work(Step::Platform), StepWork::Unreadable { what, terminating: false } if what.contains(key)),
            "{key}={value}: {:?}",
            cluster.works
        );
    }
}

/// The annotations that identify the attempt of a work.
const ALL_ANNOTATIONS: [&str; 4] = [
    api::names::ANNOTATION_REVISION,
    api::names::ANNOTATION_ATTEMPT,
    api::names::ANNOTATION_STEP_HASH,
    api::names::ANNOTATION_TARGET_VERSION,
];

#[test]
fn the_work_of_a_step_that_was_created_again_has_the_start_of_the_record_and_no_other_early_one() {
    let mut index = index(&["a"]);
    let mut entry = upgrade("mine", &["a"], &index);
    let seconds = |text: &str| (at_text(text) - at(0)).num_seconds();
    let (eight, nine) = ("2026-05-28T08:00:00Z", "2026-05-28T09:00:00Z");
    let mut again = work("a", Step::PreAction, "mine", 5);
    again.metadata.creation_timestamp = created(nine);
    let notes = again.metadata.annotations.as_mut().unwrap();
    notes.insert(ANNOTATION_STARTED_AT.to_owned(), eight.to_owned());
    index.work(&Change::Applied(again), at(0));
    let mut start = |recorded: &str| {
        let row = record(Phase::PreAction).stage(Stage::PreAction, seconds(recorded));
        entry.note("a", row);
        let fleet = observed(&entry, &mut index);
        one(&fleet, "a")
            .step_work(Step::PreAction)
            .ours()
            .unwrap()
            .started
    };
    assert_eq!(start(eight), at_text(eight));
    let before_creation = at_text("2026-05-28T08:59:00Z");
    assert_eq!(start("2026-05-28T07:00:00Z"), before_creation);
}

#[test]
fn a_row_tells_nothing_of_a_cluster_that_was_registered_since_and_has_begun_its_step_anew() {
    let told = |registered: &str, begun: Option<&str>, row: RecordBuilder| {
        let mut index = index(&[]);
        let mut cluster = crate::testing::cluster("a");
        cluster.metadata.creation_timestamp = created(registered);
        index.cluster(&Change::Applied(cluster));
        let mut entry = upgrade("mine", &["a"], &index);
        if let Some(begun) = begun {
            let mut seen = work("a", Step::Platform, "mine", 5);
            seen.metadata.creation_timestamp = created(begun);
            index.work(&Change::Applied(seen), at(0));
        }
        entry.note("a", row);
        entry.write();
        let fleet = observed(&entry, &mut index);
        assert!(one(&fleet, "a").written.is_some());
        one(&fleet, "a").record.is_some()
    };
    let (nine, half_past, eight) = (
        "2026-05-28T09:00:00Z",
        "2026-05-28T09:30:00Z",
        "2026-05-28T08:00:00Z",
    );
    let complete = || record(Phase::Complete).succeeded(Stage::Platform, 0);
    assert!(!told(nine, Some(half_past), complete()));
    assert!(told(nine, None, complete()), "nothing has begun since");
    assert!(told(nine, Some(eight), complete()), "it has begun before");
    assert!(
        told("2020-01-01T00:00:00Z", Some(half_past), complete()),
        "it was registered before"
    );
    assert!(
        told(nine, Some(half_past), complete().revision("r0")),
        "another attempt"
    );
    let same = (at_text("2026-05-28T10:00:00Z") - at(0)).num_seconds();
    let same = record(Phase::Partial).stage(Stage::Platform, same);
    assert!(told(nine, Some(half_past), same), "it is of this registration");
    let noon = "2026-05-28T12:00:00Z";
    assert!(
        told(nine, Some(noon), complete()),
        "it may have been created again with its start"
    );
}

fn at_text(text: &str) -> chrono::DateTime<chrono::Utc> {
    text.parse().unwrap()
}

fn created<T: serde::de::DeserializeOwned>(at: &str) -> Option<T> {
    serde_json::from_value(serde_json::json!(at)).unwrap()
}
