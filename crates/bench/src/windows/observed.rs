//! What maintenance windows add to an observation of the hub and the plan after it: the controller reads the time zone of every cluster
//! and which windows select it.

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Result, anyhow};
use chrono::{DateTime, Utc};
use resolve::lists::{HubLists, ListKind, ListedPage};
use resolve::snapshot::{ControllerSettings, Snapshot};
use rollout::plan;
use serde_json::{Value, json};

use super::{ZONES, median};

const UID: &str = "upgrade";

/// How long an observation and its plan take, for clusters of as many zones as there are, with windows or without.
pub(super) fn measure(now: DateTime<Utc>, clusters: usize, times: usize, windows: bool) -> Result<Duration> {
    let mut lists = HubLists::default();
    let fleet: Vec<Value> = (0..clusters).map(cluster).collect();
    add(&mut lists, ListKind::Clusters, &fleet)?;
    add(&mut lists, ListKind::Upgrades, &[upgrade(windows)])?;
    let settings = ControllerSettings {
        require_bindings: false,
        ..ControllerSettings::default()
    };
    let mut snapshot = Snapshot::new(lists, settings, now);
    let mut observe = || {
        let input = snapshot.planner_input(UID);
        input.map_err(|refusal| anyhow!("the upgrade of the benchmark is refused: {refusal:?}"))
    };
    let input = observe()?;
    if input.fleet.clusters.len() != clusters || input.fleet.calendars.is_empty() == windows {
        return Err(anyhow!(
            "the upgrade of the benchmark selects other clusters than it should"
        ));
    }
    Ok(median(times, || {
        if let Ok(input) = observe() {
            drop(black_box(plan(now, &input.policy, &input.fleet)));
        }
    }))
}

fn add(lists: &mut HubLists, kind: ListKind, items: &[Value]) -> Result<()> {
    let text = json!({"metadata": {}, "items": items}).to_string();
    let page = ListedPage::read(&text).map_err(|error| anyhow!(error))?;
    lists.add(kind, &page);
    Ok(())
}

fn cluster(index: usize) -> Value {
    json!({
        "metadata": {
            "name": format!("spoke-{index:05}"),
            "labels": {"site": if index.is_multiple_of(3) { "core" } else { "far-edge" }},
            "annotations": {"example.com/time-zone": ZONES[index % ZONES.len()]},
        },
        "spec": {"hubAcceptsClient": true},
        "status": {"clusterClaims": [{"name": "product.open-cluster-management.io", "value": "OpenShift"}]},
    })
}

fn upgrade(windows: bool) -> Value {
    let mut upgrade = json!({
        "metadata": {"name": "u", "namespace": "team", "uid": UID, "generation": 1, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "clusterSelector": {"matchExpressions": [{"key": "site", "operator": "Exists"}]},
            "clusterVersion": {"channel": "stable-4.20", "version": "4.20.4"},
            "upgradeStrategy": {"maxConcurrency": 1000},
        },
    });
    if windows {
        upgrade["spec"]["maintenance"] = json!({
            "timeZoneFrom": {"annotation": "example.com/time-zone"},
            "minimumRemaining": "2h",
            "windows": [
                {"name": "nights", "schedule": "0 22 * * 1-5", "duration": "6h"},
                {"name": "weekend", "schedule": "0 0 * * 6", "duration": "48h",
                    "clusterSelector": {"matchLabels": {"site": "far-edge"}}},
            ],
            "exclusions": [{"name": "year-end", "start": "2026-12-18T00:00", "end": "2027-01-07T00:00"}],
        });
    }
    upgrade
}
