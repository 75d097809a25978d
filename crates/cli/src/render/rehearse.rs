//! A rehearsal as text, JSON and YAML.

use std::fmt::Write as _;

use api::message::count;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use serde_json::Value;

use crate::age;
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::rehearse::outcome::{Cause, ClusterCounts, Rehearsal, Source, Start, Timeline, UsedTime, Verdict};
use crate::remedy::{self, Names};
use crate::render::objects::machine;
use crate::render::phase_tone;
use crate::table::{Cell, Table, lines, one_line, or_none};

/// Number of starts that are shown without `-o wide`.
const SHOWN_STARTS: usize = 10;
/// Largest number of rows of the timeline.
const MAX_ROWS: usize = 48;
/// Longest bar of the timeline, in characters.
const BAR: usize = 30;

/// Renders a rehearsal in the requested format.
#[must_use]
pub fn render(rehearsal: &Rehearsal, output: Option<Output>, paint: Paint) -> String {
    if output == Some(Output::Name) {
        return lines(rehearsal.starts.iter().map(|start| one_line(&start.cluster)));
    }
    machine(output, || value(rehearsal))
        .unwrap_or_else(|| text(rehearsal, output == Some(Output::Wide), paint))
}

fn value(rehearsal: &Rehearsal) -> Value {
    serde_json::to_value(rehearsal).unwrap_or_default()
}

fn text(rehearsal: &Rehearsal, wide: bool, paint: Paint) -> String {
    let mut text = summary(rehearsal, paint);
    let mut section = |heading: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(text, "\n{}\n{body}", paint.tone(Tone::Bold, heading));
        }
    };
    section("Timeline:", hours(&rehearsal.timeline, rehearsal.begin, paint));
    section(
        "Order of starts:",
        order(&rehearsal.starts, rehearsal.begin, wide, paint),
    );
    section("Not complete at the end:", causes(&rehearsal.causes, paint));
    section("Durations:", times(&rehearsal.durations, paint));
    section("Notes:", listed(rehearsal.notes.iter().map(String::as_str)));
    section("Not modelled:", listed(rehearsal.not_modelled));
    text
}

pub(super) fn listed<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    lines(items.into_iter().map(|item| format!("  - {}", one_line(item))))
}

fn at(rehearsal: &Rehearsal, time: DateTime<Utc>) -> String {
    moment(rehearsal.begin, time)
}

/// A time, and how long after the begin it is, to the minute.
pub(super) fn moment(begin: DateTime<Utc>, time: DateTime<Utc>) -> String {
    let after = time - begin;
    let (days, hours, minutes) = (after.num_days(), after.num_hours() % 24, after.num_minutes() % 60);
    let after = match (days, after.num_hours()) {
        (0, 0..8) => age::human(after),
        (0, _) => format!("{hours}h{minutes}m"),
        _ => format!("{days}d{hours}h{minutes}m"),
    };
    format!("{} (after {after})", seconds(time))
}

pub(crate) fn seconds(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn summary(rehearsal: &Rehearsal, paint: Paint) -> String {
    let counts = rehearsal.clusters;
    let mut fields = vec![
        (
            "Upgrade",
            one_line(&format!("{}/{}", rehearsal.namespace, rehearsal.upgrade)),
        ),
        ("Target", or_none(&one_line(&rehearsal.target)).to_owned()),
        ("Begin", begin(rehearsal)),
        ("Result", result(rehearsal, paint)),
    ];
    if let Some(estimate) = rehearsal.estimate {
        for (key, time) in [
            ("End p50", estimate.p50),
            ("End p80", estimate.p80),
            ("End p95", estimate.p95),
        ] {
            fields.push((key, at(rehearsal, time)));
        }
    }
    fields.push(("Clusters", clusters(counts)));
    fields.push((
        "Slots",
        format!(
            "{}, of which {} are held at the peak",
            rehearsal.slots, rehearsal.peak
        ),
    ));
    if counts.total > 0 {
        fields.extend(canaries(rehearsal).map(|text| ("Canaries", text)));
        fields.extend(max_failures(rehearsal).map(|text| ("maxFailures", text)));
    }
    let width = fields.iter().map(|(key, _)| key.len()).max().unwrap_or_default() + 2;
    lines(
        fields
            .iter()
            .map(|(key, value)| format!("{:<width$}{value}", format!("{key}:"))),
    )
}

/// How many clusters end where.
pub(super) fn clusters(counts: ClusterCounts) -> String {
    let mut text = format!(
        "{}: {} complete, {} failed, {} blocked, {} waiting",
        counts.total, counts.complete, counts.failed, counts.blocked, counts.waiting
    );
    if counts.left_out > 0 {
        let _ = write!(text, ", {} left out", counts.left_out);
    }
    text
}

/// The clusters that an upgrade completes when it is complete.
pub(super) const fn every_cluster(counts: ClusterCounts) -> &'static str {
    if counts.left_out > 0 {
        "every cluster that is not left out"
    } else {
        "every cluster"
    }
}

