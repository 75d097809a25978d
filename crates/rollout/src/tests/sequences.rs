//! Whole upgrades as logs of time, cluster and action or phase. Agents act in order or at seeded random speed.

use crate::model::{Hold, Phase, Step};
use crate::testing::{Latency, PolicyBuilder, Rng, Scenario, Script, policy};

pub(super) fn world(asked: PolicyBuilder, names: &[&str]) -> Scenario {
    let mut world = Scenario::new(asked.build(), 7);
    for name in names {
        world.add_cluster(name);
    }
    world
}

const NONE: [String; 0] = [];
const FOUR: [&str; 4] = ["dev1", "dev2", "dev3", "dev4"];

#[track_caller]
fn end(mut world: Scenario) -> String {
    assert!(world.settle(100_000), "{}", world.log());
    assert_eq!(world.faults(), Vec::<String>::new(), "{}", world.log());
    let operations = world.operations();
    world.run_until(200_000);
    assert_eq!(world.operations(), operations, "quiet at the end");
    let plan = world.plan(0);
    let end = format!("{:?}\n{:?}", plan.summary.clusters, plan.outlook);
    format!("{}\n\n{end}", world.log())
}

#[test]
fn a_plain_upgrade() {
    insta::assert_snapshot!(end(world(policy().max_concurrency(2), &FOUR)));
}

#[test]
fn agents_of_random_speed() {
    let names = ["dev1", "dev2", "dev3", "dev4", "dev5", "dev6"];
    let mut world = world(policy().operators().max_concurrency(2), &names);
    world.set_latency(Latency::Random);
    let mut rng = Rng::new(42);
    for name in names {
        for step in Step::ALL {
            let running = rng.below(10).cast_signed();
            let done = running + 1 + rng.below(30).cast_signed();
            world.script(name, step, Script::succeeds(running, done));
        }
    }
    insta::assert_snapshot!(end(world));
}

#[test]
fn every_step_of_one_cluster() {
    let asked = policy().pre_action().operators().post_action().soak(30);
    insta::assert_snapshot!(end(world(asked, &["dev1"])));
}

#[test]
fn canaries_go_first() {
    let mut world = world(policy().canaries().max_concurrency(2), &FOUR);
    world.canary(0, "dev3");
    world.canary(0, "dev4");
    world.script("dev4", Step::Platform, Script::succeeds(5, 50));
    insta::assert_snapshot!(end(world));
}

#[test]
fn a_canary_fails_and_is_retried() {
    let mut world = world(policy().canaries().max_concurrency(2).timeouts(60, 60), &FOUR);
    world.canary(0, "dev1");
    world.script("dev1", Step::Platform, Script::silent().running(5));
    world.run_until(100);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Failed));
    assert_eq!(world.log_of("create").len(), 1);
    world.note("dev1 is fixed and retried");
    world.script("dev1", Step::Platform, Script::succeeds(5, 20));
    world.retry(0, "fixed");
    insta::assert_snapshot!(end(world));
}

#[test]
fn the_version_is_edited_in_every_phase() {
    let names = [
        "complete",
        "failed",
        "initialized",
        "partial",
        "pending",
        "soaking",
    ];
    let mut world = world(policy().max_concurrency(4).soak(40).timeouts(60, 60), &names);
    world.script("complete", Step::Platform, Script::succeeds(2, 5));
    world.script("failed", Step::Platform, Script::silent().running(5));
    world.script("initialized", Step::Platform, Script::silent().other_version(1));
    world.script("partial", Step::Platform, Script::silent().running(10));
    world.script("soaking", Step::Platform, Script::succeeds(20, 50));
    for name in ["initialized", "partial", "pending"] {
        world.offline(name, true);
    }
    world.run_until(48);
    world.offline("initialized", false);
    world.offline("partial", false);
    world.run_until(75);
    world.note("the version is edited");
    world.edit(0, |policy| {
        let edited = crate::testing::policy().edited("r2", &[Step::Platform]).build();
        policy.revision = edited.revision;
        policy.steps = edited.steps;
    });
    for name in ["complete", "failed", "initialized", "soaking"] {
        world.script(name, Step::Platform, Script::succeeds(5, 20));
    }
    world.script(
        "partial",
        Step::Platform,
        Script::silent().running(0).succeeded(5),
    );
    world.offline("pending", false);
    insta::assert_snapshot!(end(world));
}

