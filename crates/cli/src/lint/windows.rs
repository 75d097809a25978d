//! Maintenance windows that are valid and never open.

use std::sync::Arc;

use api::maintenance::{ESTIMATE, MaintenanceExclusion, MaintenanceSpec, MaintenanceWindow, Zone};
use api::validate::parse_duration;
use chrono::{DateTime, Utc};
use resolve::snapshot::ControllerSettings;
use resolve::spec::resolve_spec;
use resolve::works::WorkFlags;
use rollout::forecast::sum_of_time_limits;
use rollout::maintenance::{Calendar, Exclusion, HORIZON, Opening, Window};
use serde_json::Value;

use super::schema::Problem;

/// Warns about each of them, as seen at this time. What cannot be read is left out, because other rules name it.
pub(super) fn never_open(object: &Value, now: DateTime<Utc>) -> Vec<Problem> {
    let Ok(spec) = serde_json::from_value::<MaintenanceSpec>(object["spec"]["maintenance"].clone()) else {
        return Vec::new();
    };
    let Ok(zone) = Zone::named(&spec.time_zone) else {
        return Vec::new();
    };
    let exclusions = exclusions(&spec);
    let minimum = spec.minimum_remaining.as_deref().and_then(parse_duration);
    let opens = |windows: Vec<Arc<Window>>| {
        let calendar = Calendar::new(zone.clone(), windows, &exclusions, minimum.unwrap_or_default());
        calendar.at(now) != Opening::Closed { opens: None }
    };
    let days = HORIZON.num_days();
    if spec.windows.is_empty() {
        return if exclusions.is_empty() || opens(Vec::new()) {
            Vec::new()
        } else {
            let text = format!("exclude all of the next {days} days, so no cluster starts");
            vec![Problem::warning("spec.maintenance.exclusions", text)]
        };
    }
    let windows = spec.windows.iter().enumerate();
    let shut = windows.filter(|(_, window)| {
        // One that comes too seldom is a violation of its own.
        read(window).is_some_and(|window| {
            window.duration > minimum.unwrap_or_default()
                && !window.schedule.is_rare()
                && !opens(vec![window])
        })
    });
    shut.map(|(index, window)| {
        Problem::warning(
            format!("spec.maintenance.windows[{index}]"),
            format!(
                "{:?} does not open within {days} days in time zone {}, because exclusions cover it",
                window.name, spec.time_zone
            ),
        )
    })
    .collect()
}

fn exclusions(spec: &MaintenanceSpec) -> Vec<Exclusion> {
    let read = |exclusion: &MaintenanceExclusion| {
        Some(Exclusion {
            start: exclusion.start.parse().ok()?,
            end: exclusion.end.parse().ok()?,
        })
    };
    spec.exclusions.iter().filter_map(read).collect()
}

fn read(window: &MaintenanceWindow) -> Option<Arc<Window>> {
    Some(Arc::new(Window {
        name: Arc::from(window.name.as_str()),
        schedule: window.schedule.parse().ok()?,
        duration: parse_duration(&window.duration)?,
    }))
}

/// Warns if no window is long enough for `minimumRemaining: Estimate` as long as no update was measured.
pub(super) fn estimate_fits(object: &Value, now: DateTime<Utc>) -> Option<Problem> {
    let spec: MaintenanceSpec = serde_json::from_value(object["spec"]["maintenance"].clone()).ok()?;
    if spec.minimum_remaining.as_deref() != Some(ESTIMATE) || spec.windows.is_empty() {
        return None;
    }
    let upgrade = serde_json::from_value(object.clone()).ok()?;
    let grace = ControllerSettings::default().operators_grace;
    let resolved = resolve_spec(&upgrade, &WorkFlags::default(), grace).ok()?;
    let limits = sum_of_time_limits(&resolved.policy);
    let zone = Zone::named(&spec.time_zone).ok()?;
    // A shorter window does not count, also together with one that it touches.
    let windows = spec.windows.iter().filter_map(read);
    let windows: Vec<Arc<Window>> = windows.filter(|window| window.duration > limits).collect();
    let is_shut = windows.is_empty() || {
        let calendar = Calendar::new(zone, windows, &exclusions(&spec), limits);
        calendar.at(now) == Opening::Closed { opens: None }
    };
    let text = format!(
        "Estimate is the sum of the time limits, {}, until five clusters are done, and no window is longer: no cluster starts. Lower the limits of spec.upgradeStrategy, make one window of windows that touch, or set a duration",
        rollout::duration(limits)
    );
    is_shut.then(|| Problem::warning("spec.maintenance.minimumRemaining", text))
}

#[cfg(test)]
mod tests;
