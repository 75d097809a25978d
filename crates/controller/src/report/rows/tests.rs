use rollout::testing::{at, policy, record};
use rollout::{ClusterState, Outcome, Reason, StepRecord};
use serde_json::{Value, json};

use std::time::Duration;

use rollout::Phase;

use super::super::shard::COALESCE;
use super::*;
use crate::fixture::{report, state, stored};

fn rows() -> Rows {
    Rows::new(&Arc::from("up"))
}

fn plan(clusters: Vec<ClusterState>) -> Plan {
    Plan {
        clusters,
        ..Plan::default()
    }
}

fn commit(rows: &mut Rows, clusters: Vec<ClusterState>, now: Instant) -> RowChanges {
    rows.commit(&plan(clusters), &policy().build(), now, |_| (false, false))
}

fn fill(rows: &mut Rows, number: usize, now: Instant) {
    let clusters = (0..number)
        .map(|number| state(&format!("c{number:05}"), record(Phase::Pending)))
        .collect();
    commit(rows, clusters, now);
}

/// Writes everything that is due; versions are counted from `version`.
fn write(rows: &mut Rows, version: u64, now: Instant) -> Vec<Report> {
    let mut reports = Vec::new();
    for (number, due) in rows.due(now).into_iter().enumerate() {
        let version = version + number as u64;
        reports.push(report(&due.name, version, &json!(due.rows)));
        rows.wrote(due, Some(stored(version)), now);
    }
    reports
}

/// The rows of a report as the hub stores them.
fn texts(report: &Report) -> Value {
    let rows = report.rows.rows.iter();
    rows.map(|row| serde_json::from_str::<Value>(row.text.get()).unwrap())
        .collect()
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn no_shard_takes_more_than_250_rows_and_a_cluster_keeps_its_shard() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 600, now);
    let shards: Vec<(String, usize)> = rows
        .due(now + COALESCE)
        .iter()
        .map(|due| (due.name.clone(), due.rows.len()))
        .collect();
    assert_eq!(
        shards,
        [
            ("up-report-1".to_owned(), 250),
            ("up-report-2".to_owned(), 250),
            ("up-report-3".to_owned(), 100)
        ]
    );
    let before = rows.by_cluster["c00300"].shard;
    let dropped = Plan {
        dropped: vec![Arc::from("c00001"), Arc::from("c00002")],
        ..Plan::default()
    };
    rows.commit(&dropped, &policy().build(), now, |_| (false, false));
    commit(&mut rows, vec![state("a-first", record(Phase::Pending))], now);
    assert_eq!(
        rows.by_cluster["c00300"].shard, before,
        "it stays when others join or leave"
    );
    assert_eq!(rows.by_cluster["a-first"].shard, 0, "the room is used again");
}

#[test]
fn changes_are_gathered_for_two_seconds_and_written_once() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 2, now);
    commit(
        &mut rows,
        vec![state("c00000", record(Phase::Initialized))],
        now + seconds(1),
    );
    assert_eq!(rows.due_at(), Some(now + COALESCE));
    assert!(rows.due(now + seconds(1)).is_empty());
    assert_eq!(rows.due(now + COALESCE).len(), 1);
    assert!(rows.due(now + seconds(10)).is_empty(), "it is being written");
    assert_eq!(rows.due_at(), None);
}

#[test]
fn an_urgent_record_is_written_at_once() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 2, now);
    let urgent = ClusterState {
        urgent: true,
        ..state("c00000", record(Phase::Failed))
    };
    commit(&mut rows, vec![urgent], now);
    assert_eq!(rows.due_at(), Some(now));
    assert_eq!(rows.due(now).len(), 1);
}

#[test]
fn a_record_counts_as_written_only_when_its_write_succeeded() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, vec![state("c1", record(Phase::Complete))], now);
    let due = rows.due(now + COALESCE).remove(0);
    assert!(rows.get("c1").unwrap().written.is_none());
    // A newer record arrives while the older one is being written.
    commit(&mut rows, vec![state("c1", record(Phase::PostAction))], now);
    rows.wrote(due, Some(stored(5)), now);
    let row = rows.get("c1").unwrap();
    assert_eq!(row.written.as_ref().unwrap().phase, Phase::Complete);
    assert_eq!(row.record.phase, Phase::PostAction);
    assert!(rows.due_at().is_some(), "the younger one is still to be written");
}

