//! Which clusters may start: slots, canaries, failures, eligibility, rivals, foreign works.

use super::{planned, record_of, stand, writes};
use crate::model::{Busy, Fleet, Limit, Phase, Reason, RivalHold, Stage, StallReason, Step, StepWork};
use crate::planner::plan;
use crate::testing::{FleetBuilder, RecordBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

fn four() -> FleetBuilder {
    fleet()
        .cluster("dev1")
        .cluster("dev2")
        .cluster("dev3")
        .cluster("dev4")
}

fn failed() -> RecordBuilder {
    record(Phase::Failed).reason(Reason::ClusterUpgradeTimeout)
}

fn partial(fleet: FleetBuilder, name: &str) -> FleetBuilder {
    fleet
        .cluster(name)
        .work(Step::Platform, work(0).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
}

#[test]
fn clusters_start_by_name_as_many_as_slots_are_free() {
    let plan = planned(0, policy().max_concurrency(2), four());
    assert_eq!(writes(&plan), ["create dev1/Platform", "create dev2/Platform"]);
    assert_eq!(stand(&plan, "dev3"), (Phase::Pending, Reason::WaitingForSlot));
    assert_eq!(plan.summary.clusters.pending, 4);
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    let reversed = fleet()
        .cluster("dev4")
        .cluster("dev3")
        .cluster("dev2")
        .cluster("dev1");
    let asked = policy().max_concurrency(3);
    assert_eq!(
        writes(&planned(0, asked.clone(), four())),
        writes(&planned(0, asked, reversed))
    );
}

#[test]
fn a_start_under_way_holds_a_slot() {
    let fleet = fleet()
        .cluster("dev1")
        .busy(Busy::Starting)
        .cluster("dev2")
        .cluster("dev3");
    let plan = planned(0, policy().max_concurrency(2), fleet);
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
    assert_eq!(plan.summary.in_flight, 1);
}

#[test]
fn a_lower_max_concurrency_aborts_nothing_and_starts_nothing_until_there_is_room() {
    let running = (1..=4).fold(fleet(), |fleet, number| partial(fleet, &format!("dev{number}")));
    let plan = planned(10, policy().max_concurrency(1), running.cluster("dev5"));
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(plan.summary.clusters.partial, 4);
    assert_eq!(stand(&plan, "dev5").1, Reason::WaitingForSlot);
}

#[test]
fn a_percentage_is_of_all_clusters_rounded_up_and_at_least_one() {
    for (percent, size) in [(1, 1), (25, 1), (26, 2), (50, 2), (75, 3), (100, 4)] {
        let plan = planned(0, policy().max_concurrency_percent(percent), four());
        assert_eq!(writes(&plan).len(), size, "{percent}%");
        assert_eq!(plan.summary.max_concurrency, size);
    }
}

#[test]
fn failed_soaking_and_complete_clusters_hold_no_slot() {
    let fleet = fleet()
        .cluster("dev1")
        .work(Step::Platform, work(0))
        .record(failed())
        .cluster("dev2")
        .work(Step::Platform, work(0).succeeded().soak(5))
        .record(
            record(Phase::Soaking)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Soak, 5),
        )
        .cluster("dev3")
        .record(record(Phase::Complete))
        .cluster("dev4");
    let plan = planned(10, policy().max_concurrency(1).soak(30), fleet);
    assert_eq!(writes(&plan), ["create dev4/Platform"]);
}

#[test]
fn a_failure_frees_its_slot_only_when_it_is_written() {
    let failing = fleet()
        .cluster("dev1")
        .work(Step::Platform, work(0))
        .record(record(Phase::Initialized).stage(Stage::Platform, 0))
        .read(Step::Platform, 60)
        .cluster("dev2");
    let plan = planned(60, policy().max_concurrency(1).timeouts(60, 60), failing);
    assert_eq!(stand(&plan, "dev1").0, Phase::Failed);
    assert!(plan.clusters[0].urgent);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForSlot);
}

#[test]
fn while_paused_nothing_starts_and_what_is_in_flight_goes_on() {
    let fleet = fleet()
        .cluster("dev1")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("dev2");
    let plan = planned(10, policy().operators().paused(), fleet);
    assert_eq!(writes(&plan), ["create dev1/Operators"]);
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::Paused));
    assert!(plan.outlook.moving);

    let idle = planned(0, policy().paused(), four().unavailable());
    assert!(!idle.outlook.moving, "nothing will start without a human");
    assert_eq!(idle.outlook.stalled, None);
}

