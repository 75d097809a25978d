//! Clusters that join, leave or go (`docs/design/rules.md#leavers`).

use super::violations::{create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind;
use crate::model::{Busy, Outcome, Phase, Reason, Stage, Step, StepStatus, StepWork};
use crate::testing::{FleetBuilder, PolicyBuilder, RecordBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

fn r2() -> PolicyBuilder {
    policy().edited("r2", &[Step::Platform])
}

fn initialized() -> RecordBuilder {
    record(Phase::Initialized).stage(Stage::Platform, 0)
}

#[test]
fn a_leaver_that_has_not_started_is_dropped_after_the_debounce() {
    let left = || fleet().cluster("a").left(10).record(record(Phase::Pending));
    let plan = planned(14, policy(), left());
    assert_eq!(stand(&plan, "a").1, Reason::LeftSelection);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(plan.wake_at, Some(at(15)));
    let plan = planned(15, policy(), left());
    assert!(plan.clusters.is_empty());
    assert_eq!(plan.dropped, ["a".into()]);
}

#[test]
fn a_leaver_in_its_pre_action_is_dropped_when_its_work_is_on_its_way_out() {
    let left = |fleet: FleetBuilder| {
        fleet
            .left(10)
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0))
    };
    let asked = || policy().pre_action();
    let running = fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
    let plan = planned(12, asked(), left(running.clone()));
    assert_eq!(writes(&plan), NOTHING, "it may come back, and must not continue");
    let plan = planned(15, asked(), left(running));
    assert_eq!(writes(&plan), ["delete a/PreAction LeftSelection"]);
    let going = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded().terminating());
    let plan = planned(16, asked(), left(going));
    assert_eq!(plan.dropped, ["a".into()]);
}

/// If that deletion fails, or its controller ends before it is sent, the pre-action goes on.
#[test]
fn a_pre_action_that_is_being_removed_holds_its_slot_until_the_hub_has_taken_that_whatever_blocks_it() {
    let removed = || {
        fleet()
            .cluster("a")
            .version("4.12.1")
            .work(Step::PreAction, work(0).terminating())
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0))
    };
    let asked = || policy().pre_action().max_concurrency(1);
    let back = removed();
    let left = removed().left(0);
    for (fleet, reason) in [(back, Reason::WaitingForCleanup), (left, Reason::LeftSelection)] {
        let plan = planned(10, asked(), fleet.busy(Busy::Other).cluster("b"));
        assert_eq!(stand(&plan, "a"), (Phase::PreAction, reason));
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
    }
    let plan = planned(11, asked(), removed().cluster("b"));
    assert_eq!(stand(&plan, "a"), (Phase::Blocked, Reason::NewerThanTarget));
}

/// It may come back before its row is removed, after minutes in which no controller ran.
#[test]
fn no_clock_of_a_next_step_begins_while_a_cluster_is_leaving() {
    for now in [12, 15] {
        let left = fleet()
            .cluster("a")
            .left(10)
            .work(Step::PreAction, work(0).succeeded())
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
        let plan = planned(now, policy().pre_action(), left);
        assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::LeftSelection));
        assert!(record_of(&plan, "a").succeeded(Stage::PreAction));
        assert_eq!(record_of(&plan, "a").stage(Stage::Platform), None);
    }
    let back = fleet()
        .cluster("a")
        .record(record(Phase::PreAction).succeeded(Stage::PreAction, 0));
    let plan = planned(200, policy().pre_action(), back);
    assert_eq!(writes(&plan), ["create a/Platform"]);
    let platform = record_of(&plan, "a").stage(Stage::Platform);
    assert_eq!(platform.map(|stage| stage.started), Some(at(200)));
}

#[test]
fn a_leaver_in_flight_goes_on_to_its_end_and_counts() {
    let fleet = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("b")
        .left(0)
        .work(Step::Platform, work(0))
        .record(initialized())
        .cluster("c");
    let plan = planned(100, policy().operators().max_concurrency(2), fleet);
    assert_eq!(writes(&plan), ["create a/Operators"]);
    assert_eq!(stand(&plan, "b").0, Phase::Initialized);
    assert_eq!(stand(&plan, "c").1, Reason::WaitingForSlot);
    assert_eq!(plan.summary.clusters.total, 3);
    assert_eq!(plan.summary.selected, 1);
}

