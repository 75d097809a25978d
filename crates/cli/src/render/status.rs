//! The view of one upgrade: progress, slots, canaries, what it is waiting for, and what to do.

use std::fmt::Write as _;

use api::conditions;
use api::estimate::UpgradeEstimate;
use api::maintenance::MaintenanceSummary;
use api::mcu::{ActionSummary, CauseGroup, ClusterNote, ClustersSummary, ManagedClustersUpgradeStatus};
use api::message::count;
use api::preflight::PreflightSummary;
use api::report::Phase;
use api::time::to_chrono;
use api::validate::parse_limit;
use chrono::{DateTime, Utc};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Deserialize as _;

use crate::age;
use crate::paint::{Paint, Tone};
use crate::remedy::{self, Names};
use crate::render::approvals;
use crate::render::rehearse::seconds;
use crate::render::{phase_tone, state_tone};
use crate::table::{Cell, Table, lines, one_line, or_none};
use crate::upgrade::{NotStarted, Upgrade, changed_at};

const BAR: usize = 24;

/// Renders one upgrade. With `wide`, it shows every condition, not only the important ones.
#[must_use]
pub fn render(upgrade: &Upgrade, wide: bool, now: DateTime<Utc>, paint: Paint) -> String {
    let mut text = String::new();
    field(&mut text, "Name", &upgrade.name);
    field(&mut text, "Namespace", &upgrade.namespace);
    field(&mut text, "Target", &target(upgrade));
    let state = upgrade.state();
    field(&mut text, "State", &paint.tone(state_tone(&state), &state));
    field(&mut text, "Age", &age::since(now, upgrade.created));
    if let Some(error) = &upgrade.unreadable {
        let error = one_line(error);
        let _ = writeln!(
            text,
            "\nThe status cannot be read: {error}. Update the plugin, or make sure that only the controller writes the status."
        );
        return text;
    }
    let Some(status) = &upgrade.status else {
        text.push_str("\nThe controller has not processed this upgrade yet.\n");
        return text;
    };
    text.push('\n');
    counts(&mut text, upgrade, status, now, paint);
    text.push_str(&conditions_table(upgrade, wide, now, paint));
    let left_out = status.truncated.unwrap_or_default();
    let failed = Notes {
        title: "Failed clusters:",
        clusters: &status.failed_clusters,
        left_out: left_out.failed,
    };
    let waiting = Notes {
        title: "Waiting clusters:",
        clusters: &status.waiting_clusters,
        left_out: left_out.waiting,
    };
    text.push_str(&causes(&status.causes, paint));
    text.push_str(&failed.render(upgrade, now, paint));
    text.push_str(&waiting.render(upgrade, now, paint));
    text.push_str(&advice(upgrade, paint));
    text
}

/// One line for logs. It contains only what changes during an upgrade.
#[must_use]
pub fn line(upgrade: &Upgrade) -> String {
    let mut parts = vec![upgrade.state()];
    let Some(status) = &upgrade.status else {
        let unread = upgrade.unreadable.is_some();
        parts.push(
            if unread {
                "the status cannot be read"
            } else {
                "not processed yet"
            }
            .to_owned(),
        );
        return parts.join("  ");
    };
    let clusters = upgrade.counts();
    parts.push(format!("{}/{} complete", clusters.complete, clusters.total));
    if let Some(canaries) = upgrade.canaries().filter(|canaries| canaries.total > 0) {
        parts.push(format!("canaries {}/{}", canaries.complete, canaries.total));
    }
    parts.extend(numbers(status, clusters));
    if let Some(stalled) = upgrade
        .condition(conditions::STALLED)
        .filter(|stalled| stalled.status == "True")
    {
        parts.push(format!(
            "Stalled ({}): {}",
            stalled.reason,
            one_line(&stalled.message)
        ));
    }
    if !upgrade.is_observed() {
        parts.push("newest spec not processed yet".to_owned());
    }
    parts.join("  ")
}

/// How many clusters are where, such that every cluster that is not complete counts once. `clustersSummery` counts those in their
/// pre-action as pending, although they hold a slot, so the phases count. An older controller wrote none.
fn numbers(status: &ManagedClustersUpgradeStatus, clusters: ClustersSummary) -> Vec<String> {
    if status.phases.is_empty() {
        return vec![
            format!("in flight {}", slots(status)),
            format!("failed {}", clusters.failed),
            format!("pending {}", clusters.pending),
        ];
    }
    let with = |is| in_phases(status, is);
    let in_flight = with(Phase::holds_slot);
    let finishing = with(|phase| phase.is_at_work() && !phase.holds_slot());
    let degraded = with(|phase| phase == Phase::PreActionDegraded);
    let failed = with(|phase| phase == Phase::Failed);
    let complete = with(|phase| phase == Phase::Complete);
    let (skipped, aborted) = (
        with(|phase| phase == Phase::Skipped),
        with(|phase| phase == Phase::Aborted),
    );
    // A phase of a newer release counts as pending.
    let total: i64 = status.phases.values().sum();
    let pending = total - complete - in_flight - finishing - degraded - failed - skipped - aborted;
    let mut parts = vec![format!("in flight {in_flight}/{}", size(status))];
    parts.extend((finishing > 0).then(|| format!("finishing {finishing}")));
    parts.push(format!("failed {failed}"));
    parts.extend((degraded > 0).then(|| format!("degraded {degraded}")));
    parts.push(format!("pending {pending}"));
    parts.extend((skipped > 0).then(|| format!("skipped {skipped}")));
    parts.extend((aborted > 0).then(|| format!("aborted {aborted}")));
    parts
}

