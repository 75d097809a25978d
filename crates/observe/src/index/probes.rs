//! The probes: works that ask clusters, before their update, what they would say to it (`docs/design/preflight.md#the-probe`).

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use api::names::{ANNOTATION_OWNER, ANNOTATION_STEP_HASH, LABEL_MCU_UID, probe_name};
use api::time::to_chrono;
use api::views::ManifestWork;
use chrono::{DateTime, Utc};
use clusterversion::preflight::Facts;
use rollout::forecast::{PastUpdate, VersionChange};

use super::{Index, Pool, Uid, version_of};
use crate::feedback::probe;

/// A probe, reduced to what the verdict needs.
#[derive(Clone, Debug)]
pub struct ProbeView {
    /// UID of the object.
    pub uid: Arc<str>,
    /// When the object was created, by the hub's clock.
    pub created: Option<DateTime<Utc>>,
    /// UID of the upgrade that asks.
    pub upgrade: Uid,
    /// `namespace/name` of the upgrade that asks, from its annotation.
    pub owner: Arc<str>,
    /// Hash of what is asked.
    pub hash: Arc<str>,
    /// The object is being deleted, or its deletion was requested.
    pub is_ending: bool,
    /// What the cluster has answered so far.
    pub facts: Facts,
}

impl ProbeView {
    /// True for a probe of the upgrade with this UID and `namespace/name`.
    #[must_use]
    pub fn is_of(&self, upgrade: &str, owner: &str) -> bool {
        *self.upgrade == *upgrade && *self.owner == *owner
    }

    fn new(object: &ManifestWork, pool: &mut Pool) -> Option<Self> {
        let meta = &object.metadata;
        let note = |key: &str| {
            let notes = meta.annotations.as_ref();
            notes.and_then(|notes| notes.get(key)).map_or("", String::as_str)
        };
        Some(Self {
            uid: Arc::from(meta.uid.as_deref()?),
            created: meta.creation_timestamp.as_ref().and_then(to_chrono),
            upgrade: pool.share(meta.labels.as_ref()?.get(LABEL_MCU_UID)?),
            owner: pool.share(note(ANNOTATION_OWNER)),
            hash: pool.share(note(ANNOTATION_STEP_HASH)),
            is_ending: meta.deletion_timestamp.is_some(),
            facts: probe::read(object),
        })
    }

    /// The past updates that the cluster has told, if it has told them.
    fn past(&self) -> Option<Box<[PastUpdate]>> {
        let history = self.facts.history.as_ref().ok()?;
        let updates = history.iter().map(|update| PastUpdate {
            change: VersionChange::of(&update.from, &update.to),
            took: update.took,
        });
        Some(updates.collect())
    }

    fn differs(&self, other: &Self) -> bool {
        self.uid != other.uid
            || self.upgrade != other.upgrade
            || self.owner != other.owner
            || self.hash != other.hash
            || self.is_ending != other.is_ending
            || self.facts != other.facts
    }
}

/// A probe, and how current it is. The view stays the same as long as nothing in it changes, so that whoever has judged it need
/// not do so again.
#[derive(Debug)]
struct KnownProbe {
    view: Arc<ProbeView>,
    /// Resource version as a number; a lower one never replaces a higher one.
    version: u64,
    /// Number of the last list that had started when the object was received.
    listing: u64,
}

/// All probes, by cluster. There is at most one in each cluster's namespace, because its name is fixed.
#[derive(Debug, Default)]
pub(super) struct Probes {
    by_cluster: AHashMap<Arc<str>, KnownProbe>,
    owned: AHashMap<Uid, BTreeSet<Arc<str>>>,
    /// The past updates that clusters told in probes that are gone: a probe goes as soon as the update is requested, and the estimate needs
    /// them until the update is over. There are at most eight of a cluster.
    past: AHashMap<Arc<str>, Box<[PastUpdate]>>,
}

/// The namespace of an object, if it has the name of a probe.
pub(super) fn cluster_of(object: &ManifestWork) -> Option<&str> {
    let namespace = object.metadata.namespace.as_deref()?;
    (object.metadata.name.as_deref()? == probe_name(namespace)).then_some(namespace)
}

impl Probes {
    fn insert(&mut self, cluster: Arc<str>, known: KnownProbe) {
        self.remove(&cluster);
        let owner = Arc::clone(&known.view.upgrade);
        self.owned.entry(owner).or_default().insert(Arc::clone(&cluster));
        self.by_cluster.insert(cluster, known);
    }

    fn remove(&mut self, cluster: &str) -> Option<Arc<ProbeView>> {
        let view = self.by_cluster.remove(cluster)?.view;
        if let Some(clusters) = self.owned.get_mut(&view.upgrade) {
            clusters.remove(cluster);
            if clusters.is_empty() {
                self.owned.remove(&view.upgrade);
            }
        }
        Some(view)
    }
}

impl Index {
    /// The probe in the namespace of a cluster.
    #[must_use]
    pub fn probe(&self, cluster: &str) -> Option<&Arc<ProbeView>> {
        self.probes.by_cluster.get(cluster).map(|known| &known.view)
    }

