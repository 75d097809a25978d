//! The works of the steps, as they are listed, watched, and known from the responses to our own requests.

use std::sync::Arc;

use ahash::AHashSet;
use api::names::Step;
use api::views::ManifestWork;
use chrono::{DateTime, TimeDelta, Utc};

use super::Change;
use super::installed::note_end;
use super::probes::cluster_of;
use super::work::WorkView;
use super::{ClusterWorks, Index, Uid, version_of};

/// How long a list does not remove what is kept of a deleted work that had succeeded. Until a plan has noted that success, nothing else
/// tells of it, and no plan is made before the lists of a new term, or after an outage, are complete.
const EVIDENCE_STAYS: TimeDelta = TimeDelta::minutes(10);

impl Index {
    /// Handles a change of a ManifestWork from the watch.
    pub fn work(&mut self, change: &Change<ManifestWork>, now: DateTime<Utc>) {
        let (Change::Applied(object) | Change::Deleted(object)) = change;
        self.watched = self.watched.max(version_of(object));
        match change {
            Change::Applied(object) => {
                let is_known = self.view_of(object).is_some();
                self.apply_work(object, now);
                if !is_known {
                    self.doubt_former(object);
                }
            }
            Change::Deleted(object) => self.delete_work(object, now),
        }
    }

    /// The resource version at which this very work is known; 0 if it is not known.
    #[must_use]
    pub fn version_of(&self, object: &ManifestWork) -> u64 {
        self.view_of(object)
            .map_or_else(|| self.probe_version(object), |view| view.version)
    }

    /// The newest resource version at which a work is known; 0 if none is known.
    #[must_use]
    pub fn newest_work(&self) -> u64 {
        let views = self.works.values().flatten().flatten();
        let newest = views.map(|view| view.version).max().unwrap_or(0);
        newest.max(self.newest_probe())
    }

    /// What is known of this very work.
    fn view_of(&self, object: &ManifestWork) -> Option<&Arc<WorkView>> {
        let namespace = object.metadata.namespace.as_deref()?;
        let uid = object.metadata.uid.as_deref()?;
        let by_step = self.works.get(namespace).into_iter().flatten();
        by_step.flatten().find(|view| *view.uid == *uid)
    }

    /// Handles a ManifestWork from a list.
    pub fn listed_work(&mut self, object: &ManifestWork, now: DateTime<Utc>) {
        self.confirm(object);
        self.apply_work(object, now);
    }

    /// Handles a ManifestWork from the response to one of our requests. It is ignored if the watch has
    /// already delivered a newer version, because the object may have been deleted since then.
    pub fn answered_work(&mut self, object: &ManifestWork, now: DateTime<Utc>) {
        self.confirm(object);
        if version_of(object) > self.watched {
            self.apply_work(object, now);
        }
    }

    fn apply_work(&mut self, object: &ManifestWork, now: DateTime<Utc>) {
        let Some(namespace) = object.metadata.namespace.as_deref() else {
            return;
        };
        if let Some(cluster) = cluster_of(object) {
            return self.apply_probe(cluster, object);
        }
        let Some(mut view) = WorkView::new(object, now, &mut self.pool) else {
            return;
        };
        view.listing = self.listing;
        let namespace = self.pool.share(namespace);
        let mut changed_hands = None;
        let by_step = self.works.entry(Arc::clone(&namespace)).or_default();
        let cell = &mut by_step[view.step.index()];
        if let Some(before) = cell {
            if before.version > view.version {
                return;
            }
            if before.uid != view.uid {
                note_end(&mut self.installed, &self.clusters, &namespace, before, now);
            }
            view.inherit(before);
            if ends(&view) && !ends(before) {
                self.slots_released.insert(Arc::clone(&view.upgrade));
            }
            if before.upgrade != view.upgrade {
                self.dirty.insert(Arc::clone(&before.upgrade));
                self.work_released = true;
                changed_hands = Some(Arc::clone(&before.upgrade));
            }
        }
        if cell.as_ref().is_none_or(|before| before.differs(&view)) {
            self.dirty.insert(Arc::clone(&view.upgrade));
        }
        let upgrade = Arc::clone(&view.upgrade);
        let reported = view.newly_reported(cell.as_deref());
        *cell = Some(Arc::new(view));
        if let Some(before) =
            changed_hands.filter(|before| by_step.iter().flatten().all(|view| view.upgrade != *before))
            && let Some(clusters) = self.owned.get_mut(&before)
        {
            clusters.remove(&namespace);
            if clusters.is_empty() {
                self.owned.remove(&before);
            }
        }
        if let Some(version) = reported {
            self.note_reported(&namespace, &version, now);
        }
        self.owned.entry(upgrade).or_default().insert(namespace);
    }

