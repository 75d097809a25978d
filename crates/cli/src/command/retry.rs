//! `retry`: all clusters that failed, by the annotation, or chosen ones, by an entry of the spec.

use std::fmt::Write as _;

use api::conditions;
use api::mcu::MAX_RETRIES;
use api::message::count;
use api::report::ReportRow;
use api::time::to_rfc3339;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use super::change::{retry_patch, retry_token};
use super::show::note_gaps;
use crate::args::{Common, RetryArgs};
use crate::edit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::objects;
use crate::rows::{Rows, is_unreadable};
use crate::screen::Screen;
use crate::table::one_line;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Maximum number of cluster names that an answer lists.
const MAX_NAMES: usize = 10;

pub(super) async fn run(common: &Common, args: &RetryArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    if upgrade.deleting {
        return Err(Failure::Other(
            "the upgrade is being deleted, so it retries no cluster".to_owned(),
        ));
    }
    let rows = hub.rows(&upgrade).await?;
    note_gaps(&upgrade, &rows, screen);
    let clusters = concerned(&rows, args)?;
    if args.clusters.is_empty() {
        screen.note(&leavers(&rows));
    }
    if clusters.is_empty() && !args.force {
        let which = if args.reasons.is_empty() {
            String::new()
        } else {
            format!(" for the reason {}", args.reasons.join(" or "))
        };
        return Err(Failure::Other(format!(
            "nothing to retry: no cluster of {}/{} is Failed or PreActionDegraded{which}; add --force to ask for the retry anyway",
            hub.namespace(),
            args.name
        )));
    }
    let now = Utc::now();
    let after = if args.clusters.is_empty() && args.reasons.is_empty() {
        let patch = retry_patch(&retry_token(&upgrade.retry, &to_rfc3339(now)));
        if args.dry_run {
            edit::preview(&upgrade, &patch)
        } else {
            hub.patch(&args.name, &patch).await?
        }
    } else {
        let spec = json!({"upgradeStrategy": {"retry": with_request(&upgrade, args, now)?}});
        edit::carry_out_or_preview(&hub, &upgrade, &spec, args.dry_run).await?
    };
    let done = match (args.dry_run, clusters.is_empty()) {
        (true, _) => "retried (dry run)",
        (false, true) => "asked for a retry, and nothing is retried",
        (false, false) => "retried",
    };
    let text = objects::upgrade(common.output, &after)
        .unwrap_or_else(|| told(&upgrade, &clusters, done) + &at_checkpoints(&upgrade, &rows, &clusters));
    screen.print(&text);
    Ok(Exit::Done)
}

/// The clusters that failed and are chosen.
///
/// # Errors
/// One that is named is not of the upgrade, or has not failed.
fn concerned<'a>(rows: &'a Rows, args: &RetryArgs) -> Result<Vec<&'a str>, Failure> {
    let retryable = rows.retryable();
    for name in args.clusters.iter().filter(|_| !args.force) {
        let row = rows.named(name, &args.name)?;
        if is_unreadable(row) {
            return Err(Failure::Other(format!(
                "the report row of {name} cannot be read, so whether it failed is not known: update the plugin, or add --force"
            )));
        }
        if !retryable.contains(&name.as_str()) {
            return Err(Failure::Other(not_retried(row)));
        }
    }
    let has_reason = |name: &str| {
        rows.of(name)
            .is_some_and(|row| args.reasons.contains(&row.reason))
    };
    let is_chosen = |name: &&str| {
        (args.clusters.is_empty() || args.clusters.iter().any(|cluster| cluster == name))
            && (args.reasons.is_empty() || has_reason(name))
    };
    Ok(retryable.into_iter().filter(is_chosen).collect())
}

/// Why a cluster is not retried.
fn not_retried(row: &ReportRow) -> String {
    let (name, phase) = (&row.cluster, row.phase);
    if row.phase.has_failed() {
        return format!(
            "{name} is {phase}, and it has left the selection of the upgrade; select it again to have it retried"
        );
    }
    format!("{name} is {phase}; only clusters that are Failed or PreActionDegraded are retried")
}

/// How many clusters failed and are not retried, because they have left the selection. Empty if there are none.
fn leavers(rows: &Rows) -> String {
    let left = rows
        .rows
        .iter()
        .filter(|row| row.phase.has_failed() && row.left_selection);
    match left.count() {
        0 => String::new(),
        1 => "Note: 1 cluster that failed has left the selection of the upgrade; it is retried only when it is selected again.\n".to_owned(),
        left => format!(
            "Note: {left} clusters that failed have left the selection of the upgrade; they are retried only when they are selected again.\n"
        ),
    }
}

