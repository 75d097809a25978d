//! The transitions between phases, one by one.

use std::sync::Arc;

use super::violations::{create, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind;
use crate::model::{Busy, Limit, Outcome, Phase, Reason, Record, Stage, Step, StepStatus};
use crate::testing::{at, fleet, policy, record, work};

#[test]
fn a_pending_cluster_starts_with_its_pre_action_if_one_is_defined() {
    let plan = planned(0, policy().pre_action(), fleet().cluster("a"));
    assert_eq!(writes(&plan), ["create a/PreAction"]);
    assert!(plan.clusters[0].starting);
}

#[test]
fn a_pending_cluster_starts_with_the_platform() {
    let plan = planned(0, policy().operators(), fleet().cluster("a"));
    assert_eq!(writes(&plan), ["create a/Platform"]);
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::None));
}

#[test]
fn a_pending_cluster_starts_with_the_operators_when_no_platform_is_asked_for() {
    let plan = planned(
        0,
        policy().operators().without(Step::Platform),
        fleet().cluster("a"),
    );
    assert_eq!(writes(&plan), ["create a/Operators"]);
}

#[test]
fn a_running_pre_action_lets_nothing_else_begin() {
    for status in [StepStatus::NotYet, StepStatus::Running] {
        let fleet = fleet()
            .cluster("a")
            .work(Step::PreAction, work(0).status(status))
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
        let plan = planned(10, policy().pre_action(), fleet);
        assert_eq!(writes(&plan), Vec::<String>::new());
        assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::Running));
    }
}

#[test]
fn a_pre_action_that_succeeded_is_followed_by_the_platform() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    let plan = planned(10, policy().pre_action(), fleet);
    assert_eq!(writes(&plan), ["create a/Platform"]);
    assert!(record_of(&plan, "a").succeeded(Stage::PreAction));
}

#[test]
fn a_pre_action_that_failed_is_degraded_and_holds_no_slot_once_that_is_written() {
    let a = || {
        fleet()
            .cluster("a")
            .work(Step::PreAction, work(0).failed())
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0))
            .cluster("b")
    };
    let asked = policy().pre_action().max_concurrency(1);
    let plan = planned(10, asked.clone(), a());
    assert_eq!(
        stand(&plan, "a"),
        (Phase::PreActionDegraded, Reason::PreActionFailed)
    );
    assert!(plan.clusters[0].urgent);
    assert_eq!(writes(&plan), Vec::<String>::new());

    let written = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).failed())
        .record(
            record(Phase::PreActionDegraded)
                .reason(Reason::PreActionFailed)
                .stage(Stage::PreAction, 0),
        )
        .cluster("b");
    let plan = planned(10, asked, written);
    assert_eq!(writes(&plan), ["create b/PreAction"]);
}

#[test]
fn a_pre_action_that_timed_out_is_degraded_exactly_at_its_deadline() {
    let a = || {
        fleet()
            .cluster("a")
            .work(Step::PreAction, work(0).running())
            .record(record(Phase::PreAction).stage(Stage::PreAction, 0))
    };
    let asked = policy().pre_action().timeouts(60, 60);
    let plan = planned(59, asked.clone(), a());
    assert_eq!(stand(&plan, "a").0, Phase::PreAction);
    assert_eq!(plan.wake_at, Some(at(60)));
    let plan = planned(60, asked, a().read(Step::PreAction, 60));
    assert_eq!(
        stand(&plan, "a"),
        (Phase::PreActionDegraded, Reason::PreActionTimeout)
    );
}

#[test]
fn a_degraded_pre_action_that_recovers_queues_for_a_slot() {
    let degraded = || {
        record(Phase::PreActionDegraded)
            .reason(Reason::PreActionFailed)
            .stage(Stage::PreAction, 0)
    };
    let asked = || policy().pre_action().max_concurrency(1);
    let busy = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .record(degraded())
        .cluster("b")
        .work(Step::PreAction, work(5))
        .record(record(Phase::PreAction).stage(Stage::PreAction, 5));
    let plan = planned(20, asked(), busy);
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForSlot));

    let free = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .record(degraded());
    let plan = planned(20, asked(), free.clone());
    assert_eq!(writes(&plan), ["create a/Platform"]);
    assert!(plan.clusters[0].starting);
    let plan = planned(20, asked().paused(), free.clone());
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::Paused));
    let breach = free
        .cluster("b")
        .record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout));
    let plan = planned(20, asked().max_failures(Limit::Count(0)), breach);
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::MaxFailuresExceeded));
}

