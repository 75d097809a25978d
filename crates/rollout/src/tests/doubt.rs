//! Rows and works whose writes have no response: the hub may have them (`docs/design/rules.md#release-row-first`,
//! `docs/design/rules.md#unsettled-starts`).

use std::sync::Arc;

use super::violations::{create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind;
use crate::model::{Busy, DeleteReason, Operation, Phase, Reason, Stage, Step, StepWork};
use crate::testing::{FleetBuilder, PolicyBuilder, WorkBuilder, at, fleet, policy, record, work};

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

/// It was dropped when it was gone, and there is an edit since. The work of its start would be a leftover of any other attempt, and
/// hold no slot.
#[test]
fn a_cluster_that_is_back_while_its_start_is_in_doubt_is_of_the_attempt_of_that_start() {
    let asked = || policy().edited("r2", &[Step::Platform]).max_concurrency(1);
    let back = || fleet().cluster("a");
    for in_doubt in [
        back().unsettled(Step::Platform),
        back().unsettled(Step::PreAction),
        back().busy(Busy::Starting),
    ] {
        let fleet = in_doubt.cluster("b");
        let plan = planned(10, asked(), fleet.clone());
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert!(!writes(&plan).iter().any(|write| write.starts_with("create")));
        refused(ViolationKind::UnsettledPassed, 10, asked(), fleet, |plan| {
            let state = &mut plan.clusters[0];
            Arc::make_mut(&mut state.record).attempt.revision = "r2".into();
        });
    }
    let queued = || back().record(record(Phase::Pending));
    let landed = queued().work(Step::Platform, work(5).running());
    let plan = planned(10, asked(), landed.cluster("b"));
    assert!(stand(&plan, "a").0.holds_slot());
    assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
    let plan = planned(10, asked(), queued());
    assert_eq!(
        &*record_of(&plan, "a").attempt.revision,
        "r2",
        "it was not carried out"
    );
    let plan = planned(10, asked(), back().unsettled(Step::PostAction));
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2", "it takes no slot");
}

/// A record of the attempt of such a work would make it count.
#[test]
fn a_start_in_doubt_does_not_bring_works_of_an_earlier_life_back() {
    let former = StepWork::Former(Arc::new(work(0).running().into()));
    for (step, revision, attempt) in [
        (Step::Platform, "r1", ("r1", "~")),
        (Step::PreAction, "r0", ("r1", "")),
    ] {
        let mut fleet = fleet().cluster("a").step_work(step, former.clone());
        if revision == "r0" {
            let older = work(0).revision("r0").running();
            fleet = fleet.step_work(step, StepWork::Former(Arc::new(older.into())));
        }
        let plan = planned(10, policy().pre_action(), fleet.unsettled(Step::Operators));
        let found = &record_of(&plan, "a").attempt;
        assert_eq!((&*found.revision, &*found.retry), attempt);
    }
}

/// The response to its creation is still to come, and an earlier creation never had one.
#[test]
fn an_edit_reaches_a_cluster_whose_start_is_seen_before_its_response() {
    let edited = |steps: &[Step]| {
        let edited = policy().pre_action().edited("r2", steps);
        edited.max_concurrency(1)
    };
    let starting = |work: WorkBuilder| {
        let a = fleet().cluster("a").work(Step::PreAction, work);
        let a = a.record(record(Phase::Pending)).unsettled(Step::PreAction);
        a.busy(Busy::Starting)
    };
    let reaches = |steps: &[Step], phase: Phase| {
        let plan = planned(10, edited(steps), starting(work(5)).cluster("b"));
        assert_eq!(stand(&plan, "a").0, phase);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2");
        assert!(plan.clusters[0].urgent);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert_eq!(writes(&plan), NOTHING);
    };
    reaches(&[Step::Platform], Phase::PreAction);
    reaches(&[Step::PreAction, Step::Platform], Phase::Pending);
    // Neither what is left of its work nor one of another attempt shows that the last creation was carried out.
    for unknown in [work(5).vanished(), work(5).revision("r0")] {
        let asked = edited(&[Step::Platform]);
        refused(
            ViolationKind::UnsettledPassed,
            10,
            asked,
            starting(unknown),
            |plan| {
                let state = &mut plan.clusters[0];
                Arc::make_mut(&mut state.record).attempt.revision = "r2".into();
            },
        );
    }
}

/// Its row does not tell yet that it has begun, and a creation of a later step never had a response.
#[test]
fn an_edit_reaches_a_cluster_in_flight_whatever_became_of_its_next_step() {
    for (done, open) in [
        (Step::PreAction, Step::Platform),
        (Step::Platform, Step::PostAction),
    ] {
        let asked = policy().pre_action().post_action();
        let asked = asked.edited("r2", &[Step::Platform]).max_concurrency(1);
        let begun = fleet().cluster("a").work(done, work(5).succeeded());
        let begun = begun.record(record(Phase::Pending)).unsettled(open);
        let plan = planned(10, asked, begun.cluster("b"));
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2", "{open:?}");
        assert!(!writes(&plan).iter().any(|write| write.contains("b/")));
    }
}

/// Somebody deleted the work of its pre-action. If a new attempt began, the one that is on its way would count as a leftover,
/// which holds no slot.
#[test]
fn a_cluster_whose_deleted_pre_action_may_be_on_its_way_is_queued_again_only_when_that_is_known() {
    let edited = |step: Step| policy().pre_action().edited("r2", &[step]).max_concurrency(1);
    let begun = || {
        let begun = record(Phase::PreAction).stage(Stage::PreAction, 0);
        fleet().cluster("a").record(begun)
    };
    let becomes = |step: Step, a: FleetBuilder, phase: Phase, revision: &str| {
        let plan = planned(10, edited(step), a.cluster("b"));
        assert_eq!(stand(&plan, "a").0, phase);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, revision);
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
    };
    for step in [Step::PreAction, Step::Platform] {
        for waits in [
            begun().busy(Busy::Starting),
            begun().unsettled(Step::PreAction),
            begun().late(Step::PreAction),
        ] {
            becomes(step, waits, Phase::PreAction, "r1");
        }
        becomes(step, begun(), Phase::Pending, "r2");
    }
    let landed = || begun().work(Step::PreAction, work(0));
    becomes(Step::Platform, landed(), Phase::PreAction, "r2");
    becomes(Step::PreAction, landed(), Phase::Pending, "r2");
}

