//! Computes which clusters an upgrade selects (`docs/design/rules.md#selection-sources`).
//!
//! The selection is the union of the decisions of all Placements and of the selector. The selector sees only
//! clusters in sets that are bound to the upgrade's namespace, a Placement only those in sets bound to its
//! own namespace. These bindings separate tenants in OCM, and this module enforces them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ahash::AHashSet;
use api::mcu::{ClusterSelector, LabelExpression, LabelOperator, ManagedClustersUpgradeSpec, PlacementRef};
use api::names::{KEY_METADATA_NAME, LABEL_CLUSTER_SET, LABEL_LOCAL_CLUSTER, LABEL_NAME};
use api::views::SetSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::index::{ClusterView, Clusters, Placements};
use crate::left_out;

/// The result of a selection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Selected clusters and whether each is a canary.
    pub clusters: BTreeMap<Arc<str>, Member>,
    /// Why the selection may be smaller than the author expects; for the Selected condition.
    pub notes: Vec<String>,
}

/// How a cluster was selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Member {
    /// The canary selector matches.
    pub canary: bool,
    /// A selector names the cluster. The hub itself is upgraded only in this case, because admission then
    /// checks the author's permission.
    pub explicitly_named: bool,
}

/// Computes the selection of an upgrade.
#[must_use]
pub fn select(
    spec: &ManagedClustersUpgradeSpec,
    namespace: &str,
    clusters: &Clusters,
    placements: &Placements,
    require_bindings: bool,
) -> Selected {
    let scope = SelectionScope {
        namespace,
        clusters,
        placements,
        require_bindings,
    };
    let mut selected = Selected::default();
    for reference in &spec.placement {
        scope.add_decided(reference, &mut selected);
    }
    if let Some(selector) = &spec.cluster_selector {
        let selector = CompiledSelector::new(selector);
        for cluster in scope.matching("spec.clusterSelector", &selector, &mut selected.notes) {
            let member = selected.clusters.entry(Arc::clone(&cluster.name)).or_default();
            member.explicitly_named |= selector.names(cluster);
        }
    }
    if spec.placement.is_empty() && spec.cluster_selector.is_none() {
        selected
            .notes
            .push("Neither spec.placement nor spec.clusterSelector is set".to_owned());
    }
    if let Some(canaries) = &spec.upgrade_strategy.canary_clusters {
        scope.add_canaries(&CompiledSelector::new(&canaries.cluster_selector), &mut selected);
    }
    let is_canary = |name: &str| selected.clusters.get(name).map(|member| member.canary);
    let odd = left_out::notes(&spec.upgrade_strategy, is_canary);
    selected.notes.extend(odd);
    selected
}

/// A terminating or not accepted cluster is not selectable.
fn is_selectable(cluster: &ClusterView) -> bool {
    !cluster.terminating && cluster.accepted
}

struct SelectionScope<'a> {
    namespace: &'a str,
    clusters: &'a Clusters,
    placements: &'a Placements,
    require_bindings: bool,
}

impl<'a> SelectionScope<'a> {
    /// Adds the clusters that were decided for a Placement.
    fn add_decided(&self, reference: &PlacementRef, selected: &mut Selected) {
        let at = reference
            .namespace
            .as_deref()
            .filter(|at| !at.is_empty())
            .unwrap_or(self.namespace);
        let name = &reference.name;
        let notes = &mut selected.notes;
        let Some(placement) = self.placements.placement(at, name) else {
            notes.push(format!("Placement {at}/{name} does not exist"));
            return;
        };
        let wanted = match &placement.sets {
            Ok(sets) => sets,
            Err(error) => {
                notes.push(format!(
                    "The spec of Placement {at}/{name} cannot be read: {error}"
                ));
                return;
            }
        };
        let decided = self.placements.decided(at, name);
        if decided.unowned > 0 {
            notes.push(format!(
                "The controller ignores PlacementDecisions of Placement {at}/{name} ({}), because they have no ownerReference with the Placement's name and UID. Only OCM's placement controller may write them.",
                decided.unowned
            ));
        } else if decided.clusters.is_empty() {
            notes.push(format!("Placement {at}/{name} selects no cluster"));
        }
        let sets = self
            .require_bindings
            .then(|| self.among(&self.placements.bound_sets(at), wanted));
        let mut outside = Vec::new();
        for cluster in decided
            .clusters
            .iter()
            .filter_map(|name| self.clusters.get(*name))
        {
            let inside = sets.as_ref().is_none_or(|sets| is_in(cluster, sets));
            if inside && is_selectable(cluster) {
                selected.clusters.entry(Arc::clone(&cluster.name)).or_default();
            } else if !inside {
                outside.push(&cluster.name);
            }
        }
        if let Some(first) = outside.first() {
            let listed = if wanted.is_empty() {
                ""
            } else {
                " and listed in spec.clusterSets of the Placement"
            };
            selected.notes.push(format!(
                "The controller ignores clusters that Placement {at}/{name} selects ({}, such as {first}), because no ManagedClusterSet that is bound to namespace {at}{listed} contains them. Create a ManagedClusterSetBinding there.",
                outside.len()
            ));
        }
    }

