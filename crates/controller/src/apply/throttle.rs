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
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    /// Number of `jobs` deletions that go out within `span`. `starting`: three clusters start in each
    /// `QUIET_AFTER`.
    fn deleted(jobs: usize, span: Duration, starting: bool) -> usize {
        let begun = Instant::now();
        let (mut throttle, mut now, mut left) = (CleanupThrottle::default(), begun, jobs);
        let mut started = begun;
        throttle.start(begun);
        while now < begun + span && left > 0 {
            if starting && now >= started + QUIET_AFTER / 3 {
                started = now;
                throttle.start(now);
            }
            if throttle.due(now) <= now {
                left -= 1;
                throttle.record_deletion(now, left);
            } else {
                now += STEP;
            }
        }
        jobs - left
    }

    #[test]
    fn a_few_deletions_wait_for_nothing() {
        assert_eq!(deleted(30, STEP, true), 30);
        assert!((32..=34).contains(&deleted(100, STEP, true)));
        assert!((32..=34).contains(&deleted(10_000, STEP, true)));
    }

    #[test]
    fn beside_starts_many_deletions_are_spread_and_not_put_off_for_ever() {
        let begun = deleted(1_000, Duration::from_secs(1), true);
        assert!((60..=120).contains(&begun), "{begun} of 1000 in the first second");
        let later = deleted(1_000, Duration::from_secs(3), true) - begun;
        assert!((50..=90).contains(&later), "{later} in the two seconds after");
        assert_eq!(deleted(1_000, Duration::from_secs(80), true), 1_000);
    }

    #[test]
    fn what_went_out_on_a_calm_hub_holds_nothing_up_later() {
        let (mut throttle, mut now) = (CleanupThrottle::default(), Instant::now());
        throttle.start(now);
        now += QUIET_AFTER;
        for left in (0..1_000).rev() {
            assert!(throttle.due(now) <= now);
            throttle.record_deletion(now, left);
        }
        throttle.start(now);
        assert!(throttle.due(now) <= now + MAX_PAUSE);
    }

    #[test]
    fn on_a_calm_hub_nothing_is_spread() {
        assert_eq!(deleted(1_000, QUIET_AFTER + STEP * 2, false), 1_000);
    }
}
