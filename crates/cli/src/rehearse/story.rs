//! What a forecast means for people: the hours, the order, and the causes in groups.

use std::collections::{BTreeMap, BTreeSet};

use api::conditions::reason;
use api::report::Phase;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::causes::subject;
use rollout::forecast::{ClusterForecast, Forecast, Timings, VersionChange};
use rollout::{Fleet, Hold, StallReason, Step};

use crate::rehearse::assumed::own_words;
use crate::rehearse::outcome::{Cause, ClusterCounts, Start, Timeline, UsedTime, Verdict};
use crate::remedy::{self, Names};

/// What happens in each hour.
pub(super) fn timeline(begin: DateTime<Utc>, fleet: &Fleet, played: &Forecast) -> Vec<Timeline> {
    let at_first = |is: fn(Phase) -> bool| -> BTreeSet<&str> {
        let clusters = fleet.clusters.iter();
        let with = clusters.filter(|cluster| cluster.record.as_ref().is_some_and(|record| is(record.phase)));
        with.map(|cluster| &*cluster.name).collect()
    };
    let mut in_flight = at_first(Phase::holds_slot);
    let mut soaking = at_first(|phase| phase.is_at_work() && !phase.holds_slot());
    let mut hours: Vec<Timeline> = Vec::new();
    let mut events: Vec<(DateTime<Utc>, Event, &ClusterForecast)> = Vec::new();
    for cluster in &played.clusters {
        events.extend(cluster.started.map(|at| (at, Event::Starts, cluster)));
        events.extend(cluster.released.map(|at| (at, Event::Releases, cluster)));
        events.extend(cluster.ended.map(|at| (at, Event::Ends, cluster)));
    }
    events.sort_by(|a, b| (a.0, a.1, &a.2.name).cmp(&(b.0, b.1, &b.2.name)));
    let mut events = events.into_iter().peekable();
    while events.peek().is_some() {
        let hour = i32::try_from(hours.len()).unwrap_or(i32::MAX);
        let mut row = Timeline {
            from: begin + TimeDelta::hours(1) * hour,
            started: 0,
            completed: 0,
            failed: 0,
            in_flight: 0,
            soaking: 0,
        };
        while let Some((_, event, cluster)) = events.next_if(|(at, ..)| *at < row.from + TimeDelta::hours(1))
        {
            let name: &str = &cluster.name;
            match event {
                Event::Starts => {
                    row.started += 1;
                    in_flight.insert(name);
                }
                Event::Releases => {
                    in_flight.remove(name);
                    soaking.insert(name);
                }
                Event::Ends => {
                    soaking.remove(name);
                    row.completed += usize::from(cluster.phase == Phase::Complete);
                    row.failed += usize::from(cluster.phase.has_failed());
                }
            }
        }
        (row.in_flight, row.soaking) = (in_flight.len(), soaking.len());
        hours.push(row);
    }
    hours
}

/// The clusters that are not complete at the end, by phase, reason and what they name as their cause, as in `status.causes`; the largest
/// group first.
pub(super) fn causes((namespace, name): (&str, &str), clusters: &[ClusterForecast]) -> Vec<Cause> {
    let mut groups: BTreeMap<(Phase, &str, &str), Vec<&ClusterForecast>> = BTreeMap::new();
    for cluster in clusters.iter().filter(|cluster| cluster.phase != Phase::Complete) {
        let reason = cluster.reason.as_str();
        let told = subject(reason, own_words(&cluster.message));
        groups
            .entry((cluster.phase, reason, told))
            .or_default()
            .push(cluster);
    }
    let mut causes: Vec<Cause> = groups
        .into_iter()
        .filter_map(|((phase, reason, _), clusters)| {
            let example = clusters.first()?;
            let names = Names {
                namespace,
                name,
                cluster: &example.name,
            };
            Some(Cause {
                phase,
                reason: reason.to_owned(),
                clusters: clusters.len(),
                example: example.name.to_string(),
                message: example.message.to_string(),
                remedy: remedy::for_cluster(reason, phase, names),
            })
        })
        .collect();
    causes.sort_by(|a, b| {
        let key = |cause: &Cause| (cause.reason.clone(), cause.phase, cause.example.clone());
        b.clusters.cmp(&a.clusters).then_with(|| key(a).cmp(&key(b)))
    });
    causes
}

