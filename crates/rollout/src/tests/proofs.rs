//! What proves that a step succeeded.

use super::violations::{change, create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{Outcome, Phase, Reason, Record, Stage, Step, StepRecord};
use crate::testing::{
    FleetBuilder, PolicyBuilder, RecordBuilder, WorkBuilder, at, fleet, policy, record, work,
};

fn edited() -> PolicyBuilder {
    policy().pre_action().edited("r2", &[Step::Platform])
}

/// A cluster whose pre-action shows no feedback any more, and whose update was asked for.
fn asked_to_update(pre_action: WorkBuilder, update: WorkBuilder) -> FleetBuilder {
    let a = fleet().cluster("a").work(Step::PreAction, pre_action);
    a.work(Step::Platform, update)
}

fn in_pre_action() -> RecordBuilder {
    record(Phase::PreAction).stage(Stage::PreAction, 0)
}

/// A new leader finds a row from before the later step, and a new revision, which repeats only that step.
#[test]
fn a_step_that_another_followed_stays_proven_when_an_edit_comes_before_its_row() {
    let without_action = fleet().cluster("a").work(Step::Platform, work(10));
    for found in [
        asked_to_update(work(0), work(10)).record(in_pre_action()),
        asked_to_update(work(5), work(10)).record(in_pre_action()),
        without_action.record(in_pre_action()),
        asked_to_update(work(0), work(10)).record(record(Phase::Pending)),
        asked_to_update(work(0), work(10)),
        asked_to_update(work(500), work(10)),
    ] {
        let plan = planned(20, edited(), found);
        let record = record_of(&plan, "a");
        assert_eq!(record.phase, Phase::Initialized);
        assert_eq!(&*record.attempt.revision, "r2");
        assert!(record.succeeded(Stage::PreAction));
        assert_eq!(record.stage(Stage::Platform), None);
    }
    let updated = fleet()
        .cluster("a")
        .work(Step::Platform, work(0))
        .work(Step::Operators, work(10).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    let asked = policy().operators().edited("r2", &[Step::Operators]);
    let plan = planned(20, asked, updated);
    let record = record_of(&plan, "a");
    assert_eq!(record.phase, Phase::Operators);
    assert_eq!(&*record.attempt.revision, "r2");
    assert!(record.succeeded(Stage::Platform));
}

#[test]
fn a_work_that_followed_another_run_of_a_step_proves_nothing_of_this_one() {
    let of_another_attempt = asked_to_update(work(0), work(10).revision("r0")).record(in_pre_action());
    refused(Kind::UnprovenSuccess, 20, edited(), of_another_attempt, |plan| {
        change(plan, 0, |record| {
            if let Some(stage) = &mut record.stages[Stage::PreAction.index()] {
                stage.outcome = Some(Outcome::Succeeded);
            }
        });
    });
    let followed = asked_to_update(work(0), work(10)).record(in_pre_action());
    refused(Kind::UnprovenSuccess, 20, edited(), followed, |plan| {
        change(plan, 0, |record| {
            if let Some(stage) = &mut record.stages[Stage::PreAction.index()] {
                stage.started = at(20);
            }
        });
    });
}

/// A spec in which a step before or after this one was edited, so that this one goes on in another attempt.
fn edited_beside(step: Step) -> PolicyBuilder {
    match step {
        Step::PreAction => edited(),
        Step::Platform => policy().pre_action().edited("r2", &[Step::PreAction]),
        _ => policy()
            .without(Step::Platform)
            .pre_action()
            .operators()
            .edited("r2", &[Step::PreAction]),
    }
}

/// Steps that take a slot, their phases, and what is written once a new attempt in which they have succeeded is announced.
const STEPS: [(Step, Phase, &str); 3] = [
    (Step::PreAction, Phase::PreAction, "create a/Platform"),
    (Step::Platform, Phase::Partial, "delete a/Platform Complete"),
    (Step::Operators, Phase::Operators, "delete a/Operators Complete"),
];

/// A row may have been written before the step or in it, or be lost. A work may name another start than its row, because an agent
/// has edited it, or one in the future, because the clock of an earlier leader was ahead.
#[test]
fn a_step_that_has_succeeded_stays_proven_in_a_new_attempt_whatever_start_its_work_names() {
    let check = |(step, _, next): (Step, Phase, &str), found: FleetBuilder| {
        let plan = planned(20, edited_beside(step), found.clone());
        assert_eq!(writes(&plan), Vec::<String>::new(), "not announced yet");
        let record = record_of(&plan, "a");
        assert_eq!(&*record.attempt.revision, "r2");
        assert!(record.succeeded(step.into()));
        let plan = planned(21, edited_beside(step), found.record(record.clone()));
        assert_eq!(writes(&plan), [next]);
    };
    for case in STEPS {
        let (step, phase, _) = case;
        let found = |work: WorkBuilder| fleet().cluster("a").work(step, work.succeeded());
        for retry in ["", "again"] {
            let row = |phase| record(phase).retry(retry);
            for started in [-1_000_000, 0, 5, 20, 21, 80, 81, 7_200, 1_000_000] {
                let found = || found(work(started).retry(retry));
                check(case, found());
                let begun = row(phase).stage(step.into(), 0);
                for before in [row(Phase::Pending), begun] {
                    check(case, found().record(before.clone()));
                    check(case, found().draft(before));
                }
            }
        }
        // Only its start tells that the work is of the attempt.
        let begun = record(phase).retry("again").stage(step.into(), 0);
        check(case, found(work(0)).record(begun));
    }
}

#[test]
fn a_step_with_another_start_than_its_work_and_its_row_is_not_proven() {
    for (step, phase, _) in STEPS {
        let found = |work: WorkBuilder| fleet().cluster("a").work(step, work.succeeded());
        let queued = || record(Phase::Pending);
        let begun = || record(phase).stage(step.into(), 0);
        for (found, claimed) in [
            (found(work(0)), 20),
            (found(work(7_200)), 10),
            (found(work(0)).record(queued()), 20),
            (found(work(7_200)).record(queued()), 10),
            (found(work(0)).record(begun()), 20),
            (found(work(7_200)).record(begun()), 20),
            (found(work(7_200)).draft(begun()), 20),
            (found(work(7_200).revision("r0")).record(queued()), 20),
            (found(work(7_200).retry("again")).record(queued()), 20),
            (found(work(7_200).revision("r0")).draft(queued()), 20),
        ] {
            refused(Kind::UnprovenSuccess, 20, edited_beside(step), found, |plan| {
                change(plan, 0, |record| claim(record, step, claimed));
            });
        }
    }
    // Without a row the attempt is that of the latest work.
    let update = work(10).revision("r0");
    let of_another_attempt = asked_to_update(work(7_200).succeeded(), update);
    refused(Kind::UnprovenSuccess, 20, edited(), of_another_attempt, |plan| {
        change(plan, 0, |record| claim(record, Step::PreAction, 20));
    });
}

/// Makes a record say that a step began then and has succeeded.
fn claim(record: &mut Record, step: Step, started: i64) {
    record.stages[Stage::from(step).index()] = Some(StepRecord {
        finished: Some(at(20)),
        outcome: Some(Outcome::Succeeded),
        ..StepRecord::started(at(started))
    });
}

/// Somebody has deleted its work. A controller that restarts before the row is written finds neither, and creates the work again.
#[test]
fn an_end_of_which_no_work_is_left_frees_its_slot_only_when_it_is_written() {
    let asked = || policy().max_concurrency(1);
    let a = || fleet().cluster("a");
    let complete = || record(Phase::Complete).succeeded(Stage::Platform, 0);
    let updating = || a().record(record(Phase::Partial).stage(Stage::Platform, 0));
    let ended = |work: WorkBuilder| updating().work(Step::Platform, work.succeeded());
    for unwritten in [
        ended(work(0).terminating()),
        ended(work(0).vanished()),
        updating().draft(complete()),
        a().draft(complete()).slot_in_doubt(),
    ] {
        let fleet = unwritten.cluster("b");
        let plan = planned(10, asked(), fleet.clone());
        assert_eq!(stand(&plan, "a").0, Phase::Complete);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert!(writes(&plan).is_empty());
        assert!(plan.clusters[0].urgent);
        refused(Kind::TooManySlots, 10, asked(), fleet, |plan| {
            plan.operations.push(create("b", Step::Platform, 10));
        });
    }
    for free in [ended(work(0)), a().record(complete())] {
        let plan = planned(10, asked(), free.cluster("b"));
        assert_eq!(writes(&plan), ["create b/Platform"]);
    }
}

/// The hub rejects its rows. A controller that restarts finds the pre-action, and the cluster in flight.
#[test]
fn an_end_of_which_neither_row_nor_work_tells_keeps_its_slot_while_an_earlier_work_shows_the_start() {
    let asked = || policy().pre_action().max_concurrency(1);
    let complete = || {
        let row = record(Phase::Complete).succeeded(Stage::PreAction, 0);
        row.succeeded(Stage::Platform, 5)
    };
    let begun = || fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
    for unwritten in [begun(), begun().record(record(Phase::Pending))] {
        let fleet = unwritten.draft(complete()).cluster("b");
        let plan = planned(10, asked(), fleet.clone());
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert!(plan.clusters[0].urgent);
        refused(Kind::TooManySlots, 10, asked(), fleet, |plan| {
            plan.operations.push(create("b", Step::PreAction, 10));
        });
    }
    let written = begun().record(complete()).cluster("b");
    assert_eq!(writes(&planned(10, asked(), written)), ["create b/PreAction"]);
}

/// Its slot was given to another cluster when it was queued. The same holds for a blocked one.
#[test]
fn a_queued_cluster_whose_deleted_update_has_ended_takes_a_slot_for_its_operators() {
    let asked = || policy().operators().max_concurrency(1);
    for phase in [Phase::Pending, Phase::Blocked] {
        for removed in [work(0).terminating(), work(0).vanished()] {
            let fleet = || {
                fleet()
                    .cluster("a")
                    .record(record(phase))
                    .work(Step::Platform, removed.clone().succeeded())
            };
            let busy = fleet()
                .cluster("b")
                .record(record(Phase::Partial).stage(Stage::Platform, 0))
                .work(Step::Platform, work(0).running());
            let plan = planned(10, asked(), busy.clone());
            assert_eq!(stand(&plan, "a").0, Phase::Pending);
            assert_eq!(stand(&plan, "a").1, Reason::WaitingForSlot);
            assert!(record_of(&plan, "a").succeeded(Stage::Platform));
            assert!(writes(&plan).is_empty());
            refused(Kind::UnfoundedSlot, 10, asked(), busy, |plan| {
                change(plan, 0, |record| record.phase = Phase::Operators);
            });
            assert_eq!(writes(&planned(10, asked(), fleet())), ["create a/Operators"]);
        }
    }
}

/// A controller that restarts before the row is written finds the end by the post-action.
#[test]
fn an_end_that_a_post_action_followed_frees_its_slot_although_its_work_is_gone() {
    let updating = || {
        let a = fleet().cluster("a").work(Step::PostAction, work(5));
        a.record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    for followed in [
        updating().work(Step::Platform, work(0).succeeded().terminating()),
        updating(),
    ] {
        let asked = policy().post_action().max_concurrency(1);
        let plan = planned(10, asked, followed.cluster("b"));
        assert_eq!(stand(&plan, "a").0, Phase::PostAction);
        assert_eq!(writes(&plan), ["create b/Platform"]);
    }
}

#[test]
fn a_job_that_has_ended_and_is_deleted_frees_its_slot_only_when_that_is_written() {
    let in_operators = record(Phase::Operators).succeeded(Stage::Platform, 0);
    let approved = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .work(Step::Operators, work(20).succeeded().terminating())
        .record(in_operators.stage(Stage::Operators, 20));
    let asked = policy().operators().max_concurrency(1);
    let plan = planned(50, asked, approved.cluster("b"));
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
    assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
    assert!(plan.clusters[0].urgent);
}

#[test]
fn what_another_upgrade_makes_of_a_waiting_cluster_is_the_version_before_the_update() {
    let asked = record(Phase::Initialized).stage(Stage::Platform, 0);
    for (known, version, expected) in [
        (record(Phase::Blocked), "4.11.5", "4.11.5"),
        (record(Phase::Blocked), "4.12.0", ""),
        (asked, "4.11.5", "4.11.0"),
    ] {
        let known = Record::from(known);
        let phase = known.phase;
        let fleet = fleet().cluster("a").version(version).record(known);
        let plan = planned(10, policy().target("4.12.0"), fleet);
        let noted = &record_of(&plan, "a").from_version;
        assert_eq!(&**noted, expected, "{phase:?} {version}");
    }
}
