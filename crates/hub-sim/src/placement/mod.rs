//! What OCM's hub controllers do with Placements: they decide them, and taint the clusters that are not reached.
//!
//! The scheduler knows sets and their bindings, predicates on labels and claims, taints and tolerations, and groups of decisions.
//! A Placement with any other field is marked as misconfigured and not decided. `tests/placements` gives the same cases to this
//! scheduler and to OCM's.

mod select;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::select_all;
use serde_json::{Value, json};

use self::select::{Cluster, Misconfigured, items, text};
use crate::hub::Hub;
use crate::object::{Key, Object, key};
use crate::state::State;
use crate::write::{DeleteOptions, PatchKind, write_as};

const GROUP: &str = "cluster.open-cluster-management.io";
/// The kinds that decisions depend on.
const WATCHED: [&str; 5] = [
    "managedclusters",
    "managedclustersets",
    "managedclustersetbindings",
    "placements",
    "placementdecisions",
];
/// The label that ties a decision to its Placement.
const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
const GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
const GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// The annotation of a Placement that is decided by somebody else.
const DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";
const UNAVAILABLE: &str = "cluster.open-cluster-management.io/unavailable";
const UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";
/// The field manager of what is written.
const MANAGER: &str = "placement";
/// Most clusters of one `PlacementDecision`.
const PER_DECISION: usize = 100;
/// The time between two rounds, so that a burst of writes causes few of them.
const PAUSE: Duration = Duration::from_millis(50);

/// The clusters as they were last read, by the revision of each.
#[derive(Debug, Default)]
struct Scheduler {
    clusters: BTreeMap<Key, (u64, Arc<Cluster>)>,
}

impl Hub {
    /// Decides all Placements once, and sets the taints of clusters that are not reached.
    pub fn decide_placements(&self) {
        self.decide_with(&mut Scheduler::default());
    }

