//! Changes while clusters are in flight: spec edits, retries, works deleted by hand, restarts, clean-up.

use std::sync::Arc;

use super::{planned, record_of, stand, writes};
use crate::model::{Operation, Outcome, Phase, Reason, Stage, Step, StepStatus, StepWork};
use crate::testing::{FleetBuilder, PolicyBuilder, RecordBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

fn r2() -> PolicyBuilder {
    policy().edited("r2", &[Step::Platform])
}

fn initialized() -> RecordBuilder {
    record(Phase::Initialized).stage(Stage::Platform, 0)
}

fn started(plan: &crate::Plan) -> Vec<i64> {
    let started = plan.operations.iter().filter_map(|operation| match operation {
        Operation::Create { started, .. } | Operation::Update { started, .. } => Some(*started),
        _ => None,
    });
    started.map(|started| (started - at(0)).num_seconds()).collect()
}

#[test]
fn an_edit_repoints_an_initialized_cluster_with_a_fresh_clock_once_announced() {
    let before = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(initialized());
    let plan = planned(50, r2(), before);
    assert_eq!(writes(&plan), NOTHING, "not announced yet");
    assert!(plan.clusters[0].urgent);
    let announced = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(record_of(&plan, "a").clone());
    let plan = planned(51, r2().timeouts(60, 60), announced.clone());
    assert_eq!(writes(&plan), ["update a/Platform Repoint"]);
    assert_eq!(started(&plan), [51]);
    let plan = planned(109, r2().timeouts(60, 60), announced);
    assert_eq!(stand(&plan, "a").0, Phase::Initialized, "the clock is fresh");
}

/// Its update had ended, and the next step could not begin before the edit.
#[test]
fn an_update_to_an_earlier_target_does_not_count_for_another_one() {
    let before = || {
        record(Phase::PreAction)
            .succeeded(Stage::PreAction, 0)
            .succeeded(Stage::Platform, 10)
    };
    let acted = || {
        let acted = work(0).succeeded();
        fleet().cluster("a").work(Step::PreAction, acted)
    };
    let asked = |step: Step| policy().pre_action().operators().edited("r2", &[step]);
    let updated = || acted().work(Step::Platform, work(10).succeeded());
    let table = [
        (Step::Platform, acted(), false),
        (Step::Platform, updated(), false),
        (Step::Operators, updated(), true),
        // Nothing shows any more what it was asked for.
        (Step::Operators, acted(), false),
    ];
    for (edited, works, stays) in table {
        let plan = planned(50, asked(edited), works.record(before()));
        let after = record_of(&plan, "a");
        assert_eq!(&*after.attempt.revision, "r2");
        assert_eq!(after.stage(Stage::Platform).is_some(), stays, "{edited:?}");
    }
}

#[test]
fn an_edit_that_is_announced_late_takes_no_time_from_the_update() {
    let asked = || r2().timeouts(60, 60);
    let edited = || fleet().cluster("a").work(Step::Platform, work(0));
    let plan = planned(50, asked(), edited().record(initialized()));
    let draft = record_of(&plan, "a").clone();
    assert_eq!(draft.stage(Stage::Platform), None, "no clock has begun");
    // The hub rejects the row for longer than the time limit.
    let rejected = edited().record(initialized()).draft(draft.clone());
    let plan = planned(200, asked(), rejected);
    assert_eq!(stand(&plan, "a").0, Phase::Initialized);
    assert_eq!(writes(&plan), NOTHING);
    let plan = planned(201, asked(), edited().record(draft));
    assert_eq!(writes(&plan), ["update a/Platform Repoint"]);
    assert_eq!(started(&plan), [201]);
    assert_eq!(plan.wake_at, Some(at(261)));
}

#[test]
fn an_old_update_that_began_before_a_second_edit_was_announced_is_finished_first() {
    let asked = || policy().edited("r3", &[Step::Platform]).timeouts(60, 60);
    let old = || work(50).revision("r2");
    // It has been Initialized for longer than the time limit, because the first edit began a fresh clock.
    let before = record(Phase::Initialized)
        .revision("r2")
        .stage(Stage::Platform, 50);
    let edited = fleet().cluster("a").work(Step::Platform, old()).record(before);
    let plan = planned(80, asked(), edited);
    let draft = record_of(&plan, "a").clone();
    let announced = fleet()
        .cluster("a")
        .work(Step::Platform, old().running())
        .record(draft);
    let plan = planned(81, asked(), announced);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert_eq!(plan.wake_at, Some(at(110)));
}

#[test]
fn an_edit_lets_a_partial_cluster_finish_and_queues_it_again() {
    let partial = |status: StepStatus| {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).status(status))
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let plan = planned(50, r2(), partial(StepStatus::Running));
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    let plan = planned(60, r2(), partial(StepStatus::Succeeded));
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2");
}