pub(super) fn target(upgrade: &Upgrade) -> String {
    let channel = upgrade.spec_text("/clusterVersion/channel");
    one_line(&if channel.is_empty() {
        upgrade.target()
    } else {
        format!("{} (channel {channel})", upgrade.target())
    })
}

fn field(text: &mut String, key: &str, value: &str) {
    let _ = writeln!(text, "{:<14}{value}", format!("{key}:"));
}

fn counts(
    text: &mut String,
    upgrade: &Upgrade,
    status: &ManagedClustersUpgradeStatus,
    now: DateTime<Utc>,
    paint: Paint,
) {
    let clusters = upgrade.counts();
    field(text, "Progress", &progress(clusters));
    if let Some(canaries) = upgrade.canaries().filter(|canaries| canaries.total > 0) {
        field(text, "Canaries", &canary_counts(canaries, paint));
    }
    field(
        text,
        "Slots",
        &format!("{} in use{}", slots(status), kept(status)),
    );
    if let Some(preflight) = status.preflight {
        field(text, "Preflight", &answers(preflight, paint));
    }
    if let Some(windows) = status.maintenance.as_ref().filter(|windows| windows.waiting > 0) {
        field(text, "Windows", &waiting(windows));
    }
    if let Some(asked) = approvals::asked(upgrade, now) {
        field(text, "Approval", &asked);
    }
    if let Some(estimate) = &status.estimate {
        field(
            text,
            "ETA",
            &format!("{}{}", eta(estimate, now), of_some(upgrade)),
        );
    }
    field(text, "Failed", &alarming(clusters.failed, paint));
    let not_started = NotStarted::of(status);
    field(text, "Pending", &not_started.pending.to_string());
    for (clusters, phase) in not_started.left_out() {
        field(text, phase.as_str(), &clusters.to_string());
    }
    for (key, spec_field, summary) in [
        (
            "Pre-action",
            "preUpgradeAction",
            status.pre_upgrade_action_summary,
        ),
        (
            "Post-action",
            "postUpgradeAction",
            status.post_upgrade_action_summary,
        ),
    ] {
        if upgrade.has_action(spec_field) {
            field(text, key, &action_counts(summary.unwrap_or_default(), paint));
        }
    }
}

pub(super) fn progress(counts: ClustersSummary) -> String {
    let (done, total) = (counts.complete.max(0), counts.total.max(0));
    if total == 0 {
        return "no clusters selected".to_owned();
    }
    let percent = done.saturating_mul(100) / total;
    let cells = i64::try_from(BAR).unwrap_or_default();
    // Rounded down, so that a full bar means that every cluster is complete.
    let filled = usize::try_from(done.saturating_mul(cells) / total)
        .unwrap_or_default()
        .min(BAR);
    format!(
        "[{}{}] {done}/{total} complete ({percent}%)",
        "#".repeat(filled),
        "-".repeat(BAR - filled)
    )
}

/// When the upgrade ends, and what that is known from. Nothing estimates again while no cluster moves, so the end may have passed.
fn eta(estimate: &UpgradeEstimate, now: DateTime<Utc>) -> String {
    let time = |time| to_chrono(time).map(seconds).unwrap_or_default();
    let has_passed = |time| to_chrono(time).is_some_and(|time| time <= now);
    let samples = match estimate.samples {
        0 => String::new(),
        samples => format!(", {samples} samples"),
    };
    let early = if has_passed(&estimate.p50) {
        "any time now".to_owned()
    } else {
        time(&estimate.p50)
    };
    let late = time(&estimate.p90);
    let late = if has_passed(&estimate.p90) {
        format!("; it was expected before {late}")
    } else {
        format!(", in nine of ten cases before {late}")
    };
    format!("{early}{late} (basis: {}{samples})", one_line(&estimate.basis))
}

/// What an estimate does not speak of: clusters that do not start because others failed. Empty if there are none.
pub(super) fn of_some(upgrade: &Upgrade) -> &'static str {
    if starts_are_stopped(upgrade) {
        "; only of clusters in flight, as failures stop the others"
    } else {
        ""
    }
}

