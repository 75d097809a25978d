//! The plan of an upgrade: a rehearsal without assumptions. What is not known of the clusters' times is not guessed, so the end is
//! given only if it is known.

use chrono::{DateTime, Utc};
use resolve::snapshot::{PlannerInput, Snapshot};
use rollout::forecast::{
    EndRange, FleetMember, Forecast, Options, OtherTimes, Timings, end_range, forecast, moving,
};
use rollout::hash_of_plan;
use serde::Serialize;

use crate::rehearse::outcome::{
    Cause, ClusterCounts, Source, Start, Timeline, UsedTime, Verdict, optional_time, time,
};
use crate::rehearse::{NOT_MODELLED, NoRehearsal, assumed, story};

/// Number of draws for the end.
const DRAWS: u32 = 100;
/// What a plan models as little as a rehearsal: all but the last one, which is about usual times.
const SHARED: usize = NOT_MODELLED.len() - 1;

/// What is planned.
#[derive(Clone, Copy)]
pub struct PlanRequest<'a> {
    /// Namespace of the upgrade.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID in the snapshot.
    pub uid: &'a str,
    /// When the hub was read. The plan begins then.
    pub now: DateTime<Utc>,
    /// Where the spec comes from.
    pub source: Source,
    /// Times from outside of the upgrade.
    pub others: OtherTimes<'a>,
}

/// A plan. Its JSON form is stable: every key is always present, and unknown values are null or empty.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradePlan {
    /// Namespace of the upgrade.
    pub namespace: String,
    /// Name of the upgrade.
    pub upgrade: String,
    /// The requested version; empty if only an image or only operators are requested.
    pub target: String,
    /// Where the spec comes from.
    pub source: Source,
    /// When the hub was read. The plan begins then.
    #[serde(serialize_with = "time")]
    pub begin: DateTime<Utc>,
    /// What holds the upgrade now: Paused or Restored. The plan begins as if it were resumed.
    pub held_by: Option<String>,
    /// The hash by which approvals name the present plan: over the spec, the selected clusters and the canaries. It is the one that the
    /// status of the upgrade tells, except for a file that is not applied yet.
    pub plan_hash: String,
    /// How the upgrade would end.
    pub verdict: Verdict,
    /// The reason of the condition Stalled at the end.
    pub stalled: Option<String>,
    /// When the last cluster that moves has moved; `None` if nothing moves, or if the time of a step is not known.
    pub eta: Option<Eta>,
    /// The steps of which nothing is known. They take no time in the timeline.
    pub unknown: Vec<UnknownStep>,
    /// Number of slots of maxConcurrency.
    pub slots: usize,
    /// Largest number of slots that are held at one time.
    pub peak: usize,
    /// The canaries, and the other clusters that start.
    pub waves: Vec<PlannedWave>,
    /// Clusters by their phase at the end.
    pub clusters: ClusterCounts,
    /// One row per hour.
    pub timeline: Vec<Timeline>,
    /// The clusters in the order of their starts.
    pub starts: Vec<Start>,
    /// Groups of clusters that are not complete at the end; the largest first.
    pub blockers: Vec<Cause>,
    /// How long the steps take.
    pub times: Vec<UsedTime>,
    /// Clusters of which the plan only assumes that they take the update, because they have not answered yet.
    pub unanswered: usize,
    /// Clusters that would start and refuse the update, or not finish it, and those that were asked for it and refuse it.
    pub refusing: usize,
    /// What the reader should know about this plan.
    pub notes: Vec<String>,
    /// What a plan does not model.
    pub not_modelled: &'static [&'static str],
}

/// When an upgrade ends.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Eta {
    /// In half of the draws it ends until then.
    #[serde(serialize_with = "time")]
    pub p50: DateTime<Utc>,
    /// In 90 of 100 draws.
    #[serde(serialize_with = "time")]
    pub p90: DateTime<Utc>,
    /// Where most of the times come from.
    pub basis: &'static str,
    /// How many times were measured for it.
    pub samples: usize,
}

/// A step of which nothing is known.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UnknownStep {
    /// The step.
    pub step: &'static str,
    /// Number of clusters that have it before them.
    pub clusters: usize,
}

