//! Blockers of a step that only a human can remove: works that belong to no upgrade, and works that the hub rejects.

use std::sync::Arc;

use super::{planned, record_of, stand, writes};
use crate::model::{Busy, Phase, Preflight, Reason, RivalHold, Stage, StallReason, Step, StepWork};
use crate::testing::{FleetBuilder, RecordBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

/// A cluster whose post-action is due.
fn upgraded() -> RecordBuilder {
    record(Phase::PostAction)
        .succeeded(Stage::Platform, 0)
        .stage(Stage::PostAction, 5)
}

#[test]
fn a_foreign_work_blocks_until_it_is_tried_again() {
    let foreign = || {
        fleet()
            .cluster("dev1")
            .step_work(Step::Platform, StepWork::Foreign { retry_at: at(30) })
    };
    let plan = planned(10, policy(), foreign());
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::Conflict));
    assert_eq!(plan.wake_at, Some(at(30)));
    let plan = planned(30, policy(), foreign());
    assert_eq!(writes(&plan), ["create dev1/Platform"]);
}

#[test]
fn a_refused_work_blocks_with_what_the_hub_said_until_it_is_tried_again() {
    let refused = || fleet().cluster("dev1").refused(Step::PreAction, 30);
    let plan = planned(10, policy().pre_action(), refused());
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::WorkRefused));
    assert_eq!(
        &*plan.clusters[0].record.message,
        "Step PreAction: The hub rejects the ManifestWork: it is invalid"
    );
    assert_eq!(plan.wake_at, Some(at(30)));
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
}

#[test]
fn an_obstacle_that_is_tried_again_stays_the_cause_until_that_has_worked() {
    let refused = StepWork::Refused {
        retry_at: at(30),
        message: Arc::from("it is invalid"),
    };
    let foreign = StepWork::Foreign { retry_at: at(30) };
    let waits = |reason| record(Phase::Blocked).reason(reason);
    for (reason, slot) in [(Reason::Conflict, foreign), (Reason::WorkRefused, refused)] {
        let before = fleet()
            .cluster("dev1")
            .step_work(Step::PreAction, slot.clone())
            .record(waits(reason));
        let after = fleet()
            .cluster("dev1")
            .step_work(Step::PostAction, slot)
            .record(upgraded().reason(reason));
        for (step, phase, fleet) in [
            (Step::PreAction, Phase::Blocked, before),
            (Step::PostAction, Phase::PostAction, after),
        ] {
            let asked = || policy().step(step);
            let plan = planned(30, asked(), fleet.clone());
            assert_eq!(writes(&plan), [format!("create dev1/{step:?}")]);
            assert_eq!(stand(&plan, "dev1"), (phase, reason));
            assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
            let plan = planned(30, asked(), fleet.busy(Busy::Starting));
            assert_eq!(writes(&plan), NOTHING);
            assert_eq!(stand(&plan, "dev1"), (phase, reason));
            assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
        }
    }
}

#[test]
fn a_refused_work_holds_back_its_own_cluster_only() {
    let fleet = fleet()
        .cluster("dev1")
        .refused(Step::Platform, 30)
        .cluster("dev2");
    let plan = planned(10, policy().max_concurrency(1), fleet);
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
    assert_eq!(plan.outlook.stalled, None);
}

#[test]
fn an_upgraded_cluster_whose_post_action_has_an_obstacle_stays_upgraded_and_the_upgrade_is_stalled() {
    let foreign = StepWork::Foreign { retry_at: at(60) };
    for (fleet, reason) in [
        (
            fleet().cluster("dev1").refused(Step::PostAction, 60),
            Reason::WorkRefused,
        ),
        (
            fleet().cluster("dev1").step_work(Step::PostAction, foreign),
            Reason::Conflict,
        ),
    ] {
        let fleet = fleet.work(Step::Platform, work(0).succeeded()).record(upgraded());
        let plan = planned(20, policy().post_action(), fleet);
        assert_eq!(stand(&plan, "dev1"), (Phase::PostAction, reason));
        assert_eq!(plan.summary.blocked, 1);
        assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
        assert!(!plan.outlook.moving);
    }
}

