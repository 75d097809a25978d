//! Which clusters are asked, and who waits until another upgrade has asked them.

use std::sync::Arc;

use ahash::AHashMap;
use api::report::Phase;
use chrono::{DateTime, Utc};
use rollout::{Cluster, Eligibility, Fleet, Policy, Selection};

use super::{Asker, Preflights, ProbeWrite, earliest, is_answer};
use crate::index::Index;

impl Preflights {
    /// Notes which clusters are to be asked and cannot be, because a write fails, something else has the name of the probe, or an earlier
    /// probe is not gone, and whether another upgrade asks one of them. When that probe is gone, nothing else tells of it.
    pub(super) fn note_barred(
        &mut self,
        fleet: &Fleet,
        policy: &Policy,
        asker: Asker<'_>,
        index: &Index,
        now: DateTime<Utc>,
    ) {
        let mut barred = AHashMap::new();
        self.waits_for_another = false;
        for cluster in fleet.clusters.iter().filter(|_| !policy.deleting) {
            let name = &cluster.name;
            let probe = index.probe(name);
            let is_anothers = probe.is_some_and(|probe| !probe.is_of(asker.uid, asker.key));
            // A probe that answers what is asked now bars nobody, although its deletion failed before.
            let answers = || {
                let is_newer = self.newer.contains(name);
                let needed = self.questions.needed(cluster, policy, is_newer);
                let known = probe.zip(needed);
                known.is_some_and(|(probe, hash)| is_answer(name, probe, hash, asker.key, index))
            };
            let fails = self.failures.contains_key(name) && !answers();
            let is_going = probe.is_some_and(|probe| probe.is_ending && !is_anothers);
            if (is_anothers || fails || is_going)
                && self
                    .questions
                    .due(cluster, policy, self.newer.contains(&cluster.name))
                    .is_some()
            {
                self.waits_for_another |= is_anothers;
                let since = self.barred.get(name).copied().unwrap_or(now);
                barred.insert(Arc::clone(name), since.min(now));
            }
        }
        self.barred = barred;
    }

    /// Forgets the failures of writes that are not due any more, once their waits are over: the probe that was to be deleted is gone, or
    /// the cluster is not to be asked any more. No other write for it would end them.
    pub(super) fn forget_failures(
        &mut self,
        fleet: &Fleet,
        policy: &Policy,
        asker: Asker<'_>,
        index: &Index,
        now: DateTime<Utc>,
    ) {
        let (questions, newer) = (&self.questions, &self.newer);
        let is_to_be_asked = |cluster: &Cluster| {
            let due = questions.due(cluster, policy, newer.contains(&cluster.name));
            !policy.deleting && due.is_some()
        };
        self.failures.retain(|name, failure| {
            let has_probe = index
                .probe(name)
                .is_some_and(|probe| *probe.upgrade == *asker.uid);
            let cluster = fleet.find(name);
            has_probe || cluster.is_some_and(|cluster| now < failure.until || is_to_be_asked(cluster))
        });
    }

    /// The probes that an earlier upgrade of the same name has left in clusters that are to be asked, for example by a creation that
    /// arrived late. Nobody reads them any more.
    pub(super) fn leftovers(
        &mut self,
        fleet: &Fleet,
        policy: &Policy,
        asker: Asker<'_>,
        index: &Index,
        now: DateTime<Utc>,
    ) -> Vec<ProbeWrite> {
        let mut writes = Vec::new();
        let clusters = fleet.clusters.iter().filter(|_| !policy.deleting);
        for cluster in clusters {
            let probe = index.probe(&cluster.name).filter(|probe| {
                *probe.owner == *asker.key && *probe.upgrade != *asker.uid && !probe.is_ending
            });
            let is_asked = || {
                self.questions
                    .due(cluster, policy, self.newer.contains(&cluster.name))
                    .is_some()
            };
            if let Some(probe) = probe.filter(|_| is_asked() && self.may_write(&cluster.name, now)) {
                self.begin(&cluster.name, now);
                writes.push(ProbeWrite::Delete(
                    Arc::clone(&cluster.name),
                    Arc::clone(&probe.uid),
                ));
            }
        }
        writes
    }

