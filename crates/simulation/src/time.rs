//! Virtual time. It begins at a fixed date, so that no run depends on when it happens.

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub struct VirtualClock {
    start: Instant,
}

impl VirtualClock {
    /// A clock that begins now. Must be called within a runtime whose time is paused.
    #[must_use]
    pub fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Seconds since the begin of the run.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// The wall-clock time: that of the hub and of every replica whose clock is right.
    #[must_use]
    pub fn wall(self) -> DateTime<Utc> {
        // 2026-01-01T00:00:00Z.
        let begin = DateTime::from_timestamp(1_767_225_600, 0).unwrap_or_default();
        begin + TimeDelta::from_std(self.start.elapsed()).unwrap_or_default()
    }
}
