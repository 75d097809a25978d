//! How long things take on the simulated clusters, in wall-clock time.

use std::time::Duration;

use chrono::TimeDelta;

use crate::seeded_rng::SeededRng;

/// Durations of the simulation.
#[derive(Clone, Debug)]
pub struct Pace {
    /// From a request to the accepted release.
    pub acceptance: Duration,
    /// From the accepted release (Partial) to Completed.
    pub update: Duration,
    /// A Job that does not define its duration.
    pub job: Duration,
    /// Until a Deployment or the like is available.
    pub rollout: Duration,
    /// Until the nodes of a worker pool run a new configuration.
    pub machines: Duration,
    /// Real time per simulated time, for durations in objects such as Job deadlines and TTLs.
    pub time_scale: f64,
    /// Maximum deviation of an update's durations, as a fraction of them.
    pub jitter: f64,
    /// Whether progress is reported in the plateaus of a real update, or as one Partial.
    pub plateaus: bool,
    /// Durations and failures of certain Jobs. The first match applies.
    pub jobs: Vec<JobRule>,
}

/// What Jobs of certain names do.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRule {
    /// Pattern for the name of the Job, in which `*` matches any characters.
    pub name: String,
    /// How long the pods run, in wall-clock time.
    pub duration: Option<Duration>,
    /// Percentage of the Jobs that fail, 0 to 100.
    pub fail_percent: f64,
}

impl Pace {
    /// Real durations times `scale`: an update of `update` (60 min on a quiet cluster), acceptance within two
    /// minutes, Jobs of 90 s.
    #[must_use]
    pub fn scaled(scale: f64, update: Duration) -> Self {
        Self {
            acceptance: Duration::from_secs(75).mul_f64(scale),
            update: update.mul_f64(scale),
            job: Duration::from_secs(90).mul_f64(scale),
            rollout: Duration::from_secs(20).mul_f64(scale),
            machines: Duration::from_mins(20).mul_f64(scale),
            time_scale: scale,
            jitter: 0.25,
            plateaus: true,
            jobs: Vec::new(),
        }
    }

    /// For measurements: everything ends `total` after it was requested, with one Partial half-way.
    #[must_use]
    pub fn exact(total: Duration) -> Self {
        Self {
            acceptance: total / 2,
            update: total.saturating_sub(total / 2),
            job: total,
            rollout: total / 4,
            machines: total,
            time_scale: 1.0,
            jitter: 0.0,
            plateaus: false,
            jobs: Vec::new(),
        }
    }

    /// A duration of an update with random deviation and slowness.
    #[must_use]
    pub fn deviate(&self, duration: Duration, slowness: f64, rng: SeededRng) -> TimeDelta {
        scale(
            duration,
            slowness * (1.0 + rng.between(-self.jitter, self.jitter)),
        )
    }
}

/// `duration` times `factor`. Values that are too large become the maximum.
#[must_use]
pub fn scale(duration: Duration, factor: f64) -> TimeDelta {
    let seconds = (duration.as_secs_f64() * factor).clamp(0.0, 3e9);
    TimeDelta::from_std(Duration::from_secs_f64(seconds)).unwrap_or(TimeDelta::MAX)
}
