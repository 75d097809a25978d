//! Clusters that the spec skips (`docs/design/rules.md#skipped-clusters`).

use std::sync::Arc;

use super::violations::{create, refused};
use super::windows::second_hour;
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{
    DeleteReason, Limit, Operation, Outcome, Phase, Reason, Record, Stage, StallReason, Step, StepStatus,
    StepWork, Withdrawal,
};
use crate::testing::{FleetBuilder, RecordBuilder, WorkBuilder, fleet, policy, record, work};

fn failed() -> RecordBuilder {
    record(Phase::Failed)
        .reason(Reason::ClusterUpgradeTimeout)
        .done(Stage::Platform, 0, Outcome::Failed)
}

fn complete(fleet: FleetBuilder) -> FleetBuilder {
    fleet.record(record(Phase::Complete).succeeded(Stage::Platform, 0))
}

const NOTHING: [&str; 0] = [];
const SKIPPED: (Phase, Reason) = (Phase::Skipped, Reason::Skipped);

/// One edit may skip a cluster that failed and retry the others.
#[test]
fn a_retry_does_not_hide_how_a_skipped_cluster_had_failed() {
    let asked = || policy().retry("again");
    let a = || fleet().cluster("a").skipped("no power").record(failed());
    let plan = planned(100, asked(), a());
    assert_eq!(stand(&plan, "a"), SKIPPED);
    assert!(plan.retry_done, "nobody is to be retried");
    let row = record_of(&plan, "a");
    assert_eq!(&*row.attempt.retry, "");
    assert!(row.message.contains("ClusterUpgradeTimeout"), "{}", row.message);
    refused(Kind::AttemptUnfounded, 100, asked(), a(), |plan| {
        Arc::make_mut(&mut plan.clusters[0].record).attempt.retry = "again".into();
    });
}

#[test]
fn a_cluster_that_is_skipped_does_not_start_and_the_upgrade_completes_without_it() {
    let a = || fleet().cluster("a").skipped("no power").cluster("b");
    let plan = planned(0, policy(), a());
    assert_eq!(writes(&plan), ["create b/Platform"]);
    assert_eq!(stand(&plan, "a"), SKIPPED);
    assert_eq!(&*record_of(&plan, "a").message, "no power");
    assert_eq!((plan.summary.skipped, plan.summary.clusters.pending), (1, 2));
    let skipped = record_of(&plan, "a").clone();
    let plan = planned(
        10,
        policy(),
        complete(
            fleet()
                .cluster("a")
                .skipped("no power")
                .record(skipped)
                .cluster("b"),
        ),
    );
    assert!(plan.outlook.complete);
    assert_eq!(
        (plan.summary.clusters.complete, plan.summary.clusters.pending),
        (1, 1)
    );
}

#[test]
fn what_is_under_way_ends_first() {
    let running = |phase| {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).running())
            .record(record(phase).stage(Stage::Platform, 0))
            .skipped("why")
    };
    let plan = planned(10, policy(), running(Phase::Partial));
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    let doubtful = fleet().cluster("a").unsettled(Step::Platform).skipped("why");
    assert_ne!(stand(&planned(10, policy(), doubtful), "a").0, Phase::Skipped);
}

/// Its slot is given back when its row says that it is blocked. Nothing of it is under way then, and it might stay blocked for ever.
#[test]
fn a_cluster_that_is_blocked_after_its_update_is_skipped_once_its_row_says_so() {
    let a = || {
        let a = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
        a.skipped("why")
    };
    let of = |update: RecordBuilder| update.reason(Reason::Conflict);
    let over = || of(record(Phase::Blocked)).succeeded(Stage::Platform, 0);
    let asked = || policy().operators();
    let untold = planned(10, asked(), a().draft(over()));
    assert_eq!(stand(&untold, "a"), (Phase::Blocked, Reason::Conflict));
    assert_eq!(writes(&untold), NOTHING);
    assert_eq!(stand(&planned(10, asked(), a().record(over())), "a"), SKIPPED);
    let open = fleet().cluster("a").work(Step::Platform, work(0).running());
    let open = open
        .record(of(record(Phase::Blocked)).stage(Stage::Platform, 0))
        .skipped("why");
    assert_ne!(
        stand(&planned(10, asked(), open), "a").0,
        Phase::Skipped,
        "its update goes on"
    );
}

