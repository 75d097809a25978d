//! ManifestWork as the work agent reads it: manifests, configuration per resource, deletion options.
//!
//! This module parses and matches. Texts, feedback paths and condition rules that are the same on several clusters are stored
//! once ([`Interner`]).

mod config;
mod interner;
pub mod status;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(crate) use self::config::wildcard;
pub use self::config::{
    Config, Configs, FeedbackRule, FieldPath, IgnoreWhen, IgnoredFields, ServerSideApply, Strategy,
    WatchOrPoll,
};
pub use self::interner::Interner;
use crate::store::ObjectKey;

/// The finalizer of the agent on every work that it processes.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// The spec of a ManifestWork.
#[derive(Clone, Debug)]
pub struct WorkSpec {
    /// `spec.workload.manifests`, as JSON texts.
    pub manifests: Vec<Arc<str>>,
    /// `spec.manifestConfigs`.
    pub configs: Arc<Configs>,
    /// `spec.deleteOption`.
    pub delete_option: DeleteOption,
}

/// `spec.deleteOption`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOption {
    /// What happens to applied objects when the work is deleted.
    #[serde(default)]
    pub propagation_policy: Propagation,
    /// The rules of `SelectivelyOrphan`.
    #[serde(default)]
    pub selectively_orphans: Option<Orphans>,
}

/// `spec.deleteOption.propagationPolicy`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Propagation {
    /// Delete what was applied.
    #[default]
    Foreground,
    /// Keep everything.
    Orphan,
    /// Keep what a rule names.
    SelectivelyOrphan,
}

/// `spec.deleteOption.selectivelyOrphans`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Orphans {
    /// A plain list. Every field of a rule matches exactly, without wildcards.
    #[serde(default)]
    pub orphaning_rules: Vec<OrphaningRule>,
}

/// One orphaning rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OrphaningRule {
    /// API group.
    pub group: String,
    /// Plural resource.
    pub resource: String,
    /// Namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl DeleteOption {
    /// Whether the work owns an object, so that the object is deleted with the work. Rules match group,
    /// plural resource, namespace and name exactly (ocm `OwnedByTheWork`).
    #[must_use]
    pub fn owns(&self, key: &ObjectKey) -> bool {
        match self.propagation_policy {
            Propagation::Foreground => true,
            Propagation::Orphan => false,
            Propagation::SelectivelyOrphan => !self
                .selectively_orphans
                .iter()
                .flat_map(|o| &o.orphaning_rules)
                .any(|rule| {
                    rule.group == key.group
                        && rule.resource == key.resource
                        && *rule.name == *key.name
                        && *rule.namespace == *key.namespace
                }),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec<'a> {
    #[serde(default, borrow)]
    workload: RawWorkload<'a>,
    #[serde(default, borrow)]
    manifest_configs: Option<&'a RawValue>,
    #[serde(default)]
    delete_option: Option<DeleteOption>,
}

#[derive(Default, Deserialize)]
struct RawWorkload<'a> {
    #[serde(default, borrow)]
    manifests: Vec<&'a RawValue>,
}

impl WorkSpec {
    /// Parses `spec`.
    ///
    /// # Errors
    /// The text is not the spec of a ManifestWork.
    pub fn parse(spec: &str, interner: &mut Interner) -> Result<Self, serde_json::Error> {
        let raw: RawSpec<'_> = serde_json::from_str(spec)?;
        Ok(Self {
            manifests: raw
                .workload
                .manifests
                .iter()
                .map(|manifest| interner.text(manifest.get()))
                .collect(),
            configs: interner.configs(raw.manifest_configs.map_or("[]", RawValue::get))?,
            delete_option: raw.delete_option.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests;
