use api::names::ANNOTATION_SOAK_STARTED_AT;
use serde_json::json;

use super::*;
use crate::oracle::facts::{Running, Upgrade};
use crate::oracle::generation::{After, Generation};
use crate::oracle::memory::Told;
use crate::oracle::row::Step as RowStep;

fn work(step: Step, revision: &str) -> Work {
    Work {
        uid: "u".to_owned(),
        cluster: "c1".to_owned(),
        name: step.work_name("c1"),
        step: Some(step),
        revision: revision.to_owned(),
        retry: String::new(),
        owner: String::new(),
        target: String::new(),
        started: String::new(),
        value: Arc::default(),
    }
}

/// What is known of a cluster that is under way by a work of its present attempt.
fn under_way(step: Step) -> Facts {
    let work = work(step, "r2");
    let row = Row {
        revision: "r2".to_owned(),
        ..Row::default()
    };
    let record = Record {
        before: vec![row],
        ..Record::default()
    };
    let running = Running {
        name: work.name,
        owner: work.uid,
        cluster: work.cluster,
        revision: work.revision,
        retry: work.retry,
        started: work.started,
        target: work.target,
        goes_on: true,
        ..Running::default()
    };
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.insert("c1".to_owned(), record);
    upgrade.flights.insert("c1".to_owned(), Duration::ZERO);
    facts.works.insert("w".to_owned(), running);
    facts
}

#[test]
fn the_end_of_an_update_gives_the_slot_back_if_a_retry_does_not_repeat_its_operators() {
    let holds_slot = |outcome: &str, ended: bool, retry: &str| {
        let mut facts = under_way(Step::Platform);
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        let after = After {
            operators: true,
            action: false,
        };
        upgrade.generations = vec![Generation {
            after,
            ..Generation::default()
        }];
        let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
        "again".clone_into(&mut row.retry);
        row.steps = vec![RowStep {
            name: "Operators".to_owned(),
            outcome: outcome.to_owned(),
            ..RowStep::default()
        }];
        if ended {
            facts.done(&work(Step::Operators, "r2"));
            let upgrade = facts.upgrades.get_mut("u").unwrap();
            upgrade.flights.insert("c1".to_owned(), Duration::ZERO);
        }
        facts.done(&Work {
            retry: retry.to_owned(),
            ..work(Step::Platform, "r2")
        });
        facts.upgrades["u"].flights.contains_key("c1")
    };
    assert!(!holds_slot("Succeeded", true, "again"));
    assert!(holds_slot("", true, "again"), "they run anew");
    assert!(holds_slot("Succeeded", false, "again"), "no agent has said so");
    assert!(holds_slot("Succeeded", true, ""), "that is another attempt");
}

/// An edit has taken the pre-action away, so the update begins while what is left of it is still to be deleted.
#[test]
fn a_leftover_that_is_deleted_takes_no_cluster_out_of_flight() {
    let is_under_way = |facts: &Facts| facts.upgrades["u"].flights.contains_key("c1");
    let mut facts = under_way(Step::Platform);
    for step in [Step::PreAction, Step::Operators] {
        facts.end_flight(&work(step, "r1"), "Pending");
        assert!(is_under_way(&facts), "{step:?}");
    }
    // The deletion of its pre-action does so.
    let mut facts = under_way(Step::PreAction);
    facts.end_flight(&work(Step::PreAction, "r2"), "Pending");
    assert!(!is_under_way(&facts));
    // So does that of a work of another attempt while nothing of the present one has begun.
    let mut facts = under_way(Step::PreAction);
    facts.works.clear();
    facts.end_flight(&work(Step::PreAction, "r1"), "Pending");
    assert!(!is_under_way(&facts));
}

/// Somebody has overwritten the status of operators that are left from an earlier attempt, so agents report their end again.
#[test]
fn the_end_of_a_leftover_that_is_reported_once_more_takes_no_cluster_out_of_flight() {
    let operators = |revision: &str| Work {
        value: Arc::new(serde_json::json!({"metadata": {"uid": "o"}})),
        ..work(Step::Operators, revision)
    };
    // The update of the present attempt, r2, began at 50 s.
    let known = |revision: &str, created: u64| {
        let mut facts = under_way(Step::Platform);
        let update = work(Step::Platform, "r2").key();
        facts.began.insert(update, Duration::from_secs(50));
        let created = Created {
            at: Duration::from_secs(created),
            ..Created::default()
        };
        let key = operators(revision).key();
        facts.created.insert(key.clone(), created);
        facts.keys.insert("o".to_owned(), key);
        facts
    };
    let goes_on = |mut facts: Facts, revision: &str| {
        facts.done(&operators(revision));
        facts.upgrades["u"].flights.contains_key("c1")
    };
    assert!(goes_on(known("r1", 20), "r1"));
    assert!(goes_on(known("r1", 20), "edited"), "it is still the same work");
    assert!(!goes_on(known("r2", 60), "r2"), "that is the present attempt");
    assert!(!goes_on(known("r3", 60), "r3"), "no row tells of it yet");
    let mut facts = known("r1", 20);
    facts.works.clear();
    assert!(!goes_on(facts, "r1"), "nothing of the present attempt has begun");
    let mut facts = known("r1", 20);
    facts.keys.clear();
    assert!(!goes_on(facts, "r1"), "the controller has not created it");
}

