//! A simulated hub with one upgrade and the reports that a controller would have written, for what only reads them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use api::names::LABEL_MCU;
use api::report::MAX_ROWS;
use api::time::to_rfc3339;
use api::{ManagedClustersUpgrade, ManagedClustersUpgradeReport};
use chrono::{DateTime, TimeDelta, Utc};
use hub_sim::{Hub, Options, Service};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Namespace of the upgrade.
pub const NAMESPACE: &str = "upgrades";
/// Name of the upgrade.
pub const NAME: &str = "spring";

const REPORTS: &str = "managedclustersupgradereports";
const UPGRADES: &str = "managedclustersupgrades";

/// The hub, and what was written to it.
pub struct ReportedFleet {
    client: Client,
    dir: tempfile::TempDir,
    reports: Vec<Vec<Value>>,
}

impl ReportedFleet {
    /// A hub on a port, with these rows.
    ///
    /// # Errors
    /// The hub refuses an object.
    pub async fn start(rows: &[Value]) -> Result<Self> {
        let hub = Hub::new(Options::default());
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let dir = tempfile::tempdir()?;
        std::fs::write(
            dir.path().join("kubeconfig"),
            hub_sim::kubeconfig(listener.local_addr()?),
        )?;
        let served = hub.clone();
        tokio::spawn(async move { hub_sim::serve(&listener, &served).await });
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        hub.create("", "namespaces", &namespace)
            .context("the namespace is refused")?;
        let upgrade = hub
            .create(api::GROUP, UPGRADES, &upgrade())
            .context("the upgrade is refused")?;
        let uid = upgrade.value()["metadata"]["uid"].clone();
        let reports: Vec<Vec<Value>> = rows.chunks(MAX_ROWS).map(<[Value]>::to_vec).collect();
        for (number, rows) in (1..).zip(&reports) {
            hub.create(api::GROUP, REPORTS, &report(number, rows, &uid))
                .with_context(|| format!("report {number} is refused"))?;
        }
        let client = Client::new(Service::new(&hub, "system:admin"), "default");
        Ok(Self { client, dir, reports })
    }

    /// The kubeconfig of the hub.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("kubeconfig")
    }

    /// The row of a cluster, by its position.
    #[must_use]
    pub fn row(&self, position: usize) -> &Value {
        &self.reports[position / MAX_ROWS][position % MAX_ROWS]
    }

    /// Number of reports.
    #[must_use]
    pub const fn reports(&self) -> usize {
        self.reports.len()
    }

    /// Changes rows of one report by their position in it, with one write, as the controller does.
    ///
    /// # Errors
    /// The hub refuses the write.
    pub async fn change(
        &mut self,
        report: usize,
        positions: &[usize],
        change: impl Fn(&mut Value),
    ) -> Result<()> {
        for position in positions {
            change(&mut self.reports[report][*position]);
        }
        let patch = json!({"rows": self.reports[report]});
        let api = self.api::<ManagedClustersUpgradeReport>();
        let name = format!("{NAME}-report-{}", report + 1);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// Writes the status of the upgrade.
    ///
    /// # Errors
    /// The hub refuses the write.
    pub async fn set_status(&self, status: &Value) -> Result<()> {
        let patch = json!({"status": status});
        let api = self.api::<ManagedClustersUpgrade>();
        api.patch_status(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        Ok(())
    }

    /// The upgrade as the hub has it.
    ///
    /// # Errors
    /// The hub has no upgrade.
    pub async fn upgrade(&self) -> Result<Value> {
        let object = self.api::<ManagedClustersUpgrade>().get(NAME).await?;
        Ok(serde_json::to_value(object)?)
    }

    /// Deletes the upgrade.
    ///
    /// # Errors
    /// The hub refuses the deletion.
    pub async fn delete_upgrade(&self) -> Result<()> {
        let api = self.api::<ManagedClustersUpgrade>();
        api.delete(NAME, &kube::api::DeleteParams::default()).await?;
        Ok(())
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), NAMESPACE, &ApiResource::erase::<K>(&()))
    }
}

fn upgrade() -> Value {
    json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": {
            "clusterSelector": {"clusterSets": ["fleet"]},
            "clusterVersion": {"channel": "stable-4.19", "version": "4.19.3"},
            "upgradeStrategy": {
                "maxConcurrency": 100,
                "canaryClusters": {"clusterSelector": {"matchLabels": {"canary": "true"}}},
            },
        },
    })
}

