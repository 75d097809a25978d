//! The hub's clock, and those of replicas.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// Clocks jump in runs in which they may be wrong by more than this.
pub(super) const CLOCK_JUMPS: Duration = Duration::from_secs(10);

/// The hub's time.
pub(super) fn wall(at: Duration) -> DateTime<Utc> {
    crate::time::begin() + TimeDelta::from_std(at).unwrap_or_default()
}
