//! Simulates the registration agent of a cluster: heartbeat, health and claims, as the agents' user on the hub.
//!
//! It writes what OCM's registration agent writes after its cluster has joined, with the rights that OCM gives the agents'
//! group. The real registration controller decides the rest: the taints, and the Unknown of a cluster whose lease has expired.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;
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
    claims: watch::Sender<BTreeMap<String, String>>,
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
        let (claims, wanted) = watch::channel(BTreeMap::new());
        let cluster = cluster.to_owned();
        let task = tokio::spawn(async move {
            loop {
                let claims = wanted.borrow().clone();
                if let Err(error) = beat(&cluster, &hub, &spoke, &claims).await {
                    // The hub may be unreachable, or may not have bound the role yet. The next heartbeat tries again.
                    tracing::debug!(cluster, "heartbeat: {error:#}");
                }
                tokio::time::sleep(PERIOD).await;
            }
        });
        Ok(Self { claims, task })
    }

    /// Adds claims to those in the cluster's status.
    pub fn claim(&self, name: &str, value: &str) {
        self.claims.send_modify(|claims| {
            claims.insert(name.to_owned(), value.to_owned());
        });
    }
}

async fn beat(cluster: &str, hub: &Client, spoke: &Client, claims: &BTreeMap<String, String>) -> Result<()> {
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
    for (name, value) in claims {
        if !has(&known["clusterClaims"], "name", name, "value", value) {
            fleet::set_claims(hub, cluster, &[(name, Some(value))]).await?;
        }
    }
    Ok(())
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
