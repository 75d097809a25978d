//! Conversion between kube's `jiff` time and our `chrono` time. No other code converts them.

use chrono::{DateTime, SecondsFormat, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Converts a Kubernetes timestamp to our time. Years beyond 262143 give `None`.
#[must_use]
pub fn to_chrono(time: &Time) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(
        time.0.as_second(),
        u32::try_from(time.0.subsec_nanosecond()).unwrap_or(0),
    )
}

/// Converts our time to a Kubernetes timestamp, cut to whole seconds like `metav1.Time` on the wire. Times outside
/// jiff's range, which no real clock produces, give the Unix epoch.
#[must_use]
pub fn from_chrono(time: DateTime<Utc>) -> Time {
    Time(jiff::Timestamp::from_second(time.timestamp()).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
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
    fn text_that_is_no_timestamp_is_none() {
        assert_eq!(parse_rfc3339("yesterday"), None);
    }
}
