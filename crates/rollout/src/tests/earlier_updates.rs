//! Clusters in flight that an edit has reached and that finish the update of the earlier spec first.

use std::sync::Arc;

use super::violations::{create, refused};
use super::windows::second_hour;
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{Attempt, Operation, Phase, Plan, Reason, Stage, Step, StepStatus, StepWork, UpdateKind};
use crate::testing::{FleetBuilder, PolicyBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

fn r2() -> PolicyBuilder {
    policy().edited("r2", &[Step::Platform])
}

/// It had begun the update of the earlier spec before it could be asked for that of the present one, as its row says.
fn finishing(status: StepStatus) -> FleetBuilder {
    let row = record(Phase::Partial).reason(Reason::Running).revision("r2");
    fleet()
        .cluster("a")
        .work(Step::Platform, work(0).status(status))
        .record(row)
}

fn repoint(started: i64) -> impl FnOnce(&mut Plan) {
    move |plan| {
        let record = Arc::make_mut(&mut plan.clusters[0].record);
        record.phase = Phase::Initialized;
        record.stages[Stage::Platform.index()] = None;
        plan.operations = vec![Operation::Update {
            cluster: "a".into(),
            attempt: Attempt {
                revision: "r2".into(),
                retry: "".into(),
            },
            started: at(started),
            kind: UpdateKind::Repoint,
        }];
    }
}

#[test]
fn an_earlier_update_whose_report_is_missing_for_a_while_is_not_interrupted() {
    for status in [StepStatus::Running, StepStatus::NotYet] {
        let plan = planned(100, r2(), finishing(status.clone()));
        assert_eq!(writes(&plan), NOTHING, "{status:?}");
        assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::Running));
        refused(Kind::UpdateUnfounded, 100, r2(), finishing(status), repoint(100));
    }
    let plan = planned(100, r2(), finishing(StepStatus::Succeeded));
    assert_eq!(writes(&plan), ["update a/Platform Repoint"]);
}

#[test]
fn an_earlier_update_is_not_interrupted_by_a_clock_that_is_not_trusted() {
    let late = 100_000;
    let distrusted = || r2().distrusted_clock();
    let running = || finishing(StepStatus::Running);
    let plan = planned(late, distrusted(), running());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    refused(
        Kind::UpdateUnfounded,
        late,
        distrusted(),
        running(),
        repoint(late),
    );
    let plan = planned(late, r2(), running());
    assert_eq!(writes(&plan), ["update a/Platform Repoint"]);
}

/// The work tells another attempt and an earlier start than the record, as when somebody has changed its annotations.
#[test]
fn an_earlier_update_is_looked_at_again_when_the_recorded_time_is_over() {
    let distrusted = || r2().timeouts(60, 60).distrusted_clock();
    let row = || record(Phase::Partial).reason(Reason::Running).revision("r2");
    let running = || finishing(StepStatus::Running).record(row().stage(Stage::Platform, 30));
    for (now, wakes) in [(40, 60), (70, 90)] {
        let plan = planned(now, distrusted(), running());
        assert_eq!(writes(&plan), NOTHING);
        assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::Running));
        assert_eq!(plan.wake_at, Some(at(wakes)));
    }
    refused(Kind::WakeMissed, 70, distrusted(), running(), |plan| {
        plan.wake_at = None;
    });
}

/// It holds no slot until the next one: it is asked for nothing.
#[test]
fn no_other_update_follows_an_earlier_one_outside_a_window() {
    let finished = || finishing(StepStatus::Succeeded).calendar(second_hour());
    let open = planned(3700, r2(), finished());
    assert_eq!(writes(&open), ["update a/Platform Repoint"]);
    let closed = planned(8000, r2(), finished());
    assert_eq!(writes(&closed), NOTHING);
    assert_eq!(stand(&closed, "a"), (Phase::Pending, Reason::WaitingForWindow));
    assert_eq!(closed.wake_at, Some(at(86_400 + 3600)));
    assert!(closed.clusters[0].urgent, "its slot is free once its row says so");
    refused(Kind::StartedOutsideWindow, 8000, r2(), finished(), repoint(8000));
    let queued = finished().record(record_of(&closed, "a").clone());
    let plan = planned(86_400 + 3600, r2(), queued);
    assert_eq!(writes(&plan), ["update a/Platform Repoint"]);
}

