//! What the server tells a page: small JSON messages, whose texts are cut and free of characters that are not shown.
//!
//! The texts come from clusters and from authors. The page writes them as text only, never as markup.

use api::conditions;
use api::estimate::UpgradeEstimate;
use api::maintenance::MaintenanceSummary;
use api::mcu::{CauseGroup, CheckpointStatus};
use api::report::{Phase, ReportRow};
use api::text::cut;
use api::time::{to_chrono, to_rfc3339};
use chrono::{DateTime, Utc};
use rollout::causes::{self, names_its_cause};
use serde_json::{Value, json};

use super::feed::Upgrades;
use super::fleet::{Changes, Fleet};
use crate::causes::of_rows;
use crate::remedy::{self, Names};
use crate::render::status::starts_are_stopped;
use crate::render::{state_tone, why};
use crate::table::one_line;
use crate::upgrade::Upgrade;

/// Longest name, word and text, in bytes.
const MAX_NAME: usize = 253;
const MAX_WORD: usize = 128;
const MAX_TEXT: usize = 2048;
/// Most upgrades of the list, those that are not complete first, and most groups of causes.
const MAX_UPGRADES: usize = 500;
const MAX_CAUSES: usize = 50;

/// Bits of the marks of a tile.
const CANARY: u8 = 1;
const LEFT_SELECTION: u8 = 2;

/// Text of others: on one line, without characters that steer, and cut.
#[must_use]
pub fn text(text: &str, most: usize) -> String {
    cut(&one_line(text), most).to_owned()
}

fn name(name: &str) -> String {
    text(name, MAX_NAME)
}

/// The list of upgrades, for the choice of one.
#[must_use]
pub fn upgrades(all: &Upgrades) -> Value {
    let mut sorted: Vec<&Upgrade> = all.iter().collect();
    sorted.sort_by_key(|upgrade| upgrade.is(conditions::READY));
    let shown: Vec<Value> = sorted
        .iter()
        .take(MAX_UPGRADES)
        .map(|upgrade| {
            let counts = upgrade.counts();
            json!({
                "namespace": name(&upgrade.namespace),
                "name": name(&upgrade.name),
                "state": text(&upgrade.state(), MAX_WORD),
                "complete": counts.complete,
                "total": counts.total,
                "runs": runs(upgrade),
            })
        })
        .collect();
    json!({"upgrades": shown, "more": sorted.len().saturating_sub(MAX_UPGRADES)})
}

/// Whether clusters are under way, or will be without anybody's doing. A page that is opened shows the first such upgrade.
fn runs(upgrade: &Upgrade) -> bool {
    let in_flight = upgrade.status.as_ref().and_then(|status| status.in_flight);
    let stops = [conditions::READY, conditions::STALLED];
    in_flight.is_some_and(|clusters| clusters > 0)
        || (upgrade.counts().total > 0
            && !upgrade.paused
            && !upgrade.restored
            && !upgrade.waits_for_approval()
            && !stops.iter().any(|condition| upgrade.is(condition)))
}

/// The upgrade that the page shows.
#[must_use]
pub fn upgrade(upgrade: &Upgrade) -> Value {
    let status = upgrade.status.as_ref();
    let state = upgrade.state();
    let canaries = upgrade.canaries();
    // Otherwise the end is that of the clusters in flight alone, and a page would show it as that of the upgrade.
    let moving = status.filter(|_| !starts_are_stopped(upgrade));
    json!({
        "namespace": name(&upgrade.namespace),
        "name": name(&upgrade.name),
        "uid": text(&upgrade.uid, MAX_WORD),
        "target": text(&upgrade.target(), MAX_NAME),
        "channel": text(upgrade.spec_text("/clusterVersion/channel"), MAX_WORD),
        "state": text(&state, MAX_WORD),
        "tone": format!("{:?}", state_tone(&state)),
        "created": upgrade.created.map(to_rfc3339),
        "started": status.and_then(|status| status.started_at.as_ref()),
        "completed": status.and_then(|status| status.completed_at.as_ref()),
        "paused": upgrade.paused,
        "restored": upgrade.restored,
        "inFlight": status.and_then(|status| status.in_flight).unwrap_or_default(),
        "slots": status.and_then(|status| status.effective_max_concurrency),
        "canaries": canaries.map(|canaries| json!({"complete": canaries.complete, "total": canaries.total, "failed": canaries.failed})),
        "estimate": moving.and_then(|status| estimate(status.estimate.as_ref()?)),
        "preflight": status.and_then(|status| status.preflight),
        "approvals": status.map(|status| status.approvals.iter().map(approval).collect::<Vec<_>>()),
        "maintenance": status.and_then(|status| status.maintenance.as_ref()).filter(|windows| windows.waiting > 0).map(maintenance),
        "notes": notes(upgrade),
    })
}

/// A checkpoint, and who approved.
fn approval(checkpoint: &CheckpointStatus) -> Value {
    json!({
        "name": text(&checkpoint.name, MAX_WORD),
        "state": text(&checkpoint.state, MAX_WORD),
        "approver": text(&checkpoint.approver, MAX_NAME),
    })
}

/// Clusters that wait for their windows, with a time in seconds.
fn maintenance(windows: &MaintenanceSummary) -> Value {
    let opens = windows.next_opening.as_ref().and_then(to_chrono);
    json!({"waiting": windows.waiting, "opens": opens.map(|at| at.timestamp())})
}

