//! Requests that are taken out of platform works.

use super::*;

#[test]
fn a_work_that_is_gone_when_its_request_is_withdrawn_is_not_asked_for_again() {
    let context = writing();
    context.with(|state| {
        let here = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(here), context.now());
    });
    let spec = with_entry(&context, |entry| Arc::clone(entry.spec.as_ref().unwrap()));
    let write = Write::Withdraw {
        cluster: cluster(),
        uid: Arc::from("c1-cluster-upgrade-u1"),
        version: 5,
        spec,
        violations: None,
    };
    answered(&context, write, &WriteResult::Gone);
    assert!(!is_indexed(&context));
}
