//! The news of writes: watches and the garbage collector wait for them.
//!
//! Waiting tasks wake in the order in which they began to wait. `tokio::sync::watch` wakes them in random order, so a run could
//! not be repeated. A watch wakes only for writes to its kind.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::state::KindId;

/// How often the objects of a hub were written, and those who wait for the next time.
#[derive(Debug, Default)]
pub(crate) struct Writes(Mutex<Board>);

#[derive(Debug, Default)]
struct Board {
    /// How often there was news.
    count: u64,
    /// The same by kind.
    counts: Vec<u64>,
    /// Those who wait and what for, by the order in which they began to wait.
    waiting: BTreeMap<u64, (Option<KindId>, Waker)>,
    next: u64,
}

/// Waits for writes.
#[derive(Clone, Debug)]
pub struct News {
    writes: Arc<Writes>,
    /// The kind that it is about; all if there is none.
    kind: Option<KindId>,
    /// How much news was seen.
    seen: u64,
}

impl Writes {
    fn lock(&self) -> MutexGuard<'_, Board> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that objects of these kinds were written.
    pub(crate) fn publish(&self, kinds: &[KindId]) {
        if !kinds.is_empty() {
            let wakers = self.lock().tell(|kind| kinds.contains(&kind));
            wakers.into_iter().for_each(Waker::wake);
        }
    }

    /// Tells everybody to look again.
    pub(crate) fn reset(&self) {
        let wakers = self.lock().tell(|_| true);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Board {
    /// Counts news about some kinds. Returns whom to wake.
    fn tell(&mut self, is_about: impl Fn(KindId) -> bool) -> Vec<Waker> {
        self.count += 1;
        for (kind, count) in self.counts.iter_mut().enumerate() {
            *count += u64::from(is_about(kind));
        }
        let mut wakers = Vec::new();
        self.waiting.retain(|_, (kind, waker)| {
            let is_meant = kind.is_none_or(&is_about);
            if is_meant {
                wakers.push(waker.clone());
            }
            !is_meant
        });
        wakers
    }

    fn count(&self, kind: Option<KindId>) -> u64 {
        kind.map_or(self.count, |kind| {
            self.counts.get(kind).copied().unwrap_or_default()
        })
    }
}

impl News {
    pub(crate) fn new(writes: &Arc<Writes>, kind: Option<KindId>) -> Self {
        let mut board = writes.lock();
        if let Some(kind) = kind
            && board.counts.len() <= kind
        {
            board.counts.resize(kind + 1, 0);
        }
        Self {
            seen: board.count(kind),
            writes: Arc::clone(writes),
            kind,
        }
    }

    /// Counts all writes until now as seen.
    pub fn see(&mut self) {
        self.seen = self.writes.lock().count(self.kind);
    }

    /// Waits until there was a write that was not seen, and counts it as seen.
    pub async fn changed(&mut self) {
        Changed {
            news: self,
            ticket: None,
        }
        .await;
    }
}

/// Becomes ready when there is news.
struct Changed<'a> {
    news: &'a mut News,
    /// Its place among those who wait.
    ticket: Option<u64>,
}

impl Future for Changed<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut board = this.news.writes.lock();
        let (kind, count) = (this.news.kind, board.count(this.news.kind));
        if count != this.news.seen {
            drop(board);
            this.news.seen = count;
            return Poll::Ready(());
        }
        let ticket = *this.ticket.get_or_insert_with(|| {
            board.next += 1;
            board.next
        });
        board.waiting.insert(ticket, (kind, context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Changed<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.news.writes.lock().waiting.remove(&ticket);
        }
    }
}

#[cfg(test)]
mod tests;
