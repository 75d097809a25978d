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
