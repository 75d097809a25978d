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
mod tests {
    use super::*;

    #[test]
    fn the_same_action_for_the_same_cluster_is_taken_a_few_times_a_minute() {
        let (mut limit, start) = (OperationLimit::default(), Instant::now());
        let (one, other): (Arc<str>, Arc<str>) = (Arc::from("c1"), Arc::from("c2"));
        let mut taken = 0;
        for millis in (0..120_000).step_by(25) {
            let now = start + Duration::from_millis(millis);
            taken += usize::from(
                limit
                    .take(&one, Step::Platform, OperationKind::MarkSoak, now)
                    .is_none(),
            );
        }
        assert_eq!(taken, 2 * MAX_PER_SPAN);
        let end = start + SPAN * 2;
        assert!(
            limit
                .take(
                    &one,
                    Step::Platform,
                    OperationKind::MarkSoak,
                    start + SPAN * 119 / 60
                )
                .is_some()
        );
        assert_eq!(limit.take(&one, Step::Platform, OperationKind::Delete, end), None);
        assert_eq!(
            limit.take(&one, Step::Operators, OperationKind::MarkSoak, end),
            None
        );
        assert_eq!(
            limit.take(&other, Step::Platform, OperationKind::MarkSoak, end),
            None
        );
    }

    #[test]
    fn what_has_run_out_is_forgotten() {
        let (mut limit, start) = (OperationLimit::default(), Instant::now());
        for number in 0..10 * ENTRIES {
            let now = start + SPAN * u32::try_from(number / ENTRIES).unwrap();
            let cluster = Arc::from(format!("c{number}"));
            assert_eq!(
                limit.take(&cluster, Step::Platform, OperationKind::Create, now),
                None
            );
        }
        assert!(limit.taken.len() <= 2 * ENTRIES, "{}", limit.taken.len());
    }

    #[test]
    fn operations_of_long_ago_are_forgotten_without_a_look_at_all_for_each() {
        let (mut limit, mut now) = (OperationLimit::default(), Instant::now());
        let mut most = 0;
        for number in 0..20_000 {
            let cluster: Arc<str> = Arc::from(format!("c{number}"));
            limit.take(&cluster, Step::Platform, OperationKind::Create, now);
            most = most.max(limit.taken.len());
            now += SPAN / 1_000;
        }
        // A thousand are younger than the span.
        assert!((1_000..=2_500).contains(&most), "{most}");
    }
}
