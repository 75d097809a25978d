//! Limits how often the same operation is executed for the same cluster, whatever its reason.
//!
//! Every operation is planned from observed state. If its effect is never observed (for example because an agent
//! reverts it, or a clock hides it), every pass would plan it again. The limit reduces such a loop to a few
//! writes a minute.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use api::names::Step;

use rollout::OperationKind;

/// How often the same operation may be executed for the same cluster within [`SPAN`]. Creations that fail stay
/// below this limit, because the wait between them grows.
const MAX_PER_SPAN: usize = 12;
/// The time span in which operations are counted.
const SPAN: Duration = Duration::from_mins(1);
/// Number of entries from which expired ones are removed for the first time.
const ENTRIES: usize = 256;

/// When operations were executed for the clusters of one upgrade.
#[derive(Debug, Default)]
pub struct OperationLimit {
    taken: AHashMap<(Arc<str>, Step, OperationKind), VecDeque<Instant>>,
    /// Number of entries that the last removal left.
    kept: usize,
}

impl OperationLimit {
    /// Records an operation and returns `None`, or returns how long to wait if it was executed too often.
    pub fn take(
        &mut self,
        cluster: &Arc<str>,
        step: Step,
        kind: OperationKind,
        now: Instant,
    ) -> Option<Duration> {
        // The entries are read only when their number has doubled, so an operation costs the same in any fleet.
        if self.taken.len() >= ENTRIES.max(2 * self.kept) {
            self.taken
                .retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) < SPAN));
            self.kept = self.taken.len();
        }
        let times = self.taken.entry((Arc::clone(cluster), step, kind)).or_default();
        while times
            .front()
            .is_some_and(|first| now.duration_since(*first) >= SPAN)
        {
            times.pop_front();
        }
        if times.len() >= MAX_PER_SPAN {
            return times.front().map(|first| (*first + SPAN).duration_since(now));
        }
        times.push_back(now);
        None
    }
}

#[cfg(test)]
mod tests;
