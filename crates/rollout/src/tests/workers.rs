//! The worker pools, where the platform step waits for them.

use super::violations::{change, create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{Phase, Reason, Stage, Step, StepStatus};
use crate::testing::{FleetBuilder, PolicyBuilder, RecordBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];
const UPDATING: &str = "MachineConfigPool is updating: worker";

fn asked() -> PolicyBuilder {
    policy().worker_pools(60)
}

/// A cluster whose version is updated.
fn updated(record: RecordBuilder) -> FleetBuilder {
    fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(record.stage(Stage::Platform, 0))
}

#[test]
fn the_platform_step_is_not_done_before_the_worker_pools_are() {
    let partial = || updated(record(Phase::Partial));
    let plan = planned(10, asked().operators(), partial());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a"), (Phase::Workers, Reason::Running));
    assert_eq!(plan.summary.in_flight, 1, "it keeps its slot");
    assert_eq!(plan.wake_at, Some(at(70)), "the limit counts from here");

    let plan = planned(
        10,
        asked().operators(),
        partial().pools_behind(Reason::Running, UPDATING),
    );
    assert_eq!(stand(&plan, "a"), (Phase::Workers, Reason::Running));
    assert_eq!(&*record_of(&plan, "a").message, UPDATING);

    let plan = planned(10, asked().operators(), partial().pools_updated());
    assert_eq!(writes(&plan), ["create a/Operators"]);
    assert!(record_of(&plan, "a").succeeded(Stage::Platform));

    let plan = planned(
        10,
        policy().operators(),
        partial().pools_behind(Reason::Running, UPDATING),
    );
    assert_eq!(writes(&plan), ["create a/Operators"], "nobody waits for them");
}

#[test]
fn the_time_limit_of_the_pools_ends_when_they_have_followed() {
    let followed = || updated(record(Phase::Workers).since(10)).pools_updated();
    for now in [20, 69, 71] {
        let plan = planned(now, asked().operators().timeouts(200, 200), followed());
        assert_eq!(writes(&plan), ["create a/Operators"], "at {now}");
        assert!(record_of(&plan, "a").succeeded(Stage::Platform));
    }
}

/// The work of the update shows its end, but not that of the pools: a new leader must ask for them again.
#[test]
fn pools_that_have_followed_free_the_slot_only_when_that_is_written() {
    let asked = || asked().max_concurrency(1);
    let complete = || record(Phase::Complete).succeeded(Stage::Platform, 0);
    let waiting = || updated(record(Phase::Workers).since(10));
    let without_row = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
    for unwritten in [
        waiting().pools_updated(),
        waiting().draft(complete()),
        updated(record(Phase::Partial)).draft(complete()),
        updated(record(Phase::Pending)).draft(complete()),
        without_row.draft(complete()),
    ] {
        let fleet = unwritten.cluster("b");
        let plan = planned(20, asked(), fleet.clone());
        assert_eq!(stand(&plan, "a").0, Phase::Complete);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert!(plan.clusters[0].urgent);
        refused(Kind::TooManySlots, 20, asked(), fleet, |plan| {
            plan.operations.push(create("b", Step::Platform, 20));
        });
    }
    let starts_b = |policy: PolicyBuilder, fleet: FleetBuilder| {
        let plan = planned(20, policy, fleet.cluster("b"));
        writes(&plan).contains(&"create b/Platform".to_owned())
    };
    let with_row = |row: RecordBuilder| {
        let a = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
        a.record(row)
    };
    assert!(starts_b(asked(), with_row(complete())), "it is written");
    let soaking = record(Phase::Soaking).succeeded(Stage::Platform, 0);
    let soaking = with_row(soaking.stage(Stage::Soak, 5)).draft(complete());
    assert!(starts_b(asked(), soaking), "the row tells of the update");
    let not_awaited = policy().max_concurrency(1);
    assert!(starts_b(not_awaited, waiting()), "nobody waits for them");
}

/// It fails in the plan in which its pools have followed: a new leader would find it in its pools, and in flight.
#[test]
fn a_cluster_that_regresses_when_its_pools_have_followed_frees_its_slot_only_when_that_is_written() {
    let asked = || asked().soak(30).max_concurrency(1);
    let unhealthy = || {
        let a = fleet().cluster("a");
        a.work(Step::Platform, work(0).succeeded().unhealthy())
    };
    let waiting = unhealthy().record(record(Phase::Workers).since(10).stage(Stage::Platform, 0));
    let fleet = waiting.pools_updated().cluster("b");
    let plan = planned(20, asked(), fleet.clone());
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::RegressedInSoak));
    assert!(plan.clusters[0].urgent);
    assert_eq!(writes(&plan), NOTHING);
    refused(Kind::TooManySlots, 20, asked(), fleet, |plan| {
        plan.operations.push(create("b", Step::Platform, 20));
    });
    let told = record_of(&plan, "a").clone();
    let written = planned(21, asked(), unhealthy().record(told).cluster("b"));
    assert_eq!(writes(&written), ["create b/Platform"]);
}

