//! Works that were seen before their cluster was registered anew. They must be read before they count, and may be running
//! (`docs/design/rules.md#slots`). Those that were created before that are leftovers (`docs/design/rules.md#leavers`).

use std::sync::Arc;

use super::violations::{create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind;
use crate::model::{Outcome, Phase, Reason, Stage, Step, StepWork, Work};
use crate::testing::{FleetBuilder, PolicyBuilder, RecordBuilder, at, fleet, policy, record, work};

fn whole() -> PolicyBuilder {
    policy().pre_action().operators().post_action()
}

fn unread(step: Step, record: RecordBuilder) -> FleetBuilder {
    fleet()
        .cluster("a")
        .step_work(step, StepWork::Unconfirmed)
        .record(record)
}

fn partial() -> RecordBuilder {
    record(Phase::Partial).stage(Stage::Platform, 0)
}

#[test]
fn a_leaver_is_not_dropped_before_its_work_was_read() {
    let left = |step| unread(step, record(Phase::Pending)).left(0);
    for step in Step::ALL {
        let plan = planned(100, whole(), left(step));
        assert!(plan.dropped.is_empty(), "{step:?}");
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::LeftSelection));
        assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
    }
    refused(
        ViolationKind::LostCluster,
        100,
        whole(),
        left(Step::Platform),
        |plan| {
            plan.dropped = vec![plan.clusters.remove(0).name];
        },
    );
}

#[test]
fn an_edit_reaches_a_queued_cluster_only_after_its_work_was_read() {
    for phase in [Phase::Pending, Phase::Blocked] {
        for step in Step::ALL {
            let edited = whole().edited("r2", &Step::ALL);
            let plan = planned(10, edited, unread(step, record(phase)));
            assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
            assert_eq!(stand(&plan, "a"), (phase, Reason::WaitingForCleanup));
            assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
        }
    }
    let runs = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Pending))
        .cluster("b");
    let one = || policy().edited("r2", &[Step::Platform]).max_concurrency(1);
    let after = planned(10, one(), runs);
    assert_eq!(stand(&after, "a").0, Phase::Partial, "the work was read");
    assert_eq!(stand(&after, "b").1, Reason::WaitingForSlot);
    let queued = unread(Step::Platform, record(Phase::Pending));
    refused(ViolationKind::UnsettledPassed, 10, one(), queued, |plan| {
        let next = record(Phase::Pending)
            .revision("r2")
            .reason(Reason::WaitingForSlot);
        plan.clusters[0].record = Arc::new(next.into());
    });
}

/// Also a cluster in flight would otherwise be queued for the next attempt.
#[test]
fn an_edit_takes_no_cluster_out_of_flight_before_its_work_was_read() {
    let edited = || policy().edited("r2", &[Step::Platform]);
    let plan = planned(10, edited(), unread(Step::Platform, partial()));
    assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::WaitingForCleanup));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    assert_eq!(writes(&plan), ["read a/Platform"]);
    let gone = planned(10, edited(), fleet().cluster("a").record(partial()));
    assert_eq!(stand(&gone, "a").0, Phase::Pending);
    let pre_action = || record(Phase::PreAction).stage(Stage::PreAction, 0);
    let asked = || whole().edited("r2", &[Step::Platform]).timeouts(60, 60);
    let plan = planned(10, asked(), unread(Step::PreAction, pre_action()));
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::WaitingForCleanup));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    assert_eq!(writes(&plan), ["read a/PreAction"]);
    assert_eq!(plan.wake_at, Some(at(60)), "it is bounded by its time");
    let gone = planned(10, asked(), fleet().cluster("a").record(pre_action()));
    assert_eq!(stand(&gone, "a").0, Phase::Pending);
    let operators = record(Phase::Operators)
        .succeeded(Stage::Platform, 0)
        .stage(Stage::Operators, 1);
    let left = unread(Step::Operators, operators).left(0);
    let plan = planned(10, edited().operators(), left);
    assert_eq!(stand(&plan, "a"), (Phase::Operators, Reason::WaitingForCleanup));
    assert_eq!(writes(&plan), ["read a/Operators"]);
}

