//! One timer per cluster: when it next has something to do.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use crate::fields::Time;

/// A heap with one timer per cluster. Entries of timers that were moved forward stay in the heap and are skipped.
#[derive(Debug, Default)]
pub(super) struct Timers {
    heap: BinaryHeap<Reverse<(Time, Arc<str>)>>,
    armed: HashMap<Arc<str>, Time>,
}

impl Timers {
    /// Sets the timer of `cluster` to `at`, unless it is already set to an earlier time.
    pub fn arm(&mut self, cluster: &Arc<str>, at: Time) {
        if self.armed.get(cluster).is_none_or(|armed| at < *armed) {
            self.armed.insert(Arc::clone(cluster), at);
            self.heap.push(Reverse((at, Arc::clone(cluster))));
        }
    }

    /// Removes and returns a cluster whose timer is due.
    pub fn pop_due(&mut self, now: Time) -> Option<Arc<str>> {
        while let Some(Reverse((at, _))) = self.heap.peek() {
            if *at > now {
                return None;
            }
            let Reverse((at, cluster)) = self.heap.pop()?;
            if self.armed.get(&cluster) == Some(&at) {
                self.armed.remove(&cluster);
                return Some(cluster);
            }
        }
        None
    }

    /// The time of the next timer.
    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Timers;
    use crate::fields::from_unix;

    #[test]
    fn a_cluster_wakes_once_at_its_earliest_time() {
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        let mut timers = Timers::default();
        timers.arm(&a, from_unix(10));
        timers.arm(&a, from_unix(5));
        timers.arm(&a, from_unix(20));
        timers.arm(&b, from_unix(7));
        assert_eq!(timers.next(), Some(from_unix(5)));
        assert_eq!(timers.pop_due(from_unix(4)), None);
        assert_eq!(timers.pop_due(from_unix(10)), Some(Arc::clone(&a)));
        assert_eq!(timers.pop_due(from_unix(10)), Some(b));
        assert_eq!(timers.pop_due(from_unix(30)), None);
        timers.arm(&a, from_unix(40));
        assert_eq!(timers.pop_due(from_unix(40)), Some(a));
    }
}
