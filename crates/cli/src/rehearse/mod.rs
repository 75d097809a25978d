//! Rehearses an upgrade: what the controller would do from now on, by its own code, with agents replaced by durations.
//!
//! This module is pure. [`files`] reads and writes the directories of `--from` and `--save`, and [`crate::command`] reads the
//! hub. What a rehearsal does not model stands in [`NOT_MODELLED`].

mod assumed;
pub mod durations;
pub mod files;
pub mod outcome;
pub mod plan;
mod story;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use resolve::snapshot::{Answers, NoPlan, PlannerInput, Snapshot};
use rollout::forecast::{
    Durations, Forecast, NOTHING_TO_CHANGE, Options, Run, Samples, VersionChange, end_range, forecast,
};
use rollout::{Fleet, Hold, Policy, Step, StepStatus};

use crate::rehearse::durations::{Timed, Times, update_of};
use crate::rehearse::outcome::{Canaries, Estimate, MaxFailures, Rehearsal, Source, StepDuration};

/// What a rehearsal does not model, for users.
pub const NOT_MODELLED: [&str; 7] = [
    "Availability, selection and other upgrades stay as they are now. A cluster that another upgrade holds does not start.",
    "What a cluster itself refuses is known only if it has answered to spec.preflight: an update that it does not offer, a risk, an acknowledgment that it asks for.",
    "Agents report at once, writes take no time, and the hub accepts all of them.",
    "A cluster that fails stays failed: nobody retries it. Whoever is asked for an approval gives it at once.",
    "The controller runs with the defaults of --require-set-bindings, --allow-hub and --operators-grace, and serves this namespace.",
    "What only the running controller knows is missing: waits after failed writes, and since when a cluster is no longer selected.",
    "Usual times of an update end with its operators: worker pools, for which workerPools: Wait waits, come on top.",
];

/// Number of draws for the range of ends.
const DRAWS: u32 = 100;
/// Seed of the draws.
const SEED: u64 = 1;

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Namespace of the upgrade.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID in the snapshot.
    pub uid: &'a str,
    /// When the hub was read. The rehearsal begins then.
    pub now: DateTime<Utc>,
    /// Where the spec comes from.
    pub source: Source,
    /// How long steps take.
    pub times: &'a Times,
    /// Share of clusters (0 to 1) whose platform update never ends.
    pub failure_rate: f64,
}

/// Why there is no rehearsal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRehearsal {
    /// The controller would make no plan.
    NoPlan(NoPlan),
    /// The planner has a defect.
    Defect(String),
}

/// Rehearses an upgrade of a hub.
///
/// # Errors
/// The controller would make no plan for it, or the planner has a defect.
pub fn rehearse(snapshot: &mut Snapshot, request: &Request<'_>) -> Result<Rehearsal, NoRehearsal> {
    let input = snapshot.planner_input(request.uid).map_err(NoRehearsal::NoPlan)?;
    let held_by = input.policy.hold;
    let play = Play::new(request, input);
    let (now, policy, fleet) = (request.now, &play.policy, &play.fleet);
    let options = Options::for_fleet(fleet.clusters.len());
    let mut played = forecast(now, policy, fleet.clone(), options, &|name, step| {
        play.run(0, name, step)
    })
    .map_err(|defect| NoRehearsal::Defect(defect.0))?;
    let order = if request.failure_rate > 0.0 || played.outlook.stalled.is_some() {
        play.without_failures(options)?
    } else {
        played.clone()
    };
    let range = end_range(
        now,
        policy,
        fleet,
        &order,
        &|draw, member, step| play.run(draw, member.name, step),
        DRAWS,
    );
    let estimate = range.map(|range| Estimate {
        p50: range.p50,
        p80: range.p80,
        p95: range.p95,
        draws: range.draws,
        stopped_by_canary: range.stopped_by_canary,
        stopped_by_max_failures: range.stopped_by_max_failures,
        max_failures_exceeded_p50: range.max_failures_exceeded,
    });
    assumed::explain(&mut played.clusters, &play.answers);
    Ok(play.outcome(held_by, &played, estimate))
}

