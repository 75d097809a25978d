//! The beginning and the end of an exclusion, as they are written.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::DateTime;

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

    /// False when both are of the same kind and this one is not before the other. A civil time and an instant cannot be compared
    /// without a zone.
    #[must_use]
    pub fn may_precede(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Instant(start), Self::Instant(end)) => start < end,
            (Self::Civil(start), Self::Civil(end)) => start < end,
            _ => true,
        }
    }
}
