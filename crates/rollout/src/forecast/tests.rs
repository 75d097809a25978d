use chrono::TimeDelta;
use proptest::prelude::*;

use super::*;
use crate::model::{Limit, RivalHold, Stage, StallReason, StepWork};
use crate::testing::{FleetBuilder, PolicyBuilder, at, fleet, policy, record, work};

const HOUR: i64 = 3600;

const EXACT: Options = Options {
    resolution: TimeDelta::zero(),
    reduced: true,
};

fn minutes(count: i64) -> Run {
    Run {
        takes: Some(TimeDelta::minutes(count)),
        fails: false,
    }
}

fn clusters(names: &[&str]) -> FleetBuilder {
    names.iter().fold(fleet(), |fleet, name| fleet.cluster(name))
}

fn play(policy: PolicyBuilder, fleet: FleetBuilder, run: &dyn Fn(&str, Step) -> Run) -> Forecast {
    forecast(at(0), &policy.build(), fleet.build(), EXACT, run).unwrap()
}

/// The starts as `name@seconds`.
fn starts(forecast: &Forecast) -> Vec<String> {
    let second = |time: DateTime<Utc>| (time - at(0)).num_seconds();
    forecast
        .starts
        .iter()
        .map(|(time, name)| format!("{name}@{}", second(*time)))
        .collect()
}

fn course<'a>(forecast: &'a Forecast, name: &str) -> &'a ClusterForecast {
    forecast
        .clusters
        .iter()
        .find(|cluster| *cluster.name == *name)
        .unwrap()
}

#[test]
fn clusters_start_by_name_as_slots_become_free() {
    let forecast = play(
        policy().max_concurrency(2),
        clusters(&["a", "b", "c", "d"]),
        &|name, _| minutes(if name == "a" { 30 } else { 60 }),
    );
    assert_eq!(starts(&forecast), ["a@0", "b@0", "c@1800", "d@3600"]);
    assert_eq!(forecast.end, at(2 * HOUR));
    assert_eq!((forecast.peak, forecast.slots), (2, 2));
    assert!(forecast.outlook.complete);
    assert_eq!(course(&forecast, "c").ended, Some(at(5400)));
}

#[test]
fn the_other_clusters_start_when_the_canaries_have_soaked() {
    let fleet = fleet().cluster("a").cluster("b").canary();
    let forecast = play(policy().canaries().soak(600), fleet, &|_, _| minutes(60));
    assert_eq!(starts(&forecast), ["b@0", "a@4200"]);
    assert_eq!(forecast.canaries_complete, Some(at(4200)));
    assert_eq!(forecast.end, at(8400));
    let wave = |canaries, start, end| Wave {
        canaries,
        clusters: 1,
        first_start: at(start),
        last_start: at(start),
        end: at(end),
    };
    assert_eq!(forecast.waves(), [wave(true, 0, 4200), wave(false, 4200, 8400)]);
}

#[test]
fn worker_pools_have_their_own_time_after_that_of_the_update() {
    let policy = || {
        policy()
            .timeouts(3 * HOUR, HOUR)
            .worker_pools(6 * HOUR)
            .max_concurrency(1)
    };
    let forecast = play(policy(), clusters(&["a"]), &|_, _| minutes(210));
    assert_eq!((forecast.end, forecast.outlook.complete), (at(12_600), true));
    // The second hangs, and fails when both times are over.
    let hangs = |name: &str, _| {
        if name == "a" {
            minutes(210)
        } else {
            Run {
                takes: None,
                fails: false,
            }
        }
    };
    let forecast = play(policy(), clusters(&["a", "b"]), &hangs);
    assert_eq!(course(&forecast, "b").ended, Some(at(12_600 + 9 * HOUR)));
}

