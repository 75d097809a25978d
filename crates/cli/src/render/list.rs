//! The table of upgrades, with the columns of `kubectl get mcu`.

use api::conditions;
use chrono::{DateTime, Utc};

use crate::age;
use crate::paint::Paint;
use crate::render::state_tone;
use crate::table::{Cell, Table, or_none};
use crate::upgrade::Upgrade;

/// The columns in the order of the CRD's. A test compares them.
const COLUMNS: [&str; 10] = [
    "NAME", "TARGET", "STATE", "DONE", "FAILED", "REASON", "AGE", "SLOTS", "CANARIES", "MESSAGE",
];
/// How many of them the narrow table shows.
const NARROW: usize = 7;

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
    let shown = if view.wide { COLUMNS.len() } else { NARROW };
    let mut headers: Vec<&str> = view.namespaces.then_some("NAMESPACE").into_iter().collect();
    headers.extend(&COLUMNS[..shown]);
    let mut table = Table::new(&headers);
    for upgrade in upgrades {
        let namespace = view.namespaces.then_some(upgrade.namespace.as_str());
        let mut row: Vec<Cell> = namespace.map(Cell::from).into_iter().collect();
        row.extend(cells(upgrade, now).into_iter().take(shown));
        table.push(row);
    }
    table.render(paint, 0)
}

fn cells(upgrade: &Upgrade, now: DateTime<Utc>) -> [Cell; COLUMNS.len()] {
    let status = upgrade.status.as_ref();
    let failed = status
        .and_then(|status| status.clusters_summery)
        .map_or_else(String::new, |counts| counts.failed.to_string());
    let ready = upgrade.condition(conditions::READY);
    let state = upgrade.state();
    let text = |text: Option<&str>| Cell::from(or_none(text.unwrap_or_default()));
    [
        upgrade.name.as_str().into(),
        upgrade.target().into(),
        Cell::toned(state_tone(&state), state),
        text(status.and_then(|status| status.progress.as_deref())),
        text(Some(failed.as_str())),
        text(ready.map(|ready| ready.reason.as_str())),
        age::since(now, upgrade.created).into(),
        text(status.and_then(|status| status.slots.as_deref())),
        text(status.and_then(|status| status.canaries.as_deref())),
        text(ready.map(|ready| ready.message.as_str())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::fixtures::{complete, now, running, stalled, unseen};

    #[test]
    fn the_columns_are_those_of_the_crd() {
        let crd = api::schema::crds().remove(0);
        let columns = crd.spec.versions[0].additional_printer_columns.clone().unwrap();
        let named = |wide: bool| {
            let columns = columns.iter();
            columns
                .filter(move |column| column.priority.is_some_and(|priority| priority > 0) == wide)
                .map(|column| column.name.to_uppercase())
                .collect::<Vec<_>>()
        };
        assert_eq!(COLUMNS[1..NARROW], named(false));
        assert_eq!(COLUMNS[NARROW..], named(true));
    }

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
