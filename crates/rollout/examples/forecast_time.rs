//! Time of a forecast: 10,000 clusters with three steps and 24 hours of work, with the checker on every plan, and as a
//! ratio to one plan of the whole fleet for each minute of the rollout, without a checker.
//!
//! `cargo run --release -p rollout --features testing --example forecast_time`

#![expect(clippy::disallowed_methods, reason = "a measurement reads a clock")]

use std::time::Instant;

use chrono::TimeDelta;
use rollout::forecast::{
    Durations, FleetMember, Options, OtherTimes, Profile, Samples, Timings, end_range, end_range_of_plan,
    forecast,
};
use rollout::testing::{at, fleet, policy};

fn main() {
    for (clusters, slots) in [(1_000, 50_u32), (10_000, 100), (10_000, 500), (10_000, 1_000)] {
        let names = (0..clusters).map(|index| format!("cluster-{index:05}"));
        let fleet = names.fold(fleet(), |fleet, name| fleet.cluster(&name)).build();
        let policy = policy()
            .pre_action()
            .operators()
            .soak(1800)
            .max_concurrency(slots)
            .build();
        let durations = Durations {
            steps: [5, 60, 10, 5].map(|median| Samples::around(TimeDelta::minutes(median), 0.25)),
            failure_rate: 0.01,
            seed: 1,
        };
        let options = Options::for_fleet(clusters);
        let begin = Instant::now();
        let result = forecast(at(0), &policy, fleet.clone(), options, &|name, step| {
            durations.run(0, name, step)
        });
        let forecast = match result {
            Ok(forecast) => forecast,
            Err(defect) => {
                println!("{clusters} clusters: {defect:?}");
                continue;
            }
        };
        let took = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let range = end_range(
            at(0),
            &policy,
            &fleet,
            &forecast,
            &|draw, member, step| durations.run(draw, member.name, step),
            100,
        );
        let drawn = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let plan = rollout::plan(at(0), &policy, &fleet);
        let one = begin.elapsed().as_secs_f64();
        let begin = Instant::now();
        let profiles = vec![Profile::default(); clusters];
        let timings = Timings::new(at(0), &policy, &fleet, &profiles, OtherTimes::NONE);
        let run = |draw, member: FleetMember<'_>, step| timings.run_of(draw, member, step);
        let estimate = end_range_of_plan(at(0), &policy, &fleet, &plan, &run, 12);
        let estimated = begin.elapsed().as_secs_f64();
        let hours = (forecast.end - at(0)).num_minutes();
        let bare = one * f64::from(u32::try_from(hours).unwrap_or(u32::MAX));
        println!(
            "{clusters} clusters, {slots} slots: {hours} min, {} plans, {took:.2} s ({:.2} of a bare plan each minute), 100 draws {drawn:.3} s, resolution {}, {} starts, p50 {:?}; an estimate of 12 draws {estimated:.3} s, p50 {:?}",
            forecast.plans,
            took / bare,
            options.resolution,
            plan.operations.len(),
            range.map(|range| (range.p50 - at(0)).num_minutes()),
            estimate.map(|range| (range.p50 - at(0)).num_minutes()),
        );
    }
}
