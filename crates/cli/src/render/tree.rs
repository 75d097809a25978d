//! The live picture of one upgrade: how far it is, who is at work, and why others are not.
//!
//! It fits into the lines of the terminal: its three groups share the lines that are left, and the last line of a group says how
//! many clusters it leaves out. A group without room for its clusters still says how many there are.

use std::fmt::Write as _;

use api::conditions;
use api::estimate::UpgradeEstimate;
use api::maintenance::MaintenanceSummary;
use api::mcu::CauseGroup;
use api::message::count;
use api::report::{Outcome, Phase, ReportRow};
use api::time::to_chrono;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::Urgency;

use crate::age;
use crate::causes;
use crate::paint::{Paint, Tone};
use crate::render::approvals;
use crate::render::rehearse::seconds;
use crate::render::status::{answers, of_some, progress, slots, target};
use crate::render::{phase_tone, state_tone};
use crate::table::{Cell, Table, one_line};
use crate::upgrade::{Upgrade, changed_at};

/// Cells of the bar of one cluster.
const BAR: usize = 10;
/// Lines without which a group has only its title.
const FEWEST: usize = 2;

/// What the picture shows.
#[derive(Clone, Copy, Debug)]
pub struct Picture<'a> {
    /// The upgrade.
    pub upgrade: &'a Upgrade,
    /// Its rows, sorted by cluster. `None` while they are not known: the status then says what it can.
    pub rows: Option<&'a [&'a ReportRow]>,
    /// Why the picture may be out of date or lack clusters; empty if it does not.
    pub trouble: &'a str,
}

/// Renders the picture for a terminal with this number of lines.
#[must_use]
pub fn render(picture: Picture<'_>, lines: usize, now: DateTime<Utc>, paint: Paint) -> String {
    let mut text = head(picture, now, paint);
    let foot = foot(picture, paint);
    let used = text.lines().count() + foot.lines().count();
    text.push_str(&groups(picture, lines.saturating_sub(used), now, paint));
    text.push_str(&foot);
    text
}

fn head(picture: Picture<'_>, now: DateTime<Utc>, paint: Paint) -> String {
    let upgrade = picture.upgrade;
    let state = upgrade.state();
    let state = format!(
        "{}, {} old",
        paint.tone(state_tone(&state), &state),
        age::since(now, upgrade.created)
    );
    let mut fields = vec![
        ("Upgrade", format!("{}/{}", upgrade.namespace, upgrade.name)),
        ("Target", target(upgrade)),
        ("State", state),
    ];
    if let Some(status) = &upgrade.status {
        fields.push(("Progress", progress(upgrade.counts())));
        fields.push(("Slots", slot_bar(&slots(status))));
        if let Some(counts) = status.preflight {
            fields.push(("Preflight", answers(counts, paint)));
        }
        if let Some(windows) = status.maintenance.as_ref().filter(|windows| windows.waiting > 0) {
            fields.push(("Windows", windows_told(windows, now)));
        }
        if let Some(asked) = approvals::asked(upgrade, now) {
            fields.push(("Approval", paint.tone(Tone::Warn, &asked)));
        }
        if let Some(end) = status.estimate.as_ref().and_then(|estimate| eta(estimate, now)) {
            fields.push(("ETA", end + of_some(upgrade)));
        }
    }
    if let Some(rows) = picture.rows.filter(|rows| !rows.is_empty()) {
        fields.push(("Phases", phases(rows, paint)));
    }
    let stalled = upgrade.condition(conditions::STALLED);
    if let Some(stalled) = stalled.filter(|stalled| stalled.status == "True") {
        let since = age::since(now, changed_at(stalled));
        let text = format!(
            "{} for {since}: {}",
            one_line(&stalled.reason),
            one_line(&stalled.message)
        );
        fields.push(("Stalled", paint.tone(Tone::Bad, &text)));
    }
    let mut text = String::new();
    for (key, value) in fields {
        let _ = writeln!(text, "{:<11}{value}", format!("{key}:"));
    }
    text
}

/// How many clusters wait for their windows, and how long it is until the next opens.
fn windows_told(windows: &MaintenanceSummary, now: DateTime<Utc>) -> String {
    let waiting = count(usize::try_from(windows.waiting).unwrap_or(0), "cluster");
    let opens = windows.next_opening.as_ref().and_then(to_chrono);
    let opens = opens.map(|at| {
        let left = age::human((at - now).max(TimeDelta::zero()));
        format!("; the next opens in {left} ({})", seconds(at))
    });
    format!("{waiting} waiting{}", opens.unwrap_or_default())
}

/// How long it is until the end.
fn eta(estimate: &UpgradeEstimate, now: DateTime<Utc>) -> Option<String> {
    let (early, late) = (to_chrono(&estimate.p50)?, to_chrono(&estimate.p90)?);
    let left = |end: DateTime<Utc>| age::human(end - now);
    // Nothing estimates again while no cluster moves, so the end may have passed.
    Some(if late <= now {
        format!("any time now; it was expected before {}", seconds(late))
    } else if early <= now {
        format!("any time now, in nine of ten cases within {}", left(late))
    } else {
        let (p50, p90) = (left(early), left(late));
        format!("{p50} ({}), in nine of ten cases at most {p90}", seconds(early))
    })
}

