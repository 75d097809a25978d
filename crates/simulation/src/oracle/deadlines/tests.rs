use std::sync::Arc;

use api::names::{ANNOTATION_REVISION, ANNOTATION_STARTED_AT, LABEL_MCU_UID};
use serde_json::{Value, json};

use super::*;
use crate::oracle::facts::Created;
use crate::oracle::generation::Generation;
use crate::oracle::limits::{Limits, OPERATORS_TIMEOUT};
use crate::oracle::requests::Sent;
use crate::oracle::row::Step as RowStep;

/// When the work was sent, to which a clock that was an hour ahead gave its start.
const SENT: Duration = Duration::from_secs(328);
const NOW: Duration = Duration::from_mins(10);
const NAMED: &str = "2026-01-01T01:05:28.192Z";
/// When it was found.
const FOUND: &str = "2026-01-01T00:08:43.840Z";

fn row(revision: &str, started: &str) -> Row {
    let step = RowStep {
        name: "Platform".to_owned(),
        started: started.to_owned(),
        ..RowStep::default()
    };
    Row {
        phase: "Partial".to_owned(),
        revision: revision.to_owned(),
        to: "4.14.12".to_owned(),
        steps: vec![step],
        ..Row::default()
    }
}

fn platform(revision: &str) -> Key {
    key("u", "c1", Step::Platform, &row(revision, FOUND))
}

/// What is known of a cluster whose work is of the first revision. `told`: the start that its row had then, if there was one.
fn ahead(told: Option<&str>) -> Facts {
    let work = Running {
        name: Step::Platform.work_name("c1"),
        owner: "u".to_owned(),
        cluster: "c1".to_owned(),
        revision: "r1".to_owned(),
        started: NAMED.to_owned(),
        target: "4.14.12".to_owned(),
        goes_on: true,
        ..Running::default()
    };
    let mut facts = Facts {
        now: NOW,
        tolerance: Duration::from_secs(33),
        ..Facts::default()
    };
    facts.works.insert("w".to_owned(), work);
    facts.began.insert(platform("r1"), SENT);
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    let record = upgrade.records.entry("c1".to_owned()).or_default();
    record.before.extend(told.map(|started| row("r1", started)));
    facts
}

#[test]
fn an_edit_that_does_not_concern_a_work_begins_no_clock_although_its_row_has_another_start() {
    let began = |told: Option<&str>, row: &Row| {
        let mut facts = ahead(told);
        facts.announced("u", "c1", row);
        facts.began.get(&platform("r2")).copied()
    };
    let kept = row("r2", FOUND);
    assert_eq!(began(Some(FOUND), &kept), Some(SENT));
    assert_eq!(began(None, &kept), Some(SENT), "it was found after the edit");
    assert_eq!(began(Some(NAMED), &row("r2", NAMED)), Some(SENT));
    // It is to be changed in place.
    let earlier = "2026-01-01T00:07:00Z";
    assert_eq!(began(Some(earlier), &kept), Some(NOW));
    let newer = Row {
        to: "4.14.13".to_owned(),
        ..row("r2", FOUND)
    };
    assert_eq!(began(None, &newer), Some(NOW));
    let before_it_was_sent = row("r2", "2026-01-01T00:03:00Z");
    assert_eq!(began(None, &before_it_was_sent), Some(NOW));
}

#[test]
fn a_start_in_the_future_that_was_recorded_as_now_counts_as_it_was_recorded() {
    let counts = |started: &str| ahead(None).recorded_start("u", "c1", Step::Platform, &row("r1", started));
    assert_eq!(counts(FOUND), Some(Duration::from_millis(523_840)));
    assert_eq!(counts(NAMED), Some(Duration::from_millis(3_928_192)));
    assert_eq!(counts("2026-01-01T00:03:00Z"), None, "there was no work");
    let soon = "2026-01-01T01:05:00Z";
    assert_eq!(counts(soon), None, "that is recorded as it is");
    let mut facts = ahead(None);
    facts.tolerance = Duration::from_secs(1);
    assert_eq!(
        facts.recorded_start("u", "c1", Step::Platform, &row("r1", FOUND)),
        None
    );
}

#[test]
fn a_work_whose_attempt_somebody_has_garbled_tells_nothing_in_time() {
    let is_unreadable = |revision: &str| {
        let mut facts = ahead(None);
        facts.works.get_mut("w").unwrap().revision = revision.to_owned();
        facts.has_unreadable_work("u", &Step::Platform.work_name("c1"))
    };
    assert!(!is_unreadable("2883f087735586f8"));
    for garbled in ["", "a b", &"f".repeat(65)] {
        assert!(is_unreadable(garbled), "{garbled}");
    }
}

