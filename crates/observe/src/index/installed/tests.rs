use api::names::{LABEL_CLUSTER_ID, Step};
use api::views::{ManagedCluster, ManifestWork};
use serde_json::json;

use super::*;
use crate::index::Change;
use crate::testing::{claimed, index, reporting, work};

fn now() -> DateTime<Utc> {
    "2026-05-28T12:00:00Z".parse().unwrap()
}

fn reported(version: &str, resource_version: u64) -> ManifestWork {
    reporting(work("a", Step::Platform, "mine", resource_version), version)
}

/// An index that knows cluster `a` by this claim.
fn known(claim: &str) -> Index {
    let mut index = index(&[]);
    index.cluster(&Change::Applied(claimed("a", claim)));
    index
}

/// A report whose row of cluster `a` says that the platform step had this outcome.
fn report(from: &str, to: &str, outcome: &str, at: &str) -> Report {
    serde_json::from_value(json!({
        "metadata": {"name": "mine-report-1", "namespace": "ns"},
        "rows": [{
            "cluster": "a", "phase": "Complete", "since": at, "revision": "r1", "fromVersion": from, "toVersion": to,
            "steps": [{"name": "Platform", "startedAt": "2026-05-28T06:00:00Z", "finishedAt": at, "outcome": outcome}],
        }],
    }))
    .unwrap()
}

const TODAY: &str = "2026-05-28T11:00:00Z";

fn installed(index: &Index) -> Option<&str> {
    index.installed("a", now()).map(|version| &**version)
}

#[test]
fn a_reported_version_is_remembered_without_its_work_until_the_claim_shows_it_or_an_older_one_than_before() {
    let mut index = known("4.14.9");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.work(&Change::Deleted(reported("4.14.13", 6)), now());
    assert_eq!(installed(&index), Some("4.14.13"));
    let mut relabelled = claimed("a", "4.14.9");
    relabelled.metadata.labels = Some([("any".to_owned(), "other".to_owned())].into());
    index.cluster(&Change::Applied(relabelled));
    assert_eq!(installed(&index), Some("4.14.13"), "another change");
    index.cluster(&Change::Applied(claimed("a", "4.14.10")));
    assert_eq!(installed(&index), Some("4.14.13"), "an update before that one");
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    assert_eq!(installed(&index), None, "somebody has taken the cluster back");
}

#[test]
fn a_reported_version_is_remembered_where_no_claim_tells_one() {
    let mut index = known("");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.work(&Change::Deleted(reported("4.14.13", 6)), now());
    assert_eq!(installed(&index), Some("4.14.13"));
    index.cluster(&Change::Deleted(claimed("a", "")));
    assert_eq!(
        installed(&index),
        None,
        "a cluster that comes back may be another one"
    );
}

#[test]
fn a_claim_that_is_no_version_says_no_more_than_none() {
    let mut index = known("4.14.9");
    index.note_rows(&report("4.14.9", "4.14.13", "Succeeded", TODAY), now());
    for claim in ["nonsense", "", "4.14"] {
        index.cluster(&Change::Applied(claimed("a", claim)));
        assert_eq!(installed(&index), Some("4.14.13"), "{claim:?}");
    }
}

#[test]
fn a_claim_that_is_newer_than_the_feedback_counts() {
    let mut index = known("4.14.13");
    index.work(&Change::Applied(reported("4.14.9", 5)), now());
    assert_eq!(installed(&index), None);
}

#[test]
fn no_claim_ends_a_version_that_a_work_goes_on_reporting() {
    for claim in ["4.14.8", "4.14.13", "4.14.15"] {
        let mut index = known("4.14.9");
        index.work(&Change::Applied(reported("4.14.13", 5)), now());
        index.cluster(&Change::Applied(claimed("a", claim)));
        let later = "2026-05-28T12:30:00Z";
        index.note_rows(&report("4.14.9", "4.14.13", "Succeeded", later), now());
        index.cluster(&Change::Applied(claimed("a", "4.14.9")));
        index.work(&Change::Deleted(reported("4.14.13", 6)), now());
        assert_eq!(installed(&index), Some("4.14.13"), "{claim} for a while");
        index.cluster(&Change::Applied(claimed("a", "4.14.8")));
        assert_eq!(installed(&index), None, "somebody has taken the cluster back");
    }
}