#[test]
fn an_initialized_cluster_follows_the_feedback_of_its_platform_work() {
    let table = [
        (StepStatus::NotYet, Phase::Initialized),
        (StepStatus::OtherVersion, Phase::Initialized),
        (StepStatus::Running, Phase::Partial),
        (StepStatus::Succeeded, Phase::Complete),
    ];
    for (status, expected) in table {
        let fleet = fleet()
            .cluster("a")
            .work(Step::Platform, work(0).status(status))
            .record(record(Phase::Initialized).stage(Stage::Platform, 0));
        let plan = planned(10, policy(), fleet);
        assert_eq!(record_of(&plan, "a").phase, expected);
        assert_eq!(plan.summary.clusters.initialized, 1);
        assert_eq!(
            plan.summary.clusters.partial,
            usize::from(expected == Phase::Partial)
        );
    }
}

#[test]
fn a_partial_cluster_goes_on_to_operators_to_the_soak_or_is_complete() {
    let partial = || {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let plan = planned(10, policy().operators(), partial());
    assert_eq!(writes(&plan), ["create a/Operators"]);
    let plan = planned(10, policy().soak(30), partial());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    assert_eq!(writes(&plan), ["soak a/Platform"]);
    assert_eq!(plan.wake_at, Some(at(40)));
    assert_eq!(plan.summary.in_flight, 0);
    let plan = planned(10, policy(), partial());
    assert_eq!(stand(&plan, "a"), (Phase::Complete, Reason::None));
    assert!(plan.outlook.complete);
}

#[test]
fn a_platform_step_out_of_time_fails_exactly_at_its_deadline() {
    for (before, status) in [
        (Phase::Initialized, StepStatus::NotYet),
        (Phase::Partial, StepStatus::Running),
    ] {
        let a = || {
            fleet()
                .cluster("a")
                .work(Step::Platform, work(0).status(status.clone()))
                .record(record(before).stage(Stage::Platform, 0))
        };
        let asked = policy().timeouts(60, 60);
        let plan = planned(59, asked.clone(), a());
        assert_eq!(record_of(&plan, "a").phase, before);
        assert_eq!(plan.wake_at, Some(at(60)));
        let plan = planned(60, asked, a().read(Step::Platform, 60));
        assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
        let stage = record_of(&plan, "a").stage(Stage::Platform).unwrap();
        assert_eq!(stage.outcome, Some(Outcome::Failed));
        assert_eq!(stage.finished, Some(at(60)));
    }
}

#[test]
fn feedback_wins_over_a_deadline_in_the_same_observation() {
    let platform = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    let plan = planned(1000, policy().timeouts(60, 60), platform);
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
    let operators = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .work(Step::Operators, work(0).succeeded())
        .record(
            record(Phase::Operators)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Operators, 0),
        );
    let plan = planned(1000, policy().operators().timeouts(60, 60), operators);
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
    let pre_action = fleet()
        .cluster("a")
        .work(Step::PreAction, work(0).succeeded())
        .record(record(Phase::PreAction).stage(Stage::PreAction, 0));
    let plan = planned(1000, policy().pre_action().timeouts(60, 60), pre_action);
    assert_eq!(writes(&plan), ["create a/Platform"]);
}

#[test]
fn operators_end_as_their_job_does() {
    let failed = StepStatus::Failed("no plan".into());
    let table = [
        (StepStatus::NotYet, 30, Phase::Operators, Reason::Running),
        (StepStatus::Running, 30, Phase::Operators, Reason::Running),
        (StepStatus::Succeeded, 30, Phase::Complete, Reason::None),
        (failed, 30, Phase::Failed, Reason::OperatorsJobFailed),
        (
            StepStatus::MaybeFailed(at(16)),
            30,
            Phase::Operators,
            Reason::Running,
        ),
        (
            StepStatus::MaybeFailed(at(15)),
            30,
            Phase::Failed,
            Reason::OperatorsJobFailed,
        ),
        (
            StepStatus::Running,
            60,
            Phase::Failed,
            Reason::OperatorsUpgradeTimeout,
        ),
    ];
    for (status, seconds, phase, reason) in table {
        let fleet = fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .work(Step::Operators, work(0).status(status.clone()))
            .read(Step::Operators, seconds)
            .record(
                record(Phase::Operators)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Operators, 0),
            );
        let plan = planned(seconds, policy().operators().timeouts(600, 60), fleet);
        assert_eq!(stand(&plan, "a"), (phase, reason), "{status:?}");
        if status == StepStatus::MaybeFailed(at(16)) {
            assert_eq!(plan.wake_at, Some(at(31)));
        }
    }
}

