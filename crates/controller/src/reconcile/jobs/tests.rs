use std::time::Instant;

use api::maintenance::Zone;
use api::names::{
    ANNOTATION_RELEASE_IMAGE, ANNOTATION_REPLACES, ANNOTATION_STEP_HASH, ANNOTATION_TARGET_VERSION,
};
use chrono::TimeDelta;
use observe::index::{Change, Index};
use rollout::maintenance::{Calendar, Window};
use rollout::testing::{at, fleet};

use super::*;
use crate::fixture::{index, work};

/// The storage of the hub may have gone back to a time before the step was over. Then its work has another version.
#[test]
fn only_a_deletion_that_stops_a_step_is_for_any_version_of_its_work() {
    let mut index = index(&["c1"]);
    let entry = crate::fixture::upgrade("u1", &["c1"]).entry(&index);
    for step in Step::ALL {
        index.work(&Change::Applied(work("c1", step, "u1", 7)), at(0));
        for why in [
            DeleteReason::Complete,
            DeleteReason::AllComplete,
            DeleteReason::Leftover,
            DeleteReason::Superseded,
        ] {
            let version = kept_version(&entry, &index, ("c1", step), why);
            assert_eq!(version, Some(7), "{step} {why:?}");
        }
        for why in [DeleteReason::LeftSelection, DeleteReason::UpgradeDeleted] {
            let version = kept_version(&entry, &index, ("c1", step), why);
            assert_eq!(version, None, "{step} {why:?}");
        }
    }
}

/// If the response to a deletion is lost, the deletion may be carried out when another upgrade has taken the work over.
#[test]
fn a_work_of_a_deleted_upgrade_that_may_be_taken_over_is_deleted_only_as_it_is_known() {
    let mut index = index(&["c1"]);
    index.work(&Change::Applied(work("c1", Step::Platform, "u1", 7)), at(0));
    for (phase, expected) in [
        (Phase::Complete, Some(7)),
        (Phase::Failed, Some(7)),
        (Phase::Skipped, Some(7)),
        (Phase::Pending, Some(7)),
        (Phase::Partial, None),
        (Phase::Soaking, None),
        (Phase::PreActionDegraded, None),
    ] {
        let mut entry = crate::fixture::upgrade("u1", &["c1"]).entry(&index);
        crate::fixture::note(&mut entry, "c1", rollout::testing::record(phase));
        let platform = ("c1", Step::Platform);
        let version = kept_version(&entry, &index, platform, DeleteReason::UpgradeDeleted);
        assert_eq!(version, expected, "{phase}");
        let version = kept_version(&entry, &index, platform, DeleteReason::LeftSelection);
        assert_eq!(version, None, "{phase}");
    }
}

#[test]
fn what_is_planned_in_a_window_or_by_an_approval_that_expires_goes_by_its_end() {
    let window = Window {
        name: Arc::from("second hour"),
        schedule: "0 1 * * *".parse().unwrap(),
        duration: TimeDelta::hours(1),
    };
    let zone = Zone::named("UTC").unwrap();
    let calendar = Calendar::new(zone, vec![Arc::new(window)], &[], TimeDelta::minutes(10));
    let mut fleet = fleet().cluster("a").calendar(calendar).cluster("b").build();
    for (seconds, expected) in [(3_599, None), (3_600, Some(at(6_600))), (6_600, None)] {
        assert_eq!(
            permitted_until(&fleet, "a", at(seconds)),
            expected,
            "at {seconds}"
        );
        assert_eq!(permitted_until(&fleet, "b", at(seconds)), None);
    }
    fleet.approvals = [50, 4_000].map(|seconds| approved_until(at(seconds))).into();
    for (cluster, seconds, expected) in [
        ("a", 3_600, at(4_000)),
        ("a", 5_000, at(6_600)),
        ("b", 100, at(4_000)),
    ] {
        assert_eq!(
            permitted_until(&fleet, cluster, at(seconds)),
            Some(expected),
            "{cluster} at {seconds}"
        );
    }
}

fn approved_until(expires: DateTime<Utc>) -> rollout::GivenApproval {
    rollout::GivenApproval {
        checkpoint: Arc::from("all"),
        plan_hash: Arc::from(""),
        approver: Arc::from(""),
        message: Arc::from(""),
        given: None,
        expires: Some(expires),
    }
}

