//! Limits the rate of clean-up deletions while clusters are started. Every deletion causes three more writes
//! on the hub by the work agent and the garbage collector, and deletions come in the same bursts as starts.
//! Spreading them leaves the hub's capacity to the clusters that wait for a slot.

use std::time::{Duration, Instant};

/// If no cluster was started for this long, deletions are not limited.
const QUIET_AFTER: Duration = Duration::from_secs(5);
/// While clusters are started, the remaining deletions are spread over this time: each second executes a
/// thirtieth of them.
const SPREAD_OVER: Duration = Duration::from_secs(30);
/// Longest time between two deletions while clusters are started.
const MAX_PAUSE: Duration = Duration::from_millis(150);
/// Number of deletions that may go out at once after a quiet time. Because of it, small fleets are not slowed
/// down.
const BURST: u32 = 32;

/// Computes when the next deletion may go out.
#[derive(Debug, Default)]
pub struct CleanupThrottle {
    started: Option<Instant>,
    /// When the next deletion would be due without the burst.
    next: Option<Instant>,
    /// The time between two deletions.
    interval: Duration,
}

impl CleanupThrottle {
    /// Records a start.
    pub const fn start(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// When the next deletion may go out. A time that is not after `now` means at once.
    #[must_use]
    pub fn due(&self, now: Instant) -> Instant {
        match (self.started.map(|started| started + QUIET_AFTER), self.next) {
            (Some(quiet), Some(next)) => quiet.min(next.checked_sub(self.interval * BURST).unwrap_or(now)),
            _ => now,
        }
    }

    /// Records a deletion, after which `left` are waiting.
    pub fn record_deletion(&mut self, now: Instant, left: usize) {
        let left = u32::try_from(left).unwrap_or(u32::MAX).max(1);
        let next = self.next.map_or(now, |next| next.max(now));
        self.interval = MAX_PAUSE.min(SPREAD_OVER / left);
        // Deletions that went out without a limit do not delay later ones when starts resume.
        self.next = Some((next + self.interval).min(now + self.interval * (BURST + 1)));
    }
}

#[cfg(test)]
mod tests;
