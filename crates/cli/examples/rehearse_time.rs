//! Time of a rehearsal of 10,000 clusters and about 24 hours, with the checker on every plan: reading the directory, and
//! playing the rollout; also as a ratio to one plan of the whole fleet, without a checker, for each minute of the rollout.
//!
//! `cargo run --release -p kubectl-mcu --example rehearse_time`

use std::path::Path;
use std::time::Instant;

use chrono::{DateTime, Utc};
use kubectl_mcu::rehearse::files::{Pages, load, save};
use kubectl_mcu::rehearse::outcome::Source;
use kubectl_mcu::rehearse::{Request, rehearse};
use resolve::lists::ListKind;
use resolve::snapshot::{ControllerSettings, Snapshot};
use rollout::forecast::OtherTimes;
use serde_json::{Value, json};

const CLUSTERS: usize = 10_000;
const NOW: DateTime<Utc> = DateTime::UNIX_EPOCH;

fn main() {
    let directory = std::env::temp_dir().join(format!("rehearse-time-{}", std::process::id()));
    for slots in [100, 500] {
        if let Err(failure) = measure(&directory, slots) {
            println!("{slots} slots: {failure}");
        }
    }
}

fn measure(directory: &Path, slots: u32) -> Result<(), String> {
    let written = save(directory, &hub(slots), NOW, ("team", "spring"), "");
    let loaded = written
        .map_err(|failure| failure.to_string())
        .and_then(|_| timed(directory));
    let _ = std::fs::remove_dir_all(directory);
    let (read, mut snapshot) = loaded?;
    let input = snapshot
        .planner_input("u1")
        .map_err(|reason| format!("{reason:?}"))?;
    let begin = Instant::now();
    let plan = rollout::plan(NOW, &input.policy, &input.fleet);
    let one = begin.elapsed().as_secs_f64();
    let request = Request {
        namespace: "team",
        name: "spring",
        uid: "u1",
        now: NOW,
        source: Source::Hub,
        others: OtherTimes::NONE,
        failure_rate: 0.01,
    };
    let begin = Instant::now();
    let rehearsal = rehearse(&mut snapshot, &request).map_err(|reason| format!("{reason:?}"))?;
    let took = begin.elapsed().as_secs_f64();
    let minutes = u32::try_from((rehearsal.end - NOW).num_minutes()).unwrap_or(u32::MAX);
    println!(
        "{CLUSTERS} clusters, {slots} slots, {} h: read {read:.2} s, rehearsed {took:.2} s ({:.2} of a bare plan each minute), {} starts of the first plan",
        minutes / 60,
        took / (one * f64::from(minutes)),
        plan.operations.len(),
    );
    Ok(())
}

/// Reads the directory, and how long that takes in seconds.
fn timed(directory: &Path) -> Result<(f64, Snapshot), String> {
    let begin = Instant::now();
    let (about, pages) = load(directory).map_err(|failure| failure.to_string())?;
    let lists = pages.lists().map_err(|failure| failure.to_string())?;
    let snapshot = Snapshot::new(lists, ControllerSettings::default(), about.read_at);
    Ok((begin.elapsed().as_secs_f64(), snapshot))
}

/// A hub with one upgrade of all clusters.
fn hub(slots: u32) -> Pages {
    let set = json!({"metadata": {"name": "fleet"}, "spec": {}});
    let binding =
        json!({"metadata": {"name": "fleet", "namespace": "team"}, "spec": {"clusterSet": "fleet"}});
    let upgrade = json!({
        "metadata": {"name": "spring", "namespace": "team", "uid": "u1", "generation": 1},
        "spec": {
            "clusterSelector": {"matchLabels": {"env": "prod"}},
            "clusterVersion": {"channel": "stable-4.14", "version": "4.14.12"},
            "ocpOperators": {"includeAll": true},
            "upgradeStrategy": {"maxConcurrency": slots, "minSuccessTime": "30m"},
        },
    });
    let clusters: Vec<Value> = (0..CLUSTERS).map(cluster).collect();
    let mut pages = Pages::default();
    for kind in ListKind::ALL {
        let items = match kind {
            ListKind::Clusters => clusters.clone(),
            ListKind::Sets => vec![set.clone()],
            ListKind::Bindings => vec![binding.clone()],
            ListKind::Upgrades => vec![upgrade.clone()],
            _ => Vec::new(),
        };
        pages.push(kind, json!({"items": items}).to_string());
    }
    pages
}

fn cluster(number: usize) -> Value {
    json!({
        "metadata": {"name": format!("cluster-{number:05}"),
            "labels": {"env": "prod", "cluster.open-cluster-management.io/clusterset": "fleet"}},
        "spec": {"hubAcceptsClient": true},
        "status": {
            "clusterClaims": [
                {"name": "id.openshift.io", "value": format!("00000000-0000-4000-8000-{number:012}")},
                {"name": "product.open-cluster-management.io", "value": "OpenShift"},
                {"name": "version.openshift.io", "value": "4.14.9"},
            ],
            "conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True"}],
        },
    })
}
