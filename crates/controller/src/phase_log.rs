//! The log line of a change of a cluster's phase. The number of lines is limited: a fleet may change all at once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::events::Regarding;
use crate::rate::TokenBucket;
use crate::report::rows::PhaseChange;
use api::report::Phase;

/// Number of lines that may be written at once.
const BURST: u32 = 200;
/// Time after which one more line may be written.
const REFILL: Duration = Duration::from_millis(50);

/// Writes one line per change while the rate allows it, and counts the others.
#[derive(Debug)]
pub(crate) struct PhaseLog {
    state: Mutex<(TokenBucket, u64)>,
}

impl PhaseLog {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            state: Mutex::new((TokenBucket::new(BURST, REFILL, now), 0)),
        }
    }

    /// Logs a change, if the rate allows it. The first line after some were left out says how many. That a cluster was
    /// selected is not logged: it has had no phase before.
    pub(crate) fn log(&self, upgrade: &Regarding, change: &PhaseChange, now: Instant) {
        let record = &change.record;
        if change.before.is_none() && record.phase == Phase::Pending {
            return;
        }
        let Some(omitted) = self.admit(now) else {
            return;
        };
        let Regarding { namespace, name, .. } = upgrade;
        if omitted > 0 {
            tracing::info!(
                omitted,
                "changes of phases were not logged; the reports have them"
            );
        }
        tracing::info!(
            upgrade = %format_args!("{namespace}/{name}"),
            cluster = &*change.cluster,
            from = change.before.as_ref().map(|before| before.phase.as_str()),
            to = record.phase.as_str(),
            reason = record.reason_text(),
            detail = &*record.message,
            "a cluster changed its phase"
        );
    }

    /// Returns how many lines were left out before this one. `None`: this one is left out, too.
    fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (bucket, omitted) = &mut *state;
        if bucket.take(now).is_ok() {
            Some(std::mem::take(omitted))
        } else {
            *omitted += 1;
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_logged_the_rest_is_counted_and_told_with_the_next_line() {
        let begun = Instant::now();
        let log = PhaseLog::new(begun);
        for _ in 0..BURST {
            assert_eq!(log.admit(begun), Some(0));
        }
        for _ in 0..10_000 {
            assert_eq!(log.admit(begun), None);
        }
        assert_eq!(log.admit(begun + REFILL), Some(10_000));
        assert_eq!(log.admit(begun + REFILL * 2), Some(0));
    }

    #[test]
    fn ten_thousand_changes_within_a_second_are_a_burst_and_twenty_lines_and_none_is_lost_from_the_count() {
        let begun = Instant::now();
        let log = PhaseLog::new(begun);
        let (mut lines, mut omitted) = (0, 0);
        for number in 0..10_000 {
            if let Some(before) = log.admit(begun + Duration::from_micros(100) * number) {
                lines += 1;
                omitted += before;
            }
        }
        assert!((BURST..=BURST + 20).contains(&lines), "{lines}");
        let told = log.admit(begun + Duration::from_secs(2));
        assert_eq!(u64::from(lines) + omitted + told.unwrap(), 10_000);
    }
}