    /// The past updates of a cluster, as its probe tells them, or an earlier probe told them.
    #[must_use]
    pub fn past_updates(&self, cluster: &str) -> Vec<PastUpdate> {
        let told = self.probe(cluster).and_then(|probe| probe.past());
        let past = told.or_else(|| self.probes.past.get(cluster).cloned());
        past.map(Vec::from).unwrap_or_default()
    }

    /// True when a probe is older than the registration of its cluster. What it says may be of another cluster.
    #[must_use]
    pub fn is_former_probe(&self, cluster: &str, probe: &ProbeView) -> bool {
        let registered = self.clusters.get(cluster).and_then(|cluster| cluster.created);
        let times = registered.zip(probe.created);
        times.is_some_and(|(registered, created)| created < registered)
    }

    /// Remembers what a probe that goes has told, unless it may have asked another cluster.
    fn keep_past(&mut self, cluster: &str, view: &ProbeView) {
        if let Some(past) = view.past().filter(|_| !self.is_former_probe(cluster, view)) {
            self.probes.past.insert(self.pool.share(cluster), past);
        }
    }

    /// Forgets what earlier probes told of a cluster.
    pub(super) fn forget_past(&mut self, cluster: &str) {
        self.probes.past.remove(cluster);
    }

    /// Clusters with probes that carry the UID of an upgrade, sorted.
    pub fn probes_of(&self, upgrade: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<ProbeView>)> {
        let clusters = self.probes.owned.get(upgrade).into_iter().flatten();
        clusters.filter_map(|cluster| Some((cluster, self.probe(cluster)?)))
    }

    /// UIDs of all upgrades that have probes.
    pub fn probe_owners(&self) -> impl Iterator<Item = &Uid> {
        self.probes.owned.keys()
    }

    /// The newest resource version at which a probe is known; 0 if none is known.
    pub(super) fn newest_probe(&self) -> u64 {
        let known = self.probes.by_cluster.values();
        known.map(|known| known.version).max().unwrap_or(0)
    }

    /// The resource version at which this very probe is known; 0 if it is not known.
    pub(super) fn probe_version(&self, object: &ManifestWork) -> u64 {
        let known = cluster_of(object).and_then(|cluster| self.probes.by_cluster.get(cluster));
        let uid = object.metadata.uid.as_deref();
        known
            .filter(|known| uid == Some(&*known.view.uid))
            .map_or(0, |known| known.version)
    }

    pub(super) fn apply_probe(&mut self, cluster: &str, object: &ManifestWork) {
        let (version, listing) = (version_of(object), self.listing);
        let Some(mut view) = ProbeView::new(object, &mut self.pool) else {
            return;
        };
        if let Some(known) = self.probes.by_cluster.get_mut(cluster) {
            if known.version > version {
                return;
            }
            let before = &known.view;
            view.is_ending |= before.is_ending && before.uid == view.uid;
            if !before.differs(&view) {
                (known.version, known.listing) = (version, listing);
                return;
            }
            self.dirty.insert(Arc::clone(&before.upgrade));
        }
        self.dirty.insert(Arc::clone(&view.upgrade));
        let cluster = self.pool.share(cluster);
        let view = Arc::new(view);
        self.probes.insert(
            cluster,
            KnownProbe {
                view,
                version,
                listing,
            },
        );
    }

    /// Handles that a probe is gone. `uid`: only if it is this object.
    pub fn remove_probe(&mut self, cluster: &str, uid: &str) {
        if self.probe(cluster).is_some_and(|view| *view.uid == *uid)
            && let Some(view) = self.probes.remove(cluster)
        {
            self.keep_past(cluster, &view);
            self.dirty.insert(Arc::clone(&view.upgrade));
            // Another upgrade may be waiting to ask the cluster.
            self.work_released = true;
        }
    }

    /// Marks a probe as being deleted, or, if the hub did not accept that, as not being deleted.
    pub fn mark_probe(&mut self, cluster: &str, uid: &str, is_ending: bool) {
        if let Some(known) = self.probes.by_cluster.get_mut(cluster)
            && *known.view.uid == *uid
        {
            Arc::make_mut(&mut known.view).is_ending = is_ending;
            self.dirty.insert(Arc::clone(&known.view.upgrade));
        }
    }

    /// Records that the hub has accepted the deletion of a probe; as [`Index::note_deletion`].
    pub fn note_probe_deletion(&mut self, cluster: &str, uid: &str, version: u64) {
        if let Some(known) = self.probes.by_cluster.get_mut(cluster)
            && *known.view.uid == *uid
        {
            known.version = known.version.max(version);
        }
    }

    /// Removes probes that a complete list did not contain; as [`Index::retain_works`].
    pub fn retain_probes(&mut self, seen: &AHashSet<Arc<str>>, newest: u64) {
        let is_gone = |(cluster, known): &(&Arc<str>, &KnownProbe)| {
            (known.listing < self.listing || known.version <= newest) && !seen.contains(*cluster)
        };
        let gone = self.probes.by_cluster.iter().filter(is_gone);
        let gone: Vec<_> = gone
            .map(|(cluster, known)| (Arc::clone(cluster), Arc::clone(&known.view.uid)))
            .collect();
        for (cluster, uid) in gone {
            self.remove_probe(&cluster, &uid);
        }
    }
}
