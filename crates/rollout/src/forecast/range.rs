//! When a rollout ends, as a range: many draws of the durations, scheduled on the slots.
//!
//! A draw takes microseconds per cluster, where playing the planner takes a thousand times as long. It knows less: canaries,
//! slots, time limits, soak and `maxFailures`, in the order in which the forecast started the clusters. A test keeps both
//! within one percent of each other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::forecast::{Forecast, Run};
use crate::model::{Fleet, Limit, Phase, Policy, Step, StepWork};

/// When the rollout ends in that share of the draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndRange {
    /// In half of the draws.
    pub p50: DateTime<Utc>,
    /// In 80 of 100 draws.
    pub p80: DateTime<Utc>,
    /// In 95 of 100 draws.
    pub p95: DateTime<Utc>,
    /// Draws in which more clusters failed than `maxFailures` allows.
    pub stopped: usize,
    /// Number of draws.
    pub draws: usize,
}

/// How a step goes on a cluster in a draw. Equal arguments must give equal results.
pub type DrawRun<'a> = &'a dyn Fn(u64, &str, Step) -> Run;

/// Draws the end of a rollout. `forecast` gives the order of the starts, and `fleet` the clusters that were in flight at
/// `now`. `None` if no cluster moves.
#[must_use]
pub fn end_range(
    now: DateTime<Utc>,
    policy: &Policy,
    fleet: &Fleet,
    forecast: &Forecast,
    run: DrawRun<'_>,
    draws: u32,
) -> Option<EndRange> {
    let schedule = Schedule::new(now, policy, fleet, forecast)?;
    let mut ends: Vec<Drawn> = (0..draws)
        .map(|draw| schedule.draw(run, u64::from(draw)))
        .collect();
    ends.sort_unstable_by_key(|drawn| drawn.end);
    let of = |percent: usize| ends.get((ends.len() * percent).div_ceil(100).saturating_sub(1));
    Some(EndRange {
        p50: of(50)?.end,
        p80: of(80)?.end,
        p95: of(95)?.end,
        stopped: ends.iter().filter(|drawn| drawn.stopped).count(),
        draws: ends.len(),
    })
}

/// The clusters in the order in which they get slots.
struct Schedule<'a> {
    now: DateTime<Utc>,
    policy: &'a Policy,
    slots: usize,
    max_failures: Option<usize>,
    failures: usize,
    in_flight: Vec<InFlight>,
    canaries: Vec<Arc<str>>,
    others: Vec<Arc<str>>,
}

/// A cluster that was under way when the forecast began.
struct InFlight {
    name: Arc<str>,
    canary: bool,
    step: Step,
    started: DateTime<Utc>,
}

struct Drawn {
    end: DateTime<Utc>,
    stopped: bool,
}

/// How long a cluster holds its slot, and how long the rest takes; `fails` while it holds the slot.
struct DrawnCourse {
    holds: TimeDelta,
    rest: TimeDelta,
    fails: bool,
}

