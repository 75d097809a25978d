//! Works that have our label and one of the five names, but whose upgrade does not exist. They are counted,
//! and removed after their upgrade has certainly been gone for ten minutes.
//!
//! Such works remain if a creation takes effect after its upgrade was deleted, if someone removes a
//! finalizer, or if a hub is restored. They would enforce their version forever. This module decides without
//! I/O which works may be removed; the hub is read once more before anything is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashSet;
use api::names::{ANNOTATION_OWNER, LABEL_MCU_UID, Step, WorkKind};
use observe::index::Uid;
use serde_json::Value;

use crate::state::settings::Settings;

/// Largest number of works that are evaluated at once.
pub(super) const BATCH: usize = 50;
/// How long the upgrade of a work must have been gone before the work is removed.
pub const SWEEP_AFTER: Duration = Duration::from_mins(10);

/// Works without an upgrade, by cluster and kind.
#[derive(Debug, Default)]
pub struct Orphans {
    pub(super) known: BTreeMap<(Arc<str>, WorkKind), Orphan>,
    pub(super) scanned: Option<Instant>,
    /// Some of them are being evaluated.
    pub(super) evaluating: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Orphan {
    pub(super) uid: Arc<str>,
    pub(super) upgrade: Uid,
    pub(super) since: Instant,
    /// The work is not evaluated before this time.
    pub(super) next: Instant,
    pub(super) reported: bool,
}

/// A work that must be evaluated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanCandidate {
    /// Its cluster.
    pub cluster: Arc<str>,
    /// Which work it is.
    pub kind: WorkKind,
    /// UID of the work.
    pub uid: Arc<str>,
    /// UID of the upgrade in the label of the work.
    pub upgrade: Uid,
    /// Resource version at which it was read and evaluated; 0 if that is not known.
    pub judged: u64,
}

/// The existing upgrades in one consistent list.
#[derive(Debug, Default)]
pub struct ExistingUpgrades {
    /// UIDs.
    pub uids: AHashSet<String>,
    /// `namespace/name`.
    pub names: AHashSet<String>,
}

/// The result of the evaluation of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanDecision {
    /// The work is removed.
    Remove,
    /// The work stays, and nothing is wrong with that.
    Leave,
    /// The work stays for this reason, which a human should know.
    Keep(&'static str),
}

/// Evaluates a work that was just read from the hub. `takes_over`: whether the upgrade with a namespace and
/// name may take the work over.
#[must_use]
pub fn evaluate(
    work: &Value,
    candidate: &OrphanCandidate,
    existing: &ExistingUpgrades,
    settings: &Settings,
    takes_over: impl FnOnce(&str) -> bool,
) -> OrphanDecision {
    let meta = &work["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let same = text(&meta["uid"]) == *candidate.uid
        && text(&meta["labels"][LABEL_MCU_UID]) == *candidate.upgrade
        && text(&meta["name"]) == candidate.kind.work_name(&candidate.cluster);
    if !same || !meta["deletionTimestamp"].is_null() || existing.uids.contains(&*candidate.upgrade) {
        return OrphanDecision::Leave;
    }
    let owner = text(&meta["annotations"][ANNOTATION_OWNER]);
    // An upgrade that was restored under its name takes its works over, but not what its clusters were asked before.
    let is_step = candidate.kind != WorkKind::Probe;
    if is_step && existing.names.contains(&owner) && takes_over(&owner) {
        return OrphanDecision::Leave;
    }
    let namespace = owner.split_once('/').map(|(namespace, _)| namespace);
    if !settings.namespaces.is_empty() && !namespace.is_some_and(|namespace| settings.serves(namespace)) {
        return OrphanDecision::Leave;
    }
    if touches_cluster_version(candidate.kind, work) && !keeps_cluster_version(work) {
        return OrphanDecision::Keep("its deleteOption would delete the cluster's ClusterVersion with it");
    }
    OrphanDecision::Remove
}

fn touches_cluster_version(kind: WorkKind, work: &Value) -> bool {
    let manifests = work["spec"]["workload"]["manifests"].as_array();
    let is_version = |manifest: &Value| manifest["kind"] == "ClusterVersion";
    kind == WorkKind::Step(Step::Platform) || manifests.into_iter().flatten().any(is_version)
}

/// True when deleting the work keeps ClusterVersion on the cluster.
pub(super) fn keeps_cluster_version(work: &Value) -> bool {
    let option = &work["spec"]["deleteOption"];
    let rules = option["selectivelyOrphans"]["orphaningRules"].as_array();
    let spares = |rule: &Value| {
        rule["group"] == "config.openshift.io"
            && rule["resource"] == "clusterversions"
            && rule["name"] == "version"
            && rule["namespace"].as_str().unwrap_or_default().is_empty()
    };
    option["propagationPolicy"] == "Orphan"
        || (option["propagationPolicy"] == "SelectivelyOrphan" && rules.into_iter().flatten().any(spares))
}

impl Orphans {
    /// Number of works without an upgrade.
    #[must_use]
    pub fn count(&self) -> usize {
        self.known.len()
    }

    /// True when a work is known to have no upgrade.
    #[must_use]
    pub fn contains(&self, uid: &str) -> bool {
        self.known.values().any(|orphan| *orphan.uid == *uid)
    }

    /// Handles that the hub holds another version of a work than the one to be deleted: it is evaluated again.
    pub fn look_again(&mut self, uid: &str, now: Instant) {
        for orphan in self.known.values_mut().filter(|orphan| *orphan.uid == *uid) {
            orphan.next = now;
        }
    }

    /// Sets the works that currently have no upgrade. Works that were known before keep their time.
    pub(super) fn take(&mut self, found: Vec<OrphanCandidate>, now: Instant) {
        let mut before = std::mem::take(&mut self.known);
        for one in found {
            let key = (Arc::clone(&one.cluster), one.kind);
            let known = before
                .remove(&key)
                .filter(|known| known.uid == one.uid && known.upgrade == one.upgrade);
            let orphan = known.unwrap_or_else(|| Orphan {
                uid: one.uid,
                upgrade: one.upgrade,
                since: now,
                next: now + SWEEP_AFTER,
                reported: false,
            });
            self.known.insert(key, orphan);
        }
    }

    /// The works whose upgrade has been gone for long enough.
    pub(super) fn due(&self, now: Instant) -> Vec<OrphanCandidate> {
        let known = self.known.iter();
        let due = known.filter(|(_, orphan)| orphan.since + SWEEP_AFTER <= now && orphan.next <= now);
        let candidate = |((cluster, kind), orphan): (&(Arc<str>, WorkKind), &Orphan)| OrphanCandidate {
            cluster: Arc::clone(cluster),
            kind: *kind,
            uid: Arc::clone(&orphan.uid),
            upgrade: Arc::clone(&orphan.upgrade),
            judged: 0,
        };
        due.map(candidate).collect()
    }
}
