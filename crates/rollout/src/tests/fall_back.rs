//! Clusters that were queued again and left the selection (`docs/design/rules.md#leavers`).

use super::{planned, record_of, stand, writes};
use crate::model::{Phase, Reason, Stage, Step};
use crate::testing::{WorkBuilder, at, fleet, policy, record, work};

/// Somebody has deleted the work. If the cluster were queued, it would be dropped in the middle of its update.
#[test]
fn a_leaver_without_the_work_of_its_update_is_given_no_new_revision() {
    let r2 = || policy().edited("r2", &[Step::Platform]);
    for phase in [Phase::Initialized, Phase::Partial] {
        let updating = || {
            let row = record(phase).stage(Stage::Platform, 0);
            fleet().cluster("a").left(6).record(row)
        };
        let plan = planned(10, r2(), updating());
        assert_eq!(stand(&plan, "a"), (phase, Reason::LeftSelection));
        assert_eq!(plan.wake_at, Some(at(11)), "it may be selected again");
        let plan = planned(11, r2(), updating());
        assert!(plan.dropped.is_empty());
        assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::LeftSelection));
        let told = record_of(&plan, "a");
        assert_eq!(&*told.attempt.revision, "r1");
        assert!(
            told.message.contains("has no ManifestWork of step Platform"),
            "it may have left after the edit"
        );
        assert!(writes(&plan).is_empty());
    }
}

/// Its operators work was in the way of the next attempt and is gone. What could only follow proves that it had succeeded.
#[test]
fn a_queued_leaver_whose_operators_had_ended_falls_back_to_complete() {
    let r2 = policy().edited("r2", &[Step::Platform]);
    let left = || {
        fleet()
            .cluster("a")
            .left(0)
            .record(record(Phase::Pending).revision("r2"))
    };
    let platform = || left().work(Step::Platform, work(0).succeeded());
    let soaked = |seconds| left().work(Step::Platform, work(0).succeeded().soak(seconds));
    let ill = work(0).succeeded().soak(5).unhealthy();
    let ran = |work: WorkBuilder| left().work(Step::PostAction, work);
    for (fleet, is_complete) in [
        (soaked(5), true),
        (soaked(0), false),
        (soaked(1000), false),
        (left().work(Step::Platform, ill), false),
        (left().work(Step::Platform, work(0).running().soak(5)), false),
        (platform(), false),
        (platform().work(Step::Operators, work(1).succeeded()), true),
        (ran(work(9).succeeded()), true),
        (ran(work(9)), false),
        (ran(work(9).failed()), false),
    ] {
        let plan = planned(100, r2.clone().operators().post_action(), fleet);
        let end = if is_complete {
            (Phase::Complete, Reason::None)
        } else {
            (Phase::Failed, Reason::LeftSelection)
        };
        assert_eq!(stand(&plan, "a"), end);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(writes(&plan), [""; 0]);
    }
}

/// By its row it has given its slot back, and whoever starts anew finds it so, although its pre-action is still there.
#[test]
fn a_leaver_that_falls_back_takes_no_slot_for_a_pre_action_that_is_degraded_or_of_a_cluster_left_out() {
    let asked = || {
        let edited = policy().edited("r2", &[Step::Platform]);
        edited.pre_action().max_concurrency(1)
    };
    for phase in [Phase::PreActionDegraded, Phase::Skipped, Phase::Aborted] {
        let left = || {
            fleet()
                .cluster("a")
                .left(0)
                .work(Step::PreAction, work(50).revision("r2").failed())
                .work(Step::Platform, work(0).running())
                .record(record(phase).revision("r2").stage(Stage::PreAction, 50))
        };
        for (fleet, in_flight) in [(left(), 0), (left().slot_in_doubt(), 1)] {
            let plan = planned(100, asked(), fleet.cluster("b"));
            assert_eq!(
                stand(&plan, "a"),
                (Phase::Failed, Reason::LeftSelection),
                "{phase}"
            );
            assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
            let starts = writes(&plan).contains(&"create b/PreAction".to_owned());
            assert_eq!(starts, in_flight == 0, "{phase}");
            assert_eq!(plan.summary.in_flight, in_flight, "{phase}");
        }
    }
}

/// Its attempt had failed because of its worker pools, and the row that said so was overwritten when it was queued.
#[test]
fn a_queued_leaver_whose_worker_pools_may_be_behind_falls_back_to_a_failure() {
    let r2 = || policy().edited("r2", &[Step::Platform]).worker_pools(60);
    let left = |work: WorkBuilder| {
        let row = record(Phase::Pending).revision("r2");
        fleet()
            .cluster("a")
            .left(0)
            .record(row)
            .work(Step::Platform, work)
    };
    let updated = || work(0).succeeded();
    let behind = || left(updated()).pools_behind(Reason::PoolPaused, "MachineConfigPool is paused: worker");
    for (fleet, phase) in [
        (left(updated()), Phase::Failed),
        (behind(), Phase::Failed),
        // A soak comes only after them.
        (left(updated().soak(5)), Phase::Complete),
    ] {
        let plan = planned(100, r2(), fleet);
        assert_eq!(record_of(&plan, "a").phase, phase);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    }
}
