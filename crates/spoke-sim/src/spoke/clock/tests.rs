use chrono::TimeDelta;
use proptest::prelude::*;
use serde_json::json;

use super::Clock;
use crate::fields::{from_unix, timestamp};

#[test]
fn simulated_time_runs_faster_from_the_origin_on() {
    let origin = from_unix(1_000_000);
    let clock = Clock::new(origin, 60.0);
    assert_eq!(clock.simulated(origin), origin);
    assert_eq!(
        clock.simulated(origin + TimeDelta::seconds(1)),
        origin + TimeDelta::minutes(1)
    );
    assert_eq!(
        clock.wall(origin + TimeDelta::minutes(40)),
        origin + TimeDelta::seconds(40)
    );
    assert_eq!(clock.short(TimeDelta::minutes(30)).as_secs(), 30);
}

#[test]
fn a_speed_that_is_none_is_that_of_the_wall() {
    for speed in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!((Clock::new(from_unix(0), speed).speed() - 1.0).abs() < f64::EPSILON);
    }
}

#[test]
fn only_instants_are_mapped() {
    let clock = Clock::new(from_unix(0), 60.0);
    let object = json!({
        "metadata": {"creationTimestamp": "1970-01-01T01:00:00Z"},
        "status": {"history": [{"startedTime": "1970-01-01T01:00:00Z", "completionTime": null}],
                   "conditions": [{"message": "1970-01-01T01:00:00Z"}]},
    });
    let wall = clock.to_wall(&object);
    assert_eq!(
        wall["status"]["history"][0]["startedTime"],
        "1970-01-01T00:01:00Z"
    );
    assert!(wall["status"]["history"][0]["completionTime"].is_null());
    assert_eq!(wall["status"]["conditions"], object["status"]["conditions"]);
    assert_eq!(wall["metadata"], object["metadata"]);
}

proptest! {
    #[test]
    fn whole_seconds_survive_a_round_trip(origin in 0_i64..4_000_000_000, after in -300_000_000_i64..300_000_000,
                                          speed in prop_oneof![Just(1.0), Just(7.0), Just(60.0), 1.0..2000.0]) {
        // Ten years from the origin; beyond, a double has no more digits.
        let clock = Clock::new(from_unix(origin), speed);
        let wall = from_unix(origin + after);
        let back = clock.wall(clock.simulated(wall));
        prop_assert_eq!(timestamp(back), timestamp(wall));
    }
}
