//! Rehearses a rollout in virtual time: the planner and the checker decide, and agents are replaced by durations.
//!
//! ```text
//! fleet + policy ──> plan ──> check ──> carry out at once ──> next event of an agent or of the plan ──┐
//!                     ▲                                                                               │
//!                     └───────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Every plan is a plan of the controller, so the order of starts, the gates and the time limits are the controller's own
//! and are not stated a second time here. What a forecast does not model stands in `docs/design/forecast.md`.

mod agents;
mod durations;
mod fit;
mod live;
mod openings;
mod range;
mod timing;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

use crate::check::check;
use crate::forecast::live::{LiveFleet, NEVER};
use crate::model::{Counts, Fleet, Outlook, Phase, Plan, Policy, Reason, Step};
use crate::planner::plan;

pub use durations::{Durations, Samples};
pub use range::{DrawRun, EndRange, FleetMember, end_range, end_range_of_plan, moving, moving_by_plan};
pub use timing::{
    Basis, ClusterClass, Kind, MIN_SAMPLES, NOTHING_TO_CHANGE, OtherTimes, PastUpdate, Profile, StepTiming,
    Timings, VersionChange,
};

/// Largest number of plans at one time. More mean that plans keep changing, which is a defect.
const MAX_PLANS_AT_ONCE: usize = 40;

/// A forecast ends after this time, although clusters still move.
const MAX_LENGTH: TimeDelta = TimeDelta::days(366);

/// How a step ends on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Time from the start of the step to its end; `None`: the step never ends, and its time limit decides.
    pub takes: Option<TimeDelta>,
    /// True when the step fails at its end. A platform step does not fail, it only does not end.
    pub fails: bool,
}

impl Run {
    /// A step that takes no time.
    pub const AT_ONCE: Run = Run {
        takes: Some(TimeDelta::zero()),
        fails: false,
    };
}

/// What is played.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Events of agents that are less than this apart are planned for together. Zero plans for each of them.
    pub resolution: TimeDelta,
    /// Plans only for clusters that can change ([`LiveFleet`]). Tests turn this off to show that it changes nothing.
    pub reduced: bool,
}

impl Options {
    /// Options for a fleet of this size: exact for some thousand clusters, otherwise so coarse that it stays fast.
    #[must_use]
    pub const fn for_fleet(clusters: usize) -> Options {
        let seconds = match clusters {
            0..5_000 => 0,
            5_000..50_000 => 15,
            _ => 60,
        };
        Options {
            resolution: TimeDelta::seconds(seconds),
            reduced: true,
        }
    }
}

/// The course of a rollout.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Every cluster that counts, by name.
    pub clusters: Vec<ClusterForecast>,
    /// Clusters in the order in which they take a slot.
    pub starts: Vec<(DateTime<Utc>, Arc<str>)>,
    /// When the last cluster moved.
    pub end: DateTime<Utc>,
    /// When every canary was complete and the other clusters could start. `None`: no canary is requested, or they do
    /// not all complete.
    pub canaries_complete: Option<DateTime<Utc>>,
    /// When more clusters had failed than `maxFailures` allows.
    pub max_failures_exceeded: Option<DateTime<Utc>>,
    /// Largest number of slots held at one time.
    pub peak: usize,
    /// Number of slots.
    pub slots: usize,
    /// Counts at the end.
    pub counts: Counts,
    /// Whether the rollout is complete at the end, or why it stalls.
    pub outlook: Outlook,
    /// True when clusters still moved after a year.
    pub cut_off: bool,
    /// Number of plans.
    pub plans: usize,
}

/// The course of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterForecast {
    /// Name of the ManagedCluster.
    pub name: Arc<str>,
    /// True for a canary.
    pub canary: bool,
    /// When the cluster takes a slot; `None` if it never does, or had one before the forecast.
    pub started: Option<DateTime<Utc>>,
    /// When the cluster last released a slot; `None` if it never does.
    pub released: Option<DateTime<Utc>>,
    /// When the cluster last changed its phase; `None` if it never does.
    pub ended: Option<DateTime<Utc>>,
    /// The phase at the end.
    pub phase: Phase,
    /// The reason at the end.
    pub reason: Reason,
    /// The message at the end.
    pub message: Arc<str>,
}

/// Clusters that start one after the other, and for which the next wave waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wave {
    /// True for the wave of the canaries.
    pub canaries: bool,
    /// Number of clusters.
    pub clusters: usize,
    /// When the first of them starts.
    pub first_start: DateTime<Utc>,
    /// When the last of them starts.
    pub last_start: DateTime<Utc>,
    /// When the last of them changes its phase for the last time.
    pub end: DateTime<Utc>,
}

