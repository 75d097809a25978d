//! `bench estimate`: how good the estimate of the end is, over many simulated rollouts with varied durations.
//!
//! Each rollout is played to its end with times that the estimate does not know. When a tenth of its clusters is done, the fleet is
//! put together as it stands then, and its end is estimated as the controller does it.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use rollout::forecast::{
    ClusterClass, ClusterForecast, Defect, Forecast, Options, OtherTimes, Profile, Run, Timings,
    end_range_of_plan, forecast,
};
use rollout::{
    Fleet, Limit, Outcome, Phase, Policy, Reason, Stage, Step, StepRecord, StepStatus, StepWork, plan,
};
use serde::Serialize;

use crate::plan::{Stand, cluster, now, policy_with_slots, record, work};
use crate::thresholds::{Side, Threshold, show};

/// Draws of each estimate.
const DRAWS: u32 = 100;
/// How far the end may be from the median, as a share of the time that was left.
const TOLERANCE: f64 = 0.15;

/// What to measure.
#[derive(Clone, Debug, Args)]
pub struct EstimateArgs {
    /// Simulated rollouts.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub rollouts: u32,
    /// Another seed makes other rollouts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// How good the estimates are.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Quality {
    rollouts: u32,
    /// Percentage of rollouts whose end is near the median.
    near_p50: f64,
    /// Percentage of rollouts that end before the 90th percentile.
    below_p90: f64,
    /// The error of the median in percent of the time that was left: median and 90th percentile over the rollouts.
    error_p50: f64,
    error_p90: f64,
    thresholds: Vec<Threshold>,
}

/// Measures and prints; says whether every threshold was met.
///
/// # Errors
/// The planner has a defect, or standard output is closed.
pub fn run(args: &EstimateArgs) -> Result<bool> {
    let quality = measure(args)?;
    show(&quality, args.json, |quality| {
        println!(
            "estimates of {} rollouts, made when a tenth of the clusters was done\nerror of the median, in percent of the time left: median {:.1}, 90th percentile {:.1}\n",
            quality.rollouts, quality.error_p50, quality.error_p90
        );
        for threshold in &quality.thresholds {
            println!("{threshold}");
        }
    })?;
    Ok(quality.thresholds.iter().all(|threshold| threshold.met))
}

fn measure(args: &EstimateArgs) -> Result<Quality> {
    let (mut near, mut below) = (0_u32, 0_u32);
    let mut errors = Vec::new();
    for number in 0..args.rollouts.max(1) {
        let case = Case::new(args.seed.wrapping_mul(1_000_003).wrapping_add(u64::from(number)));
        let (error, is_below) = case.estimate()?;
        near += u32::from(error <= TOLERANCE);
        below += u32::from(is_below);
        errors.push(error);
    }
    errors.sort_unstable_by(f64::total_cmp);
    let error = |tenths: usize| {
        100.0
            * errors
                .get(errors.len() * tenths / 10)
                .copied()
                .unwrap_or_default()
    };
    let percent = |count: u32| 100.0 * f64::from(count) / f64::from(args.rollouts.max(1));
    let (near_p50, below_p90) = (percent(near), percent(below));
    Ok(Quality {
        rollouts: args.rollouts,
        near_p50,
        below_p90,
        error_p50: error(5),
        error_p90: error(9),
        thresholds: vec![
            Threshold::count(
                "end within p50 ± 15 % of the time left",
                (Side::AtLeast, 70.0),
                near_p50,
                "%",
            ),
            Threshold::count("end before p90", (Side::AtLeast, 85.0), below_p90, "%"),
        ],
    })
}

