//! The I/O of the election: executes what [`decide`](super::decide) returns, publishes the result, and
//! releases the lease at the end.
//!
//! All requests for the Lease and their timeouts are here; the candidate decides which request is sent when
//! and what a response means. A follower watches the Lease, so it takes over a released lease at once and
//! sees renewals when they happen. If it cannot watch, it reads the Lease every retry period.

use std::collections::BTreeMap;
use std::time::Duration;

use api::names::ANNOTATION_LEADER_VERSION;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent, WatchParams};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::decide::{Candidate, LeaseFailure, LeaseRecord, Next, ObservedLease};
use super::{Config, Fence, Leadership, RELEASE_BUDGET, Term};
use crate::published::Published;
use crate::sources::Sources;

type Changes = BoxStream<'static, Result<WatchEvent<Lease>, kube::Error>>;

/// Seconds after which the server ends a watch. The next watch follows at once.
const WATCH_SECONDS: u32 = 290;

pub(super) struct Elector {
    api: Api<Lease>,
    config: Config,
    candidate: Candidate,
    published: Published<Leadership>,
    fence: Fence,
    sources: Sources,
    term: Option<Term>,
    changes: Option<Changes>,
    /// The Lease was read since the last watch ended, so a new watch can start from that version.
    has_read: bool,
    /// The server does not allow the watch, so it is not requested again.
    watch_refused: bool,
    /// A write was sent and has no response yet. If it is interrupted, its result is unknown.
    writing: bool,
}

impl Elector {
    pub(super) fn new(
        client: kube::Client,
        config: Config,
        published: Published<Leadership>,
        fence: Fence,
        sources: Sources,
    ) -> Self {
        Self {
            api: Api::namespaced(client, &config.namespace),
            candidate: Candidate::new(config.identity.clone(), config.timing, sources.random()),
            config,
            published,
            fence,
            sources,
            term: None,
            changes: None,
            has_read: false,
            watch_refused: false,
            writing: false,
        }
    }

    pub(super) async fn run(mut self, shutdown: CancellationToken) {
        let stopped = shutdown.clone();
        stopped
            .run_until_cancelled(async {
                loop {
                    self.step().await;
                }
            })
            .await;
        // The interrupted request may have taken effect. In that case the release reads the Lease first.
        if tokio::time::timeout(RELEASE_BUDGET, self.release())
            .await
            .is_err()
        {
            tracing::warn!(lease = %self.config.name, "the lease was not released in time; it expires by itself");
        }
    }

    async fn step(&mut self) {
        let now = Instant::now();
        let next = self.candidate.next(now, self.sources.timestamp());
        self.publish(now);
        match next {
            Next::Read => self.read().await,
            Next::Create(record) => self.write(record, None).await,
            Next::Replace { record, version } => self.write(record, Some(version)).await,
            Next::Wait(until) => self.wait(until).await,
        }
        self.publish(Instant::now());
    }

    /// The time limit of a request: a third of the renew deadline, but never past the end of our claim.
    fn attempt_timeout(&self) -> Duration {
        let share = self.config.timing.renew_deadline / 3;
        let now = Instant::now();
        self.candidate
            .held(now)
            .map_or(share, |(_, until)| share.min(until - now))
    }

    async fn read(&mut self) {
        let sent_at = Instant::now();
        let answer = tokio::time::timeout(self.attempt_timeout(), self.api.get_opt(&self.config.name)).await;
        let now = Instant::now();
        match answer {
            Ok(Ok(lease)) => {
                self.has_read = true;
                self.candidate.observed(now, lease.as_ref().map(seen));
            }
            Ok(Err(error)) => self.failed("read", &error, sent_at),
            Err(_) => self.timed_out("read", sent_at),
        }
    }

    async fn write(&mut self, record: LeaseRecord, version: Option<String>) {
        self.end_watch();
        let lease = lease(&self.config, &record, version.clone());
        let params = PostParams::default();
        let sent_at = Instant::now();
        self.writing = true;
        let request = async {
            if version.is_some() {
                self.api.replace(&self.config.name, &params, &lease).await
            } else {
                self.api.create(&params, &lease).await
            }
        };
        let answer = tokio::time::timeout(self.attempt_timeout(), request).await;
        self.writing = false;
        let now = Instant::now();
        match answer {
            Ok(Ok(lease)) => self.candidate.wrote(sent_at, now, seen(&lease)),
            Ok(Err(error)) => self.failed("write", &error, sent_at),
            Err(_) => self.timed_out("write", sent_at),
        }
    }

    fn failed(&mut self, verb: &'static str, error: &kube::Error, sent_at: Instant) {
        let failure = match error {
            kube::Error::Api(status) if status.is_conflict() || status.is_already_exists() => {
                LeaseFailure::Conflict
            }
            _ => LeaseFailure::Unknown,
        };
        if failure == LeaseFailure::Unknown {
            tracing::warn!(lease = %self.config.name, namespace = %self.config.namespace, verb, %error, "lease request failed");
        }
        self.candidate.failed(sent_at, failure);
    }

    fn timed_out(&mut self, verb: &'static str, sent_at: Instant) {
        tracing::warn!(lease = %self.config.name, verb, "lease request timed out");
        self.candidate.failed(sent_at, LeaseFailure::Unknown);
    }