    /// Handles that an object is on the hub, whatever the watch has reported.
    fn confirm(&mut self, object: &ManifestWork) {
        let (Some(namespace), Some(uid)) = (&object.metadata.namespace, &object.metadata.uid) else {
            return;
        };
        let by_step = self.works.get_mut(namespace.as_str()).into_iter().flatten();
        for view in by_step
            .flatten()
            .filter(|view| view.unconfirmed && *view.uid == **uid)
        {
            Arc::make_mut(view).unconfirmed = false;
            self.dirty.insert(Arc::clone(&view.upgrade));
        }
    }

    /// Handles that the watch has reported a work that was not known. If that is older than the registration of its cluster, the
    /// watch may be behind: the work may be gone, and that may have been read already.
    fn doubt_former(&mut self, object: &ManifestWork) {
        let (Some(namespace), Some(uid)) = (&object.metadata.namespace, &object.metadata.uid) else {
            return;
        };
        let cluster = self.clusters.get(namespace.as_str());
        let registered = cluster.and_then(|cluster| cluster.created);
        let by_step = self.works.get_mut(namespace.as_str()).into_iter().flatten();
        let is_former = |view: &&mut Arc<WorkView>| *view.uid == **uid && view.is_older_than(registered);
        for view in by_step.flatten().filter(is_former) {
            Arc::make_mut(view).unconfirmed = true;
        }
    }

    /// Handles that a cluster is no longer registered, or has no namespace any more. What is kept of its deleted works is removed,
    /// because a cluster that is back begins anew. The others were probably deleted, too, although the watch has not reported it
    /// yet.
    pub(super) fn forget_evidence(&mut self, cluster: &str) {
        self.forget_past(cluster);
        if let Some(by_step) = self.works.get_mut(cluster) {
            for cell in by_step.iter_mut() {
                cell.take_if(|view| view.work.vanished);
                if let Some(view) = cell {
                    Arc::make_mut(view).unconfirmed = true;
                    self.dirty.insert(Arc::clone(&view.upgrade));
                }
            }
            if by_step.iter().all(Option::is_none) {
                self.works.remove(cluster);
            }
        }
    }

    /// Handles that a cluster has no namespace any more, or one that is being deleted.
    pub fn lose_namespace(&mut self, cluster: &str) {
        self.forget_evidence(cluster);
        let works = self.works.get_mut(cluster).into_iter().flatten();
        for view in works.flatten() {
            Arc::make_mut(view).is_left_over = true;
        }
    }

    /// Handles that an upgrade has dropped a cluster. If that is back, it begins anew, so what is kept of deleted works counts no more.
    pub fn forget_vanished(&mut self, cluster: &str, upgrade: &str) {
        let Some(by_step) = self.works.get_mut(cluster) else {
            return;
        };
        for cell in by_step.iter_mut() {
            cell.take_if(|view| view.work.vanished && *view.upgrade == *upgrade);
        }
        if by_step.iter().all(Option::is_none) {
            self.works.remove(cluster);
        }
    }

