//! A forecast compared with a scenario, in which the planner works with a hub, agents and writes that take their time: if the
//! durations come true, the same clusters start in the same order.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::TimeDelta;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::forecast::{Forecast, Options, Run, forecast};
use crate::model::{Eligibility, Limit, Phase, Preflight, Reason, Step};
use crate::testing::{PolicyBuilder, Scenario, Script, at, fleet, policy};

/// A write of a scenario takes a second, and only then does its step begin.
const WRITE: i64 = 1;
/// Longer than any course of a few clusters.
const LONG: i64 = 500_000;
/// Time limit of a platform step. It differs from every sum of other times, so that two things never happen in the same second only
/// in the forecast.
const TIMEOUT: i64 = 7_217;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Good,
    Canary,
    Blocked,
    Silent,
    NotReady,
    NotAsked,
    NeverEnds,
    ActionFails,
}

#[derive(Clone, Debug)]
struct Course {
    kind: Kind,
    /// Minutes of each step.
    minutes: [i64; 4],
}

impl Course {
    fn run(&self, step: Step) -> Run {
        let takes = TimeDelta::seconds(60 * self.minutes[step.index()]);
        Run {
            takes: (!self.never_ends(step)).then_some(takes),
            fails: self.fails(step),
        }
    }

    fn never_ends(&self, step: Step) -> bool {
        self.kind == Kind::NeverEnds && step == Step::Platform
    }

    fn fails(&self, step: Step) -> bool {
        self.kind == Kind::ActionFails && step == Step::PreAction
    }

    fn script(&self, step: Step) -> Script {
        let end = 60 * self.minutes[step.index()] - WRITE;
        let begun = Script::silent().running(1);
        match (self.never_ends(step), self.fails(step)) {
            (true, _) => begun,
            (_, true) => begun.failed(end),
            _ => begun.succeeded(end),
        }
    }
}

fn blocked() -> Eligibility {
    Eligibility::Blocked {
        reason: Reason::NotOpenShift,
        message: "blocked".into(),
    }
}

fn silent() -> Eligibility {
    Eligibility::Unavailable {
        reason: Reason::ClusterUnavailable,
        message: "silent".into(),
    }
}

fn not_ready() -> Preflight {
    Preflight::Blocked {
        reason: Reason::NotOffered,
        message: "not offered".into(),
    }
}

fn name(number: usize) -> String {
    format!("c{number:02}")
}

fn forecast_of(policy: &PolicyBuilder, courses: &[Course]) -> Forecast {
    let mut all = fleet();
    for (number, course) in courses.iter().enumerate() {
        all = all.cluster(&name(number)).preflight(Preflight::Ready);
        all = match course.kind {
            Kind::Canary => all.canary(),
            Kind::Blocked => all.blocked(Reason::NotOpenShift),
            Kind::Silent => all.unavailable(),
            Kind::NotReady => all.preflight(not_ready()),
            Kind::NotAsked => all.preflight(Preflight::NotAsked),
            Kind::Good | Kind::NeverEnds | Kind::ActionFails => all,
        };
    }
    let by_name: BTreeMap<String, &Course> = courses
        .iter()
        .enumerate()
        .map(|(number, course)| (name(number), course))
        .collect();
    let exact = Options {
        resolution: TimeDelta::zero(),
        reduced: true,
    };
    let run = |name: &str, step: Step| by_name[name].run(step);
    forecast(at(0), &policy.clone().build(), all.build(), exact, &run).unwrap()
}

fn scenario_of(policy: &PolicyBuilder, courses: &[Course]) -> Scenario {
    let mut scenario = Scenario::new(policy.clone().build(), 1);
    for (number, course) in courses.iter().enumerate() {
        let name = name(number);
        scenario.add_cluster(&name);
        for step in Step::ALL {
            scenario.script(&name, step, course.script(step));
        }
        match course.kind {
            Kind::Canary => scenario.canary(0, &name),
            Kind::Blocked => scenario.eligibility(&name, blocked()),
            Kind::Silent => scenario.eligibility(&name, silent()),
            Kind::NotReady => scenario.preflight(&name, not_ready()),
            Kind::NotAsked => scenario.preflight(&name, Preflight::NotAsked),
            Kind::Good | Kind::NeverEnds | Kind::ActionFails => {}
        }
    }
    scenario.run_until(LONG);
    scenario
}

