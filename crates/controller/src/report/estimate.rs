//! When an upgrade ends: how the estimate is made, and when a new one replaces the one that is shown. Pure.

use api::estimate::UpgradeEstimate;
use api::time::{from_chrono, to_chrono};
use chrono::{DateTime, TimeDelta, Utc};
use rollout::forecast::{FleetMember, OtherTimes, Profile, Timings, end_range_of_plan, moving_by_plan};
use rollout::{Fleet, Plan, Policy};

/// Time between two estimates of an upgrade.
pub const INTERVAL: TimeDelta = TimeDelta::minutes(5);
/// Times are rounded up to this.
const ROUNDED_TO: i64 = 5 * 60;
/// An estimate is replaced when it moves by more than this part of the time that is left.
const PART: i32 = 10;
/// Courses of clusters that are drawn for one estimate, so that it takes some ten milliseconds at most.
const COURSES: usize = 100_000;
/// Fewest and most draws.
const DRAWS: (usize, usize) = (12, 100);

/// What a pass knows of the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Estimated {
    /// The pass has not estimated it, so the one that is shown stays.
    #[default]
    Not,
    /// The pass has estimated it; `None` if it is not known.
    As(Option<UpgradeEstimate>),
}

/// True when an upgrade has an end to be estimated: it moves, or would if somebody approved, and nobody holds it.
#[must_use]
pub fn has_end(policy: &Policy, plan: &Plan) -> bool {
    policy.hold.is_none() && !policy.deleting && moves_if_approved(plan)
}

/// True when an upgrade moves, or waits for an approval alone: who is asked wants to know when all will be done.
#[must_use]
pub const fn moves_if_approved(plan: &Plan) -> bool {
    let waits = plan.summary.waiting_for_approval > 0 && plan.outlook.stalled.is_none();
    !plan.outlook.complete && (plan.outlook.moving || waits)
}

/// How long the slowest cluster takes in nine of ten cases that has not started, rounded up. `None` if a step of it has a time that nobody
/// knows.
#[must_use]
pub fn longest(
    now: DateTime<Utc>,
    policy: &Policy,
    fleet: &Fleet,
    profiles: &[Profile],
) -> Option<TimeDelta> {
    let timings = Timings::new(now, policy, fleet, profiles, OtherTimes::NONE);
    let seconds = timings.longest_p90()?.num_seconds();
    Some(TimeDelta::seconds(
        (seconds + ROUNDED_TO - 1) / ROUNDED_TO * ROUNDED_TO,
    ))
}

/// Estimates the end. `None` if a step of a cluster that moves has a time that nobody knows.
#[must_use]
pub fn estimate(
    now: DateTime<Utc>,
    policy: &Policy,
    fleet: &Fleet,
    plan: &Plan,
    profiles: &[Profile],
) -> Option<UpgradeEstimate> {
    let mut timings = Timings::new(now, policy, fleet, profiles, OtherTimes::NONE);
    let moving = moving_by_plan(now, policy, fleet, plan);
    timings.retain(|index| moving.contains(&index));
    if !timings.unknown().is_empty() {
        return None;
    }
    let (basis, samples) = timings.main_basis();
    let draws = (COURSES / fleet.clusters.len().max(1)).clamp(DRAWS.0, DRAWS.1);
    let run = |draw, member: FleetMember<'_>, step| timings.run_of(draw, member, step);
    let draws = u32::try_from(draws).unwrap_or(1);
    let range = end_range_of_plan(now, policy, fleet, plan, &run, draws)?;
    Some(UpgradeEstimate {
        p50: from_chrono(rounded(range.p50)),
        p90: from_chrono(rounded(range.p90)),
        basis: basis.as_str().to_owned(),
        samples: i64::try_from(samples).unwrap_or(i64::MAX),
    })
}

fn rounded(time: DateTime<Utc>) -> DateTime<Utc> {
    let seconds = time.timestamp();
    let above = seconds + (-seconds).rem_euclid(ROUNDED_TO);
    DateTime::from_timestamp(above, 0).unwrap_or(time)
}

/// The estimate to show: the one that is shown, unless the new one differs from it by more than a tenth of the time that is left.
#[must_use]
pub fn shown(
    before: Option<&UpgradeEstimate>,
    estimated: Estimated,
    now: DateTime<Utc>,
) -> Option<UpgradeEstimate> {
    let next = match estimated {
        Estimated::Not => return before.cloned(),
        Estimated::As(next) => next?,
    };
    let stays = before.is_some_and(|before| {
        let times = [(&before.p50, &next.p50), (&before.p90, &next.p90)];
        times.into_iter().all(|(before, next)| {
            let (Some(before), Some(next)) = (to_chrono(before), to_chrono(next)) else {
                return false;
            };
            let left = before - now;
            left > TimeDelta::zero() && (next - before).abs() * PART <= left
        })
    });
    if stays { before.cloned() } else { Some(next) }
}

#[cfg(test)]
mod tests;
