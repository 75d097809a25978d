use std::sync::Arc;

use super::*;
use crate::actor::Role;
use crate::oracle::facts::{End, Running};
use crate::oracle::generation::Generation;
use crate::oracle::row::Step;

const NOW: Duration = Duration::from_mins(5);

fn row(phase: &str, revision: &str) -> Row {
    let reason = if phase == "Failed" { "LeftSelection" } else { "" };
    Row {
        phase: phase.to_owned(),
        reason: reason.to_owned(),
        revision: revision.to_owned(),
        ..Row::default()
    }
}

fn record(facts: &mut Facts) -> &mut Record {
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.entry("c1".to_owned()).or_default()
}

/// An edit has queued a cluster again, but its row says so only since some time after it had left the selection. The update of the
/// attempt before had ended.
fn left(seconds: u64) -> Facts {
    let work = Running {
        name: "c1-cluster-upgrade".to_owned(),
        owner: "u".to_owned(),
        cluster: "c1".to_owned(),
        revision: "r1".to_owned(),
        ..Running::default()
    };
    let sender = Sender {
        role: Role::Controller,
        identity: Arc::from("r0"),
        at: NOW,
    };
    let mut facts = Facts {
        now: NOW,
        sender: Some(sender),
        is_unbound: true,
        ..Facts::default()
    };
    facts.works.insert("w".to_owned(), work);
    let changed = NOW.saturating_sub(Duration::from_secs(seconds));
    facts.cluster("c1").changed = changed;
    facts.cluster("c1").is_there = true;
    let record = record(&mut facts);
    record.before = vec![row("Pending", "r2")];
    record.phases = vec![Told::at(changed + Duration::from_secs(1), "Pending")];
    record.superseded = BTreeSet::from([("r1".to_owned(), String::new())]);
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.selectors = vec![BTreeSet::from(["c1".to_owned()])];
    facts
}

/// Whether the controller may write these rows, one after the other.
fn may_write(facts: &mut Facts, rows: &[Row]) -> bool {
    for row in rows {
        facts.row("u", "c1", row);
    }
    let mut violations = facts.violations.iter();
    violations.all(|violation| violation.rule != Rule::Rows)
}

#[test]
fn a_cluster_that_left_while_it_was_queued_again_falls_back_to_the_attempt_of_its_work() {
    for phase in ["Failed", "Complete"] {
        for seconds in [70, 200] {
            let ended = || row(phase, "r1");
            let rows = [ended(), ended(), row("Pending", "r2"), row("Initialized", "r2")];
            assert!(may_write(&mut left(seconds), &rows), "{phase} after {seconds} s");
        }
    }
    // Its pre-action was removed.
    let mut facts = left(200);
    record(&mut facts).before = vec![row("PreAction", "r2")];
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    // The spec leaves it out.
    let mut facts = left(200);
    record(&mut facts).before = vec![row("Skipped", "r2")];
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    // Only what checked it is left.
    let mut facts = left(200);
    facts.works.clear();
    let texts = ["u", "c1", "c1-post-upgrade-action", "r1", ""].map(str::to_owned);
    facts.keys.insert("w".to_owned(), texts.into());
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    // Its set was bound again so shortly before that nobody may have heard.
    let mut facts = left(70);
    facts.is_unbound = false;
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    // The row was under way for long, and is written again.
    let mut facts = left(200);
    facts.now = NOW + Duration::from_secs(10);
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    facts.sender.as_mut().unwrap().at = facts.now;
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
}

#[test]
fn a_row_that_a_cluster_got_late_when_it_was_just_back_is_written_again_long_after() {
    let mut facts = left(30);
    facts.works.clear();
    facts.now = NOW + Duration::from_secs(10);
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    facts.now = NOW + Duration::from_secs(100);
    facts.sender.as_mut().unwrap().at = facts.now;
    assert!(may_write(&mut facts, &[row("Failed", "r1")]));
    // It was not back just before.
    let mut facts = left(200);
    facts.works.clear();
    facts.now = NOW + Duration::from_secs(10);
    assert!(!may_write(&mut facts, &[row("Failed", "r1")]));
}