#[test]
fn a_claim_that_shows_the_version_when_its_work_goes_counts_from_then_on() {
    for claim in ["4.14.13", "4.14.15"] {
        let mut index = known("4.14.9");
        index.work(&Change::Applied(reported("4.14.13", 5)), now());
        index.cluster(&Change::Applied(claimed("a", claim)));
        assert_eq!(installed(&index), None, "{claim}");
        index.work(&Change::Deleted(reported("4.14.13", 6)), now());
        for later in [claim, "", "4.14.9"] {
            index.cluster(&Change::Applied(claimed("a", later)));
            assert_eq!(installed(&index), None, "{claim}, then {later:?}");
        }
    }
}

/// The watch tells of a claim some seconds after [`now`].
fn hears(index: &mut Index, claim: &str, seconds: i64) {
    let change = Change::Applied(claimed("a", claim));
    index.watched_cluster(&change, now() + TimeDelta::seconds(seconds));
}

#[test]
fn no_claim_ends_a_version_that_the_watch_may_tell_only_after_the_end_of_its_work() {
    for claim in ["4.14.8", "4.14.13", "4.14.15"] {
        let mut index = known("4.14.9");
        index.work(
            &Change::Applied(reported("4.14.13", 5)),
            now() - TimeDelta::hours(1),
        );
        index.work(&Change::Deleted(reported("4.14.13", 6)), now());
        hears(&mut index, claim, 75);
        hears(&mut index, "4.14.9", 75);
        assert_eq!(installed(&index), Some("4.14.13"), "{claim} for a while");
        hears(&mut index, claim, 600);
        hears(&mut index, "4.14.9", 660);
        assert_eq!(installed(&index), None, "somebody has taken the cluster back");
    }
}

/// The watch of the works may be behind, or have been cut, so that something else tells first that a work is gone.
#[test]
fn a_claim_may_be_late_however_it_became_known_that_the_work_is_gone() {
    let uid = "a-cluster-upgrade-mine";
    assert_eq!(reported("4.14.13", 5).metadata.uid.as_deref(), Some(uid));
    let mut next = work("a", Step::Platform, "mine", 6);
    next.metadata.uid = Some("next".to_owned());
    let ends: [&dyn Fn(&mut Index); 4] = [
        &|index| index.mark_vanished("a", Step::Platform, uid, now()),
        &|index| index.remove_work("a", Step::Platform, uid, now()),
        &|index| {
            index.relist_works();
            index.retain_works(&[].into_iter().collect(), 6, now());
        },
        &|index| index.work(&Change::Applied(next.clone()), now()),
    ];
    for end in ends {
        let mut index = known("4.14.9");
        index.work(
            &Change::Applied(reported("4.14.13", 5)),
            now() - TimeDelta::hours(1),
        );
        end(&mut index);
        hears(&mut index, "4.14.13", 75);
        hears(&mut index, "4.14.9", 75);
        assert_eq!(installed(&index), Some("4.14.13"));
        hears(&mut index, "4.14.8", 600);
        assert_eq!(installed(&index), None, "somebody has taken the cluster back");
    }
}

#[test]
fn no_claim_that_may_be_late_ends_a_version_that_a_row_proves() {
    for claim in ["4.14.8", "4.14.13", "4.14.15"] {
        let mut index = known("4.14.9");
        hears(&mut index, claim, 0);
        let just_now = "2026-05-28T11:59:30Z";
        index.note_rows(&report("4.14.9", "4.14.13", "Succeeded", just_now), now());
        hears(&mut index, "4.14.9", 60);
        assert_eq!(installed(&index), Some("4.14.13"), "{claim} for a while");
    }
}

#[test]
fn a_claim_that_shows_the_version_right_after_the_end_counts_from_then_on() {
    let mut index = known("4.14.9");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.work(&Change::Deleted(reported("4.14.13", 6)), now());
    hears(&mut index, "4.14.13", 30);
    assert_eq!(installed(&index), None);
    hears(&mut index, "4.14.9", 600);
    assert_eq!(installed(&index), None, "somebody has taken the cluster back");
}

#[test]
fn a_claim_ends_a_version_that_only_a_work_of_an_earlier_life_reports() {
    let mut index = known("");
    index.cluster(&Change::Applied(identified("4.14.9", "first")));
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    assert_eq!(installed(&index), Some("4.14.13"));
    index.cluster(&Change::Applied(identified("4.14.9", "second")));
    assert_eq!(installed(&index), None, "installed anew");

    let created = |at: &str| serde_json::from_value(json!(at)).unwrap();
    let registered = |claim| {
        let mut cluster = claimed("a", claim);
        cluster.metadata.creation_timestamp = created("2026-05-28T11:30:00Z");
        cluster
    };
    let mut index = known("");
    index.cluster(&Change::Applied(registered("4.14.9")));
    let mut former = reported("4.14.13", 5);
    former.metadata.creation_timestamp = created(TODAY);
    index.listed_work(&former, now());
    assert_eq!(installed(&index), Some("4.14.13"), "the claim may be late");
    index.cluster(&Change::Applied(registered("4.14.8")));
    assert_eq!(installed(&index), None, "registered anew");
}

