use std::time::{Duration, Instant};

use api::report::MAX_ROWS;
use rollout::testing::{RecordBuilder, policy, record};
use rollout::{Phase, Plan, Stage};
use serde_json::json;

use super::*;
use crate::fixture::{report, state, stored};

fn commit(rows: &mut Rows, clusters: &[(&str, Phase)], dropped: &[&str], now: Instant) {
    let clusters = clusters.iter().map(|(name, phase)| state(name, record(*phase)));
    let plan = Plan {
        clusters: clusters.collect(),
        dropped: dropped.iter().map(|name| Arc::from(*name)).collect(),
        ..Plan::default()
    };
    rows.commit(&plan, &policy().build(), now, |_| (false, false));
}

fn due(rows: &mut Rows, now: Instant) -> ShardWrite {
    rows.due(now + Duration::from_mins(5)).remove(0)
}

/// Rows of cluster `a`, which is in flight, and `b`, as the hub has them.
fn written(now: Instant) -> Rows {
    let mut rows = Rows::new(&Arc::from("up"));
    commit(
        &mut rows,
        &[("a", Phase::Partial), ("b", Phase::Pending)],
        &[],
        now,
    );
    let first = due(&mut rows, now);
    rows.wrote(first, Some(stored(1)), now);
    rows
}

#[test]
fn a_dropped_cluster_holds_its_slot_until_its_row_is_gone_from_the_hub() {
    let now = Instant::now();
    let mut rows = written(now);
    commit(&mut rows, &[], &["b"], now);
    assert_eq!(rows.unreleased().len(), 0, "it held no slot");
    commit(&mut rows, &[], &["a"], now);
    assert_eq!(rows.unreleased().len(), 1);
    assert_eq!(rows.due_at(), Some(now), "the slot waits for it");
    let lost = due(&mut rows, now);
    rows.failed(&lost, now);
    assert_eq!(rows.unreleased().len(), 1);
    let removed = due(&mut rows, now);
    rows.wrote(removed, None, now);
    assert_eq!(rows.unreleased().len(), 0);
}

#[test]
fn a_write_that_began_before_a_cluster_was_dropped_does_not_release_its_slot() {
    let now = Instant::now();
    let mut rows = written(now);
    commit(
        &mut rows,
        &[("a", Phase::Operators), ("b", Phase::Pending)],
        &[],
        now,
    );
    let before = due(&mut rows, now);
    commit(&mut rows, &[("b", Phase::Pending)], &["a"], now);
    rows.wrote(before, Some(stored(2)), now);
    assert_eq!(rows.unreleased().len(), 1);
    let removed = due(&mut rows, now);
    rows.wrote(removed, Some(stored(3)), now);
    assert_eq!(rows.unreleased().len(), 0);
}

/// Nothing would end that: the report is never written, because it has no row and the hub has none by its name.
#[test]
fn a_rejected_row_of_a_cluster_that_was_dropped_during_the_write_does_not_count() {
    for has_others in [true, false] {
        let now = Instant::now();
        let mut rows = Rows::new(&Arc::from("up"));
        let clusters = [("a", Phase::Pending), ("b", Phase::Pending)];
        let clusters = if has_others { &clusters[..] } else { &clusters[..1] };
        commit(&mut rows, clusters, &[], now);
        let sent = due(&mut rows, now);
        commit(&mut rows, &clusters[1..], &["a"], now);
        rows.refused(&sent, &[0], true, "rows[0].reason: Too long", now);
        assert_eq!(rows.refusal(), None);
        let later = now + Duration::from_mins(6);
        for next in rows.due(later) {
            rows.wrote(next, Some(stored(2)), later);
        }
        assert_eq!(rows.refusal(), None);
        assert!(rows.is_settled());
        assert_eq!(rows.due_at(), None);
    }
}

