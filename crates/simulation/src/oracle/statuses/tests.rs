use super::*;
use crate::oracle::facts::Created;
use crate::oracle::generation::Generation;
use crate::oracle::row::Row;

const EDIT: Duration = Duration::from_mins(1);

fn row(phase: &str, revision: &str) -> Row {
    Row {
        phase: phase.to_owned(),
        revision: revision.to_owned(),
        ..Row::default()
    }
}

/// There is one slot. The update of c1 had ended, and c2 had started, when an edit came. The last row of c1 before that says this.
fn edited(phase: &str) -> Facts {
    let spec = |number: i64, asks: &str, since: Duration| Generation {
        number,
        since,
        max_concurrency: 1,
        asks: asks.to_owned(),
        ..Generation::default()
    };
    let work = Running {
        name: "c1-cluster-upgrade".to_owned(),
        owner: "u".to_owned(),
        cluster: "c1".to_owned(),
        revision: "r1".to_owned(),
        ..Running::default()
    };
    let record = Record {
        before: vec![row(phase, "r1")],
        ..Record::default()
    };
    let before_edit = |seconds: u64| EDIT.saturating_sub(Duration::from_secs(seconds));
    let mut facts = Facts::default();
    facts.works.insert("w".to_owned(), work);
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations = vec![spec(1, "a", Duration::ZERO), spec(2, "b", EDIT)];
    upgrade.records.insert("c1".to_owned(), record);
    upgrade.finished.insert("c1".to_owned(), before_edit(2));
    upgrade.flights.insert("c2".to_owned(), before_edit(1));
    facts
}

/// Whether a status may count so many clusters under way so long after the edit.
fn may_count(mut facts: Facts, in_flight: u64, seconds: u64) -> bool {
    facts.now = EDIT + Duration::from_secs(seconds);
    facts.under_way("u", in_flight);
    facts.violations.is_empty()
}

fn may_count_both(facts: Facts, seconds: u64) -> bool {
    may_count(facts, 2, seconds)
}

/// There is one slot. The update of c1 ended at the time of the edit, its last row before that says this, and what was edited is
/// the row of c2: it says that its update has begun.
fn ended_beside_an_edited_row(phase: &str) -> Facts {
    let mut facts = edited(phase);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.generations.pop();
    upgrade.flights.clear();
    upgrade.finished.insert("c1".to_owned(), EDIT);
    let record = upgrade.records.get_mut("c1").unwrap();
    record.phases = vec![Told::at(Duration::from_secs(50), phase)];
    let other = Record {
        is_edited: true,
        ..Record::default()
    };
    upgrade.records.insert("c2".to_owned(), other);
    facts
}

#[test]
fn a_cluster_that_is_queued_again_before_any_row_told_of_its_start_counts_until_its_row_is_written() {
    for phase in ["Pending", "Blocked", "PreActionDegraded"] {
        assert!(may_count_both(edited(phase), 1), "{phase}");
        assert!(!may_count_both(edited(phase), 11), "{phase}");
    }
    let mut facts = edited("Pending");
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.records.clear();
    assert!(may_count_both(facts, 1), "no row was ever written");
    // The status may arrive after the row of the edit.
    let mut facts = edited("Pending");
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    let record = upgrade.records.get_mut("c1").unwrap();
    record.former.insert("r1".to_owned(), row("Pending", "r1"));
    record.before = vec![row("Pending", "r2")];
    assert!(may_count_both(facts, 1), "the row is on its way");
}

#[test]
fn a_row_from_before_its_cluster_was_registered_anew_counts_also_if_it_arrives_late() {
    let may_count = |sent: u64, since: u64| {
        let mut facts = edited("Partial");
        facts.works.clear();
        facts.cluster("c1").registered = EDIT;
        let told = Told {
            sent: Duration::from_secs(sent),
            ..Told::at(Duration::from_secs(since), "Partial")
        };
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.records.get_mut("c1").unwrap().phases = vec![told];
        may_count_both(facts, 20)
    };
    assert!(may_count(50, 50));
    assert!(may_count(50, 75), "it was sent before");
    assert!(!may_count(65, 75), "it was sent since");
}

#[test]
fn a_cluster_whose_end_is_told_or_that_no_edit_concerns_does_not_count() {
    assert!(!may_count_both(edited("PostAction"), 1));
    let mut facts = edited("Pending");
    facts.works.clear();
    assert!(!may_count_both(facts, 1), "nothing tells of its start");
    let mut facts = edited("Pending");
    facts.upgrades.get_mut("u").unwrap().finished.clear();
    assert!(!may_count_both(facts, 1), "it has not ended its update");
    let mut facts = edited("Pending");
    facts.upgrades.get_mut("u").unwrap().generations.pop();
    assert!(!may_count_both(facts, 1), "nothing was edited");
}

#[test]
fn a_cluster_whose_end_is_not_heard_of_yet_counts_beside_one_whose_row_somebody_edits() {
    assert!(may_count_both(ended_beside_an_edited_row("Partial"), 1));
    let mut facts = ended_beside_an_edited_row("Partial");
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade
        .finished
        .insert("c1".to_owned(), EDIT + Duration::from_secs(2));
    assert!(may_count_both(facts, 1), "the status was on its way");
    let late = ended_beside_an_edited_row("Partial");
    assert!(!may_count_both(late, 6), "it is heard of by now");
    for phase in ["Soaking", "PostAction", "Complete", "Failed", "Pending"] {
        assert!(!may_count_both(ended_beside_an_edited_row(phase), 1), "{phase}");
    }
    let mut facts = ended_beside_an_edited_row("Partial");
    facts.upgrades.get_mut("u").unwrap().records.remove("c2");
    assert!(!may_count_both(facts, 1), "nobody has edited a row");
}