/// It may be back before it is dropped, and then goes on with the start and in the slot that it has.
#[test]
fn a_leaver_whose_step_may_be_on_its_way_keeps_its_start_whatever_would_block_another() {
    let in_pre_action = || record(Phase::PreAction).stage(Stage::PreAction, 0);
    let after_it = || record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    for (step, begun) in [
        (Step::PreAction, in_pre_action()),
        (Step::Platform, after_it().stage(Stage::Platform, 5)),
    ] {
        let leaver = || {
            let left = fleet().cluster("a").left(0).unsettled(step);
            left.record(begun.clone())
        };
        let foreign = StepWork::Foreign { retry_at: at(120) };
        for leaver in [
            leaver(),
            leaver().version("4.12.1"),
            leaver().blocked(Reason::InvalidClusterID),
            leaver().step_work(step, foreign),
        ] {
            let asked = policy().pre_action().max_concurrency(1);
            let plan = planned(10, asked, leaver.clone().cluster("b"));
            assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::LeftSelection));
            let before = leaver.build().clusters[0].record.clone().unwrap();
            assert_eq!(record_of(&plan, "a").stages, before.stages);
            assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
            assert_eq!(writes(&plan), [format!("read a/{step:?}")]);
        }
    }
}

/// If the step after it has begun, the cluster goes on with that, and its pre-action stays as long as anything can fail.
#[test]
fn the_pre_action_of_a_leaver_stays_while_the_step_after_it_may_have_begun() {
    let asked = || policy().pre_action().operators();
    let row = || record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    let leaver = || {
        let left = fleet().cluster("a").left(0).record(row());
        left.work(Step::PreAction, work(0).succeeded())
    };
    for step in [Step::Platform, Step::Operators] {
        let unread = leaver().step_work(step, StepWork::Unconfirmed);
        for in_doubt in [leaver().unsettled(step), leaver().late(step), unread] {
            let plan = planned(10, asked(), in_doubt.clone());
            assert!(plan.dropped.is_empty());
            assert!(writes(&plan).iter().all(|write| write.starts_with("read")));
            refused(ViolationKind::DeletedUnfinished, 10, asked(), in_doubt, |plan| {
                plan.operations.push(Operation::Delete {
                    cluster: "a".into(),
                    step: Step::PreAction,
                    why: DeleteReason::LeftSelection,
                });
            });
        }
    }
    assert_eq!(
        writes(&planned(10, asked(), leaver())),
        ["delete a/PreAction LeftSelection"]
    );
}

/// Its step would run once more, maybe by an earlier spec and to an older version.
#[test]
fn a_work_stays_while_an_abandoned_creation_may_bring_it_back() {
    let asked = || policy().pre_action().operators();
    let complete = || {
        let complete = record(Phase::Complete)
            .succeeded(Stage::PreAction, 0)
            .succeeded(Stage::Platform, 5);
        let a = fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
        let a = a.work(Step::Platform, work(5).succeeded());
        let a = a.work(Step::Operators, work(10).succeeded());
        a.record(complete.succeeded(Stage::Operators, 10))
    };
    let all = [
        "delete a/Platform Complete",
        "delete a/Operators Complete",
        "delete a/PreAction AllComplete",
    ];
    assert_eq!(writes(&planned(200, asked(), complete())), all);
    for (step, kept) in [(Step::Platform, 0), (Step::Operators, 1), (Step::PreAction, 2)] {
        let plan = planned(200, asked(), complete().late(step));
        let left = (0..3).filter(|at| *at != kept).map(|at| all[at]);
        assert_eq!(writes(&plan), left.collect::<Vec<_>>(), "{step:?}");
        for why in [DeleteReason::Complete, DeleteReason::AllComplete] {
            let delete = Operation::Delete {
                cluster: Arc::from("a"),
                step,
                why,
            };
            let (kind, doubtful) = (ViolationKind::DeletedUnfinished, complete().late(step));
            refused(kind, 200, asked(), doubtful, |plan| plan.operations.push(delete));
        }
    }
    let both = complete().late(Step::Platform).also_late(Step::Operators);
    assert_eq!(writes(&planned(200, asked(), both)), [all[2]]);
}

