//! Clusters that somebody else asks.

use super::*;

#[test]
fn a_probe_that_an_earlier_upgrade_of_the_same_name_has_left_is_removed() {
    let mut world = world(&["c1", "c2"]);
    world.deliver("c1", ("u0", UPGRADE.1), "h1", Some(status_of_probe()));
    world.deliver("c2", ("u2", "ns/u2"), "h1", None);
    assert_eq!(world.due(0), ["delete c1 c1-probe-u0"]);
    assert!(world.due(1).is_empty(), "it is being deleted");
    world.index.remove_probe("c1", "c1-probe-u0");
    world.ended("c1", ProbeResult::Done, 2);
    assert_eq!(world.due(2), ["create c1"]);
}

#[test]
fn who_waits_for_another_upgrade_is_known_until_its_probe_is_gone() {
    let mut world = world(&["c1"]);
    world.deliver("c1", ("u2", "ns/u2"), "h1", None);
    assert!(world.due(0).is_empty());
    assert!(world.preflights.waits_for_another());
    world.index.remove_probe("c1", "c1-probe-u2");
    assert_eq!(world.due(1), ["create c1"]);
    assert!(!world.preflights.waits_for_another());
}
