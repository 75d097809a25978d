//! What a run is like: sizes, times, and which faults happen how often. All of it follows from the seed.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::choice::Choices;
use crate::fault::Fault;

/// The options of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Options {
    /// The seed of everything.
    pub seed: u64,
    /// Clusters of the fleet.
    pub clusters: u64,
    /// Of these, the first are canaries.
    pub canaries: u64,
    /// `maxConcurrency`.
    pub max_concurrency: u64,
    /// `minSuccessTime` in seconds; zero for none.
    pub soak_seconds: u64,
    /// Whether there are pre- and post-actions.
    pub actions: bool,
    /// Replicas of the controller.
    pub replicas: u64,
    /// How long a cluster takes for its update, in seconds.
    pub update_seconds: u64,
    /// Longest latency of a request in one direction, in milliseconds.
    pub max_latency_millis: u64,
    /// How long faults happen, in seconds.
    pub chaos_seconds: u64,
    /// How often each fault happens, in thousandths of its occasions. A story names its faults one by one instead.
    #[serde(skip)]
    pub rates: Vec<(Fault, u64)>,
}

impl Options {
    /// The options of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let choices = Choices::new(seed);
        let between = |name: &str, least, most| choices.of(name, 0).between(least, most);
        let clusters = between("clusters", 2, 6);
        let rates = Fault::ALL.map(|fault| {
            let name = format!("rate of {}", fault.as_str());
            // Half of the faults are off in a run, so that each is also seen alone.
            let is_on = choices.of(&name, 0).happens(500);
            let rate = [5, 20, 60, 150];
            let rate = choices.of(&name, 1).pick(&rate).unwrap_or_default();
            (fault, if is_on { rate } else { 0 })
        });
        Self {
            seed,
            clusters,
            canaries: between("canaries", 0, 2).min(clusters - 1),
            max_concurrency: between("maxConcurrency", 1, 3),
            soak_seconds: if choices.of("soak", 0).happens(333) { 20 } else { 0 },
            actions: choices.of("actions", 0).happens(500),
            replicas: between("replicas", 1, 2),
            update_seconds: between("update", 5, 90),
            max_latency_millis: between("latency", 1, 400),
            rates: rates.to_vec(),
            chaos_seconds: between("chaos", 60, 600),
        }
    }

    /// How long a cluster takes for its update.
    #[must_use]
    pub const fn update(&self) -> Duration {
        Duration::from_secs(self.update_seconds)
    }

    /// `minSuccessTime`; zero for none.
    #[must_use]
    pub const fn soak(&self) -> Duration {
        Duration::from_secs(self.soak_seconds)
    }

    /// How often a fault happens, in thousandths.
    #[must_use]
    pub fn rate(&self, fault: Fault) -> u64 {
        self.rates
            .iter()
            .find(|(have, _)| *have == fault)
            .map_or(0, |(_, rate)| *rate)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "seed {}: {} clusters, {} canaries, maxConcurrency {}, soak {} s, actions {}, {} replicas, update {} s, latency up to {} \
             ms, chaos {} s; faults",
            self.seed,
            self.clusters,
            self.canaries,
            self.max_concurrency,
            self.soak_seconds,
            self.actions,
            self.replicas,
            self.update_seconds,
            self.max_latency_millis,
            self.chaos_seconds
        )?;
        for (fault, rate) in self.rates.iter().filter(|(_, rate)| *rate > 0) {
            write!(f, " {} {rate}‰", fault.as_str())?;
        }
        Ok(())
    }
}
