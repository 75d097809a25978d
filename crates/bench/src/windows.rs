//! What maintenance windows add to a plan: calendars of fifty zones, made and asked anew for each plan.

mod observed;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use api::maintenance::{Boundary, Zone};
use chrono::{DateTime, TimeDelta, Utc};
use rollout::maintenance::{Calendar, Exclusion, Window};
use rollout::{Fleet, Policy, plan};
use serde::Serialize;

use crate::thresholds::{Side, Threshold};

const ZONES: [&str; 50] = [
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/Johannesburg",
    "Africa/Lagos",
    "Africa/Nairobi",
    "America/Anchorage",
    "America/Argentina/Buenos_Aires",
    "America/Bogota",
    "America/Caracas",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Havana",
    "America/Lima",
    "America/Los_Angeles",
    "America/Mexico_City",
    "America/New_York",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Toronto",
    "Asia/Dhaka",
    "Asia/Dubai",
    "Asia/Gaza",
    "Asia/Hong_Kong",
    "Asia/Jakarta",
    "Asia/Kathmandu",
    "Asia/Kolkata",
    "Asia/Manila",
    "Asia/Seoul",
    "Asia/Shanghai",
    "Asia/Singapore",
    "Asia/Tehran",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Adelaide",
    "Australia/Lord_Howe",
    "Australia/Perth",
    "Australia/Sydney",
    "Europe/Athens",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Istanbul",
    "Europe/Lisbon",
    "Europe/London",
    "Europe/Moscow",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Honolulu",
];

/// Plans without and with windows.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowCosts {
    without_ms: f64,
    with_ms: f64,
    /// An observation of the same fleet and its plan.
    observed_without_ms: f64,
    observed_with_ms: f64,
    /// The first question to a calendar whose author wants it to be slow.
    hostile_ms: f64,
    /// Clusters that start: their windows are open, and there are slots for them.
    pub open: usize,
}

impl WindowCosts {
    /// Measures with a fleet without windows. Some zones are within their windows at the time of the plan; the rest waits for them.
    ///
    /// # Errors
    /// The data of a zone are missing.
    pub fn measure(now: DateTime<Utc>, policy: &Policy, mut fleet: Fleet, plans: usize) -> Result<Self> {
        let without = median(plans, || {
            drop(black_box(plan(
                black_box(now),
                black_box(policy),
                black_box(&fleet),
            )));
        });
        for (index, cluster) in fleet.clusters.iter_mut().enumerate() {
            cluster.calendar = Some(index % ZONES.len());
        }
        fleet.calendars = calendars()?;
        let open = plan(now, policy, &fleet).operations.len();
        let with = median(plans, || {
            if let Ok(made) = calendars() {
                fleet.calendars = made;
            }
            drop(black_box(plan(
                black_box(now),
                black_box(policy),
                black_box(&fleet),
            )));
        });
        let observed = |windows| observed::measure(now, fleet.clusters.len(), plans, windows);
        Ok(Self {
            without_ms: without.as_secs_f64() * 1000.0,
            with_ms: with.as_secs_f64() * 1000.0,
            observed_without_ms: observed(false)?.as_secs_f64() * 1000.0,
            observed_with_ms: observed(true)?.as_secs_f64() * 1000.0,
            hostile_ms: hostile(now, plans)?.as_secs_f64() * 1000.0,
            open,
        })
    }

    /// What they may cost.
    pub fn thresholds(&self) -> [Threshold; 4] {
        let more = self.with_ms - self.without_ms;
        [
            Threshold::time(
                "windows in 50 zones, more than without",
                (Side::Below, 2.0),
                more,
                "ms",
            ),
            Threshold::time(
                "as a ratio to a plan without windows",
                (Side::Below, 1.5),
                self.with_ms / self.without_ms,
                "",
            ),
            Threshold::time(
                "observation and plan, more than without windows",
                (Side::Below, 2.0),
                self.observed_with_ms - self.observed_without_ms,
                "ms",
            ),
            Threshold::time(
                "first question to the slowest calendar",
                (Side::Below, 1.0),
                self.hostile_ms,
                "ms",
            ),
        ]
    }
}

fn median(times: usize, mut measured: impl FnMut()) -> Duration {
    let mut took: Vec<Duration> = (0..times.max(1))
        .map(|_| {
            let started = Instant::now();
            measured();
            started.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2]
}

/// As many windows as a spec may have, and exclusions that leave too little of each for a start, day after day.
fn hostile(now: DateTime<Utc>, times: usize) -> Result<Duration> {
    let windows = (0..api::maintenance::MAX_WINDOWS).map(|index| {
        Ok(Arc::new(Window {
            name: Arc::from(index.to_string()),
            schedule: format!("{index} 3 * * *").parse()?,
            duration: TimeDelta::minutes(62),
        }))
    });
    let boundary = |minutes: i64| Boundary::Instant(api::time::to_jiff(now + TimeDelta::minutes(minutes)));
    let exclusions: Vec<Exclusion> = (0..64)
        .map(|index| Exclusion {
            start: boundary(index * 60),
            end: boundary(index * 60 + 1),
        })
        .collect();
    let windows = windows.collect::<Result<Vec<_>>>()?;
    let zone = Zone::named("Africa/Casablanca")?;
    let minimum = TimeDelta::minutes(60);
    // A calendar remembers its last answer.
    let made = || Calendar::new(zone.clone(), windows.clone(), &exclusions, minimum);
    let mut unasked: Vec<Calendar> = std::iter::repeat_with(made).take(times.max(1)).collect();
    Ok(median(times, || {
        black_box(unasked.pop().map(|calendar| calendar.at(black_box(now))));
    }))
}

fn calendars() -> Result<Vec<Calendar>> {
    let windows = [("nights", "0 22 * * 1-5", 6), ("weekend", "0 0 * * 6", 48)];
    let windows = windows.iter().map(|(name, schedule, hours)| {
        Ok(Arc::new(Window {
            name: Arc::from(*name),
            schedule: schedule.parse()?,
            duration: TimeDelta::hours(*hours),
        }))
    });
    let windows = windows.collect::<Result<Vec<_>>>()?;
    let exclusion = Exclusion {
        start: "2026-12-18T00:00".parse::<Boundary>()?,
        end: "2027-01-07T00:00".parse::<Boundary>()?,
    };
    let calendar = |zone: &&str| {
        let exclusions = [exclusion.clone()];
        let zone = Zone::named(zone)?;
        Ok(Calendar::new(
            zone,
            windows.clone(),
            &exclusions,
            TimeDelta::hours(2),
        ))
    };
    ZONES.iter().map(calendar).collect()
}
