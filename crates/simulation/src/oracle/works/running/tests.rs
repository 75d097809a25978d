use super::*;
use crate::actor::Sender;
use crate::oracle::generation::Generation;

fn work(step: Step) -> Work {
    Work {
        uid: "u".to_owned(),
        cluster: "c1".to_owned(),
        name: step.work_name("c1"),
        step: Some(step),
        ..Work::default()
    }
}

#[test]
fn a_pre_action_that_comes_after_the_end_of_the_update_holds_a_slot_until_its_own_end() {
    let is_under_way = |sent: u64, has_ended: bool| {
        let mut facts = Facts {
            now: Duration::from_secs(10),
            ..Facts::default()
        };
        facts.cluster("c1").is_there = true;
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        upgrade.generations = vec![Generation {
            max_concurrency: 1,
            ..Generation::default()
        }];
        facts.done(&work(Step::Platform));
        facts.now = Duration::from_secs(20);
        facts.sender = Some(Sender {
            role: Role::Controller,
            identity: "r1".into(),
            at: Duration::from_secs(sent),
        });
        facts.start(&work(Step::PreAction));
        if has_ended {
            facts.done(&work(Step::PreAction));
        }
        facts.upgrades["u"].flights.contains_key("c1")
    };
    assert!(is_under_way(5, false));
    assert!(!is_under_way(5, true));
    assert!(is_under_way(15, true), "it begins the attempt anew");
}

/// The cluster has left, and is selected again since the time `back`. Its work was created then, and removed when its creator heard that it
/// had left.
#[test]
fn a_pre_action_may_be_created_again_if_nobody_had_heard_yet_that_its_cluster_was_not_selected_for_a_moment()
{
    let is_excused = |step: Step, (left, back): (u64, u64), first: u64| {
        let mut facts = Facts::default();
        let cluster = facts.cluster("c1");
        cluster.is_there = true;
        cluster.left = Some(Duration::from_secs(left));
        cluster.changed = Duration::from_secs(back);
        let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
        upgrade.selected.insert("c1".to_owned());
        let send = |facts: &mut Facts, at: u64| {
            facts.now = Duration::from_secs(at);
            facts.sender = Some(Sender {
                role: Role::Controller,
                identity: "r1".into(),
                at: facts.now,
            });
            facts.created(&work(step));
        };
        send(&mut facts, first);
        let removed = Duration::from_secs(first + 5);
        let created = facts.created.get_mut(&work(step).key()).unwrap();
        created.deleted = Some((removed, Some(Role::Controller)));
        send(&mut facts, first + 10);
        facts.violations.is_empty()
    };
    assert!(is_excused(Step::PreAction, (5, 10), 20));
    assert!(
        !is_excused(Step::PreAction, (5, 10), 85),
        "that was heard of by then"
    );
    assert!(
        !is_excused(Step::PreAction, (5, 100), 110),
        "that it had left, too"
    );
    assert!(!is_excused(Step::PreAction, (10, 10), 20), "it is not back");
    assert!(!is_excused(Step::Platform, (5, 10), 20), "it would go on");
}

#[test]
fn operators_of_the_attempt_whose_update_has_ended_follow_it_until_they_have_ended() {
    let end = |seconds: u64| crate::oracle::facts::End {
        first: Duration::from_secs(seconds),
        ..crate::oracle::facts::End::default()
    };
    let attempt = |step: Step| ("c1".to_owned(), step, "r1".to_owned());
    let work = |step: Step, revision: &str, retry: &str| Work {
        step: Some(step),
        cluster: "c1".to_owned(),
        revision: revision.to_owned(),
        retry: retry.to_owned(),
        ..Work::default()
    };
    let mut upgrade = Upgrade::default();
    upgrade.ends.insert(attempt(Step::Platform), end(10));
    let ended = Duration::from_secs(10);
    let operators = work(Step::Operators, "r1", "");
    assert!(upgrade.follows_update(&operators, ended));
    assert!(!upgrade.follows_update(&operators, Duration::from_secs(9)));
    assert!(!upgrade.follows_update(&work(Step::Platform, "r1", ""), ended));
    assert!(!upgrade.follows_update(&work(Step::Operators, "r2", ""), ended));
    assert!(!upgrade.follows_update(&work(Step::Operators, "r1", "again"), ended));
    upgrade.ends.insert(attempt(Step::Operators), end(20));
    assert!(!upgrade.follows_update(&operators, ended));
}
