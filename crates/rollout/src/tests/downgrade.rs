//! Clusters that run a newer version than the target, and upgrades that were restored.

use super::{planned, stand, writes};
use crate::model::{Phase, Plan, Reason, Stage, StallReason, Step};
use crate::testing::{PolicyBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

fn started_on(version: &str, asked: PolicyBuilder) -> Plan {
    planned(0, asked, fleet().cluster("dev1").version(version))
}

#[test]
fn a_cluster_that_runs_something_newer_is_blocked_before_its_pre_action() {
    for asked in [policy(), policy().pre_action(), policy().operators()] {
        let plan = started_on("4.12.1", asked);
        assert_eq!(writes(&plan), NOTHING);
        assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NewerThanTarget));
        assert_eq!(
            &*plan.clusters[0].record.message,
            "The cluster runs 4.12.1, which is newer than 4.12.0. Set spec.clusterVersion.allowDowngrade, or take the cluster out of the selection."
        );
        assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
    }
}

/// Its platform work reports an older version: the report may be late, and a cluster must not be asked for less than it runs.
#[test]
fn a_cluster_that_may_run_something_newer_is_blocked_whatever_it_reports() {
    let fleet = || fleet().cluster("dev1").version("4.11.0").newest_version("4.12.1");
    let plan = planned(0, policy(), fleet());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NewerThanTarget));
    assert_eq!(
        writes(&planned(0, policy().target("4.12.1"), fleet())),
        ["create dev1/Platform"]
    );
}

/// A leader that starts anew finds the pre-action degraded, which takes no slot by itself.
#[test]
fn a_cluster_that_is_blocked_after_a_degraded_pre_action_recovered_takes_no_slot() {
    let fleet = fleet()
        .cluster("a")
        .newest_version("4.12.1")
        .work(Step::PreAction, work(0).succeeded())
        .record(
            record(Phase::PreActionDegraded)
                .reason(Reason::PreActionTimeout)
                .stage(Stage::PreAction, 0),
        )
        .cluster("b")
        .work(Step::PreAction, work(5))
        .record(record(Phase::PreAction).stage(Stage::PreAction, 5));
    let plan = planned(20, policy().pre_action().max_concurrency(1), fleet);
    assert_eq!(stand(&plan, "a"), (Phase::Blocked, Reason::NewerThanTarget));
    assert_eq!(plan.summary.in_flight, 1);
}

#[test]
fn versions_are_ordered_as_semantic_versions_are() {
    for (runs, target, blocked) in [
        ("4.16.9", "4.14.20", true),
        ("4.16.10", "4.16.9", true),
        ("5.0.0", "4.99.99", true),
        ("4.16.0", "4.16.0-rc.1", true),
        ("4.16.0-rc.10", "4.16.0-rc.9", true),
        ("4.16.0-rc.1", "4.16.0", false),
        ("4.16.0", "4.16.0", false),
        ("4.16.0+two", "4.16.0+one", false),
        ("4.9.0", "4.10.0", false),
        // If versions cannot be compared, the cluster is not blocked.
        ("", "4.16.0", false),
        ("4.17", "4.16.0", false),
        ("latest", "4.16.0", false),
        ("4.16.0", "", false),
    ] {
        let plan = started_on(runs, policy().target(target));
        let held = stand(&plan, "dev1") == (Phase::Blocked, Reason::NewerThanTarget);
        assert_eq!(held, blocked, "{runs} towards {target}");
        assert_eq!(writes(&plan).is_empty(), blocked, "{runs} towards {target}");
    }
}

#[test]
fn whoever_insists_may_go_back() {
    let plan = started_on("4.12.1", policy().allow_downgrade());
    assert_eq!(writes(&plan), ["create dev1/Platform"]);
}

#[test]
fn an_upgrade_of_operators_alone_leads_to_no_version() {
    let plan = started_on("4.99.0", policy().operators().without(Step::Platform));
    assert_eq!(writes(&plan), ["create dev1/Operators"]);
}