    /// Marks the canaries, and adds those outside the selection that the author may select. A cluster that
    /// was decided for a Placement is within the author's permissions already.
    fn add_canaries(&self, selector: &CompiledSelector<'_>, selected: &mut Selected) {
        let mut found: Vec<&Arc<ClusterView>> = if selector.selector.cluster_sets.is_empty() {
            let known = selected
                .clusters
                .keys()
                .filter_map(|name| self.clusters.get(name));
            known.filter(|cluster| selector.matches(cluster)).collect()
        } else {
            Vec::new()
        };
        let mut notes = Vec::new();
        found.extend(self.matching("the canary selector", selector, &mut notes));
        if found.is_empty() {
            selected.notes.append(&mut notes);
        }
        for cluster in found {
            let member = selected.clusters.entry(Arc::clone(&cluster.name)).or_default();
            member.canary = true;
            member.explicitly_named |= selector.names(cluster);
        }
    }

    /// Clusters of the permitted sets that the selector matches.
    fn matching(
        &self,
        field: &str,
        selector: &CompiledSelector<'_>,
        notes: &mut Vec<String>,
    ) -> Vec<&'a Arc<ClusterView>> {
        let everything = !self.require_bindings && selector.selector.cluster_sets.is_empty();
        let sets = if everything {
            Vec::new()
        } else {
            self.sets(field, selector.selector, notes)
        };
        let inside = |cluster: &ClusterView| everything || is_in(cluster, &sets);
        let matching =
            |cluster: &ClusterView| inside(cluster) && is_selectable(cluster) && selector.matches(cluster);
        self.clusters
            .values()
            .filter(|cluster| matching(cluster))
            .collect()
    }

    fn sets(
        &self,
        field: &str,
        selector: &ClusterSelector,
        notes: &mut Vec<String>,
    ) -> Vec<(&'a Arc<str>, &'a SetSelector)> {
        let bound: BTreeSet<&Arc<str>> = if self.require_bindings {
            self.placements.bound_sets(self.namespace)
        } else {
            self.placements.all_sets().collect()
        };
        if bound.is_empty() {
            notes.push(format!(
                "No ManagedClusterSet is bound to namespace {}, so {field} can select no cluster. Create a ManagedClusterSetBinding there.",
                self.namespace
            ));
        }
        for wanted in &selector.cluster_sets {
            if !bound.iter().any(|name| ***name == **wanted) {
                notes.push(format!(
                    "ManagedClusterSet {wanted} is not bound to namespace {}. Create a ManagedClusterSetBinding {wanted} there.",
                    self.namespace
                ));
            }
        }
        self.among(&bound, &selector.cluster_sets)
    }

    /// The sets that exist, are bound, and are requested. Without requested sets, all bound ones.
    fn among(
        &self,
        bound: &BTreeSet<&'a Arc<str>>,
        wanted: &[String],
    ) -> Vec<(&'a Arc<str>, &'a SetSelector)> {
        let wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
        let sets = bound.iter().filter(|name| wanted(name));
        sets.filter_map(|name| Some((*name, self.placements.set(name)?)))
            .collect()
    }
}