    fn delete_work(&mut self, object: &ManifestWork, now: DateTime<Utc>) {
        let (Some(namespace), Some(uid)) = (
            object.metadata.namespace.as_deref(),
            object.metadata.uid.as_deref(),
        ) else {
            return;
        };
        if cluster_of(object).is_some() {
            return self.remove_probe(namespace, uid);
        }
        let last = WorkView::new(object, now, &mut self.pool);
        let Some(by_step) = self.works.get_mut(namespace) else {
            return;
        };
        for cell in by_step.iter_mut() {
            let Some(before) = cell.as_ref().filter(|before| *before.uid == *uid) else {
                continue;
            };
            note_end(&mut self.installed, &self.clusters, namespace, before, now);
            self.dirty.insert(Arc::clone(&before.upgrade));
            self.work_released = true;
            let evidence = last.clone().unwrap_or_else(|| WorkView::clone(before));
            *cell = evidence_of(evidence, before.tells_no_end(), now);
        }
        if by_step.iter().all(Option::is_none) {
            self.works.remove(namespace);
        }
    }

    /// Marks an object as being deleted. It counts as terminating until its end is seen, or until
    /// [`Index::unmark_deleting`] reports that the deletion failed.
    ///
    /// `version`: the only version of it that is to be deleted, if any.
    pub fn mark_deleting(&mut self, namespace: &str, step: Step, uid: &str, version: Option<u64>) {
        if let Some(by_step) = self.works.get_mut(namespace)
            && let Some(view) = by_step[step.index()].as_mut()
            && *view.uid == *uid
            && version.is_none_or(|version| view.version == version)
        {
            let view = Arc::make_mut(view);
            view.deletion_requested = true;
            Arc::make_mut(&mut view.work).terminating = true;
            self.dirty.insert(Arc::clone(&view.upgrade));
        }
    }

    /// Records that the hub has accepted the deletion of an object, which got this version by that; 0 if that is not known. If a
    /// later list has the object at a lower version, the storage of the hub has gone back.
    pub fn note_deletion(&mut self, namespace: &str, step: Step, uid: &str, version: u64) {
        if let Some(by_step) = self.works.get_mut(namespace)
            && let Some(view) = by_step[step.index()].as_mut()
            && *view.uid == *uid
            && view.version < version
        {
            let view = Arc::make_mut(view);
            view.version = version;
            view.dying = true;
        }
    }

    /// Records that an object with a requested deletion is not deleted after all.
    pub fn unmark_deleting(&mut self, namespace: &str, step: Step, uid: &str) {
        if let Some(by_step) = self.works.get_mut(namespace)
            && let Some(view) = by_step[step.index()].as_mut()
            && *view.uid == *uid
            && view.deletion_requested
        {
            let view = Arc::make_mut(view);
            view.deletion_requested = false;
            Arc::make_mut(&mut view.work).terminating = view.dying;
            self.dirty.insert(Arc::clone(&view.upgrade));
        }
    }

    /// Removes an object that is certainly gone, even if no event reports it.
    pub fn remove_work(&mut self, namespace: &str, step: Step, uid: &str, now: DateTime<Utc>) {
        if let Some(by_step) = self.works.get_mut(namespace)
            && let Some(view) = by_step[step.index()].take_if(|view| *view.uid == *uid)
        {
            note_end(&mut self.installed, &self.clusters, namespace, &view, now);
            self.dirty.insert(Arc::clone(&view.upgrade));
            self.work_released = true;
        }
    }

    /// Handles that an object was read and does not exist, although the watch has not reported its deletion.
    pub fn mark_vanished(&mut self, namespace: &str, step: Step, uid: &str, now: DateTime<Utc>) {
        if let Some(by_step) = self.works.get_mut(namespace) {
            let cell = &mut by_step[step.index()];
            if let Some(view) = cell.take_if(|view| *view.uid == *uid && !view.work.vanished) {
                note_end(&mut self.installed, &self.clusters, namespace, &view, now);
                self.dirty.insert(Arc::clone(&view.upgrade));
                self.work_released = true;
                *cell = evidence_of(WorkView::clone(&view), view.tells_no_end(), now);
            }
        }
    }