#[test]
fn after_an_invalid_edit_nothing_starts_and_what_is_in_flight_goes_on() {
    let fleet = fleet()
        .cluster("dev1")
        .work(Step::Platform, work(0).succeeded())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
        .cluster("dev2")
        .cluster("dev3")
        .work(Step::Platform, work(0))
        .record(record(Phase::Initialized).stage(Stage::Platform, 0));
    let policy = || policy().operators().timeouts(60, 60).invalid();
    let plan = planned(10, policy(), fleet.clone());
    assert_eq!(writes(&plan), ["create dev1/Operators"]);
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::InvalidSpec));
    let late = planned(60, policy(), fleet.read(Step::Platform, 60));
    assert_eq!(
        stand(&late, "dev3"),
        (Phase::Failed, Reason::ClusterUpgradeTimeout)
    );
}

#[test]
fn canaries_start_first_and_within_max_concurrency() {
    let fleet = fleet()
        .cluster("dev1")
        .cluster("dev2")
        .canary()
        .cluster("dev3")
        .canary();
    let plan = planned(0, policy().canaries().max_concurrency(1), fleet);
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
    assert_eq!(stand(&plan, "dev1").1, Reason::WaitingForCanaries);
    assert_eq!(stand(&plan, "dev3").1, Reason::WaitingForSlot);
    assert_eq!(plan.summary.canaries.total, 2);
}

#[test]
fn the_rest_waits_until_every_canary_is_complete() {
    let unfinished = [
        record(Phase::Blocked).reason(Reason::InvalidClusterID),
        record(Phase::Soaking)
            .succeeded(Stage::Platform, 0)
            .stage(Stage::Soak, 5),
        record(Phase::PostAction)
            .succeeded(Stage::Platform, 0)
            .stage(Stage::PostAction, 5),
    ];
    for (index, canary) in unfinished.into_iter().enumerate() {
        let fleet = fleet().cluster("dev1").canary();
        let fleet = match index {
            0 => fleet.blocked(Reason::InvalidClusterID),
            1 => fleet.work(Step::Platform, work(0).succeeded().soak(5)),
            _ => fleet.work(Step::PostAction, work(5).running()),
        };
        let fleet = fleet.record(canary).cluster("dev2");
        let plan = planned(10, policy().canaries().soak(30).post_action(), fleet);
        assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForCanaries, "{index}");
        assert_eq!(
            writes(&plan)
                .iter()
                .filter(|write| write.contains("dev2"))
                .count(),
            0
        );
    }
    let complete = fleet()
        .cluster("dev1")
        .canary()
        .record(record(Phase::Complete))
        .cluster("dev2");
    let plan = planned(10, policy().canaries(), complete);
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
}

#[test]
fn a_failed_canary_stops_all_starts_even_of_canaries() {
    let fleet = partial(
        fleet()
            .cluster("dev1")
            .canary()
            .work(Step::Platform, work(0))
            .record(failed())
            .cluster("dev2")
            .canary(),
        "dev3",
    )
    .canary()
    .cluster("dev4");
    let plan = planned(10, policy().canaries(), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev2").1, Reason::CanaryFailed);
    assert_eq!(stand(&plan, "dev3").0, Phase::Partial, "it finishes");
    assert_eq!(stand(&plan, "dev4").1, Reason::CanaryFailed);
    assert!(plan.outlook.moving);
}

#[test]
fn a_degraded_canary_stalls_the_rest() {
    let fleet = fleet()
        .cluster("dev1")
        .canary()
        .work(Step::PreAction, work(0).failed())
        .record(
            record(Phase::PreActionDegraded)
                .reason(Reason::PreActionFailed)
                .stage(Stage::PreAction, 0),
        )
        .cluster("dev2");
    let plan = planned(10, policy().canaries().pre_action(), fleet);
    assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForCanaries);
    assert_eq!(plan.outlook.stalled, Some(StallReason::CanaryFailed));
}

#[test]
fn a_canary_selector_that_matches_nothing_starts_nothing_and_says_so() {
    let plan = planned(0, policy().canaries(), four());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1").1, Reason::NoCanarySelected);
    assert!(plan.outlook.no_canary);
    assert_eq!(plan.outlook.stalled, Some(StallReason::NothingSelected));
}

