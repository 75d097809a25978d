//! A clock that was ahead leaves no long waits behind, and no timeout ends by one that is not trusted.

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

#[test]
fn nothing_is_unknown_for_too_long_by_a_clock_that_is_not_trusted() {
    let mut world = world(&["c1", "c2"]);
    let mut asked = probe("c1", UPGRADE, "h1", 2);
    asked.metadata.creation_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(asked), at(0));
    world.deliver("c2", ("u2", "ns/u2"), "h1", None);
    world.asker.clock_trusted = false;
    assert!(world.due(3600).is_empty());
    let reasons = |world: &World, second| ["c1", "c2"].map(|name| world.reason(name, second));
    let (asked, blocked) = (
        Some((false, Reason::PreflightPending)),
        Some((true, Reason::PreflightUnknown)),
    );
    assert_eq!(reasons(&world, 3600), [asked, asked]);
    assert_eq!(reasons(&world, 7200), [asked, asked]);
    world.asker.clock_trusted = true;
    world.preflights.clamp_waits(at(1));
    assert!(world.due(1).is_empty());
    assert_eq!(reasons(&world, 599), [asked, asked]);
    world.refresh(601);
    assert_eq!(reasons(&world, 601), [blocked, blocked]);
    world.asker.clock_trusted = false;
    world.refresh(4201);
    assert_eq!(reasons(&world, 4201), [blocked, blocked], "that had ended before");
}

#[test]
fn what_a_hub_has_dated_back_is_not_unknown_for_too_long_when_its_clock_is_right_again() {
    let mut world = world(&["c1"]);
    let mut asked = probe("c1", UPGRADE, "h1", 2);
    asked.metadata.creation_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(asked), at(0));
    world.refresh(3590);
    world.preflights.verdicts.clear();
    world.asker.clock_trusted = false;
    world.refresh(3600);
    assert_eq!(world.reason("c1", 3600), Some((false, Reason::PreflightPending)));
    world.asker.clock_trusted = true;
    world.refresh(3700);
    assert_eq!(world.reason("c1", 4199), Some((false, Reason::PreflightPending)));
    assert_eq!(world.reason("c1", 4200), Some((true, Reason::PreflightUnknown)));
}
