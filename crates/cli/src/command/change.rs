//! `pause` and `resume`: each sends one merge patch and describes the result.

use std::fmt::Write as _;

use api::conditions;
use api::mcu::CheckpointStatus;
use api::names::{ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED};
use api::report::Phase;
use serde_json::{Value, json};

use crate::args::Common;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::objects;
use crate::screen::Screen;
use crate::table::one_line;
use crate::upgrade::{NotStarted, TYPE_AND_GROUP, Upgrade};

pub(super) async fn pause(
    common: &Common,
    name: &str,
    paused: bool,
    screen: Screen,
) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let before = hub.upgrade(name).await?;
    let after = if !paused && before.restored {
        hub.patch(name, &resume_restored_patch(&before)).await?
    } else if before.paused == paused {
        before.clone()
    } else {
        hub.patch(name, &pause_patch(paused)).await?
    };
    let text = objects::upgrade(common.output, &after).unwrap_or_else(|| paused_text(&before, paused));
    screen.print(&text);
    Ok(Exit::Done)
}

/// Pauses or resumes.
pub(crate) fn pause_patch(paused: bool) -> Value {
    json!({"spec": {"paused": paused}})
}

/// Allows the object with this UID to continue. A later restore has another UID, so that it needs its own resume.
pub(crate) fn resume_restored_patch(before: &Upgrade) -> Value {
    let mut patch = json!({
        "metadata": {"uid": before.uid, "annotations": {ANNOTATION_RESUME_RESTORED: before.uid}},
    });
    if before.paused {
        patch["spec"] = json!({"paused": false});
    }
    patch
}

/// Retries the clusters that failed.
pub(crate) fn retry_patch(token: &str) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION_RETRY_FAILED: token}}})
}

/// A value for the retry annotation that differs from the current one, even within the same second.
pub(crate) fn retry_token(current: &str, now: &str) -> String {
    if current == now {
        format!("{now}-again")
    } else {
        now.to_owned()
    }
}

fn paused_text(before: &Upgrade, paused: bool) -> String {
    let name = format!("{TYPE_AND_GROUP}/{}", before.name);
    let mut text = match (before.paused == paused, paused) {
        (true, true) => format!("{name} already paused\n"),
        _ if before.restored && !paused => format!("{name} resumed after its restore\n"),
        (true, false) => format!("{name} not paused\n"),
        (false, true) => format!("{name} paused\n"),
        (false, false) => format!("{name} resumed\n"),
    };
    let Some(status) = &before.status else { return text };
    let blocked = status
        .phases
        .get(Phase::Blocked.as_str())
        .copied()
        .unwrap_or_default();
    let pending = NotStarted::of(status).pending.saturating_sub(blocked);
    let pending = counted(pending, "pending cluster");
    if paused {
        let in_flight = status.in_flight.unwrap_or_default();
        let in_flight = format!("{} in flight", counted(in_flight, "cluster"));
        let _ = writeln!(
            text,
            "{in_flight} will finish; {pending} will not start until you resume."
        );
    } else if let Some(held) = held(before) {
        let _ = writeln!(text, "{held}");
    } else {
        let _ = writeln!(text, "{pending} will start as slots become free.");
        if blocked > 0 {
            let blocked = counted(blocked, "blocked cluster");
            let _ = writeln!(text, "{blocked} will start when the cause is gone.");
        }
    }
    text
}

/// What keeps clusters from starting although the upgrade is not paused.
fn held(before: &Upgrade) -> Option<String> {
    let (name, namespace) = (&before.name, &before.namespace);
    if before.deleting {
        return Some("The upgrade is being deleted, so no cluster will start.".to_owned());
    }
    let stalled = before.condition(conditions::STALLED);
    // A restored upgrade is resumed by this command.
    let stalled =
        stalled.filter(|stalled| stalled.status == "True" && stalled.reason != conditions::reason::RESTORED);
    if let Some(stalled) = stalled {
        return Some(format!(
            "The upgrade is stalled ({}): {}",
            one_line(&stalled.reason),
            one_line(&stalled.message)
        ));
    }
    let mut checkpoints = before.status.iter().flat_map(|status| &status.approvals);
    checkpoints
        .any(CheckpointStatus::is_waiting)
        .then(|| format!("Clusters wait for an approval: kubectl mcu approvals {name} -n {namespace}"))
}

fn counted(count: i64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

#[cfg(test)]
mod tests;