#[test]
fn a_cluster_whose_worker_pools_are_waited_for_keeps_its_slot_until_they_are_expected() {
    let updated = record(Phase::Workers).stage(Stage::Platform, -2 * HOUR);
    let fleet = fleet()
        .cluster("a")
        .record(updated)
        .work(Step::Platform, work(-2 * HOUR).succeeded())
        .cluster("b");
    let policy = policy().worker_pools(6 * HOUR).max_concurrency(1);
    let forecast = play(policy, fleet, &|_, _| minutes(150));
    assert_eq!(starts(&forecast), ["b@1800"]);
    assert!(forecast.outlook.complete);
}

#[test]
fn a_step_that_never_ends_fails_at_its_time_limit_and_releases_the_slot() {
    let policy = policy().max_concurrency(1).timeouts(2 * HOUR, 600);
    let forecast = play(policy, clusters(&["a", "b"]), &|name, _| {
        if name == "a" {
            Run {
                takes: None,
                fails: false,
            }
        } else {
            minutes(60)
        }
    });
    assert_eq!(starts(&forecast), ["a@0", "b@7200"]);
    assert_eq!(course(&forecast, "a").phase, Phase::Failed);
    assert_eq!(course(&forecast, "a").reason, Reason::ClusterUpgradeTimeout);
    assert_eq!(forecast.outlook.stalled, Some(StallReason::ClustersFailed));
}

#[test]
fn too_many_failures_stop_the_rollout_at_the_time_of_the_failure() {
    let policy = policy()
        .max_concurrency(1)
        .timeouts(2 * HOUR, 600)
        .max_failures(Limit::Count(1));
    let forecast = play(policy, clusters(&["a", "b", "c"]), &|_, _| Run {
        takes: None,
        fails: false,
    });
    assert_eq!(starts(&forecast), ["a@0", "b@7200"]);
    assert_eq!(forecast.max_failures_exceeded, Some(at(4 * HOUR)));
    assert_eq!(course(&forecast, "c").reason, Reason::MaxFailuresExceeded);
    assert_eq!(forecast.outlook.stalled, Some(StallReason::MaxFailuresExceeded));
}

#[test]
fn clusters_that_cannot_start_are_named_with_their_reason() {
    let fleet = clusters(&["a"])
        .cluster("blocked")
        .blocked(Reason::NotOpenShift)
        .cluster("rival")
        .rival(RivalHold::Active)
        .cluster("silent")
        .unavailable();
    let forecast = play(policy(), fleet, &|_, _| minutes(60));
    assert_eq!(starts(&forecast), ["a@0"]);
    assert_eq!(course(&forecast, "blocked").reason, Reason::NotOpenShift);
    assert_eq!(course(&forecast, "rival").reason, Reason::Conflict);
    assert_eq!(course(&forecast, "silent").reason, Reason::ClusterUnavailable);
    assert_eq!(forecast.counts.complete, 1);
    let never: Vec<&str> = forecast.never_start().map(|cluster| &*cluster.name).collect();
    assert_eq!(never, ["blocked", "rival", "silent"]);
}

#[test]
fn a_rollout_under_way_goes_on_from_where_it_stands() {
    let fleet = fleet()
        .cluster("a")
        .record(record(Phase::Complete).succeeded(Stage::Platform, -7200))
        .cluster("b")
        .record(record(Phase::Partial).stage(Stage::Platform, -1800))
        .work(Step::Platform, work(-1800).running())
        .cluster("c");
    let forecast = play(policy().max_concurrency(1), fleet, &|_, _| minutes(60));
    assert_eq!(starts(&forecast), ["c@1800"]);
    assert_eq!(course(&forecast, "b").ended, Some(at(1800)));
    assert_eq!(forecast.end, at(1800 + HOUR));
    assert!(forecast.outlook.complete);
}

/// It is probably gone. Nothing reads it in a forecast.
#[test]
fn a_work_that_is_still_to_be_read_counts_as_gone() {
    let fleet = fleet()
        .cluster("a")
        .step_work(Step::Platform, StepWork::Unconfirmed)
        .record(record(Phase::Pending))
        .cluster("b");
    let forecast = play(policy().max_concurrency(1), fleet, &|_, _| minutes(60));
    assert_eq!(starts(&forecast), ["a@0", "b@3600"]);
    assert!(forecast.outlook.complete);
}

