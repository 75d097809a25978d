//! Results that do not show whether a creation took effect.

mod properties;

use super::*;

/// True while it is unknown whether the creation took effect.
fn is_unsettled(context: &Context) -> bool {
    unsettled_steps(context).0.is_some()
}

/// True while the work exists, but an earlier try may still take effect.
fn is_late(context: &Context) -> bool {
    unsettled_steps(context).1.is_some()
}

fn unsettled_steps(context: &Context) -> (Option<Step>, Option<Step>) {
    context.with(|state| state.upgrades["u1"].unsettled_steps("c1", &state.index))
}

/// Advances the time until writes that were given up can no longer take effect.
fn outlast(context: &Context) {
    elapse(context, 121);
}

fn elapse(context: &Context, seconds: u64) {
    let time = Duration::from_secs(seconds);
    with_entry(context, |entry| {
        for unsettled in entry.unsettled.get_mut(&cluster()).unwrap() {
            unsettled.given_up = unsettled.given_up.map(|at| at.checked_sub(time).unwrap());
        }
    });
}

/// It may reach the hub as late as one for which a writer has waited 30 s.
#[test]
fn a_creation_that_the_end_of_a_term_cut_short_stays_in_doubt_for_two_minutes() {
    for later_try in [None, Some(failed(WriteErrorKind::Broken))] {
        let context = writing();
        tried(&context, &WriteResult::GivenUp);
        if let Some(outcome) = &later_try {
            tried(&context, outcome);
        }
        elapse(&context, 110);
        read(&context, None, &WriteResult::Gone);
        assert!(is_unsettled(&context), "{later_try:?}");
        elapse(&context, 11);
        read(&context, None, &WriteResult::Gone);
        assert!(!is_unsettled(&context), "{later_try:?}");
    }
}

#[test]
fn a_creation_that_may_have_been_carried_out_is_not_settled_by_a_later_no() {
    for unknown in [
        failed(WriteErrorKind::Timeout),
        failed(WriteErrorKind::Unavailable),
        failed(WriteErrorKind::Broken),
        WriteResult::GivenUp,
    ] {
        let context = writing();
        tried(&context, &unknown);
        assert!(is_unsettled(&context), "{unknown:?}");
        for no in [
            failed(WriteErrorKind::Forbidden),
            failed(WriteErrorKind::Overloaded),
            WriteResult::NotLeading,
            WriteResult::Refused("bad".to_owned()),
        ] {
            tried(&context, &no);
            assert!(is_unsettled(&context), "{unknown:?} then {no:?}");
        }
        context.with(|state| {
            state.end_term();
            state.begin_term();
        });
        assert!(is_unsettled(&context), "a new term knows no better");
        outlast(&context);
        tried(&context, &failed(WriteErrorKind::Forbidden));
        assert!(!is_unsettled(&context));
    }
}

#[test]
fn a_creation_that_was_put_off_is_settled_by_the_first_definite_answer() {
    for put_off in [WriteErrorKind::Overloaded, WriteErrorKind::Unreachable] {
        let context = writing();
        tried(&context, &failed(put_off));
        assert!(is_unsettled(&context), "it is tried again first");
        tried(&context, &failed(WriteErrorKind::Forbidden));
        assert!(!is_unsettled(&context));
    }
    let context = writing();
    tried(&context, &failed(WriteErrorKind::Timeout));
    tried(
        &context,
        &WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5))),
    );
    assert!(!is_unsettled(&context));
    tried(&context, &WriteResult::NotLeading);
    assert!(!is_unsettled(&context), "it was never sent");
}

#[test]
fn a_try_that_was_carried_out_does_not_rule_out_the_one_before_it() {
    let done = || WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    let settle = |context: &Context| {
        let now = clock::now();
        context.with(|state| state.upgrades.get_mut("u1").unwrap().settle(&state.index, now))
    };
    let context = writing();
    tried(&context, &failed(WriteErrorKind::Timeout));
    tried(&context, &done());
    assert!(!is_unsettled(&context) && is_late(&context));
    assert!(!settle(&context));
    context.with(|state| {
        let (uid, now) = ("c1-cluster-upgrade-u1", context.now());
        state.index.remove_work("c1", Step::Platform, uid, now);
    });
    assert!(is_unsettled(&context), "the first try may bring the work back");
    tried(&context, &done());
    with_entry(&context, |entry| {
        assert!(entry.due_at(at(0), clock::now()).is_some());
    });
    outlast(&context);
    assert!(settle(&context), "nothing else can come about any more");
    assert!(!is_unsettled(&context) && !is_late(&context));
    assert!(!settle(&context));
}

/// A deadline would count by it although the work was read long before.
#[test]
fn a_reading_from_before_the_clock_was_set_back_does_not_count() {
    let context = writing();
    read(&context, None, &WriteResult::Gone);
    let now = context.now();
    with_entry(&context, |entry| {
        entry.clamp_waits(now);
        assert!(entry.reading("c1", now).is_some());
        let set_back = now - TimeDelta::hours(1);
        entry.clamp_waits(set_back);
        assert_eq!(entry.reading("c1", set_back), None);
    });
}

#[test]
fn every_step_has_a_doubt_of_its_own() {
    let context = writing();
    let of = |step| match create(&context) {
        Write::Create {
            cluster,
            params,
            slot_released_at,
            ..
        } => Write::Create {
            cluster,
            step,
            params,
            slot_released_at,
        },
        other => other,
    };
    for step in [Step::Operators, Step::Platform] {
        with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
        answered(&context, of(step), &failed(WriteErrorKind::Timeout));
    }
    assert_eq!(
        unsettled_steps(&context),
        (Some(Step::Platform), Some(Step::Operators))
    );
    outlast(&context);
    read(&context, None, &WriteResult::Gone);
    assert_eq!(unsettled_steps(&context), (Some(Step::Operators), None));
}

#[test]
fn reading_settles_what_it_finds_at_once_and_what_it_does_not_find_after_a_while() {
    let context = writing();
    tried(&context, &failed(WriteErrorKind::Timeout));
    read(&context, None, &WriteResult::Gone);
    assert!(is_unsettled(&context), "it may still take effect");
    with_entry(&context, |entry| assert!(entry.backoff.contains_key(&cluster())));
    read(&context, None, &failed(WriteErrorKind::Timeout));
    assert!(is_unsettled(&context));
    outlast(&context);
    read(&context, None, &WriteResult::Gone);
    assert!(!is_unsettled(&context));
    with_entry(&context, |entry| assert!(entry.backoff.is_empty()));

    tried(&context, &failed(WriteErrorKind::Timeout));
    read(
        &context,
        None,
        &WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5))),
    );
    assert!(!is_unsettled(&context) && is_indexed(&context));
}