#[test]
fn an_edit_while_a_cluster_is_out_for_a_moment_does_not_repeat_its_pre_action() {
    let fleet = fleet()
        .cluster("a")
        .left(9)
        .work(Step::PreAction, work(0))
        .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    let edited = policy().pre_action().edited("r2", &[Step::Platform]);
    let plan = planned(10, edited, fleet);
    assert_eq!(stand(&plan, "a").0, Phase::PreAction);
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_leaver_is_given_no_new_revision() {
    let fleet = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0))
        .record(initialized())
        .cluster("b")
        .left(0)
        .record(record(Phase::Complete));
    let plan = planned(100, r2(), fleet);
    for name in ["a", "b"] {
        assert_eq!(&*record_of(&plan, name).attempt.revision, "r1");
    }
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_leaver_is_not_given_the_operators_of_a_spec_that_changed_since() {
    let partial = |since| {
        fleet()
            .cluster("a")
            .left(since)
            .work(Step::Platform, work(0).succeeded())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    for policy in [r2, || policy().edited("r2", &[Step::Operators])] {
        let plan = planned(10, policy().operators(), partial(6));
        assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::LeftSelection));
        assert_eq!(plan.wake_at, Some(at(11)), "it may be selected again");
        let plan = planned(11, policy().operators(), partial(6));
        assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(writes(&plan), NOTHING);
    }
}

/// Somebody has deleted the work.
#[test]
fn a_leaver_without_the_work_of_its_operators_is_given_no_new_revision() {
    let operators = |since| {
        fleet()
            .cluster("a")
            .left(since)
            .work(Step::Platform, work(0).succeeded())
            .record(
                record(Phase::Operators)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Operators, 1),
            )
    };
    let plan = planned(10, r2().operators(), operators(6));
    assert_eq!(stand(&plan, "a"), (Phase::Operators, Reason::LeftSelection));
    assert_eq!(plan.wake_at, Some(at(11)), "it may be selected again");
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    let plan = planned(11, r2().operators(), operators(6));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    assert_eq!(writes(&plan), NOTHING);
}

/// Somebody has deleted the work of its update, or has written into its row that it waits.
#[test]
fn a_leaver_whose_update_has_ended_by_its_row_is_given_no_new_revision() {
    let row = |phase| record(phase).succeeded(Stage::Platform, 0);
    let left = || fleet().cluster("a").left(6);
    let partial = || left().record(row(Phase::Partial));
    let plan = planned(10, r2().operators(), partial());
    assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::LeftSelection));
    let plan = planned(11, r2().operators(), partial());
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    for phase in [Phase::Partial, Phase::Pending] {
        let row = row(phase).succeeded(Stage::PostAction, 1);
        let checked = left().work(Step::PostAction, work(1).succeeded());
        let plan = planned(11, r2().post_action(), checked.record(row));
        assert_eq!(stand(&plan, "a"), (Phase::Complete, Reason::None));
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(writes(&plan), NOTHING);
    }
}

#[test]
fn an_end_on_record_of_a_leaver_stays_whatever_its_work_tells_since() {
    let asked = || policy().operators().timeouts(100, 100);
    for status in [StepStatus::OtherVersion, StepStatus::Running, StepStatus::NotYet] {
        let left = fleet()
            .cluster("a")
            .left(6)
            .work(Step::Platform, work(0).status(status))
            .record(record(Phase::Partial).succeeded(Stage::Platform, 0))
            .read(Step::Platform, 200);
        let plan = planned(200, asked().edited("r2", &[Step::Operators]), left);
        assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
        assert!(record_of(&plan, "a").succeeded(Stage::Platform));
    }
}

#[test]
fn a_leaver_does_not_fail_while_a_creation_may_still_begin_its_operators() {
    let in_doubt = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0).succeeded())
        .unsettled(Step::Operators)
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    let plan = planned(11, r2().operators(), in_doubt);
    assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::WriteFailed));
    assert_eq!(writes(&plan), ["read a/Operators"]);
}

