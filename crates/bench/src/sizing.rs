//! `bench sizing`: how long a fleet takes, by its slots and its maintenance windows. It prints the table of
//! `docs/guide/sizing.md`.

use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow};
use api::maintenance::Zone;
use chrono::{DateTime, TimeDelta, Utc};
use rollout::forecast::{Durations, FleetMember, Options, Samples, end_range, forecast};
use rollout::maintenance::{Calendar, Window};
use rollout::{Fleet, Policy, Step};

use crate::plan::{Stand, cluster, policy_with_slots};

const CLUSTERS: usize = 3_500;
const CANARIES: usize = 10;
const SLOTS: [usize; 5] = [50, 100, 200, 350, 700];
const ZONES: [&str; 3] = ["Europe/Berlin", "America/New_York", "Asia/Tokyo"];
const DRAWS: u32 = 50;

/// A Monday, at noon in UTC.
fn start() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + TimeDelta::days(20_759) + TimeDelta::hours(12)
}

/// Canaries that are complete half an hour after their update, and then the others.
fn upgrade(slots: usize) -> Policy {
    let mut policy = policy_with_slots(slots);
    policy.canaries = true;
    policy.steps[Step::PostAction.index()] = Some("h2".into());
    policy.min_success_time = Some(TimeDelta::minutes(30));
    policy
}

fn clusters() -> Fleet {
    let clusters = (0..CLUSTERS).map(|index| {
        let mut cluster = cluster(&format!("edge-{index:04}"), Stand::Waiting);
        cluster.canary = index < CANARIES;
        cluster
    });
    Fleet {
        clusters: clusters.collect(),
        ..Fleet::default()
    }
}

/// Windows of six hours from 22:00 on, in three zones; a start needs two hours.
fn at_night(mut fleet: Fleet) -> Result<Fleet> {
    let window = Arc::new(Window {
        name: Arc::from("nights"),
        schedule: "0 22 * * *".parse()?,
        duration: TimeDelta::hours(6),
    });
    for zone in ZONES {
        let zone = Zone::named(zone)?;
        let calendar = Calendar::new(zone, vec![Arc::clone(&window)], &[], TimeDelta::hours(2));
        fleet.calendars.push(calendar);
    }
    for (index, cluster) in fleet.clusters.iter_mut().enumerate() {
        cluster.calendar = Some(index % ZONES.len());
    }
    Ok(fleet)
}

/// Hours until the end: in half of the draws, and in nine of ten.
fn hours(policy: &Policy, fleet: &Fleet, minutes: i64) -> Result<(f64, f64)> {
    let durations = Durations {
        steps: [5, minutes, 10, 5].map(|median| Samples::around(TimeDelta::minutes(median), 0.25)),
        failure_rate: 0.0,
        seed: 1,
    };
    let now = start();
    let played = forecast(
        now,
        policy,
        fleet.clone(),
        Options::for_fleet(CLUSTERS),
        &|name, step| durations.run(0, name, step),
    );
    let played = played.map_err(|defect| anyhow!(defect.0))?;
    let run = |draw, member: FleetMember<'_>, step| durations.run(draw, member.name, step);
    let range = end_range(now, policy, fleet, &played, &run, DRAWS).context("no cluster moves")?;
    #[expect(clippy::cast_precision_loss, reason = "minutes of some weeks")]
    let hours = |end: DateTime<Utc>| (end - now).num_minutes() as f64 / 60.0;
    Ok((hours(range.p50), hours(range.p90)))
}

/// Prints the table.
///
/// # Errors
/// A rollout is not played to its end.
pub fn run() -> Result<()> {
    println!(
        "| `maxConcurrency` | 45 min each, any time | 90 min each, any time | 45 min each, at night | 90 min each, at night |"
    );
    println!("|---|---|---|---|---|");
    for slots in SLOTS {
        let policy = upgrade(slots);
        let mut cells = vec![slots.to_string()];
        for night in [false, true] {
            for minutes in [45, 90] {
                let fleet = if night { at_night(clusters())? } else { clusters() };
                let (half, most) = hours(&policy, &fleet, minutes)?;
                cells.push(if night {
                    format!("{:.1} days ({:.1})", half / 24.0, most / 24.0)
                } else {
                    format!("{half:.1} h ({most:.1})")
                });
            }
        }
        println!("| {} |", cells.join(" | "));
    }
    Ok(())
}
