//! Works that carry our label and one of the four names, but whose upgrade does not exist: found, counted, and removed once
//! their upgrade has been gone for sure for ten minutes.
//!
//! Such a work comes about when a creation is carried out after its upgrade was deleted, when a finalizer is removed by hand,
//! or when a hub is restored. It would go on to enforce its version for ever. Which works may go is decided here, without I/O;
//! the hub is read once more before anything is deleted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashSet;
use api::names::{ANNOTATION_OWNER, LABEL_MCU_UID, Step};
use serde_json::Value;

use crate::apply::{Effect, Job};
use crate::hall::{Settings, State};
use crate::index::{Uid, slot_of};
use crate::restore::Origin;

/// How long the upgrade of a work must have been gone before the work is removed.
pub const PATIENCE: Duration = Duration::from_mins(10);
/// How often the index is looked through.
const INTERVAL: Duration = Duration::from_secs(10);
/// When a work that was left is judged again.
const AGAIN: Duration = Duration::from_mins(10);
/// Most works that are judged at once.
const BATCH: usize = 50;

/// Works without an upgrade, by cluster and position of the step.
#[derive(Debug, Default)]
pub struct Orphans {
    known: BTreeMap<(Arc<str>, usize), Orphan>,
    scanned: Option<Instant>,
    /// Some of them are being judged.
    judging: bool,
}

#[derive(Clone, Debug)]
struct Orphan {
    uid: Arc<str>,
    upgrade: Uid,
    since: Instant,
    /// Not to be judged before.
    next: Instant,
    told: bool,
}

/// A work that is to be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspect {
    /// Its cluster.
    pub cluster: Arc<str>,
    /// Its step.
    pub step: Step,
    /// UID of the work.
    pub uid: Arc<str>,
    /// UID of the upgrade that it says it is of.
    pub upgrade: Uid,
}

/// The upgrades that exist, as one consistent list has them.
#[derive(Debug, Default)]
pub struct Living {
    /// UIDs.
    pub uids: AHashSet<String>,
    /// `namespace/name`.
    pub names: AHashSet<String>,
}

/// What is to become of a work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is removed.
    Remove,
    /// It stays, and that is as it should be.
    Leave,
    /// It stays for this reason, which a human should know.
    Keep(&'static str),
}