/// True when clusters do not start because others failed: a canary, or more of the others than `maxFailures` allows. The counts say so,
/// because the causes of the status may leave out the group of those that wait. A degraded canary lets no other cluster start either.
#[must_use]
pub fn starts_are_stopped(upgrade: &Upgrade) -> bool {
    let Some(status) = &upgrade.status else {
        return false;
    };
    let with = |is| in_phases(status, is);
    let all = upgrade.counts();
    let failed_canaries = upgrade.canaries().unwrap_or_default().failed;
    let failed = all.failed - failed_canaries + with(|phase| phase == Phase::PreActionDegraded);
    let limit = upgrade.object.pointer("/spec/upgradeStrategy/maxFailures");
    let limit = limit.and_then(|limit| parse_limit(&IntOrString::deserialize(limit).ok()?, 0));
    let number = |clusters: i64| usize::try_from(clusters).unwrap_or_default();
    let is_exceeded = limit.is_some_and(|limit| number(failed) > limit.of(number(all.total)));
    with(|phase| phase == Phase::Pending) > 0 && (failed_canaries > 0 || is_exceeded)
}

/// How many clusters wait for their maintenance windows, and when the next one opens.
fn waiting(windows: &MaintenanceSummary) -> String {
    let clusters = count(usize::try_from(windows.waiting).unwrap_or(0), "cluster");
    let opens = windows.next_opening.as_ref().and_then(to_chrono);
    let opens = opens.map(|at| format!("; the next window opens at {}", seconds(at)));
    format!("{clusters} waiting{}", opens.unwrap_or_default())
}

/// What the clusters that have not started say to the update.
pub(super) fn answers(counts: PreflightSummary, paint: Paint) -> String {
    let mut text = format!(
        "{} ready, {} blocked, {} unknown",
        counts.ready,
        alarming(counts.blocked, paint),
        counts.unknown
    );
    if counts.unsupported > 0 {
        text = format!("{text}, {} cannot be asked", alarming(counts.unsupported, paint));
    }
    text
}

fn canary_counts(counts: ClustersSummary, paint: Paint) -> String {
    let mut text = format!("{}/{} complete", counts.complete, counts.total);
    if counts.failed > 0 {
        let _ = write!(text, ", {} failed", alarming(counts.failed, paint));
    }
    text
}

fn action_counts(counts: ActionSummary, paint: Paint) -> String {
    format!(
        "{} of {} done, {} running, {} degraded",
        counts.available,
        counts.total,
        counts.progressing,
        alarming(counts.degraded, paint)
    )
}

/// How many slots are in use, of how many. The slot of a cluster that has just ended is kept for a moment, which is no news to a reader.
pub(super) fn slots(status: &ManagedClustersUpgradeStatus) -> String {
    let used = if status.phases.is_empty() {
        status.in_flight.unwrap_or_default()
    } else {
        in_phases(status, Phase::holds_slot)
    };
    format!("{used}/{}", size(status))
}

/// What keeps clusters from starting although slots are not in use: those that are held until reports are written, for example while the
/// hub refuses them, or of clusters that were dropped. Empty as long as there are free ones.
fn kept(status: &ManagedClustersUpgradeStatus) -> String {
    let held = status.in_flight.unwrap_or_default();
    let kept = held - in_phases(status, Phase::holds_slot);
    let is_full = status.effective_max_concurrency.is_some_and(|all| held >= all);
    if status.phases.is_empty() || kept <= 0 || !is_full {
        return String::new();
    }
    format!(", and {kept} held until the reports tell what became of their clusters")
}

/// How many clusters are in such a phase.
fn in_phases(status: &ManagedClustersUpgradeStatus, is: fn(Phase) -> bool) -> i64 {
    let phases = Phase::ALL.into_iter().filter(|phase| is(*phase));
    phases.filter_map(|phase| status.phases.get(phase.as_str())).sum()
}

fn size(status: &ManagedClustersUpgradeStatus) -> String {
    let size = status.effective_max_concurrency;
    size.map_or_else(|| "?".to_owned(), |size| size.to_string())
}

fn alarming(count: i64, paint: Paint) -> String {
    let tone = if count > 0 { Tone::Bad } else { Tone::Plain };
    paint.tone(tone, &count.to_string())
}

/// Whether a condition is important to the reader: Ready always is, the others if they differ from those of a healthy upgrade.
fn matters(condition: &Condition) -> bool {
    match condition.type_.as_str() {
        conditions::READY => true,
        conditions::STALLED | conditions::FAILED => condition.status == "True",
        conditions::SELECTED => {
            condition.status != "True" || conditions::has_selection_notes(&condition.message)
        }
        _ => false,
    }
}