/// Its row may be behind. In another attempt a step that has begun would count as a leftover, which holds no slot.
#[test]
fn an_edit_takes_no_cluster_out_of_its_pre_action_before_the_work_of_the_next_step_was_read() {
    let edited = || {
        whole()
            .edited("r2", &Step::ALL)
            .timeouts(60, 60)
            .max_concurrency(1)
    };
    let open = || record(Phase::PreAction).stage(Stage::PreAction, 0);
    let told = || record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    let over = || work(0).succeeded();
    for step in [Step::Platform, Step::Operators] {
        for (fleet, until) in [
            (unread(step, open()).work(Step::PreAction, over()), None),
            (unread(step, told()).work(Step::PreAction, over()), None),
            (unread(step, told()), None),
            (unread(step, open()), Some(at(60))),
        ] {
            let plan = planned(10, edited(), fleet.cluster("b"));
            assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::WaitingForCleanup));
            assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
            assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
            assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
            assert_eq!(plan.wake_at, until);
        }
        let late = planned(60, edited(), unread(step, open()));
        assert_eq!(writes(&late), ["read a/PreAction"], "it is bounded by its time");
        let over = unread(step, open()).read(Step::PreAction, 60);
        let plan = planned(60, edited(), over.clone());
        let told = record_of(&plan, "a").clone();
        assert_eq!(
            (told.phase, told.reason),
            (Phase::Pending, Reason::WaitingForCleanup)
        );
        assert_eq!(&*told.attempt.revision, "r2", "the edit waits no longer");
        assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
        let next = planned(60, edited(), over.draft(told.clone()));
        assert_eq!(*record_of(&next, "a"), told);
        let goes_on = unread(step, open()).work(Step::PreAction, work(0));
        let plan = planned(10, edited(), goes_on);
        assert_eq!(
            &*record_of(&plan, "a").attempt.revision,
            "r2",
            "nothing follows yet"
        );
    }
    let begun = fleet()
        .cluster("a")
        .work(Step::PreAction, over())
        .work(Step::Platform, work(5).running())
        .record(open())
        .cluster("b");
    let read = planned(10, edited(), begun);
    assert_eq!(stand(&read, "a").0, Phase::Partial);
    assert_eq!(&*record_of(&read, "a").attempt.revision, "r1");
    assert_eq!(stand(&read, "b").1, Reason::WaitingForSlot);
}

/// Otherwise it would hold its slot until somebody corrects the row.
#[test]
fn a_work_by_which_a_cluster_holds_a_slot_is_read_also_where_the_record_cannot_be_read() {
    let one = || whole().max_concurrency(1);
    let spoiled = || {
        record(Phase::Blocked)
            .unreadable()
            .message("phase: unknown variant")
    };
    for step in [Step::PreAction, Step::Platform, Step::Operators] {
        let plan = planned(10, one(), unread(step, spoiled()).cluster("b"));
        assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
        assert_eq!(plan.summary.in_flight, 1);
    }
    let read = fleet().cluster("a").record(spoiled()).cluster("b");
    assert_eq!(writes(&planned(10, one(), read)), ["create b/PreAction"]);
}

/// Its ManagedCluster was gone for a while, and its namespace stayed.
fn back(step: Step, work: impl Into<Work>) -> FleetBuilder {
    let former = StepWork::Former(Arc::new(work.into()));
    fleet().cluster("a").step_work(step, former).cluster("b")
}

