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
