//! The table of ManifestWorks whose upgrade no longer exists.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::age;
use crate::args::Output;
use crate::orphans::Orphan;
use crate::paint::Paint;
use crate::render::objects::{list, machine};
use crate::table::{Cell, Table, lines, or_none};

const NARROW: &[&str] = &["NAMESPACE", "NAME", "UPGRADE", "AGE", "OUTLOOK"];
const WIDE: &[&str] = &[
    "NAMESPACE",
    "NAME",
    "UPGRADE",
    "AGE",
    "OUTLOOK",
    "UPGRADE-UID",
    "UID",
];

/// Renders the works in the requested format.
#[must_use]
pub fn render(orphans: &[Orphan], output: Option<Output>, now: DateTime<Utc>, paint: Paint) -> String {
    let values = || -> Vec<Value> { orphans.iter().map(|orphan| orphan.object.clone()).collect() };
    if output == Some(Output::Name) {
        return lines(orphans.iter().map(|orphan| {
            format!(
                "manifestwork.work.open-cluster-management.io/{}",
                crate::table::one_line(&orphan.name)
            )
        }));
    }
    machine(output, || list(&values()))
        .unwrap_or_else(|| table(orphans, output == Some(Output::Wide), now, paint))
}

fn table(orphans: &[Orphan], wide: bool, now: DateTime<Utc>, paint: Paint) -> String {
    let mut table = Table::new(if wide { WIDE } else { NARROW });
    for orphan in orphans {
        let mut cells: Vec<Cell> = vec![
            orphan.namespace.as_str().into(),
            orphan.name.as_str().into(),
            or_none(&orphan.owner).into(),
            age::since(now, orphan.created).into(),
            orphan.outlook().into(),
        ];
        if wide {
            cells.push(orphan.upgrade.as_str().into());
            cells.push(orphan.uid.as_str().into());
        }
        table.push(cells);
    }
    table.render(paint, 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::orphans::find;
    use api::names::{ANNOTATION_OWNER, LABEL_MCU_UID};
    use serde_json::json;

    fn orphans() -> Vec<Orphan> {
        let work = json!({
            "namespace": "edge-17", "name": "edge-17-cluster-upgrade", "uid": "w1",
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "labels": {LABEL_MCU_UID: "u9"}, "annotations": {ANNOTATION_OWNER: "upgrades/\u{1b}[2Jspring"},
        });
        find(vec![work], &[], None)
    }

    fn shown(output: Option<Output>) -> String {
        let now = api::time::parse_rfc3339("2026-03-01T12:00:00Z").unwrap();
        render(&orphans(), output, now, Paint::Never)
    }

    #[test]
    fn a_table_names_work_and_upgrade_without_control_characters() {
        let text = shown(None);
        assert!(
            text.contains("edge-17-cluster-upgrade") && text.contains("120m"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
        assert!(shown(Some(Output::Wide)).contains("u9"));
    }

    #[test]
    fn machines_get_the_metadata_and_the_type() {
        let back: Value = serde_json::from_str(&shown(Some(Output::Json))).unwrap();
        assert_eq!(back["items"][0]["kind"], "ManifestWork");
        assert_eq!(back["items"][0]["metadata"]["uid"], "w1");
        assert_eq!(
            shown(Some(Output::Name)),
            "manifestwork.work.open-cluster-management.io/edge-17-cluster-upgrade\n"
        );
    }
}
