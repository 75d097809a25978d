//! What slots, canaries, the failure budget, pauses, actions and deadlines mean over the course of an upgrade.

use chrono::TimeDelta;

use super::sequences::world;
use crate::model::{Hold, Limit, Phase, Reason, Stage, StallReason, Step};
use crate::testing::{PolicyBuilder, Scenario, Script, policy};

const THREE: [&str; 3] = ["dev1", "dev2", "dev3"];
const FOUR: [&str; 4] = ["dev1", "dev2", "dev3", "dev4"];

/// Time limits that a test can wait for.
fn short(asked: PolicyBuilder) -> PolicyBuilder {
    asked.timeouts(60, 60)
}

/// A scenario with these canaries.
fn with_canaries(asked: PolicyBuilder, names: &[&str], canaries: &[&str]) -> Scenario {
    let mut world = world(asked.canaries(), names);
    for name in canaries {
        world.canary(0, name);
    }
    world
}

/// Runs the scenario to its end, in which no rule was violated.
#[track_caller]
fn settle(world: &mut Scenario) {
    assert!(world.settle(100_000), "{}", world.log());
    assert_eq!(world.faults(), [""; 0], "{}", world.log());
}

/// How often a work of a cluster was created.
fn created(world: &Scenario, name: &str, step: Step) -> usize {
    let text = format!("{name}  create {step:?}");
    let creations = world.log_of("create").into_iter();
    creations.filter(|line| line.ends_with(&text)).count()
}

#[track_caller]
fn stalled_by_its_canary(world: &mut Scenario, others: &[&str]) {
    settle(world);
    let plan = world.plan(0).clone();
    assert_eq!(plan.summary.canaries.failed, 1, "{}", world.log());
    assert!(!plan.outlook.complete && !plan.outlook.moving);
    assert_eq!(plan.outlook.stalled, Some(StallReason::CanaryFailed));
    for name in others {
        assert_eq!(created(world, name, Step::Platform), 0, "{name}");
    }
}

#[test]
fn a_changed_max_concurrency_acts_at_once_and_aborts_nobody() {
    let names = ["dev1", "dev2", "dev3", "dev4", "dev5", "dev6", "dev7", "dev8"];
    let mut world = world(policy().max_concurrency(2), &names);
    for name in names {
        world.script(name, Step::Platform, Script::silent().running(1));
    }
    world.run_until(10);
    assert_eq!(world.plan(0).summary.in_flight, 2);
    world.edit(0, |policy| policy.max_concurrency = Limit::Count(4));
    world.run_until(20);
    assert_eq!(world.plan(0).summary.in_flight, 4);
    assert!((1..=4).all(|number| world.has_work(&format!("dev{number}"), Step::Platform)));
    world.edit(0, |policy| policy.max_concurrency = Limit::Count(1));
    world.run_until(30);
    assert_eq!(world.plan(0).summary.max_concurrency, 1);
    for done in 1..=3 {
        world.script(
            &format!("dev{done}"),
            Step::Platform,
            Script::silent().succeeded(0),
        );
        world.run_until(30 + 10 * i64::from(done));
        let summary = world.plan(0).summary;
        assert_eq!(summary.clusters.complete, usize::try_from(done).unwrap());
        assert_eq!(summary.clusters.initialized, 4, "nobody starts");
        assert_eq!(
            summary.in_flight + summary.clusters.complete,
            4,
            "nobody is aborted"
        );
        assert_eq!(created(&world, "dev5", Step::Platform), 0);
    }
    world.script("dev4", Step::Platform, Script::silent().succeeded(0));
    world.run_until(80);
    assert_eq!(created(&world, "dev5", Step::Platform), 1);
    assert_eq!(created(&world, "dev6", Step::Platform), 0);
    assert_eq!(world.faults(), [""; 0]);
}

#[test]
fn a_failed_cluster_does_not_stop_the_rest() {
    let mut world = world(short(policy().max_concurrency(1)), &THREE);
    world.script("dev1", Step::Platform, Script::silent());
    settle(&mut world);
    assert_eq!(world.phases(0), [Phase::Failed, Phase::Complete, Phase::Complete]);
    let plan = world.plan(0);
    assert_eq!(
        (plan.summary.clusters.failed, plan.summary.clusters.complete),
        (1, 2)
    );
    assert!(!plan.outlook.complete);
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersFailed));
}

