//! Works that were seen before their cluster was registered anew. They must be read before they count, and may be running
//! (`docs/design/rules.md#slots`).

use std::sync::Arc;

use super::violations::refused;
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind;
use crate::model::{Phase, Reason, Stage, Step, StepWork};
use crate::testing::{FleetBuilder, PolicyBuilder, RecordBuilder, fleet, policy, record, work};

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
    let operators = record(Phase::Operators)
        .succeeded(Stage::Platform, 0)
        .stage(Stage::Operators, 1);
    let left = unread(Step::Operators, operators).left(0);
    let plan = planned(10, edited().operators(), left);
    assert_eq!(stand(&plan, "a"), (Phase::Operators, Reason::WaitingForCleanup));
    assert_eq!(writes(&plan), ["read a/Operators"]);
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
