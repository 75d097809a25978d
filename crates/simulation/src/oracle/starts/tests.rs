use super::*;
use crate::actor::{Role, Sender};
use crate::oracle::facts::End;
use crate::oracle::generation::{After, Generation};
use crate::oracle::memory::Told;

const LOST: Duration = Duration::from_secs(10);
const SENT: Duration = Duration::from_mins(5);

/// What is known of a cluster that was lost while it was under way, and since when its row says which phase.
fn lost(phases: &[(u64, &str)]) -> Upgrade {
    let since = |(at, phase): &(u64, &str)| Told::at(Duration::from_secs(*at), phase);
    let record = Record {
        before: vec![Row::default()],
        phases: phases.iter().map(since).collect(),
        ..Record::default()
    };
    let mut upgrade = Upgrade::default();
    upgrade.dropped.insert("c1".to_owned(), LOST);
    upgrade.records.insert("c1".to_owned(), record);
    upgrade
}

#[test]
fn a_row_keeps_the_slot_of_a_lost_cluster_as_long_as_it_says_that_it_is_under_way() {
    let kept = |phases: &[(u64, &str)]| lost(phases).kept_by_row("c1", SENT);
    assert_eq!(kept(&[(2, "PreAction")]), Some(LOST));
    assert_eq!(kept(&[(1, "Pending"), (2, "PreAction")]), Some(LOST));
    assert_eq!(kept(&[(2, "PreAction"), (100, "Initialized")]), Some(LOST));
    // What came after the start was sent gives no slot back.
    assert_eq!(kept(&[(2, "PreAction"), (301, "Pending")]), Some(LOST));
    assert_eq!(kept(&[(2, "PreAction"), (100, "Pending")]), None);
    assert_eq!(
        kept(&[(2, "PreAction"), (100, "Pending"), (200, "PreAction")]),
        None
    );
    // Its row was removed, and is another one since.
    assert_eq!(kept(&[(100, "PreAction")]), None);
}

#[test]
fn no_row_keeps_the_slot_of_a_cluster_that_was_not_lost_or_has_ended_since() {
    let mut upgrade = lost(&[(2, "Initialized")]);
    upgrade.finished.insert("c1".to_owned(), LOST * 2);
    assert_eq!(upgrade.kept_by_row("c1", SENT), None);
    let mut upgrade = lost(&[(2, "Initialized")]);
    upgrade.dropped.clear();
    assert_eq!(upgrade.kept_by_row("c1", SENT), None);
    let mut upgrade = lost(&[(2, "Initialized")]);
    upgrade.records.clear();
    assert_eq!(upgrade.kept_by_row("c1", SENT), None);
}

/// What is known when the creation that r1 sent for a lost cluster arrives 20 s later. The cluster is back, and r2 has led for 10 s.
fn arrived(phases: &[(u64, &str)]) -> Facts {
    let claims = [(0, "r1"), (310, "r2")];
    let claims = claims.map(|(at, who)| (Duration::from_secs(at), who.to_owned()));
    let mut facts = Facts {
        now: SENT + Duration::from_secs(20),
        claims: claims.into(),
        sender: Some(Sender {
            role: Role::Controller,
            identity: "r1".into(),
            at: SENT,
        }),
        ..Facts::default()
    };
    facts.cluster("c1").is_there = true;
    facts.upgrades.insert("u".to_owned(), lost(phases));
    let mut work = Work::default();
    "u".clone_into(&mut work.uid);
    "c1".clone_into(&mut work.cluster);
    facts.note_under_way(&work);
    facts
}

#[test]
fn a_late_creation_of_a_former_leader_is_a_stray_if_the_row_of_its_cluster_has_given_the_slot_back() {
    let kept = arrived(&[(2, "Initialized")]);
    assert_eq!(kept.upgrades["u"].flights["c1"], LOST);
    assert!(!kept.upgrades["u"].is_unheard_stray("c1", kept.now));
    let given_back = arrived(&[(2, "Initialized"), (315, "Blocked")]);
    let (upgrade, now) = (&given_back.upgrades["u"], given_back.now);
    assert_eq!(upgrade.flights["c1"], now);
    assert!(upgrade.is_unheard_stray("c1", now), "a watch may be dead");
    assert!(!upgrade.is_unheard_stray("c1", now + DEAF));
}

