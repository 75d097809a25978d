//! A bound on how often the same thing is done to the same cluster, whatever asks for it.
//!
//! Every action is planned from what was observed, so one whose effect is never observed (an agent that undoes it, a clock
//! that hides it) would be planned again at every pass. The bound turns such a loop into a few writes a minute.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use api::names::Step;

use crate::telemetry::labels::WriteKind;

/// How often the same action may be taken for the same cluster within [`SPAN`]. A creation that fails is tried again
/// after pauses that grow, which comes to fewer.
const MOST: usize = 12;
/// The time over which actions are counted.
const SPAN: Duration = Duration::from_mins(1);
/// So many entries are kept before those that have run out are dropped.
const ENTRIES: usize = 256;

/// When actions were taken for the clusters of one upgrade.
#[derive(Debug, Default)]
pub struct ActionLimit {
    taken: AHashMap<(Arc<str>, Step, WriteKind), VecDeque<Instant>>,
}

impl ActionLimit {
    /// Notes an action and returns `None`, or returns how long to wait if it has been taken too often.
    pub fn take(
        &mut self,
        cluster: &Arc<str>,
        step: Step,
        kind: WriteKind,
        now: Instant,
    ) -> Option<Duration> {
        if self.taken.len() >= ENTRIES {
            self.taken
                .retain(|_, times| times.back().is_some_and(|last| now.duration_since(*last) < SPAN));
        }
        let times = self.taken.entry((Arc::clone(cluster), step, kind)).or_default();
        while times
            .front()
            .is_some_and(|first| now.duration_since(*first) >= SPAN)
        {
            times.pop_front();
        }
        if times.len() >= MOST {
            return times.front().map(|first| SPAN - now.duration_since(*first));
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
        let (mut limit, start) = (ActionLimit::default(), Instant::now());
        let (one, other): (Arc<str>, Arc<str>) = (Arc::from("c1"), Arc::from("c2"));
        let mut taken = 0;
        for millis in (0..120_000).step_by(25) {
            let now = start + Duration::from_millis(millis);
            taken += usize::from(limit.take(&one, Step::Platform, WriteKind::Mark, now).is_none());
        }
        assert_eq!(taken, 2 * MOST);
        let end = start + SPAN * 2;
        assert!(
            limit
                .take(&one, Step::Platform, WriteKind::Mark, end - SPAN / 60)
                .is_some()
        );
        assert_eq!(limit.take(&one, Step::Platform, WriteKind::Delete, end), None);
        assert_eq!(limit.take(&one, Step::Operators, WriteKind::Mark, end), None);
        assert_eq!(limit.take(&other, Step::Platform, WriteKind::Mark, end), None);
    }

    #[test]
    fn what_has_run_out_is_forgotten() {
        let (mut limit, start) = (ActionLimit::default(), Instant::now());
        for number in 0..10 * ENTRIES {
            let now = start + SPAN * u32::try_from(number / ENTRIES).unwrap();
            let cluster = Arc::from(format!("c{number}"));
            assert_eq!(limit.take(&cluster, Step::Platform, WriteKind::Create, now), None);
        }
        assert!(limit.taken.len() <= 2 * ENTRIES, "{}", limit.taken.len());
    }
}
