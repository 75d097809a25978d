//! When the clusters of an upgrade may start, in groups of clusters with the same time zone and the same windows.

use std::collections::BTreeMap;

use api::maintenance::Zone;
use api::time::to_jiff;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use rollout::maintenance::{Calendar, HORIZON, Opening, Span};
use rollout::{Cluster, Eligibility, Fleet, Reason, duration};
use serde::Serialize;

/// Clusters that may start at the same times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WindowGroup {
    /// IANA name of their time zone; empty for clusters that may start at any time, or never.
    pub time_zone: String,
    /// Names of the windows that select them.
    pub windows: Vec<String>,
    /// Number of clusters.
    pub clusters: usize,
    /// The first of them by name.
    pub example: String,
    /// Whether they may start now.
    pub open: bool,
    /// Why they never may; empty for all others.
    pub reason: String,
    /// How much of a window must remain for a start, such as 2h; empty if a start is possible until it closes.
    pub minimum_remaining: String,
    /// The present span, if they may start now, and the next ones.
    pub spans: Vec<OpenSpan>,
}

/// A time in which clusters may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenSpan {
    /// The first instant, in UTC.
    pub start: String,
    /// The first instant at which they may not start any more, in UTC: the minimum before the window closes or an exclusion begins. Absent
    /// if it is not known to close.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Start and end in the zone of the clusters.
    pub local: String,
}

/// Groups the clusters of a fleet, or only this one. `count`: how many spans are told.
#[must_use]
pub fn groups(fleet: &Fleet, now: DateTime<Utc>, cluster: Option<&str>, count: usize) -> Vec<WindowGroup> {
    let mut found: BTreeMap<(Option<usize>, &str), Vec<&Cluster>> = BTreeMap::new();
    let clusters = fleet.clusters.iter();
    for one in clusters.filter(|one| cluster.is_none_or(|name| *one.name == *name)) {
        found.entry((one.calendar, barred(one))).or_default().push(one);
    }
    let groups = found.into_iter().filter_map(|((calendar, reason), clusters)| {
        let calendar = calendar.and_then(|position| fleet.calendars.get(position));
        let spans = calendar.map_or_else(Vec::new, |calendar| spans(calendar, now, count));
        let is_open = calendar.is_none_or(|calendar| matches!(calendar.at(now), Opening::Open { .. }));
        Some(WindowGroup {
            time_zone: calendar.map_or_else(String::new, |calendar| calendar.zone().name().to_owned()),
            windows: calendar.map_or_else(Vec::new, |calendar| {
                calendar.window_names().map(str::to_owned).collect()
            }),
            clusters: clusters.len(),
            example: clusters.first()?.name.to_string(),
            open: is_open && reason.is_empty(),
            reason: if reason.is_empty() && !is_open && spans.is_empty() {
                Reason::NoWindow.to_string()
            } else {
                reason.to_owned()
            },
            minimum_remaining: calendar.map_or_else(String::new, minimum_remaining),
            spans,
        })
    });
    groups.collect()
}

/// Why the windows never let a cluster start; empty if they do.
fn barred(cluster: &Cluster) -> &'static str {
    match cluster.eligibility {
        Eligibility::Blocked {
            reason: reason @ (Reason::NoWindow | Reason::InvalidTimeZone),
            ..
        } => reason.as_str(),
        _ => "",
    }
}

fn minimum_remaining(calendar: &Calendar) -> String {
    let minimum = Some(calendar.minimum()).filter(|minimum| *minimum > TimeDelta::zero());
    minimum.map_or_else(String::new, duration)
}

fn spans(calendar: &Calendar, now: DateTime<Utc>, count: usize) -> Vec<OpenSpan> {
    // Long spans come in pieces that touch. What is open for as long as anybody looks ahead has no end.
    let mut all: Vec<Span> = Vec::new();
    for span in calendar.spans(now) {
        let touches = all.last().is_some_and(|last| last.end == Some(span.start));
        if let (true, Some(last)) = (touches, all.last_mut()) {
            last.end = span.end.filter(|end| *end - now < HORIZON);
            if last.end.is_none() {
                break;
            }
        } else if all.len() == count {
            break;
        } else {
            all.push(span);
        }
    }
    let zone = calendar.zone();
    all.iter().map(|span| open_span(zone, *span)).collect()
}

fn open_span(zone: &Zone, span: Span) -> OpenSpan {
    let utc = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Secs, true);
    let local = |at: DateTime<Utc>| zone.display(to_jiff(at));
    let end = span.end.map_or_else(|| "open end".to_owned(), local);
    OpenSpan {
        start: utc(span.start),
        end: span.end.map(utc),
        local: format!("{} to {end}", local(span.start)),
    }
}

#[cfg(test)]
mod tests;