#[test]
fn a_cluster_that_is_back_with_works_of_its_earlier_life_begins_another_attempt_and_holds_no_slot() {
    for step in Step::ALL {
        for work in [work(0), work(0).running(), work(0).succeeded()] {
            let one = || whole().max_concurrency(1);
            let plan = planned(10, one(), back(step, work.clone()));
            assert_eq!(writes(&plan), ["create b/PreAction"], "{step:?}");
            assert_eq!(stand(&plan, "a").0, Phase::Pending);
            assert_eq!(&*record_of(&plan, "a").attempt.retry, "~");
            assert!(plan.clusters[0].urgent, "the row comes first");
            let plan = planned(10, one().paused(), back(step, work.clone()));
            assert_eq!(writes(&plan), [""; 0]);
            assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::Paused));
            let plan = planned(10, one().deleting(), back(step, work));
            assert_eq!(writes(&plan), [format!("delete a/{step:?} UpgradeDeleted")]);
        }
    }
    let former = || back(Step::PreAction, work(0));
    refused(ViolationKind::WorkOverwritten, 10, whole(), former(), |plan| {
        plan.operations.push(create("a", Step::PreAction, 10));
    });
    refused(ViolationKind::Unannounced, 10, policy(), former(), |plan| {
        plan.operations.push(create("a", Step::Platform, 10));
    });
}

#[test]
fn works_of_an_earlier_life_are_replaced_once_the_row_of_the_new_attempt_is_written() {
    let announced = |asked: PolicyBuilder, step: Step| {
        let plan = planned(10, asked.clone(), back(step, work(0).succeeded()));
        let told = record_of(&plan, "a").clone();
        let fleet = fleet().cluster("a").work(step, work(0).succeeded()).record(told);
        writes(&planned(11, asked, fleet))
    };
    assert_eq!(
        announced(whole(), Step::PreAction),
        ["delete a/PreAction Leftover"]
    );
    assert_eq!(announced(whole(), Step::Platform), ["create a/PreAction"]);
    assert_eq!(announced(policy(), Step::Platform), ["update a/Platform Retry"]);
}

/// What they report may be of the cluster as it was. It may also be a newer version than its claim shows.
#[test]
fn works_of_an_earlier_life_are_read_before_the_new_attempt_begins_and_hold_no_slot_meanwhile() {
    for step in Step::ALL {
        let former = StepWork::Former(Arc::new(work(0).into()));
        let queued = fleet()
            .cluster("a")
            .step_work(step, former)
            .record(record(Phase::Pending).retry("~"))
            .cluster("b");
        let plan = planned(10, whole().max_concurrency(1), queued);
        let read = format!("read a/{step:?}");
        assert_eq!(writes(&plan), [&*read, "create b/PreAction"]);
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForCleanup));
    }
}

/// The update may have begun since its row was written. The upgrade would count as complete meanwhile.
#[test]
fn a_cluster_that_had_failed_is_left_out_only_after_its_works_were_read() {
    let degraded = record(Phase::PreActionDegraded)
        .reason(Reason::PreActionFailed)
        .stage(Stage::PreAction, 0);
    let failed = record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout);
    for row in [degraded, failed.done(Stage::Platform, 0, Outcome::Failed)] {
        let a = || {
            let a = fleet().cluster("a").record(row.clone());
            a.step_work(Step::Platform, StepWork::Unconfirmed)
        };
        for a in [a().skipped("no power"), a().aborted("no power")] {
            let plan = planned(10, policy().pre_action(), a.clone());
            assert_eq!(writes(&plan), ["read a/Platform"]);
            assert!(!stand(&plan, "a").0.is_left_out());
            assert!(!plan.outlook.complete);
            let reason = a.clone().build().clusters[0].left_out.clone();
            let aborts = reason.is_some_and(|left_out| left_out.aborts);
            refused(ViolationKind::LeftOut, 10, policy().pre_action(), a, |plan| {
                let record = Arc::make_mut(&mut plan.clusters[0].record);
                record.phase = if aborts { Phase::Aborted } else { Phase::Skipped };
            });
        }
    }
}