#[test]
fn a_failed_canary_that_left_does_not_count_for_a_new_revision() {
    let fleet = fleet()
        .cluster("dev1")
        .canary()
        .left(0)
        .work(Step::Platform, work(0))
        .record(failed())
        .cluster("dev2")
        .canary()
        .record(record(Phase::Pending).revision("r2"));
    let plan = planned(100, policy().canaries().edited("r2", &[Step::Platform]), fleet);
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
}

#[test]
fn more_failures_than_allowed_stop_new_starts() {
    let fleet = || {
        partial(fleet(), "dev0")
            .cluster("dev1")
            .work(Step::Platform, work(0))
            .record(failed())
            .cluster("dev2")
            .work(Step::PreAction, work(0).failed())
            .record(
                record(Phase::PreActionDegraded)
                    .reason(Reason::PreActionFailed)
                    .stage(Stage::PreAction, 0),
            )
            .cluster("dev3")
    };
    let asked = || policy().pre_action();
    let plan = planned(10, asked().max_failures(Limit::Count(1)), fleet());
    assert_eq!(stand(&plan, "dev3").1, Reason::MaxFailuresExceeded);
    assert_eq!(stand(&plan, "dev0").0, Phase::Partial);
    for (limit, starts) in [
        (Limit::Count(2), 1),
        (Limit::Percent(25), 0),
        (Limit::Percent(26), 1),
    ] {
        let plan = planned(10, asked().max_failures(limit), fleet());
        assert_eq!(writes(&plan).len(), starts, "{limit:?}");
        assert_eq!(plan.starts_stopped, starts == 0, "{limit:?}");
    }
    let plan = planned(10, asked(), fleet());
    assert_eq!(writes(&plan), ["create dev3/PreAction"]);
}

#[test]
fn canaries_do_not_count_as_failures() {
    let fleet = fleet()
        .cluster("dev1")
        .canary()
        .work(Step::PreAction, work(0).failed())
        .record(
            record(Phase::PreActionDegraded)
                .reason(Reason::PreActionFailed)
                .stage(Stage::PreAction, 0),
        )
        .cluster("dev2")
        .canary();
    let asked = policy().pre_action().canaries().max_failures(Limit::Count(0));
    assert_eq!(writes(&planned(10, asked, fleet)), ["create dev2/PreAction"]);
}

#[test]
fn clusters_that_must_not_start_say_why_and_take_no_slot() {
    let fleet = fleet()
        .cluster("dev1")
        .blocked(Reason::InvalidClusterID)
        .cluster("dev2")
        .unavailable()
        .cluster("dev3");
    let plan = planned(0, policy().max_concurrency(1), fleet);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::InvalidClusterID));
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::ClusterUnavailable));
    assert_eq!(writes(&plan), ["create dev3/Platform"]);
    assert_eq!(plan.summary.clusters.pending, 3);
}

#[test]
fn a_blocked_cluster_starts_once_it_is_mended() {
    let fleet = fleet()
        .cluster("dev1")
        .record(record(Phase::Blocked).reason(Reason::InvalidClusterID));
    assert_eq!(writes(&planned(10, policy(), fleet)), ["create dev1/Platform"]);
}

#[test]
fn an_unavailable_cluster_in_flight_goes_on_holding_its_slot() {
    let fleet = partial(fleet(), "dev1").unavailable().cluster("dev2");
    let plan = planned(10, policy().max_concurrency(1), fleet);
    assert_eq!(stand(&plan, "dev1").0, Phase::Partial);
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_cluster_that_a_rival_holds_is_blocked_and_named() {
    for (hold, moving, text) in [
        (
            RivalHold::Active,
            true,
            "It starts when that upgrade is done with it.",
        ),
        (
            RivalHold::Stuck,
            false,
            "Resume, retry, approve, edit or delete that upgrade.",
        ),
        (RivalHold::Undeletable, false, "It is being deleted, "),
    ] {
        let plan = planned(0, policy(), fleet().cluster("dev1").rival(hold));
        assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::Conflict));
        let message = &record_of(&plan, "dev1").message;
        assert!(
            message.contains("other/upgrade") && message.contains(text),
            "{message}"
        );
        assert_eq!(plan.outlook.moving, moving);
    }
}