/// Clusters that start one after the other.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedWave {
    /// True for the canaries.
    pub canaries: bool,
    /// Number of clusters.
    pub clusters: usize,
    /// When the first of them starts.
    #[serde(serialize_with = "time")]
    pub first_start: DateTime<Utc>,
    /// When the last of them starts.
    #[serde(serialize_with = "time")]
    pub last_start: DateTime<Utc>,
    /// When the last of them ends.
    #[serde(serialize_with = "optional_time")]
    pub end: Option<DateTime<Utc>>,
}

/// Plans an upgrade of a hub.
///
/// # Errors
/// The controller would make no plan for it, or the planner has a defect.
pub fn plan(snapshot: &mut Snapshot, request: PlanRequest<'_>) -> Result<UpgradePlan, NoRehearsal> {
    let input = snapshot.planner_input(request.uid).map_err(NoRehearsal::NoPlan)?;
    let PlannerInput {
        mut policy,
        fleet,
        profiles,
        mut notes,
        answers,
    } = input;
    notes.extend(assumed::notes(&answers, "plan"));
    let plan_hash = hash_of_plan(request.now, &policy, &fleet).to_string();
    // A paused upgrade is a plan: the question is what happens once it is resumed.
    let held_by = policy.hold.take();
    let timings = Timings::new(request.now, &policy, &fleet, &profiles, request.others);
    let options = Options::for_fleet(fleet.clusters.len());
    let typical = |name: &str, step| {
        assumed::refused(&answers, name, step).unwrap_or_else(|| timings.typical(name, step))
    };
    let mut played = forecast(request.now, &policy, fleet.clone(), options, &typical)
        .map_err(|defect| NoRehearsal::Defect(defect.0))?;
    let moving = moving(request.now, &policy, &fleet, &played);
    let mut of_moving = timings.clone();
    of_moving.retain(|index| moving.contains(&index));
    let unknown = of_moving.unknown();
    let draw = |draw, member: FleetMember<'_>, step| {
        let refused = assumed::refused(&answers, member.name, step);
        refused.unwrap_or_else(|| timings.run_of(draw, member, step))
    };
    let range = end_range(request.now, &policy, &fleet, &played, &draw, DRAWS);
    let eta = range
        .filter(|_| unknown.is_empty())
        .map(|range| eta(range, &of_moving));
    assumed::explain(&mut played.clusters, &answers);
    let plan = UpgradePlan {
        namespace: request.namespace.to_owned(),
        upgrade: request.name.to_owned(),
        target: policy.target.to_string(),
        source: request.source,
        begin: request.now,
        held_by: held_by.map(|hold| story::held_by_text(hold).to_owned()),
        plan_hash,
        verdict: story::verdict(&played),
        stalled: played
            .outlook
            .stalled
            .map(|stalled| story::stall_reason(stalled).to_owned()),
        eta,
        unknown: unknown
            .into_iter()
            .map(|(step, clusters)| UnknownStep {
                step: story::name_of(step),
                clusters,
            })
            .collect(),
        slots: played.slots,
        peak: played.peak,
        waves: waves(&played),
        clusters: story::counts(&played.clusters),
        timeline: story::timeline(request.now, &fleet, &played),
        starts: story::starts(&played),
        blockers: story::causes((request.namespace, request.name), &played.clusters),
        times: story::times(&timings),
        unanswered: answers.assumed(),
        refusing: answers.refusals.len() + answers.refused.len(),
        notes,
        not_modelled: &NOT_MODELLED[..SHARED],
    };
    Ok(plan)
}

fn eta(range: EndRange, timings: &Timings) -> Eta {
    let (basis, samples) = timings.main_basis();
    Eta {
        p50: range.p50,
        p90: range.p90,
        basis: basis.as_str(),
        samples,
    }
}

fn waves(played: &Forecast) -> Vec<PlannedWave> {
    let waves = played.waves().into_iter();
    waves
        .map(|wave| PlannedWave {
            canaries: wave.canaries,
            clusters: wave.clusters,
            first_start: wave.first_start,
            last_start: wave.last_start,
            end: Some(wave.end),
        })
        .collect()
}

#[cfg(test)]
mod tests;