impl Forecast {
    /// The canaries and the other clusters that start, each if there are any.
    #[must_use]
    pub fn waves(&self) -> Vec<Wave> {
        let wave = |canaries: bool| {
            let is_in = |cluster: &&ClusterForecast| cluster.canary == canaries;
            let of_wave = self.clusters.iter().filter(is_in);
            let starts = of_wave.filter_map(|cluster| Some((cluster.started?, cluster.ended)));
            let (mut first, mut last, mut end, mut clusters) = (None, None, None, 0);
            for (started, ended) in starts {
                first = first.into_iter().chain([started]).min();
                last = last.into_iter().chain([started]).max();
                end = end.into_iter().chain([ended.unwrap_or(started)]).max();
                clusters += 1;
            }
            Some(Wave {
                canaries,
                clusters,
                first_start: first?,
                last_start: last?,
                end: end?,
            })
        };
        [true, false].into_iter().filter_map(wave).collect()
    }

    /// The clusters that would never start and are not done, with the phase and the reason that they stay in.
    pub fn never_start(&self) -> impl Iterator<Item = &ClusterForecast> {
        let waits = |cluster: &&ClusterForecast| matches!(cluster.phase, Phase::Pending | Phase::Blocked);
        self.clusters.iter().filter(waits)
    }
}

/// A plan violates a safety rule, or plans keep changing. Both are defects of the planner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect(pub String);

/// Plays a rollout from `now` on. `run` says how a step goes on a cluster; it is asked once per ManifestWork and must
/// give equal answers for equal questions.
///
/// # Errors
/// A defect of the planner.
pub fn forecast(
    now: DateTime<Utc>,
    policy: &Policy,
    fleet: Fleet,
    options: Options,
    run: &dyn Fn(&str, Step) -> Run,
) -> Result<Forecast, Defect> {
    let mut player = Player {
        now,
        policy: with_pools_in_platform_step(policy),
        live: LiveFleet::new(now, fleet, run),
        options,
        courses: BTreeMap::new(),
        starts: Vec::new(),
        canaries_complete: None,
        max_failures_exceeded: None,
        peak: 0,
        plans: 0,
        end: now,
    };
    let first = player.settle()?;
    let slots = first.summary.max_concurrency;
    player
        .live
        .fix_limits(&mut player.policy, first.summary.clusters.total);
    if options.reduced {
        player.live.reduce(now, &mut player.policy);
    }
    let mut wake = first.wake_at;
    let mut cut_off = false;
    while let Some(next) = player.next(wake) {
        if next - now > MAX_LENGTH {
            cut_off = next - now < NEVER;
            break;
        }
        player.now = next;
        player.live.report(next, &mut player.policy);
        wake = player.settle()?.wake_at;
        if options.reduced {
            player.live.reduce(next, &mut player.policy);
        }
    }
    player.conclude(slots, cut_off)
}

/// How long a platform step takes includes the worker pools, so its time limit does as well.
fn with_pools_in_platform_step(policy: &Policy) -> Policy {
    Policy {
        worker_pools_timeout: None,
        cluster_timeout: time_limit(policy, Step::Platform),
        action_timeout: Some(policy.timeout(Step::PreAction)),
        // Nobody knows when people approve, so a forecast says what happens if they do at once.
        checkpoints: Vec::new(),
        ..policy.clone()
    }
}

/// The longest time that a cluster may take, by the time limits of all its steps.
#[must_use]
pub fn sum_of_time_limits(policy: &Policy) -> TimeDelta {
    let steps = Step::ALL.into_iter().filter(|step| policy.wants(*step));
    steps.map(|step| time_limit(policy, step)).sum()
}

/// The time limit of a step, that of the platform with the worker pools.
fn time_limit(policy: &Policy, step: Step) -> TimeDelta {
    let pools = policy.worker_pools_timeout.filter(|_| step == Step::Platform);
    policy.timeout(step) + pools.unwrap_or_default()
}

struct Player<'a> {
    now: DateTime<Utc>,
    policy: Policy,
    live: LiveFleet<'a>,
    options: Options,
    courses: BTreeMap<Arc<str>, Course>,
    starts: Vec<(DateTime<Utc>, Arc<str>)>,
    canaries_complete: Option<DateTime<Utc>>,
    max_failures_exceeded: Option<DateTime<Utc>>,
    peak: usize,
    plans: usize,
    end: DateTime<Utc>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Course {
    started: Option<DateTime<Utc>>,
    released: Option<DateTime<Utc>>,
    ended: Option<DateTime<Utc>>,
}

