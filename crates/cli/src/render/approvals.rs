//! The checkpoints of upgrades: which wait for an approval, and who approved.

use api::mcu::{CheckpointStatus, LastApproval};
use api::time::to_chrono;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};

use crate::age;
use crate::args::Output;
use crate::paint::{Paint, Tone};
use crate::render::objects::{list, machine};
use crate::render::rehearse::seconds;
use crate::table::{Cell, Table, lines, one_line, or_none};
use crate::upgrade::Upgrade;

/// Renders the checkpoints of these upgrades in the requested format.
#[must_use]
pub fn render(
    upgrades: &[Upgrade],
    namespaces: bool,
    output: Option<Output>,
    now: DateTime<Utc>,
    paint: Paint,
) -> String {
    let all: Vec<(&Upgrade, &CheckpointStatus)> = upgrades
        .iter()
        .flat_map(|upgrade| {
            let approvals = upgrade.status.iter().flat_map(|status| &status.approvals);
            approvals.map(move |checkpoint| (upgrade, checkpoint))
        })
        .collect();
    if output == Some(Output::Name) {
        return lines(
            all.iter()
                .map(|(upgrade, checkpoint)| format!("{}/{}", upgrade.name, or_none(&checkpoint.name))),
        );
    }
    machine(output, || {
        list(
            &all.iter()
                .map(|(upgrade, checkpoint)| entry(upgrade, checkpoint))
                .collect::<Vec<_>>(),
        )
    })
    .unwrap_or_else(|| table(&all, namespaces, now, paint))
}

/// What to say if these upgrades have no checkpoint; `None` if they have one. `named`: whether they are the one that was named.
#[must_use]
pub fn none(upgrades: &[Upgrade], named: bool) -> Option<&'static str> {
    let mut statuses = upgrades.iter().filter_map(|upgrade| upgrade.status.as_ref());
    if statuses.any(|status| !status.approvals.is_empty()) {
        return None;
    }
    let is_observed = upgrades.iter().all(Upgrade::is_observed);
    Some(match (named, is_observed) {
        (false, _) => "No checkpoints found.\n",
        (true, true) => "The upgrade has no checkpoint.\n",
        (true, false) => "The controller has not processed this upgrade yet.\n",
    })
}

/// What an upgrade waits for, and how to approve it. `None` if it waits for no approval.
#[must_use]
pub fn asked(upgrade: &Upgrade, now: DateTime<Utc>) -> Option<String> {
    let approvals = &upgrade.status.as_ref()?.approvals;
    let mut open = approvals.iter().filter(|checkpoint| checkpoint.is_waiting());
    let first = open.next()?;
    let since = first.waiting_since.as_ref().and_then(to_chrono);
    let since = since.map(|since| format!(" for {}", age::human(now - since)));
    let others = match open.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let name = one_line(&first.name);
    Some(format!(
        "checkpoint {name}{others} waiting{}: kubectl mcu approve {} {name} -n {}",
        since.unwrap_or_default(),
        upgrade.name,
        upgrade.namespace
    ))
}

fn entry(upgrade: &Upgrade, checkpoint: &CheckpointStatus) -> Value {
    let mut entry = json!({"namespace": upgrade.namespace, "upgrade": upgrade.name});
    if let (Some(entry), Ok(Value::Object(fields))) =
        (entry.as_object_mut(), serde_json::to_value(checkpoint))
    {
        entry.extend(fields);
    }
    entry
}

fn table(
    all: &[(&Upgrade, &CheckpointStatus)],
    namespaces: bool,
    now: DateTime<Utc>,
    paint: Paint,
) -> String {
    let columns = [
        "NAMESPACE",
        "UPGRADE",
        "CHECKPOINT",
        "STATE",
        "WAITING",
        "APPROVER",
        "EXPIRES",
        "MESSAGE",
    ];
    let skipped = usize::from(!namespaces);
    let mut table = Table::new(&columns[skipped..]);
    for (upgrade, checkpoint) in all {
        let since = checkpoint.waiting_since.as_ref().and_then(to_chrono);
        let tone = match checkpoint.state.as_str() {
            CheckpointStatus::WAITING => Tone::Warn,
            CheckpointStatus::APPROVED => Tone::Good,
            _ => Tone::Plain,
        };
        let message = match (checkpoint.changed.as_str(), &checkpoint.last_approval) {
            ("", None) => checkpoint.message.clone(),
            ("", Some(last)) => no_longer_approved(last),
            (changed, _) => format!("since the last approval {changed} changed"),
        };
        let row: Vec<Cell> = vec![
            upgrade.namespace.as_str().into(),
            upgrade.name.as_str().into(),
            checkpoint.name.as_str().into(),
            Cell::toned(tone, checkpoint.state.as_str()),
            since
                .map_or_else(|| "<none>".to_owned(), |since| age::human(now - since))
                .into(),
            or_none(&checkpoint.approver).into(),
            checkpoint
                .expires
                .as_ref()
                .and_then(to_chrono)
                .map_or_else(|| "<none>".to_owned(), seconds)
                .into(),
            or_none(&message).into(),
        ];
        table.push(row.into_iter().skip(skipped).collect());
    }
    table.render(paint, 0)
}

fn no_longer_approved(last: &LastApproval) -> String {
    let at = last.approved_at.as_ref().and_then(to_chrono);
    let at = at.map(|at| format!(" at {}", seconds(at)));
    format!(
        "{} approved{}, and that does not count any more",
        last.approver,
        at.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests;
