//! Maintenance windows: when clusters may start (`docs/design/maintenance.md`).
//!
//! A window is a schedule of start instants and an elapsed duration, read in the zone of a cluster. Windows that overlap or touch are
//! one span. Exclusions are cut out of it. A cluster may start while more than the minimum remains of its span.

use std::sync::{Arc, Mutex, PoisonError};

use api::maintenance::{Boundary, CronSchedule, Zone};
use api::time::{from_jiff, to_jiff};
use chrono::{DateTime, TimeDelta, Utc};
use jiff::{SignedDuration, Timestamp};

/// How far ahead an opening is looked for.
pub const HORIZON: TimeDelta = TimeDelta::days(400);
/// A span that is longer than this, or than so many of the shortest windows, and its minimum, counts as open until then, and is looked at
/// again. So few windows are looked at, whatever a spec says.
const LONG: SignedDuration = SignedDuration::from_hours(24);
const MANY: i32 = 10;

/// A window that repeats.
#[derive(Clone, Debug)]
pub struct Window {
    /// Its name in the spec.
    pub name: Arc<str>,
    /// When it opens.
    pub schedule: CronSchedule,
    /// How long it is open, in elapsed time: a window of six hours is six hours long on the days when clocks change, too.
    pub duration: TimeDelta,
}

/// A time in which nothing starts, whatever the windows say: from `start` on, and before `end`.
#[derive(Clone, Debug)]
pub struct Exclusion {
    /// The first instant.
    pub start: Boundary,
    /// The first instant afterwards.
    pub end: Boundary,
}

/// How long an answer holds that there is no opening within [`HORIZON`].
const NEVER_HOLDS: SignedDuration = SignedDuration::from_hours(24);

/// When clusters of one zone may start. Copies share what was found last, so the question is cheap until the answer changes.
#[derive(Clone, Debug)]
pub struct Calendar {
    rules: Arc<CalendarRules>,
    last: Arc<Mutex<Option<Answer>>>,
}

#[derive(Debug)]
struct CalendarRules {
    zone: Zone,
    /// Without any it is always open.
    windows: Vec<Arc<Window>>,
    /// As instants, sorted by start. Between two of them there is more time than the minimum.
    exclusions: Vec<Interval>,
    minimum: SignedDuration,
}

/// The first interval in which clusters may start, for whoever asks from `from` on and before `until`.
#[derive(Clone, Copy, Debug)]
struct Answer {
    from: Timestamp,
    until: Timestamp,
    next: Option<Interval>,
}

/// From `start` on, and before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Interval {
    start: Timestamp,
    end: Timestamp,
}

/// A time in which clusters may start: from `start` on, and before `end`; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first instant.
    pub start: DateTime<Utc>,
    /// The first instant afterwards.
    pub end: Option<DateTime<Utc>>,
}

/// Whether clusters may start at some instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// They may. It holds before `closes`; `None`: for ever.
    Open {
        /// The first instant at which it has to be looked at again.
        closes: Option<DateTime<Utc>>,
    },
    /// They may not. It holds before `opens`; `None`: they may not within [`HORIZON`].
    Closed {
        /// The first instant at which they may.
        opens: Option<DateTime<Utc>>,
    },
}

impl Calendar {
    /// The calendar of clusters in a zone. `minimum`: how much of a span must remain for a start.
    #[must_use]
    pub fn new(zone: Zone, windows: Vec<Arc<Window>>, exclusions: &[Exclusion], minimum: TimeDelta) -> Self {
        let exclusions = exclusions.iter().map(|exclusion| Interval {
            start: exclusion.start.first_in(&zone),
            end: exclusion.end.last_in(&zone),
        });
        let mut exclusions: Vec<Interval> = exclusions.filter(|one| one.start < one.end).collect();
        exclusions.sort_unstable();
        let minimum = elapsed(minimum).max(SignedDuration::ZERO);
        let mut merged: Vec<Interval> = Vec::with_capacity(exclusions.len());
        for one in exclusions {
            match merged.last_mut() {
                // Nothing could start between them.
                Some(last) if one.start <= later(last.end, minimum) => last.end = last.end.max(one.end),
                _ => merged.push(one),
            }
        }
        let rules = CalendarRules {
            zone,
            windows,
            exclusions: merged,
            minimum,
        };
        Self {
            rules: Arc::new(rules),
            last: Arc::default(),
        }
    }

    /// The zone in which the windows are read.
    #[must_use]
    pub fn zone(&self) -> &Zone {
        &self.rules.zone
    }

    /// How much of a span must remain for a start.
    #[must_use]
    pub fn minimum(&self) -> TimeDelta {
        TimeDelta::seconds(self.rules.minimum.as_secs())
    }