/// There is one slot since c2 has started as well. The controller has just deleted the pre-action of c1, of which no row told.
fn withdrawn() -> Facts {
    let mut facts = under_way(Step::PreAction);
    facts.now = Duration::from_secs(100);
    facts.cluster("c1").is_there = true;
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.generations = vec![Generation {
        max_concurrency: 1,
        is_shut: true,
        ..Generation::default()
    }];
    begin(upgrade, "c2", 1);
    facts.end_flight(&started(Step::PreAction, "r2", "a"), "Pending");
    facts.now = Duration::from_secs(102);
    facts
}

fn begin(upgrade: &mut Upgrade, name: &str, seconds: u64) {
    let record = Record {
        before: vec![Row::default()],
        ..Record::default()
    };
    upgrade.records.insert(name.to_owned(), record);
    upgrade
        .flights
        .insert(name.to_owned(), Duration::from_secs(seconds));
}

fn started(step: Step, revision: &str, at: &str) -> Work {
    Work {
        started: at.to_owned(),
        ..work(step, revision)
    }
}

/// The rules that the start of a work violates.
fn violated(mut facts: Facts, work: &Work) -> Vec<Rule> {
    facts.start(work);
    let violations = facts.violations.iter();
    violations.map(|violation| violation.rule).collect()
}

#[test]
fn a_cluster_that_is_back_before_it_was_dropped_goes_on_in_its_slot() {
    let again = started(Step::PreAction, "r2", "a");
    assert!(violated(withdrawn(), &again).is_empty());
    // Its pre-action had succeeded.
    let next = started(Step::Platform, "r2", "b");
    assert!(violated(withdrawn(), &next).is_empty());
    // It is in flight since then.
    let mut facts = withdrawn();
    facts.start(&again);
    let upgrade = &facts.upgrades["u"];
    assert_eq!(upgrade.flights["c1"], Duration::from_secs(100));
    assert!(upgrade.withdrawn.is_empty());
}

#[test]
fn a_cluster_that_begins_anew_after_it_was_dropped_needs_a_slot() {
    let both = [Rule::Paused, Rule::Concurrency];
    let anew = started(Step::PreAction, "r2", "b");
    assert_eq!(violated(withdrawn(), &anew), both);
    let edited = started(Step::Platform, "r3", "b");
    assert_eq!(violated(withdrawn(), &edited), both);
    // Its slot was given to another cluster.
    let mut facts = withdrawn();
    begin(facts.upgrades.get_mut("u").unwrap(), "c2", 101);
    let again = started(Step::PreAction, "r2", "a");
    assert_eq!(violated(facts, &again), [Rule::Concurrency]);
}

/// The rules that the start of an upgrade violates in a cluster that another one has lost, and of which that one has this record.
fn started_beside(lost: u64, record: Record) -> Vec<Rule> {
    let mut facts = Facts {
        now: Duration::from_secs(100),
        ..Facts::default()
    };
    facts.cluster("c1").is_there = true;
    let rival = facts.upgrades.entry("rival".to_owned()).or_default();
    rival.dropped.insert("c1".to_owned(), Duration::from_secs(lost));
    rival.records.insert("c1".to_owned(), record);
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations = vec![Generation {
        max_concurrency: 1,
        ..Generation::default()
    }];
    violated(facts, &work(Step::Platform, "r1"))
}