/// What happens to a cluster; at one time in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Starts,
    Releases,
    Ends,
}

/// How a rollout ends.
pub(super) fn verdict(played: &Forecast) -> Verdict {
    if played.outlook.complete {
        Verdict::Completes
    } else if played.outlook.stalled.is_some() {
        Verdict::Stalls
    } else {
        Verdict::Waits
    }
}

/// Clusters by their phase at the end.
pub(super) fn counts(clusters: &[ClusterForecast]) -> ClusterCounts {
    let with = |is: fn(Phase) -> bool| clusters.iter().filter(|cluster| is(cluster.phase)).count();
    let (complete, failed, blocked, left_out) = (
        with(|phase| phase == Phase::Complete),
        with(Phase::has_failed),
        with(|phase| phase == Phase::Blocked),
        with(Phase::is_left_out),
    );
    ClusterCounts {
        total: clusters.len(),
        complete,
        failed,
        blocked,
        left_out,
        waiting: clusters.len() - complete - failed - blocked - left_out,
    }
}

/// The clusters in the order of their starts.
pub(super) fn starts(played: &Forecast) -> Vec<Start> {
    let of = |name: &str| {
        let found = played
            .clusters
            .binary_search_by(|cluster| (*cluster.name).cmp(name));
        found.ok().map(|index| &played.clusters[index])
    };
    let starts = played.starts.iter();
    starts
        .map(|(at, name)| {
            let cluster = of(name);
            Start {
                cluster: name.to_string(),
                canary: cluster.is_some_and(|cluster| cluster.canary),
                started_at: *at,
                ended_at: cluster.and_then(|cluster| cluster.ended),
                phase: cluster.map_or(Phase::Pending, |cluster| cluster.phase),
            }
        })
        .collect()
}

/// What holds an upgrade.
pub(super) const fn held_by_text(hold: Hold) -> &'static str {
    match hold {
        Hold::Paused => "Paused",
        Hold::InvalidSpec => "InvalidSpec",
        Hold::Restored => "Restored",
    }
}

/// The reason of the condition Stalled.
pub(super) const fn stall_reason(stalled: StallReason) -> &'static str {
    match stalled {
        StallReason::Restored => reason::RESTORED,
        StallReason::NothingSelected => reason::NOTHING_SELECTED,
        StallReason::CanaryFailed => reason::CANARY_FAILED,
        StallReason::MaxFailuresExceeded => reason::MAX_FAILURES_EXCEEDED,
        StallReason::ClustersFailed => reason::CLUSTERS_FAILED,
        StallReason::ClustersBlocked => reason::CLUSTERS_BLOCKED,
        StallReason::NoWindow => reason::NO_WINDOW,
    }
}

/// The times that are used. Those of clusters with a past of their own are put together.
pub(super) fn times(timings: &Timings) -> Vec<UsedTime> {
    let mut all: BTreeMap<_, UsedTime> = BTreeMap::new();
    for (timing, clusters) in timings.used() {
        let (step, change, class) = timing.kind;
        let seconds = |share| timing.samples.quantile(share).num_seconds();
        let used = all
            .entry((step, change, class, timing.basis))
            .or_insert(UsedTime {
                step: name_of(step),
                update: (step == Step::Platform).then_some(match change {
                    VersionChange::Patch => "Patch",
                    VersionChange::Minor => "Minor",
                    VersionChange::Nothing => "None",
                }),
                class: (step == Step::Platform).then(|| class.as_str()),
                p50_seconds: 0,
                p90_seconds: 0,
                p95_seconds: 0,
                clusters: 0,
                basis: timing.basis.as_str(),
                samples: 0,
            });
        // Of several, the longest.
        used.p50_seconds = used.p50_seconds.max(seconds(0.5));
        used.p90_seconds = used.p90_seconds.max(seconds(0.9));
        used.p95_seconds = used.p95_seconds.max(seconds(0.95));
        used.clusters += clusters;
        used.samples += timing.measured;
    }
    all.into_values().collect()
}

/// The name of a step, as in reports.
pub(super) const fn name_of(step: Step) -> &'static str {
    match step {
        Step::PreAction => "PreAction",
        Step::Platform => "Platform",
        Step::Operators => "Operators",
        Step::PostAction => "PostAction",
    }
}

#[cfg(test)]
mod tests;