#[test]
fn a_rival_that_gives_way_loses_its_actions_first_and_its_platform_work_in_place() {
    let eligibility = StepWork::Rival { terminating: false };
    let kept = || {
        fleet()
            .cluster("dev1")
            .rival(RivalHold::Yielding)
            .step_work(Step::Platform, eligibility.clone())
    };
    let plan = planned(
        0,
        policy(),
        kept()
            .step_work(Step::Operators, eligibility.clone())
            .step_work(Step::PreAction, eligibility.clone()),
    );
    assert_eq!(
        writes(&plan),
        [
            "delete dev1/PreAction Superseded",
            "delete dev1/Operators Superseded"
        ]
    );
    assert_eq!(stand(&plan, "dev1").1, Reason::WaitingForCleanup);
    assert!(!plan.clusters[0].starting);
    let plan = planned(0, policy(), kept());
    assert_eq!(writes(&plan), ["update dev1/Platform TakeOver"]);
}

#[test]
fn nothing_of_a_rival_is_touched_before_the_cluster_may_start() {
    let eligibility = StepWork::Rival { terminating: false };
    let fleet = fleet()
        .cluster("dev1")
        .rival(RivalHold::Yielding)
        .step_work(Step::Platform, eligibility.clone())
        .step_work(Step::PostAction, eligibility);
    let plan = planned(0, policy().paused(), fleet);
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn a_work_of_an_upgrade_that_has_not_given_way_is_left_alone() {
    let fleet = fleet()
        .cluster("dev1")
        .step_work(Step::Platform, StepWork::Rival { terminating: false })
        .cluster("dev2")
        .step_work(Step::Platform, StepWork::Rival { terminating: true });
    let plan = planned(0, policy(), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::Conflict));
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::WaitingForCleanup));
}

#[test]
fn nothing_is_written_for_a_busy_cluster_or_inside_a_backoff() {
    let advancing = |fleet: FleetBuilder| {
        fleet
            .work(Step::Platform, work(0).succeeded())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let fleet = advancing(fleet().cluster("dev1").busy(Busy::Other));
    let fleet = advancing(fleet.cluster("dev2").backoff(12));
    let plan = planned(10, policy().operators(), fleet.clone());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev2").1, Reason::WriteFailed);
    assert_eq!(plan.wake_at, Some(at(12)));
    let plan = planned(12, policy().operators(), fleet);
    assert_eq!(writes(&plan), ["create dev2/Operators"]);
}

#[test]
fn no_cluster_selected_is_not_complete() {
    let plan = plan(at(0), &policy().build(), &Fleet::default());
    assert!(!plan.outlook.complete);
    assert_eq!(plan.outlook.stalled, Some(StallReason::NothingSelected));
    assert_eq!(plan.summary.clusters.total, 0);
}

#[test]
fn only_failed_or_blocked_clusters_left_means_stalled() {
    let plan = planned(
        10,
        policy(),
        fleet()
            .cluster("dev1")
            .record(failed())
            .cluster("dev2")
            .record(record(Phase::Complete)),
    );
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersFailed));
    let plan = planned(0, policy(), fleet().cluster("dev1").blocked(Reason::NotOpenShift));
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
}

/// A cluster for which a creation may have been carried out, and another one that waits.
fn unsettled() -> FleetBuilder {
    fleet().cluster("dev1").unsettled(Step::Platform).cluster("dev2")
}

#[test]
fn a_start_whose_outcome_is_not_known_holds_its_slot_until_it_is_tried_again() {
    let waiting = || {
        fleet()
            .cluster("dev1")
            .unsettled(Step::Platform)
            .backoff(20)
            .cluster("dev2")
    };
    let plan = planned(10, policy().max_concurrency(1), waiting());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(plan.summary.in_flight, 1);
    assert_eq!(stand(&plan, "dev1").1, Reason::WriteFailed);
    assert_eq!(stand(&plan, "dev2").1, Reason::WaitingForSlot);
    let plan = planned(20, policy().max_concurrency(1), waiting());
    assert_eq!(writes(&plan), ["create dev1/Platform"], "it needs no other slot");
    let plan = planned(20, policy().max_concurrency(2), waiting());
    assert_eq!(writes(&plan), ["create dev1/Platform", "create dev2/Platform"]);
}

