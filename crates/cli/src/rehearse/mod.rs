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

use chrono::{DateTime, TimeDelta, Utc};
use resolve::snapshot::{Answers, NoPlan, PlannerInput, Snapshot};
use rollout::forecast::{
    FleetMember, Forecast, NOTHING_TO_CHANGE, Options, OtherTimes, Run, Timings, end_range, forecast,
};
use rollout::{Fleet, Hold, Policy, Step};

use crate::rehearse::outcome::{Canaries, Estimate, MaxFailures, Rehearsal, Source};

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
/// The draw whose course is shown.
const SHOWN: u64 = 0;

/// What is rehearsed.
#[derive(Clone, Copy)]
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
    /// Times from outside of the upgrade.
    pub others: OtherTimes<'a>,
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
        play.shown(name, step)
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
        &|draw, member, step| play.drawn(draw, member, step),
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
    timings: Timings,
}

impl<'a> Play<'a> {
    fn new(request: &'a Request<'a>, input: PlannerInput) -> Play<'a> {
        let PlannerInput {
            mut policy,
            fleet,
            notes,
            answers,
            profiles,
        } = input;
        // A paused upgrade is rehearsed as if it were resumed, because the question is what happens then.
        policy.hold = None;
        // The same times as those of a plan and of the controller's estimate; only where these know nothing, usual ones count.
        let others = OtherTimes {
            usual: true,
            ..request.others
        };
        let timings = Timings::new(request.now, &policy, &fleet, &profiles, others);
        Play {
            request,
            policy,
            fleet,
            notes,
            answers,
            timings,
        }
    }

    /// How a step goes in the course that is shown.
    fn shown(&self, cluster: &str, step: Step) -> Run {
        self.never_ends(SHOWN, cluster, step)
            .unwrap_or_else(|| self.timings.course(SHOWN, cluster, step))
    }

    /// How a step goes in a draw.
    fn drawn(&self, draw: u64, member: FleetMember<'_>, step: Step) -> Run {
        self.never_ends(draw, member.name, step)
            .unwrap_or_else(|| self.timings.run_of(draw, member, step))
    }

    /// How a step ends that a cluster refuses, or that fails by the given rate; `None` if it does neither.
    fn never_ends(&self, draw: u64, cluster: &str, step: Step) -> Option<Run> {
        let rate = self.request.failure_rate;
        let fails = step == Step::Platform && self.timings.never_ends(draw, cluster, rate);
        assumed::refused(&self.answers, cluster, step).or(fails.then_some(Run {
            takes: None,
            fails: false,
        }))
    }

    /// The rollout if nothing fails. It gives the order of the starts for the draws, because a rollout that stops does not
    /// start every cluster.
    fn without_failures(&self, options: Options) -> Result<Forecast, NoRehearsal> {
        let run = |name: &str, step: Step| {
            let limit = self.policy.timeout(step) - TimeDelta::seconds(1);
            let typical = self.timings.typical(name, step);
            Run {
                takes: typical.takes.map(|takes| takes.min(limit)),
                ..typical
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
            durations: story::times(&self.timings),
            notes,
            not_modelled: NOT_MODELLED,
        }
    }

    /// What is said about steps that have run for longer than every known time.
    fn overdue(&self) -> Option<String> {
        let overdue = self.timings.overdue();
        (overdue > 0).then(|| {
            format!(
                "{} in flight already took longer than every known time of its step; the rehearsal lets the step end at once",
                api::message::count(overdue, "cluster")
            )
        })
    }

    /// What is said about clusters that start and run the target already.
    fn already_there(&self, played: &Forecast) -> Option<String> {
        let starts = played.starts.iter();
        let there = starts.filter(|(_, name)| self.timings.is_at_target(name)).count();
        (there > 0).then(|| {
            format!(
                "{} that {} already {} the target; the platform step takes {} there",
                api::message::count(there, "cluster"),
                if there == 1 { "starts" } else { "start" },
                if there == 1 { "runs" } else { "run" },
                crate::age::human(NOTHING_TO_CHANGE),
            )
        })
    }
}

#[cfg(test)]
mod tests;
