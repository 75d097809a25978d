//! Deletes objects: those that a work no longer contains, and all that it owns when it is deleted.

use super::apply::Applied;
use crate::cluster::Cluster;
use crate::fields::{self, Time};
use crate::store::{Deletion, ObjectKey};

/// Deletes the objects that the work applied before and no longer contains, and records its current ones.
pub(super) fn untracked(work: &str, cluster: &mut Cluster, results: &[Applied], now: Time) {
    let uid_of = |cluster: &Cluster, key: &ObjectKey| {
        let object = cluster.store.get(key)?;
        Some(fields::text(&object, &["metadata", "uid"]).to_owned())
    };
    let Some(applied) = cluster.applied.get(work) else {
        return;
    };
    let (owner, before) = (applied.uid.clone(), applied.resources.clone());
    let mut resources: Vec<(ObjectKey, String)> = Vec::new();
    for key in results.iter().filter_map(|result| result.key.as_ref()) {
        if let Some(uid) = uid_of(cluster, key) {
            resources.push((key.clone(), uid));
        }
    }
    for (key, uid) in before {
        let is_tracked = resources.iter().any(|(tracked, _)| *tracked == key);
        if !is_tracked && !remove(cluster, &owner, &key, &uid, now) {
            resources.push((key, uid));
        }
    }
    if let Some(applied) = cluster.applied.get_mut(work) {
        applied.resources = resources;
    }
}

/// Deletes everything that a deleted work owns. Returns whether all of it is gone, so that the work's finalizer can be
/// removed.
pub fn finalize(work: &str, cluster: &mut Cluster, now: Time) -> bool {
    let Some(applied) = cluster.applied.get(work).cloned() else {
        return true;
    };
    let held: Vec<_> = applied
        .resources
        .into_iter()
        .filter(|(key, uid)| !remove(cluster, &applied.uid, key, uid, now))
        .collect();
    if held.is_empty() {
        cluster.applied.remove(work);
        return true;
    }
    if let Some(applied) = cluster.applied.get_mut(work) {
        applied.resources = held;
    }
    false
}

/// Deletes an object if `owner` is its only owning work, or else removes only the owner reference. Returns whether that is
/// finished.
fn remove(cluster: &mut Cluster, owner: &str, key: &ObjectKey, uid: &str, now: Time) -> bool {
    let Some(object) = cluster.store.get(key) else {
        return true;
    };
    let owners = fields::list(&object, &["metadata", "ownerReferences"]);
    let is_me = |reference: &serde_json::Value| fields::text(reference, &["uid"]) == owner;
    if !owners.iter().any(is_me) {
        return true;
    }
    let is_shared = owners.iter().any(|reference| {
        !is_me(reference)
            && fields::text(reference, &["apiVersion"]) == "work.open-cluster-management.io/v1"
            && fields::text(reference, &["kind"]) == "AppliedManifestWork"
    });
    if is_shared {
        cluster.store.amend(key, |object| {
            let meta = fields::object_at(object, &["metadata"]);
            fields::array_at(meta, "ownerReferences").retain(|reference| !is_me(reference));
        });
        return true;
    }
    if fields::text(&object, &["metadata", "uid"]) != uid {
        return true;
    }
    if key.resource == "customresourcedefinitions" {
        let group = fields::text(&object, &["spec", "group"]);
        cluster
            .catalog
            .withdraw(group, fields::text(&object, &["spec", "names", "plural"]));
    }
    cluster.store.delete(key, now) == Deletion::Gone
}
