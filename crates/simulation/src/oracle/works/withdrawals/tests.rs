use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A spec that a status tells at once.
fn edit(facts: &mut Facts, number: i64, since: u64, spec: Generation) {
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.acknowledged.push((seconds(since), number));
    upgrade.generations.push(Generation {
        number,
        since: seconds(since),
        ..spec
    });
}

fn aborting(cluster: &str) -> Generation {
    let names = BTreeSet::from([cluster.to_owned()]);
    Generation {
        left_out: names.clone(),
        aborted: names,
        ..Generation::default()
    }
}

/// The storage goes back at 300 s to a time before these edits.
fn gone_back(specs: Vec<Generation>) -> Facts {
    let mut facts = Facts::default();
    edit(&mut facts, 1, 10, Generation::default());
    let earlier = facts.clone();
    for ((number, since), spec) in (2_i64..).zip((200_u64..).step_by(10)).zip(specs) {
        edit(&mut facts, number, since, spec);
    }
    facts.now = seconds(300);
    facts.rewind(earlier);
    facts
}

fn may_say(facts: &Facts, phase: &str, cluster: &str, sent: u64) -> bool {
    let mut facts = facts.clone();
    facts.now = seconds(sent);
    let row = Row {
        phase: phase.to_owned(),
        ..Row::default()
    };
    facts.judge_left_out_row("u", cluster, &row);
    facts.violations.is_empty()
}

#[test]
fn a_row_may_say_aborted_by_a_spec_that_the_storage_has_lost_until_everybody_has_heard_of_that() {
    let mut facts = gone_back(vec![aborting("c1")]);
    assert!(may_say(&facts, "Aborted", "c1", 301));
    assert!(may_say(&facts, "Aborted", "c1", 374));
    assert!(!may_say(&facts, "Aborted", "c1", 375));
    assert!(!may_say(&facts, "Skipped", "c1", 301), "that spec aborts it");
    assert!(!may_say(&facts, "Aborted", "c2", 301), "that spec names another");
    // It is not lost again when the storage goes back once more.
    let known = facts.clone();
    facts.now = seconds(340);
    facts.rewind(known);
    assert!(may_say(&facts, "Aborted", "c1", 374));
    assert!(!may_say(&facts, "Aborted", "c1", 375));
}

#[test]
fn a_spec_that_another_had_followed_before_the_storage_lost_both_leaves_nobody_out() {
    let followed_by = |spec: Generation| {
        let facts = gone_back(vec![aborting("c1"), spec]);
        may_say(&facts, "Aborted", "c1", 301)
    };
    assert!(!followed_by(Generation::default()));
    let invalid = Generation {
        is_invalid: true,
        ..Generation::default()
    };
    assert!(followed_by(invalid), "the one before was still in force");
}

#[test]
fn a_leaver_stays_skipped_by_the_spec_when_it_left_if_the_next_one_aborts_it() {
    let mut known = Facts::default();
    edit(&mut known, 1, 10, Generation::default());
    let skipping = Generation {
        left_out: BTreeSet::from(["c1".to_owned()]),
        ..Generation::default()
    };
    edit(&mut known, 2, 200, skipping);
    edit(&mut known, 3, 220, aborting("c1"));
    let may_say_skipped_by = |known: &Facts, left: Option<u64>, has_left: bool| {
        let mut facts = known.clone();
        facts.cluster("c1").left = left.map(seconds);
        facts.now = seconds(240);
        let row = Row {
            phase: "Skipped".to_owned(),
            has_left,
            ..Row::default()
        };
        facts.judge_left_out_row("u", "c1", &row);
        facts.violations.is_empty()
    };
    let may_say_skipped = |left: Option<u64>, has_left: bool| may_say_skipped_by(&known, left, has_left);
    assert!(may_say_skipped(Some(219), true));
    assert!(
        may_say_skipped(Some(126), true),
        "who skipped it may not have heard"
    );
    assert!(!may_say_skipped(Some(125), true), "who skipped it had heard");
    assert!(
        !may_say_skipped(Some(220), true),
        "a status had told the next spec"
    );
    assert!(
        !may_say_skipped(Some(219), false),
        "its row does not tell that it left"
    );
    assert!(!may_say_skipped(None, true), "it had not left");
    let mut taken_up = known.clone();
    edit(&mut taken_up, 4, 230, Generation::default());
    assert!(
        !may_say_skipped_by(&taken_up, Some(219), true),
        "no spec leaves it out any more"
    );
}
