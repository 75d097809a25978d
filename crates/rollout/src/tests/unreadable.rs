//! Rows and works that cannot be read block their own cluster and no other.

use std::sync::Arc;

use super::violations::refused;
use super::{planned, record_of, stand, writes};
use crate::check::{ViolationKind, check};
use crate::model::{
    Attempt, DeleteReason, MAX_RETRY_BYTES, Operation, Phase, Reason, Record, Stage, StallReason, Step,
    StepWork,
};
use crate::planner::plan;
use crate::testing::{RecordBuilder, at, fleet, policy, record, work};

/// The record that stands for a row that cannot be read.
fn unreadable() -> RecordBuilder {
    record(Phase::Blocked)
        .unreadable()
        .message("phase: unknown variant")
}

fn spoiled() -> StepWork {
    StepWork::Unreadable {
        what: Arc::from("the revision is too long"),
        terminating: false,
    }
}

#[test]
fn a_cluster_whose_record_cannot_be_read_is_left_alone_and_keeps_completion_from_being_claimed() {
    for retry in [false, true] {
        let policy = if retry { policy().retry("t1") } else { policy() };
        let fleet = fleet()
            .cluster("c1")
            .record(record(Phase::Complete))
            .cluster("c2")
            .record(unreadable())
            .work(Step::Platform, work(-100).succeeded())
            .cluster("c3")
            .left(-100)
            .record(unreadable())
            .cluster("c4")
            .gone()
            .record(unreadable());
        let plan = planned(100_000, policy, fleet);
        assert_eq!(writes(&plan), Vec::<String>::new());
        for name in ["c2", "c3", "c4"] {
            assert_eq!(stand(&plan, name), (Phase::Blocked, Reason::UnreadableRecord));
        }
        assert!(plan.dropped.is_empty(), "{:?}", plan.dropped);
        assert!(!plan.outlook.complete);
        assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
    }
}

#[test]
fn a_cluster_whose_record_cannot_be_read_holds_a_slot_while_a_work_of_it_or_the_step_after_it_may_run() {
    let works = [
        (work(0).running(), true),
        (work(0).succeeded(), true),
        (work(0).failed(), false),
    ];
    for (found, holds) in works {
        let fleet = fleet()
            .cluster("c1")
            .record(unreadable())
            .work(Step::Platform, found)
            .cluster("c2");
        let plan = planned(10, policy().max_concurrency(1), fleet);
        assert_eq!(
            plan.operations.len(),
            usize::from(!holds),
            "{:?}",
            plan.operations
        );
        assert_eq!(plan.summary.in_flight, usize::from(holds));
    }
}

/// A newer release may have written a phase that this one does not know, and somebody deleted the work.
#[test]
fn a_cluster_without_works_holds_a_slot_while_its_row_says_that_a_step_is_open() {
    let failed = || work(0).failed();
    for (fleet, holds) in [
        (fleet().cluster("c1").record(unreadable()), false),
        (
            fleet()
                .cluster("c1")
                .record(unreadable().stage(Stage::Platform, 0)),
            true,
        ),
        (
            fleet()
                .cluster("c1")
                .record(unreadable().stage(Stage::PostAction, 0)),
            false,
        ),
        (
            fleet()
                .cluster("c1")
                .record(unreadable().stage(Stage::Platform, 0))
                .work(Step::Platform, failed()),
            false,
        ),
    ] {
        let plan = planned(10, policy().max_concurrency(1), fleet.cluster("c2"));
        assert_eq!(plan.summary.in_flight, usize::from(holds));
        assert_eq!(
            plan.operations.len(),
            usize::from(!holds),
            "{:?}",
            plan.operations
        );
    }
}

#[test]
fn a_write_without_a_response_is_read_also_where_the_record_cannot_be_read() {
    let fleet = fleet()
        .cluster("c1")
        .record(unreadable())
        .unsettled(Step::Platform);
    assert_eq!(writes(&planned(10, policy(), fleet)), ["read c1/Platform"]);
}

#[test]
fn the_checker_refuses_to_touch_what_cannot_be_read() {
    let fleet = fleet()
        .cluster("c1")
        .record(unreadable())
        .work(Step::PreAction, work(0).succeeded())
        .build();
    let policy = policy().build();
    let mut touched = plan(at(10), &policy, &fleet);
    touched.operations.push(Operation::Delete {
        cluster: Arc::from("c1"),
        step: Step::PreAction,
        why: DeleteReason::Leftover,
    });
    let mut changed = plan(at(10), &policy, &fleet);
    changed.clusters[0].record = Arc::new(record(Phase::Pending).reason(Reason::WaitingForSlot).into());
    let mut dropped = plan(at(10), &policy, &fleet);
    dropped.dropped = vec![dropped.clusters.remove(0).name];
    for bad in [touched, changed, dropped] {
        let found = check(at(10), &policy, &fleet, &bad);
        assert!(
            found
                .iter()
                .any(|one| one.kind == ViolationKind::UnreadableTouched),
            "{found:?}"
        );
    }
}

