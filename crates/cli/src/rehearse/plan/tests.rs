use chrono::TimeDelta;
use rollout::Reason;
use rollout::forecast::Run;
use rollout::testing::{at, fleet, policy};

use super::*;

fn played(seconds: i64, minutes: i64, blocked: Reason) -> (Policy, Fleet, Forecast) {
    let policy = policy().max_concurrency(1).build();
    let fleet = fleet()
        .cluster("a")
        .cluster("b")
        .cluster("c")
        .blocked(blocked)
        .build();
    let run = |_: &str, _: Step| Run {
        takes: Some(TimeDelta::minutes(minutes)),
        fails: false,
    };
    let options = Options::for_fleet(3);
    let played = forecast(at(seconds), &policy, fleet.clone(), options, &run).unwrap();
    (policy, fleet, played)
}

#[test]
fn the_hash_changes_with_what_would_be_done_and_not_with_the_time() {
    let of = |(policy, fleet, played): (Policy, Fleet, Forecast)| hash(&policy, &fleet, &played);
    let first = of(played(0, 60, Reason::NotOpenShift));
    assert_eq!(first.len(), 16);
    assert_eq!(first, of(played(7_000, 45, Reason::NotOpenShift)));
    assert_ne!(first, of(played(0, 60, Reason::RiskNotAccepted)));
    let (mut policy, fleet, played) = played(0, 60, Reason::NotOpenShift);
    policy.revision = "r2".into();
    assert_ne!(first, hash(&policy, &fleet, &played));
}
