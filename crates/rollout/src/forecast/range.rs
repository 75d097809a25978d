//! When a rollout ends, as a range: many draws of the durations, scheduled on the slots.
//!
//! A draw takes microseconds per cluster, where playing the planner takes a thousand times as long. It knows less: canaries,
//! slots, time limits, soak and `maxFailures`, in the order in which the forecast started the clusters. A test keeps both
//! within one percent of each other.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use chrono::{DateTime, TimeDelta, Utc};

use crate::forecast::openings::{KnownOpenings, WaitingByCalendar};
use crate::forecast::{Forecast, Run, time_limit};
use crate::model::{
    Cluster, Fleet, Limit, Phase, Plan, Policy, Reason, Record, Selection, Stage, Step, StepStatus,
};

/// When the rollout ends in that share of the draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndRange {
    /// In half of the draws.
    pub p50: DateTime<Utc>,
    /// In 80 of 100 draws.
    pub p80: DateTime<Utc>,
    /// In 90 of 100 draws.
    pub p90: DateTime<Utc>,
    /// In 95 of 100 draws.
    pub p95: DateTime<Utc>,
    /// Draws in which a cluster does not start because a canary failed.
    pub stopped_by_canary: usize,
    /// Draws in which a cluster does not start because more clusters failed than `maxFailures` allows.
    pub stopped_by_max_failures: usize,
    /// When more clusters had failed, in half of the draws that `maxFailures` stops. `None` without such draws.
    pub max_failures_exceeded: Option<DateTime<Utc>>,
    /// Number of draws.
    pub draws: usize,
}

/// How a step goes on a cluster in a draw. Equal arguments must give equal results.
pub type DrawRun<'a> = &'a dyn Fn(u64, FleetMember<'_>, Step) -> Run;

/// A cluster of the fleet.
#[derive(Clone, Copy, Debug)]
pub struct FleetMember<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its index in the fleet.
    pub index: usize,
}

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
    schedule.range(run, draws)
}

/// The same without a forecast. The order of the starts is that of the planner: canaries first, then by name, as far as clusters
/// wait for nothing but a slot. This is what a controller can afford, which has a plan anyway.
#[must_use]
pub fn end_range_of_plan(
    now: DateTime<Utc>,
    policy: &Policy,
    fleet: &Fleet,
    plan: &Plan,
    run: DrawRun<'_>,
    draws: u32,
) -> Option<EndRange> {
    let schedule = Schedule::of_plan(now, policy, fleet, plan)?;
    schedule.range(run, draws)
}

/// The clusters whose end [`end_range`] draws, by their index in the fleet: those under way that can end, and those that start.
#[must_use]
pub fn moving(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, forecast: &Forecast) -> BTreeSet<usize> {
    let schedule = Schedule::new(now, policy, fleet, forecast);
    schedule.map(|schedule| schedule.clusters()).unwrap_or_default()
}

/// The same for [`end_range_of_plan`].
#[must_use]
pub fn moving_by_plan(now: DateTime<Utc>, policy: &Policy, fleet: &Fleet, plan: &Plan) -> BTreeSet<usize> {
    let schedule = Schedule::of_plan(now, policy, fleet, plan);
    schedule.map(|schedule| schedule.clusters()).unwrap_or_default()
}

impl Schedule<'_> {
    fn clusters(&self) -> BTreeSet<usize> {
        let under_way = self.under_way.iter().map(|cluster| cluster.index);
        let starts = self.canaries.iter().chain(&self.others).copied();
        under_way.chain(starts).collect()
    }

    fn range(&self, run: DrawRun<'_>, draws: u32) -> Option<EndRange> {
        let outcomes: Vec<Drawn> = (0..draws).map(|draw| self.draw(run, u64::from(draw))).collect();
        let mut ends: Vec<DateTime<Utc>> = outcomes.iter().map(|outcome| outcome.end).collect();
        ends.sort_unstable();
        let mut exceeded = Vec::new();
        let mut stopped_by_canary = 0;
        for outcome in &outcomes {
            match outcome.stop {
                Some(Stop::Canary) => stopped_by_canary += 1,
                Some(Stop::MaxFailures(at)) => exceeded.push(at),
                None => {}
            }
        }
        exceeded.sort_unstable();
        Some(EndRange {
            p50: quantile(&ends, 50)?,
            p80: quantile(&ends, 80)?,
            p90: quantile(&ends, 90)?,
            p95: quantile(&ends, 95)?,
            stopped_by_canary,
            stopped_by_max_failures: exceeded.len(),
            max_failures_exceeded: quantile(&exceeded, 50),
            draws: ends.len(),
        })
    }
}