#[test]
fn a_row_that_was_sent_before_its_cluster_was_lost_says_nothing_of_the_next_life() {
    let begun = |phase: &str, started: &str| {
        let step = Step {
            name: "PreAction".to_owned(),
            started: started.to_owned(),
            outcome: "Succeeded".to_owned(),
            ..Step::default()
        };
        Row {
            steps: vec![step],
            ..row(phase, "r2")
        }
    };
    // The cluster is back since 230 s, and that row arrives at 295 s.
    let may_begin = |sent: u64, is_repeated: bool, disturbed: u64| {
        let mut facts = left(70);
        facts.disturbed.until = Duration::from_secs(disturbed);
        facts.works.clear();
        let record = record(&mut facts);
        record.before = vec![begun("PreAction", "a")];
        record.phases = vec![Told::at(Duration::from_secs(100), "PreAction")];
        let mut write = |sent: u64, at: u64, row: Row| {
            facts.now = Duration::from_secs(at);
            facts.sender.as_mut().unwrap().at = Duration::from_secs(sent);
            may_write(&mut facts, &[row])
        };
        assert!(write(sent, 295, begun("Initialized", "a")));
        if is_repeated {
            assert!(write(298, 298, begun("Initialized", "a")));
        }
        write(300, 300, begun("PreAction", "b"))
    };
    let may_begin_anew = |sent: u64, is_repeated: bool| may_begin(sent, is_repeated, 0);
    assert!(may_begin_anew(220, false));
    assert!(!may_begin_anew(240, false), "it was sent after that");
    assert!(!may_begin_anew(220, true), "it was sent once more");
    // Its sender may not have heard that the cluster is back.
    assert!(may_begin(240, false, 300));
    assert!(!may_begin(240, false, 230), "nothing kept him from that");
}

#[test]
fn a_row_of_whoever_may_not_have_heard_of_a_change_says_nothing_of_the_time_after_it() {
    let may_end_anew = |sent: u64| {
        let mut facts = left(200);
        facts.works.clear();
        facts.disturbed.until = NOW;
        record(&mut facts).phases = vec![Told::at(Duration::from_secs(100 + sent), "Pending")];
        may_write(&mut facts, &[row("Failed", "r1")])
    };
    assert!(may_end_anew(70));
    assert!(!may_end_anew(80), "that was long after");
}

#[test]
fn a_first_row_that_arrives_after_its_step_began_anew_says_nothing_of_the_next_start() {
    let may_begin_anew = |sent: u64, named: &str| {
        let with_start = |started: &str| Row {
            steps: vec![Step {
                name: "Platform".to_owned(),
                started: started.to_owned(),
                outcome: "Succeeded".to_owned(),
                ..Step::default()
            }],
            ..row("PostAction", "r1")
        };
        let mut facts = left(200);
        *record(&mut facts) = Record::default();
        named.clone_into(&mut work(&mut facts).started);
        facts.sender.as_mut().unwrap().at = Duration::from_secs(sent);
        let is_late = facts.was_held_up();
        facts.row_of("report-1", "u", ("c1", &with_start("a")), is_late);
        facts.sender.as_mut().unwrap().at = NOW;
        may_write(&mut facts, &[with_start("b")])
    };
    assert!(may_begin_anew(270, "b"));
    assert!(!may_begin_anew(270, "a"), "its work is there");
    assert!(!may_begin_anew(298, "b"), "it was not late");
}

#[test]
fn a_row_that_follows_from_an_edit_which_the_storage_has_taken_back_ends_no_attempt() {
    let spec = |asks: &str, since: u64| Generation {
        asks: asks.to_owned(),
        since: Duration::from_secs(since),
        ..Generation::default()
    };
    let may_return = |taken_back: &str, edit: Option<u64>, sent: u64, revisions: &[&str]| {
        let mut facts = left(200);
        facts.is_unbound = false;
        facts.works.clear();
        facts.upgrades.get_mut("u").unwrap().generations = vec![spec("old", 10)];
        let earlier = facts.clone();
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.generations.push(spec(taken_back, 290));
        facts.rewind(earlier);
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade
            .generations
            .extend(edit.map(|since| spec("newest", since)));
        facts.now = Duration::from_secs(sent);
        facts.sender.as_mut().unwrap().at = facts.now;
        let rows: Vec<Row> = revisions.iter().map(|of| row("Pending", of)).collect();
        may_write(&mut facts, &rows)
    };
    assert!(may_return("new", None, 301, &["r3", "r2", "r2"]));
    assert!(
        may_return("new", None, 301, &["r2", "r3", "r2"]),
        "as it was at first"
    );
    assert!(
        may_return("new", Some(302), 301, &["r3", "r2"]),
        "it was sent before"
    );
    assert!(
        !may_return("old", None, 301, &["r3", "r2"]),
        "that edit asked for the same"
    );
    assert!(
        !may_return("new", Some(301), 302, &["r3", "r2"]),
        "there is another edit"
    );
    assert!(
        !may_return("new", None, 375, &["r3", "r2"]),
        "everybody has heard of it"
    );
    assert!(
        !may_return("new", None, 301, &["r3", "r1"]),
        "that was over before"
    );
    for again in ["r3", "r4"] {
        let rows = ["r3", "r2", again, "r2"];
        assert!(!may_return("new", None, 301, &rows), "{again} is one row more");
    }
}

