//! What proves that a step succeeded.

use super::violations::{change, refused};
use super::{planned, record_of};
use crate::check::ViolationKind as Kind;
use crate::model::{Outcome, Phase, Stage, Step};
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
