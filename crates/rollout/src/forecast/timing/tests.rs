use super::*;
use crate::model::{Phase, Stage};
use crate::testing::{FleetBuilder, PolicyBuilder, at, fleet, policy, record, work};

const MINUTE: i64 = 60;

/// A finished cluster whose update took that many minutes.
fn finished(mut fleet: FleetBuilder, name: &str, minutes: i64) -> FleetBuilder {
    let mut row: crate::model::Record = record(Phase::Complete)
        .succeeded(Stage::Platform, -600 * MINUTE)
        .into();
    row.from_version = "4.11.0".into();
    if let Some(stage) = &mut row.stages[Stage::Platform.index()] {
        stage.finished = Some(stage.started + TimeDelta::minutes(minutes));
    }
    fleet = fleet.cluster(name);
    fleet.record(row)
}

fn timings(policy: PolicyBuilder, fleet: FleetBuilder, profile: &dyn Fn(&str) -> Profile) -> Timings {
    let fleet = fleet.build();
    let profiles = profiles(&fleet, profile);
    Timings::new(at(0), &policy.build(), &fleet, &profiles, OtherTimes::NONE)
}

fn profiles(fleet: &Fleet, profile: &dyn Fn(&str) -> Profile) -> Vec<Profile> {
    let clusters = fleet.clusters.iter();
    clusters.map(|cluster| profile(&cluster.name)).collect()
}

fn classes(name: &str) -> Profile {
    let class = match name.as_bytes().first() {
        Some(b's') => ClusterClass::SingleNode,
        Some(b'm') => ClusterClass::MultiNode,
        _ => ClusterClass::Unknown,
    };
    Profile {
        class,
        history: Vec::new(),
    }
}

/// Basis, number of times and median of what a fleet has before it.
fn used(timings: &Timings) -> Vec<(Basis, usize, i64)> {
    let used = timings.used().into_iter();
    used.map(|(timing, _)| {
        let median = timing.samples.quantile(0.5).num_minutes();
        (timing.basis, timing.measured, median)
    })
    .collect()
}

fn to_minor() -> PolicyBuilder {
    policy().target("4.12.0")
}

#[test]
fn five_finished_clusters_of_the_same_class_say_how_long_the_others_take() {
    let mut all = fleet()
        .cluster("m9")
        .version("4.11.0")
        .cluster("s9")
        .version("4.11.0");
    for number in 0..5 {
        all = finished(all, &format!("s{number}"), 40 + number);
    }
    for number in 0..4 {
        all = finished(all, &format!("m{number}"), 200);
    }
    let timings = timings(to_minor(), all, &classes);
    // Four are too few, but they correct what is usual.
    let found = used(&timings);
    assert_eq!(found[1], (Basis::Upgrade, 5, 42));
    assert!(matches!(found[0], (Basis::Usual, 4, 76..=110)), "{found:?}");
    assert_eq!(timings.main_basis(), (Basis::Usual, 4));
}

#[test]
fn when_only_soak_times_are_left_the_spec_says_how_long_they_take() {
    let soaking = fleet()
        .cluster("a")
        .record(
            record(Phase::Soaking)
                .succeeded(Stage::Platform, -60 * MINUTE)
                .stage(Stage::Soak, -MINUTE),
        )
        .work(Step::Platform, work(-60 * MINUTE).succeeded().soak(-MINUTE));
    let timings = timings(to_minor().soak(600), soaking, &classes);
    assert_eq!(
        (timings.unknown(), timings.main_basis()),
        (Vec::new(), (Basis::Spec, 0))
    );
}

#[test]
fn before_five_have_finished_the_own_past_counts_and_then_usual_times_of_the_class() {
    let past = |change, minutes| PastUpdate {
        change,
        took: TimeDelta::minutes(minutes),
    };
    let profile = |name: &str| match name {
        "own" => Profile {
            class: ClusterClass::SingleNode,
            history: vec![
                past(VersionChange::Minor, 50),
                past(VersionChange::Patch, 20),
                past(VersionChange::Minor, 54),
                past(VersionChange::Minor, 9_000),
            ],
        },
        "other" => Profile {
            class: ClusterClass::MultiNode,
            history: vec![past(VersionChange::Patch, 20)],
        },
        _ => Profile::default(),
    };
    for (name, expected) in [
        ("other", (Basis::Usual, 0, 75)),
        ("own", (Basis::History, 2, 52)),
        ("unknown", (Basis::Usual, 0, 70)),
    ] {
        let timings = timings(to_minor(), fleet().cluster(name).version("4.11.0"), &profile);
        assert_eq!(used(&timings), [expected], "{name}");
    }
}

