//! The finished upgrades that `bench fleet --history` creates on the hub, beside the measured one.
//!
//! They are written as the controller would have left them, as its own account: complete, with the finalizer, and with a
//! report row for every cluster.

use anyhow::{Context as _, Result};
use api::names::{
    ANNOTATION_COMPLETED, ANNOTATION_UPGRADE_UID, FINALIZER, LABEL_MCU, LABEL_MCU_UID, report_name,
};
use api::report::MAX_ROWS;
use api::{ManagedClustersUpgrade, ManagedClustersUpgradeReport};
use e2e::testbed;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use resolve::works::{Templates, WorkFlags};
use serde_json::{Value, json};
use testenv::FleetSpec;

use super::test_bed::{TestBed, note};
use super::{FleetArgs, NAMESPACE};

/// Writes at one time.
const WRITERS: usize = 16;

/// Puts the finished upgrades on the hub.
///
/// # Errors
/// The hub rejects a request.
pub(super) async fn create(args: &FleetArgs, bed: &TestBed) -> Result<()> {
    if args.history == 0 {
        return Ok(());
    }
    let shards = args.clusters.div_ceil(MAX_ROWS);
    note(&format!(
        "creating {} finished upgrades with {shards} reports each",
        args.history
    ));
    let client = bed.controller_client().await?;
    let clusters: Vec<String> = FleetSpec::numbered("spoke", args.clusters)
        .clusters
        .into_iter()
        .map(|cluster| cluster.name)
        .collect();
    for number in 1..=args.history {
        let name = format!("history-{number}");
        let mut spec = args.spec();
        spec["clusterVersion"]["version"] = json!(format!("4.19.{number}"));
        spec["clusterVersion"]["channel"] = json!("stable-4.19");
        let upgrade = testbed::create_upgrade(&bed.hub, NAMESPACE, &name, &spec).await?;
        finish(&client, &upgrade, &clusters).await?;
    }
    Ok(())
}

async fn finish(client: &Client, upgrade: &DynamicObject, clusters: &[String]) -> Result<()> {
    let typed: ManagedClustersUpgrade = serde_json::from_value(serde_json::to_value(upgrade)?)?;
    let (name, uid) = (typed.name_any(), typed.uid().unwrap_or_default());
    let templates = Templates::new(&typed.spec, &WorkFlags::default());
    let api: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &ApiResource::erase::<ManagedClustersUpgradeReport>(&()),
    );
    stream::iter(clusters.chunks(MAX_ROWS).enumerate())
        .map(|(shard, members)| {
            let body = report(&name, &uid, shard, members, templates.revision());
            let api = api.clone();
            async move {
                let body = serde_json::from_value(body)?;
                api.create(&PostParams::default(), &body).await?;
                anyhow::Ok(())
            }
        })
        .buffer_unordered(WRITERS)
        .try_collect::<Vec<()>>()
        .await
        .with_context(|| format!("the reports of {name}"))?;
    let upgrades: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        NAMESPACE,
        &ApiResource::erase::<ManagedClustersUpgrade>(&()),
    );
    let completed = json!({
        "upgrade": format!("{NAMESPACE}/{name}"), "revision": templates.revision(),
        "time": "2026-01-01T11:00:00.000Z", "clusters": clusters.len(),
    });
    let annotations = json!({ANNOTATION_COMPLETED: completed.to_string(), ANNOTATION_UPGRADE_UID: uid});
    let kept = json!({"metadata": {"finalizers": [FINALIZER], "annotations": annotations}});
    upgrades
        .patch(&name, &PatchParams::default(), &Patch::Merge(&kept))
        .await?;
    let status = json!({"status": status(clusters.len())});
    upgrades
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&status))
        .await?;
    Ok(())
}

fn report(name: &str, uid: &str, shard: usize, clusters: &[String], revision: &str) -> Value {
    let group = format!("{}/{}", api::GROUP, api::VERSION);
    let (begun, done) = ("2026-01-01T10:00:00Z", "2026-01-01T11:00:00Z");
    let rows: Vec<Value> = clusters
        .iter()
        .map(|cluster| {
            json!({
                "cluster": cluster, "phase": "Complete", "since": done, "revision": revision,
                "fromVersion": "4.18.0", "toVersion": "4.19.9",
                "steps": [{"name": "Platform", "startedAt": begun, "appliedAt": begun, "finishedAt": done, "outcome": "Succeeded"}],
            })
        })
        .collect();
    json!({
        "apiVersion": group, "kind": "ManagedClustersUpgradeReport",
        "metadata": {
            "name": report_name(name, shard + 1), "namespace": NAMESPACE,
            "labels": {LABEL_MCU: name, LABEL_MCU_UID: uid},
            "ownerReferences": [{"apiVersion": group, "kind": "ManagedClustersUpgrade", "name": name, "uid": uid,
                                 "controller": true, "blockOwnerDeletion": true}],
        },
        "rows": rows,
    })
}

fn status(clusters: usize) -> Value {
    let counts = json!({"total": clusters, "initialized": clusters, "partialUpgrade": 0, "complete": clusters,
                        "failed": 0, "pending": 0});
    json!({
        "observedGeneration": 1, "state": "Complete", "progress": format!("{clusters}/{clusters}"),
        "inFlight": 0, "effectiveMaxConcurrency": 1, "clustersSummery": counts, "phases": {"Complete": clusters},
    })
}

/// Seconds of CPU that a process has used; zero where there is no `/proc`.
pub fn cpu_seconds(pid: u32) -> f64 {
    /// Of the kernel's interface, whatever its own clock.
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may contain anything.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map_or("", |(_, rest)| rest)
        .split_whitespace()
        .collect();
    let ticks = |index: usize| {
        fields
            .get(index)
            .and_then(|text| text.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    (ticks(11) + ticks(12)) / TICKS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_the_history_is_one_that_the_controller_can_read() {
        let body = report("history-1", "u1", 0, &["spoke-1".to_owned()], "r1");
        let text = body.to_string();
        let read: api::views::Report = serde_json::from_str(&text).unwrap();
        assert_eq!(read.metadata.name.as_deref(), Some("history-1-report-1"));
        assert_eq!(read.rows.good().count(), 1);
    }

    #[test]
    fn this_process_has_used_the_cpu() {
        if std::path::Path::new("/proc/self/stat").exists() {
            assert!(cpu_seconds(std::process::id()) >= 0.0);
        }
    }
}