    /// Deletes the probes of an upgrade of which no valid spec is known, because another one may need their names, except those of clusters
    /// that are under way. Tells when to look again if nothing happens before.
    pub fn give_names_up(
        &mut self,
        is_under_way: impl Fn(&str) -> bool,
        asker: Asker<'_>,
        index: &Index,
        now: DateTime<Utc>,
    ) -> (Vec<ProbeWrite>, Option<DateTime<Utc>>) {
        self.limit.forget(now);
        self.failures
            .retain(|name, failure| index.probe(name).is_some() || now < failure.until);
        let mut writes = Vec::new();
        for (name, probe) in index.probes_of(asker.uid) {
            let is_ours = *probe.owner == *asker.key;
            if is_ours && !probe.is_ending && !is_under_way(name) && self.may_write(name, now) {
                self.begin(name, now);
                writes.push(ProbeWrite::Delete(Arc::clone(name), Arc::clone(&probe.uid)));
            }
        }
        let waits = self.failures.values().map(|failure| failure.until);
        let wake = waits.filter(|until| *until > now).min();
        (writes, earliest(wake, self.limit.next()))
    }

    /// True when another upgrade asks a cluster that is to be asked. The name of the probe is taken until then.
    #[must_use]
    pub const fn waits_for_another(&self) -> bool {
        self.waits_for_another
    }
}

/// True when a cluster has not started, and may do so one day.
pub(super) fn waits(cluster: &Cluster) -> bool {
    let phase = cluster.record.as_ref().map(|record| record.phase);
    let is_queued = phase.is_none_or(|phase| matches!(phase, Phase::Pending | Phase::Blocked));
    is_queued && cluster.selection == Selection::In && !cluster.gone
}

/// True when a cluster is to be asked for its worker pools.
pub(super) fn is_waited_for(cluster: &Cluster, policy: &Policy) -> bool {
    let is_behind = cluster
        .record
        .as_ref()
        .is_some_and(|record| record.phase == Phase::Workers);
    is_behind && !cluster.gone && !policy.deleting && policy.worker_pools_timeout.is_some()
}

/// True when a cluster holds a slot, and its update was not requested yet.
pub(super) fn is_in_pre_action(cluster: &Cluster) -> bool {
    let record = cluster.record.as_ref();
    record.is_some_and(|record| record.phase == Phase::PreAction)
}

/// True when a cluster must not start for another reason, so that it is not asked.
pub(super) const fn is_barred(cluster: &Cluster) -> bool {
    matches!(cluster.eligibility, Eligibility::Blocked { .. })
}

/// True when it must be known of a cluster whether it would take the update: before it starts, and again after its pre-action. The turn
/// of a cluster that another upgrade holds comes when that one is done, which may need the name of the probe.
pub(super) fn is_to_be_asked(cluster: &Cluster, policy: &Policy) -> bool {
    let phase = cluster.record.as_ref().map(|record| record.phase);
    let is_prepared = matches!(phase, Some(Phase::PreAction | Phase::PreActionDegraded));
    let is_there = cluster.selection == Selection::In && !cluster.gone;
    // One that is left out does not start, although no row may say so yet. A pre-action that is under way ends first, and its cluster goes
    // on if it is skipped.
    let may_start = waits(cluster) && cluster.left_out.is_none();
    (may_start || (is_prepared && is_there))
        && !is_barred(cluster)
        && !cluster.is_held_by_another()
        && !cluster.is_asked_for(policy)
}

/// True when the probe of a cluster is still needed: until the update is requested, since the request follows from the answers.
pub(super) fn is_kept(cluster: &Cluster, policy: &Policy) -> bool {
    let phase = cluster.record.as_ref().map(|record| record.phase);
    let is_before = phase.is_none_or(|phase| {
        matches!(
            phase,
            Phase::Pending
                | Phase::Blocked
                | Phase::PreAction
                | Phase::PreActionDegraded
                | Phase::Initialized
        )
    });
    is_before
        && !policy.deleting
        && cluster.selection == Selection::In
        && !cluster.gone
        && !cluster.is_held_by_another()
        && !cluster.is_asked_for(policy)
}
