//! `skip`, `abort` and `unskip`: each edits the lists of clusters that the upgrade leaves out.

use std::fmt::Write as _;

use api::mcu::MAX_LEFT_OUT;
use api::report::{Phase, ReportRow};
use serde_json::{Value, json};

use crate::args::{Common, LeaveOutArgs, UnskipArgs};
use crate::edit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::objects;
use crate::render::why::has_accepted;
use crate::rows::{Rows, is_unreadable};
use crate::screen::Screen;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Clusters whose fate is told one by one.
const MAX_TOLD: usize = 10;

/// A list of the spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Skip,
    Abort,
}

impl List {
    const ALL: [List; 2] = [List::Skip, List::Abort];

    const fn field(self) -> &'static str {
        match self {
            List::Skip => "skip",
            List::Abort => "abort",
        }
    }

    const fn done(self) -> &'static str {
        match self {
            List::Skip => "skipped",
            List::Abort => "aborted",
        }
    }

    fn of(self, upgrade: &Upgrade) -> Vec<Value> {
        let known = upgrade.object.pointer("/spec/upgradeStrategy");
        let known = known.and_then(|strategy| strategy[self.field()].as_array());
        known.cloned().unwrap_or_default()
    }
}

pub(super) async fn leave_out(
    common: &Common,
    (args, list): (&LeaveOutArgs, List),
    screen: Screen,
) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    let strategy = with(&upgrade, &rows, args, list)?;
    let text = fates(&rows, &args.clusters, list) + revoked(&upgrade);
    write(common, &hub, &upgrade, &strategy, (args.dry_run, &text), screen).await
}

pub(super) async fn unskip(common: &Common, args: &UnskipArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let strategy = without(&upgrade, &args.clusters)?;
    let text = format!("They are upgraded when their turn comes.\n{}", revoked(&upgrade));
    write(common, &hub, &upgrade, &strategy, (args.dry_run, &text), screen).await
}

/// The clusters that `unskip` may name.
pub(super) fn names(upgrade: &Upgrade) -> Vec<String> {
    let entries = List::ALL.into_iter().flat_map(|list| list.of(upgrade));
    entries
        .filter_map(|entry| entry["cluster"].as_str().map(str::to_owned))
        .collect()
}

/// True when a cluster is not in the list yet, and may come into it.
pub(super) fn may_be_left_out(upgrade: &Upgrade, row: &ReportRow, list: List) -> bool {
    let is_named = |entry: &Value| entry["cluster"] == *row.cluster;
    refusal(row, list).is_none() && !list.of(upgrade).iter().any(is_named)
}

/// What an edit of the lists does to approvals.
fn revoked(upgrade: &Upgrade) -> &'static str {
    let checkpoints = upgrade.object["spec"]["upgradeStrategy"]["approvals"].as_array();
    if checkpoints.is_some_and(|checkpoints| !checkpoints.is_empty()) {
        "This is another plan: approvals of the present one do not count any more, and checkpoints that are reached wait anew.\n"
    } else {
        ""
    }
}

async fn write(
    common: &Common,
    hub: &Hub,
    upgrade: &Upgrade,
    strategy: &Value,
    (dry_run, text): (bool, &str),
    screen: Screen,
) -> Result<Exit, Failure> {
    let name = format!("{TYPE_AND_GROUP}/{}", upgrade.name);
    let spec = json!({"upgradeStrategy": strategy});
    let after = edit::carry_out_or_preview(hub, upgrade, &spec, dry_run).await?;
    let done = if dry_run { "edited (dry run)" } else { "edited" };
    let shown = objects::upgrade(common.output, &after);
    screen.print(&shown.unwrap_or_else(|| format!("{name} {done}\n{text}")));
    Ok(Exit::Done)
}