#[test]
fn the_longest_time_of_nine_in_ten_is_that_of_the_slowest_cluster_and_never_a_guess() {
    let waiting = |name: &str| fleet().cluster(name).version("4.11.0");
    let mut all = waiting("s9");
    for number in 0..11 {
        all = finished(all, &format!("s{number:02}"), 40 + number);
    }
    let known = timings(to_minor(), all.clone(), &classes);
    assert_eq!(known.longest_p90(), Some(TimeDelta::minutes(49)));
    let with_a_guess = timings(to_minor(), all.clone().cluster("m9").version("4.11.0"), &classes);
    assert_eq!(with_a_guess.longest_p90(), None, "what is usual is no knowledge");
    let tells = |name: &str| match name {
        "s9t" => Profile {
            class: ClusterClass::SingleNode,
            history: vec![PastUpdate {
                change: VersionChange::Minor,
                took: TimeDelta::minutes(359),
            }],
        },
        _ => classes(name),
    };
    let mut few = waiting("s9t");
    for number in 0..4 {
        few = finished(few, &format!("s{number:02}"), 40);
    }
    let told = timings(to_minor(), few, &tells);
    assert_eq!(
        told.longest_p90(),
        None,
        "what a cluster tells of itself concerns no other"
    );
    let with_an_unknown_step = timings(to_minor().operators(), all, &classes);
    assert_eq!(with_an_unknown_step.longest_p90(), None);
    let done = finished(fleet(), "s1", 40);
    assert_eq!(timings(to_minor(), done, &classes).longest_p90(), None);
}

#[test]
fn nothing_is_guessed_where_nothing_is_known() {
    let policy = || to_minor().pre_action().operators();
    let two = fleet()
        .cluster("a")
        .version("4.11.0")
        .cluster("b")
        .version("4.11.0");
    let timings = timings(policy(), two, &classes);
    assert_eq!(timings.unknown(), [(Step::PreAction, 2), (Step::Operators, 2)]);
    assert_eq!(timings.course(0, "a", Step::PreAction), Run::AT_ONCE);
    let given = OtherTimes {
        given: &|(step, ..)| {
            (step == Step::PreAction).then(|| (Samples::around(TimeDelta::minutes(7), 0.0), 0))
        },
        ..OtherTimes::NONE
    };
    let two = fleet()
        .cluster("a")
        .version("4.11.0")
        .cluster("b")
        .version("4.11.0")
        .build();
    let timings = Timings::new(at(0), &policy().build(), &two, &profiles(&two, &classes), given);
    assert_eq!(timings.unknown(), [(Step::Operators, 2)]);
    let takes = timings.course(0, "a", Step::PreAction).takes;
    assert_eq!(takes, Some(TimeDelta::minutes(7)));
}

#[test]
fn usual_times_count_for_every_step_if_they_are_asked_for() {
    let mut policy = to_minor().pre_action().operators().build();
    policy.worker_pools_timeout = Some(TimeDelta::hours(6));
    let fleet = fleet().cluster("m1").version("4.11.0").build();
    let usual = OtherTimes {
        usual: true,
        ..OtherTimes::NONE
    };
    let timings = Timings::new(at(0), &policy, &fleet, &profiles(&fleet, &classes), usual);
    assert_eq!(timings.unknown(), []);
    assert_eq!(
        used(&timings),
        [(Basis::Usual, 0, 5), (Basis::Usual, 0, 75), (Basis::Usual, 0, 10)]
    );
}

#[test]
fn a_course_leaves_out_the_error_that_all_times_have_in_common() {
    let all = fleet().cluster("m1").version("4.11.0").build();
    let timings = Timings::new(
        at(0),
        &to_minor().build(),
        &all,
        &profiles(&all, &classes),
        OtherTimes::NONE,
    );
    let member = FleetMember { name: "m1", index: 0 };
    let longest = TimeDelta::minutes(160);
    let takes = |run: Run| run.takes.unwrap();
    assert!((0..100).all(|draw| takes(timings.course(draw, "m1", Step::Platform)) <= longest));
    assert!((0..100).any(|draw| takes(timings.run_of(draw, member, Step::Platform)) > longest));
}

#[test]
fn what_is_done_or_changes_nothing_is_not_waited_for() {
    let all = fleet()
        .cluster("at-target")
        .version("4.12.0")
        .cluster("done")
        .record(record(Phase::Complete).succeeded(Stage::Platform, -7200));
    let timings = timings(to_minor(), all, &classes);
    assert_eq!(used(&timings), [(Basis::AtTarget, 0, 0)]);
    assert!(timings.is_at_target("at-target") && !timings.is_at_target("done"));
    assert!(!timings.never_ends(0, "at-target", 1.0), "nothing changes there");
    let takes = timings.course(3, "at-target", Step::Platform).takes;
    assert_eq!(takes, Some(NOTHING_TO_CHANGE));
    assert_eq!(timings.course(3, "done", Step::Platform), Run::AT_ONCE);
}