#[test]
fn a_soaking_cluster_is_complete_when_min_success_time_is_over() {
    let soaking = || {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded().soak(10))
            .record(
                record(Phase::Soaking)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Soak, 10),
            )
    };
    let plan = planned(39, policy().soak(30), soaking());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    let plan = planned(40, policy().soak(30), soaking());
    assert_eq!(stand(&plan, "a"), (Phase::Complete, Reason::None));
    let plan = planned(11, policy(), soaking());
    assert_eq!(stand(&plan, "a"), (Phase::Complete, Reason::None));
}

#[test]
fn a_soaking_cluster_that_fails_or_changes_its_version_has_regressed() {
    let works = [
        work(0).succeeded().unhealthy(),
        work(0).status(StepStatus::OtherVersion),
    ];
    for work in works {
        // A report counts, whatever the time is.
        for policy in [policy().soak(30), policy().soak(30).distrusted_clock()] {
            let fleet = fleet()
                .cluster("a")
                .work(Step::Platform, work.clone().soak(10))
                .record(
                    record(Phase::Soaking)
                        .succeeded(Stage::Platform, 0)
                        .stage(Stage::Soak, 10),
                );
            let plan = planned(20, policy, fleet);
            assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::RegressedInSoak));
        }
    }
}

#[test]
fn a_complete_cluster_gets_its_post_action_without_a_slot() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("b");
    let plan = planned(10, policy().post_action().max_concurrency(1), fleet);
    assert_eq!(stand(&plan, "a").0, Phase::PostAction);
    assert_eq!(writes(&plan), ["create a/PostAction", "create b/Platform"]);
    assert_eq!(plan.summary.clusters.complete, 1);
    assert_eq!(plan.summary.post_action.total, 1);
    assert!(!plan.outlook.complete);
}

#[test]
fn an_operators_work_that_an_edit_left_over_is_deleted_once() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .work(Step::Operators, work(10).revision("r0").running())
        .record(record(Phase::PostAction).succeeded(Stage::Platform, 0));
    let deletions = ["delete a/Operators Leftover", "delete a/Platform Complete"];
    let plan = planned(20, policy().post_action(), fleet);
    assert_eq!(writes(&plan)[1..], deletions);
}

#[test]
fn a_post_action_ends_complete_or_failed() {
    let failed = StepStatus::Failed("unhealthy".into());
    let table = [
        (StepStatus::Running, 10, Phase::PostAction, Reason::Running),
        (StepStatus::Succeeded, 100, Phase::Complete, Reason::None),
        (failed, 10, Phase::Failed, Reason::PostActionFailed),
        (StepStatus::Running, 60, Phase::Failed, Reason::PostActionTimeout),
    ];
    for (status, seconds, phase, reason) in table {
        let fleet = fleet()
            .cluster("a")
            .work(Step::PostAction, work(0).status(status))
            .read(Step::PostAction, seconds)
            .record(
                record(Phase::PostAction)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::PostAction, 0),
            );
        let plan = planned(seconds, policy().post_action().timeouts(60, 60), fleet);
        assert_eq!(stand(&plan, "a"), (phase, reason));
    }
}

#[test]
fn a_failed_post_action_recovers_while_its_work_exists() {
    let failed = record(Phase::Failed)
        .reason(Reason::PostActionFailed)
        .succeeded(Stage::Platform, 0)
        .stage(Stage::PostAction, 0);
    let recovered = fleet()
        .cluster("a")
        .work(Step::PostAction, work(0).succeeded())
        .record(failed.clone());
    let plan = planned(10, policy().post_action(), recovered);
    assert_eq!(stand(&plan, "a"), (Phase::Complete, Reason::None));
    let deleted = fleet().cluster("a").record(failed);
    let plan = planned(10, policy().post_action(), deleted);
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::PostActionFailed));
    assert_eq!(writes(&plan), Vec::<String>::new());
}