/// A rollout.
struct Case {
    policy: Policy,
    fleet: Fleet,
    /// Class and true time of the update of each cluster.
    truth: BTreeMap<Arc<str>, (ClusterClass, TimeDelta)>,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut random = Random(seed);
        let clusters = 50 + random.below(350);
        let slots = 4 + random.below(clusters / 4);
        let canaries = if random.below(3) == 0 {
            1 + random.below(4)
        } else {
            0
        };
        let mut policy = Policy {
            canaries: canaries > 0,
            cluster_timeout: TimeDelta::hours(12),
            action_timeout: None,
            worker_pools_timeout: None,
            max_concurrency: Limit::Count(u32::try_from(slots).unwrap_or(1)),
            ..policy_with_slots(1)
        };
        if random.below(2) == 0 {
            policy.min_success_time = Some(TimeDelta::minutes(
                10 + i64::try_from(random.below(50)).unwrap_or(0),
            ));
        }
        let spread = 0.08 + 0.3 * random.share();
        let knows_classes = random.below(2) == 0;
        let median = 40.0 + 60.0 * random.share();
        let medians = [
            median * (0.7 + 0.3 * random.share()),
            median * (1.0 + 0.6 * random.share()),
        ];
        let singles = random.share();
        let mut truth = BTreeMap::new();
        let all = (0..clusters).map(|number| {
            let mut cluster = cluster(&format!("spoke-{number:05}"), Stand::Waiting);
            cluster.canary = number < canaries;
            let class = usize::from(random.share() >= singles);
            let minutes = medians[class] * (spread * random.normal()).exp();
            let known = [ClusterClass::SingleNode, ClusterClass::MultiNode][class];
            let class = if knows_classes {
                known
            } else {
                ClusterClass::Unknown
            };
            #[expect(clippy::cast_possible_truncation, reason = "some hundred minutes")]
            let takes = TimeDelta::seconds((60.0 * minutes) as i64);
            truth.insert(Arc::clone(&cluster.name), (class, takes));
            cluster
        });
        let clusters = all.collect();
        Case {
            policy,
            fleet: Fleet {
                clusters,
                calendars: Vec::new(),
                approvals: Arc::default(),
                unreleased: 0,
            },
            truth,
        }
    }

    /// The error of the median as a share of the time that was left, and whether the rollout ended before the 90th percentile.
    fn estimate(&self) -> Result<(f64, bool)> {
        let run = |name: &str, _: Step| Run {
            takes: self.truth.get(name).map(|(_, takes)| *takes),
            fails: false,
        };
        let exact = Options::for_fleet(self.fleet.clusters.len());
        let course = forecast(now(), &self.policy, self.fleet.clone(), exact, &run)
            .map_err(|Defect(text)| anyhow!(text))?;
        let at = tenth(&course).context("no cluster ended")?;
        let fleet = self.at(at, &course);
        let profiles: Vec<Profile> = fleet
            .clusters
            .iter()
            .map(|cluster| self.profile(&cluster.name))
            .collect();
        let timings = Timings::new(at, &self.policy, &fleet, &profiles, OtherTimes::NONE);
        let made = plan(at, &self.policy, &fleet);
        let run = |draw, member: rollout::forecast::FleetMember<'_>, step| timings.run_of(draw, member, step);
        let range =
            end_range_of_plan(at, &self.policy, &fleet, &made, &run, DRAWS).context("nothing is left")?;
        let (left, real) = (seconds(range.p50 - at), seconds(course.end - at));
        Ok(((real - left).abs() / left.max(1.0), course.end <= range.p90))
    }

    fn profile(&self, name: &str) -> Profile {
        let known = self.truth.get(name);
        Profile {
            class: known.map_or(ClusterClass::Unknown, |(class, _)| *class),
            history: Vec::new(),
        }
    }

    /// The fleet at that time.
    fn at(&self, at: DateTime<Utc>, course: &Forecast) -> Fleet {
        let clusters = self.fleet.clusters.iter().zip(&course.clusters);
        Fleet {
            clusters: clusters
                .map(|(fresh, course)| stand_at(fresh, course, at))
                .collect(),
            calendars: Vec::new(),
            approvals: Arc::default(),
            unreleased: 0,
        }
    }
}

/// When a tenth of the clusters was done.
fn tenth(course: &Forecast) -> Option<DateTime<Utc>> {
    let mut ends: Vec<DateTime<Utc>> = course
        .clusters
        .iter()
        .filter_map(|cluster| cluster.ended)
        .collect();
    ends.sort_unstable();
    ends.get(ends.len() / 10).copied()
}

/// A cluster as it stands at that time in its course.
fn stand_at(fresh: &rollout::Cluster, course: &ClusterForecast, at: DateTime<Utc>) -> rollout::Cluster {
    let mut cluster = fresh.clone();
    let Some(started) = course.started.filter(|started| *started <= at) else {
        return cluster;
    };
    let passed = |time: Option<DateTime<Utc>>| time.filter(|time| *time <= at);
    let (released, ended) = (passed(course.released), passed(course.ended));
    let mut row = record(Stand::Running);
    let outcome = released.map(|_| Outcome::Succeeded);
    row.stages[Stage::Platform.index()] = Some(StepRecord {
        started,
        applied: Some(started),
        finished: released,
        outcome,
    });
    (row.phase, row.reason) = match (released, ended) {
        (_, Some(_)) => (Phase::Complete, Reason::None),
        (Some(_), None) => (Phase::Soaking, Reason::Soaking),
        (None, None) => (Phase::Partial, Reason::Running),
    };
    if let Some(released) = released {
        row.stages[Stage::Soak.index()] = Some(StepRecord {
            finished: ended,
            outcome: ended.and(outcome),
            ..StepRecord::started(released)
        });
    }
    if ended.is_none() {
        let mut running = work(Stand::Running);
        running.started = started;
        running.soak_started = released;
        if released.is_some() {
            running.status = StepStatus::Succeeded;
        }
        cluster.works[Step::Platform.index()] = StepWork::Ours(Arc::new(running));
    }
    let row = Arc::new(row);
    (cluster.record, cluster.written) = (Some(Arc::clone(&row)), Some(row));
    cluster
}

fn seconds(time: TimeDelta) -> f64 {
    time.to_std().map_or(0.0, |time| time.as_secs_f64())
}

/// A small seeded generator (`SplitMix64`), so that the same seed makes the same rollouts.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % end.max(1)
    }

    /// A number between 0 and 1.
    fn share(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let share = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        share
    }

    /// A number of the standard normal distribution, as a sum of twelve others.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_of_simulated_rollouts_are_good_enough() {
        let args = EstimateArgs {
            rollouts: 40,
            seed: 7,
            json: false,
        };
        let quality = measure(&args).unwrap();
        assert!(
            quality.thresholds.iter().all(|threshold| threshold.met),
            "{quality:?}"
        );
    }
}