#[test]
fn a_foreign_work_in_the_way_of_the_operators_gives_the_slot_back_once_that_is_written() {
    let fleet = |record: RecordBuilder| {
        fleet()
            .cluster("dev1")
            .work(Step::Platform, work(0).succeeded())
            .step_work(Step::Operators, StepWork::Foreign { retry_at: at(60) })
            .record(record.succeeded(Stage::Platform, 0))
            .cluster("dev2")
    };
    let asked = || policy().operators().max_concurrency(1);
    let partial = record(Phase::Partial).stage(Stage::Operators, 10);
    let plan = planned(20, asked(), fleet(partial));
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::Conflict));
    assert!(plan.clusters[0].urgent);
    assert_eq!(writes(&plan), NOTHING);
    let blocked = record(Phase::Blocked).reason(Reason::Conflict);
    let plan = planned(20, asked(), fleet(blocked));
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
}

/// The hub has a row that says so, but the response to its write was lost, or somebody has deleted the report.
#[test]
fn a_cluster_whose_pre_action_has_run_frees_its_slot_only_when_its_blocker_is_written() {
    let refused = || {
        fleet()
            .cluster("dev1")
            .work(Step::PreAction, work(0).succeeded())
            .refused(Step::Platform, 100)
    };
    let asked = || policy().pre_action().max_concurrency(1);
    let ended = || record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    let known = refused()
        .record(record(Phase::Pending))
        .draft(ended())
        .cluster("dev2");
    for fleet in [known, refused().draft(ended()).cluster("dev2")] {
        let plan = planned(10, asked(), fleet);
        assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::WorkRefused));
        assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForSlot);
        assert!(plan.clusters[0].urgent);
    }
    let blocked = || {
        let blocked = record(Phase::Blocked).reason(Reason::WorkRefused);
        blocked.succeeded(Stage::PreAction, 0)
    };
    let unwritten = refused().draft(blocked()).cluster("dev2");
    assert_eq!(writes(&planned(11, asked(), unwritten)), NOTHING);
    let written = refused().record(blocked()).cluster("dev2");
    assert_eq!(writes(&planned(11, asked(), written)), ["create dev2/PreAction"]);
}

/// A controller that restarts before the row is written finds the pre-action alone, so that the cluster holds a slot.
#[test]
fn a_cluster_that_waits_after_its_pre_action_frees_its_slot_only_when_that_is_written() {
    let waiting = || {
        fleet()
            .cluster("dev1")
            .unavailable()
            .work(Step::PreAction, work(0).succeeded())
    };
    let asked = || policy().pre_action().max_concurrency(1);
    let ended = || record(Phase::Pending).succeeded(Stage::PreAction, 0);
    let unwritten = waiting().draft(ended()).cluster("dev2");
    assert_eq!(writes(&planned(10, asked(), unwritten)), NOTHING);
    let written = waiting().record(ended()).cluster("dev2");
    assert_eq!(writes(&planned(10, asked(), written)), ["create dev2/PreAction"]);
}

/// Its row says already that the pre-action has ended and that the cluster waits, so another cluster has the slot.
#[test]
fn a_cluster_that_waits_after_its_pre_action_takes_no_slot_when_it_is_blocked() {
    let waiting = record(Phase::Pending).reason(Reason::WaitingForSlot);
    let fleet = fleet()
        .cluster("dev1")
        .record(waiting.succeeded(Stage::PreAction, 0))
        .work(Step::PreAction, work(0).succeeded())
        .refused(Step::Platform, 100)
        .cluster("dev2");
    let plan = planned(10, policy().pre_action().max_concurrency(1), fleet);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::WorkRefused));
    assert_eq!(writes(&plan), ["create dev2/PreAction"]);
}

/// A restarted controller, for which the refusal is only in the record.
fn remembered(step: Step, record: RecordBuilder) -> FleetBuilder {
    let message = format!("Step {step:?}: no");
    fleet().cluster("dev1").record(record.refused(step, &message))
}

