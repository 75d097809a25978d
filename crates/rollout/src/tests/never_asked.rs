//! Steps of which nobody knows whether they were ever asked for.

use super::violations::{change, create, refused};
use super::{planned, record_of, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{Phase, Plan, Stage, Step, StepRecord};
use crate::testing::{at, fleet, policy, record, work};

/// The row that tells of the start has been on its way since, and somebody has deleted the work.
#[test]
fn a_step_whose_work_was_there_keeps_its_start_although_no_row_tells_of_it() {
    let asked = || policy().timeouts(600, 600);
    for (asked, phase, step) in [
        (asked().pre_action(), Phase::PreAction, Step::PreAction),
        (asked(), Phase::Initialized, Step::Platform),
    ] {
        let stage = Stage::from(step);
        let deleted = fleet().cluster("a").draft(record(phase).stage(stage, 10));
        let plan = planned(500, asked.clone(), deleted.clone());
        assert_eq!(writes(&plan), [format!("create a/{step:?}")]);
        let begun = record_of(&plan, "a").stages[stage.index()].unwrap();
        assert_eq!(begun.started, at(10));
        refused(Kind::ClockReset, 500, asked, deleted, begins(step, 500));
    }
}

#[test]
fn by_a_clock_that_is_not_trusted_nobody_knows_that_a_step_was_never_asked_for() {
    let told = || record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    let asked = policy().pre_action().timeouts(600, 600).distrusted_clock();
    let a = fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
    let a = a.record(told()).draft(told().stage(Stage::Platform, 10));
    let plan = planned(500, asked.clone(), a.clone());
    let platform = record_of(&plan, "a").stages[Stage::Platform.index()].unwrap();
    assert_eq!(platform.started, at(10));
    refused(Kind::ClockReset, 500, asked, a, begins(Step::Platform, 500));
}

fn begins(step: Step, started: i64) -> impl FnOnce(&mut Plan) {
    move |plan| {
        change(plan, 0, |record| {
            record.stages[Stage::from(step).index()] = Some(StepRecord::started(at(started)));
        });
        plan.operations = vec![create("a", step, started)];
    }
}
