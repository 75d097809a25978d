//! What clusters say to the update before they start.

use super::{planned, record_of, stand, writes};
use crate::check::check;
use crate::model::{Phase, Preflight, Reason, RivalHold, Stage, StallReason, Step, StepWork};
use crate::planner::plan;
use crate::testing::{FleetBuilder, PolicyBuilder, at, fleet, policy, record, work};

const NOTHING: [&str; 0] = [];

fn not_offered() -> Preflight {
    Preflight::Blocked {
        reason: Reason::NotOffered,
        message: "4.12.0 is not offered".into(),
    }
}

fn pending() -> Preflight {
    Preflight::Unknown {
        reason: Reason::PreflightPending,
        message: "Not reported yet".into(),
    }
}

fn asked() -> PolicyBuilder {
    policy().requires_preflight()
}

#[test]
fn only_clusters_that_would_take_the_update_use_slots() {
    let mut fleet = fleet();
    for (name, answer) in [
        ("dev1", not_offered()),
        ("dev2", pending()),
        ("dev3", Preflight::NotAsked),
        ("dev4", Preflight::Ready),
    ] {
        fleet = fleet.cluster(name).preflight(answer);
    }
    let plan = planned(0, asked().max_concurrency(1), fleet);
    assert_eq!(writes(&plan), ["create dev4/Platform"]);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NotOffered));
    assert_eq!(&*record_of(&plan, "dev1").message, "4.12.0 is not offered");
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::PreflightPending));
    assert_eq!(stand(&plan, "dev3"), (Phase::Pending, Reason::PreflightPending));
    assert_eq!(plan.outlook.stalled, None);
}

#[test]
fn nothing_is_held_back_where_it_is_not_required() {
    for answer in [not_offered(), pending(), Preflight::NotAsked] {
        let plan = planned(0, policy(), fleet().cluster("dev1").preflight(answer));
        assert_eq!(writes(&plan), ["create dev1/Platform"]);
    }
    let operators = asked().operators().without(Step::Platform);
    let plan = planned(0, operators, fleet().cluster("dev1").preflight(not_offered()));
    assert_eq!(writes(&plan), ["create dev1/Operators"]);
}

#[test]
fn a_cluster_that_has_not_told_its_risks_waits_where_some_are_accepted_and_any_answer_starts_it() {
    for (answer, starts) in [
        (Preflight::NotAsked, false),
        (pending(), false),
        (not_offered(), true),
        (Preflight::Ready, true),
    ] {
        let fleet = fleet().cluster("dev1").preflight(answer);
        let plan = planned(0, policy().awaits_answers(), fleet);
        assert_eq!(!writes(&plan).is_empty(), starts);
    }
}

#[test]
fn the_pre_action_waits_for_the_answer_as_well() {
    let plan = planned(
        0,
        asked().pre_action(),
        fleet().cluster("dev1").preflight(pending()),
    );
    assert_eq!(writes(&plan), NOTHING);
}

#[test]
fn canaries_that_would_not_take_the_update_keep_the_rest_waiting() {
    let fleet = fleet()
        .cluster("dev1")
        .canary()
        .preflight(not_offered())
        .cluster("dev2")
        .preflight(Preflight::Ready);
    let plan = planned(0, asked().canaries(), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::WaitingForCanaries));
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
}

/// After its pre-action; the update is not requested yet.
fn prepared(answer: Preflight) -> FleetBuilder {
    fleet()
        .cluster("dev1")
        .record(record(Phase::PreAction))
        .work(Step::PreAction, work(0).succeeded())
        .preflight(answer)
}

#[test]
fn after_the_pre_action_the_update_is_requested_only_if_the_cluster_would_still_take_it() {
    let after = |answer| planned(0, asked().pre_action(), prepared(answer));
    assert_eq!(writes(&after(Preflight::Ready)), ["create dev1/Platform"]);

    let plan = after(not_offered());
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NotOffered));
    // The hub had rejected it before the pre-action.
    let again = prepared(not_offered()).refused(Step::Platform, 0);
    let plan = planned(0, asked().pre_action(), again);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(stand(&plan, "dev1"), (Phase::Blocked, Reason::NotOffered));

    for answer in [pending(), Preflight::NotAsked] {
        let plan = after(answer);
        assert_eq!(writes(&plan), NOTHING);
        let waits = (Phase::PreAction, Reason::PreflightPending);
        assert_eq!(stand(&plan, "dev1"), waits, "it keeps its slot");
    }

    let plan = after(Preflight::Stale);
    assert_eq!(writes(&plan), NOTHING);
    assert_eq!(plan.ask_again, ["dev1".into()]);
}