#[test]
fn every_requested_step_takes_its_time() {
    let policy = policy().pre_action().operators().post_action().max_concurrency(1);
    let forecast = play(policy, clusters(&["a", "b"]), &|_, step| match step {
        Step::PreAction => minutes(1),
        Step::Platform => minutes(60),
        Step::Operators => minutes(10),
        Step::PostAction => minutes(5),
    });
    // The post-action holds no slot.
    assert_eq!(starts(&forecast), ["a@0", "b@4260"]);
    assert_eq!(course(&forecast, "a").ended, Some(at(76 * 60)));
    assert_eq!(forecast.end, at(147 * 60));
}

#[test]
fn an_action_that_fails_degrades_the_cluster() {
    let policy = policy().pre_action().max_failures(Limit::Count(0));
    let forecast = play(policy, clusters(&["a"]), &|_, _| Run {
        takes: Some(TimeDelta::minutes(1)),
        fails: true,
    });
    assert_eq!(course(&forecast, "a").phase, Phase::PreActionDegraded);
    assert_eq!(forecast.max_failures_exceeded, Some(at(60)));
}

#[test]
fn a_fleet_without_selected_clusters_ends_at_once() {
    let forecast = play(policy(), fleet(), &|_, _| minutes(60));
    assert_eq!(forecast.end, at(0));
    assert_eq!(forecast.outlook.stalled, Some(StallReason::NothingSelected));
}

