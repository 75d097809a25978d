//! A clock that was ahead leaves no long waits behind.

use super::*;

#[test]
fn answers_that_changed_while_the_clock_was_ahead_settle_soon_after_it_is_right_again() {
    let mut world = world(&["c1"]);
    world.answers("c1", status_of_probe(), 4000);
    world.answers("c1", without_offer(), 4001);
    world.answers("c1", status_of_probe(), 4002);
    assert_eq!(world.reason("c1", 100), Some((false, Reason::PreflightPending)));
    world.preflights.clamp_waits(at(100));
    assert_eq!(world.reason("c1", 109), Some((false, Reason::PreflightPending)));
    assert_eq!(world.says("c1", 110), Preflight::Ready);
}

#[test]
fn answers_that_changed_often_while_the_clock_was_ahead_count_soon_after_it_is_right_again() {
    let mut world = world(&["c1"]);
    for second in [4000, 4002] {
        world.answers("c1", status_of_probe(), second);
        world.answers("c1", without_offer(), second + 1);
    }
    world.preflights.clamp_waits(at(100));
    world.answers("c1", status_of_probe(), 100);
    assert_eq!(world.reason("c1", 100), Some((true, Reason::NotOffered)));
    assert_eq!(world.wake(100), Some(at(110)));
    world.refresh(110);
    assert_eq!(world.says("c1", 110), Preflight::Ready);
}

#[test]
fn a_channel_that_was_set_while_the_clock_was_ahead_counts_soon_after_it_is_right_again() {
    let mut world = world(&["c1"]);
    let mut asked = (*question()).clone();
    asked.counts_after = TimeDelta::seconds(120);
    world.questions.preflight = Some(Arc::new(asked));
    world.answers("c1", status_of_probe(), 4000);
    world.preflights.clamp_waits(at(100));
    assert_eq!(world.wake(100), Some(at(220)));
    assert_eq!(world.says("c1", 220), Preflight::Ready);
}

#[test]
fn a_write_that_failed_while_the_clock_was_ahead_is_repeated_within_minutes() {
    let mut world = world(&["c1"]);
    assert_eq!(world.due(4000), ["create c1"]);
    world.ended("c1", ProbeResult::Failed("409".to_owned()), 4000);
    world.preflights.clamp_waits(at(100));
    assert_eq!(world.due(399), Vec::<String>::new());
    assert_eq!(world.due(400), ["create c1"]);
}