#[test]
fn a_leaver_is_not_given_the_post_action_of_a_spec_that_changed_since() {
    let soaking = || {
        let soaked = record(Phase::Soaking)
            .stage(Stage::Platform, 0)
            .stage(Stage::Soak, 1);
        fleet()
            .cluster("a")
            .left(0)
            .work(Step::Platform, work(0).succeeded())
            .record(soaked)
    };
    let plan = planned(100, policy().post_action(), soaking());
    assert_eq!(
        writes(&plan),
        ["create a/PostAction"],
        "a step of the spec under which it was selected"
    );
    let plan = planned(
        100,
        policy().edited("r2", &[Step::PostAction]).post_action(),
        soaking(),
    );
    assert_eq!(stand(&plan, "a"), (Phase::Complete, Reason::None));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_queued_leaver_whose_kept_work_forbids_dropping_it_falls_back_to_where_it_stood() {
    let fleet = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Pending).revision("r2"));
    let plan = planned(100, r2(), fleet);
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_leaver_with_an_obstacle_before_its_next_step_is_neither_revised_nor_dropped() {
    let blocked = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0).succeeded())
        .step_work(Step::Operators, StepWork::Foreign { retry_at: at(120) })
        .record(record(Phase::Blocked).stage(Stage::Platform, 0));
    let plan = planned(100, r2().operators(), blocked);
    assert!(plan.dropped.is_empty());
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    assert_eq!(
        stand(&plan, "a"),
        (Phase::Failed, Reason::LeftSelection),
        "the spec changed after it left"
    );
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_cluster_that_is_gone_is_dropped_in_any_phase_and_frees_its_slot_when_that_is_written() {
    let in_flight = fleet()
        .cluster("a")
        .gone()
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("b");
    let plan = planned(10, policy().max_concurrency(1), in_flight);
    assert_eq!(plan.dropped, ["a".into()]);
    assert_eq!(writes(&plan), NOTHING, "its row still says that it is in flight");
    assert_eq!(plan.summary.clusters.failed, 0);
    let written = || fleet().cluster("b");
    let before = planned(10, policy().max_concurrency(1), written().unreleased(1));
    assert_eq!(writes(&before), NOTHING);
    let after = planned(10, policy().max_concurrency(1), written());
    assert_eq!(writes(&after), ["create b/Platform"]);
}

#[test]
fn a_dropped_cluster_whose_start_is_on_its_way_or_that_is_back_holds_one_slot_until_its_row_is_gone() {
    let starting = fleet().cluster("a").gone().busy(Busy::Starting);
    let upgraded = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
    for of_a in [starting, upgraded] {
        let fleet = || of_a.clone().slot_in_doubt().cluster("b");
        let full = planned(10, policy().max_concurrency(1), fleet());
        assert_eq!(full.summary.in_flight, 1);
        assert_eq!(writes(&full), NOTHING);
        let free = planned(10, policy().max_concurrency(2), fleet());
        assert_eq!(writes(&free), ["create b/Platform"]);
    }
}