fn conditions_table(upgrade: &Upgrade, wide: bool, now: DateTime<Utc>, paint: Paint) -> String {
    let mut table = Table::new(&["TYPE", "STATUS", "REASON", "AGE", "MESSAGE"]);
    let all = upgrade.status.iter().flat_map(|status| &status.conditions);
    for condition in all.filter(|condition| wide || matters(condition)) {
        let is_true = condition.status == "True";
        let tone = match condition.type_.as_str() {
            conditions::STALLED | conditions::FAILED if is_true => Tone::Bad,
            conditions::READY if is_true => Tone::Good,
            _ => Tone::Plain,
        };
        table.push(vec![
            condition.type_.as_str().into(),
            Cell::toned(tone, condition.status.as_str()),
            condition.reason.as_str().into(),
            age::since(now, changed_at(condition)).into(),
            condition.message.as_str().into(),
        ]);
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "\n{}\n{}",
        paint.tone(Tone::Bold, "Conditions:"),
        table.render(paint, 2)
    )
}

/// Why clusters failed or wait, in groups.
fn causes(groups: &[CauseGroup], paint: Paint) -> String {
    if groups.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["CAUSE", "PHASE", "CLUSTERS", "EXAMPLE"]);
    for group in groups {
        table.push(vec![
            or_none(&group.reason).into(),
            Cell::toned(phase_tone(group.phase), group.phase.as_str()),
            group.clusters.to_string().into(),
            group.example.as_str().into(),
        ]);
    }
    format!(
        "\n{}\n{}",
        paint.tone(Tone::Bold, "Causes:"),
        table.render(paint, 2)
    )
}

struct Notes<'a> {
    title: &'static str,
    clusters: &'a [ClusterNote],
    left_out: i64,
}

impl Notes<'_> {
    fn render(&self, upgrade: &Upgrade, now: DateTime<Utc>, paint: Paint) -> String {
        if self.clusters.is_empty() {
            return String::new();
        }
        let mut table = Table::new(&["CLUSTER", "PHASE", "AGE", "REASON", "MESSAGE"]);
        for note in self.clusters {
            table.push(vec![
                note.name.as_str().into(),
                Cell::toned(phase_tone(note.phase), note.phase.as_str()),
                age::since(now, note.since.as_ref().and_then(to_chrono)).into(),
                or_none(&note.reason).into(),
                note.message.as_str().into(),
            ]);
        }
        let mut text = format!(
            "\n{}\n{}",
            paint.tone(Tone::Bold, self.title),
            table.render(paint, 2)
        );
        if self.left_out > 0 {
            let _ = writeln!(
                text,
                "  and {} more: kubectl mcu clusters {} -n {}",
                self.left_out, upgrade.name, upgrade.namespace
            );
        }
        text
    }
}

/// How many clusters told something against a start, and which command says what. With preflight.mode Report, nothing else tells it.
pub(super) fn refusals(upgrade: &Upgrade) -> Option<String> {
    let preflight = upgrade.status.as_ref()?.preflight?;
    let blocked = usize::try_from(preflight.blocked)
        .ok()
        .filter(|blocked| *blocked > 0)?;
    Some(format!(
        "{} reported something that speaks against a start: kubectl mcu preflight {} -n {}",
        count(blocked, "cluster"),
        upgrade.name,
        upgrade.namespace
    ))
}

/// What to do, and whether the rest of the view is out of date.
fn advice(upgrade: &Upgrade, paint: Paint) -> String {
    let mut sentences: Vec<String> = Vec::new();
    if !upgrade.is_observed() {
        sentences.push(
            "The controller has not processed the newest spec yet. This status describes an earlier one."
                .to_owned(),
        );
    }
    if !upgrade.is_retry_handled() {
        sentences.push("A retry was requested, but the controller has not processed it yet.".to_owned());
    }
    let names = Names {
        namespace: &upgrade.namespace,
        name: &upgrade.name,
        cluster: "",
    };
    let reason = match upgrade.condition(conditions::STALLED) {
        Some(stalled) if stalled.status == "True" => stalled.reason.as_str(),
        _ if upgrade.paused && !upgrade.is(conditions::READY) => conditions::reason::PAUSED,
        _ if upgrade.waits_for_approval() => conditions::reason::WAITING_FOR_APPROVAL,
        _ => "",
    };
    sentences.extend(remedy::for_upgrade(reason, names, |phase| upgrade.has(phase)));
    sentences.extend(refusals(upgrade));
    if sentences.is_empty() {
        return String::new();
    }
    let sentences = lines(sentences.iter().map(|sentence| format!("  {sentence}")));
    format!("\n{}\n{sentences}", paint.tone(Tone::Bold, "What to do:"))
}

#[cfg(test)]
mod tests;