#[test]
fn events_that_are_planned_for_together_keep_their_times() {
    let names: Vec<String> = (0..60).map(|index| format!("c{index:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let durations = durations(0.0, 7);
    let run = |name: &str, step| durations.run(0, name, step);
    let policy = policy().operators().max_concurrency(7).build();
    let fleet = clusters(&names).build();
    let exact = forecast(at(0), &policy, fleet.clone(), EXACT, &run).unwrap();
    let coarse = Options {
        resolution: TimeDelta::minutes(1),
        reduced: true,
    };
    let coarse = forecast(at(0), &policy, fleet, coarse, &run).unwrap();
    assert!(coarse.plans < exact.plans, "{} {}", coarse.plans, exact.plans);
    assert_eq!(starts_only(&exact), starts_only(&coarse));
    let apart = (coarse.end - exact.end).abs();
    assert!(apart < TimeDelta::minutes(1), "{apart}");
}

fn starts_only(forecast: &Forecast) -> Vec<&str> {
    forecast.starts.iter().map(|(_, name)| &**name).collect()
}

fn durations(failure_rate: f64, seed: u64) -> Durations {
    Durations {
        steps: [5, 60, 10, 5].map(|median| Samples::around(TimeDelta::minutes(median), 0.25)),
        failure_rate,
        seed,
    }
}

#[test]
fn the_range_agrees_with_the_forecast_of_the_same_draw() {
    let names: Vec<String> = (0..200).map(|index| format!("c{index:03}")).collect();
    let fleet = names.iter().enumerate().fold(fleet(), |fleet, (index, name)| {
        let fleet = fleet.cluster(name);
        if index % 20 == 7 { fleet.canary() } else { fleet }
    });
    let fleet = fleet.build();
    let policy = policy()
        .pre_action()
        .operators()
        .post_action()
        .canaries()
        .soak(900)
        .max_concurrency(9)
        .build();
    for seed in 0..10 {
        let durations = durations(0.02, seed);
        let forecast = forecast(at(0), &policy, fleet.clone(), EXACT, &|name, step| {
            durations.run(0, name, step)
        });
        let forecast = forecast.unwrap();
        let range = end_range(
            at(0),
            &policy,
            &fleet,
            &forecast,
            &|draw, member, step| durations.run(draw, member.name, step),
            1,
        )
        .unwrap();
        let (drawn, played) = (range.p50 - at(0), forecast.end - at(0));
        let apart = (drawn - played).abs();
        assert!(
            apart * 100 <= played,
            "seed {seed}: drawn {drawn}, played {played}"
        );
    }
}

#[test]
fn the_range_counts_the_draws_that_exceed_max_failures() {
    let names: Vec<String> = (0..40).map(|index| format!("c{index:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let fleet = clusters(&names).build();
    let of = |rate: f64| {
        let policy = policy().max_concurrency(4).max_failures(Limit::Count(2)).build();
        let durations = durations(rate, 1);
        let forecast = forecast(at(0), &policy, fleet.clone(), EXACT, &|_, _| minutes(60)).unwrap();
        end_range(
            at(0),
            &policy,
            &fleet,
            &forecast,
            &|draw, member, step| durations.run(draw, member.name, step),
            100,
        )
        .unwrap()
    };
    let stopped = |rate| (of(rate).stopped_by_max_failures, of(rate).stopped_by_canary);
    assert_eq!(stopped(0.0), (0, 0));
    assert_eq!(of(0.0).max_failures_exceeded, None);
    assert!(of(0.0).p50 <= of(0.0).p95);
    let (half, _) = stopped(0.06);
    assert!((10..90).contains(&half), "{half}");
    assert_eq!(stopped(0.9), (100, 0));
    // The first three of four slots fail at their time limit of 3 h in nearly every draw.
    assert_eq!(of(0.9).max_failures_exceeded, Some(at(3 * HOUR)));
}

#[test]
fn quantiles_lie_between_the_samples() {
    let samples = Samples::new([40, 10, 20, 30].map(TimeDelta::minutes)).unwrap();
    assert_eq!(samples.quantile(0.0), TimeDelta::minutes(10));
    assert_eq!(samples.quantile(0.5), TimeDelta::minutes(25));
    assert_eq!(samples.quantile(1.0), TimeDelta::minutes(40));
    assert_eq!(Samples::new([]), None);
    let around = Samples::around(TimeDelta::minutes(60), 0.25);
    assert_eq!(around.quantile(0.5), TimeDelta::minutes(60));
    assert_eq!(around.quantile(1.0), TimeDelta::minutes(75));
}

#[derive(Clone, Debug)]
enum Kind {
    Fresh,
    Canary,
    Blocked,
    Silent,
    Rival,
    Left,
    Done,
    Failed,
    Degraded,
    Running(i64),
    Edited(i64),
    Foreign,
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Fresh),
        1 => Just(Kind::Canary),
        1 => Just(Kind::Blocked),
        1 => Just(Kind::Silent),
        1 => Just(Kind::Rival),
        1 => Just(Kind::Left),
        1 => Just(Kind::Done),
        1 => Just(Kind::Failed),
        1 => Just(Kind::Degraded),
        2 => (0..100_i64).prop_map(Kind::Running),
        1 => (0..100_i64).prop_map(Kind::Edited),
        1 => Just(Kind::Foreign),
    ]
}

fn build(kinds: &[Kind]) -> FleetBuilder {
    kinds.iter().enumerate().fold(fleet(), |fleet, (index, kind)| {
        let fleet = fleet.cluster(&format!("c{index:02}"));
        match kind {
            Kind::Fresh => fleet,
            Kind::Canary => fleet.canary(),
            Kind::Blocked => fleet.blocked(Reason::NotOpenShift),
            Kind::Silent => fleet.unavailable(),
            Kind::Rival => fleet.rival(RivalHold::Active),
            Kind::Left => fleet.left(-1),
            Kind::Done => fleet.record(record(Phase::Complete).succeeded(Stage::Platform, -7200)),
            Kind::Failed => fleet.record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout).done(
                Stage::Platform,
                -7200,
                crate::model::Outcome::Failed,
            )),
            Kind::Degraded => fleet.record(record(Phase::PreActionDegraded).reason(Reason::PreActionFailed)),
            Kind::Running(ago) => fleet
                .record(record(Phase::Partial).stage(Stage::Platform, -60 * ago))
                .work(Step::Platform, work(-60 * ago).running()),
            Kind::Edited(ago) => fleet
                .record(
                    record(Phase::Partial)
                        .revision("r0")
                        .stage(Stage::Platform, -60 * ago),
                )
                .work(Step::Platform, work(-60 * ago).revision("r0").running()),
            Kind::Foreign => fleet.step_work(Step::Platform, StepWork::Foreign { retry_at: at(30) }),
        }
    })
}

