//! The checker finds every kind of bad plan: each test changes one thing in a safe plan.

use std::sync::Arc;

use crate::check::ViolationKind as Kind;
use crate::check::check;
use crate::model::{
    Attempt, Busy, ClusterState, DeleteReason, Limit, Operation, Phase, Plan, Reason, Record, RivalHold,
    Stage, Step, StepStatus, StepWork, UpdateKind,
};
use crate::planner::plan;
use crate::testing::{
    FleetBuilder, PolicyBuilder, RecordBuilder, WorkBuilder, at, fleet, policy, record, work,
};

/// Changes a safe plan, and expects that the checker refuses it with this violation.
#[track_caller]
pub(super) fn refused(
    kind: Kind,
    seconds: i64,
    policy: PolicyBuilder,
    fleet: FleetBuilder,
    spoil: impl FnOnce(&mut Plan),
) {
    let (policy, fleet) = (policy.build(), fleet.build());
    let mut plan = plan(at(seconds), &policy, &fleet);
    assert_eq!(check(at(seconds), &policy, &fleet, &plan), Vec::new());
    spoil(&mut plan);
    let found = check(at(seconds), &policy, &fleet, &plan);
    assert!(
        found.iter().any(|violation| violation.kind == kind),
        "{kind:?} not in {found:#?}"
    );
}

fn first() -> Attempt {
    Attempt {
        revision: Arc::from("r1"),
        retry: Arc::from(""),
    }
}

pub(super) fn create(cluster: &str, step: Step, started: i64) -> Operation {
    Operation::Create {
        cluster: Arc::from(cluster),
        step,
        attempt: first(),
        started: at(started),
    }
}

fn update(cluster: &str, started: i64, kind: UpdateKind) -> Operation {
    Operation::Update {
        cluster: Arc::from(cluster),
        attempt: first(),
        started: at(started),
        kind,
    }
}

fn delete(cluster: &str, step: Step, why: DeleteReason) -> Operation {
    Operation::Delete {
        cluster: Arc::from(cluster),
        step,
        why,
    }
}

pub(super) fn change(plan: &mut Plan, index: usize, change: impl FnOnce(&mut Record)) {
    let mut record = Record::clone(&plan.clusters[index].record);
    change(&mut record);
    plan.clusters[index].record = Arc::new(record);
}

pub(super) fn partial(work: WorkBuilder) -> FleetBuilder {
    fleet()
        .cluster("a")
        .work(Step::Platform, work)
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
}

fn complete() -> RecordBuilder {
    record(Phase::Complete).succeeded(Stage::Platform, 0)
}

fn failed() -> RecordBuilder {
    record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout)
}

#[test]
fn clusters_that_were_not_observed() {
    refused(Kind::UnknownCluster, 0, policy(), fleet().cluster("a"), |plan| {
        plan.operations.push(create("x", Step::Platform, 0));
    });
}

#[test]
fn lists_that_are_doubled_or_out_of_order() {
    let two = || fleet().cluster("a").cluster("b");
    refused(Kind::Listing, 0, policy(), two(), |plan| {
        let again = plan.clusters[0].clone();
        plan.clusters.insert(0, again);
    });
    refused(Kind::Listing, 0, policy(), two(), |plan| plan.clusters.swap(0, 1));
    refused(Kind::Listing, 0, policy(), two(), |plan| {
        plan.dropped.push("a".into());
    });
}

#[test]
fn clusters_lost_on_the_way() {
    let drop = |plan: &mut Plan| {
        let state: ClusterState = plan.clusters.remove(0);
        plan.operations.clear();
        plan.dropped.push(state.name);
    };
    refused(Kind::LostCluster, 0, policy(), fleet().cluster("a"), drop);
    refused(Kind::LostCluster, 100, policy(), partial(work(0)).left(0), drop);
    let late = fleet().cluster("a").left(0).record(record(Phase::Pending));
    refused(
        Kind::LostCluster,
        100,
        policy(),
        late.late(Step::PostAction),
        drop,
    );
}

#[test]
fn counters_that_do_not_add_up() {
    refused(Kind::Counters, 0, policy(), fleet().cluster("a"), |plan| {
        plan.summary.clusters.pending = 0;
    });
}