#[test]
fn a_failed_write_is_repeated_after_the_coalescing_time_even_if_it_was_urgent() {
    let now = Instant::now();
    let mut rows = rows();
    let urgent = || ClusterState {
        urgent: true,
        ..state("c1", record(Phase::Failed))
    };
    commit(&mut rows, vec![urgent()], now);
    let due = rows.due(now).remove(0);
    commit(&mut rows, vec![urgent()], now);
    rows.failed(&due, now);
    assert!(rows.get("c1").unwrap().written.is_none());
    assert_eq!(rows.due_at(), Some(now + COALESCE));
    assert_eq!(rows.due(now + COALESCE).len(), 1);
}

#[test]
fn only_a_new_phase_counts_as_a_move_and_only_a_change_as_one() {
    let now = Instant::now();
    let mut rows = rows();
    let first = state("c1", record(Phase::Initialized));
    assert_eq!(commit(&mut rows, vec![first.clone()], now).phase_changes.len(), 1);
    assert!(!commit(&mut rows, vec![first], now).any, "the very same record");
    let other_cause = state("c1", record(Phase::Initialized).reason(Reason::Failing));
    let changes = commit(&mut rows, vec![other_cause], now);
    assert!(changes.phase_changes.is_empty() && changes.any);
}

#[test]
fn our_own_writes_are_no_news() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    let due = rows.due(now + COALESCE).remove(0);
    let own_write = report("up-report-1", 7, &json!(due.rows));
    assert!(
        !rows.observe(&own_write, false, true, now),
        "the event may come before the answer"
    );
    rows.wrote(due, Some(stored(7)), now);
    assert!(!rows.observe(&own_write, false, true, now), "or after it");
    assert_eq!(rows.due_at(), None);
    assert!(rows.get("c00000").unwrap().written.is_some());
}

#[test]
fn a_late_event_about_an_earlier_state_changes_nothing() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    write(&mut rows, 7, now + COALESCE);
    assert!(!rows.observe(&report("up-report-1", 6, &json!([])), true, true, now));
    assert!(!rows.observe(&report("up-report-1", 6, &json!([])), false, false, now));
    assert!(rows.get("c00000").is_some());
}

#[test]
fn a_leader_never_takes_rows_from_a_report_that_somebody_made() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    let mut source = self::rows();
    commit(&mut source, vec![state("c9", record(Phase::Complete))], now);
    let made = write(&mut source, 3, now + COALESCE).remove(0);
    rows.observe(&made, false, true, now);
    assert!(rows.get("c9").is_none());
    assert!(rows.get("c00000").is_some(), "not written yet, and still ours");
    let made = report("up-report-4", 3, &texts(&made));
    rows.observe(&made, false, true, now);
    let due = rows.due(now + COALESCE);
    let names: Vec<(&str, usize)> = due
        .iter()
        .map(|due| (due.name.as_str(), due.rows.len()))
        .collect();
    assert_eq!(
        names,
        [("up-report-1", 1), ("up-report-4", 0)],
        "the forged one is deleted"
    );
}

#[test]
fn a_shard_without_rows_is_deleted_once() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    write(&mut rows, 7, now + COALESCE);
    assert_eq!(rows.shard_count(), 1);
    let dropped = Plan {
        dropped: vec![Arc::from("c00000")],
        ..Plan::default()
    };
    rows.commit(&dropped, &policy().build(), now, |_| (false, false));
    let due = rows.due(now + COALESCE).remove(0);
    assert!(due.rows.is_empty());
    rows.wrote(due, None, now);
    rows.observe(&report("up-report-1", 8, &json!([])), true, true, now);
    assert!(rows.due(now + seconds(60)).is_empty());
    assert_eq!(rows.shard_count(), 0);
}

#[test]
fn a_shard_that_never_existed_is_not_deleted() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    let dropped = Plan {
        dropped: vec![Arc::from("c00000")],
        ..Plan::default()
    };
    rows.commit(&dropped, &policy().build(), now, |_| (false, false));
    assert!(rows.due(now + COALESCE).is_empty());
}

#[test]
fn answers_of_an_earlier_term_count_no_more() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 300, now);
    let due = rows.due(now + COALESCE);
    rows.restart();
    commit(&mut rows, vec![state("c00000", record(Phase::Pending))], now);
    for due in due {
        rows.wrote(due, Some(stored(9)), now);
    }
    assert!(rows.get("c00000").unwrap().written.is_none());
    assert_eq!(rows.due(now + COALESCE).len(), 1);
}