#[test]
fn a_failed_cluster_stays_failed_whatever_its_feedback_says_later() {
    let fleet = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout).done(
            Stage::Platform,
            0,
            Outcome::Failed,
        ));
    let plan = planned(100, policy(), fleet);
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
    assert_eq!(writes(&plan), Vec::<String>::new());
}

#[test]
fn a_new_revision_queues_done_clusters_again_after_announcing_it() {
    let table = [
        (Phase::Soaking, Reason::Soaking),
        (Phase::Complete, Reason::None),
        (Phase::Failed, Reason::ClusterUpgradeTimeout),
    ];
    for (phase, reason) in table {
        let fleet = fleet().cluster("a").record(
            record(phase)
                .reason(reason)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Soak, 0),
        );
        let asked = policy().edited("r2", &[Step::Platform]);
        let plan = planned(10, asked, fleet);
        let record = record_of(&plan, "a");
        assert_eq!(record.phase, Phase::Pending);
        assert_eq!(&*record.attempt.revision, "r2");
        assert!(record.stages.iter().all(Option::is_none));
        assert!(plan.clusters[0].urgent);
        assert_eq!(writes(&plan), Vec::<String>::new(), "not announced yet");
    }
}

/// If a new attempt began, the work that is on its way would count as a leftover, which holds no slot.
#[test]
fn a_cluster_whose_next_step_may_be_on_its_way_is_queued_again_only_when_that_is_known() {
    let edited = || policy().operators().edited("r2", &[Step::Platform]);
    let upgraded = || {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    for waits in [
        upgraded().busy(Busy::Starting),
        upgraded().unsettled(Step::Operators),
    ] {
        let plan = planned(50, edited(), waits);
        assert_eq!(stand(&plan, "a").0, Phase::Partial);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(plan.summary.in_flight, 1);
    }
    let landed = upgraded().work(Step::Operators, work(40).running());
    let plan = planned(50, edited(), landed);
    assert_eq!(stand(&plan, "a").0, Phase::Operators);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
    let plan = planned(50, edited(), upgraded());
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2");
}

#[test]
fn a_cluster_whose_update_may_be_on_its_way_is_queued_again_for_another_pre_action_only_when_that_is_known() {
    let edited = || policy().pre_action().edited("r2", &[Step::PreAction]);
    let backed_up = || {
        fleet()
            .cluster("a")
            .work(Step::PreAction, work(0).succeeded())
            .record(record(Phase::PreAction).succeeded(Stage::PreAction, 0))
    };
    for waits in [
        backed_up().busy(Busy::Starting),
        backed_up().unsettled(Step::Platform),
    ] {
        let plan = planned(50, edited(), waits);
        assert_eq!(stand(&plan, "a").0, Phase::PreAction);
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r1");
        assert_eq!(plan.summary.in_flight, 1);
    }
    let landed = backed_up().work(Step::Platform, work(40).running());
    let plan = planned(50, edited(), landed);
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    let plan = planned(50, edited(), backed_up());
    assert_eq!(stand(&plan, "a").0, Phase::Pending);
    assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2");
}

/// The edit may be taken back. A controller that restarts before the row is written then finds the cluster in flight by its works.
#[test]
fn an_edit_before_the_row_of_a_start_frees_its_slot_only_when_that_is_written() {
    let one = || policy().max_concurrency(1);
    let of_r0 = |phase: Phase| record(phase).revision("r0");
    let begun = |step: Step| {
        let work = work(0).revision("r0").succeeded();
        fleet().cluster("a").unavailable().work(step, work)
    };
    let backed_up = begun(Step::PreAction).draft(of_r0(Phase::PreAction).stage(Stage::PreAction, 0));
    let updated = begun(Step::Platform).draft(of_r0(Phase::Partial).stage(Stage::Platform, 0));
    let queued = begun(Step::PreAction).draft(record(Phase::Pending));
    let by_its_row = begun(Step::PreAction).record(of_r0(Phase::Pending));
    let by_its_row = by_its_row.draft(record(Phase::Pending));
    let degraded = of_r0(Phase::PreActionDegraded).stage(Stage::PreAction, 0);
    let recovered = begun(Step::Platform).record(degraded.clone());
    let recovered = recovered.draft(record(Phase::Pending));
    for unwritten in [backed_up, updated, queued, by_its_row, recovered] {
        let fleet = unwritten.cluster("b");
        let plan = planned(10, one(), fleet.clone());
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::ClusterUnavailable));
        assert_eq!(stand(&plan, "b").1, Reason::WaitingForSlot);
        assert!(writes(&plan).is_empty());
        assert!(plan.clusters[0].urgent);
        refused(ViolationKind::TooManySlots, 10, one(), fleet, |plan| {
            plan.operations.push(create("b", Step::Platform, 10));
        });
    }
    let written = begun(Step::PreAction).record(record(Phase::Pending));
    let plan = planned(11, one(), written.cluster("b"));
    assert_eq!(
        writes(&plan),
        ["delete a/PreAction Leftover", "create b/Platform"]
    );
    let is_degraded = begun(Step::PreAction).record(degraded);
    let is_degraded = is_degraded.draft(record(Phase::Pending));
    let plan = planned(11, one(), is_degraded.cluster("b"));
    assert_eq!(
        writes(&plan),
        ["create b/Platform"],
        "it holds no slot by its row"
    );
}

