//! How long things take on the simulated clusters, in wall-clock time.

use std::time::Duration;

use chrono::TimeDelta;

use super::JobRule;
use crate::dice::Dice;

/// Durations of the simulation.
#[derive(Clone, Debug)]
pub struct Pace {
    /// From a request to the accepted release.
    pub acceptance: Duration,
    /// From the accepted release (Partial) to Completed.
    pub update: Duration,
    /// A Job without a duration of its own.
    pub job: Duration,
    /// Until a Deployment or the like is available.
    pub rollout: Duration,
    /// Simulated over real time, for durations that objects carry themselves (Job deadlines, TTLs).
    pub time_scale: f64,
    /// Largest deviation of an update's durations, as a fraction of them.
    pub jitter: f64,
    /// Whether progress is reported in the plateaus of a real update, or as one Partial.
    pub plateaus: bool,
    /// Jobs with durations and failures of their own; the first match wins.
    pub jobs: Vec<JobRule>,
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
            time_scale: scale,
            jitter: 0.25,
            plateaus: true,
            jobs: Vec::new(),
        }
    }

    /// For measurements: everything ends `total` after it was asked for, with one Partial half-way.
    #[must_use]
    pub fn exact(total: Duration) -> Self {
        Self {
            acceptance: total / 2,
            update: total.saturating_sub(total / 2),
            job: total,
            rollout: total / 4,
            time_scale: 1.0,
            jitter: 0.0,
            plateaus: false,
            jobs: Vec::new(),
        }
    }

    /// A duration of an update with its deviation and slowness.
    #[must_use]
    pub fn deviate(&self, duration: Duration, slowness: f64, dice: Dice) -> TimeDelta {
        scale(
            duration,
            slowness * (1.0 + dice.between(-self.jitter, self.jitter)),
        )
    }
}

/// `duration` times `factor`; what does not fit is as good as for ever.
#[must_use]
pub fn scale(duration: Duration, factor: f64) -> TimeDelta {
    let seconds = (duration.as_secs_f64() * factor).clamp(0.0, 3e9);
    TimeDelta::from_std(Duration::from_secs_f64(seconds)).unwrap_or(TimeDelta::MAX)
}
