//! The queue between the reconcile loop and the sender of Events.
//!
//! It is bounded, remembers what was sent recently, and never blocks the reconcile loop.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::gather::Gathered;
use super::notice::Notice;
use crate::metrics::Metrics;
use crate::metrics::labels::EventDrop;

/// Largest number of waiting Events.
pub(super) const CAPACITY: usize = 512;
/// Time during which the same Event is not sent again.
pub(super) const REPEAT_AFTER: Duration = Duration::from_mins(10);
/// How many recent Events are remembered. Beyond this number the oldest is forgotten.
const MEMORY: usize = 4096;

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    hasher: RandomState,
    filled: Notify,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Notice>,
    /// Events that are held back to be sent together.
    gathered: Gathered,
    /// When each Event was queued, by the hash of the Event.
    recent: HashMap<u64, Instant>,
    /// The keys of `recent` in the order of their times. May contain keys that were removed from `recent`.
    order: VecDeque<(u64, Instant)>,
}

impl Queue {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            state: Mutex::default(),
            hasher: RandomState::new(),
            filled: Notify::new(),
            metrics,
        }
    }

    /// A poisoned lock is safe to use: a thread panicked between two consistent states.
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an Event. One about a cluster that goes well is held back, and sent with others or before the next one about its
    /// upgrade.
    pub(super) fn push(&self, notice: Notice, now: Instant) {
        let mut state = self.state();
        if notice.is_routine() {
            state.gathered.add(notice, now);
        } else {
            if notice.cluster.is_none() {
                let earlier = state.gathered.take_of(&notice.regarding.uid);
                self.enqueue(&mut state, earlier, now);
            }
            self.enqueue(&mut state, [notice], now);
        }
        drop(state);
        self.filled.notify_one();
    }

    /// Appends Events, except those that were queued recently. The oldest ones make room.
    fn enqueue(&self, state: &mut QueueState, notices: impl IntoIterator<Item = Notice>, now: Instant) {
        state.expire(now);
        for notice in notices {
            let key = self.hasher.hash_one(&notice);
            if state.recent.contains_key(&key) {
                self.metrics.event_dropped(EventDrop::Duplicate);
                continue;
            }
            state.recent.insert(key, now);
            state.order.push_back((key, now));
            if state.waiting.len() >= CAPACITY
                && let Some(displaced) = state.waiting.pop_front()
            {
                let key = self.hasher.hash_one(&displaced);
                state.recent.remove(&key);
                self.metrics.event_dropped(EventDrop::QueueFull);
            }
            state.waiting.push_back(notice);
        }
    }

    /// Waits for the oldest Event. Must have only one caller.
    pub(super) async fn pop(&self) -> Notice {
        loop {
            let now = Instant::now();
            let held_until = {
                let mut state = self.state();
                let due = state.gathered.take_due(now);
                self.enqueue(&mut state, due, now);
                if let Some(notice) = state.waiting.pop_front() {
                    return notice;
                }
                state.gathered.due_at()
            };
            let filled = self.filled.notified();
            match held_until {
                // When the time has passed, the loop takes what is due.
                Some(at) => drop(tokio::time::timeout_at(at, filled).await),
                None => filled.await,
            }
        }
    }

    /// The oldest Event, without waiting.
    pub(super) fn try_pop(&self) -> Option<Notice> {
        self.state().waiting.pop_front()
    }

    /// The oldest Event, even if it is held back.
    pub(super) fn pop_held(&self) -> Option<Notice> {
        let mut state = self.state();
        let all = state.gathered.take_all();
        self.enqueue(&mut state, all, Instant::now());
        state.waiting.pop_front()
    }

    /// Records that the Event was not sent, so that it may be published again.
    pub(super) fn forget(&self, notice: &Notice) {
        let key = self.hasher.hash_one(notice);
        self.state().recent.remove(&key);
    }
}

impl QueueState {
    fn expire(&mut self, now: Instant) {
        while let Some((key, queued)) = self.order.front().copied() {
            if now.duration_since(queued) < REPEAT_AFTER && self.order.len() < MEMORY {
                return;
            }
            self.order.pop_front();
            if self.recent.get(&key) == Some(&queued) {
                self.recent.remove(&key);
            }
        }
    }
}
