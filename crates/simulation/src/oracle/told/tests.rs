use std::collections::BTreeSet;

use super::*;
use crate::actor::Role;
use crate::oracle::facts::Running;
use crate::oracle::generation::Generation;
use crate::oracle::row::Row;
use crate::oracle::schedule::{Approval, Control};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A cluster that is queued where the action of another upgrade has been left.
fn left_over() -> Facts {
    let row = Row {
        phase: "Pending".to_owned(),
        reason: "WriteFailed".to_owned(),
        ..Row::default()
    };
    let record = Record {
        before: vec![row],
        ..Record::default()
    };
    let left = Running {
        name: Step::PreAction.work_name("c1"),
        owner: "other".to_owned(),
        cluster: "c1".to_owned(),
        ..Running::default()
    };
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.insert("c1".to_owned(), record);
    facts.works.insert("w".to_owned(), left);
    facts
}

/// A replica asks for a deletion.
fn delete(facts: &mut Facts, step: Step, at: u64, code: u16) {
    let sender = Sender {
        role: Role::Controller,
        identity: Arc::from("r0"),
        at: seconds(at),
    };
    let name = step.work_name("c1");
    let path = format!("/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks/{name}");
    let sent = Sent {
        verb: "DELETE",
        path: &path,
        body: b"",
        code,
        met: None,
        is_further_page: false,
    };
    facts.note_deletion(&sender, &sent);
}

fn blocked(facts: &Facts) -> Vec<String> {
    facts.tidings("u", seconds(100), seconds(400)).blocked
}

#[test]
fn deletions_for_which_a_queued_cluster_waits_are_to_be_told() {
    let nobody: [&str; 0] = [];
    let forbidden = || {
        let mut facts = left_over();
        delete(&mut facts, Step::PreAction, 50, 403);
        delete(&mut facts, Step::PreAction, 390, 403);
        facts
    };
    assert_eq!(blocked(&forbidden()), ["c1"]);
    let mut facts = forbidden();
    delete(&mut facts, Step::PreAction, 395, 500);
    assert_eq!(blocked(&facts), nobody, "it may be possible by now");
    let mut facts = forbidden();
    facts.deleters.insert("w".to_owned(), (seconds(395), None));
    assert_eq!(blocked(&facts), nobody, "somebody has deleted it");
    let mut facts = left_over();
    delete(&mut facts, Step::Platform, 50, 403);
    delete(&mut facts, Step::Platform, 390, 403);
    assert_eq!(blocked(&facts), nobody, "it is changed in place");
    let mut facts = left_over();
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.records.get_mut("c1").unwrap().before[0].reason = "WaitingForSlot".to_owned();
    delete(&mut facts, Step::PreAction, 50, 403);
    delete(&mut facts, Step::PreAction, 390, 403);
    assert_eq!(blocked(&facts), nobody, "it would wait anyway");
}

/// A replica is forbidden to create a work.
fn create(facts: &mut Facts, at: u64) {
    let sender = Sender {
        role: Role::Controller,
        identity: Arc::from("r0"),
        at: seconds(at),
    };
    let work = serde_json::json!({"metadata": {"namespace": "c1", "labels": {LABEL_MCU_UID: "u"}}});
    let body = work.to_string();
    let sent = Sent {
        verb: "POST",
        path: "/apis/work.open-cluster-management.io/v1/namespaces/c1/manifestworks",
        body: body.as_bytes(),
        code: 403,
        met: None,
        is_further_page: false,
    };
    facts.note_creation(&sender, &sent);
}

/// A spec comes, and a second later the status tells its number.
fn edit(facts: &mut Facts, number: i64, at: u64) {
    let spec = Generation {
        number,
        since: seconds(at),
        ..Generation::default()
    };
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations.push(spec);
    upgrade.acknowledged.push((seconds(at + 1), number));
}

#[test]
fn what_is_forbidden_counts_anew_when_it_is_first_tried_after_an_edit_or_a_return() {
    let nobody: [&str; 0] = [];
    let mut facts = Facts::default();
    edit(&mut facts, 1, 0);
    create(&mut facts, 50);
    create(&mut facts, 390);
    assert_eq!(blocked(&facts), ["c1"], "nobody has edited it");
    // It is edited at 60, and tried again at these times.
    let edited = |tries: &[u64]| {
        let mut facts = Facts::default();
        edit(&mut facts, 1, 0);
        create(&mut facts, 50);
        edit(&mut facts, 2, 60);
        for at in tries {
            create(&mut facts, *at);
        }
        blocked(&facts)
    };
    assert_eq!(edited(&[390]), nobody, "its windows were closed");
    assert_eq!(edited(&[60, 390]), nobody, "the edit was unheard of at 60");
    assert_eq!(edited(&[62, 390]), ["c1"]);
    assert_eq!(edited(&[100, 390]), ["c1"]);
    assert_eq!(edited(&[101, 390]), nobody);
    let mut facts = Facts::default();
    edit(&mut facts, 1, 0);
    create(&mut facts, 50);
    facts.clusters.entry("c1".to_owned()).or_default().changed = seconds(60);
    create(&mut facts, 390);
    assert_eq!(blocked(&facts), nobody, "the cluster has left and is back");
}

