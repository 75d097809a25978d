//! `bench plan`: one plan over a large fleet, in the states of a rollout that cost most, and the rehearsal of a rollout of more
//! than a day.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use rollout::forecast::{Defect, Durations, Options, Samples, end_range, forecast};
use rollout::{
    Attempt, Cluster, Eligibility, Fleet, KnownApprovals, Limit, Outcome, Phase, Policy, Preflight, Reason,
    Record, Selection, Stage, Step, StepRecord, StepStatus, StepWork, Work, plan,
};
use serde::Serialize;

use crate::thresholds::{Side, Threshold};
use crate::verdicts::Verdicts;
use crate::windows::WindowCosts;

/// The rehearsed rollout has a slot for so many clusters, so that it lasts for more than a day.
const CLUSTERS_PER_SLOT: usize = 20;
/// Draws of its end.
const DRAWS: u32 = 100;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// Clusters of the fleet.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub clusters: usize,
    /// Plans per state; the median counts.
    #[arg(long, value_name = "N", default_value_t = 51)]
    pub plans: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// The cost of one state.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct State {
    name: &'static str,
    median_ms: f64,
    slowest_ms: f64,
    operations: usize,
}

/// The cost of a rehearsal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Rehearsal {
    /// How long the rollout takes.
    hours: f64,
    /// Plans that were made and checked for it.
    plans: usize,
    /// How long the forecast takes.
    forecast_seconds: f64,
    /// The same as a ratio to a bare plan of the whole fleet for each minute of the rollout.
    ratio: f64,
    /// How long the range of its end takes.
    range_seconds: f64,
}

impl Rehearsal {
    fn thresholds(&self) -> [Threshold; 4] {
        let below_a_second = (Side::Below, 1.0);
        [
            Threshold::time(
                "forecast, each plan checked",
                below_a_second,
                self.forecast_seconds,
                "s",
            ),
            Threshold::time(
                "as a ratio to a bare plan for each minute",
                (Side::Below, 0.25),
                self.ratio,
                "",
            ),
            Threshold::time(
                "range of the end, 100 draws",
                below_a_second,
                self.range_seconds,
                "s",
            ),
            Threshold::count("rehearsed rollout", (Side::AtLeast, 24.0), self.hours, "h"),
        ]
    }
}

/// Measures and prints; says whether every threshold was met.
///
/// # Errors
/// Standard output is closed, or the planner breaks a rule in the rehearsal.
pub fn run(args: &PlanArgs) -> Result<bool> {
    let states = states(args);
    let thresholds: Vec<Threshold> = states
        .iter()
        .map(|state| Threshold::time(state.name, (Side::Below, 10.0), state.median_ms, "ms"))
        .collect();
    let verdicts = Verdicts::measure(args.clusters, args.plans);
    let thresholds_of_verdicts = verdicts.thresholds();
    let windows = {
        // Fewer slots than open windows: the plans that are compared start as many clusters.
        let scene = Scene::new(args.clusters, 0, 0, 0).slots((args.clusters / 10).max(1));
        WindowCosts::measure(now(), &scene.policy(), scene.fleet(), args.plans)?
    };
    let thresholds_of_windows = windows.thresholds();
    let rehearsal = rehearse(args.clusters)?;
    let thresholds_of_rehearsal = rehearsal.thresholds();
    let of_others: Vec<&Threshold> = thresholds_of_verdicts
        .iter()
        .chain(&thresholds_of_windows)
        .chain(&thresholds_of_rehearsal)
        .collect();
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&serde_json::json!({
                "clusters": args.clusters, "states": states, "verdicts": verdicts, "windows": windows, "rehearsal": rehearsal,
                "thresholds": thresholds.iter().chain(of_others.iter().copied()).collect::<Vec<_>>(),
            }))?
        );
    } else {
        println!(
            "one plan over {} clusters, median of {}\n",
            args.clusters, args.plans
        );
        for (threshold, state) in thresholds.iter().zip(&states) {
            println!(
                "{threshold} (slowest {:.2} ms, {} operations)",
                state.slowest_ms, state.operations
            );
        }
        println!("\ntheir answers before the start: {} would go\n", verdicts.ready);
        for threshold in &thresholds_of_verdicts {
            println!("{threshold}");
        }
        println!("\ntheir maintenance windows: {} start now\n", windows.open);
        for threshold in &thresholds_of_windows {
            println!("{threshold}");
        }
        println!("\nrehearsal of their upgrade: {} plans\n", rehearsal.plans);
        for threshold in &thresholds_of_rehearsal {
            println!("{threshold}");
        }
    }
    let mut all = thresholds.iter().chain(of_others);
    Ok(all.all(|threshold| threshold.met))
}

