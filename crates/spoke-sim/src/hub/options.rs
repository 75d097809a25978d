//! Settings of the agents.

use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;

use crate::feedback::RawJson;
use crate::fields::Time;
use crate::platform::Pace;
use crate::scenario::Scenario;
use crate::work::wildcard;

/// Returns the wall-clock time.
#[derive(Clone)]
pub struct Clock(pub Arc<dyn Fn() -> Time + Send + Sync>);

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock")
    }
}

/// Settings of the agents.
#[derive(Clone, Debug)]
pub struct Options {
    /// The wall clock of the agents.
    pub clock: Clock,
    /// Which clusters are simulated.
    pub clusters: Filter,
    /// Label selector of the ManifestWorks; empty for all.
    pub work_selector: String,
    /// How long things take.
    pub pace: Pace,
    /// Faults and installed versions.
    pub scenario: Scenario,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Feedback of polled resources is collected at this interval, times 1 to 1.9. With zero it is collected at once.
    pub status_sync_interval: Duration,
    /// The agent's feature gate `RawFeedbackJsonString`.
    pub raw_json: Option<RawJson>,
    /// Maximum number of concurrent writes to the hub.
    pub concurrency: usize,
    /// Whether Available is set to Unknown on ManagedClusters while their agent is away.
    pub heartbeat: bool,
    /// True when the agents do nothing at all.
    pub silent: bool,
    /// Whether the clusters' controllers do nothing, so that statuses are only set by `Agents::place`.
    pub still: bool,
}

impl Default for Options {
    #[expect(clippy::disallowed_methods, reason = "a simulation passes its own clock")]
    fn default() -> Self {
        Self {
            clock: Clock(Arc::new(Utc::now)),
            clusters: Filter::default(),
            work_selector: String::new(),
            pace: Pace::scaled(1.0 / 120.0, Duration::from_hours(1)),
            scenario: Scenario::default(),
            seed: 1,
            status_sync_interval: Duration::ZERO,
            raw_json: None,
            concurrency: 48,
            heartbeat: false,
            silent: false,
            still: false,
        }
    }
}

/// Patterns for names of clusters. Without patterns all clusters match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<String>);

impl Filter {
    /// A filter of patterns, in which `*` matches any characters.
    #[must_use]
    pub fn new(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self(
            patterns
                .into_iter()
                .map(Into::into)
                .filter(|pattern| !pattern.is_empty())
                .collect(),
        )
    }

    /// Whether a cluster is simulated.
    #[must_use]
    pub fn admits(&self, name: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|pattern| wildcard(pattern, name))
    }
}