#[test]
fn more_starts_than_slots() {
    let two = || fleet().cluster("a").cluster("b");
    let start_b = |plan: &mut Plan| plan.operations.push(create("b", Step::Platform, 0));
    refused(Kind::TooManySlots, 0, policy().max_concurrency(1), two(), start_b);
    let busy = fleet().cluster("a").busy(Busy::Starting).cluster("b");
    refused(Kind::TooManySlots, 0, policy().max_concurrency(1), busy, start_b);
    let percent = policy().max_concurrency_percent(50);
    refused(Kind::TooManySlots, 0, percent, two(), start_b);
    let unreleased = fleet().cluster("b").unreleased(1);
    refused(
        Kind::TooManySlots,
        0,
        policy().max_concurrency(1),
        unreleased,
        start_b,
    );
    let dropped = fleet()
        .cluster("a")
        .gone()
        .record(record(Phase::Partial))
        .cluster("b");
    refused(
        Kind::TooManySlots,
        0,
        policy().max_concurrency(1),
        dropped,
        start_b,
    );
}

#[test]
fn steps_back_to_an_older_version() {
    let newer = || fleet().cluster("a").version("4.12.1");
    for step in [Step::PreAction, Step::Platform] {
        refused(Kind::Downgrade, 0, policy().pre_action(), newer(), |plan| {
            plan.operations.push(create("a", step, 0));
        });
    }
    let failed = newer().work(Step::Platform, work(0)).record(failed());
    refused(Kind::Downgrade, 10, policy(), failed, |plan| {
        plan.operations.push(update("a", 10, UpdateKind::Retry));
    });
}

#[test]
fn starts_of_a_restored_upgrade() {
    refused(
        Kind::StartedWhilePaused,
        0,
        policy().restored(),
        fleet().cluster("a"),
        |plan| {
            plan.operations.push(create("a", Step::Platform, 0));
        },
    );
}

#[test]
fn slots_out_of_nothing() {
    refused(Kind::UnfoundedSlot, 0, policy(), fleet().cluster("a"), |plan| {
        change(plan, 0, |record| record.phase = Phase::Initialized);
    });
}

#[test]
fn starts_behind_a_shut_gate() {
    let start =
        |name: &'static str| move |plan: &mut Plan| plan.operations.push(create(name, Step::Platform, 10));
    refused(
        Kind::StartedWhilePaused,
        10,
        policy().paused(),
        fleet().cluster("a"),
        start("a"),
    );
    let canary_failed = fleet().cluster("a").canary().record(failed()).cluster("b");
    refused(
        Kind::StartedAfterCanaryFailure,
        10,
        policy().canaries(),
        canary_failed,
        start("b"),
    );
    let unfinished = fleet().cluster("a").canary().cluster("b");
    refused(
        Kind::StartedBeforeCanaries,
        10,
        policy().canaries(),
        unfinished,
        start("b"),
    );
    refused(
        Kind::StartedWithoutCanary,
        10,
        policy().canaries(),
        fleet().cluster("a"),
        start("a"),
    );
    let breach = fleet().cluster("a").record(failed()).cluster("b");
    refused(
        Kind::StartedPastMaxFailures,
        10,
        policy().max_failures(Limit::Count(0)),
        breach,
        start("b"),
    );
}

#[test]
fn starts_of_clusters_that_must_not_start() {
    let barred = [
        fleet().cluster("a").blocked(Reason::InvalidClusterID),
        fleet().cluster("a").unavailable(),
        fleet().cluster("a").gone(),
        fleet().cluster("a").left(8),
        fleet().cluster("a").rival(RivalHold::Active),
        fleet().cluster("a").rival(RivalHold::Stuck),
        fleet().cluster("a").rival(RivalHold::Undeletable),
    ];
    for fleet in barred {
        refused(Kind::StartedBarred, 10, policy(), fleet, |plan| {
            plan.operations.push(create("a", Step::Platform, 10));
        });
    }
}

#[test]
fn writes_for_busy_or_resting_clusters() {
    let soon = |plan: &mut Plan| plan.operations.push(create("a", Step::Platform, 10));
    let busy = fleet().cluster("a").busy(Busy::Other);
    refused(Kind::BusyTouched, 10, policy(), busy, soon);
    let resting = fleet().cluster("a").backoff(20);
    refused(Kind::BackoffIgnored, 10, policy(), resting, soon);
}

#[test]
fn creations_over_existing_works() {
    let taken = [
        StepWork::Ours(Arc::new(work(0).terminating().into())),
        StepWork::Rival { terminating: false },
        StepWork::Foreign { retry_at: at(30) },
    ];
    for slot in taken {
        let fleet = fleet()
            .cluster("a")
            .step_work(Step::Platform, slot)
            .record(record(Phase::Pending));
        refused(Kind::WorkOverwritten, 10, policy(), fleet, |plan| {
            plan.operations = vec![create("a", Step::Platform, 10)];
        });
    }
}

