//! What the refresher passes to the server: the snapshot, or why there is none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};

use crate::metrics::{Metrics, Source};
use crate::snapshot::Snapshot;
use tokio::time::Instant;

/// Without a sign of life of the refresher for this long the service counts as dead. Longer than any reading of
/// graph-data may take, during which no sign is given.
pub const MAX_SILENCE: Duration = Duration::from_mins(15);

/// Shared as `Arc`. Reading the snapshot takes no lock.
#[derive(Debug)]
pub struct State {
    snapshot: ArcSwapOption<Snapshot>,
    /// Last error of each source, none after a good reading.
    errors: Mutex<[Option<String>; 2]>,
    /// When the refresher gave its last sign of life; none before it has started.
    beat: Mutex<Option<Instant>>,
    metrics: Arc<Metrics>,
}

impl State {
    /// Without a snapshot.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            snapshot: ArcSwapOption::empty(),
            errors: Mutex::default(),
            beat: Mutex::default(),
            metrics,
        }
    }

    /// Metrics of the process.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The snapshot being served.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    /// The same without touching its count, for short looks.
    #[must_use]
    pub fn peek(&self) -> Guard<Option<Arc<Snapshot>>> {
        self.snapshot.load()
    }

    /// Replaces the snapshot at once for everybody.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        let (releases, made) = (snapshot.graph().counts(None).releases, snapshot.made());
        self.snapshot.store(Some(snapshot));
        self.metrics.published(releases, made);
    }

    /// The refresher lives.
    pub fn beat(&self) {
        *self.beat.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// How long the refresher has given no sign of life, if that is longer than [`MAX_SILENCE`].
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        let beat = *self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let silence = beat?.elapsed();
        (silence > MAX_SILENCE).then_some(silence)
    }

    /// A source was read, or not.
    pub fn source(&self, source: Source, error: Option<String>) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = errors.get_mut(source as usize) {
            *slot = error;
        }
    }

    /// What keeps the service from being ready, one line each: nothing once there is a graph, however old.
    #[must_use]
    pub fn missing(&self) -> Vec<String> {
        if self.snapshot.load().is_some() {
            return Vec::new();
        }
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = vec!["no graph yet".to_owned()];
        for (source, error) in Source::ALL.iter().zip(errors.iter()) {
            lines.extend(
                error
                    .as_ref()
                    .map(|error| format!("{}: {error}", source.as_str())),
            );
        }
        lines
    }
}