#[test]
fn a_cluster_that_is_under_way_by_a_row_alone_is_for_no_other_upgrade() {
    let record = |phases: &[(u64, &str)]| {
        let since = |(at, phase): &(u64, &str)| Told::at(Duration::from_secs(*at), phase);
        Record {
            before: vec![Row::default()],
            phases: phases.iter().map(since).collect(),
            ..Record::default()
        }
    };
    let partial = || record(&[(1, "Partial")]);
    assert_eq!(started_beside(10, partial()), [Rule::Exclusive]);
    let ended_since = record(&[(1, "Partial"), (101, "Failed")]);
    assert_eq!(started_beside(10, ended_since), [Rule::Exclusive]);
    let ended = record(&[(1, "Partial"), (50, "Failed")]);
    assert!(started_beside(10, ended).is_empty());
    let lost_since = 101;
    assert!(started_beside(lost_since, partial()).is_empty());
    let edited = Record {
        is_edited: true,
        ..partial()
    };
    assert!(started_beside(10, edited).is_empty());
}

/// The cluster is back since 50 s, and its row arrived at 60 s.
fn registered_anew(name: &str, sent: u64, phase: &str) -> Facts {
    let mut facts = Facts {
        now: Duration::from_secs(100),
        ..Facts::default()
    };
    for name in ["c1", "c2"] {
        facts.cluster(name).is_there = true;
    }
    facts.cluster(name).changed = Duration::from_secs(50);
    let row = Row {
        phase: phase.to_owned(),
        revision: "r1".to_owned(),
        ..Row::default()
    };
    let told = Told {
        sent: Duration::from_secs(sent),
        ..Told::at(Duration::from_mins(1), phase)
    };
    let record = Record {
        before: vec![row],
        phases: vec![told],
        ..Record::default()
    };
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.insert(name.to_owned(), record);
    upgrade.generations = vec![Generation {
        max_concurrency: 1,
        max_failures: Some(0),
        ..Generation::default()
    }];
    facts
}

#[test]
fn a_failure_from_before_its_cluster_was_registered_anew_does_not_count_although_its_row_arrives_late() {
    let violated = |sent: u64| violated(registered_anew("c2", sent, "Failed"), &work(Step::Platform, "r1"));
    assert!(violated(40).is_empty());
    assert_eq!(violated(55), [Rule::Budget]);
}

#[test]
fn a_work_that_is_created_by_a_late_row_counts_as_of_the_time_when_its_cluster_was_registered_anew() {
    let created = |sent: u64| {
        let mut facts = registered_anew("c1", sent, "Pending");
        let work = work(Step::Platform, "r1");
        facts.created(&work);
        facts.created[&work.key()].at
    };
    assert_eq!(created(40), Duration::from_secs(50));
    assert_eq!(created(55), Duration::from_secs(100));
}

/// A creation that was on its way when its cluster was registered anew may arrive while that waits for another attempt.
#[test]
fn the_end_of_an_update_gives_the_slot_back_if_the_cluster_waits_for_another_attempt() {
    let holds_slot = |phase: &str, revision: &str| {
        let mut facts = under_way(Step::Platform);
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        let after = After {
            operators: true,
            action: false,
        };
        upgrade.generations = vec![Generation {
            after,
            ..Generation::default()
        }];
        let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
        phase.clone_into(&mut row.phase);
        revision.clone_into(&mut row.revision);
        facts.done(&work(Step::Platform, "r2"));
        facts.upgrades["u"].flights.contains_key("c1")
    };
    assert!(!holds_slot("Pending", "r3"));
    assert!(!holds_slot("Blocked", "r3"));
    assert!(holds_slot("Pending", "r2"), "its operators are still to come");
    assert!(holds_slot("Initialized", "r3"), "that attempt has begun");
    assert!(holds_slot("Complete", "r1"), "no row tells of the attempt yet");
}

/// c2 has started by a creation of r1 that came at 100 s, and r2 has led since 50 s. There is one slot.
fn strayed() -> Facts {
    let claims = [(0, "r1"), (50, "r2")];
    let claims = claims.map(|(at, who)| (Duration::from_secs(at), who.to_owned()));
    let mut facts = Facts {
        now: Duration::from_secs(100),
        claims: claims.into(),
        sender: Some(sent_by("r1", 20)),
        ..Facts::default()
    };
    for name in ["c1", "c2"] {
        facts.cluster(name).is_there = true;
    }
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.generations = vec![Generation {
        max_concurrency: 1,
        ..Generation::default()
    }];
    let row = Row {
        revision: "r1".to_owned(),
        ..Row::default()
    };
    let record = Record {
        before: vec![row],
        ..Record::default()
    };
    upgrade.records.insert("c2".to_owned(), record);
    facts.start(&Work {
        cluster: "c2".to_owned(),
        ..work(Step::Platform, "r1")
    });
    facts
}

fn sent_by(identity: &str, seconds: u64) -> Sender {
    Sender {
        role: Role::Controller,
        identity: identity.into(),
        at: Duration::from_secs(seconds),
    }
}

