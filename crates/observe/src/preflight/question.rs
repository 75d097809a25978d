//! What an upgrade asks its clusters.

use std::sync::Arc;

use chrono::TimeDelta;
use clusterversion::preflight::{PlannedUpdate, UpdatesTo};
use rollout::{Cluster, Hold, Policy, is_newer};

use super::workers::is_waited_for;
use super::{is_kept, is_to_be_asked};

/// What an upgrade asks its clusters, and how answers are judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Hash of the probe.
    pub hash: Arc<str>,
    /// The update, and what its author accepts.
    pub update: PlannedUpdate,
    /// How long it may be unknown whether a cluster would take the update.
    pub timeout: TimeDelta,
    /// How long after its first answer a cluster counts as heard, because what was asked has changed what it looks at.
    pub counts_after: TimeDelta,
    /// Whether an update graph of our own, if there is one, tells what is served to clusters that evaluate another channel.
    pub asks_graph: bool,
}

/// What an upgrade asks its clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Questions {
    /// Before they start.
    pub preflight: Option<Arc<Question>>,
    /// When their version is updated, for their worker pools: hash of the probe.
    pub workers: Option<Arc<str>>,
}

/// What a probe asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// Whether the cluster would take the update.
    Preflight,
    /// The state of its worker pools.
    Workers,
}

impl Questions {
    /// The channel and the version whose updates an update graph of our own is to tell, if it is to.
    #[must_use]
    pub fn for_graph(&self) -> Option<(&str, &str)> {
        let question = self.preflight.as_ref().filter(|question| question.asks_graph)?;
        Some((&question.update.channel, &question.update.version))
    }

    /// Adds what an update graph of our own tells of the channel and the version of [`Questions::for_graph`].
    pub fn add_graph(&mut self, updates: Arc<UpdatesTo>) {
        if let Some(question) = &mut self.preflight {
            Arc::make_mut(question).update.by_graph = Some(updates);
        }
    }

    pub(super) const fn ask(&self, kind: ProbeKind) -> bool {
        match kind {
            ProbeKind::Preflight => self.preflight.is_some(),
            ProbeKind::Workers => self.workers.is_some(),
        }
    }

    /// What a cluster must be asked now. `is_newer`: it has told a newer version than the target.
    pub(super) fn due(&self, cluster: &Cluster, policy: &Policy, is_newer: bool) -> Option<ProbeKind> {
        if self.workers.is_some() && is_waited_for(cluster, policy) {
            return Some(ProbeKind::Workers);
        }
        // A probe writes acknowledgments and the channel. For an upgrade that was restored nothing is written before it is resumed.
        let is_restored = policy.hold == Some(Hold::Restored);
        let question = self.preflight.as_ref().filter(|_| !is_restored)?;
        let may_be_asked =
            is_to_be_asked(cluster, policy) && !question.would_move_back(cluster, policy, is_newer);
        may_be_asked.then_some(ProbeKind::Preflight)
    }

    /// Hash of the probe that a cluster may have now.
    pub(super) fn needed(&self, cluster: &Cluster, policy: &Policy, is_newer: bool) -> Option<&Arc<str>> {
        if is_waited_for(cluster, policy) {
            return self.workers.as_ref();
        }
        let question = self.preflight.as_ref()?;
        let is_kept = is_kept(cluster, policy) && !question.would_move_back(cluster, policy, is_newer);
        is_kept.then_some(&question.hash)
    }
}

impl Question {
    /// True when the answers to this question tell what another one asks: the same update in the same channel, and worker pools if that
    /// asks for them.
    #[must_use]
    pub fn tells(&self, other: &Self) -> bool {
        let (own, others) = (&self.update, &other.update);
        let is_same_update = own.version == others.version && own.image == others.image;
        let is_same_channel = own.channel == others.channel && self.counts_after == other.counts_after;
        is_same_update && is_same_channel && (own.with_pools || !others.with_pools)
    }

    /// True when the probe would set the channel of a cluster that is known to run a newer version than the target, by the hub or because it
    /// has told so, and is not started for that. Nobody would set the channel back.
    fn would_move_back(&self, cluster: &Cluster, policy: &Policy, has_told: bool) -> bool {
        let is_known = has_told || is_newer(&cluster.newest_version, &policy.target);
        self.sets_channel() && !policy.allow_downgrade && is_known
    }
}