impl Player<'_> {
    /// The time of the next plan: the next event of an agent or of the plan, rounded up to the resolution.
    fn next(&self, wake: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
        let wake = wake.map(|wake| wake.max(self.now + TimeDelta::milliseconds(1)));
        let next = [self.live.next_event(), wake].into_iter().flatten().min()?;
        let grid = self.options.resolution.num_milliseconds();
        if grid <= 0 {
            return Some(next);
        }
        let after = (next - self.now).num_milliseconds().max(1);
        let rounded = after.checked_add(grid - 1)? / grid * grid;
        Some(self.now + TimeDelta::milliseconds(rounded))
    }

    /// The plan for the clusters that are present, if it keeps every safety rule.
    fn checked_plan(&mut self) -> Result<Plan, Defect> {
        self.plans += 1;
        let plan = plan(self.now, &self.policy, &self.live.fleet);
        let violations = check(self.now, &self.policy, &self.live.fleet, &plan);
        match violations.first() {
            None => Ok(plan),
            Some(violation) => Err(Defect(format!("the plan violates a safety rule: {violation:?}"))),
        }
    }

    /// Plans and carries out until nothing changes any more at this time.
    fn settle(&mut self) -> Result<Plan, Defect> {
        for _ in 0..MAX_PLANS_AT_ONCE {
            if self.options.reduced {
                self.live.refill(&self.policy);
            }
            let plan = self.checked_plan()?;
            if self.policy.retry.is_some() && plan.retry_done {
                self.policy.retry = None;
            }
            let changed = self.carry_out(&plan);
            self.note_gates(&plan);
            if !changed {
                return Ok(plan);
            }
        }
        Err(Defect("plans keep changing".to_owned()))
    }

    fn carry_out(&mut self, plan: &Plan) -> bool {
        let changes = self.live.carry_out(self.now, &self.policy, plan);
        for (name, at) in &changes.moved {
            self.courses.entry(Arc::clone(name)).or_default().ended = Some(*at);
            self.end = self.end.max(*at);
        }
        for (name, at) in &changes.released {
            self.courses.entry(Arc::clone(name)).or_default().released = Some(*at);
        }
        for (name, at) in &changes.started {
            let course = self.courses.entry(Arc::clone(name)).or_default();
            if course.started.is_none() {
                course.started = Some(*at);
                self.starts.push((*at, Arc::clone(name)));
            }
        }
        changes.any
    }

    fn note_gates(&mut self, plan: &Plan) {
        self.peak = self.peak.max(plan.summary.in_flight + self.live.slots_at_work());
        if self.policy.canaries
            && self.canaries_complete.is_none()
            && self.live.are_canaries_complete(&self.policy)
        {
            self.canaries_complete = Some(self.now);
        }
        let exceeded = || {
            let limit = self.live.max_failures();
            limit.is_some_and(|limit| self.live.failures() > limit.of(self.live.total()))
        };
        if self.max_failures_exceeded.is_none() && exceeded() {
            self.max_failures_exceeded = Some(self.now);
        }
    }

    /// Plans once more for the whole fleet, which gives every cluster its reason.
    fn conclude(mut self, slots: usize, cut_off: bool) -> Result<Forecast, Defect> {
        self.live.restore(&mut self.policy);
        let last = self.checked_plan()?;
        let canaries: BTreeMap<&str, bool> = self
            .live
            .fleet
            .clusters
            .iter()
            .map(|cluster| (&*cluster.name, cluster.canary))
            .collect();
        let clusters = last
            .clusters
            .iter()
            .map(|state| {
                let course = self.courses.get(&state.name).copied().unwrap_or_default();
                ClusterForecast {
                    name: Arc::clone(&state.name),
                    canary: canaries.get(&*state.name).copied().unwrap_or(false),
                    started: course.started,
                    released: course.released,
                    ended: course.ended,
                    phase: state.record.phase,
                    reason: state.record.reason,
                    message: Arc::clone(&state.record.message),
                }
            })
            .collect();
        Ok(Forecast {
            clusters,
            starts: self.starts,
            end: self.end,
            canaries_complete: self.canaries_complete,
            max_failures_exceeded: self.max_failures_exceeded,
            peak: self.peak,
            slots,
            counts: last.summary.clusters,
            outlook: last.outlook,
            cut_off,
            plans: self.plans,
        })
    }
}

#[cfg(test)]
mod tests;
