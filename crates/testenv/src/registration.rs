//! Simulates the registration agent of a cluster: heartbeat, health and claims, as the agents' user on the hub.
//!
//! It writes what OCM's registration agent writes after its cluster has joined, with the rights that OCM gives the agents'
//! group. The claims are those that a hub's add-on makes on an OpenShift cluster: its ID, and the version it last completed.
//! The real registration controller decides the rest: the taints, and the Unknown of a cluster whose lease has expired.

use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::fleet;
use crate::kubeconfig::HubKubeconfig;

/// Name of the lease that the registration controller makes in a cluster's namespace.
const LEASE: &str = "managed-cluster-lease";
/// Time between two heartbeats.
const PERIOD: Duration = Duration::from_millis(500);
/// How long the cluster's API server may take to say that it lives.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// A running agent; it stops when this is dropped.
#[derive(Debug)]
pub struct RegistrationAgent {
    task: JoinHandle<()>,
}

impl Drop for RegistrationAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RegistrationAgent {
    /// Starts to beat for a cluster: `hub` is the agents' user there, `spoke` any user of the cluster.
    ///
    /// # Errors
    /// An address does not parse.
    pub async fn start(cluster: &str, hub: &HubKubeconfig, spoke: &HubKubeconfig) -> Result<Self> {
        let hub = hub.client().await?;
        let mut config: Config = spoke.config().await?;
        config.connect_timeout = Some(HEALTH_TIMEOUT);
        config.read_timeout = Some(HEALTH_TIMEOUT);
        let spoke = Client::try_from(config)?;
        let cluster = cluster.to_owned();
        let task = tokio::spawn(async move {
            loop {
                if let Err(error) = beat(&cluster, &hub, &spoke).await {
                    // The hub may be unreachable, or may not have bound the role yet. The next heartbeat tries again.
                    tracing::debug!(cluster, "heartbeat: {error:#}");
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        Ok(Self { task })
    }
}

async fn beat(cluster: &str, hub: &Client, spoke: &Client) -> Result<()> {
    let request = http::Request::get("/livez").body(Vec::new())?;
    let alive = tokio::time::timeout(HEALTH_TIMEOUT, spoke.request_text(request)).await;
    let status = if matches!(alive, Ok(Ok(_))) {
        "True"
    } else {
        "False"
    };
    renew(cluster, hub).await?;
    let known = fleet::managed_clusters(hub).get(cluster).await?.data["status"].take();
    if !has(&known["conditions"], "type", fleet::AVAILABLE, "status", status) {
        fleet::set_available(hub, cluster, status).await?;
    }
    for (name, value) in claims(spoke).await? {
        if !has(&known["clusterClaims"], "name", name, "value", &value) {
            fleet::set_claims(hub, cluster, &[(name, Some(&value))]).await?;
        }
    }
    Ok(())
}

/// What the cluster claims. Without a ClusterVersion the claims stay as they are.
async fn claims(spoke: &Client) -> Result<Vec<(&'static str, String)>> {
    let kind = fleet::resource("config.openshift.io", "v1", "ClusterVersion");
    let versions: Api<DynamicObject> = Api::all_with(spoke.clone(), &kind);
    let read = tokio::time::timeout(HEALTH_TIMEOUT, versions.get_opt("version")).await;
    let Ok(Ok(Some(version))) = read else {
        return Ok(Vec::new());
    };
    let id = version.data["spec"]["clusterID"].as_str();
    let history = version.data["status"]["history"].as_array();
    let completed = history
        .into_iter()
        .flatten()
        .find(|entry| entry["state"] == "Completed")
        .and_then(|entry| entry["version"].as_str());
    let claims = [(fleet::CLUSTER_ID_CLAIM, id), (fleet::VERSION_CLAIM, completed)];
    Ok(claims
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?.to_owned())))
        .collect())
}

/// Whether a list has an item with this key and this value.
fn has(list: &Value, key: &str, name: &str, field: &str, value: &str) -> bool {
    list.as_array()
        .is_some_and(|items| items.iter().any(|item| item[key] == name && item[field] == value))
}

async fn renew(cluster: &str, hub: &Client) -> Result<()> {
    let leases: Api<Lease> = Api::namespaced(hub.clone(), cluster);
    let mut lease = leases.get(LEASE).await.context("the lease is not there")?;
    if let Some(spec) = &mut lease.spec {
        spec.renew_time = Some(MicroTime(Timestamp::now()));
    }
    leases.replace(LEASE, &PostParams::default(), &lease).await?;
    Ok(())
}

/// Sets for how long a cluster's lease is good; five times as long after the last heartbeat it is Unknown.
///
/// # Errors
/// The API server refuses.
pub async fn set_lease_seconds(client: &Client, cluster: &str, seconds: u32) -> Result<()> {
    let patch = json!({"spec": {"leaseDurationSeconds": seconds}});
    fleet::managed_clusters(client)
        .patch(cluster, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}