    /// The names of its windows.
    pub fn window_names(&self) -> impl Iterator<Item = &str> {
        self.rules.windows.iter().map(|window| &*window.name)
    }

    /// Whether clusters may start at an instant.
    #[must_use]
    pub fn at(&self, now: DateTime<Utc>) -> Opening {
        let now = to_jiff(now);
        match self.next_from(now) {
            Some(next) if next.start <= now => Opening::Open { closes: end(next) },
            next => Opening::Closed {
                opens: next.map(|next| from_jiff(next.start)),
            },
        }
    }

    /// The spans in which clusters may start that end after an instant, in order of time; without end, if the calendar is. The first
    /// begins at that instant or later. A span of more than a day may be told in pieces that touch.
    pub fn spans(&self, from: DateTime<Utc>) -> impl Iterator<Item = Span> {
        let mut at = Some(to_jiff(from));
        std::iter::from_fn(move || {
            let next = self.rules.next_interval(at?)?;
            at = Some(next.end).filter(|end| *end < Timestamp::MAX);
            Some(Span {
                start: from_jiff(next.start),
                end: end(next),
            })
        })
    }

    /// As [`CalendarRules::next_interval`], from what was found last while that holds.
    fn next_from(&self, now: Timestamp) -> Option<Interval> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = *last
            && (answer.from..answer.until).contains(&now)
        {
            return answer.next;
        }
        let next = self.rules.next_interval(now);
        let until = match next {
            Some(next) if next.start <= now => next.end,
            Some(next) => next.start,
            None => later(now, NEVER_HOLDS),
        };
        *last = Some(Answer {
            from: now,
            until,
            next,
        });
        next
    }
}

impl CalendarRules {
    /// The first interval in which clusters may start that contains an instant or is after it. It starts at that instant or later, and
    /// its end may be earlier than the last instant of a long one.
    fn next_interval(&self, from: Timestamp) -> Option<Interval> {
        let limit = later(from, elapsed(HORIZON));
        let mut at = from;
        loop {
            let start = self.open_from(at, limit)?;
            let end = self.open_until(start);
            let last = end.checked_sub(self.minimum).unwrap_or(Timestamp::MIN);
            if end == Timestamp::MAX {
                return Some(Interval { start, end });
            }
            if start < last {
                return Some(Interval { start, end: last });
            }
            at = end;
        }
    }

    /// The first instant from `from` on that is in a window and in no exclusion.
    fn open_from(&self, from: Timestamp, limit: Timestamp) -> Option<Timestamp> {
        let mut at = from;
        while at < limit {
            if let Some(exclusion) = self.exclusions.iter().find(|one| one.contains(at)) {
                at = exclusion.end;
                continue;
            }
            if self.windows.is_empty() || self.covered_until(at) > at {
                return Some(at);
            }
            let windows = self.windows.iter();
            let starts = windows.filter_map(|window| window.schedule.next_after(at, &self.zone, limit));
            at = starts.min()?;
        }
        None
    }

    /// The end of the span that contains an instant, or an instant in it that is so late that it need not be looked at before.
    fn open_until(&self, from: Timestamp) -> Timestamp {
        let mut exclusions = self.exclusions.iter();
        let excluded = exclusions
            .find(|one| one.start > from)
            .map_or(Timestamp::MAX, |one| one.start);
        if self.windows.is_empty() {
            return excluded;
        }
        let lengths = self.windows.iter().map(|window| elapsed(window.duration));
        let shortest = lengths.min().unwrap_or(LONG);
        let long = shortest.checked_mul(MANY).map_or(LONG, |many| many.min(LONG));
        let enough = later(from, self.minimum + long);
        let mut end = from;
        loop {
            let next = self.covered_until(end);
            if next <= end || end >= excluded || end >= enough {
                return end.min(excluded);
            }
            end = next;
        }
    }

    /// The latest end of the windows that contain an instant, or end with it; the instant itself, if there is none.
    fn covered_until(&self, at: Timestamp) -> Timestamp {
        let ends = self.windows.iter().filter_map(|window| {
            let duration = elapsed(window.duration);
            let earliest = at.checked_sub(duration).unwrap_or(Timestamp::MIN);
            let start = window.schedule.last_until(at, &self.zone, earliest)?;
            Some(later(start, duration))
        });
        ends.max().map_or(at, |end| end.max(at))
    }
}

impl Interval {
    fn contains(&self, at: Timestamp) -> bool {
        (self.start..self.end).contains(&at)
    }
}

fn end(interval: Interval) -> Option<DateTime<Utc>> {
    (interval.end < Timestamp::MAX).then(|| from_jiff(interval.end))
}

fn elapsed(length: TimeDelta) -> SignedDuration {
    SignedDuration::new(length.num_seconds(), length.subsec_nanos())
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