/// A leader that ended since may have known of the end, and have given the slot to another cluster.
#[test]
fn a_cluster_whose_end_no_row_tells_of_is_queued_again_for_edited_operators() {
    let edited = || {
        let asked = policy().operators().max_concurrency(1);
        asked.edited("r2", &[Step::Operators])
    };
    let updated = |phase: Phase| {
        let before = record(phase).stage(Stage::Platform, 0);
        let a = fleet().cluster("a").work(Step::Platform, work(0).succeeded());
        match phase {
            Phase::Operators => a
                .work(Step::Operators, work(20).succeeded())
                .record(before.succeeded(Stage::Platform, 0).stage(Stage::Operators, 20)),
            _ => a.record(before),
        }
    };
    for phase in [Phase::Initialized, Phase::Partial, Phase::Operators] {
        let beside = updated(phase)
            .cluster("b")
            .work(Step::Platform, work(40).running())
            .record(record(Phase::Partial).stage(Stage::Platform, 40));
        let plan = planned(50, edited(), beside);
        assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForSlot));
        assert_eq!(&*record_of(&plan, "a").attempt.revision, "r2");
        assert!(plan.clusters[0].urgent, "{phase:?}");
        assert!(writes(&plan).is_empty(), "{phase:?}");
    }
    // By its row it is between two steps, and has kept its slot.
    let between = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).succeeded(Stage::Platform, 0));
    assert_eq!(stand(&planned(50, edited(), between), "a").0, Phase::Partial);
    // Without operators, nothing follows that takes a slot.
    let plan = planned(
        50,
        policy().edited("r2", &[]).post_action(),
        updated(Phase::Partial),
    );
    assert_eq!(stand(&plan, "a").0, Phase::PostAction);
}

/// A cluster that claimed the target when its attempt began may claim something else once its platform work is deleted.
#[test]
fn a_version_that_shows_only_after_the_update_is_not_noted_as_the_one_before_it() {
    let updated = |phase| record(phase).succeeded(Stage::Platform, 0);
    for (known, expected) in [
        (record(Phase::Pending), "4.11.1"),
        (updated(Phase::Pending), ""),
        (updated(Phase::Soaking).stage(Stage::Soak, 5), ""),
        (updated(Phase::PostAction).stage(Stage::PostAction, 5), ""),
    ] {
        let mut known = Record::from(known);
        known.from_version = Arc::from("");
        let (phase, stages) = (known.phase, known.stages);
        let fleet = fleet().cluster("a").version("4.11.1").record(known);
        let plan = planned(10, policy().operators().post_action().soak(30), fleet);
        let noted = &record_of(&plan, "a").from_version;
        assert_eq!(&**noted, expected, "{phase:?} {stages:?}");
    }
}
