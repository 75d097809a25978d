//! What an upgrade asks its clusters.

use std::sync::Arc;

use chrono::TimeDelta;
use clusterversion::preflight::{PlannedUpdate, UpdatesTo};
use rollout::{Cluster, Hold, Policy, is_newer};

use super::{is_in_pre_action, is_kept, is_to_be_asked, is_waited_for, waits};

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

    /// Notes that there is no update graph of our own.
    pub fn without_graph(&mut self) {
        let asks = self.preflight.as_mut().filter(|question| question.asks_graph);
        if let Some(question) = asks {
            Arc::make_mut(question).asks_graph = false;
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
        // A probe writes acknowledgments and the channel. For an upgrade that was restored nothing is written before it is resumed, and
        // beside an invalid spec nothing for clusters that have not started.
        let may_ask = match policy.hold {
            Some(Hold::Restored) => false,
            Some(Hold::InvalidSpec) => is_in_pre_action(cluster),
            Some(Hold::Paused) | None => true,
        };
        let question = self.preflight.as_ref().filter(|_| may_ask)?;
        let may_be_asked =
            is_to_be_asked(cluster, policy) && !question.is_for_nothing(cluster, policy, is_newer);
        may_be_asked.then_some(ProbeKind::Preflight)
    }

    /// Hash of the probe that a cluster may have now. Beside an invalid spec a cluster that has not started has none: the upgrade does not hold
    /// it then, and another one may need the name of the probe.
    pub(super) fn needed(&self, cluster: &Cluster, policy: &Policy, is_newer: bool) -> Option<&Arc<str>> {
        if is_waited_for(cluster, policy) {
            return self.workers.as_ref();
        }
        let is_held_back = policy.hold == Some(Hold::InvalidSpec) && waits(cluster);
        let question = self.preflight.as_ref().filter(|_| !is_held_back)?;
        let is_kept = is_kept(cluster, policy) && !question.is_for_nothing(cluster, policy, is_newer);
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

    /// True when a cluster is known to run a newer version than the target, and is not started for that. Nobody would set its channel back,
    /// so what it has told counts then, too. Where the channel is not set, the hub must know the version: another upgrade that asks for a newer
    /// one may start there, and needs the name of the probe.
    fn is_for_nothing(&self, cluster: &Cluster, policy: &Policy, has_told: bool) -> bool {
        let is_known = if self.sets_channel() {
            has_told || is_newer(&cluster.newest_version, &policy.target)
        } else {
            is_newer(&cluster.version, &policy.target)
        };
        !policy.allow_downgrade && is_known
    }
}
