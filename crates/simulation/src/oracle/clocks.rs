//! The hub's clock, and those of replicas.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

/// Clocks jump in runs in which they may be wrong by more than this.
pub(super) const CLOCK_JUMPS: Duration = Duration::from_secs(10);

/// How long before its creation a work may have begun, for whoever knows nothing but the work.
pub(super) const EARLY: TimeDelta = TimeDelta::minutes(1);

/// How long after it was sent, with its start, the creation of a work may be carried out.
pub(super) const CREATION_DELAY: TimeDelta = TimeDelta::minutes(2);

/// A start that is further in the future than this is recorded as now.
const AHEAD: TimeDelta = TimeDelta::minutes(1);

/// Whether a row may have this start for a work that names another one: a clock that was ahead gave it to the work, and the row has
/// the time at which whoever leads has found that. `earliest`: the work was not there before.
pub(super) fn is_recorded_as_now(
    named: DateTime<Utc>,
    earliest: DateTime<Utc>,
    started: DateTime<Utc>,
) -> bool {
    earliest <= started && started + AHEAD < named
}

/// The hub's time.
pub(super) fn wall(at: Duration) -> DateTime<Utc> {
    crate::time::begin() + TimeDelta::from_std(at).unwrap_or_default()
}
