//! Limits how often probes of one cluster are created and deleted. What decides on that is told by the cluster itself, such as its labels,
//! so one that changes its mind all the time would make the controller write without end.

use std::sync::Arc;

use ahash::AHashMap;
use chrono::{DateTime, TimeDelta, Utc};

/// The most writes for one cluster within [`SPAN`].
const MAX_PER_SPAN: u32 = 12;
/// The time in which writes are counted.
const SPAN: TimeDelta = TimeDelta::minutes(1);

/// The first write of the present span for each cluster, and how many there were in it.
#[derive(Debug, Default)]
pub(super) struct WriteLimit {
    spans: AHashMap<Arc<str>, (DateTime<Utc>, u32)>,
}

fn is_over(begun: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    // The clock may have gone back.
    now < begun || now >= begun + SPAN
}

impl WriteLimit {
    /// True when there may be another write for the cluster.
    pub(super) fn allows(&self, cluster: &str, now: DateTime<Utc>) -> bool {
        let span = self.spans.get(cluster);
        span.is_none_or(|(begun, count)| *count < MAX_PER_SPAN || is_over(*begun, now))
    }

    /// Counts a write.
    pub(super) fn take(&mut self, cluster: &Arc<str>, now: DateTime<Utc>) {
        let (begun, count) = self.spans.entry(Arc::clone(cluster)).or_insert((now, 0));
        if is_over(*begun, now) {
            (*begun, *count) = (now, 0);
        }
        *count += 1;
    }

    /// Forgets spans that are over.
    pub(super) fn forget(&mut self, now: DateTime<Utc>) {
        self.spans.retain(|_, (begun, _)| !is_over(*begun, now));
    }

    /// When a cluster may be written for again.
    pub(super) fn next(&self) -> Option<DateTime<Utc>> {
        let full = self.spans.values().filter(|(_, count)| *count >= MAX_PER_SPAN);
        full.map(|(begun, _)| *begun + SPAN).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_gets_some_writes_a_minute_and_the_others_are_not_concerned() {
        let (mut limit, now) = (
            WriteLimit::default(),
            DateTime::UNIX_EPOCH + TimeDelta::days(20_000),
        );
        let (c1, c2) = (Arc::<str>::from("c1"), Arc::<str>::from("c2"));
        for second in 0..12 {
            let at = now + TimeDelta::seconds(second);
            assert!(limit.allows(&c1, at));
            assert_eq!(limit.next(), None);
            limit.take(&c1, at);
        }
        let later = now + TimeDelta::seconds(59);
        assert!(!limit.allows(&c1, later) && limit.allows(&c2, later));
        assert_eq!(limit.next(), Some(now + SPAN));
        assert!(limit.allows(&c1, now + SPAN));
        assert!(limit.allows(&c1, now - SPAN), "the clock was set back");
        limit.forget(later);
        assert!(!limit.allows(&c1, later));
        limit.take(&c1, now + SPAN);
        assert!(limit.allows(&c1, now + SPAN));
        limit.forget(now + SPAN + SPAN);
        assert!(limit.spans.is_empty());
    }
}