/// The changed lists when these clusters are in one of them.
///
/// # Errors
/// A cluster is not of the upgrade, cannot be left out any more, or is a canary and that is not acknowledged; there is no reason, or no
/// room.
fn with(upgrade: &Upgrade, rows: &Rows, args: &LeaveOutArgs, list: List) -> Result<Value, Failure> {
    let (field, done) = (list.field(), list.done());
    let reason = args.reason.trim();
    if reason.is_empty() {
        return Err(Failure::Other(format!(
            "--reason: say why the cluster is {done}; it is kept in the spec for those who ask later"
        )));
    }
    let mut entries = list.of(upgrade);
    for cluster in &args.clusters {
        let row = rows.named(cluster, &args.name)?;
        if let Some(why) = refusal(row, list) {
            return Err(Failure::Other(why));
        }
        let is_unreadable = is_unreadable(row);
        if is_unreadable && !args.acknowledge_canary {
            return Err(Failure::Other(format!(
                "the report row of {cluster} cannot be read, so it may be a canary, and may have accepted the update: update the plugin, or add --acknowledge-canary to leave it out whatever it is"
            )));
        }
        if row.canary && !args.acknowledge_canary {
            return Err(Failure::Other(format!(
                "{cluster} is a canary: the other clusters would start without it; add --acknowledge-canary if that is what you want"
            )));
        }
        let mut entry = json!({"cluster": cluster, "reason": reason});
        if row.canary || is_unreadable {
            entry["acknowledgeCanary"] = json!(true);
        }
        match entries.iter_mut().find(|known| known["cluster"] == **cluster) {
            Some(known) => *known = entry,
            None => entries.push(entry),
        }
    }
    if entries.len() > MAX_LEFT_OUT {
        return Err(Failure::Other(format!(
            "spec.upgradeStrategy.{field} may have at most {MAX_LEFT_OUT} entries; select fewer clusters instead"
        )));
    }
    let mut strategy = json!({ field: entries });
    for other in List::ALL.into_iter().filter(|other| *other != list) {
        let before = other.of(upgrade);
        let is_named = |known: &Value| args.clusters.iter().any(|cluster| known["cluster"] == **cluster);
        if before.iter().any(is_named) {
            let kept: Vec<Value> = before.into_iter().filter(|known| !is_named(known)).collect();
            strategy[other.field()] = Value::Array(kept);
        }
    }
    Ok(strategy)
}

/// Why a cluster cannot be left out any more.
fn refusal(row: &ReportRow, list: List) -> Option<String> {
    let cluster = &row.cluster;
    match row.phase {
        Phase::Complete => Some(format!(
            "{cluster} is complete, so there is nothing to {}",
            list.field()
        )),
        phase if list == List::Abort && has_accepted(phase) => Some(format!(
            "{cluster} has accepted the update (phase {phase}), and no running update is interrupted; wait for its end, or skip the cluster so that its failure does not count"
        )),
        _ => None,
    }
}

/// The changed lists when these clusters are in none of them.
///
/// # Errors
/// A cluster is not left out.
fn without(upgrade: &Upgrade, clusters: &[String]) -> Result<Value, Failure> {
    let mut strategy = json!({});
    let mut found = vec![false; clusters.len()];
    for list in List::ALL {
        let before = list.of(upgrade);
        let mut kept = before.clone();
        for (cluster, found) in clusters.iter().zip(&mut found) {
            let number = kept.len();
            kept.retain(|known| known["cluster"] != **cluster);
            *found |= kept.len() < number;
        }
        if kept.len() < before.len() {
            strategy[list.field()] = Value::Array(kept);
        }
    }
    match clusters.iter().zip(found).find(|(_, found)| !found) {
        Some((cluster, _)) => Err(Failure::Other(format!(
            "{cluster} is neither skipped nor aborted"
        ))),
        None => Ok(strategy),
    }
}

/// What becomes of clusters that are left out.
fn fates(rows: &Rows, clusters: &[String], list: List) -> String {
    let mut text = String::new();
    for row in clusters
        .iter()
        .filter_map(|cluster| rows.of(cluster))
        .take(MAX_TOLD)
    {
        if is_unreadable(row) {
            let _ = writeln!(
                text,
                "What becomes of {} is not known, because its report row cannot be read.",
                row.cluster
            );
            continue;
        }
        let fate = match (list, row.phase) {
            (List::Abort, Phase::PreAction) => "its pre-action is removed, and the update is not requested",
            (List::Abort, Phase::Initialized) => {
                "the request is withdrawn, unless the cluster accepts it before it hears of that; then the update goes on"
            }
            (List::Abort, Phase::Failed) => {
                "if it can still accept the update, the request is withdrawn, and its failure does not count any more"
            }
            (_, Phase::Failed | Phase::PreActionDegraded) => "its failure does not count any more",
            (List::Skip, phase) if phase.is_queued() && !phase.is_left_out() && !row.steps.is_empty() => {
                "it has begun, so it is skipped once nothing of that is under way; kubectl mcu abort withdraws a request that it has not accepted"
            }
            (List::Abort, phase) if phase.is_queued() && !row.steps.is_empty() => {
                "it does not go on, and what it was asked for and has not accepted is withdrawn"
            }
            (_, phase) if phase.is_queued() => "it does not start",
            _ => "what is under way ends first, and its failure does not count",
        };
        let _ = writeln!(text, "{} is {}: {fate}.", row.cluster, row.phase);
    }
    let more = clusters.len().saturating_sub(MAX_TOLD);
    if more > 0 {
        let _ = writeln!(text, "{more} more.");
    }
    text
}

#[cfg(test)]
mod tests;
