//! Conversion between kube's `jiff` time and our `chrono` time. No other code converts them.

use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// In a second.
const NANOSECONDS: i128 = 1_000_000_000;

/// Converts a Kubernetes timestamp to our time. Years beyond 262143 give `None`.
#[must_use]
pub fn to_chrono(time: &Time) -> Option<DateTime<Utc>> {
    // Before 1970 jiff counts both parts backwards.
    let nanoseconds = time.0.as_nanosecond();
    DateTime::from_timestamp(
        i64::try_from(nanoseconds.div_euclid(NANOSECONDS)).ok()?,
        u32::try_from(nanoseconds.rem_euclid(NANOSECONDS)).ok()?,
    )
}

/// Converts our time to a Kubernetes timestamp, cut to whole seconds like `metav1.Time` on the wire. Times outside
/// jiff's range, which no real clock produces, give the Unix epoch.
#[must_use]
pub fn from_chrono(time: DateTime<Utc>) -> Time {
    Time(jiff::Timestamp::from_second(time.timestamp()).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
}

/// Converts our time to that of calendars, to the nanosecond. A time outside jiff's range is cut to it.
#[must_use]
pub fn to_jiff(time: DateTime<Utc>) -> jiff::Timestamp {
    let nanoseconds = i32::try_from(time.timestamp_subsec_nanos()).unwrap_or(0);
    let limit = if time.timestamp() < 0 {
        jiff::Timestamp::MIN
    } else {
        jiff::Timestamp::MAX
    };
    jiff::Timestamp::new(time.timestamp(), nanoseconds).unwrap_or(limit)
}

/// Converts a time of calendars to ours. All of jiff's range fits.
#[must_use]
pub fn from_jiff(time: jiff::Timestamp) -> DateTime<Utc> {
    to_chrono(&Time(time)).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// RFC 3339 with milliseconds and `Z`, the form of our annotations.
#[must_use]
pub fn to_rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Reads an RFC 3339 timestamp; anything else is `None`.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.to_utc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_survives_the_round_trip_to_the_second() {
        let time = parse_rfc3339("2026-03-01T10:20:30.456Z").unwrap();
        assert_eq!(to_rfc3339(time), "2026-03-01T10:20:30.456Z");
        let back = to_chrono(&from_chrono(time)).unwrap();
        assert_eq!(to_rfc3339(back), "2026-03-01T10:20:30.000Z");
    }

    #[test]
    fn a_time_of_calendars_survives_the_round_trip_to_the_nanosecond() {
        for text in ["1969-12-31T23:59:59.000000001Z", "2026-03-01T10:20:30.456789012Z"] {
            let time = parse_rfc3339(text).unwrap();
            assert_eq!(from_jiff(to_jiff(time)), time, "{text}");
        }
        assert_eq!(to_jiff(DateTime::<Utc>::MAX_UTC), jiff::Timestamp::MAX);
        assert_eq!(to_jiff(DateTime::<Utc>::MIN_UTC), jiff::Timestamp::MIN);
    }

    #[test]
    fn text_that_is_no_timestamp_is_none() {
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}