#[test]
fn a_partial_cluster_survives_two_edits_of_which_the_first_does_not_concern_it() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Partial).revision("r2").stage(Stage::Platform, 0));
    let plan = planned(50, policy().edited("r3", &[Step::Platform]), fleet);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
}

#[test]
fn an_old_update_that_began_just_before_the_repointing_is_finished_first() {
    let taken = |status: StepStatus| {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).status(status))
            .record(
                record(Phase::Initialized)
                    .revision("r2")
                    .stage(Stage::Platform, 50),
            )
    };
    let plan = planned(51, r2(), taken(StepStatus::Running));
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    let plan = planned(51, r2(), taken(StepStatus::Succeeded));
    assert_eq!(writes(&plan), ["update a/Platform Repoint"]);
}

#[test]
fn an_old_update_that_was_carried_out_late_moves_no_deadline() {
    let late = fleet()
        .cluster("a")
        .work(Step::Platform, work(50).running())
        .record(
            record(Phase::Initialized)
                .revision("r2")
                .stage(Stage::Platform, 40),
        );
    let asked = r2().timeouts(20, 20);
    let plan = planned(55, asked.clone(), late.clone());
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert_eq!(plan.wake_at, Some(at(60)));
    assert_eq!(writes(&planned(60, asked, late)), ["read a/Platform"]);
}

#[test]
fn an_edit_that_does_not_concern_the_running_step_changes_nothing_for_it() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(initialized());
    let asked = policy().operators().edited("r2", &[Step::Operators]);
    let plan = planned(50, asked, fleet);
    assert_eq!(stand(&plan, "a").0, Phase::Initialized);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(
        record_of(&plan, "a").stage(Stage::Platform).unwrap().started,
        at(0)
    );
}

#[test]
fn an_edited_operators_list_deletes_awaits_and_recreates_the_job() {
    let asked = || policy().operators().edited("r2", &[Step::Operators]);
    let at_operators = |fleet: FleetBuilder, revision: &str| {
        fleet
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .record(
                record(Phase::Operators)
                    .revision(revision)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Operators, 50),
            )
    };
    let running = at_operators(fleet(), "r1").work(Step::Operators, work(50).running());
    let plan = planned(60, asked(), running);
    assert_eq!(stand(&plan, "a").0, Phase::Operators);
    assert_eq!(writes(&plan), NOTHING, "not announced yet");
    let announced = record_of(&plan, "a").clone();
    let works = |slot: StepWork| {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .step_work(Step::Operators, slot)
            .record(announced.clone())
    };
    let old = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .work(Step::Operators, work(50).running())
        .record(announced.clone());
    assert_eq!(
        writes(&planned(61, asked(), old)),
        ["delete a/Operators Leftover"]
    );
    let terminating = StepWork::Ours(Arc::new(work(50).running().terminating().into()));
    let plan = planned(62, asked(), works(terminating));
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "a"), (Phase::Operators, Reason::WaitingForCleanup));
    assert_eq!(
        writes(&planned(63, asked(), works(StepWork::Absent))),
        ["create a/Operators"]
    );
}