#[test]
fn a_late_creation_of_a_former_leader_takes_a_slot_once_whoever_leads_has_heard_of_it() {
    let violated = |mut facts: Facts, sent: u64| {
        facts.now = Duration::from_secs(sent + 1);
        facts.sender = Some(sent_by("r2", sent));
        violated(facts, &work(Step::Platform, "r1"))
    };
    assert!(strayed().violations.is_empty());
    assert!(violated(strayed(), 99).is_empty(), "it had not come yet");
    assert!(violated(strayed(), 170).is_empty(), "a watch may be dead");
    assert_eq!(violated(strayed(), 175), [Rule::Concurrency]);
    // It held a slot before that.
    let mut facts = strayed();
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.release("c2");
    upgrade.suspended.insert("c2".to_owned(), Duration::ZERO);
    facts.start(&Work {
        cluster: "c2".to_owned(),
        ..work(Step::Platform, "r1")
    });
    assert_eq!(violated(facts, 99), [Rule::Concurrency]);
}

/// The end of the update of c1 was reported at 10 s. c2 has started at 50 s, and there is one slot since.
fn garbled(taken_back: Option<u64>, phases: &[(u64, &str)]) -> Vec<Rule> {
    let mut facts = under_way(Step::Platform);
    facts.now = Duration::from_secs(100);
    facts.cluster("c1").is_there = true;
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.generations = vec![Generation {
        max_concurrency: 1,
        ..Generation::default()
    }];
    begin(upgrade, "c2", 50);
    upgrade.release("c1");
    upgrade.finished.insert("c1".to_owned(), Duration::from_secs(10));
    let taken_back = taken_back.map(|at| ("c1".to_owned(), Duration::from_secs(at)));
    upgrade.taken_back.extend(taken_back);
    let since = |(at, phase): &(u64, &str)| Told::at(Duration::from_secs(*at), phase);
    let record = upgrade.records.get_mut("c1").unwrap();
    record.phases = phases.iter().map(since).collect();
    violated(facts, &work(Step::Platform, "r2"))
}

#[test]
fn a_cluster_whose_end_was_taken_back_before_a_row_told_of_it_has_kept_its_slot() {
    let goes_on = [(5, "Partial"), (60, "Initialized")];
    assert!(garbled(Some(20), &goes_on).is_empty());
    assert_eq!(garbled(None, &goes_on), [Rule::Concurrency]);
    let before_that_end = Some(7);
    assert_eq!(garbled(before_that_end, &goes_on), [Rule::Concurrency]);
    let told = [(5, "Partial"), (15, "Soaking"), (60, "Initialized")];
    assert_eq!(garbled(Some(20), &told), [Rule::Concurrency]);
}

/// Its update had ended and no row told so yet, when somebody deleted the work, which was of the attempt before the edit.
#[test]
fn a_cluster_whose_finished_work_somebody_deleted_may_go_on_with_the_attempt_of_its_row() {
    let mut facts = under_way(Step::Platform);
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.release("c1");
    let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
    "Partial".clone_into(&mut row.phase);
    facts.lost(&work(Step::Platform, "r1"));
    let upgrade = &facts.upgrades["u"];
    assert!(upgrade.is_doubtful("c1", "r2", ""));
    assert!(!upgrade.is_doubtful("c1", "r1", ""));
}

/// The storage of the hub has gone back to a time before agents reported the end of the update, of which the note tells.
#[test]
fn the_note_of_a_soak_gives_the_slot_back_if_agents_had_reported_the_end() {
    let noted = |began: &str| Work {
        value: Arc::new(json!({"metadata": {"annotations": {ANNOTATION_SOAK_STARTED_AT: began}}})),
        ..work(Step::Platform, "r2")
    };
    let holds_slot = |is_reported: bool, retry: &str, operators: bool, before: &Work| {
        let mut facts = under_way(Step::Platform);
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.generations = vec![Generation {
            after: After {
                operators,
                action: false,
            },
            ..Generation::default()
        }];
        if is_reported {
            let end = End {
                retry: retry.to_owned(),
                ..End::default()
            };
            let step = ("c1".to_owned(), Step::Platform, "r2".to_owned());
            upgrade.ends.insert(step, end);
        }
        facts.note_soak(before, &noted("now"));
        facts.upgrades["u"].flights.contains_key("c1")
    };
    let none = work(Step::Platform, "r2");
    assert!(!holds_slot(true, "", false, &none));
    assert!(holds_slot(false, "", false, &none), "nobody has reported an end");
    assert!(
        holds_slot(true, "again", false, &none),
        "that was another attempt"
    );
    assert!(holds_slot(true, "", true, &none), "its operators go on");
    assert!(holds_slot(true, "", false, &noted("now")), "it was there before");
}

