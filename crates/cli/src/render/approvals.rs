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
mod tests {
    use super::*;

    #[test]
    fn an_approval_that_does_not_count_any_more_is_told() {
        let upgrade = Upgrade::read(json!({"status": {"observedGeneration": 1, "approvals": [{
            "name": "half", "state": "Waiting", "planHash": "1a2b",
            "lastApproval": {"planHash": "1a2b", "approver": "anna", "approvedAt": "1970-01-01T00:00:00Z"},
        }]}}));
        let text = render(&[upgrade], false, None, DateTime::UNIX_EPOCH, Paint::default());
        assert!(
            text.ends_with("anna approved at 1970-01-01T00:00:00Z, and that does not count any more\n"),
            "{text}"
        );
    }

    #[test]
    fn checkpoints_are_listed_with_how_long_they_wait_and_who_approved() {
        let upgrade = Upgrade::read(json!({
            "metadata": {"name": "spring", "namespace": "fleet", "uid": "u1", "generation": 1},
            "status": {"observedGeneration": 1, "approvals": [
                {"name": "first", "state": "Approved", "planHash": "1a2b", "approver": "anna", "message": "CHG0042"},
                {"name": "half", "state": "Waiting", "planHash": "1a2b", "waitingSince": "1970-01-01T00:00:00Z", "changed": "the spec"},
            ]},
        }));
        let now = DateTime::UNIX_EPOCH + chrono::TimeDelta::hours(4);
        let paint = Paint::default();
        assert_eq!(
            render(std::slice::from_ref(&upgrade), false, None, now, paint),
            "UPGRADE   CHECKPOINT   STATE      WAITING   APPROVER   EXPIRES   MESSAGE\n\
             spring    first        Approved   <none>    anna       <none>    CHG0042\n\
             spring    half         Waiting    4h        <none>     <none>    since the last approval the spec changed\n"
        );
        let json = render(
            std::slice::from_ref(&upgrade),
            true,
            Some(Output::Json),
            now,
            paint,
        );
        assert!(json.contains("\"upgrade\": \"spring\""), "{json}");
        assert_eq!(
            asked(&upgrade, now).as_deref(),
            Some("checkpoint half waiting for 4h: kubectl mcu approve spring half -n fleet")
        );
        assert_eq!(
            render(
                std::slice::from_ref(&upgrade),
                true,
                Some(Output::Name),
                now,
                paint
            ),
            "spring/first\nspring/half\n"
        );
    }
}