#[test]
fn a_record_whose_write_had_no_response_holds_a_slot_too() {
    let now = Instant::now();
    let mut rows = written(now);
    commit(
        &mut rows,
        &[("a", Phase::Partial), ("b", Phase::PreAction)],
        &[],
        now,
    );
    let lost = due(&mut rows, now);
    rows.failed(&lost, now);
    commit(&mut rows, &[("a", Phase::Partial)], &["b"], now);
    assert_eq!(rows.unreleased().len(), 1);
}

#[test]
fn a_dropped_cluster_that_comes_back_has_the_record_on_the_hub_until_its_row_is_written() {
    let now = Instant::now();
    let mut rows = written(now);
    commit(&mut rows, &[("b", Phase::Pending)], &["a"], now);
    commit(
        &mut rows,
        &[("a", Phase::Pending), ("b", Phase::Pending)],
        &[],
        now,
    );
    assert_eq!(rows.unreleased().len(), 0, "its row counts");
    let phase = |rows: &Rows| {
        rows.get("a")
            .unwrap()
            .written
            .as_ref()
            .map(|written| written.phase)
    };
    assert_eq!(phase(&rows), Some(Phase::Partial));
    let anew = due(&mut rows, now);
    rows.wrote(anew, Some(stored(2)), now);
    assert_eq!(phase(&rows), Some(Phase::Pending));
}

/// Operations could otherwise rely on an attempt that no row tells.
#[test]
fn the_former_row_of_a_cluster_that_is_back_does_not_count_when_it_is_gone() {
    let now = Instant::now();
    let mut rows = written(now);
    commit(&mut rows, &[], &["a"], now);
    let without = due(&mut rows, now);
    let queued = [("a", Phase::Pending), ("b", Phase::Pending)];
    commit(&mut rows, &queued, &[], now);
    assert!(rows.get("a").unwrap().written.is_some());
    rows.wrote(without, Some(stored(2)), now);
    assert_eq!(rows.get("a").unwrap().written, None);
}

#[test]
fn a_dropped_cluster_that_comes_back_has_its_former_row_until_that_is_gone_or_its_own_is_written() {
    let now = Instant::now();
    let mut rows = written(now);
    let complete = [("a", Phase::Complete), ("b", Phase::Pending)];
    commit(&mut rows, &complete, &[], now);
    let ended = due(&mut rows, now);
    rows.wrote(ended, Some(stored(2)), now);
    assert!(rows.unremoved().is_empty());
    commit(&mut rows, &complete[1..], &["a"], now);
    assert_eq!(rows.unremoved(), [&Arc::<str>::from("a")]);
    assert_eq!(rows.unreleased().len(), 0, "it held no slot");
    let refused = due(&mut rows, now);
    rows.failed(&refused, now);
    let queued = [("a", Phase::Pending), ("b", Phase::Pending)];
    commit(&mut rows, &queued, &[], now);
    assert_eq!(rows.unremoved(), [&Arc::<str>::from("a")], "it is back");
    let anew = due(&mut rows, now);
    rows.wrote(anew, Some(stored(3)), now);
    assert!(rows.unremoved().is_empty());
}

#[test]
fn a_rejected_report_is_deleted_although_a_dropped_cluster_has_a_row_elsewhere_that_cannot_be_read() {
    let now = Instant::now();
    let later = now + Duration::from_mins(1);
    let row = |cluster: &str, phase: &str| {
        let since = "2026-03-01T10:00:00Z";
        json!({"cluster": cluster, "phase": phase, "since": since, "revision": "r1"})
    };
    let mut rows = Rows::new(&Arc::from("up"));
    let both = json!([row("a", "Pending"), row("b", "Pending")]);
    rows.observe(&report("up-report-1", 1, &json!("none")), false, false, now);
    rows.observe(&report("up-report-2", 2, &both), false, false, now);
    commit(&mut rows, &[], &["a"], now);
    let mended = json!([row("a", "Later")]);
    rows.observe(&report("up-report-1", 3, &mended), false, true, now);
    for due in rows.due(later) {
        if due.name == "up-report-2" {
            rows.refused(&due, &[], true, "Invalid value", now);
        } else {
            rows.wrote(due, Some(stored(4)), now);
        }
    }
    let mut written = Vec::new();
    for _ in 0..3 {
        for due in rows.due(later) {
            written.push(due.name.clone());
            let left = (!due.rows.is_empty()).then(|| stored(5));
            rows.wrote(due, left, now);
        }
    }
    assert_eq!(written, ["up-report-3", "up-report-2", "up-report-1"]);
}