/// One cell per slot, if there are few; `used` is a text such as `5/10`.
fn slot_bar(used: &str) -> String {
    let (in_use, all) = used.split_once('/').unwrap_or_default();
    let bar = match (in_use.parse::<usize>(), all.parse::<usize>()) {
        (Ok(in_use), Ok(all)) if (1..=40).contains(&all) => {
            let filled = in_use.min(all);
            format!("[{}{}] ", "#".repeat(filled), "-".repeat(all - filled))
        }
        _ => String::new(),
    };
    format!("{bar}{used} in use")
}

fn phases(rows: &[&ReportRow], paint: Paint) -> String {
    let mut counts = [0_usize; Phase::ALL.len()];
    for row in rows {
        counts[row.phase as usize] += 1;
    }
    let told: Vec<String> = Phase::ALL
        .into_iter()
        .filter(|phase| counts[*phase as usize] > 0)
        .map(|phase| {
            format!(
                "{} {}",
                counts[phase as usize],
                paint.tone(phase_tone(phase), phase.as_str())
            )
        })
        .collect();
    told.join(", ")
}

fn foot(picture: Picture<'_>, paint: Paint) -> String {
    let mut sentences = Vec::new();
    if !picture.upgrade.is_observed() {
        sentences.push("The controller has not processed the newest spec yet.".to_owned());
    }
    if let Some(error) = &picture.upgrade.unreadable {
        sentences.push(format!("The status cannot be read: {}", one_line(error)));
    }
    if !picture.trouble.is_empty() {
        sentences.push(format!("Warning: {}", one_line(picture.trouble)));
    }
    let mut text = String::new();
    for sentence in sentences {
        let _ = writeln!(text, "{}", paint.tone(Tone::Warn, &sentence));
    }
    text
}

/// The groups, in at most this many lines. Each begins with an empty line and a title.
fn groups(picture: Picture<'_>, lines: usize, now: DateTime<Utc>, paint: Paint) -> String {
    let rows = picture.rows.unwrap_or_default();
    let (mut canaries, mut running) = (Vec::new(), Vec::new());
    for row in rows {
        if row.canary {
            canaries.push(*row);
        } else if row.phase.is_at_work() {
            running.push(*row);
        }
    }
    let complete = canaries.iter().filter(|row| row.phase == Phase::Complete).count();
    let of_canaries = format!("Canaries: {complete} of {} complete", canaries.len());
    let of_running = format!("Running: {}", running.len());
    canaries.sort_by_key(|row| (row.phase == Phase::Complete, row.phase != Phase::Failed));
    running.sort_by_key(|row| started(row));
    let causes = match picture.rows {
        Some(rows) => causes::of_rows(picture.upgrade, rows.iter().copied()),
        None => causes::of_status(picture.upgrade),
    };
    // Each group that is not empty has an empty line and a title, and the clusters share the line of the headers.
    let wants = [canaries.len(), running.len(), causes.len()];
    let titles: usize = wants.iter().filter(|want| **want > 0).count() * 2 + 1;
    let of_causes = format!("Causes: {}", causes.len());
    let mut text = String::new();
    if lines < titles {
        let told = [of_canaries, of_running, of_causes].into_iter().zip(wants);
        let told: Vec<String> = told
            .filter_map(|(title, want)| (want > 0).then_some(title))
            .collect();
        if lines >= 2 && !told.is_empty() {
            let _ = writeln!(text, "\n{}", told.join(", "));
        }
        return text;
    }
    let shares = shares(wants, lines - titles);
    let mut table = Table::new(&["CLUSTER", "PHASE", "PROGRESS", "ELAPSED", "CAUSE"]);
    for (title, rows, lines) in [
        (of_canaries, &canaries, shares[0]),
        (of_running, &running, shares[1]),
    ] {
        if !rows.is_empty() {
            table.title(title);
            push(&mut table, rows, lines, now);
        }
    }
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table.render(paint, 0));
    }
    if shares[2] > 0 {
        text.push_str(&cause_table(&causes, shares[2], paint));
    } else if !causes.is_empty() {
        let _ = writeln!(text, "\n{of_causes}");
    }
    text
}

/// Divides lines among groups that want some: none gets more than it wants, and what one leaves the others get. A group for which too few
/// are left gets none.
fn shares<const N: usize>(mut wants: [usize; N], lines: usize) -> [usize; N] {
    loop {
        let given = divided(wants, lines);
        let short = (0..N)
            .rev()
            .find(|group| given[*group] < FEWEST.min(wants[*group]));
        let Some(group) = short else {
            return given;
        };
        wants[group] = 0;
    }
}

/// One line after the other to each group that wants more.
fn divided<const N: usize>(wants: [usize; N], lines: usize) -> [usize; N] {
    let mut given = [0; N];
    let mut left = lines;
    while left > 0 {
        let open: Vec<usize> = (0..N).filter(|group| given[*group] < wants[*group]).collect();
        if open.is_empty() {
            break;
        }
        for group in open.into_iter().take(left) {
            given[group] += 1;
            left -= 1;
        }
    }
    given
}

