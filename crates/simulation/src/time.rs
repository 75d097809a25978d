//! Virtual time. It begins at a fixed date, so that no run depends on when it happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;

/// The date at which every run begins: 2026-01-01T00:00:00Z.
#[must_use]
pub fn begin() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).unwrap_or_default()
}

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

    /// Time since the begin of the run.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        self.start.elapsed()
    }

    /// The wall-clock time: that of the hub and of every replica whose clock is right.
    #[must_use]
    pub fn wall(self) -> DateTime<Utc> {
        begin() + TimeDelta::from_std(self.elapsed()).unwrap_or_default()
    }
}

/// The wall clock of one machine, which may be wrong. Clones are the same clock.
#[derive(Clone, Debug)]
pub struct MachineClock {
    clock: VirtualClock,
    /// Seconds by which it is ahead.
    offset: Arc<AtomicI64>,
    /// When it was last looked at, in nanoseconds since the begin of the run, and how often at that instant.
    looks: Arc<(AtomicU64, AtomicU64)>,
}

/// A program that looks at the clock more often than this without any time passing goes round in a circle.
const MOST_LOOKS: u64 = 100_000;

impl MachineClock {
    /// A clock that is right.
    #[must_use]
    pub fn new(clock: VirtualClock) -> Self {
        Self {
            clock,
            offset: Arc::default(),
            looks: Arc::default(),
        }
    }

    /// Sets by how many seconds it is ahead.
    pub fn set(&self, seconds: i64) {
        self.offset.store(seconds, Ordering::Relaxed);
    }

    /// What it shows.
    ///
    /// # Panics
    /// The replica looks at it again and again, and no time passes.
    #[must_use]
    pub fn wall(&self) -> DateTime<Utc> {
        let now = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.looks.0.swap(now, Ordering::Relaxed) != now {
            self.looks.1.store(0, Ordering::Relaxed);
        }
        let count = self.looks.1.fetch_add(1, Ordering::Relaxed);
        assert!(count < MOST_LOOKS, "a replica goes round in a circle");
        self.clock.wall() + TimeDelta::seconds(self.offset.load(Ordering::Relaxed))
    }
}
