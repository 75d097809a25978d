//! The queue of write jobs, ordered by priority.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Error;
use tokio::sync::Notify;

use crate::clock;

use super::execute::load;
use super::gate::{GateState, Load, OverloadGate};
use super::throttle::CleanupThrottle;
use super::{Write, WriteJob};

/// How long a request outside the queue waits before it checks again whether another request has ended.
const MAX_READ_WAIT: Duration = Duration::from_millis(100);

/// Priority of a job, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Stops a running step.
    Halt,
    /// Records something that other writes depend on.
    Record,
    /// Starts or advances a cluster.
    Start,
    /// Cleans up.
    CleanUp,
}

/// The queue. Jobs of the same priority are taken in the order in which they were added.
#[derive(Debug)]
pub struct WriteQueue {
    queues: Mutex<Queues>,
    /// Wakes any writer.
    urgent: Notify,
    /// Wakes the writers that also clean up.
    cleanup: Notify,
}

#[derive(Debug)]
struct Queues {
    queue: [VecDeque<WriteJob>; 4],
    throttle: CleanupThrottle,
    gate: OverloadGate,
    /// The last job that was taken had [`Priority::Record`].
    recorded: bool,
    /// Number of requests outside the queue that wait at the gate.
    waiting: usize,
}

/// What a writer finds in the queue.
enum NextJob {
    /// This one.
    Ready(Box<WriteJob>),
    /// There is no job before this time, as far as is known.
    Wait(Option<Instant>),
}

/// A request outside the queue that waits at the gate.
struct WaitingReader<'a>(&'a WriteQueue);

impl<'a> WaitingReader<'a> {
    fn new(queue: &'a WriteQueue) -> WaitingReader<'a> {
        queue.queues().waiting += 1;
        WaitingReader(queue)
    }
}

impl Drop for WaitingReader<'_> {
    fn drop(&mut self) {
        self.0.queues().waiting -= 1;
    }
}

/// A request that is running. The gate learns of its end even when the future is dropped.
struct RunningRequest<'a> {
    queue: &'a WriteQueue,
    begun: Instant,
    load: Load,
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.queue.ended(self.begun, self.load);
    }
}

