//! Waits after failed writes, and what the result of a write says about whether it took effect.

use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use observe::writes::{Backoff, Forbidden};

use crate::apply::{Category, Retry, WriteError, WriteResult};

/// Shortest and longest wait after a failed write.
pub(crate) const BACKOFF: (TimeDelta, TimeDelta) = (TimeDelta::seconds(1), TimeDelta::seconds(60));
/// Shortest and longest wait before a blocked step is tried again (`docs/design/rules.md#foreign-works`).
pub(crate) const BLOCKER_RETRY: (TimeDelta, TimeDelta) = (TimeDelta::seconds(30), TimeDelta::seconds(300));

/// How long a write may be on its way to the hub after it was sent, even if nobody waits for its response any more: as long as a
/// writer waits for one, and as sent data may remain unacknowledged (`WRITE_TIMEOUT` and `ACKNOWLEDGED`).
const ON_THE_WAY: Duration = Duration::from_secs(30);

/// The wait after another failure.
pub(crate) fn after_failure(before: Option<&Backoff>, now: DateTime<Utc>, error: &WriteError) -> Backoff {
    let failures = before.map_or(0, |backoff| backoff.failures);
    Backoff {
        until: now + doubled(BACKOFF, failures),
        failures: failures + 1,
        text: Arc::from(error.message.as_str()),
        uncertain: error.category() != Category::Refused || before.is_some_and(|backoff| backoff.uncertain),
        start_forbidden: before.and_then(|backoff| backoff.start_forbidden),
        deletion_forbidden: before.and_then(|backoff| backoff.deletion_forbidden),
    }
}

/// Notes whether the hub has forbidden a write. Any other error ends what was known of writes of that sort.
pub(crate) fn note_forbidden(known: &mut Option<Forbidden>, now: DateTime<Utc>, error: &WriteError) {
    let first = known.map_or(now, |known| known.first.min(now));
    let is_forbidden = error.retry() == Retry::OncePermitted;
    *known = is_forbidden.then_some(Forbidden { first, last: now });
}

/// The wait after an action that was requested too often.
pub(crate) fn held_off(before: Option<&Backoff>, now: DateTime<Utc>, text: &str, wait: Duration) -> Backoff {
    Backoff {
        until: now + TimeDelta::from_std(wait).unwrap_or(BACKOFF.1),
        failures: before.map_or(0, |backoff| backoff.failures),
        text: Arc::from(text),
        uncertain: before.is_some_and(|backoff| backoff.uncertain),
        start_forbidden: before.and_then(|backoff| backoff.start_forbidden),
        deletion_forbidden: before.and_then(|backoff| backoff.deletion_forbidden),
    }
}

/// Limits a wait to its maximum, in case the clock was set back.
pub(crate) fn clamp(backoff: &mut Backoff, now: DateTime<Utc>) {
    backoff.until = backoff.until.min(now + BACKOFF.1);
}

/// What a result says about whether a write took effect.
pub(crate) enum Certainty {
    Done,
    Refused,
    PutOff,
    Unknown,
    Unsent,
}

pub(crate) fn certainty(outcome: &WriteResult) -> Certainty {
    match outcome {
        WriteResult::Work(_)
        | WriteResult::DeletionAccepted { .. }
        | WriteResult::Upgrade(_)
        | WriteResult::Report(_)
        | WriteResult::ReportDeleted => Certainty::Done,
        WriteResult::Gone
        | WriteResult::Rival(_)
        | WriteResult::WorkChanged(_)
        | WriteResult::Foreign
        | WriteResult::ForeignTerminating
        | WriteResult::Refused(_)
        | WriteResult::ReportRefused { .. }
        | WriteResult::UpgradeChanged(_)
        | WriteResult::ReportChanged(_)
        | WriteResult::NamespaceTerminating
        | WriteResult::NamespaceMissing => Certainty::Refused,
        WriteResult::NotLeading => Certainty::Unsent,
        WriteResult::Failed(error) => match error.category() {
            Category::Refused => Certainty::Refused,
            Category::PutOff => Certainty::PutOff,
            Category::Unknown => Certainty::Unknown,
        },
        WriteResult::GivenUp => Certainty::Unknown,
    }
}

/// When a write without a response counts as given up. The end of a term does not call back what was sent shortly before it.
pub(crate) fn given_up_at(outcome: &WriteResult, now: Instant) -> Instant {
    if matches!(outcome, WriteResult::GivenUp) {
        now + ON_THE_WAY
    } else {
        now
    }
}

/// A wait that doubles each time, up to its maximum.
pub(crate) fn doubled((first, most): (TimeDelta, TimeDelta), times: u32) -> TimeDelta {
    first.checked_mul(1 << times.min(10)).unwrap_or(most).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_their_bound() {
        let waits: Vec<i64> = (0..9)
            .map(|times| doubled(BACKOFF, times).num_seconds())
            .collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(doubled(BLOCKER_RETRY, 40), TimeDelta::seconds(300));
    }

    #[test]
    fn a_write_is_on_its_way_for_as_long_as_a_writer_waits() {
        assert_eq!(ON_THE_WAY, crate::controller::WRITE_TIMEOUT);
    }
}
