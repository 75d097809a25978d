//! The queue between the pipeline and the sender of Events.
//!
//! Owns the bound and the memory of what was sent lately. Refuses to wait on the pushing side.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Notice;

/// Events that may wait.
pub(super) const CAPACITY: usize = 512;
/// How long the same Event is not sent again.
pub(super) const REPEAT_AFTER: Duration = Duration::from_mins(10);
/// Events remembered for that; beyond it the oldest is forgotten.
const MEMORY: usize = 4096;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// It waits.
    Queued,
    /// It waits, the oldest does not any more.
    Displaced,
    /// It was sent or queued lately.
    Duplicate,
}

#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    hasher: RandomState,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Notice>,
    /// When each Event, by its hash, was queued.
    recent: HashMap<u64, Instant>,
    /// The keys of `recent` in the order of their times; a key forgotten in between may be left over.
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

    /// A poisoned lock only means that a thread ended between two consistent states.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, notice: Notice, now: Instant) -> Pushed {
        let key = self.hasher.hash_one(&notice);
        let mut state = self.state();
        state.expire(now);
        if state.recent.contains_key(&key) {
            return Pushed::Duplicate;
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
            Pushed::Displaced
        } else {
            Pushed::Queued
        }
    }

    /// Waits for the oldest Event. For one consumer.
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

    /// It was not sent after all, so it may be published again.
    pub(super) fn forget(&self, notice: &Notice) {
        let key = self.hasher.hash_one(notice);
        self.state().recent.remove(&key);
    }
}

impl State {
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
