//! The hub of a run with its clusters, their agents and the upgrade.

use anyhow::{Context as _, Result};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use spoke_sim::{Agents, Pace};

use crate::options::Options;
use crate::replica::NAMESPACE;
use crate::time::VirtualClock;

const SET: &str = "fleet";
/// The namespace of the upgrade.
pub const TEAM: &str = "team";
/// The name of the upgrade.
pub const UPGRADE: &str = "spring";

/// The name of a cluster.
#[must_use]
pub fn cluster(number: u64) -> String {
    format!("c{number:02}")
}

/// Requests of people and of the hub's other controllers.
#[derive(Clone)]
pub struct Admin {
    client: Client,
}

impl Admin {
    /// An administrator with this way to the hub.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn send(&self, method: Method, path: &str, media_type: &str, body: &Value) -> Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(Body::from(body.to_string().into_bytes()))?;
        let text = self
            .client
            .request_text(request.map(|_| body.to_string().into_bytes()))
            .await;
        Ok(serde_json::from_str(&text.with_context(|| path.to_owned())?)?)
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        self.send(Method::POST, collection, "application/json", object)
            .await
    }

    /// Changes an object by a merge patch.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn patch(&self, path: &str, change: &Value) -> Result<Value> {
        self.send(Method::PATCH, path, "application/merge-patch+json", change)
            .await
    }

    /// Makes the fleet: namespaces, set, binding and clusters.
    ///
    /// # Errors
    /// The hub refuses an object.
    pub async fn make_fleet(&self, options: &Options) -> Result<()> {
        const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io";
        for name in [NAMESPACE, TEAM] {
            self.namespace(name).await?;
        }
        let set = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSet", "metadata": {"name": SET},
        });
        self.create(&format!("{CLUSTERS}/v1beta2/managedclustersets"), &set)
            .await?;
        let binding = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2", "kind": "ManagedClusterSetBinding",
            "metadata": {"name": SET, "namespace": TEAM}, "spec": {"clusterSet": SET},
        });
        let bindings = format!("{CLUSTERS}/v1beta2/namespaces/{TEAM}/managedclustersetbindings");
        self.create(&bindings, &binding).await?;
        let bound = json!({"status": {"conditions": [condition("Bound")]}});
        self.patch(&format!("{bindings}/{SET}/status"), &bound).await?;
        for number in 0..options.clusters {
            let name = cluster(number);
            self.namespace(&name).await?;
            let labels = json!({"name": name, "cluster.open-cluster-management.io/clusterset": SET});
            let object = json!({
                "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
                "metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
            });
            let clusters = format!("{CLUSTERS}/v1/managedclusters");
            self.create(&clusters, &object).await?;
            let id = format!("00000000-0000-4000-8000-{number:012}");
            let claims = json!([
                {"name": "id.openshift.io", "value": id},
                {"name": "product.open-cluster-management.io", "value": "OpenShift"},
                {"name": "version.openshift.io", "value": "4.14.9"},
            ]);
            let conditions = [
                "HubAcceptedManagedCluster",
                "ManagedClusterJoined",
                "ManagedClusterConditionAvailable",
            ]
            .map(condition);
            let status = json!({"status": {"clusterClaims": claims, "conditions": conditions}});
            self.patch(&format!("{clusters}/{name}/status"), &status).await?;
        }
        Ok(())
    }

    async fn namespace(&self, name: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.create("/api/v1/namespaces", &object).await?;
        Ok(())
    }

    /// Creates the upgrade.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn create_upgrade(&self, options: &Options) -> Result<()> {
        let path = format!(
            "/apis/cluster.open-cluster-management.io/v1beta1/namespaces/{TEAM}/managedclustersupgrades"
        );
        self.create(&path, &upgrade(options)).await?;
        Ok(())
    }
}

fn condition(name: &str) -> Value {
    json!({
        "type": name, "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// The upgrade of a run.
fn upgrade(options: &Options) -> Value {
    let selector = |names: Vec<String>| json!({"matchExpressions": [{"key": "name", "operator": "In", "values": names}]});
    let all: Vec<String> = (0..options.clusters).map(cluster).collect();
    let mut strategy = json!({
        "maxConcurrency": options.max_concurrency,
        "clusterUpgradeTimeout": "3h",
    });
    if options.canaries > 0 {
        let canaries = (0..options.canaries).map(cluster).collect();
        strategy["canaryClusters"] = json!({"clusterSelector": selector(canaries)});
    }
    if !options.soak().is_zero() {
        strategy["minSuccessTime"] = format!("{}s", options.soak_seconds).into();
    }
    json!({
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "ManagedClustersUpgrade",
        "metadata": {"name": UPGRADE, "namespace": TEAM},
        "spec": {
            "clusterSelector": selector(all),
            "clusterVersion": {"channel": "stable-4.14", "version": "4.14.12"},
            "upgradeStrategy": strategy,
        },
    })
}

/// Starts the agents of all clusters.
///
/// # Errors
/// They cannot be started.
pub async fn start_agents(client: Client, options: &Options, clock: VirtualClock) -> Result<Agents> {
    let agents = Agents::builder(client)
        .clock(move || clock.wall())
        .pace(Pace::exact(options.update()))
        .seed(options.seed)
        .start()
        .await?;
    Ok(agents)
}
