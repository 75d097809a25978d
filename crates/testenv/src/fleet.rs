//! Fleets of managed clusters without agents: `ManagedCluster`s with claims and conditions, their namespaces,
//! sets and bindings. What OCM's registration controller and agents would write, without them.
//!
//! Fast enough for ten thousand clusters; every write may be repeated.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::apply::{FIELD_MANAGER, apply_objects};
use crate::assets::hex;

/// The label that puts a cluster into an exclusive set.
pub const CLUSTER_SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// The claim that carries a cluster's OpenShift id.
pub const CLUSTER_ID_CLAIM: &str = "id.openshift.io";
/// The claim that carries a cluster's product.
pub const PRODUCT_CLAIM: &str = "product.open-cluster-management.io";
/// The claim that carries a cluster's OpenShift version.
pub const VERSION_CLAIM: &str = "version.openshift.io";
/// The condition by which OCM says whether a cluster is reached.
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";

const GROUP: &str = "cluster.open-cluster-management.io";
const CONCURRENCY: usize = 64;
const CONFLICT_RETRIES: usize = 10;

/// One managed cluster.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// Name of the cluster and its namespace.
    pub name: String,
    /// Labels of the `ManagedCluster`; `name` is set to the cluster's name at first.
    pub labels: BTreeMap<String, String>,
    /// Claims in its status.
    pub claims: BTreeMap<String, String>,
    /// Conditions in its status, as status by type.
    pub conditions: BTreeMap<String, String>,
}