/// One plan in each state.
fn states(args: &PlanArgs) -> Vec<State> {
    [
        (
            "nothing started, a slot for each",
            Scene::new(args.clusters, 0, 0, 0),
        ),
        (
            "nothing started, 1000 slots",
            Scene::new(args.clusters, 0, 0, 0).slots(1000),
        ),
        (
            "half done, 1000 slots held",
            Scene::new(args.clusters, args.clusters / 2, 1000, 0).slots(1000),
        ),
        (
            "half done, 1000 slots free at once",
            Scene::new(args.clusters, args.clusters / 2, 0, 1000).slots(1000),
        ),
        (
            "preflight required, half may go, 1000 slots",
            Scene::new(args.clusters, 0, 0, 0).slots(1000).asked(),
        ),
        ("all in flight", Scene::new(args.clusters, 0, args.clusters, 0)),
        ("all done", Scene::new(args.clusters, args.clusters, 0, 0)),
    ]
    .into_iter()
    .map(|(name, scene)| scene.measure(name, args.plans.max(1)))
    .collect()
}

/// Rehearses the upgrade of a fleet with three steps and a soak, in which one cluster of a hundred never ends its update.
fn rehearse(clusters: usize) -> Result<Rehearsal> {
    let scene = Scene::new(clusters, 0, 0, 0).slots((clusters / CLUSTERS_PER_SLOT).max(1));
    let fleet = scene.fleet();
    let policy = Policy {
        steps: [Some("h0".into()), Some("h1".into()), Some("h2".into()), None],
        min_success_time: Some(TimeDelta::minutes(30)),
        ..scene.policy()
    };
    let durations = Durations {
        steps: [5, 60, 10, 5].map(|median| Samples::around(TimeDelta::minutes(median), 0.25)),
        failure_rate: 0.01,
        seed: 1,
    };
    let options = Options::for_fleet(clusters);
    let started = Instant::now();
    let course = forecast(now(), &policy, fleet.clone(), options, &|name, step| {
        durations.run(0, name, step)
    })
    .map_err(|Defect(text)| anyhow!(text))?;
    let forecast_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let range = end_range(
        now(),
        &policy,
        &fleet,
        &course,
        &|draw, member, step| durations.run(draw, member.name, step),
        DRAWS,
    );
    let range_seconds = started.elapsed().as_secs_f64();
    let _ = black_box(range);
    let hours = (course.end - now()).to_std()?.as_secs_f64() / 3600.0;
    let started = Instant::now();
    let bare = plan(black_box(now()), black_box(&policy), black_box(&fleet));
    let bare_seconds = started.elapsed().as_secs_f64();
    let _ = black_box(bare);
    Ok(Rehearsal {
        hours,
        plans: course.plans,
        forecast_seconds,
        ratio: forecast_seconds / (bare_seconds * hours * 60.0),
        range_seconds,
    })
}

/// A fleet in some state: done clusters first by name, then those in flight, those just finished, the rest.
#[derive(Clone, Copy, Debug)]
struct Scene {
    clusters: usize,
    done: usize,
    running: usize,
    finished: usize,
    slots: usize,
    /// Clusters are asked before they start, and every second one would take the update.
    asked: bool,
}

impl Scene {
    const fn new(clusters: usize, done: usize, running: usize, finished: usize) -> Self {
        Self {
            clusters,
            done,
            running,
            finished,
            slots: clusters,
            asked: false,
        }
    }

    const fn asked(mut self) -> Self {
        self.asked = true;
        self
    }

    const fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    fn measure(self, name: &'static str, times: usize) -> State {
        let (now, policy, fleet) = (now(), self.policy(), self.fleet());
        let mut operations = 0;
        let mut took: Vec<Duration> = (0..times)
            .map(|_| {
                let started = Instant::now();
                let made = plan(black_box(now), black_box(&policy), black_box(&fleet));
                let elapsed = started.elapsed();
                operations = black_box(made).operations.len();
                elapsed
            })
            .collect();
        took.sort_unstable();
        let millis = |duration: Option<&Duration>| duration.map_or(0.0, |took| took.as_secs_f64() * 1000.0);
        State {
            name,
            median_ms: millis(took.get(took.len() / 2)),
            slowest_ms: millis(took.last()),
            operations,
        }
    }

    fn policy(self) -> Policy {
        Policy {
            requires_preflight: self.asked,
            ..policy_with_slots(self.slots)
        }
    }

    fn fleet(self) -> Fleet {
        let clusters = (0..self.clusters).map(|index| {
            let stage = if index < self.done {
                Stand::Done
            } else if index < self.done + self.running {
                Stand::Running
            } else if index < self.done + self.running + self.finished {
                Stand::JustFinished
            } else {
                Stand::Waiting
            };
            let mut cluster = cluster(&format!("spoke-{index:05}"), stage);
            cluster.preflight = match (self.asked, index % 2) {
                (false, _) => Preflight::NotAsked,
                (true, 0) => Preflight::Ready,
                (true, _) => Preflight::Blocked {
                    reason: Reason::AdminAckRequired,
                    message: "ack-4.19-a: Some APIs are removed.".into(),
                },
            };
            cluster
        });
        Fleet {
            clusters: clusters.collect(),
            calendars: Vec::new(),
            approvals: Arc::default(),
            unreleased: 0,
        }
    }
}

