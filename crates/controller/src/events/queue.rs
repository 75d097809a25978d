//! The queue between the reconcile loop and the sender of Events.
//!
//! It is bounded, remembers what was sent recently, and never blocks the reconcile loop.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::notice::Notice;

/// Largest number of waiting Events.
pub(super) const CAPACITY: usize = 512;
/// Time during which the same Event is not sent again.
pub(super) const REPEAT_AFTER: Duration = Duration::from_mins(10);
/// How many recent Events are remembered. Beyond this number the oldest is forgotten.
const MEMORY: usize = 4096;

/// The result of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushResult {
    /// The Event was queued.
    Queued,
    /// The Event was queued, and the oldest one was dropped for it.
    Displaced,
    /// The same Event was sent or queued recently.
    Duplicate,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    hasher: RandomState,
    filled: Notify,
}

#[derive(Debug, Default)]
struct QueueState {
    waiting: VecDeque<Notice>,
    /// When each Event was queued, by the hash of the Event.
    recent: HashMap<u64, Instant>,
    /// The keys of `recent` in the order of their times. May contain keys that were removed from `recent`.
    order: VecDeque<(u64, Instant)>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::default(),
            hasher: RandomState::new(),
            filled: Notify::new(),
        }
    }

    /// A poisoned lock is safe to use: a thread panicked between two consistent states.
    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, notice: Notice, now: Instant) -> PushResult {
        let key = self.hasher.hash_one(&notice);
        let mut state = self.state();
        state.expire(now);
        if state.recent.contains_key(&key) {
            return PushResult::Duplicate;
        }
        state.recent.insert(key, now);
        state.order.push_back((key, now));
        let displaced = if state.waiting.len() >= CAPACITY {
            state.waiting.pop_front()
        } else {
            None
        };
        if let Some(displaced) = &displaced {
            let key = self.hasher.hash_one(displaced);
            state.recent.remove(&key);
        }
        state.waiting.push_back(notice);
        drop(state);
        self.filled.notify_one();
        if displaced.is_some() {
            PushResult::Displaced
        } else {
            PushResult::Queued
        }
    }

    /// Waits for the oldest Event. Must have only one caller.
    pub(super) async fn pop(&self) -> Notice {
        loop {
            if let Some(notice) = self.try_pop() {
                return notice;
            }
            self.filled.notified().await;
        }
    }

    pub(super) fn try_pop(&self) -> Option<Notice> {
        self.state().waiting.pop_front()
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
