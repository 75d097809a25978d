//! The explanation of one cluster: phase, cause, history and next step.

use std::fmt::Write as _;

use api::conditions;
use api::report::{Phase, ReportRow};
use api::time::to_rfc3339;
use chrono::{DateTime, SecondsFormat, Utc};
use rollout::Reason;
use serde_json::{Value, json};

use crate::age;
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::remedy::{self, Names};
use crate::render::objects::machine;
use crate::render::phase_tone;
use crate::render::status::refusals;
use crate::rows::end_of_open_step;
use crate::table::{Cell, Table, lines, one_line, or_none};
use crate::upgrade::Upgrade;

const DEGRADED: &str = "degraded";

/// Renders the explanation in the requested format.
#[must_use]
pub fn render(
    upgrade: &Upgrade,
    row: &ReportRow,
    output: Option<Output>,
    now: DateTime<Utc>,
    paint: Paint,
) -> String {
    let remedy = next_step(upgrade, row);
    if output == Some(Output::Name) {
        return format!("{}\n", row.cluster);
    }
    machine(output, || explanation(upgrade, row, &remedy))
        .unwrap_or_else(|| text(upgrade, row, &remedy, now, paint))
}

/// What the cluster needs, and who has to act.
#[must_use]
pub fn next_step(upgrade: &Upgrade, row: &ReportRow) -> String {
    let names = Names {
        namespace: &upgrade.namespace,
        name: &upgrade.name,
        cluster: &row.cluster,
    };
    let remedy = remedy::for_cluster(&row.reason, row.phase, names);
    // While the spec is invalid no cluster starts, so nothing else would help.
    let frozen = upgrade
        .condition(conditions::STALLED)
        .filter(|stalled| stalled.status == "True" && stalled.reason == conditions::reason::INVALID_SPEC);
    if let Some(stalled) = frozen {
        return format!(
            "Fix the spec of the upgrade first; no cluster starts until then: {}",
            one_line(&stalled.message)
        );
    }
    if let Some(why) = left_out_later(upgrade, row) {
        return format!("{why} {remedy}");
    }
    if row.left_selection && row.phase.has_failed() && row.reason != Reason::LeftSelection.as_str() {
        return format!(
            "The cluster has left the selection, and no retry reaches it before it is selected again. {remedy}"
        );
    }
    // A row has one reason, and that of a paused upgrade says nothing of what clusters have answered.
    let waits = matches!(row.phase, Phase::Pending | Phase::Blocked);
    match refusals(upgrade).filter(|_| waits) {
        Some(refusals) => format!("{remedy} {refusals}"),
        None => remedy,
    }
}

/// True from the beginning of the cluster's update on, until the cluster is done.
pub(crate) const fn has_accepted(phase: Phase) -> bool {
    matches!(
        phase,
        Phase::Partial | Phase::Workers | Phase::Operators | Phase::Soaking | Phase::PostAction
    )
}

/// Why a cluster that the spec skips or aborts is neither.
fn left_out_later(upgrade: &Upgrade, row: &ReportRow) -> Option<String> {
    let is_named = |list: &str| {
        let named = upgrade.object["spec"]["upgradeStrategy"][list].as_array();
        let mut named = named.into_iter().flatten();
        named.any(|entry| {
            let is_meant = !row.canary || entry["acknowledgeCanary"] == true;
            entry["cluster"] == *row.cluster && is_meant
        })
    };
    let skip = format!(
        "If its failure is not to count, run kubectl mcu skip {} {} -n {}.",
        upgrade.name, row.cluster, upgrade.namespace
    );
    if is_named("abort") && has_accepted(row.phase) {
        Some(format!(
            "The spec aborts the cluster, which had accepted the update before, so the update goes on. {skip}"
        ))
    } else if is_named("abort") && row.phase == Phase::Failed {
        Some(format!(
            "The spec aborts the cluster, which had failed before. It stays so if it had accepted the update, and until it confirms that it is asked for none. {skip}"
        ))
    } else if is_named("skip") && (row.phase == Phase::Initialized || has_accepted(row.phase)) {
        Some(
            "The spec skips the cluster. What has begun there ends first, and its failure does not count."
                .to_owned(),
        )
    } else {
        None
    }
}