#[test]
fn a_job_that_cannot_be_cleaned_up_does_not_hold_its_slot_for_ever() {
    let stuck = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .work(Step::Operators, work(50).terminating())
        .record(
            record(Phase::Operators)
                .revision("r2")
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Operators, 60),
        );
    let asked = policy()
        .operators()
        .timeouts(600, 100)
        .edited("r2", &[Step::Operators]);
    let plan = planned(159, asked.clone(), stuck.clone());
    assert_eq!(plan.wake_at, Some(at(160)));
    let plan = planned(160, asked, stuck.read(Step::Operators, 160));
    assert_eq!(
        stand(&plan, "a"),
        (Phase::Failed, Reason::OperatorsUpgradeTimeout)
    );
}

#[test]
fn an_edit_taken_back_does_not_revive_a_kept_work_with_its_old_clock() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(record(Phase::Pending).revision("r2"));
    let plan = planned(5000, policy().timeouts(60, 60), fleet);
    let record = record_of(&plan, "a");
    assert_eq!(record.phase, Phase::Pending);
    assert_eq!((&*record.attempt.revision, &*record.attempt.retry), ("r1", "~"));
}

#[test]
fn a_step_added_before_the_one_reached_is_not_made_up_for() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Partial).revision("r2").stage(Stage::Platform, 0));
    let asked = policy().edited("r2", &[Step::PreAction]);
    let plan = planned(10, asked, fleet);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_retry_queues_failed_and_degraded_clusters_only() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout).done(
            Stage::Platform,
            0,
            Outcome::Failed,
        ))
        .cluster("b")
        .record(record(Phase::Complete).succeeded(Stage::Platform, 0))
        .cluster("c")
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    let plan = planned(100, policy().retry("again"), fleet);
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "again");
    assert_eq!(stand(&plan, "b").0, Phase::Complete);
    assert_eq!(stand(&plan, "c").0, Phase::Partial);
    assert!(!plan.retry_done, "the retried row is not written");
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_failed_cluster_that_has_left_the_selection_is_retried_when_it_is_selected_again() {
    let failed = || {
        record(Phase::Failed)
            .reason(Reason::ClusterUpgradeTimeout)
            .done(Stage::Platform, 0, Outcome::Failed)
    };
    let left = fleet()
        .cluster("a")
        .left(10)
        .work(Step::Platform, work(0))
        .record(failed());
    let plan = planned(100, policy().retry("again"), left);
    assert_eq!(stand(&plan, "a").0, Phase::Failed);
    assert!(plan.retry_done, "nobody is to be retried");
    let back = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .record(failed());
    let plan = planned(200, policy().retry("again"), back);
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "again");
}

#[test]
fn a_retried_platform_step_is_updated_in_place_with_a_fresh_clock() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Pending).retry("again"));
    let plan = planned(100, policy().retry("again").timeouts(60, 60), fleet);
    assert_eq!(writes(&plan), ["update a/Platform Retry"]);
    assert_eq!(started(&plan), [100]);
    assert!(plan.retry_done);
}

#[test]
fn a_retried_job_or_action_is_deleted_awaited_and_recreated() {
    let table = [
        (Step::PreAction, record(Phase::Pending), policy().pre_action()),
        (
            Step::Operators,
            record(Phase::Pending).succeeded(Stage::Platform, 0),
            policy().operators(),
        ),
        (
            Step::PostAction,
            record(Phase::Pending).succeeded(Stage::Platform, 0),
            policy().post_action(),
        ),
    ];
    for (step, record, asked) in table {
        let a = |slot: StepWork| {
            fleet()
                .cluster("a")
                .step_work(step, slot)
                .record(record.clone().retry("again"))
        };
        let asked = || asked.clone().retry("again");
        let failed = fleet()
            .cluster("a")
            .work(step, work(0).failed())
            .record(record.clone().retry("again"));
        let plan = planned(100, asked(), failed);
        assert_eq!(writes(&plan), [format!("delete a/{step:?} Leftover")]);
        assert_eq!(stand(&plan, "a").1, Reason::WaitingForCleanup);
        let going = StepWork::Ours(Arc::new(work(0).failed().terminating().into()));
        assert_eq!(writes(&planned(101, asked(), a(going))), NOTHING);
        let plan = planned(102, asked(), a(StepWork::Absent));
        assert_eq!(writes(&plan), [format!("create a/{step:?}")]);
        let plan = planned(102, asked().paused(), a(StepWork::Absent));
        assert_eq!(stand(&plan, "a").1, Reason::Paused);
    }
}