#[test]
fn a_refusal_survives_a_restart_until_a_try_has_worked() {
    for (step, phase, known) in [
        (Step::Platform, Phase::Blocked, record(Phase::Blocked)),
        (Step::PostAction, Phase::PostAction, upgraded()),
    ] {
        let plan = planned(10, policy().step(step), remembered(step, known));
        assert_eq!(writes(&plan), [format!("create dev1/{step:?}")]);
        assert_eq!(stand(&plan, "dev1"), (phase, Reason::WorkRefused));
        assert_eq!(*plan.clusters[0].record.message, format!("Step {step:?}: no"));
        assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
    }
}

#[test]
fn a_refusal_is_forgotten_with_the_revision_it_was_of() {
    let plan = planned(
        10,
        policy().edited("r2", &[Step::Platform]),
        remembered(Step::Platform, record(Phase::Blocked)),
    );
    assert_eq!(stand(&plan, "dev1").0, Phase::Pending);
    assert!(plan.outlook.moving);
}

#[test]
fn a_pause_or_an_absent_agent_does_not_hide_a_refusal() {
    let paused = policy().paused();
    for (asked, fleet) in [
        (paused, remembered(Step::Platform, record(Phase::Blocked))),
        (
            policy(),
            remembered(Step::Platform, record(Phase::Blocked)).unavailable(),
        ),
        (
            policy(),
            fleet().cluster("dev1").refused(Step::Platform, 5).unavailable(),
        ),
    ] {
        let plan = planned(10, asked, fleet);
        assert_eq!(writes(&plan), NOTHING);
        assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::WorkRefused));
    }
}

#[test]
fn a_refusal_stays_the_cause_while_its_cluster_is_asked_again_or_has_not_answered() {
    let required = || policy().requires_preflight();
    let refused = || fleet().cluster("dev1").refused(Step::Platform, 5);
    for (asked, answer, is_asked_again) in [
        (policy(), Preflight::Stale, true),
        (required(), Preflight::Stale, true),
        (required(), Preflight::NotAsked, false),
        (policy().awaits_answers(), Preflight::NotAsked, false),
    ] {
        for fleet in [
            remembered(Step::Platform, record(Phase::Blocked)),
            refused().record(record(Phase::Blocked).reason(Reason::WorkRefused)),
        ] {
            let mut fleet = fleet.preflight(answer.clone());
            for seconds in [10, 11] {
                let plan = planned(seconds, asked.clone(), fleet.clone());
                assert_eq!(writes(&plan), NOTHING);
                assert_eq!(!plan.ask_again.is_empty(), is_asked_again);
                assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::WorkRefused));
                let told = record_of(&plan, "dev1").clone();
                assert_eq!(told.refused_step, Some(Step::Platform));
                assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
                fleet = fleet.record(told);
            }
            let plan = planned(12, asked.clone(), fleet.preflight(Preflight::Ready));
            assert_eq!(writes(&plan), ["create dev1/Platform"]);
        }
    }
}

#[test]
fn a_foreign_work_that_is_being_deleted_is_waited_for() {
    let leaving = StepWork::ForeignTerminating { retry_at: at(15) };
    let fleet = || fleet().cluster("dev1").step_work(Step::Platform, leaving.clone());
    let plan = planned(10, policy(), fleet());
    assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::WaitingForCleanup));
    assert_eq!(plan.wake_at, Some(at(15)));
    assert!(plan.outlook.moving);
    assert_eq!(writes(&planned(15, policy(), fleet())), ["create dev1/Platform"]);
}

#[test]
fn a_timeout_without_a_work_repeats_what_kept_it_from_being_made() {
    let fleet = || fleet().cluster("dev1").record(upgraded());
    let foreign = StepWork::Foreign { retry_at: at(20_000) };
    for (fleet, words) in [
        (
            fleet().refused(Step::PostAction, 20_000),
            "WorkRefused: Step PostAction: The hub rejects the ManifestWork: it is invalid",
        ),
        (
            fleet().step_work(Step::PostAction, foreign),
            "Conflict: Step PostAction: A ManifestWork with this name",
        ),
        (fleet().backoff(20_000), "WriteFailed: the hub rejected the write"),
        (
            remembered(Step::PostAction, upgraded()),
            "WorkRefused: Step PostAction: no",
        ),
        (fleet(), "because its ManifestWork does not exist"),
    ] {
        let fleet = fleet.read(Step::PostAction, 19_000);
        let plan = planned(19_000, policy().post_action(), fleet);
        assert_eq!(stand(&plan, "dev1"), (Phase::Failed, Reason::PostActionTimeout));
        let said = &plan.clusters[0].record.message;
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_refusal_outweighs_that_its_next_try_did_not_get_through() {
    let fleet = remembered(Step::Platform, record(Phase::Blocked)).backoff(20);
    let plan = planned(10, policy(), fleet);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::WorkRefused));
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
}