/// A record with all fields that a row can have.
fn full(name: &str, phase: Phase, reason: Reason) -> ClusterState {
    let mut full: Record = record(phase).reason(reason).retry("again~").into();
    full.message = Arc::from("etcd is \"degraded\"\n");
    full.since = at(77);
    let stage = |start: i64| StepRecord {
        started: at(start) + chrono::TimeDelta::milliseconds(123),
        applied: Some(at(start + 1)),
        finished: Some(at(start + 2)),
        outcome: Some(Outcome::Succeeded),
    };
    full.stages = [
        Some(stage(1)),
        Some(stage(5)),
        Some(StepRecord {
            outcome: Some(Outcome::Failed),
            ..stage(10)
        }),
        Some(StepRecord::started(at(20))),
        None,
    ];
    state(name, full)
}

#[test]
fn loading_what_was_written_loses_nothing() {
    let now = Instant::now();
    let mut rows = rows();
    let clusters: Vec<ClusterState> = Phase::ALL
        .into_iter()
        .enumerate()
        .map(|(number, phase)| full(&format!("c{number:02}"), phase, Reason::ALL[number * 3].0))
        .collect();
    rows.commit(&plan(clusters.clone()), &policy().build(), now, |name| {
        (&**name == "c01", &**name == "c02")
    });
    let reports = write(&mut rows, 7, now + COALESCE);

    let mut loaded = self::rows();
    for report in &reports {
        // Uses the text format, like the watch.
        assert!(loaded.observe(report, false, false, now));
    }
    assert_eq!(loaded.all().len(), clusters.len());
    for cluster in &clusters {
        let row = loaded.get(&cluster.name).unwrap();
        assert_eq!(row.record, cluster.record);
        assert_eq!(row.written.as_ref(), Some(&cluster.record));
        assert_eq!(row.canary, *cluster.name == *"c01");
        assert_eq!(row.left, *cluster.name == *"c02");
    }
    assert_eq!(loaded.due_at(), None);
    let touched = state("c00", record(Phase::Complete).revision("r0"));
    commit(&mut loaded, vec![touched], now);
    let again = loaded.due(now + COALESCE).remove(0);
    let (again, first) = (json!(again.rows), texts(&reports[0]));
    assert_eq!(
        again.as_array().unwrap()[1..],
        first.as_array().unwrap()[1..],
        "untouched rows are written as they were"
    );
}

#[test]
fn a_row_keeps_its_target_while_its_cluster_finishes_the_attempt_of_an_earlier_revision() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, vec![state("c00", record(Phase::Initialized))], now);
    let due = rows.due(now + COALESCE).remove(0);
    let target = json!(due.rows)[0]["toVersion"].clone();
    rows.wrote(due, Some(stored(1)), now);
    let mut edited = policy().build();
    edited.revision = "r9".into();
    edited.target = "4.99.9".into();
    let goes_on = plan(vec![state("c00", record(Phase::Partial))]);
    rows.commit(&goes_on, &edited, now, |_| (false, false));
    let due = rows.due(now + COALESCE + COALESCE).remove(0);
    assert_eq!(json!(due.rows)[0]["toVersion"], target);
}

#[test]
fn a_row_that_goes_back_to_an_earlier_revision_names_no_target() {
    let now = Instant::now();
    let mut rows = rows();
    let earlier = record(Phase::Soaking).revision("r0");
    commit(&mut rows, vec![state("c00", earlier)], now);
    commit(&mut rows, vec![state("c00", record(Phase::Pending))], now);
    let due = rows.due(now + COALESCE).remove(0);
    assert_eq!(json!(due.rows)[0]["toVersion"], json!(&*policy().build().target));
    rows.wrote(due, Some(stored(1)), now);
    commit(
        &mut rows,
        vec![state("c00", record(Phase::Complete).revision("r0"))],
        now,
    );
    let due = rows.due(now + COALESCE + COALESCE).remove(0);
    assert_eq!(json!(due.rows)[0].get("toVersion"), None);
}