/// The second in which each cluster started, in order. A post-action takes no slot.
fn starts_of(scenario: &Scenario) -> Vec<(i64, String)> {
    let mut starts: Vec<(i64, String)> = Vec::new();
    for line in scenario.log_of("create") {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, cluster, _, step] = words[..] else {
            continue;
        };
        if step != "PostAction" && starts.iter().all(|(_, known)| known != cluster) {
            let second = at.trim_end_matches('s').parse().unwrap();
            starts.push((second, cluster.to_owned()));
        }
    }
    starts
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        6 => Just(Kind::Good),
        1 => Just(Kind::Canary),
        1 => Just(Kind::Blocked),
        1 => Just(Kind::Silent),
        1 => Just(Kind::NotReady),
        1 => Just(Kind::NotAsked),
        1 => Just(Kind::NeverEnds),
        1 => Just(Kind::ActionFails),
    ]
}

fn courses() -> impl Strategy<Value = Vec<Course>> {
    let minutes = prop::array::uniform4(1..100_i64);
    let course = (kinds(), minutes).prop_map(|(kind, minutes)| Course { kind, minutes });
    prop::collection::vec(course, 1..20)
}

fn policies() -> impl Strategy<Value = PolicyBuilder> {
    let steps = prop::collection::vec(prop::sample::select(Step::ALL.to_vec()), 0..4);
    let switches = any::<(bool, bool, bool)>();
    (steps, 1..6_u32, prop::option::of(0..4_u32), switches).prop_map(
        |(steps, slots, failures, (canaries, soaks, asks))| {
            let base = policy().max_concurrency(slots).timeouts(TIMEOUT, TIMEOUT);
            let mut policy = steps.into_iter().fold(base, PolicyBuilder::step);
            if let Some(limit) = failures {
                policy = policy.max_failures(Limit::Count(limit));
            }
            if canaries {
                policy = policy.canaries();
            }
            if soaks {
                policy = policy.soak(1_200);
            }
            if asks {
                policy = policy.requires_preflight();
            }
            policy
        },
    )
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(200) })]

    #[test]
    fn the_planner_starts_the_clusters_of_a_forecast_in_its_order(policy in policies(), courses in courses()) {
        let played = forecast_of(&policy, &courses);
        let scenario = scenario_of(&policy, &courses);
        let predicted: Vec<(i64, String)> = played
            .starts
            .iter()
            .map(|(start, name)| ((*start - at(0)).num_seconds(), name.to_string()))
            .collect();
        let real = starts_of(&scenario);
        let names = |starts: &[(i64, String)]| -> Vec<String> {
            starts.iter().map(|(_, name)| name.clone()).collect()
        };
        // If a time limit ends in the very second in which another cluster ends, the second of a reading decides.
        let ends_with = |end| played.clusters.iter().filter(|cluster| cluster.ended == Some(end)).count();
        let limits = courses.iter().zip(&played.clusters);
        let mut limits = limits.filter(|(course, _)| course.kind == Kind::NeverEnds);
        prop_assume!(limits.all(|(_, cluster)| cluster.ended.is_none_or(|end| ends_with(end) == 1)));
        prop_assert_eq!(names(&predicted), names(&real), "{}", scenario.log());
        // A step whose time is over is read once more, which takes a second.
        let overdue = courses.iter().filter(|course| course.kind == Kind::NeverEnds).count();
        let tolerance = i64::try_from(overdue).unwrap();
        for ((predicted, name), (real, _)) in predicted.iter().zip(&real) {
            prop_assert!((real - predicted).abs() <= tolerance, "{name}: {predicted} s, {real} s\n{}", scenario.log());
        }
        for cluster in &played.clusters {
            let phase: Option<Phase> = scenario.phase(0, &cluster.name);
            let name: &Arc<str> = &cluster.name;
            prop_assert_eq!(phase, Some(cluster.phase), "{}\n{}", name, scenario.log());
        }
    }
}