#[test]
fn clusters_join_and_leave() {
    let mut world = world(policy().pre_action().operators().max_concurrency(2), &FOUR);
    world.run_until(3);
    world.note("dev1 leaves in its pre-action, dev4 before it started");
    world.deselect(0, "dev1");
    world.deselect(0, "dev4");
    world.run_until(20);
    world.note("dev2 leaves while Partial, dev5 joins, dev4 comes back for a moment");
    world.deselect(0, "dev2");
    world.add_cluster("dev5");
    world.select(0, "dev4");
    world.run_until(22);
    world.deselect(0, "dev4");
    insta::assert_snapshot!(end(world));
}

#[test]
fn a_newer_upgrade_takes_over() {
    let mut world = world(policy().pre_action().timeouts(60, 60), &["dev1", "dev2"]);
    world.script("dev1", Step::Platform, Script::silent().running(5));
    world.run_until(30);
    world.note("a newer upgrade of the same clusters");
    let newer = world.add_upgrade("newer", policy().edited("n1", &[Step::Platform]).build());
    world.select(newer, "dev1");
    world.select(newer, "dev2");
    world.run_until(50);
    assert_eq!(world.phase(newer, "dev1"), Some(Phase::Blocked));
    world.script("dev1", Step::Platform, Script::silent().running(15).succeeded(40));
    let log = end(world.clone());
    world.run_until(1000);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Failed), "its row stays");
    assert_eq!(world.phase(newer, "dev1"), Some(Phase::Complete));
    assert_eq!(world.phase(newer, "dev2"), Some(Phase::Complete));
    insta::assert_snapshot!(log);
}

/// Otherwise the leader after a crash would find neither the end nor the works, and would begin the operators again.
#[test]
fn an_upgrade_whose_leader_ends_before_it_has_told_the_end_of_a_cluster_gives_no_way() {
    for seed in 0..20 {
        let mut world = Scenario::new(policy().operators().build(), seed);
        world.set_latency(Latency::Random);
        world.add_cluster("dev1");
        let newer = world.add_upgrade("newer", policy().edited("n1", &[Step::Platform]).build());
        world.select(newer, "dev1");
        let mut seconds = 0;
        while world.phase(0, "dev1") != Some(Phase::Complete) {
            seconds += 1;
            world.run_until(seconds);
        }
        world.run_until(seconds + 1);
        world.crash(0);
        assert!(world.settle(1000), "{}", world.log());
        assert_eq!(world.log_of("create Operators").len(), 1, "{}", world.log());
        assert_eq!(
            world.phase(newer, "dev1"),
            Some(Phase::Complete),
            "{}",
            world.log()
        );
        assert_eq!(world.faults(), Vec::<String>::new(), "{}", world.log());
    }
}

#[test]
fn a_cluster_regresses_in_its_soak() {
    let mut world = world(policy().max_concurrency(1).soak(60), &["dev1", "dev2"]);
    let script = Script::succeeds(5, 20).unhealthy(40);
    world.script("dev1", Step::Platform, script);
    world.run_until(200);
    assert_eq!(world.phase(0, "dev1"), Some(Phase::Failed));
    assert!(world.has_work("dev1", Step::Platform), "kept until retried");
    world.note("fixed and retried");
    world.script("dev1", Step::Platform, Script::succeeds(0, 1));
    world.retry(0, "fixed");
    insta::assert_snapshot!(end(world));
}

#[test]
fn an_operators_job_fails() {
    let mut world = world(policy().operators().max_concurrency(1), &["dev1", "dev2", "dev3"]);
    world.script("dev1", Step::Operators, Script::silent().running(2).failed(10));
    world.script(
        "dev2",
        Step::Operators,
        Script::silent().running(2).maybe_failed(10),
    );
    insta::assert_snapshot!(end(world));
}

#[test]
fn a_post_action_is_degraded_and_recovers_late() {
    let mut world = world(policy().post_action(), &["dev1", "dev2"]);
    let late = Script::silent().failed(5).running(60).succeeded(90);
    world.script("dev1", Step::PostAction, late);
    insta::assert_snapshot!(end(world));
}

#[test]
fn a_pre_action_is_degraded_and_recovers() {
    let mut world = world(policy().pre_action().max_concurrency(1), &["dev1", "dev2"]);
    let late = Script::silent().failed(3).succeeded(15);
    world.script("dev1", Step::PreAction, late);
    insta::assert_snapshot!(end(world));
}