fn policies() -> impl Strategy<Value = PolicyBuilder> {
    let steps = prop::collection::vec(prop::sample::select(Step::ALL.to_vec()), 0..4);
    let failures = prop::option::of(0..4_u32);
    (steps, 1..5_u32, failures, any::<(bool, bool, bool)>()).prop_map(
        |(steps, slots, failures, (canaries, soak, retry))| {
            let mut policy = steps
                .into_iter()
                .fold(policy().max_concurrency(slots), PolicyBuilder::step);
            if let Some(count) = failures {
                policy = policy.max_failures(Limit::Count(count));
            }
            if canaries {
                policy = policy.canaries();
            }
            if soak {
                policy = policy.soak(600);
            }
            if retry {
                policy = policy.retry("again");
            }
            policy
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn leaving_out_what_cannot_change_changes_nothing(
        kinds in prop::collection::vec(kind(), 0..24),
        policy in policies(),
        rate in 0..40_u32,
        seed in any::<u64>(),
    ) {
        let durations = durations(f64::from(rate) / 100.0, seed);
        let run = |name: &str, step: Step| durations.run(0, name, step);
        let policy = policy.build();
        let fleet = build(&kinds).build();
        let reduced = forecast(at(0), &policy, fleet.clone(), EXACT, &run).unwrap();
        let full = forecast(at(0), &policy, fleet, Options { reduced: false, ..EXACT }, &run).unwrap();
        prop_assert_eq!(&reduced.starts, &full.starts);
        prop_assert_eq!(reduced.end, full.end);
        prop_assert_eq!(reduced.peak, full.peak);
        prop_assert_eq!(reduced.counts, full.counts);
        prop_assert_eq!(reduced.outlook, full.outlook);
        prop_assert_eq!(reduced.canaries_complete, full.canaries_complete);
        prop_assert_eq!(reduced.max_failures_exceeded, full.max_failures_exceeded);
        prop_assert_eq!(reduced.clusters, full.clusters);
    }
}

#[test]
fn the_share_below_a_time_is_the_inverse_of_the_quantile() {
    let samples = Samples::new([10, 20, 20, 40].map(TimeDelta::minutes)).unwrap();
    for (time, share) in [
        (5, 0.0),
        (10, 0.0),
        (15, 1.0 / 6.0),
        (20, 2.0 / 3.0),
        (30, 5.0 / 6.0),
        (40, 1.0),
        (50, 1.0),
    ] {
        let found = samples.share_below(TimeDelta::minutes(time));
        assert!((found - share).abs() < 1e-9, "{time} min: {found}");
    }
    let one = Samples::new([TimeDelta::minutes(10)]).unwrap();
    assert!((one.share_below(TimeDelta::minutes(9)) - 0.0).abs() < 1e-9);
    assert!((one.share_below(TimeDelta::minutes(10)) - 1.0).abs() < 1e-9);
}

#[test]
fn the_times_that_a_step_has_already_passed_are_ruled_out() {
    let durations = Durations {
        steps: [60, 60, 60, 60].map(|median| Samples::around(TimeDelta::minutes(median), 0.5)),
        failure_rate: 0.0,
        seed: 3,
    };
    let age = TimeDelta::minutes(70);
    let times = |age| {
        (0..200).map(move |draw| {
            durations
                .run_after(draw, "c1", Step::Platform, age)
                .takes
                .unwrap()
        })
    };
    let all: Vec<TimeDelta> = times(age).collect();
    assert!(
        all.iter()
            .all(|time| *time >= age && *time <= TimeDelta::minutes(90)),
        "{all:?}"
    );
    let mean = all.iter().map(TimeDelta::num_seconds).sum::<i64>() / 200;
    assert!((4_600..5_000).contains(&mean), "about 80 minutes: {mean} s");
}