impl ClusterSpec {
    /// An accepted, joined and available OpenShift cluster with a unique ID.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let pairs = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        Self {
            name: name.to_owned(),
            labels: pairs(&[("name", name)]),
            claims: pairs(&[
                (CLUSTER_ID_CLAIM, &cluster_id(name)),
                (PRODUCT_CLAIM, "OpenShift"),
            ]),
            conditions: pairs(&[
                ("HubAcceptedManagedCluster", "True"),
                ("ManagedClusterJoined", "True"),
                (AVAILABLE, "True"),
            ]),
        }
    }

    /// Puts it into a set by label.
    #[must_use]
    pub fn in_set(self, set: &str) -> Self {
        self.label(CLUSTER_SET_LABEL, set)
    }

    /// Sets a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Sets a claim.
    #[must_use]
    pub fn claim(mut self, name: &str, value: &str) -> Self {
        self.claims.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Drops all claims, as on a cluster where no add-on writes them.
    #[must_use]
    pub fn without_claims(mut self) -> Self {
        self.claims.clear();
        self
    }

    /// Sets the status of a condition: `True`, `False` or `Unknown`.
    #[must_use]
    pub fn condition(mut self, r#type: &str, status: &str) -> Self {
        self.conditions.insert(r#type.to_owned(), status.to_owned());
        self
    }

    fn object(&self) -> Value {
        json!({
            "apiVersion": format!("{GROUP}/v1"),
            "kind": "ManagedCluster",
            "metadata": {"name": self.name, "labels": self.labels},
            "spec": {"hubAcceptsClient": true, "leaseDurationSeconds": 60},
        })
    }

    fn status(&self) -> Value {
        let conditions: Vec<Value> = self
            .conditions
            .iter()
            .map(|(r#type, status)| condition(r#type, status, "Testenv", ""))
            .collect();
        json!({"status": {
            "conditions": conditions,
            "clusterClaims": claims(&self.claims),
            "version": {"kubernetes": "v1.35.4"},
            "allocatable": {}, "capacity": {},
        }})
    }
}

/// A fleet: clusters, and the sets and bindings around them.
#[derive(Debug, Clone, Default)]
pub struct FleetSpec {
    /// The clusters.
    pub clusters: Vec<ClusterSpec>,
    /// Namespace and set of each `ManagedClusterSetBinding`.
    pub bindings: Vec<(String, String)>,
}

impl FleetSpec {
    /// Clusters `<prefix>-0001`, `<prefix>-0002`, … (five digits from ten thousand on).
    #[must_use]
    pub fn numbered(prefix: &str, count: usize) -> Self {
        let width = count.to_string().len().max(4);
        let clusters = (1..=count)
            .map(|n| ClusterSpec::new(&format!("{prefix}-{n:0width$}")))
            .collect();
        Self {
            clusters,
            bindings: Vec::new(),
        }
    }

    /// Clusters with these names.
    #[must_use]
    pub fn named(names: &[&str]) -> Self {
        Self {
            clusters: names.iter().map(|name| ClusterSpec::new(name)).collect(),
            bindings: Vec::new(),
        }
    }

    /// Changes every cluster.
    #[must_use]
    pub fn each(mut self, change: impl FnMut(ClusterSpec) -> ClusterSpec) -> Self {
        self.clusters = self.clusters.into_iter().map(change).collect();
        self
    }

    /// Puts every cluster into a set.
    #[must_use]
    pub fn in_set(self, set: &str) -> Self {
        self.each(|cluster| cluster.in_set(set))
    }

    /// Binds every set of the fleet so far to a namespace.
    #[must_use]
    pub fn bound_in(mut self, namespace: &str) -> Self {
        self.bindings
            .extend(self.sets().into_iter().map(|set| (namespace.to_owned(), set)));
        self
    }

    /// Joins another fleet to it.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.clusters.extend(other.clusters);
        self.bindings.extend(other.bindings);
        self
    }

    /// The names of the sets its clusters are in.
    #[must_use]
    pub fn sets(&self) -> BTreeSet<String> {
        self.clusters
            .iter()
            .filter_map(|cluster| cluster.labels.get(CLUSTER_SET_LABEL).cloned())
            .collect()
    }
}

/// The OpenShift id of a cluster of a test fleet: a UUID made of its name, the same in every run.
#[must_use]
pub fn cluster_id(name: &str) -> String {
    let digits = hex(&Sha256::digest(name), 16);
    format!(
        "{}-{}-4{}-8{}-{}",
        &digits[..8],
        &digits[8..12],
        &digits[13..16],
        &digits[17..20],
        &digits[20..]
    )
}

/// Creates a fleet: sets, bindings (their namespaces too), then clusters and their namespaces, 64 requests at
/// a time. What is there already is brought to the spec.
///
/// # Errors
/// The API server refuses a write; the message names the object.
pub async fn create(client: &Client, fleet: &FleetSpec) -> Result<()> {
    let mut objects: Vec<Value> = fleet.sets().iter().map(|set| cluster_set(set)).collect();
    for (namespace, set) in &fleet.bindings {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
        objects.push(binding(namespace, set));
    }
    apply_objects(client, &objects).await?;
    stream::iter(&fleet.clusters)
        .map(|cluster| create_cluster(client, cluster))
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<()>>()
        .await?;
    Ok(())
}

/// Creates one cluster and its namespace.
///
/// # Errors
/// As [`create`].
pub async fn create_cluster(client: &Client, cluster: &ClusterSpec) -> Result<()> {
    let namespaces: Api<DynamicObject> = Api::all_with(client.clone(), &resource("", "v1", "Namespace"));
    let labels = json!({"open-cluster-management.io/cluster-name": cluster.name});
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": cluster.name, "labels": labels},
    });
    create_or_merge(&namespaces, &namespace).await?;
    let clusters = managed_clusters(client);
    create_or_merge(&clusters, &cluster.object()).await?;
    clusters
        .patch_status(&cluster.name, &params(), &Patch::Merge(cluster.status()))
        .await
        .with_context(|| format!("status of ManagedCluster {}", cluster.name))?;
    Ok(())
}

/// Deletes a `ManagedCluster`, not its namespace.
///
/// # Errors
/// The API server refuses.
pub async fn delete_cluster(client: &Client, name: &str) -> Result<()> {
    managed_clusters(client)
        .delete(name, &kube::api::DeleteParams::default())
        .await?;
    Ok(())
}