#[test]
fn a_follower_holds_what_the_hub_holds() {
    let now = Instant::now();
    let mut source = rows();
    fill(&mut source, 300, now);
    let reports = write(&mut source, 7, now + COALESCE);
    let mut rows = rows();
    for report in &reports {
        rows.observe(report, false, false, now);
    }
    assert_eq!(rows.all().len(), 300);
    rows.observe(&report("up-report-2", 20, &json!([])), true, false, now);
    assert_eq!(rows.all().len(), 250);
    assert_eq!(rows.shard_count(), 1);
    assert!(
        !rows.observe(&reports[1], false, false, now),
        "an event from before the deletion"
    );
    assert_eq!(rows.all().len(), 250);
}

#[test]
fn a_report_missing_from_a_list_is_written_anew_by_a_leader_and_forgotten_by_a_follower() {
    let now = Instant::now();
    for own in [true, false] {
        let mut rows = rows();
        fill(&mut rows, 300, now);
        write(&mut rows, 7, now + COALESCE);
        assert!(rows.relist(|name| name == "up-report-1", 90, own, now));
        assert_eq!(rows.all().len(), if own { 300 } else { 250 });
        let due = rows.due(now + COALESCE);
        let due: Vec<&str> = due.iter().map(|due| due.name.as_str()).collect();
        assert_eq!(due, if own { vec!["up-report-2"] } else { vec![] });
    }
}

#[test]
fn a_cluster_found_in_two_shards_is_taken_from_the_higher_one_whatever_its_clock_said_and_the_other_is_corrected()
 {
    let now = Instant::now();
    let row = |since: i64, phase: Phase| {
        let mut record: Record = record(phase).into();
        record.since = at(since);
        let mut source = rows();
        commit(&mut source, vec![state("c1", record)], now);
        json!(source.due(now + COALESCE).remove(0).rows)
    };
    for (swapped, moved_at) in [(false, 9), (true, 9), (false, 1), (true, 1)] {
        let mut rows = rows();
        let old = report("up-report-1", 3, &row(5, Phase::Pending));
        let new = report("up-report-2", 4, &row(moved_at, Phase::Complete));
        let mut reports = [old, new];
        if swapped {
            reports.reverse();
        }
        for report in &reports {
            rows.observe(report, false, false, now);
        }
        assert_eq!(rows.get("c1").unwrap().record.phase, Phase::Complete);
        let due = rows.due(now + COALESCE);
        let due: Vec<(&str, usize)> = due
            .iter()
            .map(|due| (due.name.as_str(), due.rows.len()))
            .collect();
        assert_eq!(due, [("up-report-1", 0)]);
    }
}

#[test]
fn only_names_of_shards_are_taken() {
    let now = Instant::now();
    let mut source = rows();
    fill(&mut source, 1, now);
    let made = write(&mut source, 3, now + COALESCE).remove(0);
    for name in [
        "up-report-01",
        "up-report-0",
        "up-report-x",
        "up-report-",
        "other-report-1",
        "up-report-999999999",
    ] {
        let mut rows = rows();
        let report = report(name, 3, &texts(&made));
        assert!(!rows.observe(&report, false, false, now), "{name}");
        assert!(rows.all().is_empty());
    }
}

#[test]
fn a_version_that_the_schema_would_refuse_is_cut() {
    let now = Instant::now();
    let mut rows = rows();
    let mut long: Record = record(Phase::Initialized).into();
    long.from_version = Arc::from("4".repeat(1000));
    commit(&mut rows, vec![state("c1", long)], now);
    let due = rows.due(now + COALESCE).remove(0);
    assert_eq!(due.rows[0].made().unwrap().from_version.len(), 128);
}

#[test]
fn writes_of_a_shard_that_fail_wait_longer_each_time_until_one_succeeds() {
    let mut now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    now += COALESCE;
    let mut waits = Vec::new();
    for _ in 0..7 {
        let due = rows.due(now).remove(0);
        rows.failed(&due, now);
        // Changes during the wait, urgent or not, do not shorten it.
        let urgent = ClusterState {
            urgent: true,
            ..state("c00000", record(Phase::Initialized).message(&format!("{now:?}")))
        };
        commit(&mut rows, vec![urgent], now);
        let at = rows.due_at().unwrap();
        let before = at.checked_sub(Duration::from_millis(1)).unwrap();
        assert!(rows.due(before).is_empty());
        waits.push((at - now).as_secs());
        now = at;
    }
    assert_eq!(waits, [2, 4, 8, 16, 32, 60, 60]);
    let due = rows.due(now).remove(0);
    rows.wrote(due, Some(stored(7)), now);
    commit(&mut rows, vec![state("c00000", record(Phase::Complete))], now);
    let due = rows.due(now + COALESCE).remove(0);
    rows.failed(&due, now);
    assert_eq!(rows.due_at(), Some(now + seconds(2)));
}