#[test]
fn a_leaver_whose_start_is_under_way_is_not_dropped() {
    let fleet = fleet()
        .cluster("a")
        .left(0)
        .busy(Busy::Starting)
        .record(record(Phase::Pending))
        .cluster("b");
    let plan = planned(100, policy().max_concurrency(1), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert!(plan.dropped.is_empty());
}

#[test]
fn a_leaver_is_not_dropped_while_the_deletion_of_its_work_may_still_fail() {
    let fleet = fleet()
        .cluster("a")
        .left(0)
        .busy(Busy::Other)
        .record(record(Phase::Pending));
    let plan = planned(100, policy(), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert!(
        plan.dropped.is_empty(),
        "without its record nobody would try again"
    );
}

#[test]
fn a_cluster_that_joins_takes_back_complete() {
    let fleet = fleet().cluster("a").record(record(Phase::Complete)).cluster("b");
    let plan = planned(10, policy(), fleet);
    assert!(!plan.outlook.complete);
    assert_eq!(writes(&plan), ["create b/Platform"]);
}

#[test]
fn a_step_of_a_new_spec_for_a_cluster_that_had_left() {
    let left = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    let policy = policy().edited("r2", &[Step::Operators]).operators();
    refused(ViolationKind::StartedBarred, 10, policy, left, |plan| {
        plan.operations.push(create("a", Step::Operators, 10));
    });
}

/// Its slot was given away while the cluster was not there.
#[test]
fn a_start_that_is_repeated_waits_while_others_hold_every_slot() {
    let back = || {
        fleet()
            .cluster("dev1")
            .unsettled(Step::Platform)
            .cluster("dev2")
            .unsettled(Step::Platform)
            .cluster("dev3")
            .work(Step::Platform, work(0).running())
            .record(record(Phase::Initialized).stage(Stage::Platform, 0))
    };
    let create = |limit| {
        let plan = planned(20, policy().max_concurrency(limit), back());
        let all = writes(&plan);
        all.into_iter()
            .filter(|write| write.starts_with("create"))
            .collect::<Vec<_>>()
    };
    assert!(create(1).is_empty());
    assert_eq!(create(2), ["create dev1/Platform"]);
    assert_eq!(create(3), ["create dev1/Platform", "create dev2/Platform"]);
}

#[test]
fn a_leaver_whose_row_may_still_hold_a_slot_on_the_hub_holds_it() {
    for (written, seconds) in [(Phase::Pending, 12), (Phase::Pending, 16), (Phase::Blocked, 16)] {
        let fleet = |in_doubt: bool| {
            let left = fleet().cluster("a").left(10).record(record(written));
            let left = if in_doubt { left.slot_in_doubt() } else { left };
            left.cluster("b")
        };
        let one = || policy().max_concurrency(1);
        assert_eq!(writes(&planned(seconds, one(), fleet(true))), NOTHING);
        assert_ne!(writes(&planned(seconds, one(), fleet(false))), NOTHING);
    }
}

#[test]
fn a_cluster_that_is_gone_holds_its_slot_while_its_creation_may_still_be_carried_out_and_its_work_is_read() {
    let fleet = || fleet().cluster("a").gone().unsettled(Step::Platform).cluster("b");
    let plan = planned(10, policy().max_concurrency(1), fleet());
    assert_eq!(writes(&plan), ["read a/Platform"]);
    let plan = planned(10, policy().max_concurrency(2), fleet());
    assert_eq!(writes(&plan), ["read a/Platform", "create b/Platform"]);
}

#[test]
fn a_cluster_that_is_blocked_again_holds_its_slot_until_its_row_tells_of_the_step_between() {
    let blocked = |is_told: bool| {
        let record = record(Phase::Blocked).refused(Step::Operators, "no");
        let record = if is_told {
            record.succeeded(Stage::Platform, 0)
        } else {
            record
        };
        let fleet = fleet()
            .cluster("a")
            .record(record)
            .work(Step::Platform, work(0).succeeded());
        fleet.refused(Step::Operators, 60).cluster("b")
    };
    let policy = || policy().operators().max_concurrency(1);
    assert_eq!(writes(&planned(10, policy(), blocked(false))), NOTHING);
    assert_eq!(
        writes(&planned(10, policy(), blocked(true))),
        ["create b/Platform"]
    );
}

#[test]
fn a_cluster_that_is_registered_anew_begins_after_its_earlier_works_were_read() {
    let fleet = || {
        fleet()
            .cluster("a")
            .step_work(Step::PreAction, StepWork::Unconfirmed)
    };
    let plan = planned(10, policy().pre_action(), fleet());
    assert_eq!(writes(&plan), ["read a/PreAction"]);
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForCleanup));
    let deleting = planned(10, policy().pre_action().deleting(), fleet());
    assert_eq!(writes(&deleting), ["delete a/PreAction UpgradeDeleted"]);
    refused(
        ViolationKind::WorkOverwritten,
        10,
        policy().pre_action(),
        fleet(),
        |plan| {
            plan.operations.push(create("a", Step::PreAction, 10));
        },
    );
}