#[test]
fn an_end_that_agents_report_gives_the_slot_of_a_lost_cluster_back() {
    let ended = |seconds: u64, operators: bool| {
        let at = Duration::from_secs(seconds);
        let end = End {
            first: at,
            last: at,
            ..End::default()
        };
        let after = After {
            operators,
            action: false,
        };
        let spec = Generation {
            after,
            ..Generation::default()
        };
        let mut upgrade = lost(&[(2, "Initialized")]);
        upgrade.generations = vec![spec];
        let step = ("c1".to_owned(), Step::Platform, String::new());
        upgrade.ends.insert(step, end);
        upgrade.kept_by_row("c1", SENT)
    };
    assert_eq!(ended(100, false), None);
    assert_eq!(ended(100, true), Some(LOST), "its operators are still to come");
    assert_eq!(ended(5, false), Some(LOST), "that was an earlier update");
    assert_eq!(ended(301, false), Some(LOST), "the start was sent before");
}

#[test]
fn a_slot_that_a_row_has_given_back_is_not_held_beside_whoever_began_after_that() {
    let most = |phases: &[(u64, &str)], begun: &[u64]| {
        let mut upgrade = lost(phases);
        let flights = begun.iter().enumerate();
        let flights = flights.map(|(number, at)| (format!("d{number}"), Duration::from_secs(*at)));
        upgrade.flights.extend(flights);
        upgrade.holders_since(SENT).map(|names| names.len()).max()
    };
    let released = [(2, "PreAction"), (310, "PreActionDegraded")];
    assert_eq!(most(&released, &[20]), Some(2));
    assert_eq!(most(&released, &[20, 320]), Some(2));
    assert_eq!(most(&released, &[20, 320, 330]), Some(3));
    // It began while the row still said so.
    assert_eq!(most(&released, &[20, 305]), Some(3));
    assert_eq!(most(&released, &[20, 305, 320]), Some(3));
    assert_eq!(most(&[(2, "PreAction")], &[20, 320]), Some(3));
}

#[test]
fn a_cluster_of_a_deleted_upgrade_was_under_way_if_its_next_step_was_sent_before() {
    let was_under_way = |begun: u64, deleted: Option<u64>| {
        let mut upgrade = Upgrade::default();
        upgrade
            .flights
            .insert("c1".to_owned(), Duration::from_secs(begun));
        upgrade.is_gone = deleted.is_some();
        if let Some(at) = deleted {
            upgrade.release_all(Duration::from_secs(at));
        }
        upgrade.was_under_way("c1", SENT)
    };
    assert!(was_under_way(100, Some(310)));
    assert!(!was_under_way(100, Some(290)), "it was sent later");
    assert!(!was_under_way(305, Some(310)), "it began later");
    assert!(!was_under_way(100, None));
}

#[test]
fn a_step_that_was_sent_before_its_cluster_was_lost_goes_on_although_that_one_is_back() {
    let goes_on = |dropped: u64| {
        let mut upgrade = lost(&[(2, "PreAction")]);
        upgrade
            .dropped
            .insert("c1".to_owned(), Duration::from_secs(dropped));
        let mut work = Work::default();
        "c1".clone_into(&mut work.cluster);
        upgrade.lost_since(&work, SENT).is_some()
    };
    assert!(goes_on(301));
    assert!(!goes_on(299), "it was sent later");
}

#[test]
fn a_cluster_without_a_row_that_had_left_when_a_start_was_sent_was_nobodys_although_it_is_back_with_a_row() {
    let is_back = |left: Option<u64>, changed: u64, told: u64| {
        let mut facts = Facts::default();
        let cluster = facts.cluster("c1");
        cluster.left = left.map(Duration::from_secs);
        cluster.changed = Duration::from_secs(changed);
        let mut upgrade = lost(&[(told, "Initialized")]);
        upgrade.dropped.clear();
        facts.is_back_since(&upgrade, "c1", SENT)
    };
    assert!(is_back(Some(290), 305, 310));
    assert!(!is_back(Some(290), 305, 200), "its row told of it");
    assert!(!is_back(None, 305, 310), "it had not left");
    assert!(!is_back(Some(302), 305, 310), "it left later");
    assert!(!is_back(Some(280), 290, 310), "it was back before");
}

