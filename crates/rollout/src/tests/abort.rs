//! Clusters that the spec aborts (`docs/design/rules.md#aborted-clusters`).

use std::sync::Arc;

use super::violations::refused;
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{
    DeleteReason, LeftOut, Operation, Outcome, Phase, Reason, Stage, Step, StepStatus, StepWork, Withdrawal,
};
use crate::testing::{
    FleetBuilder, RecordBuilder, Scenario, Script, WorkBuilder, at, fleet, policy, record, work,
};

const NOTHING: [&str; 0] = [];
const ABORTED: (Phase, Reason) = (Phase::Aborted, Reason::Aborted);
const ABORTING: Reason = Reason::Aborting;

/// How a property leaves a cluster out.
pub(super) fn left_out(aborts: bool) -> LeftOut {
    LeftOut {
        reason: Arc::from("Wrong site"),
        aborts,
    }
}

fn initialized() -> RecordBuilder {
    record(Phase::Initialized).stage(Stage::Platform, 0)
}

fn asked(work: WorkBuilder) -> FleetBuilder {
    fleet()
        .cluster("a")
        .work(Step::Platform, work)
        .record(initialized())
}

#[test]
fn a_cluster_that_has_not_started_does_not_start() {
    let a = || fleet().cluster("a").aborted("wrong site").cluster("b");
    let plan = planned(0, policy(), a());
    assert_eq!(writes(&plan), ["create b/Platform"]);
    assert_eq!(stand(&plan, "a"), ABORTED);
    assert_eq!(&*record_of(&plan, "a").message, "wrong site");
    assert_eq!((plan.summary.aborted, plan.summary.clusters.pending), (1, 2));
    refused(Kind::LeftOut, 0, policy(), a(), |plan| {
        plan.clusters[0].record = Arc::new(record(Phase::Skipped).reason(Reason::Skipped).into());
    });
}

#[test]
fn a_request_that_is_not_accepted_is_withdrawn_and_the_slot_is_free_once_the_cluster_confirms_that() {
    let plan_of = |work: WorkBuilder| {
        let fleet = asked(work).aborted("wrong site").cluster("b");
        planned(10, policy().max_concurrency(1), fleet)
    };
    for open in [work(0), work(0).status(StepStatus::OtherVersion)] {
        let plan = plan_of(open);
        assert_eq!(writes(&plan), ["withdraw a/Platform"]);
        assert_eq!(stand(&plan, "a"), (Phase::Initialized, ABORTING));
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
    }
    let sent = || {
        work(0)
            .status(StepStatus::OtherVersion)
            .withdrawn(Withdrawal::Sent)
    };
    let plan = plan_of(sent());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a"), (Phase::Initialized, ABORTING));
    let confirmed = || sent().withdrawn(Withdrawal::Confirmed);
    let plan = plan_of(confirmed());
    assert_eq!(stand(&plan, "a"), ABORTED);
    assert!(plan.clusters[0].urgent);
    assert_eq!(writes(&plan), NOTHING, "the row comes first");
    let doubtful = asked(confirmed()).late(Step::Platform).aborted("wrong site");
    let doubtful = planned(10, policy(), doubtful);
    assert_eq!(
        stand(&doubtful, "a").0,
        Phase::Initialized,
        "a creation may come late"
    );
    let told = asked(confirmed())
        .record(record_of(&plan, "a").clone())
        .aborted("wrong site");
    let plan = planned(11, policy().max_concurrency(1), told.clone().cluster("b"));
    assert_eq!(writes(&plan), ["delete a/Platform Aborted", "create b/Platform"]);
    assert_eq!(stand(&plan, "a"), ABORTED);
    refused(Kind::PlatformDeleted, 10, policy(), asked(confirmed()), |plan| {
        plan.operations.push(Operation::Delete {
            cluster: "a".into(),
            step: Step::Platform,
            why: DeleteReason::Aborted,
        });
    });
}