fn report(number: usize, rows: &[Value], uid: &Value) -> Value {
    json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
        "kind": "ManagedClustersUpgradeReport",
        "metadata": {
            "name": format!("{NAME}-report-{number}"),
            "namespace": NAMESPACE,
            "labels": {LABEL_MCU: NAME},
            "ownerReferences": [{
                "apiVersion": format!("{}/{}", api::GROUP, api::VERSION),
                "kind": "ManagedClustersUpgrade", "name": NAME, "uid": uid, "controller": true,
            }],
        },
        "rows": rows,
    })
}

/// Rows of a fleet in the middle of an upgrade: clusters start by name, one in a hundred fails, and some are blocked.
#[must_use]
pub fn rows_in_the_middle(clusters: usize, now: DateTime<Utc>) -> Vec<Value> {
    (0..clusters)
        .map(|position| row_in_the_middle(position, clusters, now))
        .collect()
}

fn row_in_the_middle(position: usize, clusters: usize, now: DateTime<Utc>) -> Value {
    // Spreads positions evenly, so that neighbours differ.
    let spread = position * 7919 % 1009;
    let per_mille = position * 1000 / clusters.max(1);
    let minutes = |minutes: usize| TimeDelta::minutes(i64::try_from(minutes).unwrap_or_default());
    let started = now - minutes(20 + (700 - per_mille.min(680)) / 2 + spread % 17);
    let (phase, reason, message) = if per_mille < 550 && spread % 101 == 3 {
        (
            "Failed",
            "ClusterUpgradeTimeout",
            "The step was not done within 3h: Failing: ClusterOperatorDegraded: etcd",
        )
    } else if per_mille < 550 {
        ("Complete", "", "")
    } else if spread % 97 == 5 {
        (
            "Blocked",
            "ManagedService",
            "The provider of the managed service ROSA upgrades this cluster. Remove the cluster from the selection.",
        )
    } else if per_mille >= 650 {
        (
            "Pending",
            "WaitingForSlot",
            "Waiting for a free slot of maxConcurrency",
        )
    } else {
        match spread % 6 {
            0 => ("Initialized", "Running", "The update is requested"),
            1 => (
                "Operators",
                "Running",
                "Approving the InstallPlans of 3 operators",
            ),
            2 => ("Soaking", "Soaking", "The cluster must stay healthy for 10m"),
            _ => (
                "Partial",
                "Running",
                "Working towards 4.19.3: 512 of 903 done (56% complete)",
            ),
        }
    };
    let ended = match phase {
        "Complete" | "Failed" => Some((started + minutes(15 + spread % 23)).min(now)),
        _ => None,
    };
    let mut row = json!({
        "cluster": format!("edge-{position:05}"),
        "phase": phase, "reason": reason, "message": message,
        "fromVersion": "4.18.22", "toVersion": "4.19.3", "revision": "r1",
        "since": to_rfc3339(ended.unwrap_or(started)),
    });
    if per_mille < 10 || position == 0 {
        row["canary"] = json!(true);
    }
    if phase != "Pending" && phase != "Blocked" {
        let mut step = json!({"name": "Platform", "startedAt": to_rfc3339(started), "appliedAt": to_rfc3339(started + minutes(1))});
        if let Some(ended) = ended {
            step["finishedAt"] = json!(to_rfc3339(ended));
            step["outcome"] = json!(if phase == "Failed" { "Failed" } else { "Succeeded" });
        }
        row["steps"] = json!([step]);
    }
    row
}

/// The status of an upgrade with these rows.
#[must_use]
pub fn status_of(rows: &[Value]) -> Value {
    let count = |phases: &[&str]| {
        let is_in = |row: &&Value| row["phase"].as_str().is_some_and(|phase| phases.contains(&phase));
        rows.iter().filter(is_in).count()
    };
    let canaries = rows.iter().filter(|row| row["canary"] == true).count();
    let (complete, failed) = (count(&["Complete"]), count(&["Failed"]));
    let in_flight = count(&["PreAction", "Initialized", "Partial", "Operators"]);
    let pending = count(&["Pending", "Blocked", "PreAction", "PreActionDegraded"]);
    let starts = rows
        .iter()
        .filter_map(|row| row["steps"][0]["startedAt"].as_str());
    let started = starts.min();
    json!({
        "observedGeneration": 1, "state": "Upgrading", "progress": format!("{complete}/{}", rows.len()),
        "inFlight": in_flight, "effectiveMaxConcurrency": in_flight, "startedAt": started,
        "canaryClustersSummery": {
            "total": canaries, "initialized": canaries, "partialUpgrade": 0, "complete": canaries, "failed": 0, "pending": 0,
        },
        "clustersSummery": {
            "total": rows.len(), "initialized": rows.len() - pending, "partialUpgrade": in_flight, "complete": complete,
            "failed": failed, "pending": pending,
        },
    })
}
