//! Requests of people and of the hub's other controllers.

use anyhow::{Context as _, Result};
use http::{Method, Request};
use kube::Client;
use serde_json::{Value, json};

/// The group of clusters, sets, upgrades and reports.
pub const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io";

/// The path of the upgrades of a namespace.
#[must_use]
pub fn upgrades_of(namespace: &str) -> String {
    format!("{CLUSTERS}/v1beta1/namespaces/{namespace}/managedclustersupgrades")
}

/// The path of the reports of a namespace.
#[must_use]
pub fn reports_of(namespace: &str) -> String {
    format!("{CLUSTERS}/v1beta1/namespaces/{namespace}/managedclustersupgradereports")
}

/// The path of the approvals of a namespace.
#[must_use]
pub fn approvals_of(namespace: &str) -> String {
    format!("{CLUSTERS}/v1beta1/namespaces/{namespace}/managedclustersupgradeapprovals")
}

/// The path of the set bindings of a namespace.
#[must_use]
pub fn bindings_of(namespace: &str) -> String {
    format!("{CLUSTERS}/v1beta2/namespaces/{namespace}/managedclustersetbindings")
}

/// The path of the decisions of a namespace.
#[must_use]
pub fn decisions_of(namespace: &str) -> String {
    format!("{CLUSTERS}/v1beta1/namespaces/{namespace}/placementdecisions")
}

/// The path of the works of a cluster.
#[must_use]
pub fn works_of(cluster: &str) -> String {
    format!("/apis/work.open-cluster-management.io/v1/namespaces/{cluster}/manifestworks")
}

/// The path of a `ManagedCluster`.
#[must_use]
pub fn managed_cluster(name: &str) -> String {
    format!("{CLUSTERS}/v1/managedclusters/{name}")
}

/// Somebody with a way to the hub. Nothing that people do fails by faults of the network.
#[derive(Clone)]
pub struct Admin {
    client: Client,
}

impl Admin {
    /// An administrator with this client.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    async fn send(&self, method: Method, path: &str, media_type: &str, body: &Value) -> Result<Value> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(body.to_string().into_bytes())?;
        let text = self.client.request_text(request).await;
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

    /// Creates an object with its status.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn create_with_status(&self, collection: &str, object: &Value) -> Result<()> {
        self.create(collection, object).await?;
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let status = json!({"status": object.get("status")});
        self.patch_if_there(&format!("{collection}/{name}/status"), &status)
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

    /// Changes an object by a merge patch, unless somebody deletes it at this moment.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn patch_if_there(&self, path: &str, change: &Value) -> Result<()> {
        match self.patch(path, change).await {
            Err(error) if is_missing(&error) => Ok(()),
            done => done.map(drop),
        }
    }

    /// Deletes an object, unless it is gone already.
    ///
    /// # Errors
    /// The hub refuses it.
    pub async fn delete(&self, path: &str) -> Result<()> {
        match self
            .send(Method::DELETE, path, "application/json", &json!({}))
            .await
        {
            Err(error) if is_missing(&error) => Ok(()),
            done => done.map(drop),
        }
    }
}

fn is_missing(error: &anyhow::Error) -> bool {
    has_code(error, 404)
}

/// Whether the hub refused a change because somebody else had changed the object before.
#[must_use]
pub fn is_conflict(error: &anyhow::Error) -> bool {
    has_code(error, 409)
}

fn has_code(error: &anyhow::Error, code: u16) -> bool {
    matches!(error.downcast_ref::<kube::Error>(), Some(kube::Error::Api(status)) if status.code == code)
}
