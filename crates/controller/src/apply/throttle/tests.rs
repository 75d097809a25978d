use super::*;

const STEP: Duration = Duration::from_millis(1);

/// Number of `jobs` deletions that go out within `span`. `starting`: three clusters start in each
/// `QUIET_AFTER`.
fn deleted(jobs: usize, span: Duration, starting: bool) -> usize {
    let begun = Instant::now();
    let (mut throttle, mut now, mut left) = (CleanupThrottle::default(), begun, jobs);
    let mut started = begun;
    throttle.start(begun);
    while now < begun + span && left > 0 {
        if starting && now >= started + QUIET_AFTER / 3 {
            started = now;
            throttle.start(now);
        }
        if throttle.due(now) <= now {
            left -= 1;
            throttle.record_deletion(now, left);
        } else {
            now += STEP;
        }
    }
    jobs - left
}

#[test]
fn a_few_deletions_wait_for_nothing() {
    assert_eq!(deleted(30, STEP, true), 30);
    assert!((32..=34).contains(&deleted(100, STEP, true)));
    assert!((32..=34).contains(&deleted(10_000, STEP, true)));
}

#[test]
fn beside_starts_many_deletions_are_spread_and_not_put_off_for_ever() {
    let begun = deleted(1_000, Duration::from_secs(1), true);
    assert!((60..=120).contains(&begun), "{begun} of 1000 in the first second");
    let later = deleted(1_000, Duration::from_secs(3), true) - begun;
    assert!((50..=90).contains(&later), "{later} in the two seconds after");
    assert_eq!(deleted(1_000, Duration::from_secs(80), true), 1_000);
}

#[test]
fn what_went_out_on_a_calm_hub_holds_nothing_up_later() {
    let (mut throttle, mut now) = (CleanupThrottle::default(), Instant::now());
    throttle.start(now);
    now += QUIET_AFTER;
    for left in (0..1_000).rev() {
        assert!(throttle.due(now) <= now);
        throttle.record_deletion(now, left);
    }
    throttle.start(now);
    assert!(throttle.due(now) <= now + MAX_PAUSE);
}

#[test]
fn on_a_calm_hub_nothing_is_spread() {
    assert_eq!(deleted(1_000, QUIET_AFTER + STEP * 2, false), 1_000);
}