/// It was asked for the update of an earlier spec, and not yet for that of the present one. It has finished the earlier one, or a work
/// that cannot be read keeps its request from being withdrawn.
#[test]
fn an_aborted_cluster_in_flight_is_not_asked_for_the_update_of_a_later_spec() {
    let r2 = || policy().post_action().edited("r2", &[Step::Platform]);
    for phase in [Phase::Initialized, Phase::Partial] {
        let row = || record(phase).reason(Reason::Running).revision("r2");
        let a = |status: StepStatus| {
            let a = fleet().cluster("a").aborted("wrong site");
            a.work(Step::Platform, work(0).status(status)).record(row())
        };
        let finished = || a(StepStatus::Succeeded);
        let queued = planned(100, r2(), finished());
        assert_eq!(writes(&queued), NOTHING, "{phase}");
        assert_eq!(stand(&queued, "a"), (Phase::Pending, Reason::WaitingForCleanup));
        refused(Kind::LeftOut, 100, r2(), finished(), repoint(100));
        let queued = finished().record(record_of(&queued, "a").clone());
        assert_eq!(stand(&planned(101, r2(), queued), "a").0, Phase::Aborted);

        let unread = a(StepStatus::OtherVersion).step_work(Step::PostAction, StepWork::Unconfirmed);
        let plan = planned(100, r2(), unread.clone());
        assert!(
            !writes(&plan).iter().any(|write| write.contains("Platform")),
            "{phase}"
        );
        assert!(stand(&plan, "a").0.holds_slot());
        refused(Kind::LeftOut, 100, r2(), unread, repoint(100));
    }
}

/// It may have been asked for the present update before it began the earlier one.
#[test]
fn an_aborted_cluster_that_has_ended_an_earlier_update_keeps_its_start_while_its_request_is_in_doubt() {
    let r2 = || policy().edited("r2", &[Step::Platform]);
    for phase in [Phase::Initialized, Phase::Partial] {
        let row = || record(phase).reason(Reason::Running).revision("r2");
        let ended = || {
            let a = fleet().cluster("a").aborted("wrong site");
            let a = a.work(Step::Platform, work(0).status(StepStatus::Succeeded));
            a.record(row().stage(Stage::Platform, 30))
        };
        let doubtful = || ended().unsettled(Step::Platform);
        let plan = planned(100, r2(), doubtful());
        assert_eq!(writes(&plan), ["read a/Platform"], "{phase}");
        assert_eq!(stand(&plan, "a"), (phase, Reason::WriteFailed));
        assert!(record_of(&plan, "a").stage(Stage::Platform).is_some(), "{phase}");
        refused(Kind::LeftOut, 100, r2(), doubtful(), |plan| {
            let record = Arc::make_mut(&mut plan.clusters[0].record);
            record.phase = Phase::Pending;
            record.stages[Stage::Platform.index()] = None;
        });

        let plan = planned(100, r2(), ended());
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForCleanup));
        assert!(record_of(&plan, "a").stage(Stage::Platform).is_none(), "{phase}");
    }
}

/// Somebody has deleted the work by which it was asked for the earlier update, before it was asked for the present one.
#[test]
fn a_cluster_that_lost_its_earlier_request_is_asked_for_a_later_one_only_where_that_may_begin() {
    for phase in [Phase::Initialized, Phase::Partial] {
        let row = || record(phase).reason(Reason::Running).revision("r2");
        let a = || fleet().cluster("a").record(row());
        let request = |seconds: i64| {
            move |plan: &mut Plan| {
                let record = Arc::make_mut(&mut plan.clusters[0].record);
                (record.phase, record.reason) = (phase, Reason::Running);
                plan.operations = vec![Operation::Create {
                    cluster: "a".into(),
                    step: Step::Platform,
                    attempt: record.attempt.clone(),
                    started: at(seconds),
                }];
            }
        };
        assert_eq!(writes(&planned(100, r2(), a())), ["create a/Platform"], "{phase}");
        let windowed = || a().calendar(second_hour());
        let closed = planned(8000, r2(), windowed());
        assert_eq!(writes(&closed), NOTHING, "{phase}");
        assert_eq!(stand(&closed, "a"), (Phase::Pending, Reason::WaitingForWindow));
        refused(Kind::StartedOutsideWindow, 8000, r2(), windowed(), request(8000));

        let aborted = || a().aborted("wrong site");
        let plan = planned(100, r2(), aborted());
        assert_eq!(writes(&plan), NOTHING, "{phase}");
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForCleanup));
        refused(Kind::LeftOut, 100, r2(), aborted(), request(100));
        let told = aborted().record(record_of(&plan, "a").clone());
        assert_eq!(stand(&planned(101, r2(), told), "a").0, Phase::Aborted, "{phase}");
    }
}