/// Its cluster told the image long ago, and is asked anew before the next attempt.
#[test]
fn a_work_that_is_gone_does_not_say_how_its_cluster_is_asked_in_another_attempt() {
    let mut index = index(&["c1"]);
    let entry = crate::fixture::upgrade("u1", &["c1"]).entry(&index);
    let hash = "0123456789abcdef";
    let mut policy = rollout::testing::policy().build();
    policy.steps[Step::Platform.index()] = Some(Arc::from(hash));
    let wanted = PlanRequest {
        key: Arc::clone(&entry.key),
        policy,
        spec: None,
        violations: None,
        clusters_with_works: Vec::new(),
        slot_released_at: None,
    };
    let image = "quay.io/r@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    let mut done = observe::testing::reporting(work("c1", Step::Platform, "u1", 7), "4.12.0");
    let notes = done.metadata.annotations.get_or_insert_default();
    for (key, value) in [
        (ANNOTATION_STEP_HASH, hash),
        (ANNOTATION_TARGET_VERSION, "4.12.0"),
        (ANNOTATION_RELEASE_IMAGE, image),
    ] {
        notes.insert(key.to_owned(), value.to_owned());
    }
    let attempt = Attempt {
        revision: Arc::from("r2"),
        retry: Arc::from(""),
    };
    let asked = |index: &Index| request(&entry, index, ("c1", &attempt), &wanted, at(0)).0;
    index.work(&Change::Applied(done.clone()), at(0));
    assert_eq!(asked(&index), WorkRequest::Image(Arc::from(image)));
    index.work(&Change::Deleted(done), at(0));
    let kept = index.work_of("c1", Step::Platform);
    assert!(kept.is_some_and(|view| view.work.vanished), "{kept:?}");
    assert_eq!(asked(&index), WorkRequest::AsPlanned);
}

#[test]
fn a_report_carries_its_owner_and_kept_rows_byte_for_byte() {
    let text = r#"{"cluster":"c2","phase":"Hibernating","ratio": 1.50,"message":"etcd\u007f"}"#;
    let stored: api::views::Report = serde_json::from_str(&format!(
        r#"{{"metadata": {{"name": "u1-report-1", "resourceVersion": "3"}}, "rows": [{text}]}}"#
    ))
    .unwrap();
    let mut entry = crate::fixture::upgrade("u1", &[]).entry(&Index::default());
    entry.rows.observe(&stored, false, false, Instant::now());
    crate::fixture::note(
        &mut entry,
        "c1",
        rollout::testing::record(rollout::Phase::Complete),
    );
    let due = entry
        .rows
        .due(Instant::now() + std::time::Duration::from_secs(5))
        .remove(0);
    let Write::Report { body, .. } = report_job(&entry, due).write else {
        panic!("no report")
    };
    let body = String::from_utf8(body.unwrap()).unwrap();
    assert!(body.ends_with(&format!(",{text}]}}")), "{body}");
    let report: api::views::Report = serde_json::from_str(&body).unwrap();
    assert_eq!(
        crate::state::context::relation_of(&report, &entry),
        observe::record::ReportRelation::Own
    );
    assert_eq!(report.rows.rows.len(), 2);
    let body: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        body["summary"],
        json!({"clusters": 2, "complete": 1, "failed": 0, "attempts": 2}),
        "a row that cannot be read counts as one attempt"
    );
}

/// Otherwise the hub would give it no new version where the rows are the same, and could still carry out the first one after it.
#[test]
fn the_repeat_of_a_write_of_a_report_names_the_version_that_it_replaces() {
    let now = Instant::now();
    let mut entry = crate::fixture::upgrade("u1", &[]).entry(&Index::default());
    let stored = crate::fixture::report("u1-report-1", 3, &json!([]));
    entry.rows.observe(&stored, false, false, now);
    crate::fixture::note(
        &mut entry,
        "c1",
        rollout::testing::record(rollout::Phase::Complete),
    );
    let later = |seconds: u64| Instant::now() + std::time::Duration::from_secs(seconds);
    let lost = entry.rows.due(later(5)).remove(0);
    entry.rows.failed(&lost, now);
    let repeated = entry.rows.due(later(10)).remove(0);
    let named = |due: ShardWrite| {
        let Write::Report { body, .. } = report_job(&entry, due).write else {
            panic!("no report")
        };
        let body: serde_json::Value = serde_json::from_slice(&body.unwrap()).unwrap();
        body["metadata"]["annotations"][ANNOTATION_REPLACES].clone()
    };
    assert!(named(lost).is_null());
    assert_eq!(named(repeated), "3");
}