#[test]
fn a_failure_that_is_written_is_skipped_and_its_row_tells_how_it_failed() {
    let a = |fleet: FleetBuilder| {
        fleet
            .work(Step::Platform, work(0).failed())
            .skipped("broken disk")
    };
    let plan = planned(10, policy(), a(fleet().cluster("a").draft(failed())));
    assert_eq!(stand(&plan, "a").0, Phase::Failed, "its row comes first");
    let plan = planned(10, policy(), a(fleet().cluster("a").record(failed())));
    assert_eq!(stand(&plan, "a"), SKIPPED);
    let message = record_of(&plan, "a").message.to_string();
    assert!(
        message.starts_with("broken disk (it had failed: ClusterUpgradeTimeout"),
        "{message}"
    );
    let again = a(fleet().cluster("a").record(record_of(&plan, "a").clone()));
    let plan = planned(11, policy(), again);
    assert_eq!(&*record_of(&plan, "a").message, message);
    assert_eq!(writes(&plan), ["withdraw a/Platform"], "the work itself is kept");
}

#[test]
fn the_action_of_a_skipped_cluster_is_not_counted_as_running() {
    let row = record(Phase::Skipped)
        .reason(Reason::Skipped)
        .succeeded(Stage::Platform, 0);
    let a = fleet().cluster("a").skipped("why");
    let plan = planned(
        10,
        policy().post_action(),
        a.record(row.stage(Stage::PostAction, 5)),
    );
    assert_eq!(stand(&plan, "a"), SKIPPED);
    let counts = &plan.summary.post_action;
    assert_eq!((counts.total, counts.progressing), (0, 0));
}

#[test]
fn failures_of_skipped_clusters_stop_nobody() {
    let fleet = |fleet: FleetBuilder| fleet.cluster("b");
    let failing = || crate::testing::fleet().cluster("a").record(failed());
    let asked = || policy().max_failures(Limit::Count(0));
    let plan = planned(10, asked(), fleet(failing()));
    assert_eq!(stand(&plan, "b").1, Reason::MaxFailuresExceeded);
    let plan = planned(10, asked(), fleet(failing().skipped("why")));
    assert_eq!(writes(&plan), ["create b/Platform"]);
}

/// It does not get the revision of the spec since, and nobody can complete it by that.
#[test]
fn a_canary_that_left_before_an_edit_keeps_nobody_waiting_when_the_others_are_skipped() {
    let edited = || policy().canaries().edited("r2", &[Step::Platform]);
    let canaries = || {
        let left = record(Phase::Complete).succeeded(Stage::Platform, 0);
        let left = fleet().cluster("a").canary().left(0).record(left);
        left.cluster("b").canary()
    };
    let plan = planned(100, edited(), canaries().skipped("why").cluster("c"));
    assert_eq!(stand(&plan, "b"), SKIPPED);
    assert_eq!(writes(&plan), ["create c/Platform"]);
    let waits = planned(100, edited(), canaries().cluster("c"));
    assert_eq!(stand(&waits, "c").1, Reason::WaitingForCanaries);
}

#[test]
fn a_canary_that_is_skipped_keeps_nobody_waiting() {
    let plan = planned(
        0,
        policy().canaries(),
        fleet().cluster("a").canary().skipped("why").cluster("b"),
    );
    assert_eq!(writes(&plan), ["create b/Platform"]);
    let failing = fleet()
        .cluster("a")
        .canary()
        .record(failed())
        .skipped("why")
        .cluster("b");
    assert_eq!(
        writes(&planned(10, policy().canaries(), failing)),
        ["create b/Platform"]
    );
    let two = fleet()
        .cluster("a")
        .canary()
        .skipped("why")
        .cluster("b")
        .canary()
        .cluster("c");
    assert_eq!(
        writes(&planned(0, policy().canaries(), two)),
        ["create b/Platform"]
    );
}

#[test]
fn a_cluster_that_is_not_skipped_any_more_is_queued_in_another_attempt_if_works_are_left() {
    let skipped = || record(Phase::Skipped).reason(Reason::Skipped);
    let plan = planned(10, policy(), fleet().cluster("a").record(skipped()));
    assert_eq!(writes(&plan), ["create a/Platform"]);
    let left = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).failed())
        .record(skipped().done(Stage::Platform, 0, Outcome::Failed));
    let plan = planned(10, policy(), left);
    assert_eq!(writes(&plan), NOTHING, "its row comes first");
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "~");
    assert_eq!(record_of(&plan, "a").stage(Stage::Platform), None);
}

