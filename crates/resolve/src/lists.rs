//! The lists of a hub that planning reads: eight kinds, as the API server returns them.

use std::borrow::Cow;

use api::names::{LABEL_MCU, LABEL_MCU_UID};
use api::views::{
    ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, ManifestWork, Placement, PlacementDecision,
    Report, Upgrade,
};
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::decode;

/// A kind that planning reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListKind {
    /// ManagedClusters.
    Clusters,
    /// `ManagedClusterSets`.
    Sets,
    /// `ManagedClusterSetBindings`.
    Bindings,
    /// Placements.
    Placements,
    /// PlacementDecisions.
    Decisions,
    /// `ManagedClustersUpgrades`.
    Upgrades,
    /// `ManagedClustersUpgradeReports`.
    Reports,
    /// ManifestWorks that carry the label of an upgrade.
    Works,
}

impl ListKind {
    /// All kinds.
    pub const ALL: [ListKind; 8] = [
        ListKind::Clusters,
        ListKind::Sets,
        ListKind::Bindings,
        ListKind::Placements,
        ListKind::Decisions,
        ListKind::Upgrades,
        ListKind::Reports,
        ListKind::Works,
    ];

    /// The path of the list of all objects, without parameters.
    #[must_use]
    pub fn path(self) -> String {
        match self {
            ListKind::Clusters => ManagedCluster::url_path(&(), None),
            ListKind::Sets => ManagedClusterSet::url_path(&(), None),
            ListKind::Bindings => ManagedClusterSetBinding::url_path(&(), None),
            ListKind::Placements => Placement::url_path(&(), None),
            ListKind::Decisions => PlacementDecision::url_path(&(), None),
            ListKind::Upgrades => Upgrade::url_path(&(), None),
            ListKind::Reports => Report::url_path(&(), None),
            ListKind::Works => ManifestWork::url_path(&(), None),
        }
    }

    /// The plural in URLs.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            ListKind::Clusters => "managedclusters",
            ListKind::Sets => "managedclustersets",
            ListKind::Bindings => "managedclustersetbindings",
            ListKind::Placements => "placements",
            ListKind::Decisions => "placementdecisions",
            ListKind::Upgrades => "managedclustersupgrades",
            ListKind::Reports => "managedclustersupgradereports",
            ListKind::Works => "manifestworks",
        }
    }

    /// The kind of an object.
    #[must_use]
    pub fn kind(self) -> Cow<'static, str> {
        match self {
            ListKind::Clusters => ManagedCluster::kind(&()),
            ListKind::Sets => ManagedClusterSet::kind(&()),
            ListKind::Bindings => ManagedClusterSetBinding::kind(&()),
            ListKind::Placements => Placement::kind(&()),
            ListKind::Decisions => PlacementDecision::kind(&()),
            ListKind::Upgrades => Upgrade::kind(&()),
            ListKind::Reports => Report::kind(&()),
            ListKind::Works => ManifestWork::kind(&()),
        }
    }

    /// The API group.
    #[must_use]
    pub const fn group(self) -> &'static str {
        match self {
            ListKind::Works => "work.open-cluster-management.io",
            _ => api::GROUP,
        }
    }

    /// The label that an object must have, if any.
    #[must_use]
    pub const fn label(self) -> Option<&'static str> {
        match self {
            ListKind::Reports => Some(LABEL_MCU),
            ListKind::Works => Some(LABEL_MCU_UID),
            _ => None,
        }
    }
}

/// The objects of a hub.
#[derive(Debug, Default)]
pub struct HubLists {
    /// ManagedClusters.
    pub clusters: Vec<ManagedCluster>,
    /// `ManagedClusterSets`.
    pub sets: Vec<ManagedClusterSet>,
    /// `ManagedClusterSetBindings`.
    pub bindings: Vec<ManagedClusterSetBinding>,
    /// Placements.
    pub placements: Vec<Placement>,
    /// PlacementDecisions.
    pub decisions: Vec<PlacementDecision>,
    /// `ManagedClustersUpgrades`.
    pub upgrades: Vec<Upgrade>,
    /// `ManagedClustersUpgradeReports`.
    pub reports: Vec<Report>,
    /// ManifestWorks that carry the label of an upgrade.
    pub works: Vec<ManifestWork>,
    /// The upgrade of the hub in the place of which `upgrades` has an edited one. Clusters have answered to its spec.
    pub replaced: Option<Upgrade>,
    /// Number of objects of which not even the name can be read. They are left out.
    pub nameless: usize,
}

/// A page of a list. Its items are texts, because each is read by itself.
#[derive(Deserialize)]
pub struct ListedPage<'a> {
    #[serde(default)]
    metadata: ListedMeta,
    /// The objects as JSON.
    #[serde(default, borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedMeta {
    #[serde(rename = "continue")]
    token: Option<String>,
}

impl<'a> ListedPage<'a> {
    /// Reads a page from JSON.
    ///
    /// # Errors
    /// The text is not a list.
    pub fn read(text: &'a str) -> Result<ListedPage<'a>, String> {
        let page: ListedPage<'a> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if page.items.is_none() {
            return Err("it has no items".to_owned());
        }
        Ok(page)
    }

    /// Continues the list; `None` if this was its last page.
    #[must_use]
    pub fn token(&self) -> Option<&str> {
        self.metadata.token.as_deref().filter(|token| !token.is_empty())
    }

    /// The objects as JSON.
    pub fn items(&self) -> impl Iterator<Item = &'a str> {
        self.items.iter().flatten().map(|item| item.get())
    }
}

impl HubLists {
    /// Adds the objects of a page.
    pub fn add(&mut self, kind: ListKind, page: &ListedPage<'_>) {
        let nameless = match kind {
            ListKind::Clusters => extend(&mut self.clusters, page),
            ListKind::Sets => extend(&mut self.sets, page),
            ListKind::Bindings => extend(&mut self.bindings, page),
            ListKind::Placements => extend(&mut self.placements, page),
            ListKind::Decisions => extend(&mut self.decisions, page),
            ListKind::Upgrades => extend(&mut self.upgrades, page),
            ListKind::Reports => extend(&mut self.reports, page),
            ListKind::Works => extend(&mut self.works, page),
        };
        self.nameless += nameless;
    }
}

/// Adds the objects of a page and returns the number of those that were left out.
fn extend<K: DeserializeOwned + Resource>(objects: &mut Vec<K>, page: &ListedPage<'_>) -> usize {
    let before = objects.len();
    let mut listed = 0;
    for item in page.items() {
        listed += 1;
        let (object, _) = decode::object::<K>(item);
        objects.extend(object.filter(|object| object.meta().name.is_some()));
    }
    listed - (objects.len() - before)
}