#[test]
fn a_step_under_way_takes_longer_than_it_has_run() {
    let all = fleet()
        .cluster("m1")
        .version("4.11.0")
        .record(record(Phase::Partial).stage(Stage::Platform, -100 * MINUTE))
        .work(Step::Platform, work(-100 * MINUTE).running());
    let timings = timings(to_minor(), all, &classes);
    for draw in 0..50 {
        let takes = timings.course(draw, "m1", Step::Platform).takes.unwrap();
        assert!(takes >= TimeDelta::minutes(100), "{takes}");
    }
    assert!(timings.typical("m1", Step::Platform).takes > Some(TimeDelta::minutes(100)));
}

#[test]
fn what_is_less_certain_is_spread_wider() {
    let fleet = fleet().cluster("m1").version("4.11.0").build();
    let member = FleetMember { name: "m1", index: 0 };
    let spread = |hub: &dyn Fn(Kind) -> Option<Samples>| {
        let others = OtherTimes {
            hub,
            ..OtherTimes::NONE
        };
        let timings = Timings::new(
            at(0),
            &to_minor().build(),
            &fleet,
            &profiles(&fleet, &classes),
            others,
        );
        let times = (0..100).map(|draw| timings.run_of(draw, member, Step::Platform).takes.unwrap());
        let mut times: Vec<TimeDelta> = times.collect();
        times.sort_unstable();
        times[90] - times[10]
    };
    let certain = spread(&|_| Samples::new([TimeDelta::minutes(75); 5]));
    assert!(
        certain > TimeDelta::minutes(10) && certain < TimeDelta::minutes(30),
        "{certain}"
    );
    assert!(spread(&|_| None) > certain * 2);
}

#[test]
fn how_long_worker_pools_take_only_finished_clusters_of_the_upgrade_tell() {
    let waiting = || {
        let mut policy = to_minor().build();
        policy.worker_pools_timeout = Some(TimeDelta::hours(6));
        policy
    };
    let past = vec![PastUpdate {
        change: VersionChange::Minor,
        took: TimeDelta::minutes(50),
    }];
    let profile = |name: &str| Profile {
        history: past.clone(),
        ..classes(name)
    };
    let hub = |_| Samples::new(std::iter::repeat_n(TimeDelta::minutes(60), 9));
    let others = OtherTimes {
        hub: &hub,
        ..OtherTimes::NONE
    };
    let found = |fleet: FleetBuilder| {
        let fleet = fleet.build();
        let profiles = profiles(&fleet, &profile);
        Timings::new(at(0), &waiting(), &fleet, &profiles, others)
    };
    let mut all = fleet();
    for name in ["m9", "s9", "x9"] {
        all = all.cluster(name).version("4.11.0");
    }
    let timings = found(all);
    assert_eq!(timings.unknown(), [(Step::Platform, 2)]);
    assert_eq!(
        used(&timings),
        [(Basis::History, 1, 50)],
        "a single node has no workers"
    );

    let mut all = fleet().cluster("m9").version("4.11.0");
    for number in 0..5 {
        all = finished(all, &format!("m{number}"), 100 + number);
    }
    let timings = found(all);
    assert_eq!(timings.unknown(), []);
    assert_eq!(used(&timings), [(Basis::Upgrade, 5, 102)]);
}

#[test]
fn clusters_that_run_for_longer_than_usual_correct_what_is_usual() {
    let median = |minutes: i64| {
        let all = fleet()
            .cluster("m1")
            .version("4.11.0")
            .cluster("m2")
            .version("4.11.0")
            .record(record(Phase::Partial).stage(Stage::Platform, -minutes * MINUTE))
            .work(Step::Platform, work(-minutes * MINUTE).running());
        used(&timings(to_minor(), all, &classes))[0].2
    };
    assert!((70..=85).contains(&median(1)), "{}", median(1));
    assert!(median(170) > median(1), "{}", median(170));
}

#[test]
fn clusters_that_the_spec_leaves_out_have_no_step_before_them() {
    let fleet = fleet().cluster("a").cluster("b").skipped("no power");
    let timings = timings(policy(), fleet, &classes);
    let clusters = timings.used().iter().map(|(_, clusters)| clusters).sum::<usize>();
    assert_eq!(clusters, 1);
}