#[test]
fn a_new_term_and_a_report_that_somebody_deleted_hold_no_slots() {
    let now = Instant::now();
    let mut rows = written(now);
    commit(&mut rows, &[], &["a", "b"], now);
    rows.relist(|_| false, 9, true, now);
    assert_eq!(rows.unreleased().len(), 1, "it is written again, without its row");
    rows.restart();
    assert_eq!(rows.unreleased().len(), 0);
}

/// Operations could otherwise rely on an attempt that no row tells.
#[test]
fn a_cluster_that_was_dropped_has_no_row_in_a_report_that_does_not_exist() {
    let now = Instant::now();
    let later = now + Duration::from_mins(1);
    let mut rows = written(now);
    rows.observe(&report("up-report-1", 2, &json!([])), true, true, now);
    commit(&mut rows, &[], &["a", "b"], now);
    assert!(rows.due(later).is_empty());
    assert!(rows.outdated.is_empty());
    commit(&mut rows, &[("a", Phase::Pending)], &[], now);
    assert_eq!(rows.get("a").unwrap().written, None);
}

#[test]
fn a_row_in_a_lower_report_counts_when_the_higher_one_does_not_exist_any_more() {
    let now = Instant::now();
    let later = now + Duration::from_mins(1);
    let since = "2026-03-01T10:00:00Z";
    let found = json!([{"cluster": "a", "phase": "Pending", "since": since, "revision": "r1"}]);
    let mut rows = Rows::new(&Arc::from("up"));
    rows.observe(&report("up-report-1", 1, &json!("none")), false, false, now);
    rows.observe(&report("up-report-2", 2, &found), false, false, now);
    rows.observe(&report("up-report-2", 3, &json!([])), true, true, now);
    commit(&mut rows, &[], &["a"], now);
    assert!(rows.due(later).is_empty());
    // Somebody mends the first report.
    rows.observe(&report("up-report-1", 4, &found), false, true, now);
    commit(&mut rows, &[("a", Phase::Partial)], &[], now);
    let write = due(&mut rows, now);
    assert_eq!((write.shard, write.rows.len()), (0, 1));
    rows.wrote(write, Some(stored(5)), now);
    let row = rows.get("a").unwrap();
    assert_eq!(row.written.as_ref(), Some(&row.record));
    assert!(rows.is_settled());
}

#[test]
fn a_dropped_cluster_that_comes_back_gets_no_lower_shard_than_the_one_that_may_still_hold_its_row() {
    let now = Instant::now();
    let names: Vec<String> = (0..=MAX_ROWS).map(|number| format!("c{number:03}")).collect();
    let mut clusters: Vec<(&str, Phase)> = names.iter().map(|name| (name.as_str(), Phase::Pending)).collect();
    let last = clusters[MAX_ROWS].0;
    let mut rows = Rows::new(&Arc::from("up"));
    commit(&mut rows, &clusters, &[], now);
    for write in rows.due(now + Duration::from_mins(5)) {
        rows.wrote(write, Some(stored(1)), now);
    }
    assert_eq!(rows.get(last).unwrap().shard, 1);
    // The first shard has room again, but the second one still has the row.
    clusters.remove(0);
    let without: Vec<(&str, Phase)> = clusters
        .iter()
        .copied()
        .filter(|(name, _)| *name != last)
        .collect();
    commit(&mut rows, &without, &["c000", last], now);
    commit(&mut rows, &clusters, &[], now);
    assert_eq!(rows.get(last).unwrap().shard, 1);
    // After the second one was deleted, any shard will do.
    commit(&mut rows, &without, &[last], now);
    for write in rows.due(now + Duration::from_mins(5)) {
        let left = (!write.rows.is_empty()).then(|| stored(2));
        rows.wrote(write, left, now);
    }
    commit(&mut rows, &clusters, &[], now);
    assert_eq!(rows.get(last).unwrap().shard, 0);
}