#[test]
fn a_retry_skips_what_had_succeeded() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .work(Step::Platform, work(10))
        .record(
            record(Phase::Failed)
                .reason(Reason::ClusterUpgradeTimeout)
                .succeeded(Stage::PreAction, 0)
                .done(Stage::Platform, 10, Outcome::Failed),
        );
    let plan = planned(100, policy().pre_action().retry("again"), fleet);
    let record = record_of(&plan, "a");
    assert!(record.succeeded(Stage::PreAction));
    assert_eq!(record.stage(Stage::Platform), None);
}

#[test]
fn a_retry_after_a_regression_repeats_platform_and_soak() {
    let failed = record(Phase::Failed)
        .reason(Reason::RegressedInSoak)
        .succeeded(Stage::Platform, 0)
        .done(Stage::Soak, 10, Outcome::Failed);
    let a = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded().soak(10))
        .record(failed);
    let plan = planned(100, policy().soak(30).retry("again"), a);
    let retried = record_of(&plan, "a").clone();
    assert_eq!(retried.stage(Stage::Platform), None);
    assert_eq!(retried.stage(Stage::Soak), None);
    // The old note is older than the work's new clock and must not shorten the new soak.
    let updated = fleet()
        .cluster("a")
        .work(Step::Platform, work(100).retry("again").succeeded().soak(10))
        .record(retried);
    let plan = planned(110, policy().soak(30), updated);
    assert_eq!(stand(&plan, "a").0, Phase::Soaking);
    assert_eq!(writes(&plan), ["soak a/Platform"]);
    assert_eq!(plan.wake_at, Some(at(140)));
}

#[test]
fn a_soak_that_is_set_while_clusters_are_complete_does_not_take_them_back() {
    let fleet = fleet()
        .cluster("a")
        .record(record(Phase::Complete).succeeded(Stage::Platform, 0));
    let plan = planned(10, policy().soak(30), fleet);
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
}

#[test]
fn an_unfinished_step_deleted_by_hand_is_recreated_with_its_clock() {
    let deleted = fleet().cluster("a").record(initialized());
    let plan = planned(50, policy().timeouts(60, 60), deleted.clone());
    assert_eq!(writes(&plan), ["create a/Platform"]);
    assert_eq!(started(&plan), [0]);
    let deleted = deleted.read(Step::Platform, 60);
    let plan = planned(60, policy().timeouts(60, 60), deleted);
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
}

#[test]
fn a_finished_step_deleted_by_hand_is_never_repeated() {
    let backed_up = fleet()
        .cluster("a")
        .record(record(Phase::PreAction).succeeded(Stage::PreAction, 0));
    assert_eq!(
        writes(&planned(50, policy().pre_action(), backed_up)),
        ["create a/Platform"]
    );
    let vanished = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded().vanished())
        .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    assert_eq!(
        writes(&planned(50, policy().pre_action(), vanished)),
        ["create a/Platform"]
    );
}

#[test]
fn a_restart_without_rows_reads_everything_from_the_works() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .work(Step::Platform, work(10).running())
        .cluster("b")
        .work(Step::PreAction, work(0).running())
        .cluster("c");
    let asked = policy().pre_action().max_concurrency(2).timeouts(60, 60);
    let plan = planned(30, asked, fleet);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert_eq!(stand(&plan, "b").0, Phase::PreAction);
    assert_eq!(stand(&plan, "c").1, Reason::WaitingForSlot);
    let stage = |name: &str, stage| record_of(&plan, name).stage(stage).unwrap().started;
    assert_eq!(stage("a", Stage::Platform), at(10));
    assert_eq!(stage("b", Stage::PreAction), at(0));
    assert!(record_of(&plan, "a").succeeded(Stage::PreAction));
    assert_eq!(plan.wake_at, Some(at(60)));
}

