//! Events (events.k8s.io/v1) about upgrades.
//!
//! Contains the closed set of [`EventReason`]s, the queue and the sender. Publishing never waits: the queue is
//! bounded and drops its oldest entry, the sender has a rate limit, and only the leader sends. The same note
//! about the same object is sent only once in ten minutes, and starts and completions of many clusters become one
//! Event. Delivery is not guaranteed: an Event that cannot
//! be sent is counted and dropped, because status and reports hold the same information.

mod gather;
mod notice;
mod queue;
pub mod reason;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::notice::Notice;
use self::queue::Queue;
use crate::apply::WriteErrorKind;
use crate::clock;
use crate::lease::Fence;
use crate::metrics::Metrics;
use crate::metrics::labels::{EventDrop, WriteKind, WriteOutcome};
use crate::rate::TokenBucket;
use crate::sources::Sources;

pub use notice::Regarding;
pub use reason::{EventReason, Scope, Severity};

/// `reportingController` of every Event.
pub const REPORTING_CONTROLLER: &str = "cluster.open-cluster-management.io/mcu-controller";
/// Longest note in bytes (events.k8s.io/v1 recommends 1 kB).
pub const MAX_NOTE: usize = 1024;

/// Time limit of a single attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before the second, last attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Number of Events that may be sent at once.
const BURST: u32 = 200;
/// Time after which one more Event may be sent.
const REFILL: Duration = Duration::from_millis(100);
/// How long the process waits for queued Events when it ends.
const DRAIN_BUDGET: Duration = Duration::from_secs(1);

/// Accepts Events without waiting. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Publisher {
    queue: Arc<Queue>,
    fence: Fence,
    metrics: Arc<Metrics>,
}

impl Publisher {
    /// Starts the sender. It ends after `shutdown`, as soon as the queue is empty or a second has passed. It
    /// must end before the lease is released. `instance` is the identity of the replica. Must be called
    /// within a tokio runtime.
    #[must_use]
    pub fn start(
        client: kube::Client,
        fence: Fence,
        metrics: Arc<Metrics>,
        instance: String,
        sources: &Sources,
        shutdown: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let publisher = Self {
            queue: Arc::new(Queue::new(Arc::clone(&metrics))),
            fence,
            metrics,
        };
        let sender = Sender {
            client,
            publisher: publisher.clone(),
            instance,
            sequence: sources.random(),
            sources: sources.clone(),
            rate: TokenBucket::new(BURST, REFILL, clock::now()),
        };
        let task = tokio::spawn(sender.run(shutdown));
        (publisher, task)
    }

    /// Publishes an Event about an upgrade.
    pub fn upgrade(&self, regarding: &Regarding, reason: EventReason, note: impl Into<String>) {
        self.push(Notice {
            regarding: regarding.clone(),
            cluster: None,
            reason,
            note: note.into(),
        });
    }

    /// Publishes an Event about one cluster of an upgrade. It regards the upgrade and names the cluster in
    /// `related`.
    pub fn cluster(
        &self,
        regarding: &Regarding,
        cluster: &str,
        reason: EventReason,
        note: impl Into<String>,
    ) {
        let cluster = Some(cluster.to_owned());
        self.push(Notice {
            regarding: regarding.clone(),
            cluster,
            reason,
            note: note.into(),
        });
    }

    fn push(&self, mut notice: Notice) {
        if !self.fence.is_leader() {
            self.metrics.event_dropped(EventDrop::NotLeader);
            return;
        }
        truncate(&mut notice.note);
        self.queue.push(notice, Instant::now());
    }
}

/// Shortens a note to [`MAX_NOTE`] bytes at a character boundary and marks the cut.
fn truncate(note: &mut String) {
    const MARK: &str = "...";
    if note.len() > MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - MARK.len()));
        note.push_str(MARK);
    }
}

struct Sender {
    client: kube::Client,
    publisher: Publisher,
    instance: String,
    sequence: u64,
    sources: Sources,
    rate: TokenBucket,
}