/// Sets labels of a `ManagedCluster`; a `None` removes the label.
///
/// # Errors
/// The API server refuses.
pub async fn set_labels(client: &Client, name: &str, labels: &[(&str, Option<&str>)]) -> Result<()> {
    let labels: BTreeMap<_, _> = labels.iter().copied().collect();
    let patch = json!({"metadata": {"labels": labels}});
    managed_clusters(client)
        .patch(name, &params(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

/// Sets one condition of a `ManagedCluster`, keeping the others; `lastTransitionTime` moves only when the
/// status changes.
///
/// # Errors
/// The API server refuses, or others write the cluster all the time.
pub async fn set_condition(
    client: &Client,
    cluster: &str,
    r#type: &str,
    status: &str,
    reason: &str,
    message: &str,
) -> Result<()> {
    edit_status(client, cluster, |object| {
        let mut new = condition(r#type, status, reason, message);
        edit_list(object, "conditions", |list| {
            match list.iter_mut().find(|old| old["type"] == r#type) {
                Some(old) => {
                    if old["status"] == new["status"] {
                        new["lastTransitionTime"] = old["lastTransitionTime"].take();
                    }
                    *old = new;
                }
                None => list.push(new),
            }
        });
    })
    .await
}

/// Says whether OCM reaches a cluster: `True`, `False` or `Unknown`.
///
/// # Errors
/// As [`set_condition`].
pub async fn set_available(client: &Client, cluster: &str, status: &str) -> Result<()> {
    let (reason, message) = match status {
        "True" => ("ManagedClusterAvailable", "Managed cluster is available"),
        "False" => (
            "ManagedClusterKubeAPIServerUnavailable",
            "The kube-apiserver is not ok",
        ),
        _ => (
            "ManagedClusterLeaseUpdateStopped",
            "Registration agent stopped updating its lease.",
        ),
    };
    set_condition(client, cluster, AVAILABLE, status, reason, message).await
}

/// Sets claims of a `ManagedCluster`, keeping the others; a `None` removes the claim.
///
/// # Errors
/// As [`set_condition`].
pub async fn set_claims(client: &Client, cluster: &str, changes: &[(&str, Option<&str>)]) -> Result<()> {
    edit_status(client, cluster, |object| {
        edit_list(object, "clusterClaims", |list| {
            for &(name, value) in changes {
                list.retain(|claim| claim["name"] != name);
                list.extend(value.map(|value| json!({"name": name, "value": value})));
            }
        });
    })
    .await
}

/// Reads, changes and writes a cluster's status, again while others write it too.
async fn edit_status(client: &Client, cluster: &str, change: impl Fn(&mut DynamicObject)) -> Result<()> {
    let clusters = managed_clusters(client);
    for _ in 0..CONFLICT_RETRIES {
        let mut object = clusters.get(cluster).await?;
        change(&mut object);
        match clusters
            .replace_status(cluster, &PostParams::default(), &object)
            .await
        {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => {
                return Err(error).with_context(|| format!("status of ManagedCluster {cluster}"));
            }
        }
    }
    bail!("ManagedCluster {cluster} is written by others all the time");
}

/// Changes a list in an object's status; an absent one counts as empty.
fn edit_list(object: &mut DynamicObject, field: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let slot = &mut object.data["status"][field];
    let mut list = match slot.take() {
        Value::Array(list) => list,
        _ => Vec::new(),
    };
    change(&mut list);
    *slot = Value::Array(list);
}

async fn create_or_merge(api: &Api<DynamicObject>, object: &Value) -> Result<()> {
    let typed: DynamicObject = serde_json::from_value(object.clone())?;
    let name = typed.name_any();
    let written = match api.create(&PostParams::default(), &typed).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            api.patch(&name, &params(), &Patch::Merge(object)).await
        }
        written => written,
    };
    written.with_context(|| format!("{} {name}", object["kind"].as_str().unwrap_or_default()))?;
    Ok(())
}

fn cluster_set(name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1beta2"),
        "kind": "ManagedClusterSet",
        "metadata": {"name": name},
        "spec": {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}},
    })
}

/// A `ManagedClusterSetBinding`, bearing its set's name as OCM demands.
#[must_use]
pub fn binding(namespace: &str, set: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1beta2"),
        "kind": "ManagedClusterSetBinding",
        "metadata": {"name": set, "namespace": namespace},
        "spec": {"clusterSet": set},
    })
}

fn condition(r#type: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": r#type, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": Time(Timestamp::now()),
    })
}

fn claims(claims: &BTreeMap<String, String>) -> Vec<Value> {
    claims
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// All ManagedClusters.
#[must_use]
pub fn managed_clusters(client: &Client) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(GROUP, "v1", "ManagedCluster"))
}

pub(crate) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_stable_and_distinct() {
        let id = cluster_id("spoke-0001");
        assert_eq!(id, cluster_id("spoke-0001"));
        assert_ne!(id, cluster_id("spoke-0002"));
        let lengths: Vec<usize> = id.split('-').map(str::len).collect();
        assert_eq!(lengths, [8, 4, 4, 4, 12]);
    }

    #[test]
    fn a_numbered_fleet_sorts_by_number_and_is_bound_to_its_sets() {
        let fleet = FleetSpec::numbered("c", 12_000)
            .in_set("fleet")
            .bound_in("default");
        assert_eq!(fleet.clusters[0].name, "c-00001");
        assert_eq!(fleet.clusters[11_999].name, "c-12000");
        assert_eq!(fleet.bindings, [("default".to_owned(), "fleet".to_owned())]);
        assert!(fleet.clusters.is_sorted_by(|a, b| a.name < b.name));
    }
}