#[test]
fn the_time_of_an_update_does_not_begin_while_the_cluster_is_asked_again_after_its_pre_action() {
    let stale_image = || prepared(not_offered()).stale_image();
    for (policy, mut fleet) in [
        (policy(), prepared(Preflight::Stale)),
        (policy(), stale_image()),
        (policy().awaits_answers(), prepared(pending())),
        (asked(), prepared(Preflight::Stale)),
        (asked(), prepared(pending())),
        (asked(), prepared(Preflight::NotAsked)),
    ] {
        let policy = policy.pre_action().timeouts(60, 60);
        for seconds in [10, 100] {
            let plan = planned(seconds, policy.clone(), fleet.clone());
            assert_eq!(writes(&plan), NOTHING);
            assert_eq!(stand(&plan, "dev1"), (Phase::PreAction, Reason::PreflightPending));
            let told = record_of(&plan, "dev1").clone();
            assert_eq!(told.stage(Stage::Platform), None);
            fleet = fleet.record(told);
        }
        let answered = fleet.preflight(Preflight::Ready);
        let plan = planned(200, policy, answered);
        assert_eq!(writes(&plan), ["create dev1/Platform"]);
        let update = record_of(&plan, "dev1").stage(Stage::Platform);
        assert_eq!(update.map(|stage| stage.started), Some(at(200)));
    }
    // Nobody asks it while another upgrade holds it.
    let held = prepared(Preflight::NotAsked).rival(RivalHold::Active);
    // Nor after it has left the selection. It is not dropped while a work of it cannot be read.
    let spoiled = StepWork::Unreadable {
        what: "the attempt".into(),
        terminating: false,
    };
    let left = prepared(Preflight::NotAsked)
        .left(0)
        .step_work(Step::Operators, spoiled);
    for fleet in [held, left] {
        let plan = planned(10, asked().pre_action().timeouts(60, 60), fleet);
        let update = record_of(&plan, "dev1").stage(Stage::Platform);
        assert_eq!(update.map(|stage| stage.started), Some(at(10)));
    }
}

#[test]
fn a_request_that_may_be_on_its_way_is_repeated_whatever_the_cluster_says() {
    let doubtful = prepared(not_offered()).unsettled(Step::Platform);
    assert_eq!(
        writes(&planned(0, asked().pre_action(), doubtful)),
        ["create dev1/Platform"]
    );
}

#[test]
fn the_checker_refuses_a_request_after_the_pre_action_that_contradicts_the_answer() {
    let (now, policy) = (at(0), asked().pre_action().build());
    let ready = prepared(Preflight::Ready).build();
    let plan = plan(now, &policy, &ready);
    assert_eq!(check(now, &policy, &ready, &plan), []);
    for answer in [not_offered(), pending(), Preflight::NotAsked, Preflight::Stale] {
        let violations = check(now, &policy, &prepared(answer.clone()).build(), &plan);
        assert_eq!(violations.len(), 1, "{answer:?}: {violations:?}");
    }
}

#[test]
fn a_cluster_that_nothing_holds_back_is_asked_again_for_an_image_that_it_told_long_ago() {
    let fleet = || fleet().cluster("dev1").preflight(not_offered()).stale_image();
    let plan = planned(0, policy(), fleet());
    assert_eq!((writes(&plan).len(), plan.ask_again.len()), (0, 1));
    let plan = planned(0, policy().pre_action(), fleet());
    assert_eq!(writes(&plan), ["create dev1/PreAction"]);
    let plan = planned(0, policy().distrusted_clock(), fleet());
    assert_eq!(writes(&plan), ["create dev1/Platform"]);
}

#[test]
fn an_image_that_a_cluster_told_long_ago_is_asked_for_again_in_every_mode_but_not_before_the_pre_action() {
    let stale = || fleet().cluster("dev1").preflight(Preflight::Stale);
    let plan = planned(0, policy(), stale());
    assert_eq!((writes(&plan).len(), plan.ask_again.len()), (0, 1));
    let unknown_age = planned(0, policy().distrusted_clock(), stale());
    assert_eq!(writes(&unknown_age), ["create dev1/Platform"]);
    for policy in [policy(), asked()] {
        let plan = planned(0, policy.pre_action(), stale());
        assert_eq!(writes(&plan), ["create dev1/PreAction"]);
    }
}