#[test]
fn a_dropped_cluster_holds_its_slot_while_the_first_write_of_its_row_has_no_response() {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("up"));
    commit(&mut rows, &[("a", Phase::PreAction)], &[], now);
    let slow = due(&mut rows, now);
    commit(&mut rows, &[("a", Phase::Blocked)], &[], now);
    commit(&mut rows, &[], &["a"], now);
    assert_eq!(rows.unreleased().len(), 1);
    rows.failed(&slow, now);
    assert_eq!(rows.unreleased().len(), 1, "it may have taken effect");
    let empty = report("up-report-1", 3, &json!([]));
    rows.observe(&empty, false, true, now);
    assert_eq!(rows.unreleased().len(), 0);
}

#[test]
fn a_report_that_may_have_been_created_holds_the_slots_of_its_rows_until_it_is_known_to_be_gone() {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("up"));
    commit(&mut rows, &[("a", Phase::PreAction)], &[], now);
    let lost = due(&mut rows, now);
    rows.failed(&lost, now);
    commit(&mut rows, &[], &["a"], now);
    let removed = due(&mut rows, now);
    assert!(removed.rows.is_empty());
    assert_eq!(rows.unreleased().len(), 1);
    let mut found = report("up-report-1", 3, &json!(lost.rows));
    found.metadata.uid = Some("report-uid".to_owned());
    rows.conflicted(&removed, Some(&found), true, now);
    assert_eq!(rows.unreleased().len(), 1);
    let removed = due(&mut rows, now);
    assert!(removed.replaces.is_some());
    rows.wrote(removed, None, now);
    assert_eq!(rows.unreleased().len(), 0);
    assert_eq!(rows.due_at(), None);
}

#[test]
fn a_first_write_that_the_hub_rejected_holds_no_slot() {
    let now = Instant::now();
    let mut rows = Rows::new(&Arc::from("up"));
    commit(&mut rows, &[("a", Phase::PreAction)], &[], now);
    let rejected = due(&mut rows, now);
    rows.refused(&rejected, &[0], true, "no", now);
    commit(&mut rows, &[], &["a"], now);
    assert_eq!(rows.unreleased().len(), 0);
}

/// The same rows in the second report. The hub rejects the first one, which stays as it was.
fn moved(now: Instant) -> Rows {
    let mut rows = written(now);
    commit(
        &mut rows,
        &[("a", Phase::Operators), ("b", Phase::Pending)],
        &[],
        now,
    );
    for _ in ["with new records", "with accepted ones only"] {
        let rejected = rows.due(now + Duration::from_mins(1)).remove(0);
        rows.refused(&rejected, &[0, 1], true, "the schema has changed", now);
    }
    assert_eq!(rows.get("a").unwrap().shard, 1, "it moved");
    let moved = rows.due(now + Duration::from_mins(1)).remove(0);
    assert_eq!(moved.shard, 1);
    rows.wrote(moved, Some(stored(2)), now);
    rows
}

