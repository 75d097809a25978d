//! The worker pools of clusters whose version is updated, where the platform step waits for them (`docs/design/preflight.md#workers`).
//!
//! A cluster is asked by a probe that is created only two minutes after that, so what it says is about the update that it has just
//! applied. An agent that stops reading leaves its last answer on the hub, so an earlier answer never counts, however old it is.

use std::sync::Arc;

use api::names::LABEL_AGENT_VERSION;
use api::text::visible;
use chrono::{DateTime, TimeDelta, Utc};
use clusterversion::preflight::{Fact, Missing, PreflightReason};
use rollout::{Cluster, Eligibility, Fleet, Policy, Reason, WorkerPools};

use super::{Preflights, ProbeKind, is_answer, is_waited_for, known, unsupported};
use crate::index::{Index, ProbeView};

/// How long after its update a cluster is asked: what it says then is not of the moment before the machine-config operator has looked at
/// the new configuration.
const SETTLES_AFTER: TimeDelta = TimeDelta::minutes(2);
/// For how long after the clocks agree again, or a term has begun, no cluster has waited too long for its pools: it may not have been asked
/// before, and its agent reads within minutes.
const HEARD_WITHIN: TimeDelta = TimeDelta::minutes(10);
/// How far the hub's time of a creation may be from ours: clocks that differ by up to 30 s are trusted, and that time has whole seconds.
const DATED_WITHIN: TimeDelta = TimeDelta::seconds(40);

impl Preflights {
    /// What is known of the worker pools of a cluster. `upgrade`: UID of the upgrade. `since`: when the cluster began to wait for them by
    /// its row, if it does.
    #[must_use]
    pub fn worker_pools(
        &self,
        cluster: &str,
        upgrade: &str,
        since: Option<DateTime<Utc>>,
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
                (None, None) if self.clock_distrusted => behind(Reason::Running, CLOCKS_DIFFER),
                (None, None) => WorkerPools::NotAsked,
            };
        };
        match told(probe) {
            Err((reason, text)) => behind(reason, &text),
            Ok(()) if since.is_some_and(|since| self.counts(cluster, since, probe, now)) => {
                WorkerPools::Updated
            }
            Ok(()) if self.clock_distrusted => behind(Reason::Running, CLOCKS_DIFFER),
            Ok(()) if let Some(failure) = self.failures.get(cluster) => behind(
                Reason::PreflightPending,
                &format!(
                    "The cluster cannot be asked again for its worker pools: {}",
                    failure.text
                ),
            ),
            Ok(()) => behind(
                Reason::Running,
                "The worker pools seem to be updated; it is looked at again within 2 minutes",
            ),
        }
    }

    /// True when a term has begun, or the clocks agree again, since so short a time ago that clusters may not have been asked for their
    /// pools yet, or have not answered. It is not known for how long nobody led before, nor whether the clocks differed then.
    #[must_use]
    pub fn are_pools_unheard(&self, now: DateTime<Utc>) -> bool {
        now < self.heard_at()
    }

    fn heard_at(&self) -> DateTime<Utc> {
        let began = self.began.unwrap_or_default();
        began.max(self.distrusted_at) + HEARD_WITHIN
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

    /// Notes since when clusters wait for their worker pools. A row that was written by a clock that was ahead does not tell that.
    pub(super) fn note_workers(&mut self, fleet: &Fleet, policy: &Policy, now: DateTime<Utc>) {
        let waits = |cluster: &Cluster| is_waited_for(cluster, policy);
        self.workers_since
            .retain(|name, _| fleet.find(name).is_some_and(waits));
        for cluster in fleet.clusters.iter().filter(|cluster| waits(cluster)) {
            let Some(since) = cluster.record.as_ref().map(|record| record.since) else {
                continue;
            };
            let noted = self.workers_since.get(&cluster.name);
            if noted.is_none_or(|(noted, _)| *noted != since) {
                let began = since.min(now);
                self.workers_since
                    .insert(Arc::clone(&cluster.name), (since, began));
            }
        }
    }

    /// When a cluster or an answer can count by time alone.
    pub(super) fn next_workers(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.questions.workers.as_ref()?;
        // When the clock is trusted again, the upgrade is planned anyway.
        if self.clock_distrusted {
            return None;
        }
        let times = self
            .workers_since
            .values()
            .map(|(_, began)| self.settles_at(*began));
        let times = times.chain((!self.workers_since.is_empty()).then(|| self.heard_at()));
        times.filter(|at| *at > now).min()
    }

    /// True when a cluster may be asked now.
    pub(super) fn may_ask(&self, cluster: &Cluster, kind: ProbeKind, now: DateTime<Utc>) -> bool {
        let is_settled = kind != ProbeKind::Workers || self.has_settled(cluster, now);
        is_settled && self.may_write(&cluster.name, now)
    }

    /// True when the pools of a cluster seem to be updated by a probe that was created too early to tell, and it can be asked again.
    pub(super) fn was_asked_early(
        &self,
        cluster: &Cluster,
        policy: &Policy,
        probe: &ProbeView,
        now: DateTime<Utc>,
    ) -> bool {
        let since = cluster.record.as_ref().map(|record| record.since);
        let Some((since, created)) = since.zip(probe.created) else {
            return false;
        };
        is_waited_for(cluster, policy)
            && self.has_settled(cluster, now)
            && !self.is_in_time(&cluster.name, since, created, now)
            && told(probe).is_ok()
    }

    /// Whether an answer is of a probe that tells of the present update. It is not known of a probe without a time when it was created, so
    /// its answers never count.
    fn counts(&self, cluster: &str, since: DateTime<Utc>, probe: &ProbeView, now: DateTime<Utc>) -> bool {
        let is_in_time = |created| self.is_in_time(cluster, since, created, now);
        now >= self.distrusted_at + SETTLES_AFTER && probe.created.is_some_and(is_in_time)
    }

    /// Whether a probe was created late enough. One that was created while the clocks differed may be dated later than now.
    fn is_in_time(
        &self,
        cluster: &str,
        since: DateTime<Utc>,
        created: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> bool {
        let settled = self.began(cluster, since, now) + SETTLES_AFTER;
        settled - DATED_WITHIN <= created && created <= now + DATED_WITHIN
    }

    fn has_settled(&self, cluster: &Cluster, now: DateTime<Utc>) -> bool {
        let since = cluster.record.as_ref().map(|record| record.since);
        since.is_some_and(|since| now >= self.settles_at(self.began(&cluster.name, since, now)))
    }

    /// Since when a cluster waits for its worker pools, which is by its row since this time.
    fn began(&self, cluster: &str, since: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
        let noted = self
            .workers_since
            .get(cluster)
            .filter(|(noted, _)| *noted == since);
        noted.map_or(since, |(_, began)| *began).min(now)
    }

    /// When a cluster that has waited since a time may be asked. While the clocks differ nobody knows how long ago that was.
    fn settles_at(&self, began: DateTime<Utc>) -> DateTime<Utc> {
        began.max(self.distrusted_at) + SETTLES_AFTER
    }
}

/// What is told while nobody knows how long ago the update was.
const CLOCKS_DIFFER: &str = "The cluster is asked for the state of its worker pools 2 minutes after the clocks of controller and hub agree again";

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