/// What it said before its first attempt may not be so any more: a risk that was accepted then, or a gate.
#[test]
fn a_retry_needs_another_answer_unless_the_cluster_has_begun_the_update() {
    let fleet = |record| {
        fleet()
            .cluster("dev1")
            .record(record)
            .work(Step::Platform, work(0))
    };
    let again = || fleet(record(Phase::Pending).retry("again"));
    let made = planned(60, asked(), again());
    assert_eq!(writes(&made), NOTHING);
    assert_eq!(stand(&made, "dev1"), (Phase::Pending, Reason::PreflightPending));
    let made = planned(60, asked(), again().preflight(not_offered()));
    assert_eq!(stand(&made, "dev1"), (Phase::Blocked, Reason::NotOffered));
    let begun = again().work(Step::Platform, work(0).running());
    for answered in [again().preflight(Preflight::Ready), begun] {
        let made = planned(60, asked(), answered);
        assert_eq!(writes(&made), ["update dev1/Platform Retry"]);
    }
    let unanswered = again().build();
    let ready = again().preflight(Preflight::Ready).build();
    let started = plan(at(60), &asked().build(), &ready);
    assert_eq!(check(at(60), &asked().build(), &unanswered, &started).len(), 1);
    let edited = || fleet(record(Phase::Pending).revision("r2"));
    let other = asked().edited("r2", &[Step::Platform]);
    assert_eq!(writes(&planned(60, other, edited())), NOTHING);
    let unasked = policy().edited("r2", &[Step::Platform]);
    assert_eq!(writes(&planned(60, unasked, edited())).len(), 1);
}

#[test]
fn the_checker_refuses_a_start_that_contradicts_the_answer() {
    let fleet = |answer| fleet().cluster("dev1").preflight(answer).build();
    let (now, ready) = (at(0), fleet(Preflight::Ready));
    let plan = plan(now, &asked().build(), &ready);
    assert_eq!(check(now, &asked().build(), &ready, &plan), []);
    for answer in [not_offered(), pending(), Preflight::NotAsked] {
        let violations = check(now, &asked().build(), &fleet(answer.clone()), &plan);
        assert_eq!(violations.len(), 1, "{answer:?}: {violations:?}");
        assert_eq!(check(now, &policy().build(), &fleet(answer), &plan), []);
    }
}

#[test]
fn by_a_clock_that_is_not_trusted_nobody_is_asked_again_and_again() {
    let fleet = fleet().cluster("dev1").preflight(Preflight::Stale);
    let plan = planned(0, asked().distrusted_clock(), fleet);
    assert_eq!(writes(&plan), NOTHING);
    assert!(plan.ask_again.is_empty());
    assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::PreflightPending));
}

#[test]
fn where_risks_are_accepted_no_cluster_is_asked_without_its_image_because_of_the_clock() {
    let stale = || fleet().cluster("dev1").preflight(Preflight::Stale);
    let made = planned(0, policy().awaits_answers().distrusted_clock(), stale());
    assert_eq!(writes(&made), NOTHING);
    assert_eq!(stand(&made, "dev1"), (Phase::Pending, Reason::PreflightPending));
    let (now, distrusted) = (at(0), policy().awaits_answers().distrusted_clock().build());
    let ready = fleet().cluster("dev1").preflight(Preflight::Ready).build();
    let started = plan(now, &distrusted, &ready);
    assert_eq!(check(now, &distrusted, &stale().build(), &started).len(), 1);
}

#[test]
fn a_cluster_that_must_be_asked_again_keeps_its_slot_meanwhile() {
    let fleet = || {
        fleet()
            .cluster("dev1")
            .preflight(Preflight::Stale)
            .cluster("dev2")
            .preflight(Preflight::Stale)
            .cluster("dev3")
            .preflight(Preflight::Ready)
    };
    let plan = planned(0, asked().max_concurrency(1), fleet());
    assert_eq!(writes(&plan), NOTHING, "the others do not overtake it");
    assert_eq!(plan.ask_again, ["dev1".into()]);
    assert_eq!(stand(&plan, "dev1"), (Phase::Pending, Reason::PreflightPending));
    assert_eq!(stand(&plan, "dev2"), (Phase::Pending, Reason::WaitingForSlot));
    assert!(plan.outlook.moving);

    // One whose earlier works are removed first is passed over like any that cannot start now.
    let left = || work(0).revision("r0").succeeded();
    let leftover = fleet().cluster("dev0").preflight(Preflight::Stale);
    let leftover = leftover
        .work(Step::PostAction, left())
        .record(record(Phase::Pending));
    let plan = planned(0, asked().post_action().max_concurrency(1), leftover);
    assert_eq!(writes(&plan), ["delete dev0/PostAction Leftover"]);
    assert_eq!(plan.ask_again, ["dev1".into()]);

    let plan = planned(0, asked().max_concurrency(3), fleet());
    assert_eq!(writes(&plan), ["create dev3/Platform"]);
    assert_eq!(plan.ask_again, ["dev1".into(), "dev2".into()]);

    let plan = planned(0, asked().max_concurrency(3).paused(), fleet());
    assert!(
        plan.ask_again.is_empty(),
        "nobody is asked before it is their turn"
    );
}