#[test]
fn an_upgrade_whose_others_fail_is_stalled_by_these() {
    let both = fleet()
        .cluster("a")
        .skipped("why")
        .record(record(Phase::Skipped).reason(Reason::Skipped))
        .cluster("b")
        .record(failed());
    let plan = planned(10, policy(), both);
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersFailed));
}

#[test]
fn a_cluster_that_counts_as_skipped_although_it_is_not() {
    refused(
        Kind::LeftOut,
        10,
        policy(),
        fleet().cluster("a").record(failed()),
        |plan| {
            let record = Arc::make_mut(&mut plan.clusters[0].record);
            (record.phase, record.reason) = SKIPPED;
        },
    );
}

#[test]
fn a_cluster_that_is_skipped_and_starts() {
    let skipped = || fleet().cluster("a").skipped("why");
    refused(Kind::LeftOut, 10, policy(), skipped(), |plan| {
        plan.operations.push(create("a", Step::Platform, 10));
        let record = Arc::make_mut(&mut plan.clusters[0].record);
        (record.phase, record.reason) = (Phase::Pending, Reason::None);
        plan.clusters[0].starting = true;
    });
}

/// What a cluster without power was asked for would begin when the power is back, whatever has become of the upgrade.
#[test]
fn what_a_skipped_cluster_was_asked_for_before_it_failed_is_withdrawn_and_nobody_waits_for_it() {
    let failed = || {
        record(Phase::Failed)
            .reason(Reason::ClusterUpgradeTimeout)
            .done(Stage::Platform, 0, Outcome::Failed)
    };
    let a = |work: WorkBuilder, record: Record| {
        let a = fleet().cluster("a").work(Step::Platform, work).record(record);
        a.skipped("no power")
    };
    let plan = planned(10, policy(), a(work(0), failed().into()));
    assert_eq!(writes(&plan), ["withdraw a/Platform"]);
    assert_eq!(stand(&plan, "a"), (Phase::Skipped, Reason::Skipped));
    let told = record_of(&plan, "a").clone();
    let sent = work(0).withdrawn(Withdrawal::Sent);
    assert_eq!(writes(&planned(11, policy(), a(sent, told.clone()))), NOTHING);
    let begun = planned(11, policy(), a(work(0).running(), told.clone()));
    assert_eq!(writes(&begun), NOTHING, "it goes on");
    let confirmed = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let over = planned(11, policy(), a(confirmed, told));
    assert_eq!(writes(&over), ["delete a/Platform Aborted"]);
}

/// Whoever leads next and finds the cluster in flight and its request withdrawn takes it for one that was aborted, and queues it again.
#[test]
fn what_a_skipped_cluster_was_asked_for_is_withdrawn_only_when_its_row_says_that_it_failed() {
    let a = || {
        let a = fleet()
            .cluster("a")
            .work(Step::Platform, work(0))
            .skipped("no power");
        let a = a.record(record(Phase::Initialized).stage(Stage::Platform, 0));
        a.read(Step::Platform, 60)
    };
    let policy = || policy().timeouts(60, 60);
    let plan = planned(60, policy(), a());
    let failed = record_of(&plan, "a").clone();
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
    assert_eq!(writes(&plan), NOTHING);
    let unwritten = || a().draft(failed.clone());
    assert_eq!(writes(&planned(61, policy(), unwritten())), NOTHING);
    refused(Kind::UpdateUnfounded, 61, policy(), unwritten(), |plan| {
        plan.operations.push(Operation::Withdraw { cluster: "a".into() });
    });
    let plan = planned(61, policy(), a().record(failed));
    assert_eq!(writes(&plan), ["withdraw a/Platform"]);
    assert_eq!(stand(&plan, "a"), SKIPPED);
}

/// Its update, which goes on without a slot, would take one again.
#[test]
fn a_failure_that_is_skipped_stays_so_when_its_cluster_leaves_the_selection() {
    let row = record(Phase::Skipped)
        .reason(Reason::Skipped)
        .message("no power (it had failed)")
        .done(Stage::Platform, 0, Outcome::Failed);
    let a = fleet().cluster("a").work(Step::Platform, work(0).running());
    let a = a.skipped("no power").record(row);
    for seconds in [12, 100] {
        let plan = planned(seconds, policy(), a.clone().left(10));
        assert_eq!(stand(&plan, "a"), SKIPPED);
        assert_eq!(&*record_of(&plan, "a").message, "no power (it had failed)");
        assert_eq!(writes(&plan), NOTHING);
    }
}