impl Sender {
    async fn run(mut self, shutdown: CancellationToken) {
        let overdue = async {
            shutdown.cancelled().await;
            tokio::time::sleep(DRAIN_BUDGET).await;
        };
        let work = async {
            while let Some(notice) = self.next(&shutdown).await {
                self.token().await;
                self.send(notice).await;
            }
        };
        tokio::select! {
            biased;
            // The work comes first: if the last Event was sent in time, nothing is missing.
            () = work => {}
            () = overdue => tracing::debug!("some Events were not sent before shutdown"),
        }
    }

    /// The next Event. `None` when the queue is empty and the process is shutting down.
    async fn next(&self, shutdown: &CancellationToken) -> Option<Notice> {
        let queue = &self.publisher.queue;
        match queue.try_pop() {
            Some(notice) => Some(notice),
            None => match shutdown.run_until_cancelled(queue.pop()).await {
                Some(notice) => Some(notice),
                None => queue.pop_held(),
            },
        }
    }

    /// Waits until the rate allows one more Event.
    async fn token(&mut self) {
        while let Err(next) = self.rate.take(clock::now()) {
            tokio::time::sleep_until(next.into()).await;
        }
    }

    async fn send(&mut self, notice: Notice) {
        let event = self.event(&notice);
        let api: Api<Event> = Api::namespaced(self.client.clone(), &notice.regarding.namespace);
        for last in [false, true] {
            if !self.publisher.fence.is_leader() {
                self.publisher.metrics.event_dropped(EventDrop::NotLeader);
                return;
            }
            let outcome = self.attempt(&api, &event, last).await;
            match outcome {
                WriteOutcome::Ok => return,
                WriteOutcome::Timeout
                | WriteOutcome::Overloaded
                | WriteOutcome::Unavailable
                | WriteOutcome::Unreachable
                | WriteOutcome::Error
                    if !last =>
                {
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
                _ => break,
            }
        }
        self.publisher.metrics.event_dropped(EventDrop::Failed);
        self.publisher.queue.forget(&notice);
    }

    async fn attempt(&self, api: &Api<Event>, event: &Event, repeated: bool) -> WriteOutcome {
        let begun = Instant::now();
        let params = PostParams::default();
        let answer = tokio::time::timeout(ATTEMPT_TIMEOUT, api.create(&params, event)).await;
        let outcome = match answer {
            Ok(Ok(_)) => WriteOutcome::Ok,
            // The first attempt took effect; only its response was lost.
            Ok(Err(kube::Error::Api(status))) if repeated && status.is_already_exists() => WriteOutcome::Ok,
            Ok(Err(error)) => {
                tracing::debug!(%error, reason = event.reason.as_deref(), "an Event was not sent");
                WriteErrorKind::of(&error).into()
            }
            Err(_) => WriteOutcome::Timeout,
        };
        self.publisher
            .metrics
            .wrote(WriteKind::Event, outcome, begun.elapsed());
        outcome
    }

    fn event(&mut self, notice: &Notice) -> Event {
        self.sequence = self.sequence.wrapping_add(1);
        let Notice {
            regarding,
            cluster,
            reason,
            note,
        } = notice;
        Event {
            metadata: ObjectMeta {
                // The name is unique, so a repeated attempt is not mistaken for a new Event.
                name: Some(format!("{}.{:016x}", regarding.name, self.sequence)),
                namespace: Some(regarding.namespace.clone()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.sources.timestamp())),
            action: Some(reason.action().to_owned()),
            reason: Some(reason.as_str().to_owned()),
            type_: Some(reason.severity().as_str().to_owned()),
            note: Some(note.clone()),
            regarding: Some(ObjectReference {
                api_version: Some(format!("{}/{}", api::GROUP, api::VERSION)),
                kind: Some("ManagedClustersUpgrade".to_owned()),
                namespace: Some(regarding.namespace.clone()),
                name: Some(regarding.name.clone()),
                uid: Some(regarding.uid.clone()),
                ..ObjectReference::default()
            }),
            related: cluster.as_ref().map(|cluster| ObjectReference {
                api_version: Some("cluster.open-cluster-management.io/v1".to_owned()),
                kind: Some("ManagedCluster".to_owned()),
                name: Some(cluster.clone()),
                ..ObjectReference::default()
            }),
            reporting_controller: Some(REPORTING_CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests;