#[test]
fn a_work_that_somebody_deletes_just_before_an_edit_that_does_not_concern_it_keeps_its_clock() {
    let began = |by: Role, started: &str| {
        let mut facts = ahead(None);
        facts.works.clear();
        let created = Created {
            started: started.to_owned(),
            deleted: Some((NOW, Some(by))),
            ..Created::default()
        };
        facts.created.insert(platform("r1"), created);
        facts.announced("u", "c1", &row("r2", FOUND));
        facts.began.get(&platform("r2")).copied()
    };
    assert_eq!(began(Role::People, FOUND), Some(SENT));
    assert_eq!(began(Role::Controller, FOUND), None, "the edit concerns it");
    assert_eq!(began(Role::People, NAMED), None, "the row has another start");
}

#[test]
fn a_row_may_tell_of_a_creation_that_came_late_by_a_start_just_before_it() {
    let may_tell = |started: &str| {
        let mut facts = ahead(None);
        let created = Created {
            at: Duration::from_millis(435_648),
            ..Created::default()
        };
        facts.created.insert(platform("r1"), created);
        let work = facts.works.get_mut("w").unwrap();
        work.started = "2026-01-01T00:05:54.283Z".to_owned();
        let work = work.clone();
        facts.may_have_start(&work, parse_rfc3339(started).unwrap())
    };
    assert!(may_tell("2026-01-01T00:06:15Z"));
    assert!(may_tell("2026-01-01T00:05:54.283Z"));
    assert!(!may_tell("2026-01-01T00:06:30Z"));
    assert!(!may_tell("2026-01-01T00:04:00Z"));
}

/// A cluster in a step that began ten seconds before, in a spec with other limits for each.
fn in_step(step: Step, phase: &str, limits: Limits) -> Facts {
    let began = NOW.saturating_sub(Duration::from_secs(10));
    let row = Row {
        phase: phase.to_owned(),
        ..row("r1", FOUND)
    };
    let key = key("u", "c1", step, &row);
    let work = Running {
        name: step.work_name("c1"),
        goes_on: true,
        ..ahead(None).works["w"].clone()
    };
    let spec = Generation {
        limits,
        ..Generation::default()
    };
    let mut facts = Facts {
        now: NOW,
        ..Facts::default()
    };
    facts.cluster("c1").is_there = true;
    facts.works.insert("w".to_owned(), work);
    facts.began.insert(key.clone(), began);
    facts.created.insert(key, Created::default());
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations.push(spec);
    upgrade
        .records
        .entry("c1".to_owned())
        .or_default()
        .before
        .push(row);
    facts
}

#[test]
fn each_step_has_the_time_limit_that_the_spec_gives_it() {
    let spec = |strategy: Value| Limits::of(&json!({"upgradeStrategy": strategy}));
    let all = spec(json!({
        "clusterUpgradeTimeout": "100s", "operatorsUpgradeTimeout": "200s", "actionTimeout": "300s",
    }));
    let steps = [
        (Step::PreAction, "PreAction", 300),
        (Step::Platform, "Partial", 100),
        (Step::Operators, "Operators", 200),
        (Step::PostAction, "PostAction", 300),
    ];
    for (step, phase, seconds) in steps {
        let facts = in_step(step, phase, all);
        let due = facts.due("u", &facts.upgrades["u"], "c1");
        let began = NOW.saturating_sub(Duration::from_secs(10));
        assert_eq!(due, Some(began + Duration::from_secs(seconds)), "{phase}");
    }
    let few = spec(json!({"clusterUpgradeTimeout": "100s"}));
    assert_eq!(few.of_step(Step::PreAction), Duration::from_secs(100));
    assert_eq!(few.of_step(Step::Operators), OPERATORS_TIMEOUT);
}

#[test]
fn a_step_that_fails_before_its_time_violates_the_rule() {
    let limits = Limits {
        update: Duration::from_secs(100),
        operators: Duration::from_secs(5),
        action: Duration::from_secs(200),
    };
    for (step, name, reason, is_too_early) in [
        (Step::PreAction, "PreAction", "PreActionTimeout", true),
        (Step::Operators, "Operators", "OperatorsUpgradeTimeout", false),
        (Step::PostAction, "PostAction", "PostActionTimeout", true),
    ] {
        let mut facts = in_step(step, name, limits);
        let mut failed = row("r1", "2026-01-01T00:09:50Z");
        failed.reason = reason.to_owned();
        failed.steps[0].name = name.to_owned();
        facts.deadline("u", "c1", &failed);
        assert_eq!(!facts.violations.is_empty(), is_too_early, "{reason}");
    }
}