#[test]
fn the_refusal_of_an_earlier_step_is_not_that_of_a_later_one() {
    let known = record(Phase::Blocked).succeeded(Stage::Platform, 0);
    let fleet = remembered(Step::Platform, known);
    let plan = planned(10, policy().operators(), fleet);
    assert_eq!(stand(&plan, "dev1").0, Phase::Pending);
}

#[test]
fn creations_that_stay_forbidden_are_told_as_stalled_and_keep_their_phase() {
    let fleet = || fleet().cluster("dev1");
    for (fleet, moving) in [(fleet().backoff(20), true), (fleet().forbidden(20), false)] {
        let plan = planned(10, policy(), fleet.clone());
        assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::WriteFailed));
        assert_eq!(plan.outlook.moving, moving);
        let plan = planned(10, policy(), fleet.busy(Busy::Starting));
        assert_eq!(plan.outlook.moving, moving, "nor while it is tried again");
    }
    let complete = fleet().record(record(Phase::Complete).succeeded(Stage::Platform, 0));
    let plan = planned(10, policy(), complete.forbidden(20));
    assert_eq!(plan.summary.blocked, 0, "it needs nothing any more");
    let waiting = fleet().rival(RivalHold::Active).forbidden(20);
    let plan = planned(10, policy(), waiting);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::Conflict));
    assert!(plan.outlook.moving, "it tries nothing meanwhile");
}

#[test]
fn the_cause_of_what_stays_forbidden_remains_while_it_is_tried_again() {
    let queued = || fleet().cluster("dev1");
    let updated = || {
        let updated = queued().work(Step::Platform, work(0).succeeded());
        updated.record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let asked = || policy().operators();
    for (phase, fleet, step) in [
        (Phase::Pending, queued().forbidden(5), "create dev1/Platform"),
        (Phase::Partial, updated().forbidden(5), "create dev1/Operators"),
    ] {
        let plan = planned(10, asked(), fleet.clone());
        assert_eq!(writes(&plan), [step]);
        assert_eq!(stand(&plan, "dev1"), (phase, Reason::WriteFailed));
        let plan = planned(10, asked(), fleet.busy(Busy::Starting));
        assert_eq!(stand(&plan, "dev1"), (phase, Reason::WriteFailed));
    }
    let plan = planned(10, asked(), queued().backoff(5));
    assert_eq!(
        stand(&plan, "dev1"),
        (Phase::Pending, Reason::None),
        "it may go on"
    );
    let plan = planned(10, asked().paused(), queued().forbidden(5));
    assert_eq!(
        stand(&plan, "dev1"),
        (Phase::Pending, Reason::Paused),
        "it tries nothing"
    );
}

#[test]
fn deletions_that_stay_forbidden_are_told_as_stalled_while_a_step_waits_for_them() {
    let queued = || {
        let failed = fleet().cluster("dev1").work(Step::PreAction, work(0).failed());
        failed.record(record(Phase::Pending).retry("again"))
    };
    let asked = || policy().pre_action().retry("again");
    for (fleet, moving) in [(queued().backoff(20), true), (queued().undeletable(20), false)] {
        let plan = planned(10, asked(), fleet.clone());
        assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::WaitingForCleanup));
        assert_eq!(plan.outlook.moving, moving);
        let plan = planned(10, asked(), fleet.busy(Busy::Other));
        assert_eq!(plan.outlook.moving, moving, "nor while it is tried again");
    }
    let updating = fleet().cluster("dev1").work(Step::Platform, work(0).running());
    let updating = updating.record(record(Phase::Partial).stage(Stage::Platform, 0));
    assert!(planned(10, policy(), updating.undeletable(20)).outlook.moving);
}

