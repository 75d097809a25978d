use chrono::TimeDelta;
use cvo_model::failure::OperatorProblem as Problem;
use serde_json::json;

use super::{Apply, Progress};
use crate::fields::{Cond, Time, from_unix};
use crate::run_levels::OPERATORS;
use crate::spoke::rollout::operators::{Statuses, new_status, put};

const OLD: &str = "4.14.0";
const NEW: &str = "4.14.1";

fn all(version: &str) -> Statuses {
    OPERATORS
        .iter()
        .map(|row| (row.name.to_owned(), new_status(version, from_unix(0))))
        .collect()
}

fn degrade(statuses: &mut Statuses, name: &str, kind: &'static str, status: &'static str) {
    let cond = Cond {
        kind,
        status,
        reason: "X",
        message: "x",
    };
    put(statuses.get_mut(name).unwrap(), cond, from_unix(0));
}

fn percent(progress: &Progress) -> u32 {
    progress.done * 100 / progress.total
}

fn after(minutes: i64) -> Time {
    from_unix(0) + TimeDelta::minutes(minutes)
}

#[test]
fn the_count_stands_at_the_plateaus_of_real_updates() {
    let mut statuses = all(OLD);
    let mut apply = Apply::new(NEW, false, after(0));
    let mut plateaus = Vec::new();
    let mut minute = 0;
    for run_level in 0..8 {
        minute += 4;
        let progress = apply.advance(&statuses, None, after(minute));
        assert!(!progress.completed);
        plateaus.push(percent(&progress));
        for row in OPERATORS.iter().filter(|row| row.run_level == run_level) {
            statuses.insert(row.name.to_owned(), new_status(NEW, from_unix(0)));
        }
    }
    assert_eq!(plateaus, [12, 12, 13, 16, 25, 40, 79, 85]);
    assert!(
        !apply.advance(&statuses, None, after(minute)).completed,
        "the rest takes a minute"
    );
    let end = apply.advance(&statuses, None, after(minute + 2));
    assert!(end.completed && end.done == 859 && end.waiting.is_empty());
}

#[test]
fn it_waits_for_the_operators_of_its_own_stage_only() {
    let statuses = all(OLD);
    let mut apply = Apply::new(NEW, false, after(0));
    assert_eq!(apply.advance(&statuses, None, after(1)).waiting, []);
    let progress = apply.advance(&statuses, None, after(3));
    let names: Vec<_> = progress
        .waiting
        .iter()
        .map(|waiting| waiting.name.as_str())
        .collect();
    assert_eq!(names, ["config-operator", "etcd"]);
    assert_eq!(progress.waiting[0].since, after(3));
    assert_eq!(
        apply.advance(&statuses, None, after(9)).waiting[0].since,
        after(3),
        "since the first look"
    );
}

#[test]
fn a_new_count_stops_at_a_degraded_operator_of_a_stage_that_was_passed() {
    let mut statuses = all(NEW);
    statuses.insert("machine-config".into(), new_status(OLD, from_unix(0)));
    let mut apply = Apply::new(NEW, false, after(0));
    for minute in 1..10 {
        apply.advance(&statuses, None, after(minute));
    }
    degrade(&mut statuses, "etcd", "Degraded", "True");
    let progress = apply.advance(&statuses, None, after(10));
    assert_eq!(
        (percent(&progress), progress.waiting[0].problem),
        (85, Problem::Updating)
    );
    let mut again = Apply::new(NEW, false, after(10));
    let progress = again.advance(&statuses, None, after(20));
    assert_eq!(
        (percent(&progress), progress.waiting[0].problem),
        (12, Problem::Degraded)
    );
}