#[test]
fn the_controller_dies_in_the_middle_of_everything() {
    let asked = policy()
        .pre_action()
        .operators()
        .post_action()
        .soak(10)
        .max_concurrency(2);
    let mut world = world(asked, &FOUR);
    for seconds in [1, 2, 6, 8, 20, 26, 27, 28, 39, 51, 60, 72] {
        world.run_until(seconds);
        world.crash(0);
    }
    insta::assert_snapshot!(end(world));
}

#[test]
fn creations_whose_answers_are_lost_and_that_come_about_later_stay_within_max_concurrency() {
    for later in [0, 2, 30, 60] {
        let mut world = Scenario::new(policy().max_concurrency(1).build(), 1);
        for name in ["a", "b", "c"] {
            world.add_cluster(name);
        }
        world.set_latency(Latency::Losing(later));
        world.run_until(20);
        world.set_latency(Latency::Ordered);
        assert!(world.settle(2000), "{}", world.log());
        assert_eq!(world.phases(0), [Phase::Complete; 3]);
        assert_eq!(world.faults(), NONE, "{}", world.log());
    }
}

/// The creation that had no answer names an earlier start than the one that followed, which the record has. It is carried out when the
/// cluster was registered anew and the work of the other one is gone.
#[test]
fn a_creation_from_before_its_cluster_was_registered_anew_is_cleaned_up_and_moves_no_clock() {
    let asked = policy().operators().without(Step::Platform);
    let mut world = Scenario::new(asked.build(), 1);
    world.add_cluster("a");
    world.set_latency(Latency::Losing(5));
    world.run_until(1);
    world.set_latency(Latency::Ordered);
    world.run_until(5);
    assert_eq!(world.phase(0, "a"), Some(Phase::Operators), "{}", world.log());
    world.register("a", false);
    assert!(world.settle(2000), "{}", world.log());
    assert_eq!(world.log_of("lands late").len(), 1, "{}", world.log());
    assert_eq!(world.log_of("Leftover").len(), 1, "{}", world.log());
    assert_eq!(world.phase(0, "a"), Some(Phase::Complete), "{}", world.log());
    assert_eq!(world.faults(), NONE, "{}", world.log());
}

#[test]
fn while_paused_nothing_is_created_again_and_what_comes_about_later_holds_its_slot() {
    let mut world = Scenario::new(policy().max_concurrency(1).build(), 1);
    world.add_cluster("a");
    world.add_cluster("b");
    world.set_latency(Latency::Losing(30));
    world.run_until(1);
    world.set_latency(Latency::Ordered);
    world.edit(0, |policy| policy.hold = Some(Hold::Paused));
    world.run_until(20);
    assert_eq!(world.log_of("create").len(), 1, "{}", world.log());
    assert_eq!(world.plan(0).summary.in_flight, 1);
    world.run_until(100);
    assert_eq!(world.phase(0, "a"), Some(Phase::Complete), "{}", world.log());
    world.edit(0, |policy| policy.hold = None);
    assert!(world.settle(2000));
    assert_eq!(world.log_of("create").len(), 2, "{}", world.log());
    assert_eq!(world.faults(), NONE);
}

#[test]
fn a_creation_that_never_came_about_gives_its_slot_back() {
    let mut world = Scenario::new(policy().max_concurrency(1).build(), 1);
    world.add_cluster("a");
    world.add_cluster("b");
    world.set_latency(Latency::Losing(100_000));
    world.run_until(1);
    world.set_latency(Latency::Ordered);
    world.offline("a", true);
    world.run_until(90);
    assert!(!world.has_work("b", Step::Platform), "{}", world.log());
    world.run_until(130);
    assert_eq!(world.phase(0, "b"), Some(Phase::Complete), "{}", world.log());
    assert_eq!(world.faults(), NONE);
}

#[test]
fn a_cluster_that_ended_while_the_watches_were_silent_does_not_fail() {
    let mut world = Scenario::new(policy().max_concurrency(1).timeouts(60, 60).build(), 1);
    world.add_cluster("a");
    world.add_cluster("b");
    world.script("b", Step::Platform, Script::silent().running(1));
    world.run_until(10);
    world.deafen(0, true);
    assert!(world.settle(2000), "{}", world.log());
    assert_eq!(
        world.phases(0),
        [Phase::Complete, Phase::Failed],
        "{}",
        world.log()
    );
    assert_eq!(world.faults(), NONE);
}