#[test]
fn a_cluster_without_a_row_that_started_before_the_term_is_nobodys_until_its_return_is_heard_of() {
    let is_back = |started: u64, changed: u64, sent: u64| {
        let mut facts = Facts::default();
        facts.cluster("c1").changed = Duration::from_secs(changed);
        facts.terms.begun = [1, 57, 200].map(Duration::from_secs).into();
        let mut upgrade = Upgrade::default();
        let started = Duration::from_secs(started);
        upgrade.flights.insert("c1".to_owned(), started);
        facts.is_back_since(&upgrade, "c1", Duration::from_secs(sent))
    };
    assert!(is_back(38, 60, 70));
    assert!(!is_back(58, 60, 70), "it started in this term");
    assert!(!is_back(38, 55, 70), "it was back when the term began");
    assert!(!is_back(38, 60, 140), "everybody has heard of it");
    assert!(is_back(38, 190, 195));
    assert!(!is_back(38, 190, 210), "it was back when the next term began");
}

#[test]
fn a_pre_action_that_comes_late_takes_no_slot_once_it_counts_as_degraded() {
    let is_degraded = |phases: &[(u64, &str)], step: Step, revision: &str| {
        let mut upgrade = lost(phases);
        let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
        "r1".clone_into(&mut row.revision);
        let mut work = Work::default();
        "c1".clone_into(&mut work.cluster);
        work.name = step.work_name("c1");
        revision.clone_into(&mut work.revision);
        upgrade.is_degraded_since(&work, SENT)
    };
    let degraded = [(2, "PreAction"), (310, "PreActionDegraded")];
    assert!(is_degraded(&degraded, Step::PreAction, "r1"));
    assert!(!is_degraded(&degraded, Step::Platform, "r1"));
    assert!(
        !is_degraded(&degraded, Step::PreAction, "r2"),
        "it is another attempt"
    );
    assert!(!is_degraded(&[(2, "PreAction")], Step::PreAction, "r1"));
    let before = [(2, "PreAction"), (290, "PreActionDegraded")];
    assert!(!is_degraded(&before, Step::PreAction, "r1"), "it was sent later");
}

#[test]
fn a_cluster_whose_row_and_earlier_work_are_of_an_attempt_has_begun_it() {
    let has_begun = |told: &str, begun: (&str, Step)| {
        let mut upgrade = lost(&[(2, "Pending")]);
        let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
        told.clone_into(&mut row.revision);
        let mut work = Work::default();
        "u".clone_into(&mut work.uid);
        "c1".clone_into(&mut work.cluster);
        "r1".clone_into(&mut work.revision);
        work.name = Step::Platform.work_name("c1");
        let earlier = Running {
            name: begun.1.work_name("c1"),
            owner: "u".to_owned(),
            cluster: "c1".to_owned(),
            revision: begun.0.to_owned(),
            ..Running::default()
        };
        let mut facts = Facts::default();
        facts.works.insert("w".to_owned(), earlier);
        facts.has_begun(&upgrade, &work)
    };
    assert!(has_begun("r1", ("r1", Step::PreAction)));
    assert!(
        !has_begun("r0", ("r1", Step::PreAction)),
        "it waits for another one"
    );
    assert!(!has_begun("r1", ("r0", Step::PreAction)), "that is a leftover");
    assert!(
        !has_begun("r1", ("r1", Step::Platform)),
        "that is the step itself"
    );
}

/// The row of c1 says since 100 s that its update goes on. Agents reported the end of that, and then an edit took the operators away.
/// When the start of another cluster was sent, c1 had left the selection.
fn ended_and_left() -> Facts {
    let started = "2026-01-01T00:01:40Z";
    let spec = |number: i64, operators: bool| Generation {
        number,
        after: After {
            operators,
            action: false,
        },
        ..Generation::default()
    };
    let mut upgrade = lost(&[(100, "Initialized")]);
    upgrade.dropped.clear();
    upgrade.generations = vec![spec(1, true), spec(2, false)];
    upgrade.selectors = vec![BTreeSet::from(["c1".to_owned()])];
    let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
    "Initialized".clone_into(&mut row.phase);
    "r1".clone_into(&mut row.revision);
    row.steps = vec![crate::oracle::row::Step {
        name: "Platform".to_owned(),
        started: started.to_owned(),
        ..crate::oracle::row::Step::default()
    }];
    let end = End {
        started: started.to_owned(),
        created: started.to_owned(),
        first: Duration::from_secs(200),
        last: Duration::from_secs(200),
        ..End::default()
    };
    let step = ("c1".to_owned(), Step::Platform, "r1".to_owned());
    upgrade.ends.insert(step, end);
    let mut facts = Facts::default();
    facts.upgrades.insert("u".to_owned(), upgrade);
    let cluster = facts.cluster("c1");
    "elsewhere".clone_into(&mut cluster.name_label);
    cluster.left = Some(Duration::from_secs(250));
    cluster.changed = Duration::from_secs(250);
    facts
}

