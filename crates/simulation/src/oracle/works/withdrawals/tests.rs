use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::oracle::generation::Generation;

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