/// The list of the spec with one more entry. Entries that were carried out go when there is no room.
///
/// # Errors
/// There is no room.
fn with_request(upgrade: &Upgrade, args: &RetryArgs, now: DateTime<Utc>) -> Result<Vec<Value>, Failure> {
    let known = upgrade.object.pointer("/spec/upgradeStrategy/retry");
    let mut list: Vec<Value> = known.and_then(Value::as_array).cloned().unwrap_or_default();
    let carried_out = upgrade.status.as_ref().map_or(&[][..], |status| &status.retries);
    let id_of = |entry: &Value| entry["id"].as_str().unwrap_or_default().to_owned();
    let mut ids: Vec<String> = list.iter().map(id_of).collect();
    ids.extend_from_slice(carried_out);
    if list.len() >= MAX_RETRIES {
        list.retain(|entry| !carried_out.contains(&id_of(entry)));
    }
    if list.len() >= MAX_RETRIES {
        return Err(Failure::Other(format!(
            "spec.upgradeStrategy.retry has {MAX_RETRIES} entries that the controller has not carried out yet; kubectl mcu check tells whether it runs"
        )));
    }
    let mut entry = json!({"id": free_id(&ids, now)});
    if !args.clusters.is_empty() {
        entry["clusters"] = json!(distinct(&args.clusters));
    }
    if !args.reasons.is_empty() {
        entry["reasons"] = json!(distinct(&args.reasons));
    }
    list.push(entry);
    Ok(list)
}

fn distinct(words: &[String]) -> Vec<&String> {
    let mut words: Vec<&String> = words.iter().collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// A name for a retry: the time, and a number if there is such a retry.
fn free_id(ids: &[String], now: DateTime<Utc>) -> String {
    let time = now.format("%Y-%m-%dT%H-%M-%SZ").to_string();
    let numbered = (2..).map(|number| format!("{time}-{number}"));
    let mut names = std::iter::once(time.clone()).chain(numbered);
    names.find(|name| !ids.contains(name)).unwrap_or(time)
}

fn told(upgrade: &Upgrade, clusters: &[&str], done: &str) -> String {
    let mut text = format!("{TYPE_AND_GROUP}/{} {done}\n", upgrade.name);
    if clusters.is_empty() {
        text.push_str(
            "No such cluster is Failed or PreActionDegraded, and selected. Clusters that fail later need another retry.\n",
        );
    } else {
        let names = clusters.iter().take(MAX_NAMES).map(|name| one_line(name));
        let shown = names.collect::<Vec<_>>().join(", ");
        let more = clusters.len().saturating_sub(MAX_NAMES);
        let rest = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "{} will be retried: {shown}{rest}.",
            count(clusters.len(), "cluster")
        );
    }
    text.push_str(&held(upgrade));
    text
}

/// What the retry of these clusters means for approvals. Empty if it means nothing.
fn at_checkpoints(upgrade: &Upgrade, rows: &Rows, clusters: &[&str]) -> String {
    let status = upgrade.status.as_ref();
    let approvals = status.map_or(&[][..], |status| &status.approvals);
    let is_canary = |name: &&str| rows.of(name).is_some_and(|row| row.canary);
    if !approvals.is_empty() && clusters.iter().any(is_canary) {
        return "The retry of a canary makes another plan: approvals of the present one do not count any more, and checkpoints that are reached wait anew.\n"
            .to_owned();
    }
    let open = approvals
        .iter()
        .find(|checkpoint| checkpoint.is_waiting() || !checkpoint.changed.is_empty());
    open.filter(|_| !clusters.is_empty())
        .map_or_else(String::new, |checkpoint| {
            format!(
                "They may have to wait for the approval of checkpoint {}: kubectl mcu approvals {} -n {}\n",
                one_line(&checkpoint.name),
                upgrade.name,
                upgrade.namespace
            )
        })
}

/// What must happen first. Empty if nothing must.
fn held(upgrade: &Upgrade) -> String {
    let (name, namespace) = (&upgrade.name, &upgrade.namespace);
    let stalled = upgrade.condition(conditions::STALLED);
    if stalled
        .is_some_and(|stalled| stalled.status == "True" && stalled.reason == conditions::reason::INVALID_SPEC)
    {
        return format!(
            "The spec of the upgrade is invalid, and nothing is retried before it is fixed: kubectl mcu status {name} -n {namespace}\n"
        );
    }
    let why = if upgrade.restored {
        "was restored from a backup, or copied"
    } else if upgrade.paused {
        "is paused"
    } else {
        return String::new();
    };
    format!(
        "The upgrade {why}. These clusters start after you run kubectl mcu resume {name} -n {namespace}\n"
    )
}

#[cfg(test)]
mod tests;