#[test]
fn an_aborted_cluster_is_not_asked_for_operators_alone_while_its_pre_action_cannot_be_read() {
    let asked = || {
        policy()
            .without(Step::Platform)
            .pre_action()
            .operators()
            .timeouts(60, 60)
    };
    let row = record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    let unreadable = StepWork::Unreadable {
        what: "the revision is too long".into(),
        terminating: false,
    };
    let a = || {
        let a = fleet().cluster("a").aborted("wrong site").record(row.clone());
        a.step_work(Step::PreAction, unreadable.clone())
    };
    let plan = planned(10, asked(), a());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(
        (stand(&plan, "a").0, plan.wake_at),
        (Phase::PreAction, Some(at(60)))
    );
    refused(Kind::LeftOut, 10, asked(), a(), |plan| {
        plan.operations = vec![create("a", Step::Operators, 10)];
    });
    // Its slot is not held for ever.
    assert_eq!(writes(&planned(60, asked(), a())), ["read a/PreAction"]);
    let over = planned(60, asked(), a().read(Step::PreAction, 60));
    assert_eq!(stand(&over, "a"), (Phase::Blocked, Reason::UnreadableWork));
}

/// The upgrade is one of operators alone, and the row is from before them.
#[test]
fn the_pre_action_of_an_aborted_cluster_is_not_given_up_while_its_operators_may_run() {
    let asked = || {
        let asked = policy().without(Step::Platform).pre_action().operators();
        asked.timeouts(60, 600)
    };
    let unreadable = StepWork::Unreadable {
        what: "the revision is too long".into(),
        terminating: false,
    };
    for unclear in [StepWork::Unconfirmed, unreadable] {
        let a = || {
            let a = fleet().cluster("a").aborted("wrong site");
            let a = a.work(Step::PreAction, work(0).succeeded());
            let a = a.step_work(Step::Operators, unclear.clone());
            a.record(record(Phase::PreAction).stage(Stage::PreAction, 0))
        };
        // Also when the time of the pre-action is over.
        for (seconds, a) in [(10, a()), (100, a().read(Step::PreAction, 100))] {
            let plan = planned(seconds, asked(), a.clone());
            let (phase, reason) = stand(&plan, "a");
            assert_eq!(phase, Phase::PreAction, "{unclear:?} at {seconds}");
            assert_ne!(reason, Reason::Aborting, "{unclear:?} at {seconds}");
            assert!(!writes(&plan).iter().any(|write| write.starts_with("delete")));
            refused(Kind::LeftOut, seconds, asked(), a, |plan| {
                let record = Arc::make_mut(&mut plan.clusters[0].record);
                (record.phase, record.reason) = (Phase::Aborted, Reason::Aborted);
            });
        }
    }
    let runs = fleet().cluster("a").aborted("wrong site");
    let runs = runs.work(Step::PreAction, work(0).succeeded());
    let runs = runs.work(Step::Operators, work(50).running());
    let runs = runs.record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    let plan = planned(100, asked(), runs);
    assert_eq!(stand(&plan, "a").0, Phase::Operators, "what runs goes on");
}

/// The upgrade is one of operators alone. They have ended while no controller ran, and the row is from before them.
#[test]
fn the_post_action_of_an_aborted_cluster_follows_its_operators_although_its_row_is_in_the_pre_action() {
    let asked = policy().without(Step::Platform).pre_action().operators();
    let a = fleet().cluster("a").aborted("wrong site");
    let a = a.work(Step::PreAction, work(0).succeeded());
    let a = a.work(Step::Operators, work(50).succeeded());
    let a = a.record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    let plan = planned(100, asked.post_action(), a);
    assert_eq!(writes(&plan), ["create a/PostAction"]);
}

/// Its work asks for the update of the earlier spec, which it may begin at any time.
#[test]
fn a_cluster_that_is_blocked_keeps_its_slot_while_it_may_begin_the_update_of_an_earlier_spec() {
    let asked = || r2().timeouts(60, 60).max_concurrency(1);
    let edited = |status: StepStatus| {
        fleet()
            .cluster("a")
            .blocked(Reason::InvalidClusterID)
            .work(Step::Platform, work(0).status(status))
            .record(record(Phase::Initialized).revision("r2"))
            .cluster("b")
    };
    for status in [StepStatus::NotYet, StepStatus::OtherVersion] {
        let plan = planned(10, asked(), edited(status));
        assert_eq!(stand(&plan, "a"), (Phase::Initialized, Reason::InvalidClusterID));
        assert_eq!(writes(&plan), NOTHING);
        assert_eq!(plan.wake_at, Some(at(70)), "its time bounds that");
    }
    let plan = planned(10, asked(), edited(StepStatus::Succeeded));
    assert_eq!(stand(&plan, "a").0, Phase::Blocked);
}
