//! Which clusters an upgrade selects (`reference/mcu.md` §4 "Selection and permission", A4 to A8).
//!
//! The union of all placements' decisions and of the selector. The selector sees only clusters of cluster sets
//! bound in the upgrade's namespace; that is OCM's border between tenants, and this module keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::mcu::{ClusterSelector, LabelExpression, LabelOperator, ManagedClustersUpgradeSpec};
use api::names::{LABEL_CLUSTER_SET, LABEL_LOCAL_CLUSTER, LABEL_NAME};
use api::views::SetSelector;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::index::{ClusterView, Placements};

/// The outcome of a selection.
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
    /// It was named by a selector value, or is alone in its placement: enough to upgrade the hub itself.
    pub named: bool,
}

/// Clusters by name.
pub type Clusters = BTreeMap<Arc<str>, Arc<ClusterView>>;

/// Resolves the selection of an upgrade.
#[must_use]
pub fn select(
    spec: &ManagedClustersUpgradeSpec,
    namespace: &str,
    clusters: &Clusters,
    placements: &Placements,
    require_bindings: bool,
) -> Selected {
    let mut selected = Selected::default();
    for reference in &spec.placement {
        let at = reference
            .namespace
            .as_deref()
            .filter(|at| !at.is_empty())
            .unwrap_or(namespace);
        if !placements.has_placement(at, &reference.name) {
            selected
                .notes
                .push(format!("Placement {at}/{} does not exist", reference.name));
            continue;
        }
        let decided: BTreeSet<&Arc<str>> = placements.decided(at, &reference.name).collect();
        if decided.is_empty() {
            selected.notes.push(format!(
                "Placement {at}/{} has decided no cluster",
                reference.name
            ));
        }
        let alone = decided.len() == 1;
        for name in decided {
            if clusters.get(name).is_some_and(|cluster| is_selectable(cluster)) {
                selected.clusters.entry(Arc::clone(name)).or_default().named |= alone;
            }
        }
    }
    let borders = Borders {
        namespace,
        clusters,
        placements,
        require_bindings,
    };
    if let Some(selector) = &spec.cluster_selector {
        for cluster in borders.matching("spec.clusterSelector", selector, &mut selected.notes) {
            selected
                .clusters
                .entry(Arc::clone(&cluster.name))
                .or_default()
                .named |= names(selector, cluster);
        }
    }
    if spec.placement.is_empty() && spec.cluster_selector.is_none() {
        selected
            .notes
            .push("neither spec.placement nor spec.clusterSelector is set".to_owned());
    }
    if let Some(canaries) = &spec.upgrade_strategy.canary_clusters {
        let selector = &canaries.cluster_selector;
        let mut notes = Vec::new();
        let from_sets: Vec<Arc<str>> = borders
            .matching("the canary selector", selector, &mut notes)
            .map(|cluster| Arc::clone(&cluster.name))
            .collect();
        // A cluster that a placement decided on is already within the author's borders.
        let from_selection: Vec<Arc<str>> = selected
            .clusters
            .keys()
            .filter(|name| {
                selector.cluster_sets.is_empty()
                    && clusters
                        .get(*name)
                        .is_some_and(|cluster| matches(selector, cluster))
            })
            .cloned()
            .collect();
        for name in from_sets.into_iter().chain(from_selection) {
            let named = clusters
                .get(&name)
                .is_some_and(|cluster| names(selector, cluster));
            let member = selected.clusters.entry(name).or_default();
            member.canary = true;
            member.named |= named;
        }
    }
    selected
}

/// A terminating or not accepted cluster is not selectable.
fn is_selectable(cluster: &ClusterView) -> bool {
    !cluster.terminating && cluster.accepted
}

struct Borders<'a> {
    namespace: &'a str,
    clusters: &'a Clusters,
    placements: &'a Placements,
    require_bindings: bool,
}

impl<'a> Borders<'a> {
    /// Clusters of the permitted sets that the selector matches.
    fn matching(
        &self,
        field: &str,
        selector: &'a ClusterSelector,
        notes: &mut Vec<String>,
    ) -> impl Iterator<Item = &'a Arc<ClusterView>> + use<'a> {
        let everything = !self.require_bindings && selector.cluster_sets.is_empty();
        let sets = if everything {
            Vec::new()
        } else {
            self.sets(field, selector, notes)
        };
        self.clusters.values().filter(move |cluster| {
            let inside = everything || sets.iter().any(|(name, set)| belongs(cluster, name, set));
            inside && is_selectable(cluster) && matches(selector, cluster)
        })
    }

    fn sets(
        &self,
        field: &str,
        selector: &'a ClusterSelector,
        notes: &mut Vec<String>,
    ) -> Vec<(Arc<str>, SetSelector)> {
        let bound: BTreeSet<&Arc<str>> = if self.require_bindings {
            self.placements.bound_sets(self.namespace)
        } else {
            self.placements.all_sets().collect()
        };
        if bound.is_empty() {
            notes.push(format!(
                "no ManagedClusterSet is bound to namespace {}; create a ManagedClusterSetBinding there so that {field} may select its clusters",
                self.namespace
            ));
        }
        for wanted in &selector.cluster_sets {
            if !bound.iter().any(|name| ***name == **wanted) {
                notes.push(format!(
                    "ManagedClusterSet {wanted} is not bound to namespace {}; create a ManagedClusterSetBinding {wanted} there",
                    self.namespace
                ));
            }
        }
        bound
            .into_iter()
            .filter(|name| {
                selector.cluster_sets.is_empty()
                    || selector.cluster_sets.iter().any(|wanted| **wanted == ***name)
            })
            .filter_map(|name| Some((Arc::clone(name), self.placements.set(name)?.clone())))
            .collect()
    }
}

/// Membership in a set: by the exclusive label or by the set's own selector (`reference/ocm.md` 2.9).
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

fn matches(selector: &ClusterSelector, cluster: &ClusterView) -> bool {
    selector
        .match_labels
        .iter()
        .all(|(key, value)| cluster.selectable_label(key) == Some(value))
        && selector
            .match_expressions
            .iter()
            .all(|expression| satisfies(expression, cluster))
}

fn satisfies(expression: &LabelExpression, cluster: &ClusterView) -> bool {
    let value = cluster.selectable_label(&expression.key);
    let listed = || value.is_some_and(|value| expression.values.iter().any(|one| one == value));
    match expression.operator {
        LabelOperator::In => listed(),
        LabelOperator::NotIn => !listed(),
        LabelOperator::Exists => value.is_some(),
        LabelOperator::DoesNotExist => value.is_none(),
    }
}

/// True when a selector value names this very cluster, by `name` or `local-cluster`.
fn names(selector: &ClusterSelector, cluster: &ClusterView) -> bool {
    let naming = |key: &str| key == LABEL_NAME || key == LABEL_LOCAL_CLUSTER;
    let by_label = selector.match_labels.keys().any(|key| naming(key));
    let by_expression = selector
        .match_expressions
        .iter()
        .any(|expression| naming(&expression.key) && expression.operator == LabelOperator::In);
    (by_label || by_expression) && matches(selector, cluster)
}