#[test]
fn a_dropped_cluster_holds_its_slot_while_a_rejected_report_that_it_left_has_its_row() {
    let now = Instant::now();
    let mut rows = moved(now);
    commit(&mut rows, &[], &["a", "b"], now);
    let mut sent = rows.due(now + Duration::from_mins(1));
    let removed = sent.remove(1);
    assert_eq!((removed.shard, removed.rows.len()), (1, 0));
    rows.wrote(removed, None, now);
    assert_eq!(rows.unreleased().len(), 1, "the first report still has it");
    let rejected = sent.remove(0);
    assert_eq!((rejected.shard, rejected.rows.len()), (0, 0));
    rows.wrote(rejected, None, now);
    assert_eq!(rows.unreleased().len(), 0);
}

#[test]
fn a_dropped_cluster_that_comes_back_holds_its_slot_while_only_a_rejected_report_has_its_row() {
    let now = Instant::now();
    let soon = now + Duration::from_mins(1);
    let mut rows = moved(now);
    commit(&mut rows, &[("b", Phase::Pending)], &["a"], now);
    let mut sent = rows.due(soon);
    assert_eq!(sent[0].shard, 0, "its deletion is not answered until the end");
    rows.wrote(sent.remove(1), Some(stored(3)), now);
    assert_eq!(rows.unreleased().len(), 1, "the first report still has it");
    commit(
        &mut rows,
        &[("a", Phase::Pending), ("b", Phase::Pending)],
        &[],
        now,
    );
    let held = |rows: &Rows| rows.get("a").unwrap().written.as_ref().map(|row| row.phase);
    assert_eq!(held(&rows), Some(Phase::Partial));
    // What the second report is found to be says nothing of the first one.
    let write = rows.due(soon).remove(0);
    assert_eq!(write.shard, 1);
    let found = report("up-report-2", 4, &json!([]));
    rows.conflicted(&write, Some(&found), true, now);
    assert_eq!(held(&rows), Some(Phase::Partial), "a write met another copy");
    let edited = report("up-report-2", 5, &json!([]));
    assert!(rows.observe(&edited, false, true, now));
    assert_eq!(held(&rows), Some(Phase::Partial), "somebody changed it");
    let again = rows.due(soon).remove(0);
    rows.wrote(again, Some(stored(6)), now);
    assert_eq!(
        held(&rows),
        Some(Phase::Pending),
        "the row in the highest report counts"
    );
}

/// Otherwise its work would be deleted, and a leader that is elected before the late report is gone would find the older row.
#[test]
fn a_row_counts_as_written_only_when_no_late_report_has_an_older_one() {
    let now = Instant::now();
    let soon = now + Duration::from_mins(1);
    let mut former = Rows::new(&Arc::from("up"));
    let before = [("a", Phase::Partial), ("b", Phase::Pending)];
    commit(&mut former, &before, &[], now);
    let late = report("up-report-2", 2, &json!(due(&mut former, now).rows));
    let ended = |rows: &mut Rows| {
        let ended = [("a", Phase::Complete), ("b", Phase::Pending)];
        commit(rows, &ended, &[], now);
    };
    let held = |rows: &Rows| rows.get("a").unwrap().written.as_ref().map(|row| row.phase);

    let mut rows = written(now);
    ended(&mut rows);
    let wrote = due(&mut rows, now);
    rows.wrote(wrote, Some(stored(2)), now);
    assert_eq!(held(&rows), Some(Phase::Complete));
    assert!(rows.observe(&late, false, true, now));
    assert_eq!(
        held(&rows),
        Some(Phase::Partial),
        "a new leader would find that one"
    );

    let mut rows = written(now);
    assert!(rows.observe(&late, false, true, now));
    ended(&mut rows);
    assert_eq!(rows.due_at(), Some(now), "the late report goes at once");
    let mut sent = rows.due(soon);
    let removed = sent.remove(1);
    assert_eq!((removed.shard, removed.rows.len()), (1, 0));
    rows.wrote(sent.remove(0), Some(stored(3)), now);
    assert_eq!(
        held(&rows),
        Some(Phase::Partial),
        "the late report may still be there"
    );
    rows.wrote(removed, None, now);
    let again = rows.due(now).remove(0);
    assert_eq!(again.shard, 0);
    rows.wrote(again, Some(stored(3)), now);
    assert_eq!(held(&rows), Some(Phase::Complete));
    assert!(rows.due(soon).is_empty());
}