/// An upgrade whose only canary is c0, and which tolerates one failure of others, with rows that say these phases.
fn upgrade(phases: [&str; 4]) -> Upgrade {
    let spec = Generation {
        canaries: BTreeSet::from(["c0".to_owned()]),
        max_failures: Some(1),
        ..Generation::default()
    };
    let records = phases.iter().enumerate().map(|(number, phase)| {
        let row = Row {
            phase: (*phase).to_owned(),
            ..Row::default()
        };
        let record = Record {
            before: vec![row],
            ..Record::default()
        };
        (format!("c{number}"), record)
    });
    Upgrade {
        generations: vec![spec],
        records: records.collect(),
        ..Upgrade::default()
    }
}

#[test]
fn canaries_and_failures_keep_clusters_from_starting_and_blocked_clusters_that_are_no_canaries_do_not() {
    let starts = |phases: [&str; 4], cluster: &str| upgrade(phases).starts_by_itself(cluster);
    let canary_waits = ["Pending", "Blocked", "Blocked", "Pending"];
    assert!(starts(canary_waits, "c0"));
    assert!(!starts(canary_waits, "c3"), "the canary comes first");
    assert!(!starts(["Blocked", "Pending", "Pending", "Pending"], "c3"));
    assert!(!starts(["Failed", "Pending", "Pending", "Pending"], "c3"));
    assert!(starts(["Complete", "Blocked", "Failed", "Pending"], "c3"));
    let two_have_failed = ["Complete", "PreActionDegraded", "Failed", "Pending"];
    assert!(!starts(two_have_failed, "c3"), "one more than is tolerated");
}

/// An upgrade whose only canary is complete, and whose c1 waits for another one that has windows for the first five minutes of every
/// 15. The row of that one says this of c1.
fn waits_for(phase: &str, reason: &str) -> Facts {
    let mut waiting = upgrade(["Complete", "Blocked", "Complete", "Complete"]);
    waiting.records.get_mut("c1").unwrap().before[0].reason = "Conflict".to_owned();
    let mut other = upgrade(["Complete", phase, "Complete", "Complete"]);
    other.records.get_mut("c1").unwrap().before[0].reason = reason.to_owned();
    let windows = serde_json::json!([{"schedule": "*/15 * * * *", "duration": "5m"}]);
    other.generations[0].control = Control::of(&serde_json::json!({"maintenance": {"windows": windows}}));
    let mut facts = Facts::default();
    facts.upgrades.insert("u".to_owned(), waiting);
    facts.upgrades.insert("other".to_owned(), other);
    facts
}

#[test]
fn an_upgrade_that_waits_for_the_windows_of_another_one_is_not_at_rest() {
    let is_at_rest =
        |facts: &Facts, now: u64| facts.tidings("u", seconds(now - 330), seconds(now)).is_at_rest;
    let facts = waits_for("Pending", "WaitingForWindow");
    assert!(!is_at_rest(&facts, 890), "they are closed");
    assert!(
        !is_at_rest(&facts, 1015),
        "what was tried since may fail unnoticed"
    );
    assert!(is_at_rest(&facts, 1025), "they have been open for minutes");
    assert!(!is_at_rest(&waits_for("Pending", "WriteFailed"), 905));
    assert!(is_at_rest(&waits_for("Pending", "WaitingForApproval"), 890));
    assert!(is_at_rest(&waits_for("Blocked", "Conflict"), 890));
    assert!(is_at_rest(&waits_for("Failed", ""), 890));
    let mut facts = waits_for("Pending", "WaitingForWindow");
    facts.upgrades.get_mut("other").unwrap().generations[0].is_shut = true;
    assert!(is_at_rest(&facts, 890), "it is paused");
    let mut facts = waits_for("Pending", "WaitingForWindow");
    let other = facts.upgrades.get_mut("other").unwrap();
    other.records.get_mut("c0").unwrap().before[0].phase = "Failed".to_owned();
    assert!(is_at_rest(&facts, 890), "its canary has failed");
    let mut facts = waits_for("Pending", "WaitingForWindow");
    facts.upgrades.get_mut("other").unwrap().generations[0].control = Control::default();
    assert!(is_at_rest(&facts, 890), "it has no windows");
}

