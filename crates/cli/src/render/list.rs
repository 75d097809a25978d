//! The table of upgrades, with the columns of `kubectl get mcu`.

use api::conditions;
use chrono::{DateTime, Utc};

use crate::age;
use crate::paint::Paint;
use crate::render::state_tone;
use crate::table::{Cell, Table, or_none};
use crate::upgrade::Upgrade;

const NARROW: &[&str] = &["NAME", "TARGET", "STATE", "DONE", "FAILED", "AGE"];
const WIDE: &[&str] = &[
    "NAME",
    "TARGET",
    "STATE",
    "DONE",
    "FAILED",
    "AGE",
    "CHANNEL",
    "IN-FLIGHT",
    "SLOTS",
    "PENDING",
    "CANARIES",
    "REASON",
];

/// The columns of the table.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Show all columns.
    pub wide: bool,
    /// Show a column for the namespace.
    pub namespaces: bool,
}

/// Renders the table of upgrades.
#[must_use]
pub fn table(upgrades: &[Upgrade], view: View, now: DateTime<Utc>, paint: Paint) -> String {
    let columns = if view.wide { WIDE } else { NARROW };
    let headers: Vec<&'static str> = view
        .namespaces
        .then_some("NAMESPACE")
        .into_iter()
        .chain(columns.iter().copied())
        .collect();
    let mut table = Table::new(&headers);
    for upgrade in upgrades {
        let mut row: Vec<Cell> = Vec::new();
        if view.namespaces {
            row.push(upgrade.namespace.as_str().into());
        }
        row.extend(narrow(upgrade, now));
        if view.wide {
            row.extend(wide(upgrade));
        }
        table.push(row);
    }
    table.render(paint, 0)
}

fn narrow(upgrade: &Upgrade, now: DateTime<Utc>) -> [Cell; 6] {
    let status = upgrade.status.as_ref();
    let progress = status
        .and_then(|status| status.progress.as_deref())
        .unwrap_or_default();
    let failed = status
        .and_then(|status| status.clusters_summery)
        .map(|counts| counts.failed);
    let state = upgrade.state();
    [
        upgrade.name.as_str().into(),
        upgrade.target().into(),
        Cell::toned(state_tone(&state), state),
        or_none(progress).into(),
        number(failed).into(),
        age::since(now, upgrade.created).into(),
    ]
}

fn wide(upgrade: &Upgrade) -> [Cell; 6] {
    let status = upgrade.status.as_ref();
    let canaries = status
        .and_then(|status| status.canary_clusters_summery)
        .filter(|counts| counts.total > 0);
    let stalled = upgrade
        .condition(conditions::STALLED)
        .filter(|stalled| stalled.status == "True");
    [
        or_none(upgrade.spec_text("/clusterVersion/channel")).into(),
        number(status.and_then(|status| status.in_flight)).into(),
        number(status.and_then(|status| status.effective_max_concurrency)).into(),
        number(
            status
                .and_then(|status| status.clusters_summery)
                .map(|counts| counts.pending),
        )
        .into(),
        canaries
            .map_or_else(
                || "<none>".to_owned(),
                |counts| format!("{}/{}", counts.complete, counts.total),
            )
            .into(),
        stalled.map_or("<none>", |stalled| stalled.reason.as_str()).into(),
    ]
}

fn number(number: Option<i64>) -> String {
    number.map_or_else(|| "<none>".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{complete, now, running, stalled, unseen};

    #[test]
    fn upgrades_are_listed_with_the_columns_of_kubectl_get() {
        let upgrades = [running(), stalled(), complete(), unseen()];
        insta::assert_snapshot!(table(&upgrades, View::default(), now(), Paint::Never));
    }

    #[test]
    fn wide_and_all_namespaces_add_columns() {
        let view = View {
            wide: true,
            namespaces: true,
        };
        insta::assert_snapshot!(table(
            &[running(), stalled(), unseen()],
            view,
            now(),
            Paint::Never
        ));
    }
}