#[test]
fn an_update_that_the_cluster_has_accepted_goes_on() {
    for work in [
        work(0).running(),
        work(0).running().withdrawn(Withdrawal::Sent),
        work(0).succeeded().withdrawn(Withdrawal::Sent),
    ] {
        let plan = planned(10, policy().operators(), asked(work).aborted("wrong site"));
        assert!(matches!(stand(&plan, "a").0, Phase::Partial | Phase::Operators));
        assert!(!writes(&plan).iter().any(|write| write.contains("withdraw")));
    }
    let withdraw = |plan: &mut crate::Plan| {
        plan.operations.push(Operation::Withdraw { cluster: "a".into() });
    };
    let running = || asked(work(0).running());
    refused(
        Kind::UpdateUnfounded,
        10,
        policy(),
        running().aborted("x"),
        withdraw,
    );
    refused(Kind::UpdateUnfounded, 10, policy(), asked(work(0)), withdraw);
}

#[test]
fn a_pre_action_ends_and_the_update_is_never_requested() {
    let asked = || policy().pre_action().max_concurrency(1);
    let acting = |work: WorkBuilder| {
        let acting = record(Phase::PreAction).stage(Stage::PreAction, 0);
        let a = fleet().cluster("a").work(Step::PreAction, work).record(acting);
        a.aborted("wrong site")
    };
    for open in [work(0).running(), work(0).succeeded()] {
        let before = acting(open);
        let plan = planned(10, asked(), before.clone().cluster("b"));
        assert_eq!(writes(&plan), NOTHING, "the row comes first");
        assert!(plan.clusters[0].urgent);
        assert_eq!(stand(&plan, "a"), (Phase::PreAction, ABORTING));
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        refused(Kind::DeletedUnfinished, 10, asked(), before.clone(), |plan| {
            plan.operations.push(Operation::Delete {
                cluster: "a".into(),
                step: Step::PreAction,
                why: DeleteReason::Aborted,
            });
        });
        let told = before.record(record_of(&plan, "a").clone());
        let plan = planned(10, asked(), told.cluster("b"));
        assert_eq!(writes(&plan), ["delete a/PreAction Aborted"]);
        assert!(!plan.clusters[0].urgent);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
    }
    let ending = || acting(work(0).running().terminating());
    let plan = planned(10, asked(), ending().cluster("b"));
    assert_eq!(
        stand(&plan, "a"),
        (Phase::PreAction, ABORTING),
        "it may still run"
    );
    let late = ending().read(Step::PreAction, 10_801).cluster("b");
    let plan = planned(10_801, asked(), late);
    assert_eq!(stand(&plan, "a").0, Phase::PreActionDegraded);
    let acting_record = || {
        record(Phase::PreAction)
            .reason(ABORTING)
            .stage(Stage::PreAction, 0)
    };
    let gone = fleet().cluster("a").record(acting_record());
    let plan = planned(10, asked(), gone.clone().aborted("wrong site"));
    assert_eq!(stand(&plan, "a"), ABORTED);
    let untold = fleet().cluster("a").draft(acting_record());
    for gone in [gone, untold] {
        let plan = planned(10, asked(), gone);
        assert_eq!(&*record_of(&plan, "a").attempt.retry, "~", "it is taken up again");
    }
    let doubtful = acting(work(0).succeeded()).unsettled(Step::Platform);
    let plan = planned(10, asked(), doubtful);
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::WriteFailed));
    assert_eq!(writes(&plan), ["read a/Platform"]);
}

#[test]
fn an_aborted_cluster_whose_pre_action_is_not_removed_in_time_gives_its_slot_back() {
    let asked = || policy().pre_action().timeouts(60, 60);
    let a = || {
        let acting = record(Phase::PreAction).stage(Stage::PreAction, 0);
        let read = fleet().cluster("a").read(Step::PreAction, 60);
        read.record(acting).aborted("wrong site")
    };
    let found = || a().work(Step::PreAction, work(0).running()).late(Step::PreAction);
    let untold = found().record(record(Phase::Pending));
    for doubtful in [found(), untold, a().late(Step::PreAction)] {
        let plan = planned(59, asked(), doubtful.clone());
        assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::WriteFailed));
        let plan = planned(60, asked(), doubtful.clone());
        let overdue = (Phase::PreActionDegraded, Reason::PreActionTimeout);
        assert_eq!(stand(&plan, "a"), overdue);
        let next = planned(60, asked(), doubtful.draft(record_of(&plan, "a").clone()));
        assert_eq!(record_of(&next, "a"), record_of(&plan, "a"));
    }
    let is_over = |plan: &crate::Plan| record_of(plan, "a").succeeded(Stage::PreAction);
    let doubtful = a()
        .work(Step::PreAction, work(0).succeeded())
        .late(Step::PreAction);
    let plan = planned(60, asked(), doubtful);
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::WriteFailed));
    assert!(is_over(&plan), "it has no time limit any more");
    let stays = a().work(Step::PreAction, work(0).succeeded().terminating());
    let plan = planned(59, asked(), stays.clone());
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, ABORTING));
    let plan = planned(60, asked(), stays.clone());
    assert_eq!(stand(&plan, "a"), ABORTED);
    assert!(plan.clusters[0].urgent && is_over(&plan));
    let next = planned(60, asked(), stays.draft(record_of(&plan, "a").clone()));
    assert_eq!(record_of(&next, "a"), record_of(&plan, "a"));
    // An edit that waited for that queues it, as any cluster whose pre-action is degraded.
    let edited = asked().edited("r2", &[Step::Platform]);
    let late = a().work(Step::PreAction, work(0).running().terminating());
    let plan = planned(60, edited.clone(), late.clone());
    assert_eq!((stand(&plan, "a"), plan.clusters[0].urgent), (ABORTED, true));
    let next = planned(60, edited, late.draft(record_of(&plan, "a").clone()));
    assert_eq!(record_of(&next, "a"), record_of(&plan, "a"));
}