#[test]
fn a_version_that_is_reported_before_its_cluster_is_known_is_compared_with_the_first_claim() {
    let mut index = index(&[]);
    index.listed_work(&reported("4.14.13", 5), now());
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    assert_eq!(installed(&index), Some("4.14.13"));
    index.cluster(&Change::Applied(claimed("a", "4.14.13")));
    assert_eq!(installed(&index), None);
}

#[test]
fn the_row_of_any_upgrade_proves_a_version_until_the_claim_shows_it_or_one_from_before_the_update() {
    for (claim, expected) in [
        ("4.14.9", Some("4.14.13")),
        ("", Some("4.14.13")),
        ("4.14.13", None),
        ("4.14.10", Some("4.14.13")),
        ("4.14.8", None),
    ] {
        let mut before = known(claim);
        before.note_rows(&report("4.14.9", "4.14.13", "Succeeded", TODAY), now());
        assert_eq!(installed(&before), expected, "the claim {claim:?} came first");
        let mut after = index(&[]);
        after.note_rows(&report("4.14.9", "4.14.13", "Succeeded", TODAY), now());
        after.cluster(&Change::Applied(claimed("a", claim)));
        assert_eq!(installed(&after), expected, "the claim {claim:?} came later");
    }
}

#[test]
fn a_row_that_does_not_tell_from_which_version_its_update_began_proves_its_target_until_the_claim_follows() {
    let row = report("", "4.14.13", "Succeeded", TODAY);
    let mut before = known("4.14.12");
    before.note_rows(&row, now());
    let mut after = index(&[]);
    after.note_rows(&row, now());
    after.cluster(&Change::Applied(claimed("a", "4.14.12")));
    for mut index in [before, after] {
        assert_eq!(installed(&index), Some("4.14.13"));
        index.cluster(&Change::Applied(claimed("a", "4.14.11")));
        assert_eq!(installed(&index), None, "somebody has taken the cluster back");
    }
    let mut followed = known("4.14.13");
    followed.note_rows(&row, now());
    assert_eq!(installed(&followed), None, "the claim shows it");
}

#[test]
fn the_first_claim_of_a_cluster_may_be_late() {
    let mut index = known("");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.work(&Change::Deleted(reported("4.14.13", 6)), now());
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    assert_eq!(installed(&index), Some("4.14.13"));
    index.cluster(&Change::Applied(claimed("a", "4.14.8")));
    assert_eq!(installed(&index), None, "somebody has taken the cluster back");
}

#[test]
fn rows_of_failures_and_old_rows_prove_nothing() {
    let mut index = known("4.14.9");
    for report in [
        report("4.14.9", "4.14.13", "Failed", TODAY),
        report("4.14.9", "4.14.13", "Succeeded", "2026-05-27T11:00:00Z"),
        report("4.14.9", "", "Succeeded", TODAY),
    ] {
        index.note_rows(&report, now());
        assert_eq!(installed(&index), None);
    }
}

#[test]
fn of_two_rows_the_later_success_counts() {
    let rows = [
        report("4.14.13", "4.14.12", "Succeeded", TODAY),
        report("4.14.9", "4.14.13", "Succeeded", "2026-05-28T10:00:00Z"),
    ];
    for order in [[0, 1], [1, 0]] {
        let mut index = known("");
        for number in order {
            index.note_rows(&rows[number], now());
        }
        assert_eq!(installed(&index), Some("4.14.12"), "{order:?}");
    }
}

/// The works of cluster `a` are gone by a complete list, which is read at [`now`].
fn loses_works(index: &mut Index) {
    index.relist_works();
    index.retain_works(&[].into_iter().collect(), 6, now());
}

/// A replica that was cut off hears of the row, and that the work is gone, in any order.
#[test]
fn a_row_proves_an_update_that_ended_after_its_work_was_last_seen() {
    let row = report("4.14.9", "4.14.13", "Succeeded", TODAY);
    for is_row_first in [true, false] {
        let mut index = known("4.14.9");
        let before = now() - TimeDelta::hours(2);
        index.work(&Change::Applied(reported("4.14.9", 5)), before);
        if is_row_first {
            index.note_rows(&row, now());
        }
        loses_works(&mut index);
        index.note_rows(&row, now());
        assert_eq!(installed(&index), Some("4.14.13"), "{is_row_first}");
        index.cluster(&Change::Applied(claimed("a", "4.14.13")));
        assert_eq!(installed(&index), None, "the claim shows it");
    }
}

