//! Queues of jobs by urgency.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use super::Job;

/// Urgency of a job, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Stops something.
    Halt,
    /// Records something others depend on.
    Record,
    /// Starts or advances a cluster.
    Start,
    /// Tidies up.
    CleanUp,
}

/// The queues. Jobs of one lane are taken in order.
#[derive(Debug, Default)]
pub struct Lanes {
    queues: Mutex<[VecDeque<Job>; 4]>,
    waiting: Notify,
}

impl Lanes {
    /// Adds jobs.
    pub fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        let mut added = 0;
        {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            for job in jobs {
                queues[job.effect.lane() as usize].push_back(job);
                added += 1;
            }
        }
        for _ in 0..added {
            self.waiting.notify_one();
        }
        if added > 1 {
            self.waiting.notify_waiters();
        }
    }

    /// Takes all jobs out.
    pub fn drain(&self) -> Vec<Job> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.iter_mut().flat_map(std::mem::take).collect()
    }

    /// Takes the most urgent job; waits for one.
    pub async fn pop(&self) -> Job {
        loop {
            let notified = self.waiting.notified();
            if let Some(job) = self.try_pop() {
                return job;
            }
            notified.await;
        }
    }

    fn try_pop(&self) -> Option<Job> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.iter_mut().find_map(VecDeque::pop_front)
    }
}
