//! Answers that leave it open whether a creation was carried out.

use super::*;

/// True while it is not known whether the creation was carried out.
fn is_unsettled(hall: &Hall) -> bool {
    doubts(hall).0.is_some()
}

/// True while the work is there, but an earlier try may be carried out yet.
fn is_late(hall: &Hall) -> bool {
    doubts(hall).1.is_some()
}

fn doubts(hall: &Hall) -> (Option<Step>, Option<Step>) {
    hall.with(|state| state.desks["u1"].doubts("c1", &state.index))
}

/// Lets the time pass after which what was given up on does not come any more.
fn outlast(hall: &Hall) {
    with_desk(hall, |desk| {
        for unsettled in desk.unsettled.get_mut(&cluster()).unwrap() {
            unsettled.given_up = unsettled.given_up.map(|at| at - TimeDelta::seconds(91));
        }
    });
}

#[test]
fn a_creation_that_may_have_been_carried_out_is_not_settled_by_a_later_no() {
    for doubtful in [
        failed(WriteOutcome::Timeout),
        failed(WriteOutcome::Unavailable),
        failed(WriteOutcome::Error),
        Outcome::GivenUp,
    ] {
        let hall = writing();
        tried(&hall, &doubtful);
        assert!(is_unsettled(&hall), "{doubtful:?}");
        for no in [
            failed(WriteOutcome::Forbidden),
            failed(WriteOutcome::Overloaded),
            Outcome::NotLeading,
            Outcome::Refused("bad".to_owned()),
        ] {
            tried(&hall, &no);
            assert!(is_unsettled(&hall), "{doubtful:?} then {no:?}");
        }
        hall.with(|state| {
            state.end_term();
            state.begin_term();
        });
        assert!(is_unsettled(&hall), "a new term knows no better");
        outlast(&hall);
        tried(&hall, &failed(WriteOutcome::Forbidden));
        assert!(!is_unsettled(&hall));
    }
}

#[test]
fn a_creation_that_was_put_off_is_settled_by_the_first_definite_answer() {
    for put_off in [WriteOutcome::Overloaded, WriteOutcome::Unreachable] {
        let hall = writing();
        tried(&hall, &failed(put_off));
        assert!(is_unsettled(&hall), "it is tried again first");
        tried(&hall, &failed(WriteOutcome::Forbidden));
        assert!(!is_unsettled(&hall));
    }
    let hall = writing();
    tried(&hall, &failed(WriteOutcome::Timeout));
    tried(
        &hall,
        &Outcome::Work(Box::new(work("c1", Step::Platform, "u1", 5))),
    );
    assert!(!is_unsettled(&hall));
    tried(&hall, &Outcome::NotLeading);
    assert!(!is_unsettled(&hall), "it was never sent");
}

#[test]
fn a_try_that_was_carried_out_does_not_rule_out_the_one_before_it() {
    let done = || Outcome::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    let settle = |hall: &Hall| {
        let now = hall.now();
        hall.with(|state| state.desks.get_mut("u1").unwrap().settle(&state.index, now))
    };
    let hall = writing();
    tried(&hall, &failed(WriteOutcome::Timeout));
    tried(&hall, &done());
    assert!(!is_unsettled(&hall) && is_late(&hall));
    assert!(!settle(&hall));
    hall.with(|state| state.index.forget("c1", Step::Platform, "c1-cluster-upgrade-u1"));
    assert!(is_unsettled(&hall), "the first try may bring the work back");
    tried(&hall, &done());
    with_desk(&hall, |desk| {
        assert!(desk.due_at(rollout::testing::at(0)).is_some());
    });
    outlast(&hall);
    assert!(settle(&hall), "nothing else can come about any more");
    assert!(!is_unsettled(&hall) && !is_late(&hall));
    assert!(!settle(&hall));
}

#[test]
fn every_step_has_a_doubt_of_its_own() {
    let hall = writing();
    let of = |step| match create(&hall) {
        Effect::Create {
            cluster,
            sheet,
            freed,
            ..
        } => Effect::Create {
            cluster,
            step,
            sheet,
            freed,
        },
        other => other,
    };
    for step in [Step::Operators, Step::Platform] {
        with_desk(&hall, |desk| desk.begin(&cluster(), true));
        answered(&hall, of(step), &failed(WriteOutcome::Timeout));
    }
    assert_eq!(doubts(&hall), (Some(Step::Platform), Some(Step::Operators)));
    outlast(&hall);
    read(&hall, None, &Outcome::Gone);
    assert_eq!(doubts(&hall), (Some(Step::Operators), None));
}

#[test]
fn reading_settles_what_it_finds_at_once_and_what_it_does_not_find_after_a_while() {
    let hall = writing();
    tried(&hall, &failed(WriteOutcome::Timeout));
    read(&hall, None, &Outcome::Gone);
    assert!(is_unsettled(&hall), "it may come yet");
    with_desk(&hall, |desk| assert!(desk.backoff.contains_key(&cluster())));
    read(&hall, None, &failed(WriteOutcome::Timeout));
    assert!(is_unsettled(&hall));
    outlast(&hall);
    read(&hall, None, &Outcome::Gone);
    assert!(!is_unsettled(&hall));
    with_desk(&hall, |desk| assert!(desk.backoff.is_empty()));

    tried(&hall, &failed(WriteOutcome::Timeout));
    read(
        &hall,
        None,
        &Outcome::Work(Box::new(work("c1", Step::Platform, "u1", 5))),
    );
    assert!(!is_unsettled(&hall) && is_indexed(&hall));
}
