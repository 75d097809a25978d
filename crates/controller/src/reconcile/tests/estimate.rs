use api::estimate::UpgradeEstimate;
use chrono::DateTime;

use super::*;

/// The estimate of the status, and when it was made.
fn seen(hub: &TestHub) -> (Option<UpgradeEstimate>, Option<DateTime<Utc>>) {
    hub.context.with(|state| {
        let entry = &state.upgrades["u1"];
        let estimate = entry.status.previous().estimate;
        (estimate, entry.estimated.as_ref().map(|(at, _)| *at))
    })
}

#[tokio::test]
async fn the_end_is_estimated_in_the_first_pass_and_not_in_every_pass() {
    let mut hub = hub(&["c1", "c2"]);
    hub.add_upgrade(&upgrade("u1", &["c1", "c2"]));
    hub.settle();
    let (estimate, made) = seen(&hub);
    assert_eq!(
        estimate.as_ref().map(|estimate| estimate.basis.as_str()),
        Some("Usual")
    );
    assert!(made.is_some());
    hub.pass("u1");
    assert_eq!(seen(&hub), (estimate.clone(), made));
    hub.context.with(|state| {
        let entry = state.upgrades.get_mut("u1").unwrap();
        let (at, _) = entry.estimated.as_mut().unwrap();
        *at -= crate::report::estimate::INTERVAL;
    });
    hub.pass("u1");
    assert!(seen(&hub).1 >= made);
}

#[tokio::test]
async fn a_paused_upgrade_has_no_end_and_gets_one_when_it_is_resumed() {
    let mut hub = hub(&["c1"]);
    let given = |paused: bool, version| {
        let mut given = Given {
            version,
            ..upgrade("u1", &["c1"])
        };
        given.spec["paused"] = json!(paused);
        given
    };
    hub.add_upgrade(&given(true, 1));
    hub.settle();
    assert_eq!(seen(&hub), (None, None));
    hub.context
        .with(|state| state.apply_upgrade(given(false, 1_000).view()));
    hub.version = 1_000;
    hub.settle();
    assert!(seen(&hub).0.is_some());
    hub.context
        .with(|state| state.apply_upgrade(given(true, 2_000).view()));
    hub.version = 2_000;
    hub.settle();
    assert_eq!(seen(&hub), (None, None));
}
