//! Who gets clusters when: tests that need the whole fleet go first, the longest one next, and small ones fill up.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How urgent a test is, most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Needs every cluster, or the hub for itself.
    Whole,
    /// Takes longer than all others.
    Long,
    /// Anything else.
    Part,
}

/// Clusters by number, from 0, and who waits for them.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug)]
struct State {
    free: Vec<bool>,
    waiting: Vec<Waiting>,
    next: usize,
    /// Long tests that run.
    long: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    rank: Rank,
    ticket: usize,
    count: usize,
}

/// Clusters of a test; they are free again when it is dropped.
#[derive(Debug)]
pub struct Taken {
    queue: &'static Queue,
    rank: Rank,
    numbers: Vec<usize>,
    /// Which of them it still has.
    held: Mutex<Vec<bool>>,
}

impl Taken {
    /// Their numbers.
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// Whether the test still has this one of them, by index.
    pub fn holds(&self, index: usize) -> bool {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)[index]
    }

    /// Frees one of them, by index, before the test is over.
    pub fn let_go(&self, index: usize) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut held[index]) {
            self.queue.lock().free[self.numbers[index]] = true;
            self.queue.changed.notify_waiters();
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.queue.lock();
        state.long -= usize::from(self.rank == Rank::Long);
        // All at once: who needs several of them finds several.
        for (&number, _) in self.numbers.iter().zip(held.iter()).filter(|(_, held)| **held) {
            state.free[number] = true;
        }
        drop(state);
        self.queue.changed.notify_waiters();
    }
}

/// A place in the queue. A test that stops waiting leaves it.
#[derive(Debug)]
pub struct Place {
    queue: &'static Queue,
    waiting: Waiting,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.waiting.retain(|other| *other != self.waiting);
        drop(state);
        self.queue.changed.notify_waiters();
    }
}

impl Place {
    /// Waits for the clusters.
    pub async fn take(self) -> Taken {
        let queue = self.queue;
        loop {
            let changed = queue.changed.notified();
            let taken = queue.lock().serve(self.waiting);
            if let Some(numbers) = taken {
                let held = Mutex::new(vec![true; numbers.len()]);
                let rank = self.waiting.rank;
                return Taken {
                    queue,
                    rank,
                    numbers,
                    held,
                };
            }
            changed.await;
        }
    }
}

impl Queue {
    /// A queue for this number of clusters, all free.
    pub fn new(clusters: usize) -> Self {
        Self {
            state: Mutex::new(State::new(clusters)),
            changed: Notify::new(),
        }
    }

    /// Requests this number of clusters. Requests that arrive before the first one is served are served in the best order.
    pub fn enter(&'static self, count: usize, rank: Rank) -> Place {
        let mut state = self.lock();
        state.next += 1;
        let waiting = Waiting {
            rank,
            ticket: state.next,
            count,
        };
        state.waiting.push(waiting);
        Place { queue: self, waiting }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(clusters: usize) -> Self {
        Self {
            free: vec![true; clusters],
            waiting: Vec::new(),
            next: 0,
            long: 0,
        }
    }

    /// Gives clusters to a waiting test, unless a more urgent test could use them or waits for all. A test that waits for all
    /// has time while a long test runs.
    fn serve(&mut self, who: Waiting) -> Option<Vec<usize>> {
        let free = self.free.iter().filter(|free| **free).count();
        let gathers = |other: &Waiting| other.rank == Rank::Whole && self.long == 0;
        let blocks = |other: &Waiting| *other < who && (gathers(other) || other.count <= free);
        if who.count > free || self.waiting.iter().any(blocks) {
            return None;
        }
        self.long += usize::from(who.rank == Rank::Long);
        // From the end, because the first cluster serves preview kinds, which few tests need.
        let numbers: Vec<usize> = (0..self.free.len())
            .rev()
            .filter(|&number| self.free[number])
            .take(who.count)
            .collect();
        for &number in &numbers {
            self.free[number] = false;
        }
        self.waiting.retain(|other| *other != who);
        Some(numbers.into_iter().rev().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(state: &mut State, rank: Rank, count: usize) -> Waiting {
        state.next += 1;
        let ticket = state.next;
        let waiting = Waiting { rank, ticket, count };
        state.waiting.push(waiting);
        waiting
    }

    #[test]
    fn the_whole_fleet_goes_first_and_small_tests_fill_what_is_left() {
        let mut state = State::new(3);
        let small = waits(&mut state, Rank::Part, 1);
        let pair = waits(&mut state, Rank::Part, 2);
        let long = waits(&mut state, Rank::Long, 1);
        let whole = waits(&mut state, Rank::Whole, 3);
        assert_eq!(state.serve(small), None);
        assert_eq!(state.serve(long), None);
        assert_eq!(state.serve(whole), Some(vec![0, 1, 2]));
        state.free = vec![true; 3];
        assert_eq!(state.serve(small), None, "the long one goes first");
        assert_eq!(state.serve(long), Some(vec![2]));
        assert_eq!(state.serve(small), Some(vec![1]));
        assert_eq!(state.serve(pair), None);
    }

    #[test]
    fn nobody_waits_for_who_waits_for_a_long_test() {
        let mut state = State::new(3);
        let long = waits(&mut state, Rank::Long, 1);
        assert_eq!(state.serve(long), Some(vec![2]));
        let whole = waits(&mut state, Rank::Whole, 3);
        let pair = waits(&mut state, Rank::Part, 2);
        assert_eq!(state.serve(whole), None);
        assert_eq!(state.serve(pair), Some(vec![0, 1]));
        state.long = 0;
        state.free = vec![true, true, false];
        let small = waits(&mut state, Rank::Part, 1);
        assert_eq!(state.serve(small), None, "the whole fleet gathers");
    }
}