#[test]
fn updates_of_what_cannot_be_updated() {
    refused(Kind::UpdateUnfounded, 0, policy(), fleet().cluster("a"), |plan| {
        plan.operations = vec![update("a", 0, UpdateKind::Retry)];
    });
    let rival = fleet()
        .cluster("a")
        .step_work(Step::Platform, StepWork::Rival { terminating: false });
    refused(Kind::UpdateUnfounded, 0, policy(), rival, |plan| {
        plan.operations = vec![update("a", 0, UpdateKind::TakeOver)];
    });
}

#[test]
fn two_beginnings_at_once() {
    refused(
        Kind::DoubleStart,
        0,
        policy().operators(),
        fleet().cluster("a"),
        |plan| {
            plan.operations.push(create("a", Step::Operators, 0));
        },
    );
}

#[test]
fn steps_out_of_order() {
    let asked = || policy().pre_action().operators().post_action();
    refused(Kind::StepOrder, 0, asked(), fleet().cluster("a"), |plan| {
        plan.operations = vec![create("a", Step::Platform, 0)];
    });
    refused(
        Kind::StepOrder,
        10,
        policy().operators(),
        partial(work(0).running()),
        |plan| {
            plan.operations = vec![create("a", Step::Operators, 10)];
        },
    );
    refused(
        Kind::StepOrder,
        10,
        policy().post_action(),
        partial(work(0).running()),
        |plan| {
            plan.operations = vec![create("a", Step::PostAction, 10)];
        },
    );
    refused(Kind::StepOrder, 0, policy(), fleet().cluster("a"), |plan| {
        plan.operations = vec![create("a", Step::Operators, 0)];
    });
}

#[test]
fn attempts_that_are_not_announced() {
    let revised = fleet().cluster("a").record(record(Phase::Pending).revision("r0"));
    refused(Kind::Unannounced, 10, policy(), revised, |plan| {
        plan.operations.push(create("a", Step::Platform, 10));
    });
    let unwritten = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).revision("r0"))
        .draft(record(Phase::Pending));
    refused(Kind::Unannounced, 10, policy(), unwritten, |plan| {
        plan.operations.push(update("a", 10, UpdateKind::Repoint));
    });
}

#[test]
fn platform_works_deleted_too_early() {
    let soaking = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded().soak(5))
        .record(
            record(Phase::Soaking)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Soak, 5),
        );
    let unwritten = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .draft(complete());
    let failed = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(failed());
    for fleet in [partial(work(0).running()), soaking, unwritten, failed] {
        for why in [DeleteReason::Complete, DeleteReason::Leftover] {
            refused(
                Kind::PlatformDeleted,
                10,
                policy().soak(30),
                fleet.clone(),
                |plan| {
                    plan.operations.push(delete("a", Step::Platform, why));
                },
            );
        }
    }
}

#[test]
fn other_works_deleted_too_early() {
    let running = || {
        fleet()
            .cluster("a")
            .work(Step::PreAction, work(0).running())
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0))
    };
    let reasons = [
        DeleteReason::Complete,
        DeleteReason::AllComplete,
        DeleteReason::OthersStalled,
        DeleteReason::Leftover,
        DeleteReason::LeftSelection,
        DeleteReason::Superseded,
        DeleteReason::UpgradeDeleted,
    ];
    for why in reasons {
        refused(
            Kind::DeletedUnfinished,
            10,
            policy().pre_action(),
            running(),
            |plan| {
                plan.operations.push(delete("a", Step::PreAction, why));
            },
        );
    }
}

#[test]
fn works_of_others_deleted() {
    let rivals = fleet()
        .cluster("a")
        .rival(RivalHold::Active)
        .step_work(Step::Operators, StepWork::Rival { terminating: false });
    refused(Kind::ForeignTouched, 10, policy(), rivals, |plan| {
        plan.operations
            .push(delete("a", Step::Operators, DeleteReason::Superseded));
    });
    let yielding = fleet()
        .cluster("a")
        .rival(RivalHold::Yielding)
        .step_work(Step::Platform, StepWork::Rival { terminating: false });
    refused(Kind::ForeignTouched, 10, policy(), yielding, |plan| {
        plan.operations = vec![delete("a", Step::Platform, DeleteReason::Superseded)];
    });
    let foreign = fleet()
        .cluster("a")
        .step_work(Step::Platform, StepWork::Foreign { retry_at: at(30) });
    refused(Kind::ForeignTouched, 10, policy().deleting(), foreign, |plan| {
        plan.operations
            .push(delete("a", Step::Platform, DeleteReason::UpgradeDeleted));
    });
}

