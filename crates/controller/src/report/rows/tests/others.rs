//! Reports that something else changes.

use super::*;

#[test]
fn a_shard_that_somebody_edits_or_deletes_is_written_anew() {
    let now = Instant::now();
    for deleted in [false, true] {
        let mut rows = rows();
        fill(&mut rows, 1, now);
        write(&mut rows, 7, now + COALESCE);
        let edited = report("up-report-1", 8, &json!([]));
        assert!(rows.observe(&edited, deleted, true, now));
        let row = rows.get("c00000").unwrap();
        assert!(row.written.is_none(), "the hub does not have it any more");
        assert_eq!(rows.due_at(), Some(now + COALESCE));
        let due = rows.due(now + COALESCE).remove(0);
        assert_eq!(due.rows.len(), 1);
        rows.wrote(due, Some(stored(9)), now);
        assert_eq!(rows.due_at(), None);
        assert!(rows.get("c00000").unwrap().written.is_some());
    }
}

#[test]
fn until_a_changed_shard_is_written_again_its_rows_are_those_that_the_hub_holds() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, vec![state("c1", record(Phase::Partial))], now);
    let late = write(&mut rows, 7, now + COALESCE).remove(0);
    commit(&mut rows, vec![state("c1", record(Phase::Pending))], now);
    let held = |rows: &Rows| rows.get("c1").unwrap().written.as_ref().map(|row| row.phase);
    let mut carried_out_late = late.clone();
    carried_out_late.metadata.resource_version = Some("8".to_owned());
    assert!(rows.observe(&carried_out_late, false, true, now));
    assert_eq!(held(&rows), Some(Phase::Partial), "the slot is not free yet");
    let due = rows.due(now + COALESCE).remove(0);
    let unknown = report("up-report-1", 9, &json!([]));
    assert!(
        !rows.observe(&unknown, false, true, now),
        "while a write is under way"
    );
    rows.failed(&due, now);
    assert_eq!(
        held(&rows),
        Some(Phase::Partial),
        "nobody knows what the hub holds"
    );
    let due = rows.due(now + seconds(60)).remove(0);
    rows.conflicted(&due, Some(&unknown), true, now);
    assert_eq!(held(&rows), None);
}

#[test]
fn what_was_accepted_before_an_edit_is_sent_again_when_the_next_row_is_rejected() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, vec![state("c1", record(Phase::Partial))], now);
    write(&mut rows, 7, now + COALESCE);
    commit(&mut rows, vec![state("c1", record(Phase::Complete))], now);
    let accepted = rows.due(now + seconds(60)).remove(0);
    rows.observe(&report("up-report-1", 9, &json!([])), false, true, now);
    rows.wrote(accepted, Some(stored(8)), now);
    let changed = record(Phase::Complete).reason(Reason::Failing);
    commit(&mut rows, vec![state("c1", changed)], now);
    let rejected = rows.due(now + seconds(120)).remove(0);
    rows.refused(&rejected, &[0], true, "no", now);
    let former = rows.due(now + seconds(180)).remove(0);
    assert_eq!(former.rows[0].made().unwrap().phase, Phase::Complete);
}

#[test]
fn an_edit_that_overtakes_the_answer_to_our_write_is_not_missed() {
    let now = Instant::now();
    let mut rows = rows();
    fill(&mut rows, 1, now);
    let due = rows.due(now + COALESCE).remove(0);
    rows.observe(&report("up-report-1", 8, &json!([])), false, true, now);
    rows.wrote(due, Some(stored(7)), now);
    assert!(rows.get("c00000").unwrap().written.is_none());
    assert!(rows.due_at().is_some());
}

#[test]
fn an_edit_during_a_write_that_the_hub_rejects_is_not_missed() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, vec![state("c1", record(Phase::Complete))], now);
    write(&mut rows, 7, now + COALESCE);
    let changed = record(Phase::Complete).reason(Reason::Failing);
    commit(&mut rows, vec![state("c1", changed)], now);
    let due = rows.due(now + seconds(60)).remove(0);
    rows.observe(&report("up-report-1", 9, &json!([])), false, true, now);
    rows.refused(&due, &[0], true, "no", now);
    let written = rows.get("c1").unwrap().written.as_ref().unwrap();
    assert_eq!(written.phase, Phase::Pending, "nobody knows that it is complete");
    assert!(rows.take_disowned());
}

/// Otherwise a cluster that is queued again would begin before its new attempt is announced, and a new leader would find its former
/// row, take the work for a leftover, and give its slot away.
#[test]
fn of_a_row_that_the_hub_may_not_have_any_more_only_the_attempt_counts() {
    let now = Instant::now();
    let overtaken = |is_answered: bool| {
        let mut rows = rows();
        commit(&mut rows, vec![state("c1", record(Phase::Complete))], now);
        write(&mut rows, 7, now + COALESCE);
        commit(
            &mut rows,
            vec![state("c1", record(Phase::Complete).reason(Reason::Failing))],
            now,
        );
        let due = rows.due(now + seconds(60)).remove(0);
        rows.observe(&report("up-report-1", 9, &json!([])), false, true, now);
        if is_answered {
            rows.wrote(due, Some(stored(8)), now);
        } else {
            rows.failed(&due, now);
        }
        rows
    };
    for is_answered in [true, false] {
        let mut rows = overtaken(is_answered);
        let row = rows.get("c1").unwrap();
        let written = row.written.as_ref().unwrap();
        assert_eq!(written.attempt, row.record.attempt);
        assert_eq!(written.phase, Phase::Pending, "nobody knows that it is complete");
        assert!(written.stages.iter().all(Option::is_none));
        let due = rows.due(now + seconds(120)).remove(0);
        rows.wrote(due, Some(stored(10)), now);
        assert_eq!(
            rows.get("c1").unwrap().written.as_ref().unwrap().phase,
            Phase::Complete
        );
    }
}

/// The hub gives no new version to a report that a write does not change. A write that was sent before it could still be carried out.
#[test]
fn a_write_that_may_have_the_rows_of_the_hub_changes_the_report_while_an_earlier_one_may_be_carried_out() {
    let now = Instant::now();
    let mut rows = rows();
    commit(&mut rows, vec![state("c1", record(Phase::Pending))], now);
    write(&mut rows, 7, now + COALESCE);
    commit(&mut rows, vec![state("c1", record(Phase::Blocked))], now);
    let lost = rows.due(now + COALESCE).remove(0);
    assert!(!lost.must_change(), "nothing else is under way");
    rows.failed(&lost, now);
    let repeated = rows.due(now + seconds(10)).remove(0);
    assert!(repeated.must_change());
    rows.refused(&repeated, &[0], true, "no", now);
    let former = rows.due(now + seconds(20)).remove(0);
    assert_eq!(former.rows[0].made().unwrap().phase, Phase::Pending);
    assert!(former.must_change(), "the hub has this row");
    rows.wrote(former, Some(stored(8)), now);
    commit(&mut rows, vec![state("c1", record(Phase::Failed))], now);
    let next = rows.due(now + seconds(30)).remove(0);
    assert!(!next.must_change(), "none of the earlier ones counts any more");
}
