//! The news of writes: watches and the garbage collector wait for them.
//!
//! Waiting tasks wake in the order in which they began to wait. `tokio::sync::watch` wakes them in random order, so a run could
//! not be repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// The revision of the last write, and those who wait for the next one.
#[derive(Debug, Default)]
pub(crate) struct Revisions {
    last: AtomicU64,
    changed: Notify,
}

/// Waits for writes.
#[derive(Clone, Debug)]
pub struct News {
    revisions: Arc<Revisions>,
    /// The last revision that was seen.
    seen: u64,
}

impl Revisions {
    /// Publishes the revision of the last write; wakes nobody if it is known already.
    pub(crate) fn publish(&self, revision: u64) {
        if self.last.fetch_max(revision, Ordering::AcqRel) < revision {
            self.changed.notify_waiters();
        }
    }
}

impl Revisions {
    /// Publishes a revision that may be older than the last one.
    pub(crate) fn reset(&self, revision: u64) {
        self.last.store(revision, Ordering::Release);
        self.changed.notify_waiters();
    }
}

impl News {
    pub(crate) fn new(revisions: &Arc<Revisions>) -> Self {
        Self {
            revisions: Arc::clone(revisions),
            seen: revisions.last.load(Ordering::Acquire),
        }
    }

    /// Counts all writes until now as seen.
    pub fn see(&mut self) {
        self.seen = self.revisions.last.load(Ordering::Acquire);
    }

    /// Waits until there was a write that was not seen, and counts it as seen.
    pub async fn changed(&mut self) {
        loop {
            // Created before the check, so that no write is missed between the two.
            let changed = self.revisions.changed.notified();
            let last = self.revisions.last.load(Ordering::Acquire);
            if last != self.seen {
                self.seen = last;
                return;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_for_a_write_wake_in_the_order_in_which_they_began_to_wait() {
        let revisions = Arc::new(Revisions::default());
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (mut news, order) = (News::new(&revisions), Arc::clone(&order));
            tasks.spawn(async move {
                news.changed().await;
                order.lock().unwrap().push(number);
            });
        }
        tokio::task::yield_now().await;
        revisions.publish(1);
        tasks.join_all().await;
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_before_the_wait_is_news_unless_it_was_seen() {
        let revisions = Arc::new(Revisions::default());
        let mut news = News::new(&revisions);
        revisions.publish(3);
        news.changed().await;
        revisions.publish(3);
        let waiting = std::time::Duration::from_secs(1);
        assert!(
            tokio::time::timeout(waiting, news.changed()).await.is_err(),
            "nothing new"
        );
        revisions.publish(4);
        news.see();
        assert!(
            tokio::time::timeout(waiting, news.changed()).await.is_err(),
            "seen"
        );
    }
}