#[test]
fn a_cluster_whose_withdrawal_is_confirmed_fails_by_time_while_an_earlier_creation_may_come_late() {
    let confirmed = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let doubtful = asked(confirmed).late(Step::Platform).aborted("wrong site");
    let read = doubtful.read(Step::Platform, 60);
    let plan = planned(60, policy().timeouts(60, 60), read);
    assert_eq!(stand(&plan, "a").0, Phase::Failed);
}

/// As for a creation that was carried out late: nothing of it was known before.
#[test]
fn a_request_that_is_found_in_the_plan_that_fails_its_cluster_by_time_is_withdrawn_in_that_plan() {
    let found = asked(work(0)).read(Step::Platform, 60).aborted("wrong site");
    let plan = planned(60, policy().timeouts(60, 60), found);
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
    assert_eq!(writes(&plan), ["withdraw a/Platform"]);
}

#[test]
fn the_request_that_a_failed_cluster_may_still_accept_is_withdrawn() {
    let failed = || {
        record(Phase::Failed)
            .reason(Reason::ClusterUpgradeTimeout)
            .done(Stage::Platform, 0, Outcome::Failed)
    };
    let a = |work: WorkBuilder| {
        let a = fleet().cluster("a").work(Step::Platform, work).record(failed());
        a.aborted("wrong site")
    };
    let plan = planned(10, policy(), a(work(0)));
    assert_eq!(writes(&plan), ["withdraw a/Platform"]);
    assert_eq!(stand(&plan, "a").0, Phase::Failed);
    let confirmed = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let plan = planned(10, policy(), a(confirmed));
    assert_eq!(stand(&plan, "a"), ABORTED);
    assert!(record_of(&plan, "a").message.contains("it had failed"));
    let plan = planned(10, policy(), a(work(0).running()));
    assert_eq!(stand(&plan, "a").0, Phase::Failed, "it goes on");
}

#[test]
fn a_cluster_that_has_left_and_is_not_aborted_any_more_is_queued_before_it_is_dropped() {
    let confirmed = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let before = asked(confirmed);
    let plan = planned(10, policy(), before.clone().left(0));
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::LeftSelection));
    assert!(plan.dropped.is_empty() && plan.wake_at.is_some());
    let queued = before.draft(record_of(&plan, "a").clone()).left(0);
    let plan = planned(11, policy(), queued);
    assert_eq!(plan.dropped, [Arc::from("a")]);
}

