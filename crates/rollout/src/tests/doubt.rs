//! Rows whose writes have no response: the hub may have them (`docs/design/rules.md#release-row-first`).

use super::violations::{create, refused};
use super::{planned, stand, writes};
use crate::check::ViolationKind;
use crate::model::{Phase, Reason, Stage, Step};
use crate::testing::{PolicyBuilder, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

/// An edit that takes the operators away.
fn asked() -> PolicyBuilder {
    policy().edited("r2", &[]).post_action().max_concurrency(1)
}

/// The edit may be taken back. A controller that restarts before the row is written then finds the cluster in its operators, by
/// that row or by its works.
#[test]
fn an_edit_that_ends_a_step_frees_its_slot_only_when_that_is_written() {
    let updated = || {
        let a = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
        a.work(Step::Operators, work(10).running())
    };
    let in_operators = || {
        let updated = record(Phase::Operators).succeeded(Stage::Platform, 0);
        updated.stage(Stage::Operators, 10)
    };
    let unwritten = updated().draft(in_operators());
    let queued = updated().record(record(Phase::Pending)).draft(in_operators());
    for in_doubt in [
        unwritten.clone().slot_in_doubt(),
        unwritten,
        queued.slot_in_doubt(),
        updated().record(in_operators()),
    ] {
        let fleet = in_doubt.cluster("b");
        let plan = planned(20, asked(), fleet.clone());
        assert_eq!(stand(&plan, "a").0, Phase::PostAction);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert_eq!(writes(&plan), NOTHING);
        assert!(plan.clusters[0].urgent);
        refused(ViolationKind::TooManySlots, 20, asked(), fleet, |plan| {
            plan.operations.push(create("b", Step::Platform, 20));
        });
    }
    let ended = record(Phase::PostAction)
        .revision("r2")
        .succeeded(Stage::Platform, 0);
    let plan = planned(21, asked(), updated().record(ended).cluster("b"));
    assert!(writes(&plan).contains(&"create b/Platform".to_owned()));
}