/// The input of a forecast.
struct Play<'a> {
    request: &'a Request<'a>,
    policy: Policy,
    fleet: Fleet,
    notes: Vec<String>,
    /// What the clusters that have not started have answered.
    answers: Answers,
    /// Durations by [`VersionChange`].
    durations: [Durations; 3],
    /// What the draws depend on, by cluster.
    clusters: BTreeMap<Arc<str>, ClusterFacts>,
}

/// What the draws for a cluster depend on.
#[derive(Clone, Copy, Debug, Default)]
struct ClusterFacts {
    change: VersionChange,
    /// How long each step has run.
    ages: [Option<TimeDelta>; 4],
}

impl<'a> Play<'a> {
    fn new(request: &'a Request<'a>, input: PlannerInput) -> Play<'a> {
        let PlannerInput {
            mut policy,
            fleet,
            notes,
            answers,
            profiles: _,
        } = input;
        // A paused upgrade is rehearsed as if it were resumed, because the question is what happens then.
        policy.hold = None;
        let facts = |cluster: &rollout::Cluster| {
            let record = cluster.record.as_deref();
            let record = record.filter(|record| record.attempt.revision == policy.revision);
            let from = record
                .map(|record| &record.from_version)
                .filter(|version| !version.is_empty())
                .unwrap_or(&cluster.version);
            ClusterFacts {
                change: VersionChange::of(from, &policy.target),
                ages: Step::ALL.map(|step| {
                    let work = cluster.step_work(step).ours()?;
                    let done = matches!(work.status, StepStatus::Succeeded | StepStatus::Failed(_));
                    (!done).then(|| request.now - work.started)
                }),
            }
        };
        let clusters = fleet.clusters.iter();
        let clusters = clusters
            .map(|cluster| (Arc::clone(&cluster.name), facts(cluster)))
            .collect();
        let durations = [VersionChange::Patch, VersionChange::Minor, VersionChange::Nothing].map(|change| {
            let samples = |timed| request.times.of(timed).samples.clone();
            let (platform, failure_rate) = update_of(change).map_or_else(
                || (Samples::around(NOTHING_TO_CHANGE, 0.0), 0.0),
                |update| (samples(update), request.failure_rate),
            );
            Durations {
                steps: [
                    samples(Timed::PreAction),
                    platform,
                    samples(Timed::Operators),
                    samples(Timed::PostAction),
                ],
                failure_rate,
                seed: SEED,
            }
        });
        Play {
            request,
            policy,
            fleet,
            notes,
            answers,
            durations,
            clusters,
        }
    }

    fn run(&self, draw: u64, cluster: &str, step: Step) -> Run {
        if let Some(refused) = assumed::refused(&self.answers, cluster, step) {
            return refused;
        }
        let facts = self.clusters.get(cluster).copied().unwrap_or_default();
        let durations = &self.durations[facts.change as usize];
        let age = facts.ages[step.index()].unwrap_or_default();
        durations.run_after(draw, cluster, step, age)
    }

    /// The rollout if nothing fails. It gives the order of the starts for the draws, because a rollout that stops does not
    /// start every cluster.
    fn without_failures(&self, options: Options) -> Result<Forecast, NoRehearsal> {
        let run = |name: &str, step: Step| {
            let limit = self.policy.timeout(step) - TimeDelta::seconds(1);
            let facts = self.clusters.get(name).copied().unwrap_or_default();
            let samples = &self.durations[facts.change as usize].steps[step.index()];
            Run {
                takes: Some(samples.quantile(0.5).min(limit)),
                fails: false,
            }
        };
        forecast(self.request.now, &self.policy, self.fleet.clone(), options, &run)
            .map_err(|defect| NoRehearsal::Defect(defect.0))
    }

    fn outcome(mut self, held_by: Option<Hold>, played: &Forecast, estimate: Option<Estimate>) -> Rehearsal {
        let total = played.counts.total;
        let limit = self.policy.max_failures.map(|limit| limit.of(total));
        let canaries = played.clusters.iter().filter(|cluster| cluster.canary).count();
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(assumed::notes(&self.answers, "rehearsal"));
        notes.extend(self.overdue());
        notes.extend(self.already_there(played));
        if played.cut_off {
            notes.push("The rehearsal ends after a year, although clusters still move".to_owned());
        }
        Rehearsal {
            namespace: self.request.namespace.to_owned(),
            upgrade: self.request.name.to_owned(),
            target: self.policy.target.to_string(),
            source: self.request.source,
            begin: self.request.now,
            held_by: held_by.map(|hold| story::held_by_text(hold).to_owned()),
            verdict: story::verdict(played),
            stalled: played
                .outlook
                .stalled
                .map(|stalled| story::stall_reason(stalled).to_owned()),
            end: played.end,
            estimate,
            slots: played.slots,
            peak: played.peak,
            canaries: self.policy.canaries.then_some(Canaries {
                clusters: canaries,
                complete_at: played.canaries_complete,
            }),
            max_failures: limit.map(|limit| MaxFailures {
                limit,
                exceeded_at: played.max_failures_exceeded,
            }),
            clusters: story::counts(&played.clusters),
            timeline: story::timeline(self.request.now, &self.fleet, played),
            starts: story::starts(played),
            causes: story::causes((self.request.namespace, self.request.name), &played.clusters),
            durations: self.step_durations(),
            notes,
            not_modelled: NOT_MODELLED,
        }
    }

    /// What is said about steps that have run for longer than every sample.
    fn overdue(&self) -> Option<String> {
        let is_overdue = |facts: &&ClusterFacts| {
            let durations = &self.durations[facts.change as usize];
            Step::ALL.into_iter().any(|step| {
                let longest = durations.steps[step.index()].quantile(1.0);
                facts.ages[step.index()].is_some_and(|age| age >= longest)
            })
        };
        let overdue = self.clusters.values().filter(is_overdue).count();
        (overdue > 0).then(|| {
            format!(
                "{} in flight already took longer than every known time of its step; the rehearsal lets the step end at once",
                api::message::count(overdue, "cluster")
            )
        })
    }

    /// What is said about clusters that start and run the target already.
    fn already_there(&self, played: &Forecast) -> Option<String> {
        let facts = |name: &Arc<str>| self.clusters.get(name).copied().unwrap_or_default();
        let starts = played.starts.iter();
        let there = starts
            .filter(|(_, name)| facts(name).change == VersionChange::Nothing)
            .count();
        (there > 0 && self.policy.wants(Step::Platform)).then(|| {
            format!(
                "{} that {} already {} the target; the platform step takes {} there",
                api::message::count(there, "cluster"),
                if there == 1 { "starts" } else { "start" },
                if there == 1 { "runs" } else { "run" },
                crate::age::human(NOTHING_TO_CHANGE),
            )
        })
    }

    /// The times of the steps that the upgrade has. Of the kinds of update only those that occur.
    fn step_durations(&self) -> Vec<StepDuration> {
        let has = |change| self.clusters.values().any(|facts| facts.change == change);
        let is_used = |timed: &Timed| match timed {
            Timed::PreAction => self.policy.wants(Step::PreAction),
            Timed::PatchUpdate => self.policy.wants(Step::Platform) && has(VersionChange::Patch),
            Timed::MinorUpdate => self.policy.wants(Step::Platform) && has(VersionChange::Minor),
            Timed::Operators => self.policy.wants(Step::Operators),
            Timed::PostAction => self.policy.wants(Step::PostAction),
        };
        let used = Timed::ALL.into_iter().filter(is_used);
        used.map(|timed| {
            let times = self.request.times.of(timed);
            let seconds = |share| times.samples.quantile(share).num_seconds();
            StepDuration {
                step: timed.step(),
                update: timed.update(),
                p50_seconds: seconds(0.5),
                p95_seconds: seconds(0.95),
                samples: times.measured(),
                basis: times.basis,
            }
        })
        .collect()
    }
}

#[cfg(test)]
mod tests;