#[test]
fn a_step_may_wait_for_the_removal_of_what_another_upgrade_had_created_if_that_was_asked_for_before() {
    let began = NOW.saturating_sub(Duration::from_secs(2));
    // The step was to begin 76 s before.
    let is_excused = |asked: u64, gone: u64| {
        let removed = Created {
            deleted: Some((Duration::from_secs(gone), Some(Role::People))),
            unwanted: Some(Duration::from_secs(asked)),
            ..Created::default()
        };
        let mut facts = Facts::default();
        let of_other = key("other", "c1", Step::Platform, &row("r0", FOUND));
        facts.created.insert(of_other, removed);
        let started = parse_rfc3339(FOUND).unwrap();
        facts.waited_for_removal(&platform("r1"), started, began)
    };
    assert!(is_excused(500, 597));
    assert!(
        !is_excused(530, 597),
        "it was no removal when the step was to begin"
    );
    assert!(!is_excused(500, 523), "it was gone before");
    assert!(
        !is_excused(500, 530),
        "it was gone long before the work was created"
    );
}

#[test]
fn a_retry_that_has_the_start_of_the_attempt_before_has_waited_for_no_removal() {
    // What was left was removed 4 s ago, and the work of this attempt was created since.
    let is_excused = |retry: &str, by: Role, of_left: &str| {
        let left = Created {
            started: of_left.to_owned(),
            deleted: Some((NOW.saturating_sub(Duration::from_secs(4)), Some(by))),
            ..Created::default()
        };
        let mut facts = Facts::default();
        facts.created.insert(platform("r1"), left);
        let again = Row {
            retry: retry.to_owned(),
            ..row("r1", FOUND)
        };
        let key = key("u", "c1", Step::Platform, &again);
        let started = parse_rfc3339(FOUND).unwrap();
        facts.waited_for_removal(&key, started, NOW.saturating_sub(Duration::from_secs(2)))
    };
    let earlier = "2026-01-01T00:07:00Z";
    assert!(is_excused("again-1", Role::Controller, earlier));
    assert!(!is_excused("again-1", Role::Controller, FOUND));
    assert!(is_excused("again-1", Role::People, FOUND));
    assert!(
        is_excused("", Role::Controller, FOUND),
        "it had left, and is back in the same attempt"
    );
    assert!(is_excused("~", Role::Controller, FOUND), "the spec was edited");
}

#[test]
fn a_post_action_that_goes_on_long_after_its_time_violates_the_rule_once_nothing_disturbs() {
    let is_late = |seconds: u64, disturbed: Duration| {
        let limits = Limits {
            action: Duration::from_secs(20),
            ..Limits::default()
        };
        let mut facts = in_step(Step::PostAction, "PostAction", limits);
        facts.now = NOW + Duration::from_secs(seconds);
        facts.disturbed.until = disturbed;
        facts.overdue();
        assert_eq!(
            facts.checked.contains_key(&Rule::Deadline),
            seconds > 10,
            "{seconds}"
        );
        !facts.violations.is_empty()
    };
    assert!(!is_late(5, Duration::ZERO));
    assert!(!is_late(100, Duration::ZERO));
    assert!(is_late(140, Duration::ZERO));
    assert!(!is_late(140, NOW + Duration::from_mins(1)));
}

#[test]
fn no_step_is_late_while_the_clock_of_the_leader_is_not_trusted() {
    let is_late = |leader: &str, ahead: i64, right: Option<u64>| {
        let limits = Limits {
            action: Duration::from_secs(20),
            ..Limits::default()
        };
        let mut facts = in_step(Step::PostAction, "PostAction", limits);
        facts.claims.push((Duration::ZERO, leader.to_owned()));
        facts.claims.push((Duration::ZERO, String::new()));
        facts.disturbed.set_clock("r0", NOW, ahead);
        if let Some(seconds) = right {
            let disturbed = &mut facts.disturbed;
            disturbed.set_clock("r0", NOW + Duration::from_secs(seconds), 0);
            // It stays right.
            disturbed.set_clock("r0", NOW + Duration::from_secs(139), 5);
        }
        facts.now = NOW + Duration::from_secs(140);
        facts.overdue();
        !facts.violations.is_empty()
    };
    assert!(!is_late("r0-1", -3_600, None));
    assert!(!is_late("r0-3", 45, None), "it is the clock of the machine");
    assert!(is_late("r0-1", 25, None), "that is trusted");
    assert!(is_late("r1-2", -3_600, None), "another one leads");
    assert!(!is_late("r0-1", -3_600, Some(30)));
    assert!(is_late("r0-1", -3_600, Some(5)), "it was right for long enough");
}