#[test]
fn an_attempt_that_was_over_does_not_return_for_another_cause() {
    let ended = || [row("Failed", "r1")];
    let mut facts = left(200);
    facts.works.clear();
    assert!(!may_write(&mut facts, &ended()), "nothing is left of it");
    let mut facts = left(200);
    facts.is_unbound = false;
    assert!(!may_write(&mut facts, &ended()), "it is selected");
    for phase in ["Pending", "Partial", "Soaking"] {
        assert!(!may_write(&mut left(200), &[row(phase, "r1")]), "{phase}");
    }
    let mut facts = left(200);
    record(&mut facts).before = vec![row("Partial", "r2")];
    assert!(!may_write(&mut facts, &ended()), "it has started since");
    let failed = Row {
        reason: "ClusterUpgradeTimeout".to_owned(),
        ..row("Failed", "r1")
    };
    assert!(
        !may_write(&mut left(200), &[failed]),
        "it failed for another cause"
    );
}

/// Whether a row that says that an update goes on takes a slot. Agents had reported the end before the cluster was lost and back.
fn takes_slot(change: impl FnOnce(&mut Facts)) -> bool {
    let mut facts = left(10);
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    // Nothing follows the update.
    upgrade.generations = vec![Generation::default()];
    upgrade.records.clear();
    let step = ("c1".to_owned(), WorkStep::Platform, "r1".to_owned());
    upgrade.ends.insert(step, End::default());
    change(&mut facts);
    facts.row("u", "c1", &row("Partial", "r1"));
    facts.upgrades["u"].flights.contains_key("c1")
}

#[test]
fn a_row_takes_no_slot_that_follows_from_what_somebody_else_wrote() {
    let takes = |is_edited: bool| {
        let mut upgrade = Upgrade::default();
        let record = Record {
            is_edited,
            ..Record::default()
        };
        upgrade.records.insert("c1".to_owned(), record);
        upgrade.note_row("c1", &row("PreAction", "r1"), Some(NOW), true, NOW);
        upgrade.flights.contains_key("c1")
    };
    assert!(takes(false));
    assert!(!takes(true));
}

fn work(facts: &mut Facts) -> &mut Running {
    facts.works.get_mut("w").unwrap()
}

#[test]
fn a_row_takes_no_slot_while_the_work_of_its_attempt_shows_the_end() {
    assert!(!takes_slot(|_| ()));
    assert!(takes_slot(|facts| work(facts).goes_on = true), "it goes on again");
    assert!(takes_slot(|facts| facts.works.clear()), "it is gone");
    assert!(
        takes_slot(|facts| "later".clone_into(&mut work(facts).started)),
        "that is another one"
    );
    let is_deleted = |facts: &mut Facts| {
        facts.deleters.insert("w".to_owned(), (NOW, None));
    };
    assert!(takes_slot(is_deleted), "it is being deleted");
    let is_retried = |facts: &mut Facts| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        "again".clone_into(&mut upgrade.ends.values_mut().next().unwrap().retry);
    };
    assert!(takes_slot(is_retried), "that was another attempt");
    let is_late = |facts: &mut Facts| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.ends.values_mut().next().unwrap().first = NOW + Duration::from_secs(1);
    };
    assert!(!takes_slot(is_late), "also if the row was sent before that end");
}

#[test]
fn a_row_takes_no_slot_for_a_cluster_whose_agents_have_reported_the_end_since_it_was_lost() {
    let takes = |ended: u64, retry: &str| {
        let at = Duration::from_secs(ended);
        let end = End {
            retry: retry.to_owned(),
            first: at,
            last: at,
            ..End::default()
        };
        // Nothing follows the release.
        let mut upgrade = Upgrade {
            generations: vec![Generation::default()],
            ..Upgrade::default()
        };
        upgrade.dropped.insert("c1".to_owned(), Duration::from_secs(10));
        let step = ("c1".to_owned(), WorkStep::Platform, "r1".to_owned());
        upgrade.ends.insert(step, end);
        upgrade.note_row("c1", &row("Initialized", "r1"), Some(NOW), true, NOW);
        upgrade.flights.contains_key("c1")
    };
    assert!(!takes(100, ""));
    assert!(takes(5, ""), "that was an earlier update");
    assert!(takes(301, ""), "the row was sent before");
    assert!(takes(100, "again"), "that was another attempt");
}