#[test]
fn a_clock_that_is_not_trusted_does_not_tell_that_the_pools_have_followed() {
    let waiting = || updated(record(Phase::Workers).since(10)).pools_updated();
    let plan = planned(20, asked().distrusted_clock(), waiting());
    assert_eq!(stand(&plan, "a").0, Phase::Workers);
    let plan = planned(20, asked(), waiting());
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
}

#[test]
fn pools_that_do_not_follow_in_time_fail_the_cluster_once_the_hub_was_read() {
    let late =
        || updated(record(Phase::Workers).since(10)).pools_behind(Reason::PoolPaused, "worker is paused");
    let plan = planned(69, asked(), late());
    assert_eq!(stand(&plan, "a"), (Phase::Workers, Reason::PoolPaused));
    let plan = planned(70, asked(), late());
    assert_eq!(writes(&plan), ["read a/Platform"]);
    let plan = planned(71, asked(), late().read(Step::Platform, 70));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::WorkerPoolsTimeout));
    assert_eq!(
        &*record_of(&plan, "a").message,
        "The worker pools were not updated within 1m: worker is paused"
    );
    let plan = planned(71, asked(), late().pools_updated());
    assert_eq!(stand(&plan, "a").0, Phase::Complete, "whatever the time is");
}

#[test]
fn a_report_that_is_missing_while_the_pools_follow_is_no_failure() {
    // Long after clusterUpgradeTimeout.
    let silent = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(record(Phase::Workers).since(100).stage(Stage::Platform, 0))
        .pools_updated();
    let plan = planned(110, asked().timeouts(50, 50), silent.clone());
    assert_eq!(stand(&plan, "a").0, Phase::Workers, "its own word is missing");
    let plan = planned(110, policy().timeouts(200, 50), silent);
    assert_eq!(
        stand(&plan, "a").0,
        Phase::Partial,
        "an edit no longer waits for the pools"
    );
}

#[test]
fn only_the_time_of_the_pools_counts_while_the_work_is_missing() {
    // Somebody has deleted it, long after clusterUpgradeTimeout.
    let gone = || {
        let waiting = record(Phase::Workers).since(100).stage(Stage::Platform, 0);
        fleet().cluster("a").record(waiting)
    };
    let asked = || asked().timeouts(50, 50);
    let plan = planned(110, asked(), gone());
    assert_eq!(writes(&plan), ["create a/Platform"]);
    assert_eq!(stand(&plan, "a").0, Phase::Workers);
    assert_eq!(plan.wake_at, Some(at(160)));
    let plan = planned(160, asked(), gone());
    assert_eq!(writes(&plan), ["read a/Platform"]);
    let plan = planned(161, asked(), gone().read(Step::Platform, 160));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::WorkerPoolsTimeout));
}

/// The clocks have differed for longer than the time limit, and somebody has deleted the work meanwhile.
#[test]
fn the_time_of_the_pools_is_not_over_before_they_could_be_heard_of_although_the_work_is_missing() {
    let gone = || {
        let waiting = record(Phase::Workers).since(100).stage(Stage::Platform, 0);
        let gone = fleet().cluster("a").record(waiting);
        gone.read(Step::Platform, 160).pools_unheard()
    };
    let asked = || asked().timeouts(50, 50);
    let plan = planned(161, asked(), gone());
    assert_eq!(writes(&plan), ["create a/Platform"]);
    assert_eq!(stand(&plan, "a").0, Phase::Workers);
    refused(Kind::ClockDistrusted, 161, asked(), gone(), |plan| {
        change(plan, 0, |record| {
            record.phase = Phase::Failed;
            record.reason = Reason::WorkerPoolsTimeout;
        });
    });
}

#[test]
fn pools_that_need_not_be_waited_for_any_more_are_not() {
    let waiting =
        updated(record(Phase::Workers).since(10)).pools_behind(Reason::PoolPaused, "worker is paused");
    let plan = planned(20, policy(), waiting);
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
}

#[test]
fn a_cluster_that_is_updated_by_somebody_else_meanwhile_is_not_done() {
    let other = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).status(StepStatus::OtherVersion))
        .record(record(Phase::Workers).since(10).stage(Stage::Platform, 0))
        .pools_updated();
    let plan = planned(20, asked(), other);
    assert_eq!(stand(&plan, "a").0, Phase::Initialized);
}