/// The policy of a rollout with the platform step alone.
pub fn policy_with_slots(slots: usize) -> Policy {
    Policy {
        revision: "r1".into(),
        steps: [None, Some("h1".into()), None, None],
        retry: None,
        hold: None,
        deleting: false,
        max_concurrency: Limit::Count(u32::try_from(slots).unwrap_or(u32::MAX)),
        max_failures: None,
        min_success_time: None,
        cluster_timeout: TimeDelta::hours(3),
        action_timeout: None,
        worker_pools_timeout: None,
        operators_timeout: TimeDelta::minutes(22),
        canaries: false,
        clock_trusted: true,
        target: "4.12.0".into(),
        allow_downgrade: false,
        requires_preflight: false,
        awaits_answers: false,
        checkpoints: Vec::new(),
        approvals: KnownApprovals::Current,
        spec_hash: "spec".into(),
    }
}

/// The state of a cluster in a scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stand {
    /// It has not started.
    Waiting,
    /// Its platform step runs.
    Running,
    /// Its platform step has succeeded.
    JustFinished,
    /// It is complete.
    Done,
}

/// The time of all scenes.
pub fn now() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_000)
}

/// A cluster.
pub fn cluster(name: &str, stand: Stand) -> Cluster {
    let record = Arc::new(record(stand));
    let mut works = [const { StepWork::Absent }; 4];
    if matches!(stand, Stand::Running | Stand::JustFinished) {
        works[Step::Platform.index()] = StepWork::Ours(Arc::new(work(stand)));
    }
    Cluster {
        name: name.into(),
        selection: Selection::In,
        canary: false,
        gone: false,
        left_out: None,
        eligibility: Eligibility::Eligible,
        rival: None,
        works,
        record: Some(Arc::clone(&record)),
        written: Some(record),
        slot_in_doubt: false,
        busy: None,
        backoff: None,
        unsettled: None,
        late: None,
        also_late: [None; 3],
        awaited_attempt: None,
        read: None,
        version: "4.11.9".into(),
        newest_version: "4.11.9".into(),
        preflight: Preflight::NotAsked,
        has_stale_image: false,
        worker_pools: rollout::WorkerPools::NotAsked,
        pools_unheard: false,
        calendar: None,
    }
}

fn attempt() -> Attempt {
    Attempt {
        revision: "r1".into(),
        retry: "".into(),
    }
}

fn started() -> DateTime<Utc> {
    now() - TimeDelta::seconds(20)
}

/// The platform work of a cluster.
pub fn work(stand: Stand) -> Work {
    Work {
        attempt: attempt(),
        hash: "h1".into(),
        started: started(),
        withdrawal: rollout::Withdrawal::None,
        soak_started: None,
        terminating: false,
        vanished: false,
        applied: true,
        status: match stand {
            Stand::JustFinished => StepStatus::Succeeded,
            _ => StepStatus::Running,
        },
        cause: None,
        unhealthy: None,
    }
}

/// The record of a cluster.
pub fn record(stand: Stand) -> Record {
    let mut stages = [None; 5];
    if stand != Stand::Waiting {
        stages[Stage::Platform.index()] = Some(StepRecord {
            started: started(),
            applied: Some(started()),
            finished: (stand == Stand::Done).then(now),
            outcome: (stand == Stand::Done).then_some(Outcome::Succeeded),
        });
    }
    let (phase, reason) = match stand {
        Stand::Waiting => (Phase::Pending, Reason::WaitingForSlot),
        Stand::Running | Stand::JustFinished => (Phase::Partial, Reason::Running),
        Stand::Done => (Phase::Complete, Reason::None),
    };
    Record {
        attempt: attempt(),
        phase,
        reason,
        other_reason: None,
        refused_step: None,
        message: "".into(),
        since: started(),
        stages,
        from_version: "4.11.9".into(),
        unreadable: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scenes_make_the_planner_do_what_they_are_meant_to() {
        let operations = |scene: Scene| scene.measure("", 1).operations;
        assert_eq!(operations(Scene::new(100, 0, 0, 0)), 100);
        assert_eq!(operations(Scene::new(100, 0, 0, 0).slots(10)), 10);
        assert_eq!(operations(Scene::new(100, 50, 10, 0).slots(10)), 0);
        assert!(operations(Scene::new(100, 50, 0, 10).slots(10)) >= 10);
        assert_eq!(operations(Scene::new(100, 100, 0, 0)), 0);
        assert_eq!(operations(Scene::new(100, 0, 0, 0).asked()), 50);
    }

    #[test]
    fn the_rehearsed_rollout_lasts_for_more_than_a_day() {
        let rehearsal = rehearse(100).unwrap();
        assert!(rehearsal.hours >= 24.0, "{rehearsal:?}");
        assert!(rehearsal.plans > 100, "{rehearsal:?}");
    }
}