/// The time by which that many of 100 sorted times have passed; `None` if there are none.
fn quantile(sorted: &[DateTime<Utc>], percent: usize) -> Option<DateTime<Utc>> {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied()
}

/// The clusters in the order in which they get slots.
struct Schedule<'a> {
    now: DateTime<Utc>,
    policy: &'a Policy,
    slots: usize,
    max_failures: Option<usize>,
    failures: usize,
    fleet: &'a Fleet,
    openings: KnownOpenings<'a>,
    under_way: Vec<UnderWay>,
    /// Indexes of the clusters.
    canaries: Vec<usize>,
    others: Vec<usize>,
}

/// A cluster that was under way when the forecast began.
struct UnderWay {
    /// Its index in the fleet.
    index: usize,
    canary: bool,
    stage: Stage,
    started: DateTime<Utc>,
}

struct Drawn {
    end: DateTime<Utc>,
    stop: Option<Stop>,
}

/// Why a cluster does not start.
#[derive(Clone, Copy)]
enum Stop {
    Canary,
    /// More clusters than allowed had failed by this time.
    MaxFailures(DateTime<Utc>),
}

/// When a cluster releases its slot, when it ends, and the stage in which it fails.
struct DrawnCourse {
    released: DateTime<Utc>,
    ended: DateTime<Utc>,
    failed: Option<Stage>,
}

impl<'a> Schedule<'a> {
    /// A schedule without clusters.
    fn empty(now: DateTime<Utc>, policy: &'a Policy, fleet: &'a Fleet, slots: usize, total: usize) -> Self {
        Schedule {
            now,
            policy,
            slots: slots.max(1),
            max_failures: policy.max_failures.map(|limit: Limit| limit.of(total)),
            failures: 0,
            fleet,
            openings: KnownOpenings::new(now, &fleet.calendars),
            under_way: Vec::new(),
            canaries: Vec::new(),
            others: Vec::new(),
        }
    }

