//! How fast to tidy up beside starts. Every deletion costs the hub three more writes (the agent lets go of the work, the
//! garbage collector looks at it), and deletions come in the same bursts as starts: spread out, they leave the hub to the
//! clusters that wait for a slot.

use std::time::{Duration, Instant};

/// Without a start for so long the hub is calm, and tidying up needs no spreading.
const CALM: Duration = Duration::from_secs(5);
/// Beside starts, what is to be tidied up is spread as if all of it had so long: each second takes a thirtieth of the rest.
const SPREAD: Duration = Duration::from_secs(30);
/// Longest time between two deletions beside starts.
const LONGEST: Duration = Duration::from_millis(150);
/// So many deletions, saved up in quieter times, go out at once. A small fleet notices nothing of all this.
const SAVED: u32 = 32;

/// When the next deletion may go out.
#[derive(Debug, Default)]
pub struct Pace {
    started: Option<Instant>,
    /// When the next would be due if nothing had been saved up.
    next: Option<Instant>,
    /// The time between two.
    interval: Duration,
}

impl Pace {
    /// Notes a start.
    pub const fn start(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// When the next deletion may go out; not after `now` if it may at once.
    #[must_use]
    pub fn due(&self, now: Instant) -> Instant {
        match (self.started.map(|started| started + CALM), self.next) {
            (Some(calm), Some(next)) => calm.min(next.checked_sub(self.interval * SAVED).unwrap_or(now)),
            _ => now,
        }
    }

    /// Notes a deletion, `left` after it.
    pub fn tidy(&mut self, now: Instant, left: usize) {
        let left = u32::try_from(left).unwrap_or(u32::MAX).max(1);
        let next = self.next.map_or(now, |next| next.max(now));
        self.interval = LONGEST.min(SPREAD / left);
        // What goes out on a calm hub is not owed when starts come back.
        self.next = Some((next + self.interval).min(now + self.interval * (SAVED + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    /// Deletions of `jobs` within `span`, with three starts in each `CALM` if `starting`.
    fn deleted(jobs: usize, span: Duration, starting: bool) -> usize {
        let begun = Instant::now();
        let (mut pace, mut now, mut left) = (Pace::default(), begun, jobs);
        let mut started = begun;
        pace.start(begun);
        while now < begun + span && left > 0 {
            if starting && now >= started + CALM / 3 {
                started = now;
                pace.start(now);
            }
            if pace.due(now) <= now {
                left -= 1;
                pace.tidy(now, left);
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
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.start(now);
        now += CALM;
        for left in (0..1_000).rev() {
            assert!(pace.due(now) <= now);
            pace.tidy(now, left);
        }
        pace.start(now);
        assert!(pace.due(now) <= now + LONGEST);
    }

    #[test]
    fn on_a_calm_hub_nothing_is_spread() {
        assert_eq!(deleted(1_000, CALM + STEP * 2, false), 1_000);
    }
}
