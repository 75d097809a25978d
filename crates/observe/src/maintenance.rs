//! Which maintenance windows apply to each cluster (`docs/design/maintenance.md`).

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ahash::AHashMap;
use api::maintenance::{ESTIMATE, MaintenanceSpec, TimeZoneSource, Zone};
use api::validate::parse_duration;
use chrono::TimeDelta;
use rollout::maintenance::{Calendar, Exclusion, Window};
use rollout::{Eligibility, Reason};

use crate::index::ClusterView;
use crate::selection::LabelMatcher;

/// Most calendars of one upgrade. Each is looked at on its own, so a tenant whose selectors cut a fleet into thousands would make
/// everybody wait.
pub(crate) const MAX_CALENDARS: usize = 512;

/// The name of a zone, and windows as bits.
type CalendarKey = (Arc<str>, u32);

/// The calendars that were made for a spec, so that none is made, or asked, again and again.
#[derive(Debug, Default)]
pub struct KnownCalendars {
    calendars: Mutex<AHashMap<CalendarKey, Calendar>>,
    /// In seconds.
    estimated_minimum: AtomicI64,
}

impl KnownCalendars {
    /// None yet. `minimum` is how much of a window must remain where the spec leaves that to the estimate, until there is one.
    #[must_use]
    pub fn new(minimum: TimeDelta) -> KnownCalendars {
        KnownCalendars {
            calendars: Mutex::default(),
            estimated_minimum: AtomicI64::new(minimum.num_seconds()),
        }
    }

    /// How much of a window must remain where the spec leaves that to the estimate.
    #[must_use]
    pub fn estimated_minimum(&self) -> TimeDelta {
        TimeDelta::seconds(self.estimated_minimum.load(Ordering::Relaxed))
    }

    /// Sets it. Returns true if it is another one.
    pub fn set_estimated_minimum(&self, minimum: TimeDelta) -> bool {
        let seconds = minimum.num_seconds();
        let changed = self.estimated_minimum.swap(seconds, Ordering::Relaxed) != seconds;
        if changed {
            self.calendars
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clear();
        }
        changed
    }

    fn get_or_make(&self, key: &CalendarKey, make: impl FnOnce() -> Option<Calendar>) -> Option<Calendar> {
        let mut known = self.calendars.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calendar) = known.get(key) {
            return Some(calendar.clone());
        }
        let calendar = make()?;
        // Clusters that go from zone to zone leave calendars behind.
        if known.len() >= 2 * MAX_CALENDARS {
            known.clear();
        }
        known.insert(key.clone(), calendar.clone());
        Some(calendar)
    }
}

/// The calendars of a fleet: one for each combination of a zone and windows that a cluster of it has.
pub(crate) struct Calendars<'a> {
    spec: &'a MaintenanceSpec,
    known: &'a KnownCalendars,
    windows: Vec<(LabelMatcher<'a>, Arc<Window>)>,
    exclusions: Vec<Exclusion>,
    /// How much of a window must remain for a start.
    minimum: TimeDelta,
    positions: AHashMap<CalendarKey, Result<usize, NoCalendar>>,
    all: Vec<Calendar>,
}

/// Why a cluster has no calendar.
#[derive(Clone, Copy)]
enum NoCalendar {
    /// Its zone does not exist.
    Zoneless,
    /// There are too many.
    TooMany,
}

impl<'a> Calendars<'a> {
    /// Those of a valid spec. What cannot be read is left out: such a spec is rejected before.
    pub(crate) fn new(spec: &'a MaintenanceSpec, known: &'a KnownCalendars) -> Self {
        let windows = spec.windows.iter().filter_map(|window| {
            let selector = window.cluster_selector.as_ref();
            let matcher = selector.map_or_else(LabelMatcher::default, |selector| {
                LabelMatcher::new(&selector.match_labels, &selector.match_expressions)
            });
            let window = Window {
                name: Arc::from(window.name.as_str()),
                schedule: window.schedule.parse().ok()?,
                duration: parse_duration(&window.duration)?,
            };
            Some((matcher, Arc::new(window)))
        });
        let exclusions = spec.exclusions.iter().filter_map(|exclusion| {
            Some(Exclusion {
                start: exclusion.start.parse().ok()?,
                end: exclusion.end.parse().ok()?,
            })
        });
        let minimum = match spec.minimum_remaining.as_deref() {
            Some(ESTIMATE) => Some(known.estimated_minimum()),
            minimum => minimum.and_then(parse_duration),
        };
        Self {
            spec,
            known,
            minimum: minimum.unwrap_or_default(),
            windows: windows.collect(),
            exclusions: exclusions.collect(),
            positions: AHashMap::new(),
            all: Vec::new(),
        }
    }