#[test]
fn a_start_whose_outcome_is_not_known_is_looked_for_while_it_may_not_be_tried_again() {
    let plan = planned(10, policy().max_concurrency(1).paused(), unsettled());
    assert_eq!(writes(&plan), ["read dev1/Platform"]);
    assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::Paused));
    let unavailable = fleet().cluster("dev1").unavailable().unsettled(Step::Platform);
    assert_eq!(
        writes(&planned(10, policy(), unavailable)),
        ["read dev1/Platform"]
    );
    let edited = policy().pre_action();
    assert_eq!(
        writes(&planned(10, edited, unsettled())),
        ["read dev1/Platform", "create dev2/PreAction"],
        "another step waits"
    );
    let deleting = planned(10, policy().deleting(), unsettled());
    assert_eq!(writes(&deleting), ["read dev1/Platform"]);
}

#[test]
fn a_cluster_that_may_have_started_is_neither_dropped_nor_given_another_attempt() {
    let plan = planned(
        60,
        policy(),
        unsettled().cluster("dev3").left(0).unsettled(Step::Platform),
    );
    assert_eq!(plan.dropped, Vec::<std::sync::Arc<str>>::new());
    assert_eq!(stand(&plan, "dev3").1, Reason::LeftSelection);
    let revised = fleet()
        .cluster("dev1")
        .record(record(Phase::Pending).revision("r0"))
        .unsettled(Step::Platform);
    let plan = planned(60, policy(), revised);
    assert_eq!(writes(&plan), ["read dev1/Platform"]);
    assert_eq!(&*record_of(&plan, "dev1").attempt.revision, "r0");
    assert_eq!(stand(&plan, "dev1").1, Reason::WriteFailed);
}

#[test]
fn while_an_earlier_creation_may_be_carried_out_yet_a_cluster_keeps_its_slot_and_its_attempt() {
    let ended = |phase| {
        let record = record(phase).reason(Reason::ClusterUpgradeTimeout);
        let ended = fleet().cluster("dev1").record(record);
        ended.late(Step::Platform).cluster("dev2")
    };
    for phase in [Phase::Complete, Phase::Failed] {
        let plan = planned(60, policy().max_concurrency(1), ended(phase));
        assert_eq!(writes(&plan), NOTHING, "{phase:?}");
        assert_eq!(plan.summary.in_flight, 1);
    }
    let plan = planned(60, policy().max_concurrency(3), ended(Phase::Pending));
    assert_eq!(writes(&plan), ["create dev2/Platform"]);
    assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::WriteFailed));
    for step in [Step::PreAction, Step::PostAction] {
        let queued = fleet()
            .cluster("dev1")
            .record(record(Phase::Pending).revision("r0"))
            .late(step);
        let plan = planned(60, policy(), queued);
        assert_eq!(&*record_of(&plan, "dev1").attempt.revision, "r0", "{step:?}");
        assert_eq!(stand(&plan, "dev1").1, Reason::WriteFailed);
        let left = fleet().cluster("dev1").left(0).record(record(Phase::Pending));
        assert!(planned(60, policy(), left.late(step)).dropped.is_empty());
    }
}

#[test]
fn before_a_deadline_fails_a_cluster_its_work_is_read() {
    let late = || {
        fleet()
            .cluster("dev1")
            .work(Step::Platform, work(0).running())
            .record(record(Phase::Partial).stage(Stage::Platform, 0))
    };
    let asked = || policy().timeouts(60, 60);
    for fleet in [
        late(),
        late().read(Step::Platform, 59),
        late().read(Step::PreAction, 60),
    ] {
        let plan = planned(60, asked(), fleet);
        assert_eq!(writes(&plan), ["read dev1/Platform"]);
        assert_eq!(stand(&plan, "dev1"), (Phase::Partial, Reason::Running));
    }
    let plan = planned(60, asked(), late().busy(Busy::Other));
    assert_eq!(writes(&plan), NOTHING, "it is being read");
    let plan = planned(60, asked(), late().backoff(65));
    assert_eq!(
        (writes(&plan), plan.wake_at),
        (vec![], Some(at(65))),
        "the status failed"
    );
    let plan = planned(61, asked(), late().read(Step::Platform, 60));
    assert_eq!(
        stand(&plan, "dev1"),
        (Phase::Failed, Reason::ClusterUpgradeTimeout)
    );
    let gone = fleet()
        .cluster("dev1")
        .record(record(Phase::Partial).stage(Stage::Platform, 0));
    let plan = planned(60, asked(), gone);
    assert_eq!(writes(&plan), ["read dev1/Platform"]);
}