impl<'a> Schedule<'a> {
    fn new(
        now: DateTime<Utc>,
        policy: &'a Policy,
        fleet: &Fleet,
        forecast: &Forecast,
    ) -> Option<Schedule<'a>> {
        let total = forecast.counts.total;
        let mut schedule = Schedule {
            now,
            policy,
            slots: forecast.slots.max(1),
            max_failures: policy.max_failures.map(|limit: Limit| limit.of(total)),
            failures: 0,
            in_flight: Vec::new(),
            canaries: Vec::new(),
            others: Vec::new(),
        };
        for cluster in &fleet.clusters {
            let phase = cluster.record.as_ref().map(|record| record.phase);
            let failed = matches!(phase, Some(Phase::Failed | Phase::PreActionDegraded));
            schedule.failures += usize::from(failed && !cluster.canary);
            if !phase.is_some_and(Phase::holds_slot) {
                continue;
            }
            let under_way = [Step::Operators, Step::Platform, Step::PreAction]
                .into_iter()
                .find_map(|step| match cluster.step_work(step) {
                    StepWork::Ours(work) => Some((step, work.started)),
                    _ => None,
                });
            if let Some((step, started)) = under_way {
                schedule.in_flight.push(InFlight {
                    name: Arc::clone(&cluster.name),
                    canary: cluster.canary,
                    step,
                    started,
                });
            }
        }
        let canary = |name: &Arc<str>| {
            let found = forecast
                .clusters
                .binary_search_by(|cluster| cluster.name.cmp(name));
            found.is_ok_and(|index| forecast.clusters[index].canary)
        };
        for (_, name) in &forecast.starts {
            if canary(name) {
                schedule.canaries.push(Arc::clone(name));
            } else {
                schedule.others.push(Arc::clone(name));
            }
        }
        let moves = !schedule.in_flight.is_empty() || !forecast.starts.is_empty();
        moves.then_some(schedule)
    }

    fn draw(&self, run: DrawRun<'_>, draw: u64) -> Drawn {
        let mut failures = Failures {
            so_far: vec![self.now; self.failures],
            limit: self.max_failures,
        };
        let mut slots = BinaryHeap::new();
        let mut end = self.now;
        let mut gate = self.now;
        for cluster in &self.in_flight {
            let course = self.course(run, draw, &cluster.name, cluster.step);
            let released = (cluster.started + course.holds).max(self.now);
            slots.push(Reverse(released));
            let ended = released + course.rest;
            end = end.max(ended);
            if cluster.canary {
                gate = gate.max(ended);
            } else if course.fails {
                failures.so_far.push(released);
            }
        }
        while slots.len() < self.slots {
            slots.push(Reverse(self.now));
        }
        let mut canary_failed = false;
        for (canary, names) in [(true, &self.canaries), (false, &self.others)] {
            let opens = if canary { self.now } else { gate };
            for name in names {
                let Some(Reverse(free)) = slots.pop() else { break };
                let start = free.max(opens);
                if canary_failed || failures.exceed_at(start) {
                    return Drawn { end, stopped: true };
                }
                let course = self.course(run, draw, name, Step::PreAction);
                let released = start + course.holds;
                slots.push(Reverse(released));
                let ended = released + course.rest;
                end = end.max(ended);
                if canary {
                    gate = gate.max(ended);
                    canary_failed |= course.fails;
                } else if course.fails {
                    failures.so_far.push(released);
                }
            }
        }
        Drawn { end, stopped: false }
    }

    /// The course of a cluster from this step on.
    fn course(&self, run: DrawRun<'_>, draw: u64, name: &str, from: Step) -> DrawnCourse {
        let mut holds = TimeDelta::zero();
        for step in [Step::PreAction, Step::Platform, Step::Operators] {
            if step < from || !self.policy.wants(step) {
                continue;
            }
            let limit = self.policy.timeout(step);
            let takes = run(draw, name, step).takes.filter(|takes| *takes < limit);
            holds += takes.unwrap_or(limit);
            if takes.is_none() {
                return DrawnCourse {
                    holds,
                    rest: TimeDelta::zero(),
                    fails: true,
                };
            }
        }
        let mut rest = self.policy.soak().unwrap_or_default();
        if self.policy.wants(Step::PostAction) {
            let limit = self.policy.timeout(Step::PostAction);
            let takes = run(draw, name, Step::PostAction).takes;
            rest += takes.map_or(limit, |takes| takes.min(limit));
        }
        DrawnCourse {
            holds,
            rest,
            fails: false,
        }
    }
}

/// When clusters fail.
struct Failures {
    so_far: Vec<DateTime<Utc>>,
    limit: Option<usize>,
}

impl Failures {
    /// True when more clusters than allowed have failed by this time.
    fn exceed_at(&self, time: DateTime<Utc>) -> bool {
        self.limit.is_some_and(|limit| {
            self.so_far.len() > limit && self.so_far.iter().filter(|at| **at <= time).count() > limit
        })
    }
}
