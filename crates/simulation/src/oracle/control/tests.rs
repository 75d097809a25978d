use serde_json::json;

use super::*;
use crate::oracle::facts::{Created, Running};
use crate::oracle::memory::Told;
use crate::oracle::row::Row;
use crate::oracle::schedule::Control;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn spec(number: i64, version: &str) -> Generation {
    let control = json!({
        "clusterVersion": {"version": version},
        "upgradeStrategy": {"approvals": [{"name": "first", "when": 0}]},
    });
    Generation {
        number,
        control: Control::of(&control),
        ..Generation::default()
    }
}

/// An upgrade that no cluster may start before somebody has approved it.
fn waiting() -> Facts {
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.key = "team/spring".to_owned();
    upgrade.generations = vec![spec(1, "4.14.12")];
    upgrade.acknowledged = vec![(Duration::ZERO, 1)];
    facts
}

/// A status tells a plan of this spec, and somebody approves it.
fn approve(facts: &mut Facts, number: i64, plan: &str, at: Duration) {
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.plans.insert((number, plan.to_owned()));
    facts.approvals.push(Approval {
        uid: plan.to_owned(),
        upgrade: "team/spring".to_owned(),
        checkpoint: "first".to_owned(),
        plan: plan.to_owned(),
        since: at,
        expires: None,
        deleted: None,
    });
}

fn may_start(facts: &Facts, sent: Duration) -> bool {
    let mut work = Work::default();
    (work.uid, work.cluster) = ("u".to_owned(), "c1".to_owned());
    facts.unapproved(&facts.upgrades["u"], &work, sent).is_none()
}

#[test]
fn an_approval_that_the_storage_loses_counts_as_long_as_one_that_is_deleted() {
    let earlier = waiting();
    let mut facts = earlier.clone();
    approve(&mut facts, 1, "plan", seconds(10));
    assert!(may_start(&facts, seconds(500)));
    facts.now = seconds(20);
    facts.rewind(earlier);
    assert!(may_start(&facts, seconds(94)));
    assert!(!may_start(&facts, seconds(95)));
    // It is not lost again when the storage goes back once more.
    let known = facts.clone();
    facts.now = seconds(60);
    facts.rewind(known);
    assert!(!may_start(&facts, seconds(95)));
}

#[test]
fn an_approval_of_a_spec_that_the_storage_has_lost_does_not_count_for_the_next_one_of_its_number() {
    let earlier = waiting();
    let mut facts = earlier.clone();
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.generations.push(spec(2, "4.14.13"));
    upgrade.acknowledged.push((seconds(5), 2));
    approve(&mut facts, 2, "plan", seconds(10));
    assert!(may_start(&facts, seconds(15)));
    facts.now = seconds(20);
    facts.rewind(earlier);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.generations.push(spec(2, "4.14.14"));
    upgrade.acknowledged.push((seconds(25), 2));
    assert!(!may_start(&facts, seconds(30)));
}

#[test]
fn a_cluster_that_is_queued_again_counts_as_started_until_its_work_is_that_of_another_upgrade_or_revision() {
    let mut facts = waiting();
    facts.cluster("c2").is_there = true;
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    let record = upgrade.records.entry("c2".to_owned()).or_default();
    record.before = vec![Row {
        phase: "Pending".to_owned(),
        revision: "r1".to_owned(),
        retry: "again".to_owned(),
        ..Row::default()
    }];
    record.phases = vec![Told::at(seconds(100), "Pending")];
    let work = Running {
        name: Step::Platform.work_name("c2"),
        owner: "u".to_owned(),
        cluster: "c2".to_owned(),
        revision: "r1".to_owned(),
        ..Running::default()
    };
    facts.created.insert(work.key(), Created::default());
    let started = |owner: &str, revision: &str, retry: &str| {
        let mut facts = facts.clone();
        let mut work = work.clone();
        (work.owner, work.revision, work.retry) = (owner.to_owned(), revision.to_owned(), retry.to_owned());
        facts.works.insert("w".to_owned(), work);
        facts.started(&facts.upgrades["u"], "c1", ("u", "r1"), seconds(500))
    };
    assert_eq!(started("u", "r1", ""), 1);
    assert_eq!(started("u", "r1", "again"), 1);
    assert_eq!(started("another", "r1", ""), 0);
    assert_eq!(started("u", "r2", ""), 0);
}