impl WriteQueue {
    /// An empty queue. The jitter of its gate follows from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let queues = Queues {
            queue: Default::default(),
            throttle: CleanupThrottle::default(),
            gate: OverloadGate::new(seed),
            recorded: false,
            waiting: 0,
        };
        Self {
            queues: Mutex::new(queues),
            urgent: Notify::new(),
            cleanup: Notify::new(),
        }
    }

    /// Adds jobs.
    pub fn push(&self, jobs: impl IntoIterator<Item = WriteJob>) {
        let (mut urgent, mut cleanup) = (0_usize, 0_usize);
        {
            let mut queues = self.queues();
            for job in jobs {
                let priority = job.write.priority();
                *(if priority == Priority::CleanUp {
                    &mut cleanup
                } else {
                    &mut urgent
                }) += 1;
                queues.queue[priority as usize].push_back(job);
            }
        }
        wake(&self.urgent, urgent);
        wake(&self.cleanup, cleanup);
    }

    /// Removes all jobs and returns them.
    pub fn drain(&self) -> Vec<WriteJob> {
        self.queues().queue.iter_mut().flat_map(std::mem::take).collect()
    }

    /// Removes the writes of an upgrade that its written rows permit, and returns them: deletions that clean up, and withdrawals.
    pub fn take_permitted_by_rows(&self, upgrade: &str) -> Vec<WriteJob> {
        let mut queues = self.queues();
        let mut all = Vec::new();
        for priority in [Priority::Halt, Priority::CleanUp] {
            let queue = &mut queues.queue[priority as usize];
            let is_permitted = |job: &WriteJob| {
                *job.upgrade == *upgrade && !matches!(job.write, Write::Delete { halt: true, .. })
            };
            let jobs = std::mem::take(queue).into_iter();
            let (taken, kept): (VecDeque<_>, VecDeque<_>) = jobs.partition(is_permitted);
            *queue = kept;
            all.extend(taken);
        }
        all
    }

    /// Takes the job with the highest priority; waits if there is none. A writer that does not clean up stays
    /// available for starts. Deletions come in the same bursts as starts and would otherwise delay them.
    pub async fn pop(&self, may_clean_up: bool) -> WriteJob {
        loop {
            let (urgent, cleanup) = (self.urgent.notified(), self.cleanup.notified());
            let later = match self.try_pop(may_clean_up, clock::now()) {
                NextJob::Ready(job) => return *job,
                NextJob::Wait(later) => later,
            };
            tokio::select! {
                biased;
                () = urgent => {}
                () = cleanup, if may_clean_up => {}
                () = tokio::time::sleep_until(later.unwrap_or_else(clock::now).into()), if later.is_some() => {}
            }
        }
    }

    /// Sets the number of writers.
    pub fn set_writers(&self, writers: usize) {
        self.queues().gate.set_writers(writers);
    }

    /// Records the result of a job that [`WriteQueue::pop`] returned; must be called for every such job.
    /// Returns how many writes may now run at a time, and whether all writers pause.
    pub fn ended(&self, begun: Instant, load: Load) -> (usize, bool) {
        let (narrowed, result) = {
            let gate = &mut self.queues().gate;
            let narrowed = gate.is_narrowed() || gate.is_full();
            let paused = gate.end(begun, clock::now(), load);
            (narrowed, (gate.limit(), paused))
        };
        if narrowed {
            // Other writers may have been waiting for the end of this request.
            self.urgent.notify_waiters();
            self.cleanup.notify_waiters();
        }
        result
    }

    /// Sends a request that is not in the queue through the gate.
    ///
    /// # Errors
    /// Returns the error of the request.
    pub async fn pass<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.wait_to_pass().await;
        let mut running = RunningRequest {
            queue: self,
            begun: clock::now(),
            load: Load::Unknown,
        };
        let answer = request.await;
        running.load = answer.as_ref().map_or_else(load, |_| Load::Served);
        answer
    }

    /// Waits until a request outside the queue may start. While one waits, the writers leave room for it.
    async fn wait_to_pass(&self) {
        let _waiting = WaitingReader::new(self);
        loop {
            let state = {
                let gate = &mut self.queues().gate;
                let state = gate.state(clock::now());
                if state == GateState::Open {
                    gate.begin();
                }
                state
            };
            match state {
                GateState::Open => return,
                GateState::ClosedUntil(at) => tokio::time::sleep_until(at.into()).await,
                GateState::Full => tokio::time::sleep(MAX_READ_WAIT).await,
            }
        }
    }

    /// Number of waiting jobs, not counting those that clean up.
    #[must_use]
    pub fn backlog(&self) -> usize {
        let waited_for = &self.queues().queue[..Priority::CleanUp as usize];
        waited_for.iter().map(VecDeque::len).sum()
    }

    fn try_pop(&self, may_clean_up: bool, now: Instant) -> NextJob {
        let mut queues = self.queues();
        let Queues {
            queue,
            throttle,
            gate,
            recorded,
            waiting,
        } = &mut *queues;
        match gate.state(now) {
            GateState::Open if *waiting > 0 && gate.is_last() => {
                return NextJob::Wait(Some(now + MAX_READ_WAIT));
            }
            GateState::Open => {}
            GateState::ClosedUntil(at) => return NextJob::Wait(Some(at)),
            GateState::Full => return NextJob::Wait(None),
        }
        let [halt, record, start, clean_up] = queue;
        if let Some(job) = halt.pop_front() {
            gate.begin();
            return NextJob::Ready(Box::new(job));
        }
        // If the hub can handle only little, records and starts take turns, so that neither waits forever.
        let turn_of_starts = gate.is_narrowed() && *recorded && !start.is_empty();
        if !turn_of_starts && let Some(job) = record.pop_front() {
            *recorded = true;
            gate.begin();
            return NextJob::Ready(Box::new(job));
        }
        if let Some(job) = start.pop_front() {
            *recorded = false;
            throttle.start(now);
            gate.begin();
            return NextJob::Ready(Box::new(job));
        }
        if !may_clean_up || clean_up.is_empty() {
            return NextJob::Wait(None);
        }
        let due = throttle.due(now);
        if due > now {
            return NextJob::Wait(Some(due));
        }
        let job = clean_up.pop_front();
        throttle.record_deletion(now, clean_up.len());
        gate.begin();
        job.map_or(NextJob::Wait(None), |job| NextJob::Ready(Box::new(job)))
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(waiting: &Notify, jobs: usize) {
    for _ in 0..jobs {
        waiting.notify_one();
    }
    if jobs > 1 {
        waiting.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
