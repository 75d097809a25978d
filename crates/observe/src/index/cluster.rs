//! What the index keeps of a ManagedCluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::lenient::Lenient;
use api::maintenance::may_tell_zone;
use api::names::{
    CLAIM_CONTROL_PLANE_TOPOLOGY, CLAIM_ID, CLAIM_PRODUCT, CLAIM_VERSION, KEY_METADATA_NAME,
    LABEL_AGENT_VERSION, LABEL_CLUSTER_ID, LABEL_LOCAL_CLUSTER, LABEL_NAME, LABEL_OPENSHIFT_VERSION,
    LABEL_VENDOR, LOCAL_CLUSTER, TOPOLOGY_EXTERNAL,
};
use api::text::visible;
use api::time::to_chrono;
use api::views::{ManagedCluster, condition};
use chrono::{DateTime, Utc};
use rollout::forecast::ClusterClass;
use rollout::is_version;

use super::intern::Pool;

/// Why a cluster without condition Available waits. OCM marks such a cluster as unreachable, too.
const NOT_JOINED: &str =
    "The cluster has not joined the hub yet: its agent has not reported that it is available";

/// Most annotations and most claims that are kept of a cluster because they may tell its time zone, and the longest value in characters.
const MAX_ZONES: usize = 16;
const MAX_ZONE_NAME: usize = 64;

/// Clusters by name.
pub type Clusters = BTreeMap<Arc<str>, Arc<ClusterView>>;

/// A ManagedCluster reduced to the fields that selection and eligibility use. If two views are equal, nothing
/// relevant changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a cluster")]
pub struct ClusterView {
    /// Name.
    pub name: Arc<str>,
    /// UID of the object. A cluster that is registered anew has another one.
    pub uid: Arc<str>,
    /// Labels, sorted by key.
    pub labels: Box<[(Arc<str>, Arc<str>)]>,
    /// Annotations that may tell a time zone, sorted by key.
    zone_annotations: Box<[(Arc<str>, Arc<str>)]>,
    /// Claims that may tell a time zone, in their order.
    zone_claims: Box<[(Arc<str>, Arc<str>)]>,
    /// When the object was created, by the hub's clock.
    pub created: Option<DateTime<Utc>>,
    /// The object is being deleted.
    pub terminating: bool,
    /// The hub accepts the cluster.
    pub accepted: bool,
    /// Condition `ManagedClusterConditionAvailable`.
    pub availability: Availability,
    /// Cluster ID from the claim or, without it, the label.
    pub id: Option<ClusterId>,
    /// The cluster is the hub itself, by its name or its label. A label value that is neither true nor false
    /// also counts.
    pub hub: bool,
    /// The cluster's control plane is hosted on another cluster. Only a claim says so.
    pub hosted: bool,
    /// Its size, from the claim about its control plane.
    pub class: ClusterClass,
    /// Product from the claim or, without it, the label.
    pub product: Option<Arc<str>>,
    /// OpenShift version from the claim or, without it, the label; empty if unknown, or if that is no version.
    pub version: Arc<str>,
    /// The last such version that was not empty. It is kept while the claim is gone or is no version any more.
    pub last_version: Arc<str>,
    /// The error if the object cannot be read.
    pub unreadable: Option<Arc<str>>,
}

/// A cluster's ID as reported on the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterId {
    /// The ID.
    pub text: Arc<str>,
    /// The ID has the form of a UUID, as `spec.clusterID` of ClusterVersion must have.
    pub is_uuid: bool,
}

impl ClusterId {
    fn new(text: &str) -> ClusterId {
        ClusterId {
            text: Arc::from(visible(text)),
            is_uuid: is_uuid(text),
        }
    }
}

/// Availability of a cluster as the hub reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Condition True.
    Available,
    /// Condition False, Unknown or absent, with its message.
    Unavailable(Arc<str>),
}

/// The size of a cluster whose control plane has this topology (`infrastructure.status.controlPlaneTopology` of OpenShift).
fn class_of(topology: Option<&str>) -> ClusterClass {
    match topology {
        Some("SingleReplica") => ClusterClass::SingleNode,
        Some("HighlyAvailable" | "HighlyAvailableArbiter" | "DualReplica") => ClusterClass::MultiNode,
        _ => ClusterClass::Unknown,
    }
}

