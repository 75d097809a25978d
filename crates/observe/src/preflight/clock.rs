//! Which time has certainly been reached, and times that a clock which was ahead has left behind.

use chrono::{DateTime, Utc};

use super::judged::WAIT;
use super::{BACKOFF, Preflights};

impl Preflights {
    /// The latest time that has certainly been reached. By a clock that is not trusted no timeout ends, and what had ended before stays so.
    pub(crate) const fn certain(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        if self.clock_distrusted {
            self.trusted_at
        } else {
            now
        }
    }

    /// Shortens waits that have become long because the clock was set back: nothing can have happened later than now.
    #[expect(clippy::iter_over_hash_type, reason = "each wait is shortened by itself")]
    pub fn clamp_waits(&mut self, now: DateTime<Utc>) {
        self.trusted_at = self.trusted_at.min(now);
        self.distrusted_at = self.distrusted_at.min(now);
        self.began = self.began.map(|began| began.min(now));
        for judged in self.verdicts.values_mut() {
            judged.unknown_since = judged.unknown_since.min(now);
            judged.lost = judged.lost.map(|lost| lost.min(now));
            judged.answered = judged.answered.map(|answered| answered.min(now));
            judged.changed.0 = judged.changed.0.min(now);
            judged.held_until = judged.held_until.map(|until| until.min(now + WAIT.1));
        }
        for begun in self
            .asked_again
            .values_mut()
            .chain(self.unknown_before.values_mut())
        {
            *begun = (*begun).min(now);
        }
        for (_, began) in self.workers_since.values_mut() {
            *began = (*began).min(now);
        }
        for failure in self.failures.values_mut() {
            failure.until = failure.until.min(now + BACKOFF.1);
        }
    }
}