fn begin(rehearsal: &Rehearsal) -> String {
    let what = match (rehearsal.source, rehearsal.held_by.as_deref()) {
        (Source::File, None) => ", as if the file were applied then".to_owned(),
        (Source::File, Some(held)) => {
            format!(", as if the file were applied and the upgrade resumed then (now: {held})")
        }
        (Source::Hub, None) => String::new(),
        (Source::Hub, Some(held)) => format!(", as if the upgrade were resumed then (now: {held})"),
    };
    format!("{}{what}", seconds(rehearsal.begin))
}

fn result(rehearsal: &Rehearsal, paint: Paint) -> String {
    let verdict = match rehearsal.verdict {
        Verdict::Completes => paint.tone(Tone::Good, "Completes"),
        Verdict::Stalls => paint.tone(Tone::Bad, "Stalls"),
        Verdict::Waits => paint.tone(Tone::Warn, "Waits"),
    };
    let names = Names {
        namespace: &rehearsal.namespace,
        name: &rehearsal.upgrade,
        cluster: "",
    };
    let why = match (rehearsal.verdict, &rehearsal.stalled) {
        (Verdict::Completes, _) => {
            let when = match rehearsal.estimate {
                None => "already",
                Some(_) => "at the end",
            };
            format!(": {} is complete {when}", every_cluster(rehearsal.clusters))
        }
        (Verdict::Waits, _) => {
            ": not every cluster completes, because some wait for what the rehearsal does not change; see below".to_owned()
        }
        (Verdict::Stalls, None) => String::new(),
        (Verdict::Stalls, Some(reason)) => {
            let has = |phase| rehearsal.causes.iter().any(|cause| cause.phase == phase);
            let remedy = remedy::for_upgrade(reason, names, has).unwrap_or_default();
            format!(": {reason}. {remedy}").trim_end().to_owned()
        }
    };
    verdict + &why
}

fn canaries(rehearsal: &Rehearsal) -> Option<String> {
    let canaries = rehearsal.canaries?;
    let open = match canaries.complete_at {
        _ if canaries.clusters == 0 => "so no cluster starts".to_owned(),
        None => "never all complete, so no other cluster starts".to_owned(),
        Some(time) => format!(
            "complete at {}; then the other clusters start",
            at(rehearsal, time)
        ),
    };
    let estimate = rehearsal
        .estimate
        .filter(|estimate| estimate.stopped_by_canary > 0);
    let stopped = estimate.map_or_else(String::new, |estimate| {
        let (stopped, draws) = (estimate.stopped_by_canary, estimate.draws);
        format!("; a failed canary stops the upgrade in {stopped} of {draws} draws")
    });
    Some(format!("{}, {open}{stopped}", canaries.clusters))
}

fn max_failures(rehearsal: &Rehearsal) -> Option<String> {
    let limit = rehearsal.max_failures?;
    let exceeded = limit.exceeded_at.map_or_else(
        || "not exceeded in this rehearsal".to_owned(),
        |time| format!("exceeded at {}", at(rehearsal, time)),
    );
    let stopped = rehearsal.estimate.and_then(|estimate| {
        let half = at(rehearsal, estimate.max_failures_exceeded_p50?);
        let (stopped, draws) = (estimate.stopped_by_max_failures, estimate.draws);
        Some(format!(
            "; stops the upgrade in {stopped} of {draws} draws, in half of them by {half}"
        ))
    });
    Some(format!(
        "{}, {exceeded}{}",
        limit.limit,
        stopped.unwrap_or_default()
    ))
}

/// The timeline, of which several hours make one row if it is long. Rows in which nothing changes are left out.
pub(super) fn hours(hours: &[Timeline], begin: DateTime<Utc>, paint: Paint) -> String {
    let step = hours.len().div_ceil(MAX_ROWS).max(1);
    let mut before = (0, 0);
    let mut left_out = 0;
    let mut rows: Vec<Timeline> = hours.chunks(step).filter_map(sum).collect();
    rows.retain(|row| {
        let now = (row.in_flight, row.soaking);
        let changes = row.started + row.completed + row.failed > 0 || now != before;
        before = now;
        left_out += usize::from(!changes);
        changes
    });
    if rows.is_empty() {
        return "  No cluster moves.\n".to_owned();
    }
    let most = rows
        .iter()
        .map(|row| row.in_flight)
        .max()
        .unwrap_or_default()
        .max(1);
    let mut table = Table::new(&[
        "FROM",
        "AFTER",
        "STARTED",
        "COMPLETE",
        "FAILED",
        "IN FLIGHT",
        "SOAKING",
        "",
    ]);
    for row in rows {
        table.push(vec![
            seconds(row.from).into(),
            age::human(row.from - begin).into(),
            row.started.to_string().into(),
            row.completed.to_string().into(),
            row.failed.to_string().into(),
            row.in_flight.to_string().into(),
            row.soaking.to_string().into(),
            "#".repeat((row.in_flight * BAR).div_ceil(most)).into(),
        ]);
    }
    let mut text = table.render(paint, 2);
    if left_out > 0 {
        let _ = writeln!(
            text,
            "  Left out: {} in which nothing changes",
            count(left_out, "row")
        );
    }
    text
}