/// The stable structure for machines. Every key is always present; unknown values are null or empty.
#[must_use]
pub fn explanation(upgrade: &Upgrade, row: &ReportRow, remedy: &str) -> Value {
    let steps: Vec<Value> = row
        .steps
        .iter()
        .map(|step| {
            let seconds = step
                .finished_at
                .map(|finished| (finished - step.started_at).num_seconds());
            json!({
                "name": step.name,
                "startedAt": to_rfc3339(step.started_at),
                "appliedAt": step.applied_at.map(to_rfc3339),
                "finishedAt": step.finished_at.map(to_rfc3339),
                "durationSeconds": seconds,
                "outcome": step.outcome,
            })
        })
        .collect();
    json!({
        "namespace": upgrade.namespace,
        "upgrade": upgrade.name,
        "cluster": row.cluster,
        "phase": row.phase,
        "since": to_rfc3339(row.since),
        "reason": row.reason,
        "message": row.message,
        "remedy": remedy,
        "canary": row.canary,
        "leftSelection": row.left_selection,
        "fromVersion": row.from_version,
        "toVersion": row.to_version,
        "revision": row.revision,
        "retry": row.retry,
        "steps": steps,
    })
}

fn text(upgrade: &Upgrade, row: &ReportRow, remedy: &str, now: DateTime<Utc>, paint: Paint) -> String {
    let phase = paint.tone(phase_tone(row.phase), row.phase.as_str());
    let mut marks = String::new();
    if row.canary {
        marks.push_str(" (canary)");
    }
    if row.left_selection && row.phase.is_at_work() {
        marks.push_str(" (no longer selected, will finish all its steps)");
    } else if row.left_selection {
        marks.push_str(" (no longer selected)");
    }
    let mut fields = vec![
        ("Cluster", format!("{}{marks}", row.cluster)),
        ("Upgrade", format!("{}/{}", upgrade.namespace, upgrade.name)),
        ("Phase", format!("{phase} for {}", age::human(now - row.since))),
        ("From", or_none(&one_line(&row.from_version)).to_owned()),
        ("To", or_none(&one_line(&row.to_version)).to_owned()),
        ("Cause", or_none(&one_line(&row.reason)).to_owned()),
        ("Message", or_none(&one_line(&row.message)).to_owned()),
    ];
    // The controller marks an attempt without a new retry so.
    let retry = row.retry.trim_end_matches('~');
    if !retry.is_empty() {
        fields.push(("Retried", one_line(retry)));
    }
    let fields = fields
        .iter()
        .map(|(key, value)| format!("{:<10}{value}", format!("{key}:")));
    let mut text = lines(fields);
    text.push_str(&history(row, now, paint));
    let _ = writeln!(text, "{}\n  {remedy}", paint.tone(Tone::Bold, "Next step:"));
    text
}

fn history(row: &ReportRow, now: DateTime<Utc>, paint: Paint) -> String {
    let heading = paint.tone(Tone::Bold, "History:");
    if row.steps.is_empty() {
        return format!("{heading}  no step has started\n");
    }
    let open_until = end_of_open_step(row).unwrap_or(now);
    let mut table = Table::new(&["STEP", "STARTED", "APPLIED AFTER", "DURATION", "OUTCOME"]);
    for step in &row.steps {
        let applied = step.applied_at.map_or_else(
            || "<none>".to_owned(),
            |applied| age::human(applied - step.started_at),
        );
        let outcome = step
            .outcome
            .map_or_else(|| open(row.phase).to_owned(), |outcome| format!("{outcome:?}"));
        let tone = match outcome.as_str() {
            "Succeeded" => Tone::Good,
            "Failed" | DEGRADED => Tone::Bad,
            _ => Tone::Plain,
        };
        table.push(vec![
            format!("{:?}", step.name).into(),
            step.started_at.to_rfc3339_opts(SecondsFormat::Secs, true).into(),
            applied.into(),
            age::human(step.finished_at.unwrap_or(open_until) - step.started_at).into(),
            Cell::toned(tone, outcome),
        ]);
    }
    format!("{heading}\n{}", table.render(paint, 2))
}

/// The state of a step without an outcome. An action that failed has no outcome because it may still recover, and what a cluster that is
/// left out was asked for has ended without one.
const fn open(phase: Phase) -> &'static str {
    match phase {
        Phase::PreActionDegraded => DEGRADED,
        Phase::Failed => "Failed",
        Phase::Aborted => "withdrawn",
        Phase::Skipped => "ended",
        _ => "running",
    }
}

#[cfg(test)]
mod tests;
