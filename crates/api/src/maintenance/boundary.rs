//! The beginning and the end of an exclusion, as they are written.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

use super::zone::Zone;

/// An instant, or the time that clocks show in the zone of each cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// The same instant for all.
    Instant(Timestamp),
    /// What clocks show.
    Civil(DateTime),
}

/// The text is neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundaryError;

impl fmt::Display for BoundaryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "must be a time without a zone, such as 2026-12-18T00:00, which is read in the zone of each cluster, or an instant, such as 2026-12-18T00:00:00Z",
        )
    }
}

impl std::error::Error for BoundaryError {}

impl FromStr for Boundary {
    type Err = BoundaryError;

    fn from_str(text: &str) -> Result<Self, BoundaryError> {
        // A zone in brackets would be read and ignored.
        if text.contains('[') {
            return Err(BoundaryError);
        }
        let (_, time) = text.split_once('T').ok_or(BoundaryError)?;
        if time.contains(['Z', '+', '-']) {
            return text.parse().map(Self::Instant).map_err(|_| BoundaryError);
        }
        text.parse().map(Self::Civil).map_err(|_| BoundaryError)
    }
}

impl Boundary {
    /// The first instant at which clocks show this time or a later one.
    #[must_use]
    pub fn first_in(&self, zone: &Zone) -> Timestamp {
        match *self {
            Self::Instant(at) => at,
            Self::Civil(time) => zone.first(time),
        }
    }

    /// The first instant from which on clocks never show an earlier time.
    #[must_use]
    pub fn last_in(&self, zone: &Zone) -> Timestamp {
        match *self {
            Self::Instant(at) => at,
            Self::Civil(time) => zone.last(time),
        }
    }

    /// False when this one is before the other in no zone.
    #[must_use]
    pub fn may_precede(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Instant(start), Self::Instant(end)) => start < end,
            (Self::Civil(start), Self::Civil(end)) => start < end,
            _ => self.range().0 < other.range().1,
        }
    }

    /// No clocks show this time before the first, nor after the second instant: no zone is a day from UTC.
    fn range(&self) -> (Timestamp, Timestamp) {
        const DAY: SignedDuration = SignedDuration::from_hours(24);
        match *self {
            Self::Instant(at) => (at, at),
            Self::Civil(time) => {
                let at = Zone::UTC.first(time);
                let (first, last) = (at.checked_sub(DAY), at.checked_add(DAY));
                (first.unwrap_or(Timestamp::MIN), last.unwrap_or(Timestamp::MAX))
            }
        }
    }
}