    /// Decides Placements, for as long as the task runs.
    pub async fn keep_deciding_placements(self) {
        let mut scheduler = Scheduler::default();
        let kinds = self.read(|state| WATCHED.map(|plural| state.find(GROUP, plural)));
        let mut news: Vec<_> = kinds
            .into_iter()
            .flatten()
            .map(|kind| self.subscribe_to(kind))
            .collect();
        loop {
            news.iter_mut().for_each(crate::news::News::see);
            self.decide_with(&mut scheduler);
            select_all(news.iter_mut().map(|news| Box::pin(news.changed()))).await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn decide_with(&self, scheduler: &mut Scheduler) {
        let now = self.now_text();
        self.change(|state| {
            scheduler.taint(state, &now);
            scheduler.decide(state, &now);
        });
    }
}

impl Scheduler {
    /// All clusters that are not being deleted. Those that were not written since are not read again.
    fn clusters(&mut self, state: &State) -> Vec<Arc<Cluster>> {
        let mut known = std::mem::take(&mut self.clusters);
        for object in objects(state, "managedclusters").filter(|object| !object.is_deleting) {
            let entry = match known.remove(&object.key) {
                Some((revision, cluster)) if revision == object.revision => (revision, cluster),
                _ => (object.revision, Arc::new(Cluster::of(object))),
            };
            self.clusters.insert(Arc::clone(&object.key), entry);
        }
        self.clusters
            .values()
            .map(|(_, cluster)| Arc::clone(cluster))
            .collect()
    }

    /// Sets the taint of every cluster that is not available, as OCM's registration controller does.
    fn taint(&mut self, state: &mut State, now: &str) {
        for cluster in self.clusters(state) {
            let wanted = match cluster.available.as_str() {
                "True" => None,
                "False" => Some(UNAVAILABLE),
                _ => Some(UNREACHABLE),
            };
            let is_ours = |taint: &&Value| [UNAVAILABLE, UNREACHABLE].contains(&text(taint, "key"));
            let ours: Vec<&str> = cluster
                .taints
                .iter()
                .filter(is_ours)
                .map(|taint| text(taint, "key"))
                .collect();
            if ours == wanted.as_slice() {
                continue;
            }
            let others = cluster.taints.iter().filter(|taint| !is_ours(taint)).cloned();
            let added = wanted.map(|key| json!({"key": key, "effect": "NoSelect", "timeAdded": now}));
            let taints: Vec<Value> = others.chain(added).collect();
            patch(
                state,
                ("managedclusters", ""),
                &key("", &cluster.name),
                now,
                &json!({"spec": {"taints": taints}}),
            );
        }
    }

    fn decide(&mut self, state: &mut State, now: &str) {
        let clusters = self.clusters(state);
        let placements: Vec<Arc<Object>> = objects(state, "placements").cloned().collect();
        for placement in placements {
            let value = placement.value();
            if !placement.is_deleting && value["metadata"]["annotations"][DISABLED] != "true" {
                decide_one(state, &placement, &value, &clusters, now);
            }
        }
    }
}

/// What was decided for a Placement.
struct Outcome {
    /// Names of groups and their clusters.
    groups: Vec<(String, Vec<String>)>,
    misconfigured: Option<Misconfigured>,
    /// Reason and message of the condition `PlacementSatisfied`.
    satisfied: (&'static str, String),
}

fn decide_one(state: &mut State, placement: &Object, value: &Value, clusters: &[Arc<Cluster>], now: &str) {
    let existing: Vec<Arc<Object>> = objects(state, "placementdecisions")
        .filter(|decision| {
            decision.namespace() == placement.namespace()
                && decision.label(PLACEMENT_LABEL) == Some(placement.name())
        })
        .cloned()
        .collect();
    let decided: BTreeSet<String> = existing
        .iter()
        .flat_map(|decision| clusters_of(&decision.value()))
        .collect();
    let outcome = outcome(state, placement, &value["spec"], clusters, &decided);
    let mut kept = BTreeSet::new();
    let mut status = Vec::new();
    for (index, (group, names)) in outcome.groups.iter().enumerate() {
        let empty = names.is_empty().then_some(names.as_slice());
        let mut written = Vec::new();
        for part in names.chunks(PER_DECISION).chain(empty) {
            let name = format!("{}-decision-{}", placement.name(), kept.len() + 1);
            write_decision(state, placement, (&name, index, group), part, now);
            written.push(name.clone());
            kept.insert(name);
        }
        status.push(json!({
            "decisionGroupIndex": index, "decisionGroupName": group, "decisions": written, "clusterCount": names.len(),
        }));
    }
    for decision in existing.iter().filter(|decision| !kept.contains(decision.name())) {
        write(state, ("placementdecisions", ""), &decision.key, now, |writer| {
            // Whoever else deleted it was faster.
            let _ = writer.delete(&DeleteOptions::default());
        });
    }
    write_status(state, placement, value, &outcome, &status, now);
}

fn outcome(
    state: &State,
    placement: &Object,
    spec: &Value,
    clusters: &[Arc<Cluster>],
    decided: &BTreeSet<String>,
) -> Outcome {
    let bound: Vec<&Arc<Object>> = objects(state, "managedclustersetbindings")
        .filter(|binding| binding.namespace() == placement.namespace())
        .filter_map(|binding| state.objects_of(GROUP, "managedclustersets")?.get(binding.name()))
        .collect();
    let wanted: BTreeSet<&str> = items(spec, "clusterSets")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let eligible: Vec<&&Arc<Object>> = bound
        .iter()
        .filter(|set| wanted.is_empty() || wanted.contains(set.name()))
        .collect();
    let mut available: BTreeMap<&str, &Cluster> = BTreeMap::new();
    for set in &eligible {
        let members = select::members(set.name(), &set.value()["spec"], clusters);
        available.extend(
            members
                .into_iter()
                .map(|cluster| (cluster.name.as_str(), cluster)),
        );
    }
    let available: Vec<&Cluster> = available.into_values().collect();
    let selected = select::select(spec, &available, decided);
    let grouped = selected.as_ref().map_err(Clone::clone);
    let grouped = grouped.and_then(|selected| select::groups(spec, selected));
    let found = selected.as_ref().map_or(0, Vec::len);
    let names: Vec<&str> = eligible.iter().map(|set| set.name()).collect();
    let satisfied = satisfied(spec, bound.len(), &names, available.len(), found);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    match grouped {
        Ok(groups) => Outcome {
            groups: groups
                .into_iter()
                .map(|(name, names)| (name, owned(names)))
                .collect(),
            misconfigured: None,
            satisfied,
        },
        Err(why) => Outcome {
            groups: vec![(String::new(), Vec::new())],
            misconfigured: Some(why),
            satisfied,
        },
    }
}

/// Reason and message of the condition `PlacementSatisfied`: the first step of the selection that left nothing.
fn satisfied(
    spec: &Value,
    bound: usize,
    eligible: &[&str],
    available: usize,
    selected: usize,
) -> (&'static str, String) {
    if bound == 0 {
        let why = "No valid ManagedClusterSetBindings found in placement namespace";
        ("NoManagedClusterSetBindings", why.to_owned())
    } else if eligible.is_empty() {
        let wanted: Vec<&str> = items(spec, "clusterSets")
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let wanted = wanted.join(",");
        let why = format!("None of ManagedClusterSets [{wanted}] is bound to placement namespace");
        ("NoIntersection", why)
    } else if available == 0 {
        let sets = eligible.join(",");
        let why = format!("All ManagedClusterSets [{sets}] have no member ManagedCluster");
        ("AllManagedClusterSetsEmpty", why)
    } else if selected == 0 {
        let why = "No ManagedCluster matches any of the cluster predicate";
        ("NoManagedClusterMatched", why.to_owned())
    } else {
        (
            "AllDecisionsScheduled",
            "All cluster decisions scheduled".to_owned(),
        )
    }
}

/// Creates a decision, or changes what differs.
fn write_decision(
    state: &mut State,
    placement: &Object,
    (name, index, group): (&str, usize, &str),
    clusters: &[String],
    now: &str,
) {
    let at = key(placement.namespace(), name);
    let labels = json!({
        PLACEMENT_LABEL: placement.name(), GROUP_INDEX_LABEL: index.to_string(), GROUP_NAME_LABEL: group,
    });
    let live = state
        .objects_of(GROUP, "placementdecisions")
        .and_then(|decisions| decisions.get(&at))
        .map(|decision| decision.value());
    match &live {
        None => {
            let owner = json!({
                "apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement", "name": placement.name(),
                "uid": placement.uid, "controller": true, "blockOwnerDeletion": true,
            });
            let object = json!({
                "apiVersion": format!("{GROUP}/v1beta1"), "kind": "PlacementDecision",
                "metadata": {
                    "name": name, "namespace": placement.namespace(), "labels": labels, "ownerReferences": [owner],
                },
            });
            write(state, ("placementdecisions", ""), &at, now, |writer| {
                // A namespace that ends takes nothing new.
                let _ = writer.create(object);
            });
        }
        Some(live) if live["metadata"]["labels"] != labels => {
            let change = json!({"metadata": {"labels": labels}});
            patch(state, ("placementdecisions", ""), &at, now, &change);
        }
        Some(_) => {}
    }
    if live.is_none_or(|live| live.get("status").is_none() || clusters_of(&live) != clusters) {
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|name| json!({"clusterName": name, "reason": ""}))
            .collect();
        let change = json!({"status": {"decisions": decisions}});
        patch(state, ("placementdecisions", "status"), &at, now, &change);
    }
}

/// The clusters of a decision.
fn clusters_of(decision: &Value) -> Vec<String> {
    items(&decision["status"], "decisions")
        .iter()
        .map(|one| text(one, "clusterName").to_owned())
        .collect()
}

fn write_status(
    state: &mut State,
    placement: &Object,
    value: &Value,
    outcome: &Outcome,
    groups: &[Value],
    now: &str,
) {
    let condition = |name: &str, is_true: bool, reason: &str, message: &str| {
        let status = if is_true { "True" } else { "False" };
        let before = items(&value["status"], "conditions")
            .iter()
            .find(|condition| text(condition, "type") == name && text(condition, "status") == status);
        let since = before.map_or(now, |condition| text(condition, "lastTransitionTime"));
        json!({"type": name, "status": status, "reason": reason, "message": message, "lastTransitionTime": since})
    };
    let misconfigured = match &outcome.misconfigured {
        Some(Misconfigured(why)) => condition("PlacementMisconfigured", true, "Misconfigured", why),
        None => condition(
            "PlacementMisconfigured",
            false,
            "Succeedconfigured",
            "Placement configurations check pass",
        ),
    };
    let (reason, message) = &outcome.satisfied;
    let is_satisfied = *reason == "AllDecisionsScheduled";
    let satisfied = condition("PlacementSatisfied", is_satisfied, reason, message);
    let count: usize = outcome.groups.iter().map(|(_, clusters)| clusters.len()).sum();
    let status = json!({
        "conditions": [misconfigured, satisfied], "decisionGroups": groups, "numberOfSelectedClusters": count,
    });
    if value.get("status") != Some(&status) {
        patch(
            state,
            ("placements", "status"),
            &placement.key,
            now,
            &json!({"status": status}),
        );
    }
}

fn objects<'s>(state: &'s State, plural: &str) -> impl Iterator<Item = &'s Arc<Object>> {
    let collection = state.objects_of(GROUP, plural);
    collection.into_iter().flat_map(crate::store::Collection::objects)
}

fn patch(state: &mut State, of: (&str, &str), at: &Key, now: &str, change: &Value) {
    write(state, of, at, now, |writer| {
        // Whoever deleted it was faster.
        let _ = writer.patch(PatchKind::Merge, change);
    });
}

/// Lets the controllers write an object of a kind, or its subresource.
fn write(
    state: &mut State,
    (plural, subresource): (&str, &str),
    at: &Key,
    now: &str,
    act: impl FnOnce(crate::write::Writer<'_>),
) {
    if let Some(id) = state.find(GROUP, plural) {
        write_as(state, MANAGER, (id, at, subresource), now, act);
    }
}