/// What stands in the way of a start holds for it as well, such as a newer version that it runs meanwhile, or a window.
#[test]
fn a_cluster_that_is_not_aborted_any_more_is_queued_once_nothing_is_asked_of_it() {
    let withdrawn = |withdrawal| work(0).status(StepStatus::OtherVersion).withdrawn(withdrawal);
    let sent = planned(10, policy(), asked(withdrawn(Withdrawal::Sent)));
    assert_eq!(writes(&sent), NOTHING);
    assert_eq!(stand(&sent, "a"), (Phase::Initialized, ABORTING));
    for policy in [policy(), policy().edited("r2", &[Step::Platform])] {
        let plan = planned(10, policy.clone(), asked(withdrawn(Withdrawal::Confirmed)));
        assert_eq!(writes(&plan), NOTHING, "its new attempt is announced first");
        assert_eq!(stand(&plan, "a").0, Phase::Pending);
        let unconfirmed = asked(withdrawn(Withdrawal::Sent));
        let plan = planned(10, policy, unconfirmed);
        assert_eq!(stand(&plan, "a"), (Phase::Initialized, ABORTING));
    }
    let newer = asked(withdrawn(Withdrawal::Confirmed)).newest_version("4.99.0");
    let plan = planned(10, policy(), newer);
    assert_eq!(stand(&plan, "a"), (Phase::Blocked, Reason::NewerThanTarget));
    let running = withdrawn(Withdrawal::Sent).running();
    let plan = planned(10, policy(), asked(running));
    assert_eq!(stand(&plan, "a").0, Phase::Partial, "it has accepted the update");
}

#[test]
fn an_aborted_cluster_that_is_taken_up_again_is_queued_in_another_attempt() {
    let aborted = record(Phase::Aborted)
        .reason(Reason::Aborted)
        .stage(Stage::Platform, 0);
    let queued = planned(10, policy(), fleet().cluster("a").record(aborted.clone()));
    assert_eq!(stand(&queued, "a").0, Phase::Pending);
    assert_eq!(
        &*record_of(&queued, "a").attempt.retry,
        "~",
        "nothing is done twice in one attempt"
    );
    let left = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let left = fleet().cluster("a").work(Step::Platform, left).record(aborted);
    let plan = planned(10, policy(), left);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "~", "a work is left of it");
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
}

/// It may be back before it is dropped, and may not be aborted any more by then. Its pre-action would run twice in one attempt.
#[test]
fn the_row_of_an_aborted_cluster_that_leaves_tells_what_it_had_begun_until_it_is_dropped() {
    let asked = || policy().pre_action();
    let aborted = || {
        let row = record(Phase::Aborted)
            .reason(Reason::Aborted)
            .message("wrong site");
        fleet().cluster("a").record(row.stage(Stage::PreAction, 0))
    };
    let left = aborted().aborted("wrong site").left(10);
    let plan = planned(12, asked(), left.clone());
    assert_eq!(stand(&plan, "a"), ABORTED);
    assert!(record_of(&plan, "a").stage(Stage::PreAction).is_some());
    assert_eq!((writes(&plan), plan.wake_at), (Vec::new(), Some(at(15))));
    let queued_again = planned(12, asked(), aborted().left(10));
    assert_eq!(stand(&queued_again, "a"), (Phase::Pending, Reason::LeftSelection));
    let back = planned(12, asked(), aborted());
    for plan in [queued_again, back] {
        assert_eq!(&*record_of(&plan, "a").attempt.retry, "~");
    }
    for left in [left, aborted().left(10)] {
        refused(Kind::ClockReset, 12, asked(), left.clone(), |plan| {
            let queued = record(Phase::Pending).reason(Reason::LeftSelection);
            plan.clusters[0].record = Arc::new(queued.into());
        });
        assert_eq!(planned(15, asked(), left).dropped, [Arc::from("a")]);
    }
}

/// Nobody would delete it later.
#[test]
fn an_aborted_cluster_that_leaves_is_dropped_when_its_withdrawn_work_is_on_its_way_out() {
    let confirmed = || {
        work(0)
            .status(StepStatus::OtherVersion)
            .withdrawn(Withdrawal::Confirmed)
    };
    let of = |work: WorkBuilder| fleet().cluster("a").work(Step::Platform, work);
    let row = || {
        record(Phase::Aborted)
            .reason(Reason::Aborted)
            .message("wrong site")
    };
    let left = |fleet: FleetBuilder| fleet.left(0).aborted("wrong site");
    let untold = planned(10, policy(), left(of(confirmed()).draft(row())));
    assert_eq!(
        (writes(&untold), untold.dropped.len()),
        (Vec::new(), 0),
        "the row comes first"
    );
    let plan = planned(10, policy(), left(of(confirmed()).record(row())));
    assert_eq!(writes(&plan), ["delete a/Platform Aborted"]);
    assert_eq!(stand(&plan, "a"), ABORTED);
    let plan = planned(11, policy(), left(of(confirmed().terminating()).record(row())));
    assert_eq!(plan.dropped, [Arc::from("a")]);
}