/// A shard that the hub holds at version 7, and a write that changes it.
fn changing(now: Instant) -> (Rows, ShardWrite) {
    let mut rows = rows();
    fill(&mut rows, 1, now);
    write(&mut rows, 7, now + COALESCE);
    commit(&mut rows, vec![state("c00000", record(Phase::Complete))], now);
    let due = rows.due(now + COALESCE).remove(0);
    (rows, due)
}

#[test]
fn a_write_replaces_only_the_copy_that_was_read() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    let due = rows.due(now + COALESCE).remove(0);
    assert_eq!(due.replaces, None, "a report that does not exist is created");
    rows.wrote(due, Some(stored(7)), now);
    commit(&mut rows, vec![state("c00000", record(Phase::Complete))], now);
    let due = rows.due(now + COALESCE).remove(0);
    assert_eq!(due.replaces, Some(stored(7)));
    rows.wrote(due, Some(stored(9)), now);
    let other =
        json!({"metadata": {"name": "up-report-1", "uid": "another", "resourceVersion": "12"}, "rows": []});
    rows.observe(&serde_json::from_value(other).unwrap(), false, true, now);
    let due = rows.due(now + COALESCE).remove(0);
    let replaces = due.replaces.unwrap();
    assert_eq!((&*replaces.uid, replaces.version), ("another", 12));
}

#[test]
fn a_write_that_meets_another_copy_is_sent_again_for_that_one() {
    let now = Instant::now();
    let (mut rows, due) = changing(now);
    let found = report("up-report-1", 11, &json!([]));
    rows.conflicted(&due, Some(&found), true, now);
    assert!(rows.get("c00000").unwrap().written.is_none());
    let again = rows.due(now).remove(0);
    assert_eq!(again.replaces.as_ref().map(|stored| stored.version), Some(11));
    rows.conflicted(&again, None, false, now);
    assert!(rows.due(now).is_empty(), "the second time in a row it waits");
    let again = rows.due(now + seconds(10)).remove(0);
    assert_eq!(again.replaces, None, "it does not exist any more");
    rows.wrote(again, Some(stored(15)), now);
    assert!(rows.get("c00000").unwrap().written.is_some());
}

#[test]
fn a_write_that_meets_an_older_copy_is_sent_again_for_that_one() {
    let now = Instant::now();
    let (mut rows, due) = changing(now);
    let restored = report("up-report-1", 3, &json!([]));
    rows.conflicted(&due, Some(&restored), true, now);
    let again = rows.due(now).remove(0);
    assert_eq!(again.replaces.as_ref().map(|stored| stored.version), Some(3));
}

#[test]
fn a_failed_write_whose_effect_was_seen_is_repeated_for_the_copy_that_it_meets() {
    let now = Instant::now();
    let (mut rows, due) = changing(now);
    let held = report("up-report-1", 11, &json!(due.rows));
    rows.observe(&held, false, true, now);
    rows.failed(&due, now);
    let again = rows.due(now + seconds(10)).remove(0);
    rows.conflicted(&again, Some(&held), true, now);
    let again = rows.due(now).remove(0);
    assert_eq!(again.replaces.as_ref().map(|stored| stored.version), Some(11));
}

#[test]
fn a_row_that_somebody_fixed_counts_when_a_write_meets_it() {
    let now = Instant::now();
    let mut rows = rows();
    let row = |phase: &str| json!([{"cluster": "c1", "phase": phase, "since": "2026-03-01T10:00:00Z", "revision": "r1"}]);
    rows.observe(
        &report("up-report-1", 5, &row("FromTheFuture")),
        false,
        false,
        now,
    );
    assert!(rows.get("c1").unwrap().record.unreadable);
    rows.shards[0].mark(now, true);
    let due = rows.due(now).remove(0);
    let found = report("up-report-1", 6, &row("Complete"));
    rows.conflicted(&due, Some(&found), true, now);
    assert_eq!(rows.get("c1").unwrap().record.phase, Phase::Complete);
}

mod attempts;
mod others;
mod properties;