#[test]
fn a_row_does_not_outweigh_what_a_work_has_reported_since_or_something_newer_or_another_installation() {
    let with_row = |mut index: Index, version, since, id: Option<&str>| {
        index.work(&Change::Applied(reported(version, 5)), since);
        loses_works(&mut index);
        if let Some(id) = id {
            index.cluster(&Change::Applied(identified("4.14.9", id)));
        }
        index.note_rows(&report("4.14.9", "4.14.13", "Succeeded", TODAY), now());
        installed(&index).map(ToOwned::to_owned)
    };
    let (earlier, later) = (now() - TimeDelta::hours(2), now() - TimeDelta::minutes(30));
    let taken_back = with_row(known("4.14.9"), "4.14.10", later, None);
    assert_eq!(taken_back.as_deref(), Some("4.14.10"));
    let newer = with_row(known("4.14.9"), "4.14.15", earlier, None);
    assert_eq!(newer.as_deref(), Some("4.14.15"));
    let mut first = index(&[]);
    first.cluster(&Change::Applied(identified("4.14.9", "first")));
    assert_eq!(with_row(first, "4.14.9", earlier, Some("second")), None);
}

#[test]
fn a_watch_that_tells_late_that_a_cluster_was_registered_anew_ends_only_what_was_known_before_that() {
    let back_after = |created: &str, is_deletion_told: bool| {
        let mut index = known("4.14.9");
        index.work(&Change::Applied(reported("4.14.12", 5)), now());
        if is_deletion_told {
            index.cluster(&Change::Deleted(claimed("a", "4.14.9")));
        }
        let mut registered = claimed("a", "4.14.9");
        registered.metadata.creation_timestamp = Some(serde_json::from_str(created).unwrap());
        index.cluster(&Change::Applied(registered));
        index.installed("a", now()).map(ToString::to_string)
    };
    let back = |created: &str| {
        let known = back_after(created, true);
        assert_eq!(
            known,
            back_after(created, false),
            "a list may replace one by the other"
        );
        known
    };
    let (before, after) = (r#""2026-01-01T00:00:00Z""#, r#""2099-01-01T00:00:00Z""#);
    assert_eq!(back(before).as_deref(), Some("4.14.12"));
    assert_eq!(back(after), None);
    let by_clock_behind = r#""2026-05-28T12:00:30Z""#;
    assert_eq!(back(by_clock_behind).as_deref(), Some("4.14.12"));
    assert_eq!(back(r#""2026-05-28T12:01:01Z""#), None);
}

#[test]
fn a_list_without_a_cluster_forgets_its_version() {
    let mut index = known("4.14.9");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.retain_clusters(&[].into_iter().collect());
    assert_eq!(installed(&index), None);
}

/// Cluster `a` with this claim and this cluster ID.
fn identified(claim: &str, id: &str) -> ManagedCluster {
    let mut cluster = claimed("a", claim);
    cluster.metadata.labels = Some([(LABEL_CLUSTER_ID.to_owned(), id.to_owned())].into());
    cluster
}

#[test]
fn a_cluster_with_another_id_was_installed_anew_and_earlier_feedback_and_rows_prove_nothing() {
    for claim in ["", "4.14.9"] {
        let mut index = index(&[]);
        index.cluster(&Change::Applied(identified(claim, "first")));
        index.work(&Change::Applied(reported("4.14.13", 5)), now());
        index.work(&Change::Deleted(reported("4.14.13", 6)), now());
        index.cluster(&Change::Applied(claimed("a", claim)));
        assert_eq!(installed(&index), Some("4.14.13"), "an absent ID says nothing");
        index.cluster(&Change::Applied(identified(claim, "second")));
        assert_eq!(installed(&index), None);
        index.note_rows(&report("4.14.9", "4.14.13", "Succeeded", TODAY), now());
        assert_eq!(installed(&index), None, "the row is older");
        index.work(&Change::Applied(reported("4.14.13", 7)), now());
        assert_eq!(installed(&index), Some("4.14.13"), "new feedback");
    }
}

#[test]
fn the_last_claim_of_a_cluster_that_was_installed_or_registered_anew_counts_no_more() {
    let last = |index: &Index| index.clusters["a"].last_version.to_string();
    let mut index = index(&[]);
    index.cluster(&Change::Applied(identified("4.14.13", "one")));
    index.cluster(&Change::Applied(identified("nonsense", "one")));
    assert_eq!(last(&index), "4.14.13");
    index.cluster(&Change::Applied(identified("nonsense", "two")));
    assert_eq!(last(&index), "", "installed anew");
    index.cluster(&Change::Applied(claimed("a", "4.14.13")));
    index.cluster(&Change::Deleted(claimed("a", "4.14.13")));
    index.cluster(&Change::Applied(claimed("a", "nonsense")));
    assert_eq!(last(&index), "", "registered anew");
}

#[test]
fn a_row_is_not_read_again_as_a_proof_once_the_claim_has_followed() {
    let mut index = known("4.14.9");
    let row = report("4.14.9", "4.14.13", "Succeeded", TODAY);
    index.note_rows(&row, now());
    assert_eq!(installed(&index), Some("4.14.13"));
    index.cluster(&Change::Applied(claimed("a", "4.14.13")));
    index.cluster(&Change::Applied(claimed("a", "4.14.9")));
    index.note_rows(&row, now());
    assert_eq!(installed(&index), None, "somebody has taken the cluster back");
    let later = "2026-05-28T11:30:00Z";
    index.note_rows(&report("4.14.9", "4.14.14", "Succeeded", later), now());
    assert_eq!(installed(&index), Some("4.14.14"), "a later update");
}

#[test]
fn a_row_that_began_at_its_target_does_not_replace_feedback() {
    let mut index = known("4.14.9");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    let later = "2026-05-28T12:30:00Z";
    index.note_rows(&report("4.14.13", "4.14.13", "Succeeded", later), now());
    assert_eq!(installed(&index), Some("4.14.13"));
    index.work(&Change::Applied(reported("4.14.9", 6)), now());
    assert_eq!(installed(&index), None, "somebody has taken the cluster back");
}

#[test]
fn a_row_from_before_the_cluster_was_registered_proves_nothing() {
    for (created, expected) in [
        ("2026-05-28T11:59:00Z", Some("4.14.13")),
        ("2026-05-28T12:01:00Z", None),
    ] {
        let mut registered = claimed("a", "4.14.9");
        registered.metadata.creation_timestamp = serde_json::from_value(json!(created)).unwrap();
        let row = report("4.14.9", "4.14.13", "Succeeded", TODAY);
        let mut before = index(&[]);
        before.cluster(&Change::Applied(registered.clone()));
        before.note_rows(&row, now());
        assert_eq!(installed(&before), expected);
        let mut after = index(&[]);
        after.note_rows(&row, now());
        after.cluster(&Change::Applied(registered));
        assert_eq!(installed(&after), expected, "the row came first");
    }
}

#[test]
fn feedback_proves_nothing_a_day_later_if_the_claim_still_shows_the_old_version() {
    let mut index = known("4.14.9");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.work(&Change::Deleted(reported("4.14.13", 6)), now());
    let version_after = |hours| {
        index
            .installed("a", now() + TimeDelta::hours(hours))
            .map(|version| &**version)
    };
    assert_eq!(version_after(23), Some("4.14.13"));
    assert_eq!(version_after(24), None);
    let mut index = known("");
    index.work(&Change::Applied(reported("4.14.13", 5)), now());
    index.work(&Change::Deleted(reported("4.14.13", 6)), now());
    assert!(
        index.installed("a", now() + TimeDelta::days(9)).is_some(),
        "no claim says anything else"
    );
}

/// Its term began just before the update ended, and the clock that recorded that end was behind.
#[test]
fn a_newer_row_counts_although_its_clock_was_behind_when_the_reports_began() {
    let mut index = known("4.14.9");
    index.work(&Change::Applied(reported("4.14.9", 5)), now());
    let later = now() + TimeDelta::seconds(30);
    index.work(&Change::Deleted(reported("4.14.9", 6)), later);
    index.note_rows(
        &report("4.14.9", "4.14.13", "Succeeded", "2026-05-28T11:59:40Z"),
        later,
    );
    assert_eq!(installed(&index), Some("4.14.13"));
}

/// Its row is later than the beginning of the reports of the cluster before, or earlier by no more than clocks may differ.
#[test]
fn a_row_from_just_before_a_cluster_was_installed_anew_proves_nothing() {
    let mut index = index(&[]);
    index.cluster(&Change::Applied(identified("4.14.9", "first")));
    index.work(
        &Change::Applied(reported("4.14.9", 5)),
        now() - TimeDelta::hours(2),
    );
    index.work(&Change::Deleted(reported("4.14.9", 6)), now());
    index.cluster(&Change::Applied(identified("4.14.9", "second")));
    for succeeded in ["2026-05-28T11:57:00Z", "2026-05-28T11:59:00Z"] {
        index.note_rows(&report("4.14.9", "4.14.13", "Succeeded", succeeded), now());
        assert_eq!(installed(&index), None, "{succeeded}");
    }
}