#[test]
fn the_same_fleet_starts_in_the_same_order() {
    for names in [
        ["dev1", "dev2", "dev3", "dev4", "dev5"],
        ["dev4", "dev2", "dev5", "dev1", "dev3"],
    ] {
        let mut world = world(policy().max_concurrency(1), &names);
        settle(&mut world);
        let creations = world.log_of("create");
        let order: Vec<&str> = creations
            .iter()
            .filter_map(|line| line.split_whitespace().nth(1))
            .collect();
        assert_eq!(order, ["dev1", "dev2", "dev3", "dev4", "dev5"]);
    }
}

#[test]
fn a_canary_is_upgraded_once() {
    let mut world = with_canaries(policy().operators(), &THREE, &["dev1"]);
    settle(&mut world);
    assert!(world.plan(0).outlook.complete);
    for name in THREE {
        assert_eq!(created(&world, name, Step::Platform), 1, "{name}");
        assert_eq!(created(&world, name, Step::Operators), 1, "{name}");
    }
}

#[test]
fn a_canary_that_times_out_stops_all_others() {
    let mut world = with_canaries(short(policy()), &THREE, &["dev1"]);
    world.script("dev1", Step::Platform, Script::silent());
    stalled_by_its_canary(&mut world, &["dev2", "dev3"]);
    let clusters = world.plan(0).summary.clusters;
    assert_eq!((clusters.failed, clusters.pending), (1, 2));
}

#[test]
fn with_two_canaries_one_is_not_enough() {
    let mut world = with_canaries(policy(), &FOUR, &["dev1", "dev2"]);
    world.script("dev2", Step::Platform, Script::silent().running(5));
    world.run_until(100);
    assert_eq!(world.plan(0).summary.canaries.complete, 1);
    for name in ["dev3", "dev4"] {
        assert_eq!(created(&world, name, Step::Platform), 0, "{name}");
    }
    world.script("dev2", Step::Platform, Script::silent().succeeded(0));
    world.run_until(120);
    assert_eq!(created(&world, "dev3", Step::Platform), 1);
}

#[test]
fn a_canary_whose_operators_fail_stops_all_others() {
    let mut world = with_canaries(policy().operators(), &["dev1", "dev2"], &["dev1"]);
    world.script("dev1", Step::Operators, Script::silent().running(2).failed(10));
    stalled_by_its_canary(&mut world, &["dev2"]);
}

/// Canaries in flight finish when one fails; no further canary starts.
#[test]
fn after_a_failed_canary_no_other_canary_starts() {
    let asked = policy().max_concurrency(2);
    let mut world = with_canaries(asked, &FOUR, &["dev1", "dev2", "dev3"]);
    world.script("dev1", Step::Platform, Script::silent());
    world.script("dev2", Step::Platform, Script::silent().running(1));
    world.run_until(10);
    assert_eq!(world.plan(0).summary.in_flight, 2);
    world.edit(0, |policy| policy.cluster_timeout = TimeDelta::seconds(1));
    settle(&mut world);
    let plan = world.plan(0).clone();
    assert_eq!(plan.summary.clusters.failed, 2, "{}", world.log());
    assert_eq!(plan.outlook.stalled, Some(StallReason::CanaryFailed));
    for name in ["dev3", "dev4"] {
        assert_eq!(created(&world, name, Step::Platform), 0, "{name}");
    }
}

#[test]
fn the_gate_opens_only_after_the_post_action_of_the_canary() {
    let mut world = with_canaries(policy().post_action(), &["dev1", "dev2"], &["dev1"]);
    world.script("dev1", Step::PostAction, Script::silent());
    world.run_until(100);
    assert_eq!(created(&world, "dev1", Step::PostAction), 1);
    assert_eq!(created(&world, "dev2", Step::Platform), 0);
    world.script("dev1", Step::PostAction, Script::silent().succeeded(0));
    world.run_until(120);
    assert_eq!(created(&world, "dev2", Step::Platform), 1);
}

#[test]
fn a_canary_with_a_degraded_post_action_stops_all_others() {
    let mut world = with_canaries(policy().post_action(), &["dev1", "dev2"], &["dev1"]);
    world.script("dev1", Step::PostAction, Script::silent().failed(5));
    stalled_by_its_canary(&mut world, &["dev2"]);
}