/// A creation that is carried out after all is of the attempt that the row tells of. Until that is known, nothing is queued.
#[test]
fn the_row_of_a_cluster_that_is_not_aborted_any_more_stays_while_a_creation_is_in_doubt() {
    let asked = || policy().pre_action();
    let aborted = || {
        let row = record(Phase::Aborted).reason(Reason::Aborted);
        fleet().cluster("a").record(row.stage(Stage::PreAction, 0))
    };
    let read = "read a/PreAction".to_owned();
    for (doubtful, expected) in [
        (aborted().unsettled(Step::PreAction), vec![read]),
        (aborted().late(Step::PreAction), Vec::new()),
    ] {
        let plan = planned(10, asked(), doubtful.clone());
        assert_eq!(stand(&plan, "a"), (Phase::Aborted, Reason::WriteFailed));
        assert!(record_of(&plan, "a").stage(Stage::PreAction).is_some());
        assert_eq!(writes(&plan), expected);
        assert!(!plan.outlook.complete && plan.outlook.moving);
        refused(Kind::ClockReset, 10, asked(), doubtful, |plan| {
            let queued = record(Phase::Pending).reason(Reason::WriteFailed);
            plan.clusters[0].record = Arc::new(queued.into());
        });
        let told = record_of(&plan, "a").clone();
        let came = fleet().cluster("a").work(Step::PreAction, work(0).running());
        for settled in [fleet().cluster("a"), came] {
            let plan = planned(11, asked(), settled.record(told.clone()));
            assert_eq!(stand(&plan, "a").0, Phase::Pending);
            assert_eq!(&*record_of(&plan, "a").attempt.retry, "~");
            assert_eq!(writes(&plan), NOTHING, "its row comes first");
        }
    }
}

/// Also where the edit that aborts it changes the target: it must not be asked for another version first.
#[test]
fn an_edit_reaches_an_aborted_cluster_only_when_its_request_is_withdrawn() {
    let edited = || policy().edited("r2", &[Step::Platform]);
    let plan = planned(10, edited(), asked(work(0)).aborted("why"));
    assert_eq!(writes(&plan), ["withdraw a/Platform"]);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    let confirmed = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let confirmed = asked(confirmed).aborted("why");
    let plan = planned(10, edited(), confirmed.clone());
    assert_eq!(stand(&plan, "a"), ABORTED);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2");
    assert!(plan.clusters[0].urgent);
    let next = planned(10, edited(), confirmed.draft(record_of(&plan, "a").clone()));
    assert_eq!(record_of(&next, "a"), record_of(&plan, "a"));
}

#[test]
fn whoever_leads_next_finds_an_aborted_cluster_aborted() {
    let confirmed = || {
        work(0)
            .status(StepStatus::OtherVersion)
            .withdrawn(Withdrawal::Confirmed)
    };
    let aborted = record(Phase::Aborted)
        .reason(Reason::Aborted)
        .stage(Stage::Platform, 0);
    for left in [confirmed(), confirmed().withdrawn(Withdrawal::Sent)] {
        let a = fleet().cluster("a").work(Step::Platform, left);
        let a = a.record(aborted.clone()).aborted("why").cluster("b");
        let plan = planned(10, policy().max_concurrency(1), a);
        assert_eq!(stand(&plan, "a").0, Phase::Aborted);
        assert!(writes(&plan).contains(&"create b/Platform".to_owned()));
    }
    // Before its row was written, only the work tells of it.
    let a = fleet()
        .cluster("a")
        .work(Step::Platform, confirmed())
        .aborted("why");
    assert_eq!(stand(&planned(10, policy(), a), "a").0, Phase::Aborted);
}