/// The sum of several hours; how many clusters are in flight or soak is that of the last one.
fn sum(hours: &[Timeline]) -> Option<Timeline> {
    let (first, last) = (hours.first()?, hours.last()?);
    let total = |of: fn(&Timeline) -> usize| hours.iter().map(of).sum();
    Some(Timeline {
        from: first.from,
        started: total(|hour| hour.started),
        completed: total(|hour| hour.completed),
        failed: total(|hour| hour.failed),
        in_flight: last.in_flight,
        soaking: last.soaking,
    })
}

/// The order of the starts, or its beginning.
pub(super) fn order(all: &[Start], begin: DateTime<Utc>, wide: bool, paint: Paint) -> String {
    if all.is_empty() {
        return String::new();
    }
    let shown: &[Start] = if wide {
        all
    } else {
        &all[..all.len().min(SHOWN_STARTS)]
    };
    let mut table = Table::new(&["CLUSTER", "STARTS", "AFTER", "ENDS AFTER", "PHASE"]);
    for start in shown {
        let mark = if start.canary { " (canary)" } else { "" };
        let ended = start.ended_at.map(|ended| age::human(ended - begin));
        table.push(vec![
            format!("{}{mark}", start.cluster).into(),
            seconds(start.started_at).into(),
            age::human(start.started_at - begin).into(),
            ended.unwrap_or_else(|| "<none>".to_owned()).into(),
            Cell::toned(phase_tone(start.phase), start.phase.as_str()),
        ]);
    }
    let mut text = table.render(paint, 2);
    if let Some(more) = all.len().checked_sub(shown.len()).filter(|more| *more > 0) {
        let _ = writeln!(text, "  and {more} more; -o wide shows all");
    }
    text
}

/// The groups of clusters that are not complete.
pub(super) fn causes(causes: &[Cause], paint: Paint) -> String {
    let mut text = String::new();
    for cause in causes {
        let phase = paint.tone(phase_tone(cause.phase), cause.phase.as_str());
        let _ = writeln!(
            text,
            "  {}: {phase}, {}, such as {}\n    {}\n    {}",
            count(cause.clusters, "cluster"),
            or_none(&one_line(&cause.reason)),
            one_line(&cause.example),
            or_none(&one_line(&cause.message)),
            one_line(&cause.remedy)
        );
    }
    text
}

/// How long the steps take.
pub(super) fn times(times: &[UsedTime], paint: Paint) -> String {
    if times.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&[
        "STEP", "UPDATE", "SIZE", "P50", "P90", "CLUSTERS", "SAMPLES", "FROM",
    ]);
    for time in times {
        let long = |seconds| age::human(TimeDelta::seconds(seconds));
        // Those of operators and actions are none of OpenShift updates.
        let from = match (time.basis, time.update) {
            ("Usual", None) => "usual times".to_owned(),
            (known, _) => basis(known, 0),
        };
        table.push(vec![
            time.step.into(),
            time.update.unwrap_or("<none>").into(),
            time.class.unwrap_or("<none>").into(),
            long(time.p50_seconds).into(),
            long(time.p90_seconds).into(),
            time.clusters.to_string().into(),
            time.samples.to_string().into(),
            from.into(),
        ]);
    }
    table.render(paint, 2)
}

/// Where times come from, and how many were measured, if any.
pub(super) fn basis(basis: &str, samples: usize) -> String {
    let what = match basis {
        "Given" => "the file of durations",
        "Upgrade" => "finished clusters of this upgrade, of the same size",
        "History" => "past updates of the clusters themselves",
        "Hub" => "finished clusters of other upgrades",
        "AtTarget" => "clusters that run the target already",
        "Spec" => "the soak time of the spec",
        _ => "usual times of OpenShift updates",
    };
    if samples == 0 {
        return what.to_owned();
    }
    format!("{what} ({})", count(samples, "time"))
}