#[test]
fn a_cluster_whose_end_let_another_one_start_does_not_count() {
    let may_count_all = |started: Duration| {
        let mut facts = ended_beside_an_edited_row("Partial");
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.flights.insert("c3".to_owned(), started);
        may_count(facts, 3, 2)
    };
    assert!(may_count_all(EDIT.saturating_sub(Duration::from_secs(1))));
    assert!(
        !may_count_all(EDIT + Duration::from_secs(1)),
        "the end was heard of"
    );
}

#[test]
fn a_cluster_whose_end_was_taken_back_before_it_was_heard_of_counts_as_long_as_its_work_goes_on() {
    let taken_back = |phase: &str, goes_on: bool| {
        let mut facts = ended_beside_an_edited_row(phase);
        let work = facts.works.get_mut("w").unwrap();
        work.goes_on = goes_on;
        work.taken_back = Some(EDIT);
        may_count_both(facts, 30)
    };
    assert!(taken_back("Partial", true));
    assert!(!taken_back("Partial", false), "it has ended again");
    assert!(!taken_back("Complete", true), "the end was heard of");
    let mut facts = ended_beside_an_edited_row("Partial");
    facts.works.get_mut("w").unwrap().goes_on = true;
    assert!(!may_count_both(facts, 30), "its end was never taken back");
}

/// There is one slot. The update of c1 had ended, and c2 had started, when the work of c1 was deleted. The last row of c1 says this.
fn deleted(phase: &str, by: Role) -> Facts {
    let mut facts = edited(phase);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.generations.pop();
    let record = upgrade.records.get_mut("c1").unwrap();
    record.phases = vec![Told::at(Duration::from_secs(50), phase)];
    facts.deleters.insert("w".to_owned(), (EDIT, Some(by)));
    facts
}

#[test]
fn a_cluster_whose_finished_work_somebody_deletes_counts_until_its_row_says_so() {
    let gone = |phase: &str, at: Duration| {
        let mut facts = deleted(phase, Role::People);
        let work = facts.works.remove("w").unwrap();
        let created = Created {
            deleted: Some((at, Some(Role::People))),
            ..Created::default()
        };
        facts.created.insert(work.key(), created);
        may_count_both(facts, 30)
    };
    assert!(may_count_both(deleted("Partial", Role::People), 30));
    assert!(gone("Partial", EDIT));
    assert!(
        !gone("Partial", EDIT.saturating_sub(Duration::from_secs(3))),
        "an earlier work"
    );
    assert!(!may_count_both(deleted("Partial", Role::Controller), 30));
    for phase in ["Soaking", "PostAction", "Complete"] {
        assert!(!may_count_both(deleted(phase, Role::People), 30), "{phase}");
        assert!(!gone(phase, EDIT), "{phase}");
    }
    let mut facts = deleted("Partial", Role::People);
    facts.deleters.clear();
    assert!(!may_count_both(facts, 30), "nobody has deleted its work");
    let mut facts = deleted("Partial", Role::People);
    facts.upgrades.get_mut("u").unwrap().finished.clear();
    assert!(!may_count_both(facts, 30), "its update has not ended");
}

/// Somebody has deleted the work of c2, too, when the last row of c2 said this, if there was one.
fn both_deleted(phase: Option<&str>, is_under_way: bool) -> Facts {
    let mut facts = deleted("Partial", Role::People);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    if let Some(phase) = phase {
        let record = Record {
            before: vec![row(phase, "r1")],
            ..Record::default()
        };
        upgrade.records.insert("c2".to_owned(), record);
    }
    if !is_under_way {
        upgrade.release("c2");
    }
    upgrade.note_doubtful("c2", ("r1".to_owned(), String::new()), EDIT);
    facts
}

#[test]
fn a_cluster_whose_work_somebody_deletes_before_a_row_tells_of_its_start_counts_until_that_is_written() {
    for phase in [None, Some("Pending"), Some("Blocked")] {
        assert!(may_count_both(both_deleted(phase, true), 1), "{phase:?}");
        assert!(!may_count_both(both_deleted(phase, true), 6), "{phase:?}");
        assert!(
            !may_count_both(both_deleted(phase, false), 1),
            "{phase:?}: it was not under way"
        );
    }
    let told = both_deleted(Some("Partial"), true);
    assert!(told.upgrades["u"].untold.is_empty(), "its row tells of it");
}

/// There is one slot. c1 counts by its row from before it was registered anew, and c2 is under way when the upgrade is deleted.
#[test]
fn a_cluster_that_was_under_way_when_its_upgrade_was_deleted_counts_until_that_is_heard_of() {
    let may_count = |is_under_way: bool, seconds: u64| {
        let mut facts = edited("Partial");
        facts.works.clear();
        facts.cluster("c1").registered = EDIT;
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        let told = Told::at(Duration::from_secs(50), "Partial");
        upgrade.records.get_mut("c1").unwrap().phases = vec![told];
        if !is_under_way {
            upgrade.release("c2");
        }
        upgrade.release_all(EDIT + Duration::from_secs(20));
        may_count_both(facts, seconds)
    };
    assert!(may_count(true, 19), "the status was on its way");
    assert!(may_count(true, 24));
    assert!(!may_count(true, 26), "it is heard of by now");
    assert!(!may_count(false, 21), "it had ended before");
}
