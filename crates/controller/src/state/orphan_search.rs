//! Finds works whose upgrade is gone, and handles the results of the sweep that reads and deletes them. No
//! I/O.

use api::names::WorkKind;
use observe::index::Uid;
use resolve::origin::Origin;
use rollout::Phase;

use crate::apply::{Write, WriteJob};
use crate::state::context::State;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::state::orphans::{BATCH, OrphanCandidate, OrphanDecision, Orphans};

/// How often the index is searched.
const INTERVAL: Duration = Duration::from_secs(10);
/// When a work that was not removed is evaluated again.
const RECHECK_AFTER: Duration = Duration::from_mins(10);

impl State {
    /// Searches for works without an upgrade, at most every ten seconds. Returns those that must be evaluated
    /// now; the results must be passed to [`State::record_decisions`].
    pub fn find_orphans(&mut self, now: Instant) -> Vec<OrphanCandidate> {
        let recent = |at: Instant| now < at + INTERVAL;
        if self.orphans.scanned.is_some_and(recent) {
            return Vec::new();
        }
        self.orphans.scanned = Some(now);
        let unknown = |uid: &&Uid| !self.upgrades.contains_key(*uid);
        let owners: Vec<Uid> = self.index.owners().filter(unknown).cloned().collect();
        let mut found = Vec::new();
        for upgrade in self.index.probe_owners().filter(unknown) {
            let probes = self.index.probes_of(upgrade);
            found.extend(probes.map(|(cluster, probe)| OrphanCandidate {
                cluster: Arc::clone(cluster),
                kind: WorkKind::Probe,
                uid: Arc::clone(&probe.uid),
                upgrade: Arc::clone(upgrade),
                judged: 0,
            }));
        }
        for upgrade in owners {
            for cluster in self.index.clusters_of(&upgrade) {
                let works = self.index.works(&cluster).into_iter().flatten().flatten();
                let of_it = works.filter(|view| view.upgrade == upgrade && !view.work.vanished);
                found.extend(of_it.map(|view| OrphanCandidate {
                    cluster: Arc::clone(&cluster),
                    kind: WorkKind::Step(view.step),
                    uid: Arc::clone(&view.uid),
                    upgrade: Arc::clone(&upgrade),
                    judged: 0,
                }));
            }
        }
        self.orphans.take(found, now);
        if self.orphans.evaluating {
            return Vec::new();
        }
        let mut due = self.orphans.due(now);
        due.retain(|one| match one.kind {
            WorkKind::Step(step) => {
                let view = self.index.work_of(&one.cluster, step);
                view.is_some_and(|view| !view.work.terminating)
            }
            WorkKind::Probe => self
                .index
                .probe(&one.cluster)
                .is_some_and(|probe| !probe.is_ending),
        });
        // Only then: works whose agents never release them must not keep the others waiting.
        due.truncate(BATCH);
        self.orphans.evaluating = !due.is_empty();
        due
    }

    /// Handles the results of the evaluation; empty if the hub could not be read. Returns the deletions, and
    /// messages for people that were not reported before.
    pub fn record_decisions(
        &mut self,
        decisions: Vec<(OrphanCandidate, OrphanDecision)>,
        now: Instant,
    ) -> (Vec<WriteJob>, Vec<(OrphanCandidate, &'static str)>) {
        self.orphans.evaluating = false;
        let (mut jobs, mut reports) = (Vec::new(), Vec::new());
        for (one, decision) in decisions {
            let key = (Arc::clone(&one.cluster), one.kind);
            let Some(orphan) = self.orphans.known.get_mut(&key) else {
                continue;
            };
            let lives = self.upgrades.contains_key(&one.upgrade);
            if orphan.uid != one.uid || orphan.upgrade != one.upgrade || lives {
                continue;
            }
            orphan.next = now + RECHECK_AFTER;
            match decision {
                OrphanDecision::Leave => {}
                OrphanDecision::Keep(why) => {
                    if !std::mem::replace(&mut orphan.reported, true) {
                        reports.push((one, why));
                    }
                }
                OrphanDecision::Remove => {
                    let (cluster, uid) = (one.cluster, one.uid);
                    let write = match one.kind {
                        WorkKind::Step(step) => {
                            // Another upgrade may have taken it over in place since it was read, or may be doing so.
                            let view = self.index.work_of(&cluster, step);
                            let view = view.filter(|view| view.uid == uid && view.upgrade == one.upgrade);
                            let Some(known) = view.map(|view| view.version) else {
                                continue;
                            };
                            // If it has changed since, the hub rejects the deletion, and it is judged again.
                            let version = if one.judged > 0 { one.judged } else { known };
                            self.index.mark_deleting(&cluster, step, &uid, Some(version));
                            Write::Delete {
                                cluster,
                                step,
                                uid,
                                version: Some(version),
                                halt: false,
                            }
                        }
                        WorkKind::Probe => {
                            self.index.mark_probe(&cluster, &uid, true);
                            Write::DeleteProbe { cluster, uid }
                        }
                    };
                    let upgrade = one.upgrade;
                    jobs.push(WriteJob { upgrade, write });
                }
            }
        }
        (jobs, reports)
    }

    /// False only if the upgrade with this namespace and name is known not to concern the cluster, or to be
    /// blocked or complete there. Then it does not take over a work that an earlier upgrade with its name has left
    /// there.
    #[must_use]
    pub fn may_take_over(&self, upgrade: &str, cluster: &str) -> bool {
        let known = self.upgrades.values().find(|entry| *entry.key == *upgrade);
        known.is_none_or(|entry| {
            if let Some(archive) = &entry.archive {
                let bindings = self.settings.require_bindings;
                return archive.may_start(&entry.namespace, cluster, &self.index, bindings);
            }
            let last_reconcile = entry.last_reconcile.is_some() && entry.spec.is_ok();
            let row = entry.rows.get(cluster);
            let revision = entry.in_force().map(|spec| &*spec.policy.revision);
            let starts_nothing =
                row.is_some_and(|row| row.record.phase == Phase::Blocked || row.is_finished(revision));
            let is_known = entry.selected.clusters.contains_key(cluster) || row.is_some();
            let concerns = is_known && !starts_nothing;
            !last_reconcile || concerns || entry.origin != Origin::Own || entry.selected.clusters.is_empty()
        })
    }

    /// Forgets all works without an upgrade. While no replica led, or while the view was closed, nobody
    /// observed them.
    pub fn forget_orphans(&mut self) {
        self.orphans = Orphans::default();
    }
}

#[cfg(test)]
mod tests;