#[test]
fn nothing_starts_where_any_work_of_the_upgrade_cannot_be_read() {
    for step in Step::ALL {
        let fleet = fleet().cluster("c1").step_work(step, spoiled()).cluster("c2");
        let plan = planned(10, policy().pre_action().operators().post_action(), fleet);
        assert_eq!(writes(&plan), ["create c2/PreAction"]);
        assert_eq!(stand(&plan, "c1"), (Phase::Blocked, Reason::UnreadableWork));
        let message = &record_of(&plan, "c1").message;
        assert!(message.contains("Restore them, or delete"), "{message}");
    }
}

#[test]
fn a_work_that_cannot_be_read_any_more_keeps_its_slot_until_its_time_is_over() {
    let cluster = || {
        fleet()
            .cluster("c1")
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
            .step_work(Step::Platform, spoiled())
    };
    let given = || cluster().cluster("c2");
    let one = || policy().max_concurrency(1);
    let plan = planned(100, one(), given());
    assert_eq!(writes(&plan), Vec::<String>::new());
    assert_eq!(stand(&plan, "c1"), (Phase::Partial, Reason::UnreadableWork));
    let edited = planned(100, one().edited("r2", &[Step::Platform]), given());
    assert_eq!(
        stand(&edited, "c1").0,
        Phase::Partial,
        "an edit does not give the slot back"
    );
    let read = cluster().read(Step::Platform, 3 * 3600);
    let late = planned(3 * 3600, one(), read.cluster("c2"));
    assert_eq!(stand(&late, "c1"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
    assert!(record_of(&late, "c1").message.contains("UnreadableWork"));
}

/// Otherwise it would count as failed until the next plan, unlike one whose work can be read.
#[test]
fn an_edit_reaches_a_cluster_in_the_plan_in_which_the_time_of_its_unreadable_work_is_over() {
    let edits: [&[Step]; 2] = [&[], &[Step::Platform]];
    for changed in edits {
        let edited = || policy().max_concurrency(1).timeouts(60, 60).edited("r2", changed);
        let cluster = || {
            let row = record(Phase::Partial).stage(Stage::Platform, 0);
            let cluster = fleet().cluster("c1").record(row);
            cluster.step_work(Step::Platform, spoiled())
        };
        let unread = planned(60, edited(), cluster().cluster("c2"));
        assert_eq!(stand(&unread, "c1").0, Phase::Partial);
        assert_eq!(writes(&unread), ["read c1/Platform"]);
        let read = || cluster().read(Step::Platform, 60);
        let plan = planned(60, edited(), read().cluster("c2"));
        let told = record_of(&plan, "c1").clone();
        assert_eq!(
            (told.phase, told.reason),
            (Phase::Blocked, Reason::UnreadableWork)
        );
        assert_eq!(&*told.attempt.revision, "r2");
        assert_eq!(plan.summary.clusters.failed, 0);
        assert!(plan.clusters[0].urgent, "its slot is free once its row says so");
        assert_eq!(writes(&plan), [""; 0]);
        let next = planned(60, edited(), read().draft(told.clone()).cluster("c2"));
        assert_eq!(*record_of(&next, "c1"), told);
        assert_eq!(writes(&next), [""; 0]);
        let written = planned(61, edited(), read().record(told).cluster("c2"));
        assert_eq!(writes(&written), ["create c2/Platform"]);
    }
}

#[test]
fn a_cluster_that_left_is_not_dropped_while_a_work_of_it_cannot_be_read() {
    let fleet = fleet()
        .cluster("c1")
        .left(-100)
        .record(record(Phase::Pending).retry("t1"))
        .step_work(Step::Platform, spoiled());
    let plan = planned(10, policy(), fleet);
    assert!(plan.dropped.is_empty());
    assert_eq!(stand(&plan, "c1"), (Phase::Blocked, Reason::UnreadableWork));
}

#[test]
fn a_deleted_upgrade_removes_works_that_cannot_be_read_too() {
    let fleet = fleet().cluster("c1").step_work(Step::Operators, spoiled());
    let plan = planned(10, policy().deleting(), fleet);
    assert_eq!(writes(&plan), ["delete c1/Operators UpgradeDeleted"]);
}

#[test]
fn a_reason_of_a_newer_release_is_kept_with_the_record_that_it_explains() {
    let mut failed: Record = record(Phase::Failed).reason(Reason::Other).into();
    failed.other_reason = Some(Arc::from("EtcdQuorumLost"));
    let plan = planned(10, policy(), fleet().cluster("c1").record(failed.clone()));
    assert_eq!(*record_of(&plan, "c1"), failed);
    assert_eq!(record_of(&plan, "c1").reason_text(), "EtcdQuorumLost");
    // A new decision has a new reason.
    let plan = planned(10, policy().retry("t2"), fleet().cluster("c1").record(failed));
    assert_eq!(record_of(&plan, "c1").reason, Reason::None);
}

#[test]
fn the_retry_token_of_edits_that_are_taken_back_stays_bounded() {
    for length in [0, 145, 256, 300] {
        take_back("t".repeat(length));
    }
}

fn take_back(mut retry: String) {
    for round in 0..300 {
        let revision = if round % 2 == 0 { "r2" } else { "r1" };
        let known = record(Phase::Complete)
            .revision(if round % 2 == 0 { "r1" } else { "r2" })
            .retry(&retry);
        let fleet = fleet()
            .cluster("c1")
            .record(known)
            .work(Step::Platform, work(-50).revision(revision).retry(&retry));
        let plan = planned(10, policy().edited(revision, &[Step::Platform]), fleet);
        let attempt: &Attempt = &record_of(&plan, "c1").attempt;
        assert!(attempt.retry.len() <= MAX_RETRY_BYTES, "{}", attempt.retry.len());
        assert_ne!(*attempt.retry, *retry, "the work must not be revived");
        retry = attempt.retry.to_string();
    }
}

/// What cannot be read, or is still to be read, may be left from an earlier attempt.
#[test]
fn an_aborted_cluster_is_not_asked_for_the_update_while_a_work_of_it_cannot_be_read() {
    let asked = || policy().pre_action().operators().post_action();
    let acting = || record(Phase::PreAction).stage(Stage::PreAction, 0);
    let request = || Operation::Create {
        cluster: "a".into(),
        step: Step::Platform,
        attempt: Record::from(acting()).attempt,
        started: at(10),
    };
    for unclear in [StepWork::Unconfirmed, spoiled()] {
        let a = || fleet().cluster("a").aborted("wrong site").record(acting());
        let unclear = |step: Step| a().step_work(step, unclear.clone());
        for step in [Step::Operators, Step::PostAction] {
            let running = unclear(step).work(Step::PreAction, work(0).running());
            let plan = planned(10, asked(), running);
            assert_eq!(
                stand(&plan, "a"),
                (Phase::PreAction, Reason::Aborting),
                "{step:?}"
            );
            let over = || unclear(step).work(Step::PreAction, work(0).succeeded());
            let plan = planned(10, asked(), over());
            assert!(
                !writes(&plan).iter().any(|write| write.contains("Platform")),
                "{step:?}"
            );
            refused(ViolationKind::LeftOut, 10, asked(), over(), |plan| {
                plan.operations.push(request());
            });
        }
        let succeeded = record(Phase::PreAction).succeeded(Stage::PreAction, 0);
        let plan = planned(10, asked(), unclear(Step::PreAction).record(succeeded));
        assert!(!writes(&plan).iter().any(|write| write.contains("Platform")));
    }
}

/// Its pre-action did not fail. The next plan would say something else of it than that it is degraded.
#[test]
fn an_aborted_cluster_whose_pre_action_had_succeeded_is_not_degraded_because_that_work_stays_unclear() {
    let asked = || policy().pre_action().timeouts(60, 60).max_concurrency(1);
    let unread = (Phase::Pending, Reason::WaitingForCleanup);
    for (unclear, expected) in [
        (spoiled(), (Phase::Blocked, Reason::UnreadableWork)),
        (StepWork::Unconfirmed, unread),
    ] {
        let a = || {
            let a = fleet().cluster("a").aborted("wrong site");
            let a = a.step_work(Step::PreAction, unclear.clone());
            let row = record(Phase::PreAction).succeeded(Stage::PreAction, 0);
            a.record(row).read(Step::PreAction, 60)
        };
        assert_eq!(stand(&planned(59, asked(), a()), "a").0, Phase::PreAction);
        let plan = planned(60, asked(), a().cluster("b"));
        let told = record_of(&plan, "a").clone();
        assert_eq!((told.phase, told.reason), expected);
        assert!(told.succeeded(Stage::PreAction));
        assert!(plan.clusters[0].urgent, "its slot is free once its row says so");
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        let next = planned(60, asked(), a().draft(told.clone()).cluster("b"));
        assert_eq!(*record_of(&next, "a"), told);
        assert_eq!(writes(&next), writes(&plan));
        let doubtful = planned(60, asked(), a().late(Step::PreAction));
        let again = a().late(Step::PreAction).draft(record_of(&doubtful, "a").clone());
        assert_eq!(
            record_of(&planned(60, asked(), again), "a"),
            record_of(&doubtful, "a")
        );
        if unclear == spoiled() {
            let written = planned(61, asked(), a().record(told).cluster("b"));
            assert_eq!(stand(&written, "a"), (Phase::Aborted, Reason::Aborted));
            assert_eq!(writes(&written), ["create b/PreAction"]);
        }
    }
}

/// The work that cannot be read is left from an earlier attempt. Nothing is withdrawn meanwhile, so the edit waits.
#[test]
fn the_time_of_a_pre_action_runs_on_while_an_edit_waits_for_a_work_that_cannot_be_read() {
    let edited = || {
        let asked = policy().pre_action().timeouts(60, 60);
        asked.edited("r2", &[Step::Platform])
    };
    let a = || {
        let a = fleet().cluster("a").aborted("wrong site");
        let a = a.work(Step::PreAction, work(0).running());
        let a = a.step_work(Step::Platform, spoiled());
        a.record(record(Phase::PreAction).stage(Stage::PreAction, 0))
    };
    let plan = planned(10, edited(), a());
    assert_eq!(
        (stand(&plan, "a").0, plan.wake_at),
        (Phase::PreAction, Some(at(60)))
    );
    assert_eq!(writes(&planned(60, edited(), a())), ["read a/PreAction"]);
    let over = planned(60, edited(), a().read(Step::PreAction, 60));
    assert!(!stand(&over, "a").0.holds_slot());
    // When it has succeeded, the time of the update begins.
    let done = planned(10, edited(), a().work(Step::PreAction, work(0).succeeded()));
    assert_eq!(stand(&done, "a"), (Phase::PreAction, Reason::UnreadableWork));
    assert_eq!(done.wake_at, Some(at(70)));
}

/// Somebody has changed the annotations of the work after its end was recorded. The cluster is not given what an edit asks for.
#[test]
fn an_end_on_record_does_not_become_a_failure_because_its_work_cannot_be_read() {
    let asked = || {
        policy()
            .operators()
            .timeouts(100, 100)
            .edited("r2", &[Step::Operators])
    };
    let left = |slot| {
        fleet()
            .cluster("a")
            .left(6)
            .step_work(Step::Platform, slot)
            .record(record(Phase::Partial).succeeded(Stage::Platform, 0))
            .read(Step::Platform, 200)
    };
    let plan = planned(200, asked(), left(spoiled()));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
    assert!(record_of(&plan, "a").succeeded(Stage::Platform));
    let plan = planned(200, asked(), left(StepWork::Unconfirmed));
    assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::WaitingForCleanup));
    assert!(record_of(&plan, "a").succeeded(Stage::Platform));
    refused(
        ViolationKind::TerminalReversed,
        200,
        asked(),
        left(spoiled()),
        |plan| {
            let mut clusters = plan.clusters.iter_mut();
            let spoiled = clusters.find(|state| *state.name == *"a").unwrap();
            let stage = &mut Arc::make_mut(&mut spoiled.record).stages[Stage::Platform.index()];
            stage.as_mut().unwrap().outcome = Some(crate::model::Outcome::Failed);
        },
    );
}

