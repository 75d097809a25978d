//! The objects of a fleet on any hub: sets and their bindings, clusters with their namespaces, and a Placement that selects all.

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};

pub(super) const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";
/// Clusters that are created at a time.
const CONCURRENCY: usize = 32;

/// A fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// The sets and the names of their clusters.
    pub sets: Vec<(String, Vec<String>)>,
    /// The namespace in which the sets are bound.
    pub namespace: String,
    /// The Placement there.
    pub placement: String,
    /// The version that all clusters run.
    pub version: String,
}

impl Fleet {
    /// Creates all of it.
    ///
    /// # Errors
    /// The hub rejects an object; the message names it.
    pub async fn create(&self, client: &Client) -> Result<()> {
        for object in self.around() {
            apply(client, &object).await?;
        }
        let clusters = self
            .sets
            .iter()
            .flat_map(|(set, names)| names.iter().map(move |name| (set, name)));
        stream::iter(clusters.enumerate())
            .map(|(number, (set, name))| self.create_cluster(client, number, set, name))
            .buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    /// What there is besides clusters.
    fn around(&self) -> Vec<Value> {
        let mut objects = vec![namespace(&self.namespace, &json!({}))];
        for (set, _) in &self.sets {
            objects.push(json!({
                "apiVersion": format!("{CLUSTER_GROUP}/v1beta2"), "kind": "ManagedClusterSet",
                "metadata": {"name": set},
                "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
            }));
            objects.push(json!({
                "apiVersion": format!("{CLUSTER_GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
                "metadata": {"name": set, "namespace": self.namespace},
                "spec": {"clusterSet": set},
            }));
        }
        let sets: Vec<&String> = self.sets.iter().map(|(set, _)| set).collect();
        objects.push(json!({
            "apiVersion": format!("{CLUSTER_GROUP}/v1beta1"), "kind": "Placement",
            "metadata": {"name": self.placement, "namespace": self.namespace},
            "spec": {"clusterSets": sets},
        }));
        objects
    }

    async fn create_cluster(&self, client: &Client, number: usize, set: &str, name: &str) -> Result<()> {
        let labels = json!({"open-cluster-management.io/cluster-name": name});
        apply(client, &namespace(name, &labels)).await?;
        let cluster = json!({
            "apiVersion": format!("{CLUSTER_GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": {
                "name": name, "cluster.open-cluster-management.io/clusterset": set,
            }},
            "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60},
        });
        apply(client, &cluster).await?;
        let conditions = [
            "HubAcceptedManagedCluster",
            "ManagedClusterJoined",
            "ManagedClusterConditionAvailable",
        ]
        .map(|name| {
            json!({
                "type": name, "status": "True", "reason": "Simulated", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        });
        let claim = |name: &str, value: &str| json!({"name": name, "value": value});
        let claims = [
            claim(
                "id.openshift.io",
                &format!("00000000-0000-4000-8000-{number:012}"),
            ),
            claim("product.open-cluster-management.io", "OpenShift"),
            claim("version.openshift.io", &self.version),
        ];
        let status = json!({"status": {"conditions": conditions, "clusterClaims": claims}});
        of(client, &cluster)
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await
            .with_context(|| format!("status of ManagedCluster {name}"))?;
        Ok(())
    }
}

fn namespace(name: &str, labels: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

async fn apply(client: &Client, object: &Value) -> Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    of(client, object)
        .patch(name, &PatchParams::apply("demo").force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("{} {name}", object["kind"]))?;
    Ok(())
}

/// The objects of the same kind and namespace.
fn of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &text(&object["kind"])));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}