/// True for a cluster of one of the sets.
fn is_in(cluster: &ClusterView, sets: &[(&Arc<str>, &SetSelector)]) -> bool {
    sets.iter().any(|(name, set)| belongs(cluster, name, set))
}

/// True when a cluster belongs to a set, by the exclusive label or by the set's own selector
/// (`docs/design/rules.md#set-bindings`).
fn belongs(cluster: &ClusterView, name: &str, set: &SetSelector) -> bool {
    if set.selector_type == "LabelSelector" {
        return set
            .label_selector
            .as_ref()
            .is_some_and(|selector| matches_plain(selector, cluster));
    }
    cluster.label(LABEL_CLUSTER_SET) == Some(name)
}

fn matches_plain(selector: &LabelSelector, cluster: &ClusterView) -> bool {
    let labels = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| cluster.label(key) == Some(value));
    let expressions = selector.match_expressions.iter().flatten().all(|expression| {
        let value = cluster.label(&expression.key);
        let listed = || value.is_some_and(|value| expression.values.iter().flatten().any(|one| one == value));
        match expression.operator.as_str() {
            "In" => listed(),
            "NotIn" => !listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    });
    labels && expressions
}

/// Labels and expressions with their values as hash sets. A list of ten thousand names must not be searched for each
/// cluster. Without any, all clusters match.
#[derive(Default)]
pub(crate) struct LabelMatcher<'a> {
    labels: Vec<(&'a str, &'a str)>,
    expressions: Vec<(&'a LabelExpression, AHashSet<&'a str>)>,
}

impl<'a> LabelMatcher<'a> {
    pub(crate) fn new(labels: &'a BTreeMap<String, String>, expressions: &'a [LabelExpression]) -> Self {
        let set = |expression: &'a LabelExpression| expression.values.iter().map(String::as_str).collect();
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        Self {
            labels: labels.collect(),
            expressions: expressions.iter().map(|one| (one, set(one))).collect(),
        }
    }

    /// True when a cluster has all labels and satisfies all expressions.
    pub(crate) fn matches(&self, cluster: &ClusterView) -> bool {
        let mut labels = self.labels.iter();
        labels.all(|(key, value)| cluster.selectable_label(key) == Some(value))
            && self.expressions.iter().all(|(expression, values)| {
                let value = cluster.selectable_label(&expression.key);
                let listed = value.is_some_and(|value| values.contains(value));
                match expression.operator {
                    LabelOperator::In => listed,
                    LabelOperator::NotIn => !listed,
                    LabelOperator::Exists => value.is_some(),
                    LabelOperator::DoesNotExist => value.is_none(),
                }
            })
    }
}

/// A selector of the spec.
struct CompiledSelector<'a> {
    selector: &'a ClusterSelector,
    matcher: LabelMatcher<'a>,
}

impl<'a> CompiledSelector<'a> {
    fn new(selector: &'a ClusterSelector) -> CompiledSelector<'a> {
        CompiledSelector {
            selector,
            matcher: LabelMatcher::new(&selector.match_labels, &selector.match_expressions),
        }
    }

    fn matches(&self, cluster: &ClusterView) -> bool {
        self.matcher.matches(cluster)
    }

    /// True when a value names this cluster: the name of its object by the key `name` or `metadata.name`, or
    /// the key `local-cluster`. If the hub was imported under another name, only the key `local-cluster`
    /// names it, because admission checks the author's permission and does not know that name.
    fn names(&self, cluster: &ClusterView) -> bool {
        let known = !cluster.hub || *cluster.name == *LABEL_LOCAL_CLUSTER;
        let by_name = |key: &str| known && (key == LABEL_NAME || key == KEY_METADATA_NAME);
        let mut labels = self.selector.match_labels.iter();
        let by_label = labels
            .any(|(key, value)| key == LABEL_LOCAL_CLUSTER || (by_name(key) && **value == *cluster.name));
        let mut expressions = self.matcher.expressions.iter();
        let by_expression = expressions.any(|(expression, values)| {
            let key = &expression.key;
            expression.operator == LabelOperator::In
                && (key == LABEL_LOCAL_CLUSTER || (by_name(key) && values.contains(&*cluster.name)))
        });
        (by_label || by_expression) && self.matches(cluster)
    }
}

#[cfg(test)]
mod tests;
