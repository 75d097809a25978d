use super::*;

fn gate() -> OverloadGate {
    let mut gate = OverloadGate::default();
    gate.set_writers(8);
    gate
}

/// The wait after another overload.
fn overloaded(gate: &mut OverloadGate, now: Instant, asked: Option<u64>) -> Duration {
    gate.begin();
    gate.end(now, now, Load::Overloaded(asked.map(Duration::from_secs)));
    match gate.state(now) {
        GateState::ClosedUntil(until) => until - now,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_hub_is_given_the_time_it_asks_for_and_else_ever_more() {
    let (mut gate, mut now) = (gate(), Instant::now());
    assert_eq!(gate.state(now), GateState::Open);
    assert_eq!(overloaded(&mut gate, now, Some(7)), Duration::from_secs(7));
    now += Duration::from_secs(7);
    assert_eq!(gate.state(now), GateState::Open);
    for seconds in [2, 4, 8, 16, 30, 30] {
        let wait = overloaded(&mut gate, now, None);
        let least = Duration::from_secs(seconds);
        assert!(wait >= least && wait <= least + least / 4, "{wait:?}");
        now += wait;
    }
    gate.begin();
    gate.end(now, now, Load::Served);
    assert!(
        overloaded(&mut gate, now, None) < Duration::from_secs(2),
        "a success ends it"
    );
    now += Duration::from_secs(2);
    assert_eq!(overloaded(&mut gate, now, Some(100_000)), MAX_PAUSE);
}

#[test]
fn answers_to_what_was_sent_before_tell_of_the_same_overload() {
    let (mut gate, begun) = (gate(), Instant::now());
    for _ in 0..8 {
        gate.begin();
    }
    assert_eq!(gate.state(begun), GateState::Full);
    let answered = begun + Duration::from_millis(50);
    let paused = (0..8)
        .filter(|_| gate.end(begun, answered, Load::Overloaded(None)))
        .count();
    assert_eq!(paused, 1);
    assert_eq!(gate.limit(), 1);
    let later = answered + Duration::from_millis(1300);
    assert_eq!(gate.state(later), GateState::Open, "one pause, not eight");
}

#[test]
fn every_success_lets_one_more_request_be_under_way() {
    let (mut gate, mut now) = (gate(), Instant::now());
    for _ in 0..3 {
        now += overloaded(&mut gate, now, Some(1));
    }
    assert_eq!(gate.limit(), 1);
    for limit in [2, 3, 4, 5, 6, 7, 8, 8] {
        assert!(gate.is_narrowed() || limit == 8);
        gate.begin();
        gate.end(now, now, Load::Served);
        assert_eq!(gate.limit(), limit);
    }
    gate.begin();
    gate.end(now, now, Load::Unknown);
    assert_eq!((gate.limit(), gate.state(now)), (8, GateState::Open));
}