/// What is known after the hub has answered with this code when a row of this phase was to follow that of a pre-action.
fn after_answer(code: u16, phase: &str) -> Facts {
    let limits = Limits {
        action: Duration::from_secs(20),
        ..Limits::default()
    };
    let mut facts = in_step(Step::PreAction, "PreAction", limits);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.flights.insert("c1".to_owned(), NOW);
    let report = json!({
        "metadata": {"ownerReferences": [{"uid": "u"}]},
        "rows": [{"cluster": "c1", "phase": phase, "revision": "r1"}],
    });
    let body = report.to_string();
    let sender = Sender {
        role: Role::Controller,
        identity: Arc::from("r0-1"),
        at: NOW,
    };
    let sent = Sent {
        verb: "PATCH",
        path: "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/team/managedclustersupgradereports/spring-report-1",
        body: body.as_bytes(),
        code,
        met: None,
        is_further_page: false,
    };
    facts.request(&sender, &sent);
    facts
}

#[test]
fn a_cluster_whose_row_the_hub_rejects_is_late_only_when_that_was_to_be_sent_again() {
    let is_late = |code: u16, phase: &str, seconds: u64| {
        let mut facts = after_answer(code, phase);
        facts.now = NOW + Duration::from_secs(seconds);
        facts.overdue();
        !facts.violations.is_empty()
    };
    for code in [400, 422] {
        assert!(!is_late(code, "PreActionDegraded", 410), "{code}");
        assert!(is_late(code, "PreActionDegraded", 430), "{code}");
        assert!(is_late(code, "PreAction", 410), "{code}: it is in the same step");
    }
    assert!(is_late(503, "PreActionDegraded", 410), "that is sent again soon");
    let mut facts = after_answer(422, "PreActionDegraded");
    assert_eq!(facts.sent_again("u", "c1"), NOW + AGAIN);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade
        .records
        .get_mut("c1")
        .unwrap()
        .before
        .push(row("r2", FOUND));
    assert_eq!(facts.sent_again("u", "c1"), Duration::ZERO, "another row came");
}

/// The creation of its work was on its way for so long that the cluster was registered anew before it arrived. Whoever leads since finds
/// the row of before, and creates the work.
#[test]
fn a_step_goes_on_with_the_start_of_its_row_although_no_creation_had_arrived_before_its_cluster_was_registered_anew()
 {
    const STARTED: &str = "2026-01-01T00:08:30Z";
    const AGAIN: &str = "2026-01-01T00:09:50Z";
    let name = Step::Platform.work_name("c1");
    let is_excused = |tried: &str, row_before: &Row| {
        let limits = Limits {
            update: Duration::from_secs(78),
            operators: OPERATORS_TIMEOUT,
            action: Duration::from_secs(78),
        };
        let mut facts = in_step(Step::Platform, "Partial", limits);
        facts.created.clear();
        facts.cluster("c1").heard = Duration::from_secs(580);
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.records.get_mut("c1").unwrap().before = vec![row_before.clone()];
        let send = |facts: &mut Facts, started: &str, seconds: u64| {
            let body = json!({"metadata": {
                "name": name,
                "namespace": "c1",
                "labels": {LABEL_MCU_UID: "u"},
                "annotations": {ANNOTATION_REVISION: "r1", ANNOTATION_STARTED_AT: started},
            }});
            let sender = Sender {
                role: Role::Controller,
                identity: Arc::from("r0-1"),
                at: Duration::from_secs(seconds),
            };
            facts.try_work(&sender, body.to_string().as_bytes());
        };
        send(&mut facts, tried, 510);
        send(&mut facts, STARTED, 590);
        let work = Work {
            uid: "u".to_owned(),
            cluster: "c1".to_owned(),
            name: name.clone(),
            revision: "r1".to_owned(),
            started: STARTED.to_owned(),
            ..Work::default()
        };
        let created = Created {
            started: STARTED.to_owned(),
            first_try: facts.first_try(&work),
            ..Created::default()
        };
        facts.created.insert(work.key(), created);
        let failed = Row {
            reason: "ClusterUpgradeTimeout".to_owned(),
            ..row("r1", STARTED)
        };
        facts.deadline("u", "c1", &failed);
        facts.violations.is_empty()
    };
    assert!(is_excused(STARTED, &row("r1", STARTED)));
    assert!(
        !is_excused(AGAIN, &row("r1", STARTED)),
        "it was never tried before"
    );
    assert!(
        !is_excused(STARTED, &row("r1", AGAIN)),
        "the row tells of another start"
    );
    assert!(
        !is_excused(STARTED, &row("r2", STARTED)),
        "the row is of another attempt"
    );
}