#[test]
fn clusters_that_are_done_are_not_taken_back_by_an_edit_to_an_older_target() {
    let done = record(Phase::Complete).succeeded(Stage::Platform, 0);
    let fleet = fleet().cluster("dev1").version("4.12.0").record(done);
    let edited = policy().edited("r2", &[Step::Platform]).target("4.11.5");
    let plan = planned(10, edited, fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NewerThanTarget));
}

#[test]
fn a_cluster_in_flight_ends_what_it_was_asked_for_before_an_older_target_is_refused() {
    let in_flight = |running: Phase, status: crate::testing::WorkBuilder| {
        fleet()
            .cluster("dev1")
            .version("4.11.9")
            .work(Step::Platform, status)
            .record(record(running).stage(Stage::Platform, 0))
            .cluster("dev2")
    };
    let edited = || {
        policy()
            .edited("r2", &[Step::Platform])
            .target("4.11.5")
            .max_concurrency(1)
    };
    for (phase, status) in [(Phase::Initialized, work(0)), (Phase::Partial, work(0).running())] {
        let plan = planned(10, edited(), in_flight(phase, status));
        assert_eq!(
            writes(&plan),
            NOTHING,
            "its slot is held, its work is not changed"
        );
        assert_eq!(stand(&plan, "dev1").0, phase);
    }
    let plan = planned(20, edited(), in_flight(Phase::Partial, work(0).succeeded()));
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NewerThanTarget));
}

#[test]
fn somebody_elses_update_past_the_target_does_not_disturb_a_step_that_runs() {
    for step in [Step::Platform, Step::Operators] {
        let phase = if step == Step::Platform {
            Phase::Partial
        } else {
            Phase::Operators
        };
        let known = record(phase).succeeded(Stage::Platform, 0).stage(step.into(), 5);
        let fleet = fleet()
            .cluster("dev1")
            .version("4.13.0")
            .work(step, work(5).running())
            .record(known);
        let plan = planned(10, policy().operators(), fleet);
        assert_eq!(stand(&plan, "dev1"), (phase, Reason::Running));
        assert_eq!(writes(&plan), NOTHING);
    }
}

#[test]
fn the_update_does_not_follow_a_pre_action_during_which_the_cluster_went_past_the_target() {
    let fleet = fleet()
        .cluster("dev1")
        .version("4.13.0")
        .work(Step::PreAction, work(0).succeeded())
        .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    let plan = planned(10, policy().pre_action(), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NewerThanTarget));
}

#[test]
fn a_failed_cluster_that_went_past_the_target_is_not_retried() {
    let failed = record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout);
    let fleet = fleet()
        .cluster("dev1")
        .version("4.13.0")
        .work(Step::Platform, work(0))
        .record(failed);
    let plan = planned(10, policy().retry("again"), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NewerThanTarget));
}

#[test]
fn what_comes_after_the_platform_goes_on_on_a_newer_version() {
    let fleet = fleet()
        .cluster("dev1")
        .version("4.13.0")
        .record(record(Phase::Pending).succeeded(Stage::Platform, 0));
    let plan = planned(10, policy().operators(), fleet);
    assert_eq!(writes(&plan), ["create dev1/Operators"]);
}

#[test]
fn a_restored_upgrade_starts_nothing_and_is_stalled() {
    let plan = planned(0, policy().restored(), fleet().cluster("dev1"));
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::Restored));
    assert_eq!(plan.outlook.stalled, Some(StallReason::Restored));
    assert!(!plan.outlook.moving);
}

#[test]
fn what_is_in_flight_goes_on_while_an_upgrade_counts_as_restored() {
    let fleet = fleet()
        .cluster("dev1")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("dev2");
    let plan = planned(10, policy().operators().restored(), fleet);
    assert_eq!(writes(&plan), ["create dev1/Operators"]);
    assert_eq!(plan.outlook.stalled, None);
    assert_eq!(plan.wake_at, Some(at(10 + 1310)));
}