#[test]
fn the_soak_delays_the_canary_gate() {
    let mut world = with_canaries(policy().soak(60), &["dev1", "dev2"], &["dev1"]);
    world.run_until(60);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Soaking));
    assert_eq!(created(&world, "dev2", Step::Platform), 0);
    settle(&mut world);
    assert_eq!(created(&world, "dev2", Step::Platform), 1);
    assert_eq!(world.plan(0).summary.canaries.initialized, 1);
}

#[test]
fn a_budget_of_none_stops_at_the_first_failure() {
    let asked = policy().max_concurrency(1).max_failures(Limit::Count(0));
    let mut world = world(short(asked), &THREE);
    world.script("dev1", Step::Platform, Script::silent());
    settle(&mut world);
    let plan = world.plan(0).clone();
    assert_eq!(plan.summary.clusters.failed, 1);
    assert_eq!(plan.outlook.stalled, Some(StallReason::MaxFailuresExceeded));
    assert_eq!(created(&world, "dev2", Step::Platform), 0);
}

#[test]
fn an_available_pre_action_starts_its_own_cluster_only() {
    let mut world = world(policy().pre_action(), &["dev1", "dev2"]);
    world.script("dev1", Step::Platform, Script::silent());
    world.script("dev2", Step::PreAction, Script::silent().running(1));
    world.run_until(30);
    assert_eq!(created(&world, "dev1", Step::Platform), 1);
    assert_eq!(created(&world, "dev2", Step::Platform), 0);
    let actions = world.plan(0).summary.pre_action;
    assert_eq!((actions.available, actions.progressing), (1, 1));
}

#[test]
fn a_recovered_pre_action_lets_its_cluster_proceed() {
    let mut world = world(policy().pre_action(), &["dev1", "dev2"]);
    world.script("dev1", Step::PreAction, Script::silent());
    world.script("dev2", Step::PreAction, Script::silent().failed(3));
    world.run_until(20);
    assert_eq!(world.plan(0).summary.pre_action.degraded, 1);
    world.script("dev2", Step::PreAction, Script::silent().succeeded(0));
    world.run_until(30);
    assert_eq!(created(&world, "dev2", Step::Platform), 1);
    let actions = world.plan(0).summary.pre_action;
    assert_eq!((actions.available, actions.degraded), (1, 0));
}

#[test]
fn a_degraded_pre_action_gives_its_slot_to_the_next() {
    let mut world = world(policy().pre_action().max_concurrency(1), &["dev1", "dev2"]);
    world.script("dev1", Step::PreAction, Script::silent().running(1));
    world.run_until(10);
    assert_eq!(created(&world, "dev1", Step::PreAction), 1);
    assert_eq!(created(&world, "dev2", Step::PreAction), 0);
    world.script("dev1", Step::PreAction, Script::silent().failed(0));
    world.run_until(20);
    assert_eq!(created(&world, "dev2", Step::PreAction), 1);
}

/// Leaving `PreActionDegraded` is a start: not while paused.
#[test]
fn a_pre_action_that_recovers_while_paused_waits() {
    let mut world = world(policy().pre_action(), &["dev1"]);
    world.script("dev1", Step::PreAction, Script::silent().failed(3));
    world.run_until(10);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::PreActionDegraded));
    world.edit(0, |policy| policy.hold = Some(Hold::Paused));
    world.script("dev1", Step::PreAction, Script::silent().succeeded(0));
    world.run_until(60);
    assert_eq!(created(&world, "dev1", Step::Platform), 0);
    world.edit(0, |policy| policy.hold = None);
    world.run_until(70);
    assert_eq!(created(&world, "dev1", Step::Platform), 1);
}

/// An action has the cluster's timeout, counted from the creation of its work.
#[test]
fn a_pre_action_that_never_ends_is_degraded_at_its_deadline() {
    let mut world = world(short(policy().pre_action()), &["dev1"]);
    world.script("dev1", Step::PreAction, Script::silent().running(1));
    settle(&mut world);
    let record = world.record(0, "dev1").unwrap();
    assert_eq!(
        (record.phase, record.reason),
        (Phase::PreActionDegraded, Reason::PreActionTimeout)
    );
    let summary = world.plan(0).summary;
    assert_eq!((summary.pre_action.degraded, summary.clusters.failed), (1, 0));
}