    fn of_plan(
        now: DateTime<Utc>,
        policy: &'a Policy,
        fleet: &'a Fleet,
        plan: &Plan,
    ) -> Option<Schedule<'a>> {
        let (slots, total) = (plan.summary.max_concurrency, plan.summary.clusters.total);
        let mut schedule = Schedule::empty(now, policy, fleet, slots, total);
        // Both are sorted by name, and a plan leaves out clusters that it drops.
        let mut states = plan.clusters.iter().peekable();
        for (index, cluster) in fleet.clusters.iter().enumerate() {
            let Some(state) = states.next_if(|state| state.name == cluster.name) else {
                continue;
            };
            let record = &state.record;
            let failed = record.phase.has_failed();
            schedule.failures += usize::from(failed && !cluster.canary);
            if record.phase.is_at_work() {
                schedule.add_at_work(index, cluster, record, !record.unreadable);
            } else if state.starting || waits_for_slot(cluster, record) {
                schedule.add_start(index, cluster.canary);
            }
        }
        schedule.if_anything_moves()
    }

    fn add_at_work(&mut self, index: usize, cluster: &Cluster, record: &Record, ends: bool) {
        if ends {
            let under_way = UnderWay::new(self.now, (index, cluster), record);
            self.under_way.push(under_way);
        } else if record.phase.holds_slot() {
            // It keeps its slot until somebody acts.
            self.slots = self.slots.saturating_sub(1);
        }
    }

    fn add_start(&mut self, index: usize, canary: bool) {
        if canary {
            self.canaries.push(index);
        } else {
            self.others.push(index);
        }
    }

    fn if_anything_moves(self) -> Option<Self> {
        let moves = !self.under_way.is_empty() || !self.canaries.is_empty() || !self.others.is_empty();
        moves.then_some(self)
    }

    fn new(
        now: DateTime<Utc>,
        policy: &'a Policy,
        fleet: &'a Fleet,
        forecast: &Forecast,
    ) -> Option<Schedule<'a>> {
        let mut schedule = Schedule::empty(now, policy, fleet, forecast.slots, forecast.counts.total);
        let known = |name: &str| {
            let clusters = &forecast.clusters;
            let found = clusters.binary_search_by(|cluster| (*cluster.name).cmp(name));
            found.ok().map(|index| &clusters[index])
        };
        for (index, cluster) in fleet.clusters.iter().enumerate() {
            let (Some(record), Some(course)) = (cluster.record.as_deref(), known(&cluster.name)) else {
                continue;
            };
            if course.started.is_some() {
                continue;
            }
            let failed = record.phase.has_failed();
            schedule.failures += usize::from(failed && !cluster.canary);
            if record.phase.is_at_work() {
                schedule.add_at_work(index, cluster, record, course.ended.is_some());
            }
        }
        for (_, name) in &forecast.starts {
            let found = fleet.clusters.binary_search_by(|cluster| cluster.name.cmp(name));
            if let Ok(index) = found {
                let canary = known(name).is_some_and(|cluster| cluster.canary);
                schedule.add_start(index, canary);
            }
        }
        if !fleet.calendars.is_empty() {
            // Whoever waits for a window is first by name again when it opens.
            schedule.canaries.sort_unstable();
            schedule.others.sort_unstable();
        }
        schedule.if_anything_moves()
    }

    fn draw(&self, run: DrawRun<'_>, draw: u64) -> Drawn {
        let mut state = DrawState {
            slots: BinaryHeap::new(),
            end: self.now,
            failures: vec![self.now; self.failures],
            gate: Some(self.now),
            canary_failed: None,
        };
        for cluster in &self.under_way {
            let course = self.course(run, draw, cluster.index, (cluster.stage, cluster.started));
            if cluster.stage < Stage::Soak {
                state.slots.push(Reverse(course.released));
            }
            state.note(cluster.canary, &course);
        }
        while state.slots.len() < self.slots {
            state.slots.push(Reverse(self.now));
        }
        while state.slots.len() > self.slots {
            state.slots.pop();
        }
        let stop = self.start_all(run, draw, &mut state).err();
        Drawn { end: state.end, stop }
    }

    /// Starts the clusters one after the other until something stops them.
    fn start_all(&self, run: DrawRun<'_>, draw: u64, state: &mut DrawState) -> Result<(), Stop> {
        for canary in [true, false] {
            self.start_wave(run, draw, canary, state)?;
        }
        Ok(())
    }

    /// Starts the canaries or all others.
    fn start_wave(
        &self,
        run: DrawRun<'_>,
        draw: u64,
        canary: bool,
        state: &mut DrawState,
    ) -> Result<(), Stop> {
        let gated = self.policy.canaries;
        let clusters = if canary { &self.canaries } else { &self.others };
        let calendar = |index: &usize| (*index, self.fleet.clusters[*index].calendar);
        let mut waiting = WaitingByCalendar::new(clusters.iter().map(calendar));
        while let Some(Reverse(free)) = state.slots.pop() {
            let opens = if gated && !canary {
                state.gate
            } else {
                Some(self.now)
            };
            let Some(opens) = opens.filter(|_| !waiting.is_empty()) else {
                state.slots.push(Reverse(free));
                return if waiting.is_empty() {
                    Ok(())
                } else {
                    Err(Stop::Canary)
                };
            };
            let Some((index, start)) = waiting.next(&self.openings, free.max(opens)) else {
                state.slots.push(Reverse(free));
                if canary {
                    // It never starts, and the others wait for it.
                    state.gate = None;
                }
                return Ok(());
            };
            if gated && state.canary_failed.is_some_and(|at| at <= start) {
                return Err(Stop::Canary);
            }
            if let Some(at) = state.exceeded(self.max_failures, start) {
                return Err(Stop::MaxFailures(at));
            }
            let course = self.course(run, draw, index, (Stage::PreAction, start));
            state.slots.push(Reverse(course.released));
            state.note(canary, &course);
        }
        Ok(())
    }

    /// The course of a cluster from this stage on, which began then.
    fn course(
        &self,
        run: DrawRun<'_>,
        draw: u64,
        index: usize,
        (from, started): (Stage, DateTime<Utc>),
    ) -> DrawnCourse {
        let member = FleetMember {
            name: &self.fleet.clusters[index].name,
            index,
        };
        let mut at = started;
        let mut released = None;
        for stage in Stage::ALL {
            if stage == Stage::Soak {
                released = Some(at);
            }
            if stage < from {
                continue;
            }
            let step = match stage {
                Stage::PreAction => Step::PreAction,
                Stage::Platform => Step::Platform,
                Stage::Operators => Step::Operators,
                Stage::PostAction => Step::PostAction,
                Stage::Soak => {
                    at = (at + self.policy.soak().unwrap_or_default()).max(self.now);
                    continue;
                }
            };
            if !self.policy.wants(step) {
                continue;
            }
            if step == Step::Platform && from < stage && self.policy.wants(Step::PreAction) {
                // The update is requested in a window, too.
                let calendar = self.fleet.clusters[index].calendar;
                at = self.openings.next(calendar, at).unwrap_or(at);
            }
            let limit = time_limit(self.policy, step);
            let in_time = |takes: &TimeDelta| *takes <= limit && at + limit > self.now;
            let takes = run(draw, member, step).takes.filter(in_time);
            at = (at + takes.unwrap_or(limit)).max(self.now);
            if takes.is_none() {
                // The controller reads the work once more before a time limit counts, and clusters start meanwhile.
                at = at.max(self.now + TimeDelta::milliseconds(1));
                return DrawnCourse {
                    released: released.unwrap_or(at),
                    ended: at,
                    failed: Some(stage),
                };
            }
        }
        DrawnCourse {
            released: released.unwrap_or(at),
            ended: at,
            failed: None,
        }
    }
}

