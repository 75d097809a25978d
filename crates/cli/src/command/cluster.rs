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
    let place = if common.all_namespaces {
        "any namespace".to_owned()
    } else {
        format!("{} namespace", hub.namespace())
    };
    let found = hub.object(MANAGED_CLUSTER, None, &args.cluster).await;
    let (object, warning) = known(found, &args.cluster, &place, !parts.is_empty())?;
    screen.note(&warning);
    let subject = Subject {
        name: &args.cluster,
        object: object.as_ref(),
        parts: &parts,
    };
    if parts.is_empty() && Output::is_for_humans(common.output) {
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

/// The ManagedCluster, if it can be read, and a warning, which may be empty. Who may read upgrades need not be allowed to read
/// ManagedClusters, and a cluster may have left the hub after an upgrade.
fn known(
    found: Result<Option<Value>, Failure>,
    name: &str,
    place: &str,
    is_part: bool,
) -> Result<(Option<Value>, String), Failure> {
    match found {
        Ok(None) if is_part => Ok((
            None,
            format!(
                "Warning: there is no ManagedCluster {name:?} any more; this is what reports say of it.\n"
            ),
        )),
        Ok(None) => Err(Failure::Other(format!(
            "there is no ManagedCluster {name:?}, and no upgrade in {place} has a cluster of this name"
        ))),
        Ok(object) => Ok((object, String::new())),
        Err(Failure::Server { reason, message }) if reason == "Forbidden" => Ok((
            None,
            format!("Warning: {message}. So it is not known whether there is such a ManagedCluster.\n"),
        )),
        Err(failure) => Err(failure),
    }
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
        // Who reads reports need not be allowed to read upgrades, so their UIDs are not known here.
        if !rows::is_owned(report, "name", upgrade) {
            continue;
        }
        let all = report.get("rows").and_then(Value::as_array);
        let of_cluster = all.into_iter().flatten().filter(|row| row["cluster"] == cluster);
        for row in of_cluster {
            let read = serde_json::value::to_raw_value(row)
                .ok()
                .and_then(|text| rows::row(text).0);
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
mod tests;
