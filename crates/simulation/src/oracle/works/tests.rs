use super::*;

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
        taken_back: None,
    };
    let mut facts = Facts::default();
    let upgrade = facts.upgrades.entry("u".to_owned()).or_default();
    upgrade.records.insert("c1".to_owned(), record);
    upgrade.flights.insert("c1".to_owned(), Duration::ZERO);
    facts.works.insert("w".to_owned(), running);
    facts
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