/// If the row forgot what the cluster had begun, and the reading showed that nothing is there, that would begin again in the same
/// attempt.
#[test]
fn the_row_of_a_cluster_that_is_not_skipped_any_more_stays_until_its_work_was_read() {
    let row = || {
        record(Phase::Skipped)
            .reason(Reason::Skipped)
            .done(Stage::Platform, 0, Outcome::Failed)
    };
    let unread = || {
        let a = fleet()
            .cluster("a")
            .step_work(Step::Platform, StepWork::Unconfirmed);
        complete(
            a.record(row())
                .cluster("b")
                .work(Step::PreAction, work(0).succeeded()),
        )
    };
    let plan = planned(10, policy(), unread());
    assert_eq!(stand(&plan, "a"), (Phase::Skipped, Reason::WaitingForCleanup));
    assert!(record_of(&plan, "a").stage(Stage::Platform).is_some());
    assert_eq!(writes(&plan), ["read a/Platform"]);
    let outlook = &plan.outlook;
    assert!(!outlook.complete && outlook.moving && outlook.stalled.is_none());
    let told = record_of(&plan, "a").clone();
    let plan = planned(11, policy(), fleet().cluster("a").record(told));
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "~", "nothing is there");
    refused(Kind::ClockReset, 10, policy(), unread(), |plan| {
        let queued = record(Phase::Pending).reason(Reason::WaitingForCleanup);
        plan.clusters[0].record = Arc::new(queued.into());
    });
    refused(Kind::DeletedUnfinished, 10, policy(), unread(), |plan| {
        plan.operations.push(Operation::Delete {
            cluster: "b".into(),
            step: Step::PreAction,
            why: DeleteReason::AllComplete,
        });
    });
}

/// Whoever led before had started it while it was not skipped, and did not come to write that into its row.
#[test]
fn a_pre_action_that_began_after_the_row_said_skipped_is_under_way() {
    let asked = || policy().pre_action().max_concurrency(1);
    let out = |phase, reason| record(phase).reason(reason);
    let skipped = || out(Phase::Skipped, Reason::Skipped);
    let begun = |row: RecordBuilder| {
        let a = fleet().cluster("a").work(Step::PreAction, work(0).running());
        a.record(row)
    };
    let again = || begun(skipped()).skipped("no power").cluster("b");
    for fleet in [again(), begun(skipped()).cluster("b")] {
        let plan = planned(10, asked(), fleet);
        let a = record_of(&plan, "a");
        assert_eq!((a.phase, &*a.attempt.retry), (Phase::PreAction, ""));
        assert!(a.stage(Stage::PreAction).is_some());
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert_eq!(writes(&plan), NOTHING);
    }
    refused(Kind::LeftOut, 10, asked(), again(), |plan| {
        plan.clusters[0].record = Arc::new(skipped().into());
    });
    let aborted = begun(out(Phase::Aborted, Reason::Aborted)).aborted("wrong site");
    let plan = planned(10, asked(), aborted);
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::Aborting));
    assert_eq!(writes(&plan), NOTHING, "its row comes first");
    let told = begun(skipped().stage(Stage::PreAction, 0)).skipped("no power");
    assert_eq!(stand(&planned(10, asked(), told), "a"), SKIPPED, "it had failed");
}

/// Whoever leads next would find it under way.
#[test]
fn a_pre_action_that_began_after_the_row_said_skipped_keeps_its_slot_until_its_row_is_written() {
    let asked = || policy().pre_action().max_concurrency(1);
    let row = || record(Phase::Skipped).reason(Reason::Skipped);
    let a = |work: WorkBuilder| {
        let a = fleet().cluster("a").work(Step::PreAction, work).record(row());
        a.skipped("no power")
    };
    let ended = || {
        let ended = a(work(0).succeeded()).draft(row().succeeded(Stage::PreAction, 0));
        ended.cluster("b")
    };
    let edited = || asked().edited("r2", &[Step::PreAction]);
    for (asked, fleet) in [(asked(), ended()), (edited(), a(work(0).running()).cluster("b"))] {
        let plan = planned(10, asked.clone(), fleet.clone());
        assert_eq!(stand(&plan, "a"), SKIPPED);
        assert!(plan.clusters[0].urgent);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        refused(Kind::TooManySlots, 10, asked, fleet, |plan| {
            plan.operations.push(create("b", Step::PreAction, 10));
            plan.clusters[1].starting = true;
        });
    }
}

