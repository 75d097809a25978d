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
    /// For every writer.
    urgent: Notify,
    /// For those that tidy up.
    untidy: Notify,
}

impl Lanes {
    /// Adds jobs.
    pub fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        let (mut urgent, mut untidy) = (0_usize, 0_usize);
        {
            let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
            for job in jobs {
                let lane = job.effect.lane();
                *(if lane == Lane::CleanUp {
                    &mut untidy
                } else {
                    &mut urgent
                }) += 1;
                queues[lane as usize].push_back(job);
            }
        }
        call(&self.urgent, urgent);
        call(&self.untidy, untidy);
    }

    /// Takes all jobs out.
    pub fn drain(&self) -> Vec<Job> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.iter_mut().flat_map(std::mem::take).collect()
    }

    /// Takes the most urgent job; waits for one. A writer that does not tidy up is free whenever something is to be
    /// started: deletions come in the same bursts as starts and would otherwise keep them waiting.
    pub async fn pop(&self, tidies: bool) -> Job {
        loop {
            let (urgent, untidy) = (self.urgent.notified(), self.untidy.notified());
            if let Some(job) = self.try_pop(tidies) {
                return job;
            }
            tokio::select! {
                () = urgent => {}
                () = untidy, if tidies => {}
            }
        }
    }

    /// How many jobs wait that somebody waits for: all but tidying up.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues[..Lane::CleanUp as usize].iter().map(VecDeque::len).sum()
    }

    fn try_pop(&self, tidies: bool) -> Option<Job> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let lanes = if tidies { 4 } else { Lane::CleanUp as usize };
        queues[..lanes].iter_mut().find_map(VecDeque::pop_front)
    }
}

fn call(waiting: &Notify, jobs: usize) {
    for _ in 0..jobs {
        waiting.notify_one();
    }
    if jobs > 1 {
        waiting.notify_waiters();
    }
}