    /// Works in a cluster's namespace.
    #[must_use]
    pub fn works(&self, namespace: &str) -> Option<&ClusterWorks> {
        self.works.get(namespace)
    }

    /// The work of a step.
    #[must_use]
    pub fn work_of(&self, namespace: &str, step: Step) -> Option<&Arc<WorkView>> {
        self.works.get(namespace)?[step.index()].as_ref()
    }

    /// Clusters with works of an upgrade, sorted. Removes clusters whose works are gone or belong to another
    /// upgrade now.
    pub fn clusters_of(&mut self, upgrade: &str) -> Vec<Arc<str>> {
        let works = &self.works;
        let Some(clusters) = self.owned.get_mut(upgrade) else {
            return Vec::new();
        };
        clusters.retain(|cluster| {
            works
                .get(cluster)
                .is_some_and(|by_step| by_step.iter().flatten().any(|view| *view.upgrade == *upgrade))
        });
        let found = clusters.iter().cloned().collect();
        if clusters.is_empty() {
            self.owned.remove(upgrade);
        }
        found
    }

    /// True when works of an upgrade exist, not only evidence of deleted ones.
    #[must_use]
    pub fn has_works(&mut self, upgrade: &str) -> bool {
        let clusters = self.clusters_of(upgrade);
        let works = clusters.iter().filter_map(|cluster| self.works(cluster));
        works
            .flat_map(|by_step| by_step.iter().flatten())
            .any(|view| *view.upgrade == *upgrade && !view.work.vanished)
    }

    /// UIDs of all upgrades that have or had known works.
    pub fn owners(&self) -> impl Iterator<Item = &Uid> {
        self.owned.keys()
    }

    /// Prepares for a complete list of works.
    pub fn relist_works(&mut self) {
        self.listing += 1;
    }

    /// Removes works that a complete list did not contain. `seen` holds namespace and step of the listed
    /// works, and `newest` is the version of the list. A work from a response that arrived after the list had
    /// started, and that is newer than the list, stays.
    pub fn retain_works(&mut self, seen: &AHashSet<(Arc<str>, Step)>, newest: u64, now: DateTime<Utc>) {
        self.watched = self.watched.max(newest);
        let Index {
            works,
            clusters,
            installed,
            dirty,
            work_released,
            listing,
            ..
        } = self;
        works.retain(|namespace, by_step| {
            for (index, cell) in by_step.iter_mut().enumerate() {
                let gone = cell.as_ref().is_some_and(|view| {
                    (view.listing < *listing || view.version <= newest)
                        && !seen.contains(&(Arc::clone(namespace), Step::ALL[index]))
                });
                if gone && let Some(view) = cell.take() {
                    note_end(installed, clusters, namespace, &view, now);
                    dirty.insert(view.upgrade.clone());
                    *work_released = true;
                    let is_old = view.vanished_at.is_some_and(|at| at + EVIDENCE_STAYS <= now);
                    *cell = evidence_of(WorkView::clone(&view), view.tells_no_end() || is_old, now);
                }
            }
            by_step.iter().any(Option::is_some)
        });
    }

    /// Number of works.
    #[must_use]
    pub fn work_count(&self) -> usize {
        self.works
            .values()
            .map(|by_step| by_step.iter().flatten().count())
            .sum()
    }
}

/// What is kept of a deleted work. If it had succeeded and that is not recorded yet, the evidence is kept.
/// For example, a TTL of zero can remove a work that early.
fn evidence_of(mut view: WorkView, expected: bool, now: DateTime<Utc>) -> Option<Arc<WorkView>> {
    if expected || view.work.status != rollout::StepStatus::Succeeded {
        return None;
    }
    let work = Arc::make_mut(&mut view.work);
    work.vanished = true;
    work.terminating = false;
    view.vanished_at.get_or_insert(now);
    Some(Arc::new(view))
}

fn ends(view: &WorkView) -> bool {
    matches!(
        view.work.status,
        rollout::StepStatus::Succeeded | rollout::StepStatus::Failed(_)
    )
}