    async fn wait(&mut self, until: Instant) {
        if self.candidate.held(Instant::now()).is_some() {
            tokio::time::sleep_until(until).await;
            return;
        }
        if self.changes.is_none() && !self.watch_refused && std::mem::take(&mut self.has_read) {
            self.open_watch().await;
            // The next step is decided again: with a watch the wait lasts to the end of the holder's claim,
            // without one to the next read.
            return;
        }
        let Some(changes) = self.changes.as_mut() else {
            tokio::time::sleep_until(until).await;
            return;
        };
        tokio::select! {
            biased;
            // The change comes first: what the holder has written counts before our wait for the end of its claim. The next
            // step is decided again after each change, so many changes do not delay it.
            change = changes.next() => self.changed(change),
            () = tokio::time::sleep_until(until) => {}
        }
    }

    async fn open_watch(&mut self) {
        let Some(version) = self.candidate.version().map(str::to_owned) else {
            return;
        };
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", self.config.name))
            .timeout(WATCH_SECONDS);
        let answer = tokio::time::timeout(self.attempt_timeout(), self.api.watch(&params, &version)).await;
        match answer {
            Ok(Ok(changes)) => {
                self.changes = Some(changes.boxed());
                self.candidate.set_watching(true, Instant::now());
            }
            Ok(Err(error)) => {
                self.watch_refused = matches!(&error, kube::Error::Api(status) if status.is_forbidden());
                tracing::debug!(%error, "the lease cannot be watched; polling");
            }
            Err(_) => tracing::debug!("the watch on the lease did not start in time; polling"),
        }
    }

    fn changed(&mut self, change: Option<Result<WatchEvent<Lease>, kube::Error>>) {
        let now = Instant::now();
        match change {
            Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                self.candidate.observed(now, Some(seen(&lease)));
            }
            Some(Ok(WatchEvent::Deleted(_))) => {
                self.end_watch();
                self.candidate.observed(now, None);
            }
            Some(Ok(WatchEvent::Bookmark(_))) => {}
            Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => self.end_watch(),
        }
    }

    fn end_watch(&mut self) {
        if self.changes.take().is_some() {
            self.candidate.set_watching(false, Instant::now());
        }
    }

    /// Updates the fence, the term and the receivers from the candidate.
    fn publish(&mut self, now: Instant) {
        let held = self.candidate.held(now);
        self.fence.set(held.map(|(_, until)| until));
        if let Some((since, _)) = held {
            if self.term.is_none() {
                tracing::info!(lease = %self.config.name, identity = %self.config.identity, "acquired the lease");
                let term = Term {
                    since,
                    ended: CancellationToken::new(),
                };
                self.term = Some(term.clone());
                self.published.replace(Leadership::Leader(term));
            }
            return;
        }
        let lost = self.term.take();
        if let Some(term) = &lost {
            term.ended.cancel();
        }
        let holder = self
            .candidate
            .holder()
            .filter(|holder| *holder != self.config.identity)
            .map(str::to_owned);
        let changed = self.published.modify(|leadership| {
            let same = matches!(leadership, Leadership::Follower { holder: old } if *old == holder);
            if !same {
                *leadership = Leadership::Follower {
                    holder: holder.clone(),
                };
            }
            !same
        });
        if lost.is_some() {
            tracing::warn!(lease = %self.config.name, holder = holder.as_deref().unwrap_or(""), "lost the lease");
        } else if changed {
            tracing::info!(lease = %self.config.name, holder = holder.as_deref().unwrap_or(""), "following");
        }
    }

    /// Releases the lease so that the next leader need not wait for its end. The fence closes and the term
    /// ends before the request.
    async fn release(&mut self) {
        self.changes = None;
        self.candidate.step_down();
        self.fence.set(None);
        if let Some(term) = self.term.take() {
            term.ended.cancel();
        }
        self.published.replace(Leadership::Follower { holder: None });
        for attempt in 0..3 {
            if attempt > 0 || self.writing {
                match self.api.get_opt(&self.config.name).await {
                    Ok(lease) => self.candidate.observed(Instant::now(), lease.as_ref().map(seen)),
                    Err(error) => tracing::debug!(%error, "the lease cannot be read at release"),
                }
            }
            let Some((record, version)) = self.candidate.release(self.sources.timestamp()) else {
                return;
            };
            let lease = lease(&self.config, &record, Some(version));
            match self
                .api
                .replace(&self.config.name, &PostParams::default(), &lease)
                .await
            {
                Ok(_) => {
                    tracing::info!(lease = %self.config.name, "released the lease");
                    return;
                }
                Err(error) => tracing::debug!(%error, attempt, "the lease was not released"),
            }
        }
        tracing::warn!(lease = %self.config.name, "the lease was not released; it expires by itself");
    }
}

/// Converts a Lease to a record. Missing fields mean no holder, a duration of zero, and no time.
fn seen(lease: &Lease) -> ObservedLease {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec
        .lease_duration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(0);
    ObservedLease {
        record: LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds),
            acquire_time: spec.acquire_time.map(|time| time.0),
            renew_time: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or(0),
        },
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
    }
}

fn lease(config: &Config, record: &LeaseRecord, version: Option<String>) -> Lease {
    Lease {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            namespace: Some(config.namespace.clone()),
            resource_version: version,
            annotations: Some(BTreeMap::from([(
                ANNOTATION_LEADER_VERSION.to_owned(),
                env!("CARGO_PKG_VERSION").to_owned(),
            )])),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: i32::try_from(record.duration.as_secs()).ok(),
            acquire_time: record.acquire_time.map(MicroTime),
            renew_time: record.renew_time.map(MicroTime),
            lease_transitions: Some(record.transitions),
            ..LeaseSpec::default()
        }),
    }
}

#[cfg(test)]
mod tests;