#[test]
fn a_restart_in_the_soak_keeps_its_clock_and_its_proof() {
    let a = |work: crate::testing::WorkBuilder| {
        fleet()
            .cluster("a")
            .work(Step::Platform, work.soak(10))
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let plan = planned(20, policy().soak(30), a(work(0).succeeded()));
    assert_eq!(stand(&plan, "a").0, Phase::Soaking);
    assert_eq!(plan.wake_at, Some(at(40)));
    let plan = planned(20, policy().soak(30), a(work(0).status(StepStatus::OtherVersion)));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::RegressedInSoak));
}

#[test]
fn works_of_a_complete_cluster_go_only_when_that_is_written() {
    let works = |fleet: FleetBuilder| {
        fleet
            .work(Step::Platform, work(0).succeeded())
            .work(Step::Operators, work(10).succeeded())
    };
    let complete = record(Phase::Complete)
        .succeeded(Stage::Platform, 0)
        .succeeded(Stage::Operators, 10);
    let drafted = works(fleet().cluster("a")).draft(complete.clone());
    assert_eq!(writes(&planned(20, policy().operators(), drafted)), NOTHING);
    let written = works(fleet().cluster("a")).record(complete);
    assert_eq!(
        writes(&planned(20, policy().operators(), written)),
        ["delete a/Platform Complete", "delete a/Operators Complete"]
    );
}

#[test]
fn works_of_a_cluster_that_was_registered_anew_stay_while_only_the_row_of_its_earlier_life_says_complete() {
    let complete = |start| record(Phase::Complete).succeeded(Stage::Platform, start);
    let anew = fleet()
        .cluster("a")
        .work(Step::Platform, work(50).succeeded())
        .record(complete(0))
        .draft(complete(50));
    assert_eq!(writes(&planned(60, policy(), anew)), NOTHING);
}

#[test]
fn a_failed_platform_work_is_kept() {
    let fleet = fleet().cluster("a").work(Step::Platform, work(0)).record(
        record(Phase::Failed)
            .reason(Reason::ClusterUpgradeTimeout)
            .done(Stage::Platform, 0, Outcome::Failed),
    );
    assert_eq!(writes(&planned(20, policy(), fleet)), NOTHING);
}

#[test]
fn a_deleted_upgrade_removes_its_own_works_and_nothing_else() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0))
        .work(Step::Platform, work(0).running())
        .step_work(Step::Operators, StepWork::Rival { terminating: false })
        .cluster("b")
        .work(Step::Platform, work(0).terminating())
        .cluster("c")
        .work(Step::Platform, work(0))
        .backoff(30)
        .cluster("d");
    let plan = planned(10, policy().deleting(), fleet);
    assert_eq!(
        writes(&plan),
        [
            "delete a/PreAction UpgradeDeleted",
            "delete a/Platform UpgradeDeleted"
        ]
    );
    assert_eq!(plan.wake_at, Some(at(30)));
}

#[test]
fn an_edit_taken_back_before_it_was_written_is_announced_like_any_other() {
    let fleet = fleet()
        .cluster("a")
        .record(record(Phase::Complete).succeeded(Stage::Platform, 0))
        .draft(record(Phase::Pending).revision("r2"));
    let plan = planned(10, policy(), fleet);
    assert_eq!(writes(&plan), NOTHING, "the written row is of a finished attempt");
    assert!(plan.clusters[0].urgent);
    assert_eq!(&*record_of(&plan, "a").attempt.retry, "~");
}

#[test]
fn a_partial_cluster_that_reports_another_version_is_initialized_again() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).status(StepStatus::OtherVersion))
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    assert_eq!(stand(&planned(10, policy(), fleet), "a").0, Phase::Initialized);
}