/// A post-action that failed may recover, so its stage stays open. That must not take back that the cluster is skipped.
#[test]
fn a_cluster_whose_post_action_failed_stays_skipped() {
    let a = |record: Record| {
        let a = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
        let a = a.work(Step::PostAction, work(30)).read(Step::PostAction, 100);
        a.record(record).skipped("why")
    };
    let asked = || policy().post_action().timeouts(60, 60);
    let failed = record(Phase::Failed)
        .reason(Reason::PostActionTimeout)
        .succeeded(Stage::Platform, 0)
        .stage(Stage::PostAction, 30);
    let skipped = planned(100, asked(), a(failed.into()));
    assert_eq!(stand(&skipped, "a"), SKIPPED);
    let again = planned(101, asked(), a(record_of(&skipped, "a").clone()));
    assert_eq!(stand(&again, "a"), SKIPPED);
}

#[test]
fn what_an_edit_queues_again_is_skipped_in_the_same_plan() {
    let a = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .skipped("why");
    let plan = planned(10, policy().edited("r2", &[Step::Platform]), a);
    assert_eq!(stand(&plan, "a"), SKIPPED);
}

/// Its update is not requested because its window has closed. The row may also be from before its start.
#[test]
fn a_cluster_whose_window_closes_before_its_update_gives_its_slot_back_and_is_skipped_then() {
    let asked = || policy().pre_action().max_concurrency(1);
    let begun: Record = record(Phase::PreAction).stage(Stage::PreAction, 7000).into();
    let from_before: Record = record(Phase::Skipped).reason(Reason::Skipped).into();
    for row in [begun, from_before] {
        let a = || {
            let a = fleet().cluster("a").calendar(second_hour());
            let a = a.work(Step::PreAction, work(7000).succeeded());
            a.record(row.clone()).skipped("no power")
        };
        let queued = planned(7200, asked(), a().cluster("b"));
        assert_eq!(stand(&queued, "a"), (Phase::Pending, Reason::WaitingForCleanup));
        refused(Kind::LeftOut, 7200, asked(), a(), |plan| {
            let record = Arc::make_mut(&mut plan.clusters[0].record);
            (record.phase, record.reason) = SKIPPED;
        });
        let draft = record_of(&queued, "a").clone();
        let skipped = planned(7201, asked(), a().draft(draft).cluster("b"));
        assert_eq!(stand(&skipped, "a"), SKIPPED);
        assert!(record_of(&skipped, "a").succeeded(Stage::PreAction));
        for plan in [&queued, &skipped] {
            assert!(plan.clusters[0].urgent);
            assert_eq!(stand(plan, "b").1, Reason::WaitingForSlot);
            assert_eq!(writes(plan), NOTHING);
        }
        let told = a().record(record_of(&skipped, "a").clone()).cluster("b");
        assert_eq!(writes(&planned(7202, asked(), told)), ["create b/PreAction"]);
    }
}

/// Somebody has changed its row: it does not tell that the pre-action has begun, so no other attempt begins.
#[test]
fn a_cluster_that_is_skipped_and_not_aborted_any_more_gives_its_slot_back_before_it_is_skipped() {
    let row = record(Phase::PreAction).reason(Reason::Aborting);
    let a = || fleet().cluster("a").record(row.clone()).skipped("no power");
    let queued = planned(10, policy().pre_action(), a());
    assert_eq!(stand(&queued, "a"), (Phase::Pending, Reason::WaitingForCleanup));
    let draft = record_of(&queued, "a").clone();
    let skipped = planned(11, policy().pre_action(), a().draft(draft));
    assert_eq!(stand(&skipped, "a"), SKIPPED);
}

/// It was aborted while it was queued, and an earlier request was being withdrawn. Then it was not aborted any more and has started, and
/// its leader was killed before it could write that.
#[test]
fn a_pre_action_goes_on_although_its_row_says_that_an_earlier_request_is_being_withdrawn() {
    let edited = policy()
        .pre_action()
        .edited("r2", &[Step::PreAction, Step::Platform]);
    let sent = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Sent);
    let a = fleet()
        .cluster("a")
        .work(Step::PreAction, work(10).running().revision("r2"))
        .work(Step::Platform, sent)
        .record(record(Phase::Pending).reason(Reason::Aborting).revision("r2"));
    let plan = planned(20, edited, a);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::Running));
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "");
}