/// The work may be one that this process created for a cluster that had been registered anew before it heard of that. If its
/// term ended before the row was written, only the work tells of the start.
#[test]
fn a_queued_cluster_whose_work_is_to_be_read_holds_a_slot_until_then() {
    let unread = |step: Step, phase: Phase| {
        fleet()
            .cluster("a")
            .step_work(step, StepWork::Unconfirmed)
            .record(record(phase))
            .cluster("b")
    };
    let one = || policy().max_concurrency(1);
    let whole = || one().pre_action().operators();
    for step in [Step::PreAction, Step::Platform, Step::Operators] {
        let plan = planned(10, whole(), unread(step, Phase::Pending));
        assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForCleanup));
        assert_eq!(stand(&plan, "b"), (Phase::Pending, Reason::WaitingForSlot));
    }
    let two = policy().max_concurrency(2);
    let plan = planned(10, two, unread(Step::Platform, Phase::Pending));
    assert_eq!(writes(&plan), ["read a/Platform", "create b/Platform"]);
    // The row tells that the steps which take a slot are over.
    let plan = planned(10, one(), unread(Step::Platform, Phase::Complete));
    assert_eq!(writes(&plan), ["read a/Platform", "create b/Platform"]);
    let queued = unread(Step::Platform, Phase::Pending);
    refused(ViolationKind::TooManySlots, 10, one(), queued, |plan| {
        plan.operations.push(create("b", Step::Platform, 10));
    });
}

#[test]
fn a_work_of_a_step_that_is_over_is_read_before_it_is_cleaned_up() {
    let complete = fleet()
        .cluster("a")
        .record(record(Phase::Complete))
        .step_work(Step::Platform, StepWork::Unconfirmed);
    assert_eq!(writes(&planned(10, policy(), complete)), ["read a/Platform"]);
}

#[test]
fn a_cluster_is_contested_while_a_work_of_somebody_else_is_in_its_way() {
    let is_contested = |work: StepWork| {
        let fleet = fleet().cluster("a").step_work(Step::Platform, work).build();
        fleet.clusters[0].is_contested()
    };
    let retry_at = at(10);
    assert!(is_contested(StepWork::Foreign { retry_at }));
    assert!(is_contested(StepWork::ForeignTerminating { retry_at }));
    assert!(is_contested(StepWork::Rival { terminating: false }));
    assert!(!is_contested(StepWork::Absent));
    assert!(!is_contested(StepWork::Unconfirmed));
}

#[test]
fn a_cluster_that_fails_because_it_left_frees_its_slot_only_when_that_is_written() {
    let left = fleet()
        .cluster("a")
        .left(0)
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("b");
    let asked = policy()
        .edited("r2", &[Step::Operators])
        .operators()
        .max_concurrency(1);
    let plan = planned(11, asked, left);
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
    assert!(plan.clusters[0].urgent);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
}

/// Its row says that it is queued, so another cluster has the slot.
#[test]
fn a_queued_leaver_that_falls_back_takes_no_slot_unless_it_may_have_started_in_the_attempt_of_its_row() {
    let left = || {
        fleet()
            .cluster("a")
            .left(0)
            .work(Step::Platform, work(0).running())
            .record(record(Phase::Pending).revision("r2"))
    };
    let ran = |revision: &str| left().work(Step::PreAction, work(50).revision(revision).succeeded());
    let asked = || r2().pre_action().max_concurrency(1);
    for (fleet, in_flight) in [
        (left(), 0),
        (ran("r1"), 0),
        (ran("r2"), 1),
        (left().slot_in_doubt(), 1),
    ] {
        let plan = planned(100, asked(), fleet.cluster("b"));
        assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert!(plan.clusters[0].urgent);
        let starts = writes(&plan).contains(&"create b/PreAction".to_owned());
        assert_eq!(starts, in_flight == 0);
        assert_eq!(plan.summary.in_flight, in_flight);
    }
}

#[test]
fn a_failure_of_an_earlier_life_frees_no_slot_for_one_that_is_not_written() {
    let failed = |start| {
        record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout).done(
            Stage::Platform,
            start,
            Outcome::Failed,
        )
    };
    let anew = fleet()
        .cluster("dev1")
        .work(Step::Platform, work(50))
        .record(failed(0))
        .draft(failed(50))
        .cluster("dev2");
    let plan = planned(60, policy().max_concurrency(1), anew);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForSlot);
}