impl UnderWay {
    fn new(now: DateTime<Utc>, (index, cluster): (usize, &Cluster), record: &Record) -> UnderWay {
        let at = |stage, started| UnderWay {
            index,
            canary: cluster.canary,
            stage,
            started,
        };
        let (step, next) = match record.phase {
            Phase::Soaking => {
                let soak = record.stage(Stage::Soak);
                return at(Stage::Soak, soak.map_or(now, |soak| soak.started));
            }
            // Its worker pools are part of the platform step.
            Phase::Workers => {
                let platform = record.stage(Stage::Platform);
                return at(Stage::Platform, platform.map_or(now, |platform| platform.started));
            }
            Phase::PreAction => (Step::PreAction, Stage::Platform),
            Phase::Operators => (Step::Operators, Stage::Soak),
            Phase::PostAction => (Step::PostAction, Stage::PostAction),
            Phase::Initialized
            | Phase::Partial
            | Phase::Pending
            | Phase::Blocked
            | Phase::PreActionDegraded
            | Phase::Complete
            | Phase::Failed
            | Phase::Skipped
            | Phase::Aborted => (Step::Platform, Stage::Operators),
        };
        match cluster.step_work(step).ours() {
            Some(work) if work.status == StepStatus::Succeeded => at(next, now),
            Some(work) => at(step.into(), work.started),
            None => at(step.into(), now),
        }
    }
}

/// True when a cluster starts as soon as there is a slot for it, its window opens, or the canaries are complete.
fn waits_for_slot(cluster: &Cluster, record: &Record) -> bool {
    let is_next = matches!(
        record.reason,
        Reason::WaitingForSlot
            | Reason::WaitingForCanaries
            | Reason::WaitingForWindow
            | Reason::None
            | Reason::PreflightPending
    );
    record.phase == Phase::Pending && is_next && cluster.selection == Selection::In && cluster.rival.is_none()
}

/// What has happened so far in a draw.
struct DrawState {
    /// When each slot is free again.
    slots: BinaryHeap<Reverse<DateTime<Utc>>>,
    end: DateTime<Utc>,
    /// When clusters that are no canaries fail.
    failures: Vec<DateTime<Utc>>,
    /// When the canaries let the others start; `None`: never.
    gate: Option<DateTime<Utc>>,
    /// When the first canary fails, after which no cluster starts.
    canary_failed: Option<DateTime<Utc>>,
}

impl DrawState {
    fn note(&mut self, canary: bool, course: &DrawnCourse) {
        self.end = self.end.max(course.ended);
        match course.failed {
            Some(stage) if canary => {
                self.gate = None;
                // A canary whose pre-action is degraded keeps only the others from starting.
                if stage != Stage::PreAction {
                    let earlier = self.canary_failed.unwrap_or(course.ended);
                    self.canary_failed = Some(earlier.min(course.ended));
                }
            }
            Some(_) => self.failures.push(course.ended),
            None if canary => self.gate = self.gate.map(|gate| gate.max(course.ended)),
            None => {}
        }
    }

    /// When more clusters had failed than the limit allows, if that was until `time`.
    fn exceeded(&self, limit: Option<usize>, time: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let limit = limit.filter(|limit| self.failures.len() > *limit)?;
        let mut sorted = self.failures.clone();
        sorted.sort_unstable();
        sorted.get(limit).copied().filter(|at| *at <= time)
    }
}

#[cfg(test)]
mod tests;
