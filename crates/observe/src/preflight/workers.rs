//! The worker pools of clusters whose version is updated, where the platform step waits for them (`docs/design/preflight.md#workers`).
//!
//! A cluster is asked by a probe that is created only then, so what it says is about the update that it has just applied.

use std::sync::Arc;

use api::names::LABEL_AGENT_VERSION;
use api::text::visible;
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::{Fact, Missing, PreflightReason};
use rollout::{Cluster, Eligibility, Phase, Policy, Reason, WorkerPools};

use super::{Preflights, is_answer, known, unsupported};
use crate::index::{Index, ProbeView};

/// How old a probe must be before its answers count: agents read again after at most 114 s by default, so what they say then is not of
/// the moment before the machine-config operator has looked at the new configuration.
const SETTLES_AFTER: TimeDelta = TimeDelta::minutes(2);

/// True when a cluster is to be asked for its worker pools.
pub(super) fn is_waited_for(cluster: &Cluster, policy: &Policy) -> bool {
    let is_behind = cluster
        .record
        .as_ref()
        .is_some_and(|record| record.phase == Phase::Workers);
    is_behind && !cluster.gone && !policy.deleting && policy.worker_pools_timeout.is_some()
}

impl Preflights {
    /// What is known of the worker pools of a cluster. `upgrade`: UID of the upgrade.
    #[must_use]
    pub fn worker_pools(
        &self,
        cluster: &str,
        upgrade: &str,
        index: &Index,
        now: DateTime<Utc>,
    ) -> WorkerPools {
        let Some(hash) = &self.questions.workers else {
            return WorkerPools::NotAsked;
        };
        let probe = index.probe(cluster);
        let ours = probe
            .filter(|probe| *probe.upgrade == *upgrade && is_answer(cluster, probe, hash, &self.key, index));
        let behind = |reason, text: &str| WorkerPools::Behind {
            reason,
            message: Arc::from(visible(text)),
        };
        let Some(probe) = ours else {
            let (own, other) = (
                probe.filter(|probe| probe.is_of(upgrade, &self.key)),
                probe.filter(|probe| !probe.is_of(upgrade, &self.key)),
            );
            return match (other, self.failures.get(cluster)) {
                _ if !self.can_be_asked(cluster, index) => {
                    behind(Reason::PreflightUnsupported, &unsupported())
                }
                (Some(other), _) if other.owner.is_empty() || *other.upgrade == *upgrade => behind(
                    Reason::PreflightPending,
                    "A ManifestWork that no upgrade manages has the name of the one that asks for the worker pools. Delete it.",
                ),
                (Some(other), _) => behind(
                    Reason::PreflightPending,
                    &format!("Upgrade {} asks the cluster at the moment", other.owner),
                ),
                (None, Some(failure)) => behind(
                    Reason::PreflightPending,
                    &format!(
                        "The cluster cannot be asked for its worker pools: {}",
                        failure.text
                    ),
                ),
                (None, None) if own.is_some_and(|probe| probe.is_ending) => behind(
                    Reason::PreflightPending,
                    "The ManifestWork of an earlier preflight is being deleted, and the cluster's work agent has not let go of it yet",
                ),
                (None, None) => WorkerPools::NotAsked,
            };
        };
        match told(probe) {
            Err((reason, text)) => behind(reason, &text),
            Ok(()) if self.pools_count_at(probe).is_some_and(|at| now >= at) => WorkerPools::Updated,
            Ok(()) => behind(
                Reason::Running,
                "The worker pools seem to be updated; it is looked at again within 2 minutes",
            ),
        }
    }

    /// Why a cluster must not start: the upgrade would wait for its worker pools, and nothing would ever tell that they are updated.
    #[must_use]
    pub fn cannot_tell_pools(&self, cluster: &str, index: &Index) -> Option<Eligibility> {
        let is_told = self.questions.workers.is_none() || self.can_be_asked(cluster, index);
        (!is_told).then(|| Eligibility::Blocked {
            reason: Reason::PreflightUnsupported,
            message: Arc::from(format!(
                "The upgrade waits for worker pools, and the cluster cannot be asked for them. If its work agent is of OCM v0.14 or newer, set label {LABEL_AGENT_VERSION}; if all are, start the controller with --agents-support-read-only."
            )),
        })
    }

    /// When an answer counts by time alone.
    pub(super) fn next_workers(
        &self,
        upgrade: &str,
        index: &Index,
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let hash = self.questions.workers.as_ref()?;
        // When the clock is trusted again, the upgrade is planned anyway.
        if self.clock_distrusted {
            return None;
        }
        let probes = index.probes_of(upgrade).filter(|(_, probe)| probe.hash == *hash);
        probes
            .filter_map(|(_, probe)| self.pools_count_at(probe))
            .filter(|at| *at > now)
            .min()
    }

    /// `None`: it is not known when the probe was created, so its answers never count. What was created while the clocks differed may be
    /// younger than it says.
    fn pools_count_at(&self, probe: &ProbeView) -> Option<DateTime<Utc>> {
        Some(probe.created?.max(self.distrusted_at) + SETTLES_AFTER)
    }
}

/// Whether all worker pools are updated; otherwise why not.
fn told(probe: &ProbeView) -> Result<(), (Reason, String)> {
    let current = fact(&probe.facts.current)?;
    let pools = fact(&probe.facts.pools)?;
    match pools.behind(current) {
        None => Ok(()),
        Some((reason, text)) => Err((reason.map_or(Reason::Running, known), text)),
    }
}

fn fact<T>(fact: &Fact<T>) -> Result<&T, (Reason, String)> {
    fact.as_ref().map_err(|why| match why {
        Missing::Pending => (
            Reason::PreflightPending,
            "The cluster has not told the state of its worker pools yet".to_owned(),
        ),
        Missing::Unsupported(text) => (Reason::PreflightUnsupported, text.clone()),
        Missing::Forbidden(text) => (known(PreflightReason::PreflightForbidden), text.clone()),
    })
}
