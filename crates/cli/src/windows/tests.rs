use std::sync::Arc;

use chrono::TimeDelta;
use rollout::maintenance::Window;
use rollout::testing::{at, fleet};

use super::*;

fn nights(zone: &str) -> Calendar {
    let window = Window {
        name: Arc::from("nights"),
        schedule: "0 22 * * *".parse().unwrap(),
        duration: TimeDelta::hours(6),
    };
    let zone = Zone::named(zone).unwrap();
    Calendar::new(zone, vec![Arc::new(window)], &[], TimeDelta::hours(2))
}

#[test]
fn clusters_are_grouped_by_their_calendar() {
    let mut fleet = fleet()
        .cluster("a")
        .calendar(nights("Europe/Berlin"))
        .cluster("b")
        .calendar(nights("Asia/Tokyo"))
        .cluster("c")
        .cluster("d")
        .blocked(Reason::InvalidTimeZone)
        .cluster("e")
        .build();
    fleet.clusters[4].calendar = Some(0);
    // At midnight UTC it is 2 in Berlin, and an hour too late to start; in Tokyo it is 9.
    let found = groups(&fleet, at(0), None, 2);
    let shown: Vec<(&str, usize, &str, bool, &str)> = found
        .iter()
        .map(|group| {
            (
                &*group.time_zone,
                group.clusters,
                &*group.example,
                group.open,
                &*group.reason,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("", 1, "c", true, ""),
            ("", 1, "d", false, "InvalidTimeZone"),
            ("Europe/Berlin", 2, "a", false, ""),
            ("Asia/Tokyo", 1, "b", false, ""),
        ]
    );
    let next: Vec<&str> = found[2].spans.iter().map(|span| &*span.local).collect();
    assert_eq!(
        next,
        [
            "2024-10-04 22:00 +02:00 to 2024-10-05 02:00 +02:00",
            "2024-10-05 22:00 +02:00 to 2024-10-06 02:00 +02:00",
        ]
    );
    assert_eq!(found[2].spans[0].start, "2024-10-04T20:00:00Z");
    // The window of six hours closes at 4.
    assert_eq!(
        (&*found[2].minimum_remaining, &*found[0].minimum_remaining),
        ("2h", "")
    );
    assert_eq!(groups(&fleet, at(0), Some("b"), 1).len(), 1);
    assert_eq!(groups(&fleet, at(0), Some("z"), 1), Vec::new());
}

#[test]
fn a_window_that_never_closes_is_told_once() {
    let window = Window {
        name: Arc::from("always"),
        schedule: "0 0 * * *".parse().unwrap(),
        duration: TimeDelta::hours(24),
    };
    let always = Calendar::new(Zone::UTC, vec![Arc::new(window)], &[], TimeDelta::zero());
    let fleet = fleet().cluster("a").calendar(always).build();
    let found = groups(&fleet, at(30), None, 5);
    assert!(found[0].open);
    assert_eq!(found[0].spans.len(), 1);
    assert_eq!(found[0].spans[0].local, "2024-10-04 00:00 +00:00 to open end");
    assert_eq!(found[0].minimum_remaining, "");
}