/// Its deletion waited when the spec stopped to leave the cluster out. The row is of another attempt since.
#[test]
fn a_withdrawn_work_may_go_while_its_cluster_waits_for_another_attempt() {
    let withdrawn = |request: &str, asks: bool| {
        let asked = if asks {
            json!({"desiredUpdate": {"version": "4.14.12"}})
        } else {
            json!({})
        };
        let value = |name: &str, value: Value| json!({"name": name, "fieldValue": value});
        let values = [
            value("version", json!({"string": "4.14.9"})),
            value("requestedVersion", json!({"string": request})),
            value("generation", json!({"integer": 3})),
            value("observedGeneration", json!({"integer": 3})),
        ];
        let manifest = json!({"statusFeedback": {"values": values}});
        Work {
            target: "4.14.12".to_owned(),
            value: Arc::new(json!({
                "spec": {"workload": {"manifests": [{"spec": asked}]}},
                "status": {"resourceStatus": {"manifests": [manifest]}},
            })),
            ..work(Step::Platform, "r1")
        }
    };
    let record = |phases: &[&str], retry: &str| {
        let row = Row {
            phase: "Pending".to_owned(),
            revision: "r1".to_owned(),
            retry: retry.to_owned(),
            ..Row::default()
        };
        let told = |phase: &&str| Told::at(Duration::ZERO, phase);
        Record {
            before: vec![row],
            phases: phases.iter().map(told).collect(),
            ..Record::default()
        }
    };
    let gone = withdrawn("", false);
    let taken_up = record(&["Initialized", "Aborted", "Pending"], "~");
    assert!(gone.is_left_of(&taken_up));
    assert!(gone.is_left_of(&record(&["Failed", "Skipped", "Pending"], "~")));
    assert!(
        !withdrawn("4.14.12", false).is_left_of(&taken_up),
        "not confirmed"
    );
    assert!(
        !withdrawn("", true).is_left_of(&taken_up),
        "it is still asked for"
    );
    let same_attempt = record(&["Aborted", "Pending"], "");
    assert!(
        !gone.is_left_of(&same_attempt),
        "no row has said yet why it may go"
    );
    let never_told = record(&["Initialized", "Pending"], "~");
    assert!(!gone.is_left_of(&never_told), "no row has said yet why it may go");
}

#[test]
fn a_work_that_somebody_deleted_begins_anew_only_if_its_cluster_was_blocked_since() {
    const FIRST: &str = "2026-01-01T00:00:10Z";
    const AGAIN: &str = "2026-01-01T00:15:00Z";
    let is_anew = |by: Role, started: &str, change: fn(&mut Record)| {
        let work = Work {
            started: started.to_owned(),
            ..work(Step::PreAction, "r2")
        };
        let earlier = Created {
            started: FIRST.to_owned(),
            deleted: Some((Duration::from_mins(1), Some(by))),
            ..Created::default()
        };
        let mut facts = under_way(Step::PreAction);
        facts.now = Duration::from_mins(15);
        facts.created.insert(work.key(), earlier);
        facts.began.insert(work.key(), Duration::from_secs(10));
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        change(upgrade.records.get_mut("c1").unwrap());
        facts.created(&work);
        facts.began[&work.key()] == facts.now
    };
    let blocked = |record: &mut Record| record.phases.push(Told::at(Duration::from_secs(61), "Blocked"));
    assert!(is_anew(Role::People, AGAIN, blocked));
    assert!(!is_anew(Role::People, FIRST, blocked), "it keeps its clock");
    assert!(!is_anew(Role::Controller, AGAIN, blocked));
    assert!(!is_anew(Role::People, AGAIN, |_| {}));
    let before = |record: &mut Record| record.phases.push(Told::at(Duration::from_secs(59), "Blocked"));
    assert!(!is_anew(Role::People, AGAIN, before));
    let refused = |record: &mut Record| {
        record.blocked = Some((Duration::from_secs(61), ("r2".to_owned(), String::new())));
    };
    assert!(is_anew(Role::People, AGAIN, refused), "its row was refused");
    let told = |record: &mut Record| {
        record.phases.push(Told::at(Duration::from_secs(61), "Blocked"));
        record.before[0].steps.push(RowStep {
            started: FIRST.to_owned(),
            ..RowStep::default()
        });
    };
    assert!(!is_anew(Role::People, AGAIN, told), "its row has that start");
}
