//! The start instants of a window.

use std::fmt;
use std::str::FromStr;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::{SignedDuration, Timestamp};

use super::zone::Zone;

/// A schedule of five fields, as cron has it: minute, hour, day of the month, month, day of the week.
///
/// It is read in the times that clocks show. A time that clocks skip starts with the first instant after it; of a time that they show twice,
/// only the first counts.
#[derive(Clone, Debug)]
pub struct CronSchedule(Cron);

/// Why a schedule cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronError(String);

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CronError {}

impl FromStr for CronSchedule {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        if text.split_ascii_whitespace().count() != 5 {
            return Err(CronError("must have five fields".to_owned()));
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser.parse(text).map_err(|error| CronError(error.to_string()))?;
        if cron
            .find_next_occurrence(&DateTime::constant(2000, 1, 1, 0, 0, 0, 0), true)
            .is_err()
        {
            return Err(CronError("no day has such a date".to_owned()));
        }
        Ok(Self(cron))
    }
}

impl CronSchedule {
    /// True if two years may pass without a start, in some of the 28 years after which weekdays and leap days repeat. Looking for such a
    /// start takes long, and nobody waits for it.
    #[must_use]
    pub fn is_rare(&self) -> bool {
        (2024..2052_i16).any(|year| {
            let from = DateTime::constant(year, 1, 1, 0, 0, 0, 0);
            let next = self.0.find_next_occurrence(&from, true);
            next.is_ok_and(|next| next.year() > year + 1)
        })
    }

    /// The first start after an instant, if there is one before `limit`.
    #[must_use]
    pub fn next_after(&self, at: Timestamp, zone: &Zone, limit: Timestamp) -> Option<Timestamp> {
        let mut time = zone.reached(at);
        let end = zone.shown(limit);
        loop {
            time = self.0.find_next_occurrence(&time, false).ok()?;
            if time > end {
                return None;
            }
            let start = zone.first(time);
            if start > at {
                return Some(start);
            }
        }
    }

    /// The last start until an instant, if there is one after or at `earliest`.
    #[must_use]
    pub fn last_until(&self, at: Timestamp, zone: &Zone, earliest: Timestamp) -> Option<Timestamp> {
        let mut time = zone.reached(at);
        let end = zone
            .shown(earliest)
            .checked_sub(SignedDuration::from_hours(48))
            .unwrap_or(DateTime::MIN);
        let mut inclusive = true;
        loop {
            time = self.0.find_previous_occurrence(&time, inclusive).ok()?;
            inclusive = false;
            if time < end {
                return None;
            }
            let start = zone.first(time);
            if start <= at {
                return (start >= earliest).then_some(start);
            }
        }
    }
}