/// When the upgrade ends, with times in seconds.
fn estimate(estimate: &UpgradeEstimate) -> Option<Value> {
    let seconds = |time| Some(to_chrono(time)?.timestamp());
    Some(json!({
        "p50": seconds(&estimate.p50)?,
        "p90": seconds(&estimate.p90)?,
        "basis": text(&estimate.basis, MAX_WORD),
    }))
}

/// What the reader must know or do: about the whole upgrade, not about single clusters.
fn notes(upgrade: &Upgrade) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(error) = &upgrade.unreadable {
        notes.push(format!("The status cannot be read: {error}. Update the plugin."));
        return notes;
    }
    if upgrade.status.is_none() {
        notes.push("The controller has not processed this upgrade yet.".to_owned());
    } else if !upgrade.is_observed() {
        notes.push("The controller has not processed the newest spec yet.".to_owned());
    }
    if !upgrade.is_retry_handled() {
        notes.push("A retry was requested, but the controller has not processed it yet.".to_owned());
    }
    let stalled = upgrade
        .condition(conditions::STALLED)
        .filter(|stalled| stalled.status == "True");
    let reason = match stalled {
        Some(stalled) => {
            notes.push(format!("Stalled ({}): {}", stalled.reason, stalled.message));
            stalled.reason.as_str()
        }
        None if upgrade.paused && !upgrade.is(conditions::READY) => conditions::reason::PAUSED,
        None if upgrade.waits_for_approval() => conditions::reason::WAITING_FOR_APPROVAL,
        None => "",
    };
    let names = Names {
        namespace: &upgrade.namespace,
        name: &upgrade.name,
        cluster: "",
    };
    notes.extend(remedy::for_upgrade(reason, names, |phase| upgrade.has(phase)));
    notes.iter().map(|note| text(note, MAX_TEXT)).collect()
}

/// All clusters of the upgrade, with the phases in the order in which clusters go through them.
#[must_use]
pub fn fleet(changes: &Changes<'_>) -> Value {
    let phases = Phase::ALL.map(Phase::as_str);
    json!({"phases": phases, "tiles": tiles(&changes.rows)})
}

/// The clusters that have changed, and those that are gone.
#[must_use]
pub fn changes(changes: &Changes<'_>) -> Value {
    let gone: Vec<String> = changes.gone.iter().map(|cluster| name(cluster)).collect();
    json!({"tiles": tiles(&changes.rows), "gone": gone})
}

fn tiles(rows: &[&ReportRow]) -> Vec<Value> {
    rows.iter().map(|row| tile(row)).collect()
}

/// One cluster, as `[name, phase, marks, reason, since, start, end, subject]` with times in seconds, because there may be 100,000 of them.
/// The subject of its cause is left out if the reason says enough.
fn tile(row: &ReportRow) -> Value {
    let phase = Phase::ALL.iter().position(|phase| *phase == row.phase);
    let mut marks = 0;
    if row.canary {
        marks |= CANARY;
    }
    if row.left_selection {
        marks |= LEFT_SELECTION;
    }
    let start = row.steps.first().map(|step| step.started_at.timestamp());
    let ended = row.steps.last().and_then(|step| step.finished_at);
    let is_over = row.phase.is_terminal() || row.phase.is_left_out();
    let end = is_over.then(|| ended.unwrap_or(row.since).timestamp());
    let mut tile = vec![
        json!(name(&row.cluster)),
        json!(phase),
        json!(marks),
        json!(text(&row.reason, MAX_WORD)),
        json!(row.since.timestamp()),
        json!(start),
        json!(end),
    ];
    let subject = causes::subject(&row.reason, &row.message);
    tile.extend((!subject.is_empty()).then(|| json!(text(subject, MAX_WORD))));
    Value::Array(tile)
}

/// What tells a group from others with the same phase and reason, as the tiles of its clusters have it. Its message is on one line already,
/// so the name is that of the whole message.
fn subject(group: &CauseGroup) -> String {
    let told = match (&group.kind, &group.name) {
        (_, Some(name)) => name.as_str(),
        (None, None) if !names_its_cause(&group.reason) => "",
        _ => causes::subject(&group.reason, &group.message),
    };
    text(told, MAX_WORD)
}

/// Why clusters failed or wait, in the groups of `kubectl mcu causes`.
#[must_use]
pub fn causes(upgrade: &Upgrade, fleet: &Fleet) -> Value {
    let groups = of_rows(upgrade, fleet.since(0).rows);
    let shown: Vec<Value> = groups.iter().take(MAX_CAUSES).map(cause).collect();
    json!({
        "causes": shown,
        "more": groups.len().saturating_sub(MAX_CAUSES),
        "retryable": fleet.retryable(),
    })
}

fn cause(group: &CauseGroup) -> Value {
    json!({
        "phase": group.phase,
        "reason": text(&group.reason, MAX_WORD),
        "subject": subject(group),
        "clusters": group.clusters,
        "example": name(&group.example),
        "message": text(&group.message, MAX_TEXT),
        "remedy": text(&group.remedy, MAX_TEXT),
    })
}

/// What `kubectl mcu why` says about a cluster.
#[must_use]
pub fn story(upgrade: &Upgrade, row: &ReportRow, now: DateTime<Utc>) -> Value {
    let mut story = why::explanation(upgrade, row, &why::next_step(upgrade, row));
    for field in story
        .as_object_mut()
        .into_iter()
        .flat_map(|fields| fields.values_mut())
    {
        if let Value::String(value) = field {
            *value = text(value, MAX_TEXT);
        }
    }
    story["now"] = json!(to_rfc3339(now));
    story
}

#[cfg(test)]
mod tests;
