//! `cluster`: one cluster in all upgrades.

use std::collections::BTreeMap;

use api::names::LABEL_MCU;
use chrono::Utc;
use serde_json::Value;

use super::show::print;
use crate::args::{ClusterArgs, Common, Output};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hub::Hub;
use crate::hub::any::MANAGED_CLUSTER;
use crate::render::cluster::{Part, Subject, render};
use crate::rows;
use crate::screen::Screen;

pub(super) async fn run(common: &Common, args: &ClusterArgs, screen: Screen) -> Result<Exit, Failure> {
    let hub = Hub::connect(common).await?;
    let reports = hub.reports(common.all_namespaces).await?;
    let parts = parts(&reports, &args.cluster);
    // Who may read upgrades need not be allowed to read ManagedClusters.
    let object = hub
        .object(MANAGED_CLUSTER, None, &args.cluster)
        .await
        .ok()
        .flatten();
    let subject = Subject {
        name: &args.cluster,
        object: object.as_ref(),
        parts: &parts,
    };
    if parts.is_empty() && Output::is_for_humans(common.output) {
        let place = if common.all_namespaces {
            "any namespace".to_owned()
        } else {
            format!("{} namespace", hub.namespace())
        };
        screen.note(&format!(
            "Cluster {} is part of no upgrade in {place}.\n",
            args.cluster
        ));
        return Ok(Exit::Done);
    }
    let text = render(subject, common.output, Utc::now(), screen.paint);
    if Output::is_for_humans(common.output) {
        screen.print(&text);
    } else {
        print(common, &text, screen);
    }
    Ok(Exit::Done)
}

/// The rows of the cluster, one per upgrade; the one that changed last comes first.
fn parts(reports: &[Value], cluster: &str) -> Vec<Part> {
    let mut found: BTreeMap<(String, String), Part> = BTreeMap::new();
    for report in reports {
        let text = |pointer: &str| {
            report
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let upgrade = report["metadata"]["labels"][LABEL_MCU]
            .as_str()
            .unwrap_or_default();
        let all = report.get("rows").and_then(Value::as_array);
        let of_cluster = all.into_iter().flatten().filter(|row| row["cluster"] == cluster);
        for row in of_cluster {
            let read = serde_json::value::to_raw_value(row).ok().and_then(rows::row);
            let Some(row) = read else { continue };
            let part = Part {
                namespace: text("/metadata/namespace").to_owned(),
                upgrade: upgrade.to_owned(),
                row,
            };
            let key = (part.namespace.clone(), part.upgrade.clone());
            let is_newer = |known: &Part| rows::rank(&known.row) < rows::rank(&part.row);
            if found.get(&key).is_none_or(is_newer) {
                found.insert(key, part);
            }
        }
    }
    let mut parts: Vec<Part> = found.into_values().collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.row.since));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report(upgrade: &str, phase: &str, since: &str) -> Value {
        json!({
            "metadata": {"namespace": "upgrades", "labels": {LABEL_MCU: upgrade}},
            "rows": [
                {"cluster": "edge-1", "phase": "Pending", "since": since, "revision": "r1"},
                {"cluster": "edge-2", "phase": phase, "since": since, "revision": "r1"},
            ],
        })
    }

    #[test]
    fn a_cluster_has_one_part_per_upgrade_and_the_newest_comes_first() {
        let reports = [
            report("winter", "Complete", "2026-01-01T10:00:00Z"),
            report("spring", "Pending", "2026-03-01T10:00:00Z"),
            report("spring", "Partial", "2026-03-01T11:00:00Z"),
            json!({"metadata": {}, "rows": "many"}),
        ];
        let parts = parts(&reports, "edge-2");
        let told: Vec<_> = parts
            .iter()
            .map(|part| (&*part.upgrade, part.row.phase.as_str()))
            .collect();
        assert_eq!(told, [("spring", "Partial"), ("winter", "Complete")]);
    }
}