    /// The position of a cluster's calendar; `Ok(None)`: it may start at any time. If it may never start, the reason.
    pub(crate) fn of(&mut self, cluster: &ClusterView) -> Result<Option<usize>, Eligibility> {
        if self.windows.is_empty() && self.exclusions.is_empty() {
            return Ok(None);
        }
        let told = self.spec.time_zone_from.as_ref();
        let told = told.and_then(|source| time_zone(source, cluster));
        let zone = told.unwrap_or_else(|| Arc::from(self.spec.time_zone.as_str()));
        let matching = self.windows.iter().enumerate();
        let matching = matching.filter(|(_, (matcher, _))| matcher.matches(cluster));
        let (mut bits, mut is_selected) = (0_u32, false);
        for (index, (_, window)) in matching {
            is_selected = true;
            // The estimate may exceed a window, and whether that could count together with others would have to be searched for.
            if window.duration > self.minimum {
                bits |= 1 << index;
            }
        }
        if bits == 0 && !self.windows.is_empty() {
            return Err(self.no_window(is_selected));
        }
        let key = (zone, bits);
        let known = self.positions.get(&key).copied();
        let position = known.unwrap_or_else(|| {
            let position = self.add(&key);
            self.positions.insert(key.clone(), position);
            position
        });
        position.map(Some).map_err(|why| no_calendar(why, &key.0))
    }

    fn no_window(&self, is_selected: bool) -> Eligibility {
        let message = if is_selected {
            format!(
                "No window of spec.maintenance.windows that selects the cluster is longer than minimumRemaining, which is {}",
                rollout::duration(self.minimum)
            )
        } else {
            "No window of spec.maintenance.windows selects the cluster".to_owned()
        };
        Eligibility::Blocked {
            reason: Reason::NoWindow,
            message: Arc::from(message),
        }
    }

    fn add(&mut self, key: &CalendarKey) -> Result<usize, NoCalendar> {
        if self.all.len() >= MAX_CALENDARS {
            return Err(NoCalendar::TooMany);
        }
        let calendar = self.known.get_or_make(key, || self.make(key));
        self.all.push(calendar.ok_or(NoCalendar::Zoneless)?);
        Ok(self.all.len() - 1)
    }

    /// `None` if the zone does not exist.
    fn make(&self, (zone, bits): &CalendarKey) -> Option<Calendar> {
        let zone = Zone::named(zone).ok()?;
        let chosen = self.windows.iter().enumerate();
        let chosen = chosen.filter(|(index, _)| bits >> index & 1 == 1);
        let windows = chosen.map(|(_, (_, window))| Arc::clone(window)).collect();
        Some(Calendar::new(zone, windows, &self.exclusions, self.minimum))
    }

    /// The calendars, by position.
    pub(crate) fn finish(self) -> Vec<Calendar> {
        self.all
    }
}

fn no_calendar(why: NoCalendar, zone: &str) -> Eligibility {
    let (reason, message) = match why {
        NoCalendar::Zoneless => (
            Reason::InvalidTimeZone,
            format!(
                "The time zone {zone:?} of the cluster does not exist; it must be an IANA name such as Europe/Berlin"
            ),
        ),
        NoCalendar::TooMany => (
            Reason::NoWindow,
            format!(
                "spec.maintenance divides the fleet into more than {MAX_CALENDARS} combinations of time zones and windows, and this cluster is beyond them. Use fewer windows, or selectors that do not overlap."
            ),
        ),
    };
    Eligibility::Blocked {
        reason,
        message: Arc::from(message),
    }
}

/// The time zone that a cluster tells; `None` if it tells none.
fn time_zone(source: &TimeZoneSource, cluster: &ClusterView) -> Option<Arc<str>> {
    if let Some(key) = &source.annotation {
        return cluster.zone_annotation(key).cloned();
    }
    if let Some(name) = &source.claim {
        return cluster.zone_claim(name).cloned();
    }
    // A label cannot contain a slash.
    let value = cluster.label(source.label.as_deref()?)?;
    Some(Arc::from(value.replace('.', "/")))
}

#[cfg(test)]
mod tests;