/// The first rows, and how many follow, in this number of lines; nothing in none.
fn push(table: &mut Table, rows: &[&ReportRow], lines: usize, now: DateTime<Utc>) {
    if lines == 0 {
        return;
    }
    let (shown, left_out) = fit(rows.len(), lines);
    for (number, row) in rows.iter().take(shown).enumerate() {
        let branch = branch(number + 1 == shown && left_out == 0);
        table.push(vec![
            format!("{branch} {}", row.cluster).into(),
            Cell::toned(phase_tone(row.phase), row.phase.as_str()),
            bar(row).into(),
            elapsed(row, now).into(),
            cause(row).into(),
        ]);
    }
    if left_out > 0 {
        table.push(vec![format!("{} {left_out} more", branch(true)).into()]);
    }
}

fn cause_table(causes: &[CauseGroup], lines: usize, paint: Paint) -> String {
    let mut table = Table::new(&["CAUSE", "PHASE", "CLUSTERS", "EXAMPLE"]);
    let (shown, left_out) = fit(causes.len(), lines);
    for (number, cause) in causes.iter().take(shown).enumerate() {
        let branch = branch(number + 1 == shown && left_out == 0);
        let example = if cause.message.is_empty() {
            cause.example.clone()
        } else {
            format!("{}: {}", cause.example, cause.message)
        };
        table.push(vec![
            format!("{branch} {}", cause.reason).into(),
            Cell::toned(phase_tone(cause.phase), cause.phase.as_str()),
            cause.clusters.to_string().into(),
            example.into(),
        ]);
    }
    if left_out > 0 {
        table.push(vec![format!("{} {left_out} more", branch(true)).into()]);
    }
    format!("\n{}", table.render(paint, 0))
}

/// How many of these entries fit into lines, and how many are left out, for which the last line is needed.
const fn fit(entries: usize, lines: usize) -> (usize, usize) {
    if entries <= lines {
        (entries, 0)
    } else {
        let shown = lines.saturating_sub(1);
        (shown, entries - shown)
    }
}

const fn branch(last: bool) -> &'static str {
    if last {
        "\u{2514}\u{2500}"
    } else {
        "\u{251c}\u{2500}"
    }
}

fn started(row: &ReportRow) -> DateTime<Utc> {
    row.steps.first().map_or(row.since, |step| step.started_at)
}

/// From the start of the first step until now, or until the last step ended.
pub(super) fn elapsed(row: &ReportRow, now: DateTime<Utc>) -> String {
    if row.steps.is_empty() {
        return String::new();
    }
    let is_open = row.phase.is_at_work() || row.phase == Phase::PreActionDegraded;
    let ended = row.steps.iter().filter_map(|step| step.finished_at).max();
    let until = if is_open { now } else { ended.unwrap_or(now) };
    let length = until - started(row);
    age::human(length.max(TimeDelta::zero()))
}

/// A bar of the step that is running, if the cluster says how far it is, or else the name of the step.
fn bar(row: &ReportRow) -> String {
    if row.phase == Phase::Complete {
        return filled(1, 1);
    }
    if let Some((done, total)) = done(&row.message).filter(|_| row.phase.is_at_work()) {
        return format!("{} {done}/{total}", filled(done, total));
    }
    let open = row.steps.iter().rev().find(|step| step.finished_at.is_none());
    let failed = || {
        let mut steps = row.steps.iter().rev();
        steps.find(|step| step.outcome == Some(Outcome::Failed))
    };
    open.or_else(failed)
        .map_or_else(String::new, |step| format!("{:?}", step.name))
}

/// Rounded down, so that a full bar means that all is done.
fn filled(done: usize, total: usize) -> String {
    let cells = (done.min(total) * BAR) / total.max(1);
    format!("[{}{}]", "#".repeat(cells), "-".repeat(BAR - cells))
}

/// The numbers of `Working towards 4.18.2: 512 of 830 done`, which the cluster-version operator writes. They are only shown.
fn done(message: &str) -> Option<(usize, usize)> {
    let (before, after) = message.split_once(" of ")?;
    let done = before.rsplit(' ').next()?.parse().ok()?;
    let (total, rest) = after.split_once(' ')?;
    let total = total
        .parse()
        .ok()
        .filter(|total| *total > 0 && *total < 1_000_000)?;
    rest.starts_with("done").then_some((done, total))
}

/// Reason and message. That a step is running is no cause, and the bar shows how far.
fn cause(row: &ReportRow) -> String {
    if row.phase.is_at_work() && Urgency::of_row(row.phase, &row.reason).is_none() {
        let waiting = row.message.split_once("waiting ").map(|(_, rest)| rest);
        return waiting.map_or_else(String::new, |rest| format!("waiting {rest}"));
    }
    match (row.reason.is_empty(), row.message.is_empty()) {
        (true, _) => row.message.clone(),
        (false, true) => row.reason.clone(),
        (false, false) => format!("{}: {}", row.reason, row.message),
    }
}

#[cfg(test)]
mod tests;
