//! Which clusters are asked, and who waits until another upgrade has asked them.

use std::sync::Arc;

use api::report::Phase;
use chrono::{DateTime, Utc};
use rollout::{Cluster, Eligibility, Fleet, Policy, Selection};

use super::{Asker, Preflights, ProbeWrite};
use crate::index::Index;

impl Preflights {
    /// Notes whether another upgrade asks a cluster that is to be asked. When that probe is gone, nothing else tells of it.
    pub(super) fn note_others(&mut self, fleet: &Fleet, policy: &Policy, asker: Asker<'_>, index: &Index) {
        let is_anothers = |cluster: &Cluster| {
            let probe = index.probe(&cluster.name);
            probe.is_some_and(|probe| *probe.upgrade != *asker.uid)
        };
        let mut clusters = fleet.clusters.iter();
        let questions = &self.questions;
        self.waits_for_another = !policy.deleting
            && clusters.any(|cluster| questions.due(cluster, policy).is_some() && is_anothers(cluster));
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
            let is_asked = || self.questions.due(cluster, policy).is_some();
            if let Some(probe) = probe.filter(|_| is_asked() && self.may_write(&cluster.name, now)) {
                self.running.insert(Arc::clone(&cluster.name));
                writes.push(ProbeWrite::Delete(
                    Arc::clone(&cluster.name),
                    Arc::clone(&probe.uid),
                ));
            }
        }
        writes
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

/// True when it must be known of a cluster whether it would take the update.
pub(super) fn is_to_be_asked(cluster: &Cluster, policy: &Policy) -> bool {
    let is_barred = matches!(cluster.eligibility, Eligibility::Blocked { .. });
    waits(cluster) && !is_barred && !cluster.is_asked_for(policy)
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
        && !cluster.is_asked_for(policy)
}