#[test]
fn a_row_that_stays_complete_names_no_version_that_its_cluster_never_ran() {
    let may_name = |after: &str, claimed: Option<(u64, u64, u64)>| {
        let complete = |to: &str| Row {
            to: to.to_owned(),
            ..row("Complete", "r2")
        };
        let mut facts = left(200);
        record(&mut facts).before = vec![complete("4.14.12")];
        let cluster = facts.cluster("c1");
        cluster.done.insert("4.14.12".to_owned(), NOW);
        cluster.versions = claimed.into_iter().map(|claim| (NOW, claim)).collect();
        for to in [after, "4.14.12"] {
            facts.row("u", "c1", &complete(to));
        }
        facts.violations.is_empty()
    };
    assert!(may_name("4.14.12", None));
    assert!(!may_name("4.14.13", None));
    assert!(!may_name("4.14.13", Some((4, 14, 12))));
    assert!(may_name("4.14.13", Some((4, 14, 14))), "it runs a newer one");
    assert!(may_name("", None), "nobody knows it any more");
}

#[test]
fn what_somebody_wrote_into_a_record_counts_until_its_next_attempt() {
    let is_edited = |by_controller: bool, is_lost: bool, was: &str, next: (&str, &str)| {
        let mut record = Record {
            before: vec![row(was, "r1")],
            is_edited: true,
            is_lost,
            ..Record::default()
        };
        record.keep_edited(by_controller, &row(next.0, next.1));
        record.is_edited
    };
    assert!(is_edited(true, false, "Failed", ("Partial", "r1")));
    assert!(is_edited(false, false, "Failed", ("Partial", "r2")));
    assert!(
        is_edited(true, true, "Failed", ("Partial", "r2")),
        "somebody has deleted its row"
    );
    assert!(
        is_edited(true, false, "Partial", ("Initialized", "r2")),
        "it goes on through an edit"
    );
    assert!(!is_edited(true, false, "Failed", ("Partial", "r2")));
    assert!(!is_edited(true, false, "Partial", ("Pending", "r2")));
}

/// The request of the present update was never carried out.
#[test]
fn a_row_forgets_the_start_of_an_update_only_if_one_of_an_earlier_spec_has_ended_instead() {
    let started = "2026-01-01T00:04:07Z";
    let may_forget = |goes_on: bool, revision: &str, named: &str, phase: &str| {
        let mut facts = left(200);
        let work = facts.works.entry("w".to_owned()).or_default();
        (work.goes_on, work.revision, work.started) = (goes_on, revision.to_owned(), named.to_owned());
        let step = Step {
            name: "Platform".to_owned(),
            started: started.to_owned(),
            ..Step::default()
        };
        record(&mut facts).before = vec![Row {
            steps: vec![step],
            ..row("Initialized", "r2")
        }];
        may_write(&mut facts, &[row(phase, "r2")])
    };
    let earlier = "2026-01-01T00:02:00Z";
    for phase in ["Pending", "Aborted"] {
        assert!(may_forget(false, "r1", earlier, phase), "{phase}");
        assert!(!may_forget(true, "r1", earlier, phase), "it goes on: {phase}");
        assert!(
            !may_forget(false, "r2", earlier, phase),
            "it was asked for: {phase}"
        );
        assert!(
            !may_forget(false, "r1", started, phase),
            "the edit does not concern it: {phase}"
        );
    }
    assert!(
        !may_forget(false, "r1", earlier, "Initialized"),
        "it holds a slot"
    );
}

/// Whoever leads by then finds no end, and follows the work again.
#[test]
fn a_late_row_that_tells_of_an_end_which_no_work_shows_any_more_may_be_followed_by_another_beginning() {
    let is_unheard = |goes_on: bool, outcome: &str| {
        let work = Running {
            name: WorkStep::Platform.work_name("c1"),
            owner: "u".to_owned(),
            cluster: "c1".to_owned(),
            revision: "r1".to_owned(),
            started: "2026-01-01T00:04:07Z".to_owned(),
            goes_on,
            ..Running::default()
        };
        let step = Step {
            name: "Platform".to_owned(),
            started: work.started.clone(),
            outcome: outcome.to_owned(),
            ..Step::default()
        };
        let mut facts = Facts::default();
        facts.upgrades.entry("u".to_owned()).or_default();
        facts.works.insert("w".to_owned(), work);
        let late = Row {
            steps: vec![step],
            ..row("Complete", "r1")
        };
        facts.is_unheard_row("u", "c1", &late)
    };
    assert!(is_unheard(true, "Succeeded"));
    assert!(!is_unheard(false, "Succeeded"), "the work shows it");
    assert!(!is_unheard(true, ""), "the row tells of no end");
}