#[test]
fn an_action_times_out_by_its_own_limit_whatever_the_platform_may_take() {
    let mut world = world(policy().pre_action().timeouts(600, 600), &["dev1", "dev2"]);
    world.edit(0, |policy| policy.action_timeout = Some(TimeDelta::seconds(60)));
    world.script("dev1", Step::PreAction, Script::silent().running(1));
    world.script("dev2", Step::Platform, Script::silent().running(1));
    world.run_until(200);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::PreActionDegraded));
    assert_eq!(world.phase(0, "dev2"), Some(Phase::Partial), "{}", world.log());
    world.run_until(700);
    assert_eq!(world.phase(0, "dev2"), Some(Phase::Failed));
}

/// The clock of the post-action starts when its work is created.
#[test]
fn a_post_action_that_never_ends_fails_its_cluster() {
    let mut world = world(short(policy().post_action()), &["dev1"]);
    world.script("dev1", Step::PostAction, Script::silent().running(1));
    settle(&mut world);
    let record = world.record(0, "dev1").unwrap();
    assert_eq!(
        (record.phase, record.reason),
        (Phase::Failed, Reason::PostActionTimeout)
    );
    let clusters = world.plan(0).summary.clusters;
    assert_eq!((clusters.failed, clusters.complete), (1, 0));
}

#[test]
fn operators_are_not_touched_when_the_platform_failed() {
    let mut world = world(short(policy().operators()), &["dev1"]);
    world.script("dev1", Step::Platform, Script::silent().running(5));
    settle(&mut world);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Failed));
    assert_eq!(created(&world, "dev1", Step::Operators), 0);
}

#[test]
fn a_cluster_stuck_in_partial_fails_at_the_same_deadline() {
    let mut world = world(short(policy()), &["dev1"]);
    world.script("dev1", Step::Platform, Script::silent().running(5));
    world.run_until(20);
    assert_eq!(world.plan(0).summary.clusters.partial, 1);
    settle(&mut world);
    let record = world.record(0, "dev1").unwrap();
    let started = record.stage(Stage::Platform).unwrap().started;
    assert_eq!(
        (record.phase, record.reason),
        (Phase::Failed, Reason::ClusterUpgradeTimeout)
    );
    let late = record.since - (started + TimeDelta::seconds(60));
    assert!(
        late >= TimeDelta::zero() && late <= TimeDelta::seconds(1),
        "{late} for reading the work"
    );
    let plan = world.plan(0);
    assert_eq!(plan.summary.clusters.partial, 0);
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersFailed));
}

#[test]
fn an_initialized_cluster_that_leaves_continues() {
    let mut world = world(policy(), &["dev1", "dev2"]);
    world.script("dev1", Step::Platform, Script::silent().other_version(1));
    world.run_until(10);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Initialized));
    world.deselect(0, "dev1");
    world.run_until(60);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Initialized));
    world.script("dev1", Step::Platform, Script::silent().succeeded(0));
    settle(&mut world);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Complete));
    assert_eq!(world.plan(0).summary.clusters.total, 2, "it still counts");
}

/// A retried cluster queues for a slot like any other.
#[test]
fn a_retried_cluster_waits_for_a_slot() {
    let mut world = world(short(policy().max_concurrency(1)), &["dev1", "dev2"]);
    world.script("dev1", Step::Platform, Script::silent());
    world.script("dev2", Step::Platform, Script::silent().running(1));
    world.run_until(70);
    assert_eq!(
        world.phases(0),
        [Phase::Failed, Phase::Partial],
        "{}",
        world.log()
    );
    world.edit(0, |policy| policy.cluster_timeout = TimeDelta::hours(1));
    world.retry(0, "1");
    world.run_until(80);
    let record = world.record(0, "dev1").unwrap();
    assert_eq!(
        (record.phase, record.reason),
        (Phase::Pending, Reason::WaitingForSlot)
    );
    assert_eq!(world.plan(0).summary.in_flight, 1);
    world.script("dev2", Step::Platform, Script::silent().succeeded(0));
    world.run_until(90);
    assert_eq!(world.phase(0, "dev2"), Some(Phase::Complete));
    assert_eq!(
        world.phase(0, "dev1"),
        Some(Phase::Initialized),
        "{}",
        world.log()
    );
    assert_eq!(world.plan(0).summary.clusters.failed, 0);
}
