//! The rules of maintenance windows.

use std::collections::BTreeSet;

use super::selection::check_labels;
use super::{SpecViolation, parse_duration, violation};
use crate::maintenance::{
    Boundary, CronSchedule, ESTIMATE, MAX_EXCLUSIONS, MAX_WINDOWS, MaintenanceExclusion, MaintenanceSpec,
    MaintenanceWindow, TimeZoneSource, Zone, may_tell_zone,
};

const MAX_NAME: usize = 63;

pub(super) fn check_maintenance(maintenance: Option<&MaintenanceSpec>, found: &mut Vec<SpecViolation>) {
    let Some(maintenance) = maintenance else { return };
    let field = "spec.maintenance";
    if let Err(error) = Zone::named(&maintenance.time_zone) {
        found.push(violation(
            format!("{field}.timeZone"),
            format!("{:?} {error}", maintenance.time_zone),
        ));
    }
    if let Some(source) = &maintenance.time_zone_from {
        check_source(source, found);
    }
    for (list, count, most) in [
        ("windows", maintenance.windows.len(), MAX_WINDOWS),
        ("exclusions", maintenance.exclusions.len(), MAX_EXCLUSIONS),
    ] {
        if count > most {
            found.push(violation(
                format!("{field}.{list}"),
                format!("has {count} entries, and may have at most {most}"),
            ));
        }
    }
    let minimum = maintenance.minimum_remaining.as_deref();
    let mut seen = BTreeSet::new();
    for (index, window) in maintenance.windows.iter().enumerate() {
        let at = format!("{field}.windows[{index}]");
        check_name(&at, &window.name, &mut seen, found);
        check_window(&at, window, found);
        check_length(&at, window, minimum, found);
    }
    let mut seen = BTreeSet::new();
    for (index, exclusion) in maintenance.exclusions.iter().enumerate() {
        let at = format!("{field}.exclusions[{index}]");
        check_name(&at, &exclusion.name, &mut seen, found);
        check_exclusion(&at, exclusion, found);
    }
    if let Some(text) = &maintenance.minimum_remaining
        && text != ESTIMATE
        && parse_duration(text).is_none()
    {
        found.push(violation(
            format!("{field}.minimumRemaining"),
            format!("{text:?} must be Estimate, or a duration of at most 8760h in hours, minutes and seconds, such as 2h or 1h30m (days are not a unit)"),
        ));
    }
}

fn check_source(source: &TimeZoneSource, found: &mut Vec<SpecViolation>) {
    let field = "spec.maintenance.timeZoneFrom";
    let names = [
        ("annotation", &source.annotation),
        ("claim", &source.claim),
        ("label", &source.label),
    ];
    if names.iter().filter(|(_, name)| name.is_some()).count() != 1 {
        found.push(violation(field, "set exactly one of annotation, claim and label"));
    }
    for (kind, name) in names {
        let Some(name) = name else { continue };
        if kind != "label" && !may_tell_zone(name) {
            found.push(violation(
                format!("{field}.{kind}"),
                format!(
                    "{name:?} must contain zone or tz, such as example.com/time-zone, because the controller keeps no other {kind}s"
                ),
            ));
        } else if name.is_empty() {
            found.push(violation(
                format!("{field}.{kind}"),
                format!("must name a {kind}"),
            ));
        }
    }
}

fn check_name<'a>(at: &str, name: &'a str, seen: &mut BTreeSet<&'a str>, found: &mut Vec<SpecViolation>) {
    let is_name =
        !name.is_empty() && name.len() <= MAX_NAME && name.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_name {
        found.push(violation(
            format!("{at}.name"),
            format!(
                "{name:?} must be a name of at most {MAX_NAME} printable ASCII characters without white space"
            ),
        ));
    }
    if !seen.insert(name) {
        found.push(violation(
            format!("{at}.name"),
            format!("{name:?} is used twice; rename one"),
        ));
    }
}

fn check_window(at: &str, window: &MaintenanceWindow, found: &mut Vec<SpecViolation>) {
    let schedule = window.schedule.parse::<CronSchedule>();
    let trouble = match schedule {
        Err(error) => Some(format!(
            "{}. It must have the fields minute, hour, day of the month, month and day of the week, such as 0 22 * * 1-5",
            error.to_string().trim_end_matches('.')
        )),
        Ok(schedule) if schedule.is_rare() => Some("comes less often than every second year".to_owned()),
        Ok(_) => None,
    };
    if let Some(trouble) = trouble {
        found.push(violation(
            format!("{at}.schedule"),
            format!("{:?}: {trouble}", window.schedule),
        ));
    }
    if parse_duration(&window.duration).is_none_or(|length| length < chrono::TimeDelta::seconds(1)) {
        found.push(violation(
            format!("{at}.duration"),
            format!("{:?} must be a duration of at least 1s and at most 8760h in hours, minutes and seconds, such as 6h or 90m (days are not a unit)", window.duration),
        ));
    }
    if let Some(selector) = &window.cluster_selector {
        let at = format!("{at}.clusterSelector");
        check_labels(&at, &selector.match_labels, &selector.match_expressions, found);
    }
}

/// A window that is too short alone could only count together with others, and whether it does would have to be searched for among all
/// that may touch it.
fn check_length(at: &str, window: &MaintenanceWindow, minimum: Option<&str>, found: &mut Vec<SpecViolation>) {
    let Some(minimum) = minimum else { return };
    let lengths = parse_duration(&window.duration).zip(parse_duration(minimum));
    if lengths.is_some_and(|(length, minimum)| length <= minimum) {
        found.push(violation(
            format!("{at}.duration"),
            format!(
                "{:?} must be longer than minimumRemaining, {minimum:?}; make one window of windows that touch",
                window.duration
            ),
        ));
    }
}

fn check_exclusion(at: &str, exclusion: &MaintenanceExclusion, found: &mut Vec<SpecViolation>) {
    let mut read = |end: &str, text: &str| {
        let boundary = text.parse::<Boundary>();
        if let Err(error) = &boundary {
            found.push(violation(format!("{at}.{end}"), format!("{text:?} {error}")));
        }
        boundary.ok()
    };
    let boundaries = read("start", &exclusion.start).zip(read("end", &exclusion.end));
    if boundaries.is_some_and(|(start, end)| !start.may_precede(&end)) {
        found.push(violation(
            format!("{at}.end"),
            format!(
                "{:?} must be later than start, {:?}",
                exclusion.end, exclusion.start
            ),
        ));
    }
}

#[cfg(test)]
mod tests;
