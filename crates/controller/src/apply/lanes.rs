//! Queues of jobs by urgency.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Error;
use tokio::sync::Notify;

use super::Job;
use super::execute::load;
use super::gate::{Gate, Load, Opening};
use super::pace::Pace;

/// How long a request that is no job waits before it looks again whether another one has ended.
const PATIENCE: Duration = Duration::from_millis(100);

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
    gate: Gate,
    /// The last job was a record.
    recorded: bool,
    /// Requests that are no jobs and wait at the gate.
    waiting: usize,
}

/// What a writer finds.
enum Found {
    Job(Job),
    /// Nothing before this time, as far as is known.
    Nothing(Option<Instant>),
}

/// A request that is no job and waits at the gate.
struct Waiting<'a>(&'a Lanes);

impl<'a> Waiting<'a> {
    fn new(lanes: &'a Lanes) -> Waiting<'a> {
        lanes.queues().waiting += 1;
        Waiting(lanes)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.queues().waiting -= 1;
    }
}

/// A request that is under way; its end is told even when it is given up.
struct Passing<'a> {
    lanes: &'a Lanes,
    begun: Instant,
    load: Load,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.lanes.ended(self.begun, self.load);
    }
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

    /// Says how many writers there are.
    pub fn set_writers(&self, writers: usize) {
        self.queues().gate.widen(writers);
    }

    /// Notes how a job ended that was taken out then; every job that [`Lanes::pop`] gave must be told of. How many writes may be
    /// under way now, and whether all writers pause.
    pub fn ended(&self, begun: Instant, load: Load) -> (usize, bool) {
        let (narrowed, told) = {
            let gate = &mut self.queues().gate;
            let narrowed = gate.is_narrowed() || gate.is_full();
            let paused = gate.end(begun, Instant::now(), load);
            (narrowed, (gate.limit(), paused))
        };
        if narrowed {
            // Others may have waited for the end of this one.
            self.urgent.notify_waiters();
            self.untidy.notify_waiters();
        }
        told
    }

    /// Sends a request that is no job through the gate.
    ///
    /// # Errors
    /// Those of the request.
    pub async fn pass<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.wait_to_pass().await;
        let mut passing = Passing {
            lanes: self,
            begun: Instant::now(),
            load: Load::Unknown,
        };
        let answer = request.await;
        passing.load = answer.as_ref().map_or_else(load, |_| Load::Served);
        answer
    }

    /// Begins a request that is no job. While one waits, the writers leave room for it.
    async fn wait_to_pass(&self) {
        let _waiting = Waiting::new(self);
        loop {
            let opening = {
                let gate = &mut self.queues().gate;
                let opening = gate.opens(Instant::now());
                if opening == Opening::Now {
                    gate.begin();
                }
                opening
            };
            match opening {
                Opening::Now => return,
                Opening::At(at) => tokio::time::sleep_until(at.into()).await,
                Opening::AfterAnother => tokio::time::sleep(PATIENCE).await,
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
        let Queues {
            lanes,
            pace,
            gate,
            recorded,
            waiting,
        } = &mut *queues;
        match gate.opens(now) {
            Opening::Now if *waiting > 0 && gate.is_last() => return Found::Nothing(Some(now + PATIENCE)),
            Opening::Now => {}
            Opening::At(at) => return Found::Nothing(Some(at)),
            Opening::AfterAnother => return Found::Nothing(None),
        }
        let [halt, record, start, clean_up] = lanes;
        if let Some(job) = halt.pop_front() {
            gate.begin();
            return Found::Job(job);
        }
        // Where the hub bears little, neither keeps the other waiting for ever.
        let turn_of_starts = gate.is_narrowed() && *recorded && !start.is_empty();
        if !turn_of_starts && let Some(job) = record.pop_front() {
            *recorded = true;
            gate.begin();
            return Found::Job(job);
        }
        if let Some(job) = start.pop_front() {
            *recorded = false;
            pace.start(now);
            gate.begin();
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
        gate.begin();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apply::Effect;

    fn start(cluster: &str) -> Job {
        Job {
            upgrade: std::sync::Arc::from("u1"),
            effect: Effect::MarkSoak {
                cluster: std::sync::Arc::from(cluster),
                step: api::names::Step::Platform,
                uid: std::sync::Arc::from("w1"),
                patch: serde_json::Value::Null,
            },
        }
    }

    async fn pops(lanes: &Lanes) -> bool {
        tokio::time::timeout(Duration::from_secs(1), lanes.pop(false))
            .await
            .is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_goes_on_when_a_read_that_was_in_its_way_has_ended() {
        let lanes = std::sync::Arc::new(Lanes::default());
        lanes.set_writers(1);
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let reading = tokio::spawn({
            let lanes = std::sync::Arc::clone(&lanes);
            async move { lanes.pass(async { Ok(released.await.is_ok()) }).await }
        });
        tokio::task::yield_now().await;
        lanes.push([start("c1")]);
        let writer = tokio::spawn({
            let lanes = std::sync::Arc::clone(&lanes);
            async move { pops(&lanes).await }
        });
        tokio::time::sleep(Duration::from_millis(500)).await;
        release.send(()).unwrap();
        assert!(reading.await.unwrap().unwrap());
        assert!(writer.await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_gets_its_turn_among_writers_that_never_rest() {
        let lanes = std::sync::Arc::new(Lanes::default());
        lanes.set_writers(1);
        let busy = tokio::spawn({
            let lanes = std::sync::Arc::clone(&lanes);
            async move {
                loop {
                    lanes.push([start("c1")]);
                    lanes.pop(false).await;
                    let begun = Instant::now();
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    lanes.ended(begun, Load::Served);
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        let read = lanes.pass(async { Ok::<_, Error>(()) });
        assert!(tokio::time::timeout(Duration::from_secs(5), read).await.is_ok());
        busy.abort();
    }
}
