//! Results that show that only a human can permit what the hub forbids.

use chrono::TimeDelta;

use super::*;
use crate::fixture::stored;

/// Otherwise an upgrade that waits for the cluster would say that it goes on until something else happens.
#[test]
fn upgrades_that_wait_for_a_cluster_are_woken_when_the_writes_of_its_owner_stay_forbidden() {
    let context = writing();
    let sleep = || {
        context.with(|state| {
            let waiting = state.upgrades.get_mut("u2").unwrap();
            waiting.has_conflicts = true;
            waiting.dirty = false;
        });
    };
    let is_woken = || context.with(|state| state.upgrades["u2"].dirty);
    let forbidden = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "may not"));
    context.with(|state| state.apply_upgrade(upgrade("u2", &["c1"]).view()));
    sleep();
    answered(&context, create(&context), &forbidden);
    assert!(!is_woken(), "a human may have nothing to do");
    with_entry(&context, |entry| {
        let backoff = entry.backoff.get_mut(&cluster()).unwrap();
        let known = backoff.start_forbidden.as_mut().unwrap();
        known.first -= TimeDelta::minutes(1);
        known.last -= TimeDelta::minutes(1);
        entry.begin(&cluster(), Some(&first_attempt()));
    });
    answered(&context, create(&context), &forbidden);
    assert!(is_woken());
    sleep();
    with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
    answered(&context, create(&context), &forbidden);
    assert!(!is_woken(), "nothing has changed");
    with_entry(&context, |entry| entry.begin(&cluster(), Some(&first_attempt())));
    let made = WriteResult::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    answered(&context, create(&context), &made);
    assert!(is_woken(), "it goes on");
}

/// Another leader may have gone on with the cluster since. An upgrade that waits for it would be told to wait for a human.
#[test]
fn what_was_forbidden_in_an_earlier_term_is_not_known_to_stay_forbidden() {
    for is_in_doubt in [false, true] {
        let context = writing();
        if is_in_doubt {
            tried(&context, &WriteResult::GivenUp);
        }
        let forbidden = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "may not"));
        tried(&context, &forbidden);
        with_entry(&context, |entry| {
            let known = entry.backoff.get_mut(&cluster()).unwrap();
            known.start_forbidden.as_mut().unwrap().first -= TimeDelta::minutes(1);
            assert!(known.is_lasting());
            entry.begin_term();
            let known = entry.backoff.get(&cluster());
            assert_eq!(known.is_some(), is_in_doubt, "the cluster is still to be read");
            assert!(known.is_none_or(|known| !known.is_lasting()));
        });
    }
}

/// The next write of the first report, however long that must wait.
fn next_report(context: &Context) -> Write {
    let later = Instant::now() + Duration::from_mins(10);
    let due = with_entry(context, |entry| entry.rows.due(later).remove(0));
    Write::Report {
        namespace: Arc::from("ns"),
        due: Box::new(due),
        body: None,
    }
}

fn is_refusal_told(context: &Context) -> bool {
    with_entry(context, |entry| entry.rows.refusal().is_some())
}

/// Otherwise the upgrade would say that it is complete although nothing of it is stored, and failed clusters would hold their slots
/// without a reason that anybody sees.
#[test]
fn a_report_that_the_hub_keeps_forbidding_is_told() {
    let context = writing();
    with_entry(&context, |entry| note(entry, "c1", record(Phase::Complete)));
    let write = || next_report(&context);
    let is_told = || is_refusal_told(&context);
    let forbidden = WriteResult::Failed(WriteError::new(WriteErrorKind::Forbidden, "exceeded quota"));
    for number in 1..=6 {
        answered(&context, write(), &forbidden);
        assert_eq!(is_told(), number == 6, "after {number} failures");
    }
    answered(&context, write(), &WriteResult::Report(stored(7)));
    assert!(!is_told());
}

/// When an outage ends, an API server may forbid everything for a moment. Pipelines would give up if the upgrade were stalled then.
#[test]
fn a_report_that_is_forbidden_once_after_other_failures_is_not_told() {
    let context = writing();
    with_entry(&context, |entry| note(entry, "c1", record(Phase::Complete)));
    let write = || next_report(&context);
    let is_told = || is_refusal_told(&context);
    let failed = |kind| WriteResult::Failed(WriteError::new(kind, "no"));
    for _ in 0..9 {
        answered(&context, write(), &failed(WriteErrorKind::Unavailable));
    }
    answered(&context, write(), &failed(WriteErrorKind::Forbidden));
    assert!(!is_told(), "once");
    for _ in 0..4 {
        answered(&context, write(), &failed(WriteErrorKind::Forbidden));
    }
    assert!(!is_told(), "five times");
    answered(&context, write(), &failed(WriteErrorKind::Forbidden));
    assert!(is_told());
}