/// Whether c1 needs nothing more that holds a slot when a start of the edited spec is sent.
fn needs_nothing(change: impl FnOnce(&mut Facts)) -> bool {
    let mut facts = ended_and_left();
    change(&mut facts);
    facts.needs_no_operators(&facts.upgrades["u"], "c1", "r2", SENT)
}

fn back(facts: &mut Facts, at: u64) {
    let cluster = facts.cluster("c1");
    cluster.name_label.clear();
    cluster.changed = Duration::from_secs(at);
}

#[test]
fn a_cluster_that_left_after_its_update_had_ended_holds_no_slot_for_operators_that_an_edit_took_away() {
    assert!(needs_nothing(|_| {}));
    assert!(
        needs_nothing(|facts| back(facts, 299)),
        "nobody has heard of that"
    );
    assert!(needs_nothing(|facts| back(facts, 301)), "it came back later");
    assert!(needs_nothing(|facts| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        let row = upgrade.records.get_mut("c1").unwrap().before.last_mut().unwrap();
        "r2".clone_into(&mut row.revision);
        back(facts, 10);
        facts.cluster("c1").left = None;
    }));
}

#[test]
fn a_cluster_that_has_not_left_or_not_ended_holds_its_slot_until_its_row_is_of_the_edit() {
    assert!(!needs_nothing(|facts| {
        back(facts, 0);
        facts.cluster("c1").left = None;
    }));
    assert!(
        !needs_nothing(|facts| facts.cluster("c1").left = Some(SENT + Duration::from_secs(1))),
        "it left later"
    );
    // Its other labels select it as well, so it has not left.
    assert!(!needs_nothing(|facts| {
        let upgrade = facts.upgrades.get_mut("u").unwrap();
        upgrade.selectors = vec![BTreeSet::from(["elsewhere".to_owned()])];
    }));
    // It had left, and was back long before.
    assert!(!needs_nothing(|facts| {
        facts.cluster("c1").left = Some(Duration::from_secs(200));
        back(facts, 220);
    }));
    assert!(
        !needs_nothing(|facts| facts.upgrades.get_mut("u").unwrap().generations.truncate(1)),
        "its operators are still to come"
    );
    assert!(
        !needs_nothing(|facts| {
            let upgrade = facts.upgrades.get_mut("u").unwrap();
            upgrade.ends.values_mut().for_each(|end| end.first = SENT * 2);
        }),
        "its end was reported later"
    );
}

/// At 100 s the storage of the hub goes back to a time at which c1 and c2 were under way. Since then c1 had given its slot back.
fn gone_back(is_gone: bool) -> Upgrade {
    let mut earlier = Facts::default();
    let upgrade = earlier.upgrades.entry("u".to_owned()).or_default();
    for name in ["c1", "c2"] {
        upgrade.flights.insert(name.to_owned(), LOST);
    }
    let mut facts = earlier.clone();
    let upgrade = facts.upgrades.get_mut("u").unwrap();
    upgrade.release("c1");
    upgrade.is_gone = is_gone;
    facts.now = Duration::from_secs(100);
    facts.rewind(earlier);
    facts.upgrades.remove("u").unwrap()
}

#[test]
fn a_slot_that_was_free_when_the_storage_went_back_is_free_for_whoever_has_not_heard_of_that() {
    let holders = |upgrade: &Upgrade, sent: u64| {
        let holders = upgrade.holders_since(Duration::from_secs(sent));
        holders.map(|names| names.len()).max()
    };
    let upgrade = gone_back(false);
    assert_eq!(holders(&upgrade, 99), Some(1), "it was on its way");
    assert_eq!(holders(&upgrade, 174), Some(1), "a watch may be dead");
    assert_eq!(holders(&upgrade, 175), Some(2));
    let mut upgrade = gone_back(false);
    upgrade.flights.insert("c1".to_owned(), Duration::from_secs(101));
    assert_eq!(holders(&upgrade, 102), Some(2), "it has begun anew");
    assert_eq!(holders(&gone_back(true), 101), Some(2));
}
