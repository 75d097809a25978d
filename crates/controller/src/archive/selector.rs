//! The part of an archived upgrade's spec that selects clusters.

use std::sync::Arc;

use api::ManagedClustersUpgradeSpec;
use api::mcu::ClusterSelector;
use observe::index::{Index, SelectionChanges};
use observe::selection::{self, Selected};
use resolve::spec::ResolvedSpec;

/// The fields that select the clusters of an archived upgrade, and what they depend on.
#[derive(Debug)]
pub(super) struct Selector {
    /// The spec's selecting fields as JSON. For ten thousand names, JSON takes a third of the memory.
    spec: Box<[u8]>,
    /// Label keys that the fields contain.
    keys: Box<[Box<str>]>,
    /// Placements that the fields name. An empty namespace stands for the namespace of the upgrade.
    placements: Box<[(Box<str>, Box<str>)]>,
    revision: Arc<str>,
}

impl Selector {
    pub(super) fn new(spec: &ResolvedSpec) -> Selector {
        let resolved = spec;
        let spec = &resolved.fields;
        let mut fields = ManagedClustersUpgradeSpec {
            placement: spec.placement.clone(),
            cluster_selector: spec.cluster_selector.clone(),
            ..ManagedClustersUpgradeSpec::default()
        };
        let strategy = &spec.upgrade_strategy;
        let canaries = &strategy.canary_clusters;
        fields.upgrade_strategy.canary_clusters.clone_from(canaries);
        // What is odd about the clusters that are left out is part of a selection.
        fields.upgrade_strategy.skip.clone_from(&strategy.skip);
        fields.upgrade_strategy.abort.clone_from(&strategy.abort);
        let selectors = spec.cluster_selector.iter();
        let selectors = selectors.chain(canaries.as_ref().map(|canaries| &canaries.cluster_selector));
        let placements = spec.placement.iter().map(|reference| {
            let namespace = reference.namespace.as_deref().unwrap_or_default();
            (Box::from(namespace), Box::from(reference.name.as_str()))
        });
        Selector {
            spec: serde_json::to_vec(&fields).unwrap_or_default().into(),
            keys: selectors.flat_map(keys).map(Box::from).collect(),
            placements: placements.collect(),
            revision: Arc::clone(&resolved.policy.revision),
        }
    }

    /// Revision of the whole spec.
    pub(super) fn revision(&self) -> &str {
        &self.revision
    }

    /// True when the selection may have changed.
    pub(super) fn is_concerned(&self, changes: &SelectionChanges, namespace: &str) -> bool {
        let mut keys = self.keys.iter();
        let mut placements = self.placements.iter();
        changes.everything
            || keys.any(|key| changes.keys.contains(&**key))
            || placements.any(|(at, name)| {
                let at = if at.is_empty() { namespace } else { at };
                changes.placements.contains(&(Arc::from(at), Arc::from(&**name)))
            })
    }

    /// Computes the selection. It is empty if the fields cannot be parsed, which never matches an upgrade
    /// with records.
    pub(super) fn select(&self, namespace: &str, index: &Index, require_bindings: bool) -> Selected {
        let Ok(spec) = serde_json::from_slice(&self.spec) else {
            return Selected::default();
        };
        selection::select(
            &spec,
            namespace,
            &index.clusters,
            &index.placements,
            require_bindings,
        )
    }
}

fn keys(selector: &ClusterSelector) -> impl Iterator<Item = &str> {
    let expressions = selector
        .match_expressions
        .iter()
        .map(|expression| expression.key.as_str());
    selector
        .match_labels
        .keys()
        .map(String::as_str)
        .chain(expressions)
}
