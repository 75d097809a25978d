//! A rate limit: a burst, then one more after each interval.

use std::time::{Duration, Instant};

/// A token bucket. It starts full and takes the time from its caller.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    burst: u32,
    interval: Duration,
    tokens: u32,
    refilled: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens, which gets one more after each `interval`.
    pub(crate) const fn new(burst: u32, interval: Duration, now: Instant) -> Self {
        Self {
            burst,
            interval,
            tokens: burst,
            refilled: now,
        }
    }

    /// Takes a token. `Err`: there is none, and the next one comes at this time.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), Instant> {
        while self.tokens < self.burst && now.saturating_duration_since(self.refilled) >= self.interval {
            self.refilled += self.interval;
            self.tokens += 1;
        }
        if self.tokens == self.burst {
            self.refilled = now;
        }
        if self.tokens == 0 {
            return Err(self.refilled + self.interval);
        }
        self.tokens -= 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_one_more_is_allowed_in_each_interval() {
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        let mut bucket = TokenBucket::new(2, second, begun);
        assert_eq!((bucket.take(begun), bucket.take(begun)), (Ok(()), Ok(())));
        assert_eq!(bucket.take(begun), Err(begun + second));
        let later = begun + second * 3 / 2;
        assert_eq!(bucket.take(later), Ok(()));
        assert_eq!(bucket.take(later), Err(begun + second * 2));
    }

    #[test]
    fn a_long_rest_fills_it_only_up_to_the_burst() {
        let begun = Instant::now();
        let mut bucket = TokenBucket::new(1, Duration::from_secs(1), begun);
        let later = begun + Duration::from_mins(10);
        assert_eq!(bucket.take(later), Ok(()));
        assert!(bucket.take(later).is_err());
    }
}
