//! `skip` and `unskip`: each edits the list of clusters that the upgrade leaves out.

use std::fmt::Write as _;

use api::mcu::MAX_SKIPPED;
use api::report::Phase;
use serde_json::{Value, json};

use crate::args::{Common, SkipArgs, UnskipArgs};
use crate::edit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::render::objects;
use crate::rows::Rows;
use crate::screen::Screen;
use crate::upgrade::{TYPE_AND_GROUP, Upgrade};

/// Clusters whose fate is told one by one.
const MAX_TOLD: usize = 10;

pub(super) async fn skip(common: &Common, args: &SkipArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let rows = hub.rows(&upgrade).await?;
    let list = with(&upgrade, &rows, args)?;
    let text = fates(&rows, &args.clusters);
    write(common, &hub, &upgrade, list, (args.dry_run, &text), screen).await
}

pub(super) async fn unskip(common: &Common, args: &UnskipArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let upgrade = hub.upgrade(&args.name).await?;
    let list = without(&upgrade, &args.clusters)?;
    let text = "They are upgraded when their turn comes.\n";
    write(common, &hub, &upgrade, list, (args.dry_run, text), screen).await
}

async fn write(
    common: &Common,
    hub: &Hub,
    upgrade: &Upgrade,
    list: Vec<Value>,
    (dry_run, text): (bool, &str),
    screen: Screen,
) -> Result<Exit, Failure> {
    let name = format!("{TYPE_AND_GROUP}/{}", upgrade.name);
    if dry_run {
        screen.print(&format!("{name} edited (dry run)\n{text}"));
        return Ok(Exit::Done);
    }
    let after = edit::carry_out(hub, upgrade, &json!({"upgradeStrategy": {"skip": list}})).await?;
    let shown = objects::upgrade(common.output, &after);
    screen.print(&shown.unwrap_or_else(|| format!("{name} edited\n{text}")));
    Ok(Exit::Done)
}

fn skipped(upgrade: &Upgrade) -> Vec<Value> {
    let known = upgrade.object.pointer("/spec/upgradeStrategy/skip");
    known.and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The list with these clusters.
///
/// # Errors
/// A cluster is not of the upgrade, is complete, or is a canary and that is not acknowledged; there is no reason, or no room.
fn with(upgrade: &Upgrade, rows: &Rows, args: &SkipArgs) -> Result<Vec<Value>, Failure> {
    let reason = args.reason.trim();
    if reason.is_empty() {
        return Err(Failure::Other(
            "--reason: say why the cluster is skipped; it is kept in the spec for those who ask later"
                .to_owned(),
        ));
    }
    let mut list = skipped(upgrade);
    for cluster in &args.clusters {
        let row = rows.named(cluster, &args.name)?;
        if row.phase == Phase::Complete {
            return Err(Failure::Other(format!(
                "{cluster} is complete, so there is nothing to skip"
            )));
        }
        if row.canary && !args.acknowledge_canary {
            return Err(Failure::Other(format!(
                "{cluster} is a canary: the other clusters would start without it; add --acknowledge-canary if that is what you want"
            )));
        }
        let mut entry = json!({"cluster": cluster, "reason": reason});
        if row.canary {
            entry["acknowledgeCanary"] = json!(true);
        }
        match list.iter_mut().find(|known| known["cluster"] == **cluster) {
            Some(known) => *known = entry,
            None => list.push(entry),
        }
    }
    if list.len() > MAX_SKIPPED {
        return Err(Failure::Other(format!(
            "spec.upgradeStrategy.skip may have at most {MAX_SKIPPED} entries; select fewer clusters instead"
        )));
    }
    Ok(list)
}

/// The list without these clusters.
///
/// # Errors
/// A cluster is not skipped.
fn without(upgrade: &Upgrade, clusters: &[String]) -> Result<Vec<Value>, Failure> {
    let mut list = skipped(upgrade);
    for cluster in clusters {
        let before = list.len();
        list.retain(|known| known["cluster"] != **cluster);
        if list.len() == before {
            return Err(Failure::Other(format!("{cluster} is not skipped")));
        }
    }
    Ok(list)
}

/// What becomes of clusters that are skipped.
fn fates(rows: &Rows, clusters: &[String]) -> String {
    let mut text = String::new();
    for row in clusters
        .iter()
        .filter_map(|cluster| rows.of(cluster))
        .take(MAX_TOLD)
    {
        let fate = match row.phase {
            Phase::Failed | Phase::PreActionDegraded => "its failure does not count any more",
            phase if phase.is_queued() => "it does not start",
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
