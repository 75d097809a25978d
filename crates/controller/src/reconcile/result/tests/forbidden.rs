//! Results that show that only a human can permit what the hub forbids.

use chrono::TimeDelta;

use super::*;

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