#[test]
fn an_upgrade_that_waits_for_a_cluster_which_another_one_has_queued_behind_a_healthy_one_is_not_at_rest() {
    let queued = |reason: &str, under_way: &str| {
        let mut facts = waits_for("Pending", reason);
        let other = facts.upgrades.get_mut("other").unwrap();
        other.generations[0].control = Control::default();
        other.records.get_mut("c2").unwrap().before[0].phase = under_way.to_owned();
        facts
    };
    let is_at_rest = |facts: &Facts| {
        let is_at_rest = facts.tidings("u", seconds(100), seconds(430)).is_at_rest;
        // Nor must it say so when nothing has moved for minutes.
        assert_eq!(
            is_at_rest,
            !facts.waits_for_progress_of_another("u", seconds(430))
        );
        is_at_rest
    };
    assert!(!is_at_rest(&queued("WaitingForSlot", "Partial")));
    assert!(!is_at_rest(&queued("WaitingForCanaries", "Operators")));
    assert!(
        is_at_rest(&queued("WaitingForSlot", "Complete")),
        "nothing is under way"
    );
    assert!(
        is_at_rest(&queued("MaxFailuresExceeded", "Partial")),
        "it waits for a human"
    );
    assert!(is_at_rest(&queued("WaitingForApproval", "Partial")));

    let mut facts = queued("WaitingForSlot", "Partial");
    facts.upgrades.get_mut("other").unwrap().generations[0].is_shut = true;
    assert!(is_at_rest(&facts), "it is paused");
    let mut facts = queued("WaitingForSlot", "Partial");
    let forbidden = Forbidden {
        by: Arc::from("r0"),
        since: seconds(50),
        last: seconds(390),
    };
    let creations = &mut facts.forbidden.creations;
    creations.insert(("other".to_owned(), "c2".to_owned()), forbidden);
    assert!(
        is_at_rest(&facts),
        "the hub forbids the next work of the one that is under way"
    );
    let mut facts = queued("WaitingForSlot", "Partial");
    let waiting = facts.upgrades.get_mut("u").unwrap();
    waiting.records.get_mut("c0").unwrap().before[0].phase = "Failed".to_owned();
    assert!(is_at_rest(&facts), "its own canary has failed");
}

/// An upgrade whose only canary is complete, whose c1 is forbidden to start, and whose status asks to approve a plan when so many
/// clusters have started.
fn asks_at(clusters: u64) -> Facts {
    let mut asking = upgrade(["Complete", "Pending", "Complete", "Complete"]);
    let spec = serde_json::json!({"upgradeStrategy": {"approvals": [{"name": "first", "when": clusters}]}});
    asking.generations[0].control = Control::of(&spec);
    asking.key = "team/spring".to_owned();
    asking.asked = vec![("first".to_owned(), "plan".to_owned())];
    let mut facts = Facts::default();
    facts.upgrades.insert("u".to_owned(), asking);
    let forbidden = Forbidden {
        by: Arc::from("r0"),
        since: seconds(50),
        last: seconds(390),
    };
    let creations = &mut facts.forbidden.creations;
    creations.insert(("u".to_owned(), "c1".to_owned()), forbidden);
    facts
}

/// The same when somebody has approved a plan until then.
fn approved(plan: &str, expires: Option<u64>) -> Facts {
    let mut facts = asks_at(3);
    facts.approvals.push(Approval {
        uid: "approval".to_owned(),
        upgrade: "team/spring".to_owned(),
        checkpoint: "first".to_owned(),
        plan: plan.to_owned(),
        since: seconds(10),
        expires: expires.map(seconds),
        deleted: None,
    });
    facts
}

#[test]
fn what_is_forbidden_behind_a_checkpoint_that_nobody_has_approved_waits_for_an_approval() {
    let is_unapproved = |facts: &Facts| {
        let tidings = facts.tidings("u", seconds(100), seconds(400));
        assert_eq!(tidings.blocked, ["c1"]);
        assert!(tidings.is_at_rest);
        tidings.is_unapproved
    };
    assert!(is_unapproved(&asks_at(0)));
    assert!(is_unapproved(&asks_at(3)));
    assert!(!is_unapproved(&asks_at(4)), "it is not reached");
    assert!(!is_unapproved(&approved("plan", None)));
    assert!(!is_unapproved(&approved("plan", Some(401))));
    assert!(is_unapproved(&approved("plan", Some(400))), "it has expired");
    assert!(is_unapproved(&approved("another", None)));
    let mut facts = approved("plan", None);
    facts.approvals[0].deleted = Some(seconds(399));
    assert!(is_unapproved(&facts), "it is deleted");
    let mut facts = asks_at(3);
    facts.upgrades.get_mut("u").unwrap().asked.clear();
    assert!(!is_unapproved(&facts), "the status asks nobody");
    let mut facts = asks_at(3);
    let asking = facts.upgrades.get_mut("u").unwrap();
    asking.records.get_mut("c0").unwrap().before[0].phase = "Failed".to_owned();
    assert!(!is_unapproved(&facts), "its canary has failed");
    let mut facts = asks_at(3);
    let asking = facts.upgrades.get_mut("u").unwrap();
    asking.records.get_mut("c1").unwrap().before[0].phase = "PostAction".to_owned();
    assert!(!is_unapproved(&facts), "it has started");
}
