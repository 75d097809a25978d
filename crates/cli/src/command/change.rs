//! `pause`, `resume` and `retry`: each sends one merge patch and describes the result.

use std::fmt::Write as _;

use api::names::{ANNOTATION_RESUME_RESTORED, ANNOTATION_RETRY_FAILED};
use api::time::to_rfc3339;
use chrono::Utc;
use serde_json::{Value, json};

use crate::args::{Common, RetryArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::objects;
use crate::screen::Screen;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Maximum number of cluster names that an answer lists.
const MAX_NAMES: usize = 10;

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

pub(super) async fn retry(common: &Common, args: &RetryArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    let clusters = rows.retryable();
    if clusters.is_empty() && !args.force {
        return Err(Failure::Other(format!(
            "nothing to retry: no cluster of {}/{} is Failed or PreActionDegraded; add --force to set the annotation anyway",
            hub.namespace(),
            args.name
        )));
    }
    let token = retry_token(&upgrade.retry, &to_rfc3339(Utc::now()));
    let after = hub.patch(&args.name, &retry_patch(&token)).await?;
    let text = objects::upgrade(common.output, &after).unwrap_or_else(|| retried_text(&upgrade, &clusters));
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
    let pending = counted(
        status.clusters_summery.unwrap_or_default().pending,
        "pending cluster",
    );
    if paused {
        let in_flight = status.in_flight.unwrap_or_default();
        let in_flight = format!("{} in flight", counted(in_flight, "cluster"));
        let _ = writeln!(
            text,
            "{in_flight} will finish; {pending} will not start until you resume."
        );
    } else {
        let _ = writeln!(text, "{pending} will start as slots become free.");
    }
    text
}

fn counted(count: i64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

fn retried_text(upgrade: &Upgrade, clusters: &[&str]) -> String {
    let done = if clusters.is_empty() {
        "annotated, not retried"
    } else {
        "retried"
    };
    let mut text = format!("{TYPE_AND_GROUP}/{} {done}\n", upgrade.name);
    if clusters.is_empty() {
        text.push_str(
            "No cluster is Failed or PreActionDegraded, so no cluster is retried. Clusters that fail later need another retry.\n",
        );
    } else {
        let shown = clusters
            .iter()
            .take(MAX_NAMES)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let more = clusters.len().saturating_sub(MAX_NAMES);
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{} will be retried: {shown}{rest}.",
            counted(i64::try_from(clusters.len()).unwrap_or(i64::MAX), "cluster")
        );
    }
    if upgrade.paused {
        let _ = writeln!(
            text,
            "The upgrade is paused. These clusters start after you run kubectl mcu resume {} -n {}",
            upgrade.name, upgrade.namespace
        );
    }
    text
}

#[cfg(test)]
mod tests;