/// Whoever leads when it is back, before that row is removed, takes it for the same cluster, and finds its start by the work.
#[test]
fn a_cluster_that_is_gone_and_whose_row_still_says_that_it_is_queued_holds_its_slot_until_that_row_is_removed()
 {
    let asked = || policy().max_concurrency(1);
    let gone = |work: WorkBuilder| {
        let gone = fleet().cluster("a").gone().work(Step::Platform, work);
        gone.record(record(Phase::Pending)).cluster("b")
    };
    let plan = planned(10, asked(), gone(work(5).running()));
    assert!(stand(&plan, "a").0.holds_slot());
    assert_eq!(writes(&plan), NOTHING);
    let plan = planned(100, asked().timeouts(60, 60), gone(work(5).running()));
    assert!(stand(&plan, "a").0.holds_slot(), "it does not fail by its time");
    let told = record(Phase::Partial).stage(Stage::Platform, 5);
    let noted = fleet()
        .cluster("a")
        .gone()
        .work(Step::Platform, work(5).running());
    let noted = noted.record(record(Phase::Pending)).draft(told).cluster("b");
    let plan = planned(11, asked(), noted);
    assert_eq!(plan.dropped, ["a".into()]);
    assert_eq!(writes(&plan), NOTHING, "its row is still there");
    // Of another attempt, nobody would believe it.
    let plan = planned(10, asked(), gone(work(5).running().revision("r0")));
    assert_eq!(plan.dropped, ["a".into()]);
    assert_eq!(writes(&plan), ["create b/Platform"]);
}

/// Otherwise the next plan would begin its operators anew in the slot that is to be given back.
#[test]
fn a_cluster_whose_operators_have_ended_waits_for_its_answer_in_every_plan_after_an_edit() {
    let edited = || {
        policy()
            .without(Step::Platform)
            .operators()
            .edited("r2", &[Step::Operators])
    };
    let a = fleet().cluster("a").work(Step::Operators, work(0).succeeded());
    let a = a
        .record(record(Phase::Operators).stage(Stage::Operators, 0))
        .late(Step::Operators);
    let plan = planned(20, edited(), a.clone());
    let waits = record_of(&plan, "a").clone();
    assert_eq!((waits.phase, &*waits.attempt.revision), (Phase::Operators, "r1"));
    assert!(waits.succeeded(Stage::Operators));
    let next = planned(20, edited(), a.draft(waits.clone()));
    assert_eq!(*record_of(&next, "a"), waits);
}

/// The work of its operators is gone, and an earlier creation may bring it back.
#[test]
fn the_time_of_the_operators_of_a_leaver_runs_on_while_a_creation_may_come_late() {
    let edited = || {
        let asked = policy().operators().timeouts(60, 60);
        asked.edited("r2", &[Step::Operators])
    };
    let a = |left: i64| {
        let row = record(Phase::Operators).succeeded(Stage::Platform, 0);
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .late(Step::Operators)
            .record(row.stage(Stage::Operators, 10))
            .left(left)
    };
    for (left, now, wake) in [(0, 30, 70), (68, 69, 70), (50, 51, 55)] {
        let plan = planned(now, edited(), a(left));
        assert_eq!(
            (stand(&plan, "a").0, plan.wake_at),
            (Phase::Operators, Some(at(wake)))
        );
    }
    for left in [0, 68] {
        assert_eq!(writes(&planned(70, edited(), a(left))), ["read a/Operators"]);
        let over = planned(70, edited(), a(left).read(Step::Operators, 70));
        assert_eq!(
            stand(&over, "a"),
            (Phase::Failed, Reason::OperatorsUpgradeTimeout)
        );
    }
}

/// The row does not say yet what is left of the work tells. If a new attempt began, an earlier creation could still be
/// carried out.
#[test]
fn a_cluster_whose_deleted_work_had_succeeded_keeps_its_attempt_while_its_creation_is_in_doubt() {
    let fleet = fleet()
        .cluster("a")
        .record(record(Phase::Pending).revision("r0"))
        .work(Step::Platform, work(0).succeeded().vanished().revision("r0"))
        .unsettled(Step::Platform);
    let plan = planned(10, policy().paused(), fleet);
    assert_eq!(&*plan.clusters[0].record.attempt.revision, "r0");
}