#[test]
fn anything_but_deletions_while_deleting() {
    refused(
        Kind::ActionWhileDeleting,
        10,
        policy().deleting(),
        fleet().cluster("a"),
        |plan| {
            plan.operations.push(create("a", Step::Platform, 10));
        },
    );
}

#[test]
fn soaks_noted_without_a_soak() {
    refused(
        Kind::SoakUnfounded,
        10,
        policy().soak(30),
        partial(work(0).running()),
        |plan| {
            plan.operations.push(Operation::MarkSoak {
                cluster: Arc::from("a"),
                step: Step::Platform,
                started: at(10),
            });
        },
    );
}

#[test]
fn clusters_that_wait_without_a_reason() {
    let two = fleet().cluster("a").cluster("b");
    refused(Kind::NoReason, 0, policy().max_concurrency(1), two, |plan| {
        change(plan, 1, |record| record.reason = Reason::None);
    });
}

#[test]
fn terminal_states_that_change() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(failed());
    refused(Kind::TerminalReversed, 10, policy(), fleet, |plan| {
        change(plan, 0, |record| record.phase = Phase::Complete);
    });
}

#[test]
fn attempts_nobody_asked_for() {
    let done = || fleet().cluster("a").record(complete());
    refused(
        Kind::AttemptUnfounded,
        10,
        policy().retry("again"),
        done(),
        |plan| {
            change(plan, 0, |record| record.attempt.retry = "again".into());
        },
    );
    refused(Kind::AttemptUnfounded, 10, policy(), done(), |plan| {
        change(plan, 0, |record| record.attempt.revision = "r9".into());
    });
}

#[test]
fn successes_without_proof() {
    let unknown = partial(work(0).status(StepStatus::NotYet));
    refused(Kind::UnprovenSuccess, 10, policy(), unknown, |plan| {
        change(plan, 0, |record| {
            let succeeded = Record::from(complete());
            record.stages = succeeded.stages;
        });
    });
}

#[test]
fn clocks_that_are_reset() {
    refused(
        Kind::ClockReset,
        10,
        policy(),
        partial(work(0).running()),
        |plan| {
            change(plan, 0, |record| {
                record.stages[Stage::Platform.index()] = Record::from(record_of_clock(10)).stages[1];
            });
        },
    );
    let deleted = fleet()
        .cluster("a")
        .record(record(Phase::Initialized).stage(Stage::Platform, 0));
    refused(Kind::ClockReset, 10, policy(), deleted, |plan| {
        plan.operations = vec![create("a", Step::Platform, 10)];
    });
}

fn record_of_clock(seconds: i64) -> RecordBuilder {
    record(Phase::Partial).stage(Stage::Platform, seconds)
}

#[test]
fn rows_that_are_not_written_at_once() {
    let revised = fleet().cluster("a").record(record(Phase::Pending).revision("r0"));
    refused(Kind::NotUrgent, 10, policy(), revised, |plan| {
        plan.clusters[0].urgent = false;
    });
    refused(
        Kind::NotUrgent,
        60,
        policy().timeouts(60, 60),
        partial(work(0).running()).read(Step::Platform, 60),
        |plan| plan.clusters[0].urgent = false,
    );
}

#[test]
fn retries_that_a_crash_could_lose() {
    let fleet = fleet().cluster("a").record(failed());
    refused(Kind::RetryForgotten, 10, policy().retry("again"), fleet, |plan| {
        plan.retry_done = true;
    });
}

#[test]
fn starts_beside_one_whose_outcome_is_not_known() {
    let fleet = || {
        fleet()
            .cluster("a")
            .unsettled(Step::Platform)
            .backoff(20)
            .cluster("b")
    };
    refused(
        Kind::TooManySlots,
        10,
        policy().max_concurrency(1),
        fleet(),
        |plan| {
            plan.operations.push(create("b", Step::Platform, 10));
        },
    );
    let later = fleet().cluster("c").unsettled(Step::PreAction);
    refused(Kind::UnsettledPassed, 10, policy(), later, |plan| {
        plan.operations
            .retain(|operation| !matches!(operation, Operation::Read { .. }));
        plan.operations.push(create("c", Step::Platform, 10));
    });
}
