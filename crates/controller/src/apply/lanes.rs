//! Queues of jobs by urgency.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use super::Job;
use super::pace::Pace;

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
    queues: Mutex<Queues>,
    /// For every writer.
    urgent: Notify,
    /// For those that tidy up.
    untidy: Notify,
}

#[derive(Debug, Default)]
struct Queues {
    lanes: [VecDeque<Job>; 4],
    pace: Pace,
}

/// What a writer finds.
enum Found {
    Job(Job),
    /// Nothing before this time, as far as is known.
    Nothing(Option<Instant>),
}

impl Lanes {
    /// Adds jobs.
    pub fn push(&self, jobs: impl IntoIterator<Item = Job>) {
        let (mut urgent, mut untidy) = (0_usize, 0_usize);
        {
            let mut queues = self.queues();
            for job in jobs {
                let lane = job.effect.lane();
                *(if lane == Lane::CleanUp {
                    &mut untidy
                } else {
                    &mut urgent
                }) += 1;
                queues.lanes[lane as usize].push_back(job);
            }
        }
        call(&self.urgent, urgent);
        call(&self.untidy, untidy);
    }

    /// Takes all jobs out.
    pub fn drain(&self) -> Vec<Job> {
        self.queues().lanes.iter_mut().flat_map(std::mem::take).collect()
    }

    /// Takes the most urgent job; waits for one. A writer that does not tidy up is free whenever something is to be
    /// started: deletions come in the same bursts as starts and would otherwise keep them waiting.
    pub async fn pop(&self, tidies: bool) -> Job {
        loop {
            let (urgent, untidy) = (self.urgent.notified(), self.untidy.notified());
            let later = match self.try_pop(tidies, Instant::now()) {
                Found::Job(job) => return job,
                Found::Nothing(later) => later,
            };
            tokio::select! {
                () = urgent => {}
                () = untidy, if tidies => {}
                () = tokio::time::sleep_until(later.unwrap_or_else(Instant::now).into()), if later.is_some() => {}
            }
        }
    }

    /// How many jobs wait that somebody waits for: all but tidying up.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let waited_for = &self.queues().lanes[..Lane::CleanUp as usize];
        waited_for.iter().map(VecDeque::len).sum()
    }

    fn try_pop(&self, tidies: bool, now: Instant) -> Found {
        let mut queues = self.queues();
        let Queues { lanes, pace } = &mut *queues;
        let [halt, record, start, clean_up] = lanes;
        if let Some(job) = halt.pop_front().or_else(|| record.pop_front()) {
            return Found::Job(job);
        }
        if let Some(job) = start.pop_front() {
            pace.start(now);
            return Found::Job(job);
        }
        if !tidies || clean_up.is_empty() {
            return Found::Nothing(None);
        }
        let due = pace.due(now);
        if due > now {
            return Found::Nothing(Some(due));
        }
        let job = clean_up.pop_front();
        pace.tidy(now, clean_up.len());
        job.map_or(Found::Nothing(None), Found::Job)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
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