/// The row is from before the update was requested, and only the work tells that this was withdrawn.
#[test]
fn whoever_leads_next_takes_up_a_cluster_whose_request_was_withdrawn_before_its_row_told_of_it() {
    let asked = || policy().pre_action().max_concurrency(1);
    let a = |row: RecordBuilder, withdrawal| {
        let withdrawn = work(5).status(StepStatus::OtherVersion).withdrawn(withdrawal);
        let acted = fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
        acted.work(Step::Platform, withdrawn).record(row)
    };
    for row in [
        record(Phase::Pending),
        record(Phase::Blocked).reason(Reason::NewerThanTarget),
        record(Phase::PreAction).stage(Stage::PreAction, 0),
        record(Phase::Partial).stage(Stage::Platform, 5),
    ] {
        let confirmed = a(row, Withdrawal::Confirmed);
        let plan = planned(10, asked(), confirmed.clone().cluster("b"));
        let queued = record_of(&plan, "a");
        assert_eq!((queued.phase, &*queued.attempt.retry), (Phase::Pending, "~"));
        assert_eq!(writes(&plan), NOTHING, "its slot is free once its row says so");
        assert!(plan.clusters[0].urgent);
        let plan = planned(10, asked(), confirmed.aborted("wrong site"));
        assert_eq!(stand(&plan, "a"), ABORTED);
    }
    let queue = |retry: &'static str| {
        move |plan: &mut crate::Plan| {
            let queued = record(Phase::Pending).reason(Reason::WaitingForSlot);
            plan.clusters[0].record = Arc::new(queued.retry(retry).into());
        }
    };
    let unconfirmed = a(record(Phase::Pending), Withdrawal::Sent);
    refused(Kind::AttemptUnfounded, 10, asked(), unconfirmed, queue("~"));
    let left = a(record(Phase::Pending).retry("~"), Withdrawal::Confirmed);
    refused(Kind::AttemptUnfounded, 10, asked(), left, queue("~~"));
}

/// The work that is left of it was withdrawn, and tells of no start.
#[test]
fn an_edit_queues_an_aborted_cluster_without_a_slot() {
    let withdrawn = work(0)
        .status(StepStatus::OtherVersion)
        .withdrawn(Withdrawal::Confirmed);
    let aborted = record(Phase::Aborted)
        .reason(Reason::Aborted)
        .stage(Stage::Platform, 0);
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, withdrawn)
        .record(aborted)
        .cluster("b");
    let edited = policy().edited("r2", &[Step::Platform]).max_concurrency(1);
    let plan = planned(10, edited, fleet);
    assert_eq!(writes(&plan), ["create b/Platform"]);
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
}

#[test]
fn an_aborted_cluster_gives_its_slot_to_the_next_one() {
    let mut world = Scenario::new(policy().pre_action().max_concurrency(1).build(), 1);
    world.add_cluster("a");
    world.add_cluster("b");
    world.script("a", Step::Platform, Script::silent().other_version(1));
    world.run_until(20);
    assert_eq!(world.phase(0, "a"), Some(Phase::Initialized));
    world.leave_out(0, "a", Some(left_out(true)));
    let until = world.seconds() + 120;
    assert!(world.settle(until), "{}", world.log());
    assert_eq!(world.phase(0, "a"), Some(Phase::Aborted), "{}", world.log());
    assert_eq!(world.phase(0, "b"), Some(Phase::Complete));
    assert_eq!(world.faults(), Vec::<String>::new());
    world.script("a", Step::Platform, Script::succeeds(2, 5));
    world.leave_out(0, "a", None);
    let until = world.seconds() + 120;
    assert!(world.settle(until), "{}", world.log());
    assert_eq!(world.phase(0, "a"), Some(Phase::Complete), "{}", world.log());
    assert_eq!(world.faults(), Vec::<String>::new());
}

/// It may be accepted before it is known that the work is withdrawn.
#[test]
fn nothing_is_withdrawn_from_works_of_others() {
    let foreign = StepWork::Rival { terminating: false };
    let a = fleet()
        .cluster("a")
        .step_work(Step::Platform, foreign)
        .aborted("why");
    let plan = planned(10, policy(), a);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a"), ABORTED);
}

/// A creation of an earlier attempt may still be carried out. Until that is over it is not left out, and does not start either.
#[test]
fn a_cluster_that_is_left_out_does_not_start_while_something_of_it_may_come_late() {
    let asked = || policy().pre_action().operators();
    let late = || {
        fleet()
            .cluster("a")
            .record(record(Phase::Pending))
            .late(Step::Operators)
    };
    let tried = || {
        fleet()
            .cluster("a")
            .record(record(Phase::Pending))
            .unsettled(Step::PreAction)
    };
    for left_out in [
        late().aborted("why"),
        late().skipped("why"),
        tried().aborted("why"),
        tried().skipped("why"),
    ] {
        let plan = planned(10, asked(), left_out);
        assert!(
            !writes(&plan).iter().any(|write| write.starts_with("create")),
            "{plan:?}"
        );
        assert_eq!(stand(&plan, "a").0, Phase::Pending);
    }
}