impl ClusterView {
    /// Reduces a ManagedCluster. `None` for an object without a name.
    pub fn new(cluster: &ManagedCluster, pool: &mut Pool) -> Option<ClusterView> {
        let name = cluster.metadata.name.as_deref()?;
        let empty = std::collections::BTreeMap::new();
        let labels = cluster.metadata.labels.as_ref().unwrap_or(&empty);
        let status = cluster.status.good();
        let fact = |claim: &str, label: &str| {
            let claimed = status
                .and_then(|status| status.claim(claim))
                .filter(|value| !value.is_empty());
            claimed
                .or_else(|| labels.get(label).map(String::as_str))
                .filter(|value| !value.is_empty())
        };
        let annotations = cluster.metadata.annotations.iter().flatten();
        let claims = status.into_iter().flat_map(|status| &status.cluster_claims);
        let claims = claims.map(|claim| (&claim.name, &claim.value));
        let available =
            status.and_then(|status| condition(&status.conditions, "ManagedClusterConditionAvailable"));
        let unavailable = match available {
            Some(found) if found.status == "True" => None,
            Some(found) => Some(format!(
                "The hub reports that the cluster is not available: {}: {}",
                found.reason, found.message
            )),
            None => Some(NOT_JOINED.to_owned()),
        };
        let availability = unavailable.map_or(Availability::Available, |text| {
            Availability::Unavailable(pool.share(&visible(&text)))
        });
        let unreadable = cluster.spec.error().or_else(|| cluster.status.error());
        let topology = status.and_then(|status| status.claim(CLAIM_CONTROL_PLANE_TOPOLOGY));
        let version = pool.share(
            fact(CLAIM_VERSION, LABEL_OPENSHIFT_VERSION)
                .filter(|claim| is_version(claim))
                .unwrap_or_default(),
        );
        Some(ClusterView {
            name: pool.share(name),
            uid: Arc::from(cluster.metadata.uid.as_deref().unwrap_or_default()),
            zone_annotations: zones(annotations, pool),
            zone_claims: zones(claims, pool),
            created: cluster.metadata.creation_timestamp.as_ref().and_then(to_chrono),
            terminating: cluster.metadata.deletion_timestamp.is_some(),
            // If the field is unreadable, the cluster counts as accepted: it stays selected and is blocked
            // with a cause.
            accepted: match &cluster.spec {
                Lenient::Good(spec) => spec.hub_accepts_client,
                Lenient::Broken(_) => true,
                Lenient::Absent => false,
            },
            availability,
            id: fact(CLAIM_ID, LABEL_CLUSTER_ID).map(ClusterId::new),
            hub: name == LOCAL_CLUSTER
                || labels
                    .get(LABEL_LOCAL_CLUSTER)
                    .is_some_and(|value| value != "false"),
            hosted: topology == Some(TOPOLOGY_EXTERNAL),
            class: class_of(topology),
            product: fact(CLAIM_PRODUCT, LABEL_VENDOR).map(|product| pool.share(&visible(product))),
            last_version: Arc::clone(&version),
            version,
            unreadable: unreadable.map(|error| pool.share(&visible(error))),
            labels: labels
                .iter()
                .map(|(key, value)| (pool.share(key), pool.share(value)))
                .collect(),
        })
    }

    /// Keeps the last version and time zone that an earlier view of the same cluster tells, if this one tells none. A claim that is gone, or is
    /// no version any more, says nothing new of what the cluster runs. A cluster that was registered or installed anew may run
    /// anything.
    pub(super) fn keep_last_version(&mut self, before: &ClusterView) {
        let mut ids = self.id.iter().zip(&before.id);
        let is_same = self.created == before.created && ids.all(|(id, former)| id == former);
        if self.zone_claims.is_empty() && is_same {
            self.zone_claims.clone_from(&before.zone_claims);
        }
        if self.version.is_empty() && is_same {
            self.last_version = Arc::clone(&before.last_version);
        }
    }

    /// True when its label says that its work agent can read objects without writing them.
    #[must_use]
    pub fn has_reading_agent(&self) -> bool {
        self.label(LABEL_AGENT_VERSION).is_some_and(can_read_only)
    }

    /// Value of an annotation that may tell a time zone.
    #[must_use]
    pub fn zone_annotation(&self, key: &str) -> Option<&Arc<str>> {
        find(&self.zone_annotations, key)
    }

    /// Value of a claim that may tell a time zone.
    #[must_use]
    pub fn zone_claim(&self, name: &str) -> Option<&Arc<str>> {
        find(&self.zone_claims, name)
    }

    /// Value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        let index = self
            .labels
            .binary_search_by(|(known, _)| (**known).cmp(key))
            .ok()?;
        Some(&self.labels[index].1)
    }

    /// Value of a label for selectors. `name` falls back to the cluster's name; `metadata.name` is always
    /// that name (`docs/design/rules.md#name-key`).
    #[must_use]
    pub fn selectable_label(&self, key: &str) -> Option<&str> {
        if key == KEY_METADATA_NAME {
            return Some(&self.name);
        }
        let fallback = (key == LABEL_NAME).then_some(&*self.name);
        self.label(key).or(fallback)
    }
}

/// The entries whose names say that they may tell a time zone, with values that are not longer than those of zones. A longer one is cut,
/// so it names no zone.
fn zones<'a>(
    entries: impl Iterator<Item = (&'a String, &'a String)>,
    pool: &mut Pool,
) -> Box<[(Arc<str>, Arc<str>)]> {
    let kept = entries.filter(|(name, value)| may_tell_zone(name) && !value.is_empty());
    let kept = kept.take(MAX_ZONES).map(|(name, value)| {
        let value: String = visible(value).chars().take(MAX_ZONE_NAME).collect();
        (pool.share(name), pool.share(&value))
    });
    kept.collect()
}

fn find<'a>(entries: &'a [(Arc<str>, Arc<str>)], name: &str) -> Option<&'a Arc<str>> {
    let found = entries.iter().find(|(known, _)| **known == *name);
    found.map(|(_, value)| value)
}

/// True for versions of OCM in which work agents know the update strategy `ReadOnly`. From 2 on it is the version of another
/// product, such as the multicluster engine, whose agents may be older.
fn can_read_only(version: &str) -> bool {
    let version = version.strip_prefix('v').unwrap_or(version);
    clusterversion::version::parse(version)
        .is_some_and(|version| (0, 14) <= (version.major(), version.minor()) && version.major() < 2)
}

/// True for 8-4-4-4-12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    parts.len() == lengths.len()
        && parts
            .iter()
            .zip(lengths)
            .all(|(part, length)| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