/// An upgrade of specs that are valid or not, the last but so many of which its status has told. The windows of every second one are
/// open until 200 s, those of the others until 60 s.
fn edited(are_valid: &[bool], untold: i64) -> Upgrade {
    let specs = (1_i64..).zip(are_valid).map(|(number, is_valid)| {
        let open = if number % 2 == 0 { "200s" } else { "60s" };
        let windows = json!([{"schedule": "*/5 * * * *", "duration": open}]);
        Generation {
            number,
            is_invalid: !is_valid,
            control: Control::of(&json!({"maintenance": {"windows": windows}})),
            ..Generation::default()
        }
    });
    let generations: Vec<Generation> = specs.collect();
    let told = generations.last().map_or(0, |spec| spec.number) - untold;
    Upgrade {
        generations,
        acknowledged: vec![(Duration::ZERO, told)],
        ..Upgrade::default()
    }
}

#[test]
fn what_is_in_flight_goes_on_by_valid_specs_and_beside_an_invalid_one_by_the_last_valid_one() {
    let numbers = |are_valid: &[bool], untold| {
        let upgrade = edited(are_valid, untold);
        let specs = upgrade.goes_on_by(seconds(1));
        specs.map(|spec| spec.number).collect::<Vec<i64>>()
    };
    assert_eq!(numbers(&[true, true], 0), [2]);
    assert_eq!(numbers(&[true, true], 1), [1, 2]);
    assert_eq!(
        numbers(&[true, true, false], 1),
        [2],
        "the invalid one counts for nothing"
    );
    assert_eq!(numbers(&[true, true, false], 0), [2]);
    assert_eq!(numbers(&[true, true, false, false], 0), [2]);
    assert_eq!(numbers(&[true, true, false, false, true], 1), [5, 2]);
    assert_eq!(numbers(&[true, true, false, false, true], 0), [5]);
    assert!(numbers(&[false], 0).is_empty());
}

#[test]
fn beside_an_invalid_spec_an_update_fits_the_windows_of_the_last_valid_one_and_no_other() {
    let facts = Facts::default();
    let is_open = |are_valid: &[bool], sent| {
        let upgrade = edited(are_valid, 0);
        let specs: Vec<&Generation> = upgrade.goes_on_by(seconds(1)).collect();
        facts.is_open(&specs, seconds(sent))
    };
    assert_eq!(is_open(&[true, true, false], 100), Some(true));
    assert_eq!(is_open(&[true, true, false], 250), Some(false));
    assert_eq!(is_open(&[true, false], 30), Some(true));
    assert_eq!(
        is_open(&[true, false], 100),
        Some(false),
        "only those of the invalid one are open"
    );
    assert_eq!(is_open(&[true, false, true], 100), Some(false));
}

/// Whether clusters may start at a time while windows of this length open every five minutes, so much of them must remain, and nothing
/// starts from 1000 s until 1200 s.
fn is_open(open: &str, remaining: &str, sent: u64) -> bool {
    let instant = |second| api::time::to_rfc3339(crate::time::begin() + chrono::TimeDelta::seconds(second));
    let control = Control::of(&json!({"maintenance": {
        "windows": [{"schedule": "*/5 * * * *", "duration": open}],
        "exclusions": [{"start": instant(1000), "end": instant(1200)}],
        "minimumRemaining": remaining,
    }}));
    control.is_open(seconds(sent), Duration::ZERO)
}

#[test]
fn windows_that_overlap_or_touch_are_one_span_that_only_an_exclusion_ends() {
    for sent in [0, 70, 299, 370, 682, 1200, 1270] {
        assert!(is_open("377s", "317s", sent), "{sent}");
    }
    for sent in [683, 999, 1000, 1199] {
        assert!(!is_open("377s", "317s", sent), "{sent}");
    }
    for sent in [59, 60, 299] {
        assert!(is_open("300s", "240s", sent), "{sent}");
    }
    assert!(is_open("299s", "240s", 58));
    for sent in [59, 298, 299] {
        assert!(!is_open("299s", "240s", sent), "{sent}");
    }
}