/// The plan is another one once it has left, and the status must not go on telling that the former one is approved.
#[test]
fn a_plan_is_made_again_when_a_cluster_whose_row_cannot_be_read_has_left() {
    let asked = || policy().checkpoint_at("first", 0);
    let left = || fleet().cluster("a").left(6).record(unreadable()).cluster("b");
    let before = planned(10, asked(), left());
    assert_eq!(before.wake_at, Some(at(11)));
    let after = planned(11, asked(), left());
    assert_ne!(before.hash, after.hash);
    assert_eq!(after.wake_at, None);
}

/// It goes back to the end of its earlier attempt then, and nothing else may happen.
#[test]
fn a_plan_is_made_again_when_a_queued_cluster_with_a_work_that_cannot_be_read_has_left() {
    let asked = || policy().edited("r2", &[Step::Platform]);
    let left = || {
        let queued = fleet()
            .cluster("a")
            .left(6)
            .record(record(Phase::Pending).revision("r2"));
        let queued = queued.work(Step::Platform, work(0).succeeded());
        queued.step_work(Step::PreAction, spoiled())
    };
    assert_eq!(planned(10, asked(), left()).wake_at, Some(at(11)));
    let plan = planned(11, asked(), left());
    assert!(!record_of(&plan, "a").phase.is_queued());
}