/// What a previous upgrade has left is removed before a step begins, and before the step whose name it has goes on.
#[test]
fn deletions_for_a_takeover_that_stay_forbidden_are_told_as_stalled() {
    type Fleet = fn(bool) -> FleetBuilder;
    let queued = |terminating| {
        let queued = fleet().cluster("dev1").rival(RivalHold::Yielding);
        queued.step_work(Step::PreAction, StepWork::Rival { terminating })
    };
    let updated = |terminating| {
        let updated = fleet().cluster("dev1").rival(RivalHold::Yielding);
        let updated = updated.work(Step::Platform, work(0).succeeded());
        let updated = updated.record(record(Phase::Partial).stage(Stage::Platform, 0));
        updated.step_work(Step::Operators, StepWork::Rival { terminating })
    };
    let asked = || policy().operators();
    let cases: [(Phase, Fleet, &str); 2] = [
        (Phase::Pending, queued, "delete dev1/PreAction Superseded"),
        (Phase::Partial, updated, "delete dev1/Operators Superseded"),
    ];
    for (phase, fleet, deletion) in cases {
        let plan = planned(10, asked(), fleet(false).backoff(20));
        assert_eq!(stand(&plan, "dev1"), (phase, Reason::WriteFailed));
        assert!(plan.outlook.moving, "a human may have nothing to do");
        let plan = planned(10, asked(), fleet(false).undeletable(20));
        let said = &record_of(&plan, "dev1").message;
        assert!(said.contains("the hub rejected the write"), "{said}");
        let again = planned(10, asked(), fleet(false).undeletable(5));
        assert_eq!(writes(&again), [deletion]);
        let meanwhile = planned(10, asked(), fleet(true).undeletable(5).busy(Busy::Other));
        for plan in [plan, again, meanwhile] {
            assert_eq!(stand(&plan, "dev1"), (phase, Reason::WaitingForCleanup));
            assert!(!plan.outlook.moving);
            assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
        }
    }
}

/// Otherwise the upgrade would seem to move until the time of what holds the slot is over, which may be hours later.
#[test]
fn a_cluster_that_waits_for_a_slot_does_not_move_while_the_writes_of_all_that_hold_slots_stay_forbidden() {
    let updated = |name: &str| {
        let updated = fleet().cluster(name).work(Step::Platform, work(0).succeeded());
        updated.record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let asked = |slots| policy().operators().max_concurrency(slots);
    for (held, moving) in [
        (updated("dev1").backoff(20), true),
        (updated("dev1").forbidden(20), false),
        (updated("dev1").forbidden(20).busy(Busy::Starting), false),
    ] {
        let plan = planned(10, asked(1), held.cluster("dev2"));
        assert_eq!(stand(&plan, "dev1"), (Phase::Partial, Reason::WriteFailed));
        assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::WaitingForSlot));
        assert_eq!(plan.outlook.moving, moving);
        let stalled = (!moving).then_some(StallReason::ClustersBlocked);
        assert_eq!(plan.outlook.stalled, stalled);
    }
    let plan = planned(10, asked(2), updated("dev1").forbidden(20).cluster("dev2"));
    assert!(plan.outlook.moving, "a slot is free");
    let left = updated("dev1").forbidden(20).cluster("dev2").unreleased(1);
    let plan = planned(10, asked(2), left);
    assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForSlot);
    assert!(plan.outlook.moving, "a slot gets free");
}

/// A hub that forbids all writes forbids these deletions, too. Each time they are tried again, the upgrade would seem to move.
#[test]
fn what_cleans_up_after_a_cluster_that_is_over_moves_nothing() {
    let complete = record(Phase::Complete).succeeded(Stage::Platform, 0);
    let failed = record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout);
    for over in [complete, failed] {
        let over = || fleet().cluster("dev1").record(over.clone());
        let forbidden = |fleet: FleetBuilder| fleet.cluster("dev2").forbidden(20);
        let plan = planned(10, policy(), forbidden(over().busy(Busy::Other)));
        assert!(!plan.outlook.moving);
        assert!(plan.outlook.stalled.is_some());
        let plan = planned(10, policy(), forbidden(over().late(Step::Operators)));
        assert!(plan.outlook.moving, "a work of it may be on its way");
    }
}