/// Judges a work as the hub has it now. `takes_over`: whether the upgrade of a namespace and name may take it over.
#[must_use]
pub fn judge(
    work: &Value,
    suspect: &Suspect,
    living: &Living,
    settings: &Settings,
    takes_over: impl FnOnce(&str) -> bool,
) -> Verdict {
    let meta = &work["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let same = text(&meta["uid"]) == *suspect.uid
        && text(&meta["labels"][LABEL_MCU_UID]) == *suspect.upgrade
        && text(&meta["name"]) == suspect.step.work_name(&suspect.cluster);
    if !same || !meta["deletionTimestamp"].is_null() || living.uids.contains(&*suspect.upgrade) {
        return Verdict::Leave;
    }
    let owner = text(&meta["annotations"][ANNOTATION_OWNER]);
    // An upgrade that was restored under its name takes its works over.
    if living.names.contains(&owner) && takes_over(&owner) {
        return Verdict::Leave;
    }
    let namespace = owner.split_once('/').map(|(namespace, _)| namespace);
    if !settings.namespaces.is_empty() && !namespace.is_some_and(|namespace| settings.serves(namespace)) {
        return Verdict::Leave;
    }
    if touches_cluster_version(suspect.step, work) && !spares_cluster_version(work) {
        return Verdict::Keep("its deleteOption would delete the cluster's ClusterVersion with it");
    }
    Verdict::Remove
}

fn touches_cluster_version(step: Step, work: &Value) -> bool {
    let manifests = work["spec"]["workload"]["manifests"].as_array();
    let is_version = |manifest: &Value| manifest["kind"] == "ClusterVersion";
    step == Step::Platform || manifests.into_iter().flatten().any(is_version)
}

/// True when the work's deletion leaves ClusterVersion on the cluster.
fn spares_cluster_version(work: &Value) -> bool {
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

    /// True when a work is known to be without an upgrade.
    #[must_use]
    pub fn knows(&self, uid: &str) -> bool {
        self.known.values().any(|orphan| *orphan.uid == *uid)
    }

    /// Takes the works that have no upgrade now; those known before keep their time.
    fn take(&mut self, found: Vec<Suspect>, now: Instant) {
        let mut before = std::mem::take(&mut self.known);
        for one in found {
            let key = (Arc::clone(&one.cluster), slot_of(one.step));
            let known = before
                .remove(&key)
                .filter(|known| known.uid == one.uid && known.upgrade == one.upgrade);
            let orphan = known.unwrap_or_else(|| Orphan {
                uid: one.uid,
                upgrade: one.upgrade,
                since: now,
                next: now + PATIENCE,
                told: false,
            });
            self.known.insert(key, orphan);
        }
    }

    /// The works whose upgrade has been gone for long enough.
    fn ripe(&self, now: Instant) -> Vec<Suspect> {
        let known = self.known.iter();
        let ripe = known.filter(|(_, orphan)| orphan.since + PATIENCE <= now && orphan.next <= now);
        let suspect = |((cluster, slot), orphan): (&(Arc<str>, usize), &Orphan)| Suspect {
            cluster: Arc::clone(cluster),
            step: Step::ALL[*slot],
            uid: Arc::clone(&orphan.uid),
            upgrade: Arc::clone(&orphan.upgrade),
        };
        ripe.map(suspect).take(BATCH).collect()
    }
}

impl State {
    /// Looks for works without an upgrade, every ten seconds at most; returns those that are to be judged now, which
    /// must be answered with [`State::judged`].
    pub fn find_orphans(&mut self, now: Instant) -> Vec<Suspect> {
        let recent = |at: Instant| now < at + INTERVAL;
        if self.orphans.scanned.is_some_and(recent) {
            return Vec::new();
        }
        self.orphans.scanned = Some(now);
        let unknown = |uid: &&Uid| !self.desks.contains_key(*uid);
        let owners: Vec<Uid> = self.index.owners().filter(unknown).cloned().collect();
        let mut found = Vec::new();
        for upgrade in owners {
            for cluster in self.index.clusters_of(&upgrade) {
                let works = self.index.works(&cluster).into_iter().flatten().flatten();
                let of_it = works.filter(|view| view.upgrade == upgrade && !view.work.vanished);
                found.extend(of_it.map(|view| Suspect {
                    cluster: Arc::clone(&cluster),
                    step: view.step,
                    uid: Arc::clone(&view.uid),
                    upgrade: Arc::clone(&upgrade),
                }));
            }
        }
        self.orphans.take(found, now);
        if self.orphans.judging {
            return Vec::new();
        }
        let mut ripe = self.orphans.ripe(now);
        ripe.retain(|one| {
            let view = self.index.work_of(&one.cluster, one.step);
            view.is_some_and(|view| !view.work.terminating)
        });
        self.orphans.judging = !ripe.is_empty();
        ripe
    }

    /// Takes what was found of the works that were to be judged; empty when the hub could not be read. Returns the deletions,
    /// and what a human should be told for the first time.
    pub fn judged(
        &mut self,
        verdicts: Vec<(Suspect, Verdict)>,
        now: Instant,
    ) -> (Vec<Job>, Vec<(Suspect, &'static str)>) {
        self.orphans.judging = false;
        let (mut jobs, mut told) = (Vec::new(), Vec::new());
        for (one, verdict) in verdicts {
            let key = (Arc::clone(&one.cluster), slot_of(one.step));
            let Some(orphan) = self.orphans.known.get_mut(&key) else {
                continue;
            };
            let lives = self.desks.contains_key(&one.upgrade);
            if orphan.uid != one.uid || orphan.upgrade != one.upgrade || lives {
                continue;
            }
            orphan.next = now + AGAIN;
            match verdict {
                Verdict::Leave => {}
                Verdict::Keep(why) => {
                    if !std::mem::replace(&mut orphan.told, true) {
                        told.push((one, why));
                    }
                }
                Verdict::Remove => {
                    self.index.doom(&one.cluster, one.step, &one.uid);
                    jobs.push(Job {
                        upgrade: one.upgrade,
                        effect: Effect::Delete {
                            cluster: one.cluster,
                            step: one.step,
                            uid: one.uid,
                            halt: false,
                        },
                    });
                }
            }
        }
        (jobs, told)
    }

    /// True unless the upgrade of this namespace and name is known not to concern the cluster: then it will never take over a
    /// work that an earlier upgrade of its name has left there.
    #[must_use]
    pub fn may_take_over(&self, upgrade: &str, cluster: &str) -> bool {
        let known = self.desks.values().find(|desk| *desk.key == *upgrade);
        known.is_none_or(|desk| {
            if let Some(archive) = &desk.archive {
                let bindings = self.settings.require_bindings;
                return archive.may_select(&desk.namespace, cluster, &self.index, bindings);
            }
            let looked = desk.looked.is_some() && desk.brief.is_ok();
            let concerns = desk.selected.clusters.contains_key(cluster) || desk.rows.get(cluster).is_some();
            !looked || concerns || desk.origin != Origin::Own || desk.selected.clusters.is_empty()
        })
    }

    /// What is known of works without an upgrade is forgotten: while nobody led, or while the view was closed, nobody looked.
    pub fn forget_orphans(&mut self) {
        self.orphans = Orphans::default();
    }
}

#[cfg(test)]
#[path = "orphans_tests.rs"]
mod tests;