/// The rows of cluster `a` as a replica finds them when its term begins, in a lower and a higher report.
fn found(lower: RecordBuilder, higher: RecordBuilder, is_swapped: bool, now: Instant) -> Rows {
    let rows_of = |record: RecordBuilder| {
        let mut source = Rows::new(&Arc::from("up"));
        let plan = Plan {
            clusters: vec![state("a", record)],
            ..Plan::default()
        };
        source.commit(&plan, &policy().build(), now, |_| (false, false));
        json!(due(&mut source, now).rows)
    };
    let mut reports = [
        report("up-report-1", 3, &rows_of(lower)),
        report("up-report-2", 4, &rows_of(higher)),
    ];
    if is_swapped {
        reports.reverse();
    }
    let mut rows = Rows::new(&Arc::from("up"));
    for held in &reports {
        assert!(rows.observe(held, false, false, now));
    }
    rows
}

#[test]
fn a_new_leader_believes_no_late_report_that_does_not_know_of_an_end() {
    let now = Instant::now();
    let begun = |phase: Phase| record(phase).succeeded(Stage::PreAction, 1);
    let updating = || begun(Phase::Partial).stage(Stage::Platform, 5);
    let updated = |phase: Phase| begun(phase).succeeded(Stage::Platform, 5);
    let checked = || updated(Phase::PostAction).stage(Stage::PostAction, 9);
    let held = |rows: &Rows| rows.get("a").unwrap().written.as_ref().map(|row| row.phase);
    for is_swapped in [false, true] {
        let mut rows = found(checked(), updating(), is_swapped, now);
        let row = rows.get("a").unwrap();
        assert_eq!((row.shard, row.record.phase), (0, Phase::PostAction));
        assert_eq!(held(&rows), Some(Phase::Partial), "it is not corrected yet");
        let removed = rows.due(now).remove(0);
        assert_eq!((removed.shard, removed.rows.len()), (1, 0), "at once");
        rows.wrote(removed, None, now);
        let again = rows.due(now).remove(0);
        assert_eq!((again.shard, again.rows.len()), (0, 1));
        rows.wrote(again, Some(stored(5)), now);
        assert_eq!(held(&rows), Some(Phase::PostAction));
        assert!(rows.due(now + Duration::from_mins(1)).is_empty());
    }
    let shard = |lower: RecordBuilder, higher: RecordBuilder| {
        let rows = found(lower, higher, false, now);
        rows.get("a").unwrap().shard
    };
    let complete = || updated(Phase::Complete).succeeded(Stage::PostAction, 9);
    assert_eq!(shard(complete(), checked()), 0);
    assert_eq!(shard(complete(), begun(Phase::PreAction)), 0);
    assert_eq!(
        shard(updated(Phase::Partial), checked()),
        1,
        "it knows of that end"
    );
    let anew = begun(Phase::Partial).stage(Stage::Platform, 6);
    assert_eq!(shard(checked(), anew), 1, "the step began anew");
    assert_eq!(
        shard(checked(), updating().retry("again")),
        1,
        "that is another attempt"
    );
    assert_eq!(
        shard(complete(), record(Phase::Pending)),
        1,
        "it may have been registered anew"
    );
    assert_eq!(
        shard(begun(Phase::Complete), begun(Phase::Failed)),
        1,
        "somebody has written that, because no step has ended after the pre-action"
    );
    let operators = |phase: Phase| begun(phase).succeeded(Stage::Operators, 5);
    assert_eq!(
        shard(operators(Phase::Complete), operators(Phase::Soaking)),
        0,
        "an upgrade of operators alone"
    );
}
