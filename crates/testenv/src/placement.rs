//! Placements that the real placement controller decides, and others with decisions that the test writes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::apply::{FIELD_MANAGER, apply_objects};
use crate::fleet::resource;
use crate::hub::wait_until;

/// The label that ties a decision to its placement.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
const GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
const GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// The annotation by which the placement controller leaves a placement alone.
pub const SCHEDULING_DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";

const GROUP: &str = "cluster.open-cluster-management.io";
/// Decisions that one `PlacementDecision` holds at most.
const PER_DECISION: usize = 100;

/// Which clusters a placement chooses.
#[derive(Debug, Clone, Default)]
pub struct PlacementSpec {
    /// Cluster sets; all bound ones if empty.
    pub sets: Vec<String>,
    /// Labels the clusters must have.
    pub match_labels: Vec<(String, String)>,
    /// `decisionStrategy`, as OCM has it; null for none.
    pub decision_strategy: Value,
}

impl PlacementSpec {
    /// All clusters of some sets.
    #[must_use]
    pub fn of_sets(sets: &[&str]) -> Self {
        Self {
            sets: sets.iter().map(|&set| set.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Only clusters with this label.
    #[must_use]
    pub fn matching(mut self, key: &str, value: &str) -> Self {
        self.match_labels.push((key.to_owned(), value.to_owned()));
        self
    }

    fn object(&self, namespace: &str, name: &str) -> Value {
        let mut spec = json!({});
        if !self.sets.is_empty() {
            spec["clusterSets"] = json!(self.sets);
        }
        if !self.match_labels.is_empty() {
            let labels: serde_json::Map<String, Value> = self
                .match_labels
                .iter()
                .map(|(key, value)| (key.clone(), json!(value)))
                .collect();
            let selector = json!({"labelSelector": {"matchLabels": labels}});
            spec["predicates"] = json!([{"requiredClusterSelector": selector}]);
        }
        if !self.decision_strategy.is_null() {
            spec["decisionStrategy"] = self.decision_strategy.clone();
        }
        json!({
            "apiVersion": format!("{GROUP}/v1beta1"),
            "kind": "Placement",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        })
    }
}

/// A placement with decisions by the test.
#[derive(Debug, Clone, Default)]
pub struct DecisionGroup {
    /// Group name; empty for an unnamed group.
    pub name: String,
    /// Cluster names.
    pub clusters: Vec<String>,
}

/// Writes a placement that the placement controller decides.
///
/// # Errors
/// The API server refuses.
pub async fn write(client: &Client, namespace: &str, name: &str, spec: &PlacementSpec) -> Result<()> {
    apply_objects(client, &[spec.object(namespace, name)]).await
}

/// Writes a placement that the placement controller leaves alone, and its decisions, one group after the
/// other, 100 clusters each; decisions of an earlier call that are no longer needed are deleted.
///
/// # Errors
/// The API server refuses.
pub async fn write_decided(
    client: &Client,
    namespace: &str,
    name: &str,
    groups: &[DecisionGroup],
) -> Result<()> {
    let mut placement = PlacementSpec::default().object(namespace, name);
    placement["metadata"]["annotations"] = json!({SCHEDULING_DISABLED: "true"});
    apply_objects(client, &[placement]).await?;
    let placements: Api<DynamicObject> = Api::namespaced_with(
        client.clone(),
        namespace,
        &resource(GROUP, "v1beta1", "Placement"),
    );
    let uid = placements.get(name).await?.uid().unwrap_or_default();

    let api = decisions(client, namespace);
    let mut kept = BTreeSet::new();
    for (index, group) in groups.iter().enumerate() {
        for chunk in chunks(&group.clusters) {
            let decision = format!("{name}-decision-{}", kept.len() + 1);
            write_decision(&api, (name, &uid), &decision, (index, group), chunk).await?;
            kept.insert(decision);
        }
    }
    for stale in list(&api, name)
        .await?
        .iter()
        .filter(|decision| !kept.contains(&decision.name_any()))
    {
        api.delete(&stale.name_any(), &DeleteParams::default()).await?;
    }
    Ok(())
}

/// Writes a placement with decisions by the test, with one unnamed group.
///
/// # Errors
/// As [`write_decided`].
pub async fn write_decided_flat(
    client: &Client,
    namespace: &str,
    name: &str,
    clusters: &[String],
) -> Result<()> {
    let group = DecisionGroup {
        name: String::new(),
        clusters: clusters.to_vec(),
    };
    write_decided(client, namespace, name, &[group]).await
}

/// An empty group still has one, empty, decision.
fn chunks(clusters: &[String]) -> impl Iterator<Item = &[String]> {
    let empty = clusters.is_empty().then_some(clusters);
    clusters.chunks(PER_DECISION).chain(empty)
}

async fn write_decision(
    api: &Api<DynamicObject>,
    (placement, uid): (&str, &str),
    name: &str,
    (index, group): (usize, &DecisionGroup),
    clusters: &[String],
) -> Result<()> {
    let api_version = format!("{GROUP}/v1beta1");
    let labels = json!({
        PLACEMENT_LABEL: placement, GROUP_INDEX_LABEL: index.to_string(), GROUP_NAME_LABEL: group.name,
    });
    let owner = json!({
        "apiVersion": api_version, "kind": "Placement", "name": placement, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    });
    let object = json!({
        "apiVersion": api_version, "kind": "PlacementDecision",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    api.patch(name, &params, &Patch::Apply(object)).await?;
    let decisions: Vec<Value> = clusters
        .iter()
        .map(|cluster| json!({"clusterName": cluster, "reason": ""}))
        .collect();
    let status = json!({"status": {"decisions": decisions}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

/// The clusters that a placement has chosen: the union of its decisions.
///
/// # Errors
/// The API server refuses.
pub async fn decided(client: &Client, namespace: &str, placement: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for decision in list(&decisions(client, namespace), placement).await? {
        let chosen = decision.data["status"]["decisions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        names.extend(
            chosen
                .iter()
                .filter_map(|one| one["clusterName"].as_str().map(str::to_owned)),
        );
    }
    Ok(names)
}

/// Waits until a placement has chosen this many clusters.
///
/// # Errors
/// It has not within `timeout`.
pub async fn wait_decided(
    client: &Client,
    namespace: &str,
    placement: &str,
    count: usize,
    timeout: Duration,
) -> Result<()> {
    let what = format!("placement {namespace}/{placement} chooses {count} clusters");
    wait_until(&what, timeout, || async {
        Ok(decided(client, namespace, placement).await?.len() == count)
    })
    .await
}

fn decisions(client: &Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(
        client.clone(),
        namespace,
        &resource(GROUP, "v1beta1", "PlacementDecision"),
    )
}

async fn list(api: &Api<DynamicObject>, placement: &str) -> Result<Vec<DynamicObject>> {
    let of_placement = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={placement}"));
    Ok(api.list(&of_placement).await?.items)
}