#[test]
fn problems_are_told_apart() {
    let mut statuses = all(NEW);
    degrade(&mut statuses, "dns", "Degraded", "True");
    degrade(&mut statuses, "network", "Available", "False");
    degrade(&mut statuses, "etcd", "Degraded", "Unknown");
    // Nothing is known of it, and one does not exist.
    statuses.get_mut("console").unwrap()["conditions"] = json!([{"type": "Available", "status": "True"}]);
    statuses.remove("storage");
    statuses.get_mut("ingress").unwrap()["versions"] = json!([]);
    let mut apply = Apply::new(NEW, true, after(0));
    let found: Vec<_> = apply
        .advance(&statuses, None, after(1))
        .waiting
        .iter()
        .map(|waiting| (waiting.name.clone(), waiting.problem))
        .collect();
    let expected = [
        ("etcd", Problem::Degraded),
        ("console", Problem::Degraded),
        ("ingress", Problem::Updating),
        ("storage", Problem::NotAvailable),
        ("dns", Problem::Degraded),
        ("network", Problem::NotAvailable),
    ];
    assert_eq!(found, expected.map(|(name, problem)| (name.to_owned(), problem)));
}

#[test]
fn an_operator_is_waited_for_since_its_first_problem_until_it_is_well() {
    let mut statuses = all(NEW);
    let mut apply = Apply::new(NEW, false, after(0));
    let mut since = |statuses: &Statuses, minute: i64| {
        let progress = apply.advance(statuses, None, after(minute));
        let first = progress.waiting.first();
        first.map(|waiting| (waiting.problem, waiting.since))
    };
    statuses.insert("etcd".into(), new_status(OLD, from_unix(0)));
    assert_eq!(since(&statuses, 3), Some((Problem::Updating, after(3))));
    degrade(&mut statuses, "etcd", "Degraded", "True");
    assert_eq!(since(&statuses, 23), Some((Problem::Degraded, after(3))));
    degrade(&mut statuses, "etcd", "Available", "False");
    assert_eq!(since(&statuses, 33), Some((Problem::NotAvailable, after(3))));
    degrade(&mut statuses, "etcd", "Available", "True");
    degrade(&mut statuses, "etcd", "Degraded", "False");
    assert_eq!(since(&statuses, 43), Some((Problem::Updating, after(3))));
    statuses.insert("etcd".into(), new_status(NEW, from_unix(0)));
    assert_eq!(since(&statuses, 44), None);
}

#[test]
fn a_manifest_that_fails_holds_the_count_at_its_run_level_until_it_is_applied() {
    let mut statuses = all(OLD);
    for row in OPERATORS.iter().filter(|row| row.run_level < 2) {
        statuses.insert(row.name.to_owned(), new_status(NEW, from_unix(0)));
    }
    let mut apply = Apply::new(NEW, false, after(0));
    for minute in 1..5 {
        apply.advance(&statuses, None, after(minute));
    }
    let statuses = all(NEW);
    let level = percent(&apply.advance(&statuses, Some(after(60)), after(5)));
    for minute in 6..60 {
        let progress = apply.advance(&statuses, Some(after(60)), after(minute));
        assert_eq!((percent(&progress), progress.wake), (level, Some(after(60))));
    }
    let mut minutes = 60..70;
    assert!(minutes.any(|minute| apply.advance(&statuses, None, after(minute)).completed));
}

#[test]
fn a_manifest_that_fails_after_the_last_run_level_keeps_the_release_from_completed() {
    let statuses = all(NEW);
    let mut apply = Apply::new(NEW, false, after(0));
    let mut seconds = (0..).step_by(5).map(from_unix);
    assert!(seconds.any(|now| percent(&apply.advance(&statuses, None, now)) > 90));
    for minute in 10..30 {
        assert!(!apply.advance(&statuses, Some(after(30)), after(minute)).completed);
    }
    assert!(apply.advance(&statuses, None, after(30)).completed);
}

#[test]
fn an_update_does_not_complete_without_an_operator() {
    let mut statuses = all(NEW);
    statuses.remove("etcd");
    let mut apply = Apply::new(NEW, false, after(0));
    for minute in 1..60 {
        assert!(!apply.advance(&statuses, None, after(minute)).completed);
    }
    statuses.insert("etcd".into(), new_status(NEW, from_unix(0)));
    let mut minutes = 60..70;
    assert!(minutes.any(|minute| apply.advance(&statuses, None, after(minute)).completed));
}
