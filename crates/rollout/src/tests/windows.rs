//! Maintenance windows gate starts, and nothing else.

use std::sync::Arc;

use api::maintenance::{Boundary, Zone};
use chrono::TimeDelta;

use super::violations::{create, refused};
use super::{plan_of, planned, record_of, stand};
use crate::check::ViolationKind;
use crate::maintenance::{Calendar, Exclusion, Window};
use crate::model::{Operation, Outcome, Phase, Plan, Preflight, Reason, Stage, StallReason, Step, StepWork};
use crate::testing::{at, fleet, policy, record, work};

pub(super) fn calendar(zone: &str, schedule: &str, length: TimeDelta, minimum: TimeDelta) -> Calendar {
    let window = Window {
        name: Arc::from("w"),
        schedule: schedule.parse().unwrap(),
        duration: length,
    };
    Calendar::new(Zone::named(zone).unwrap(), vec![Arc::new(window)], &[], minimum)
}

/// Open in one of two, three or more minutes, as tests count their time from midnight.
pub(super) fn of_minutes(kind: u8) -> Calendar {
    let schedule = format!("{}-59/{} * * * *", kind % 2, kind + 2);
    let minimum = TimeDelta::seconds(i64::from(kind) * 7);
    calendar("Asia/Kathmandu", &schedule, TimeDelta::seconds(60), minimum)
}

/// Open from the first hour of a test until the end of the second.
pub(super) fn second_hour() -> Calendar {
    calendar("UTC", "0 1 * * *", TimeDelta::hours(1), TimeDelta::zero())
}

fn starts(plan: &Plan) -> Vec<&str> {
    let creations = plan
        .operations
        .iter()
        .filter(|operation| matches!(operation, Operation::Create { .. }));
    creations.map(|operation| &**operation.cluster()).collect()
}

#[test]
fn a_cluster_starts_at_the_second_its_window_opens_and_not_after_it_has_closed() {
    let policy = policy().build();
    let fleet = fleet().cluster("a").calendar(second_hour()).cluster("b").build();
    for (seconds, may) in [
        (0, false),
        (3599, false),
        (3600, true),
        (7199, true),
        (7200, false),
    ] {
        let plan = plan_of(seconds, &policy, &fleet);
        let expected = if may { vec!["a", "b"] } else { vec!["b"] };
        assert_eq!(starts(&plan), expected, "at {seconds}");
    }
}

#[test]
fn a_closed_cluster_holds_no_slot_and_says_when_it_opens_in_its_own_zone() {
    let policy = policy().max_concurrency(1).build();
    let berlin = calendar(
        "Europe/Berlin",
        "0 22 * * *",
        TimeDelta::hours(6),
        TimeDelta::zero(),
    );
    let fleet = fleet().cluster("a").calendar(berlin).cluster("b").build();
    let plan = plan_of(12 * 3600, &policy, &fleet);
    assert_eq!(starts(&plan), ["b"]);
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForWindow));
    assert_eq!(
        &*plan.clusters[0].record.message,
        "The maintenance window of the cluster opens at 2024-10-04 22:00 +02:00 (Europe/Berlin), which is 2024-10-04T20:00:00Z"
    );
    assert_eq!(plan.wake_at, Some(at(20 * 3600)));
    assert_eq!(
        (plan.summary.waiting_for_window, plan.summary.next_opening),
        (1, plan.wake_at)
    );
    assert!(plan.outlook.moving && plan.outlook.stalled.is_none());
}

#[test]
fn what_runs_is_not_touched_when_the_window_closes() {
    let policy = policy().build();
    let running = fleet()
        .cluster("a")
        .calendar(second_hour())
        .work(Step::Platform, work(7100).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 7100));
    let plan = plan_of(7300, &policy, &running.build());
    assert_eq!(stand(&plan, "a").0, Phase::Partial);
    assert!(plan.operations.is_empty());
}

#[test]
fn an_update_is_not_requested_after_the_pre_action_when_the_window_has_closed() {
    let policy = policy().pre_action().max_concurrency(1).build();
    let done = || {
        fleet()
            .cluster("a")
            .calendar(second_hour())
            .work(Step::PreAction, work(7000).succeeded())
            .record(record(Phase::PreAction).stage(Stage::PreAction, 7000))
    };
    let open = plan_of(7199, &policy, &done().build());
    assert_eq!(starts(&open), ["a"]);
    let closed = plan_of(7200, &policy, &done().build());
    assert_eq!(starts(&closed), Vec::<&str>::new());
    assert_eq!(stand(&closed, "a"), (Phase::Pending, Reason::WaitingForWindow));
    assert!(closed.clusters[0].record.succeeded(Stage::PreAction));
    // Its slot is another one's once that is written, and it goes on with the update when the window opens.
    let requeued = fleet()
        .cluster("a")
        .calendar(second_hour())
        .work(Step::PreAction, work(7000).succeeded())
        .record((*closed.clusters[0].record).clone())
        .cluster("b");
    let plan = plan_of(7201, &policy, &requeued.clone().build());
    assert_eq!(starts(&plan), ["b"]);
    let plan = plan_of(24 * 3600 + 3600, &policy, &requeued.build());
    let Some(Operation::Create { cluster, step, .. }) = plan.operations.first() else {
        panic!("{:?}", plan.operations);
    };
    assert_eq!((&**cluster, *step), ("a", Step::Platform));
}

/// The leader that started it has written no row of that. Whoever leads next, and finds the window open, takes it for one in flight.
#[test]
fn a_start_without_a_row_keeps_its_slot_outside_a_window_until_the_end_of_its_pre_action_is_written() {
    let asked = || policy().pre_action().max_concurrency(1);
    let reopens = 24 * 3600 + 3600;
    // An agent can edit its work. A start that is far in the future is recorded as now.
    for start in [7000, 9000] {
        let begun = || {
            let b = fleet().cluster("a").cluster("b").calendar(second_hour());
            b.work(Step::PreAction, work(start).succeeded())
        };
        let untold = || begun().record(record(Phase::Pending).reason(Reason::Paused));
        let closed = planned(7200, asked(), untold());
        assert_eq!(stand(&closed, "a").1, Reason::WaitingForSlot);
        assert_eq!(stand(&closed, "b"), (Phase::Pending, Reason::WaitingForWindow));
        assert_eq!(super::writes(&closed), Vec::<String>::new());
        assert!(closed.clusters[1].urgent);
        let waits = || record_of(&closed, "b").clone();
        for seconds in [7201, reopens] {
            let plan = planned(seconds, asked(), untold().draft(waits()));
            assert_eq!(super::writes(&plan), Vec::<String>::new(), "at {seconds}");
            refused(
                ViolationKind::TooManySlots,
                seconds,
                asked(),
                untold().draft(waits()),
                |plan| plan.operations.push(create("a", Step::PreAction, seconds)),
            );
            let plan = planned(seconds, asked(), begun().record(waits()));
            assert_eq!(super::writes(&plan), ["create a/PreAction"], "at {seconds}");
        }
    }
}

#[test]
fn a_window_that_never_opens_needs_a_human() {
    let policy = policy().build();
    let short = calendar("UTC", "0 1 * * *", TimeDelta::hours(1), TimeDelta::hours(1));
    let plan = plan_of(0, &policy, &fleet().cluster("a").calendar(short).build());
    assert_eq!(stand(&plan, "a"), (Phase::Blocked, Reason::NoWindow));
    assert_eq!(plan.outlook.stalled, Some(StallReason::NoWindow));
    // Somebody may have written that into the row of a cluster that is done.
    let done = record(Phase::Complete).reason(Reason::NoWindow);
    let fleet = fleet().cluster("a").record(done.stage(Stage::Platform, 0));
    let plan = plan_of(
        0,
        &policy,
        &fleet.cluster("b").blocked(Reason::NotOpenShift).build(),
    );
    assert_eq!(plan.outlook.stalled, Some(StallReason::ClustersBlocked));
}

#[test]
fn what_a_cluster_without_windows_waits_for_after_its_pre_action_is_the_same_in_every_plan() {
    let short = || calendar("UTC", "0 1 * * *", TimeDelta::hours(1), TimeDelta::hours(1));
    let silent = || fleet().cluster("a").calendar(short()).unavailable();
    let prepared = || silent().work(Step::PreAction, work(0).succeeded());
    let asked = || policy().pre_action();
    let begun = record(Phase::PreAction).stage(Stage::PreAction, 0);
    let plan = planned(60, asked(), prepared().record(begun));
    let waits = (Phase::Pending, Reason::ClusterUnavailable);
    assert_eq!(stand(&plan, "a"), waits);
    let told = record_of(&plan, "a").clone();
    let plan = planned(61, asked(), prepared().record(told));
    assert_eq!(stand(&plan, "a"), waits);
}

#[test]
fn no_cluster_with_a_window_starts_while_the_clock_is_not_trusted() {
    let policy = policy().distrusted_clock().build();
    let fleet = fleet().cluster("a").calendar(second_hour()).cluster("b").build();
    let plan = plan_of(4000, &policy, &fleet);
    assert_eq!(starts(&plan), ["b"]);
    assert_eq!(stand(&plan, "a"), (Phase::Pending, Reason::WaitingForWindow));
}

#[test]
fn what_a_cluster_would_refuse_outweighs_its_window() {
    let policy = policy().requires_preflight().build();
    let refuses = Preflight::Blocked {
        reason: Reason::NotOffered,
        message: Arc::from("no"),
    };
    let closed = fleet().cluster("a").calendar(second_hour()).preflight(refuses);
    let plan = plan_of(0, &policy, &closed.build());
    assert_eq!(stand(&plan, "a").1, Reason::NotOffered);
    let stale = fleet()
        .cluster("a")
        .calendar(second_hour())
        .preflight(Preflight::Stale);
    let plan = plan_of(0, &policy, &stale.build());
    assert_eq!(stand(&plan, "a").1, Reason::WaitingForWindow);
    assert!(
        plan.ask_again.is_empty(),
        "nobody needs to know long before the window opens"
    );
}

/// By then it has answered, however short the window is.
#[test]
fn a_cluster_that_must_be_asked_again_is_asked_shortly_before_its_window_opens() {
    let asked = || policy().requires_preflight().max_concurrency(1);
    let closed = |answer| {
        let first = fleet().cluster("a").calendar(second_hour()).preflight(answer);
        let second = first.cluster("b").calendar(second_hour());
        second.preflight(Preflight::Stale).build()
    };
    let early = plan_of(3419, &asked().build(), &closed(Preflight::Stale));
    assert!(early.ask_again.is_empty());
    assert_eq!(early.wake_at, Some(at(3420)));

    let soon = plan_of(3420, &asked().build(), &closed(Preflight::Stale));
    assert_eq!(soon.ask_again, ["a".into()], "one for the slot that is free");
    assert_eq!(stand(&soon, "a"), (Phase::Pending, Reason::WaitingForWindow));
    assert_eq!(soon.summary.in_flight, 0);
    assert_eq!(soon.wake_at, Some(at(3600)));

    let answered = plan_of(3500, &asked().build(), &closed(Preflight::Ready));
    assert!(
        answered.ask_again.is_empty(),
        "the slot will be that of the first"
    );
    let paused = plan_of(3500, &asked().paused().build(), &closed(Preflight::Stale));
    assert!(paused.ask_again.is_empty());
    let opened = plan_of(3600, &asked().build(), &closed(Preflight::Ready));
    assert_eq!(starts(&opened), ["a"]);
}

#[test]
fn an_excluded_time_outweighs_a_window() {
    let boundary = |seconds| Boundary::Instant(api::time::to_jiff(at(seconds)));
    let exclusion = Exclusion {
        start: boundary(4000),
        end: boundary(5000),
    };
    let calendar = Calendar::new(Zone::UTC, Vec::new(), &[exclusion], TimeDelta::zero());
    let fleet = fleet().cluster("a").calendar(calendar).build();
    for (seconds, may) in [(3999, true), (4000, false), (4999, false), (5000, true)] {
        let plan = plan_of(seconds, &policy().build(), &fleet);
        assert_eq!(!starts(&plan).is_empty(), may, "at {seconds}");
    }
}

#[test]
fn the_checker_finds_a_start_outside_a_window_and_a_missed_opening() {
    let policy = policy().build();
    let open = fleet().cluster("a").build();
    let closed = fleet().cluster("a").calendar(second_hour()).build();
    let kinds = |plan: &Plan| {
        let found = crate::check::check(at(0), &policy, &closed, plan);
        found
            .into_iter()
            .map(|violation| violation.kind)
            .collect::<Vec<_>>()
    };
    let started = crate::plan(at(0), &policy, &open);
    assert_eq!(kinds(&started), [ViolationKind::StartedOutsideWindow]);
    let mut asleep = crate::plan(at(0), &policy, &closed);
    assert_eq!(kinds(&asleep), []);
    asleep.wake_at = Some(at(3601));
    assert_eq!(kinds(&asleep), [ViolationKind::WakeMissed]);
}

#[test]
fn operators_alone_are_not_requested_after_the_pre_action_when_the_window_has_closed() {
    let policy = policy().without(Step::Platform).pre_action().operators().build();
    let done = fleet()
        .cluster("a")
        .calendar(second_hour())
        .work(Step::PreAction, work(7000).succeeded())
        .record(record(Phase::PreAction).stage(Stage::PreAction, 7000));
    assert_eq!(starts(&plan_of(7199, &policy, &done.clone().build())), ["a"]);
    let closed = plan_of(7200, &policy, &done.clone().build());
    assert_eq!(starts(&closed), Vec::<&str>::new());
    assert_eq!(stand(&closed, "a"), (Phase::Pending, Reason::WaitingForWindow));
    // A blocker does not keep operators from following in flight, but any start.
    let blocked = done.blocked(Reason::InvalidClusterID).build();
    assert_eq!(starts(&plan_of(7199, &policy, &blocked)), ["a"]);
    let closed = plan_of(7200, &policy, &blocked);
    assert_eq!(stand(&closed, "a"), (Phase::Blocked, Reason::InvalidClusterID));
    assert!(closed.clusters[0].urgent);
}

#[test]
fn an_update_that_may_have_been_requested_is_read_and_not_requested_again_when_the_window_has_closed() {
    let policy = policy().pre_action().timeouts(200, 200).build();
    let unsettled = fleet()
        .cluster("a")
        .calendar(second_hour())
        .work(Step::PreAction, work(7000).succeeded())
        .record(
            record(Phase::PreAction)
                .succeeded(Stage::PreAction, 7000)
                .stage(Stage::Platform, 7190),
        )
        .unsettled(Step::Platform);
    let closed = plan_of(7300, &policy, &unsettled.clone().build());
    assert_eq!(super::writes(&closed), ["read a/Platform"]);
    assert_eq!(stand(&closed, "a"), (Phase::PreAction, Reason::WaitingForWindow));
    let waiting = record_of(&closed, "a").clone();
    let overdue = plan_of(7400, &policy, &unsettled.record(waiting).build());
    assert_eq!(super::writes(&overdue), ["read a/Platform"]);
    assert_eq!(overdue.wake_at, Some(at(86_400 + 3600)), "the window opens");
}

#[test]
fn the_time_of_an_update_does_not_begin_outside_a_window_while_a_creation_is_in_doubt() {
    let policy = policy().pre_action().timeouts(60, 60).build();
    let doubtful = fleet()
        .cluster("a")
        .calendar(second_hour())
        .work(Step::PreAction, work(7150).succeeded())
        .late(Step::PreAction)
        .record(record(Phase::PreAction).succeeded(Stage::PreAction, 7150));
    let closed = plan_of(7200, &policy, &doubtful.clone().build());
    assert_eq!(stand(&closed, "a"), (Phase::PreAction, Reason::WaitingForWindow));
    let record = super::record_of(&closed, "a");
    assert_eq!(record.stage(Stage::Platform), None);
    let later = plan_of(7260, &policy, &doubtful.record(record.clone()).build());
    assert_eq!(super::writes(&later), Vec::<String>::new());
    assert_eq!(stand(&later, "a"), (Phase::PreAction, Reason::WaitingForWindow));
}

/// What is left of an earlier attempt is changed for the update, which is a start all the same.
#[test]
fn an_update_that_changes_an_earlier_work_is_not_requested_after_the_pre_action_when_the_window_has_closed() {
    let policy = policy()
        .pre_action()
        .edited("r2", &[Step::PreAction, Step::Platform])
        .build();
    let done = fleet()
        .cluster("a")
        .calendar(second_hour())
        .work(Step::PreAction, work(7000).revision("r2").succeeded())
        .work(Step::Platform, work(100).succeeded())
        .record(
            record(Phase::PreAction)
                .revision("r2")
                .stage(Stage::PreAction, 7000),
        )
        .build();
    assert_eq!(
        super::writes(&plan_of(7199, &policy, &done)),
        ["update a/Platform Repoint"]
    );
    let closed = plan_of(7200, &policy, &done);
    assert_eq!(super::writes(&closed), Vec::<String>::new());
    assert_eq!(stand(&closed, "a"), (Phase::Pending, Reason::WaitingForWindow));
}

/// The obstacle is from before the pre-action, for example because the cluster was registered anew since.
#[test]
fn an_update_that_is_tried_again_is_not_requested_after_the_pre_action_when_the_window_has_closed() {
    let policy = policy().pre_action().build();
    let retry_at = at(7100);
    let rejected = StepWork::Refused {
        retry_at,
        message: Arc::from("it is invalid"),
    };
    let obstacles = [
        rejected,
        StepWork::Foreign { retry_at },
        StepWork::ForeignTerminating { retry_at },
        // It had succeeded in another attempt before somebody deleted it.
        StepWork::Ours(Arc::new(work(10).retry("former").succeeded().vanished().into())),
    ];
    for obstacle in obstacles {
        let done = || {
            fleet()
                .cluster("a")
                .calendar(second_hour())
                .work(Step::PreAction, work(7000).succeeded())
                .step_work(Step::Platform, obstacle.clone())
                .record(record(Phase::PreAction).stage(Stage::PreAction, 7000))
                .build()
        };
        let open = plan_of(7199, &policy, &done());
        assert_eq!(super::writes(&open), ["create a/Platform"], "{obstacle:?}");
        let closed = plan_of(7200, &policy, &done());
        assert_eq!(super::writes(&closed), Vec::<String>::new(), "{obstacle:?}");
        assert_eq!(stand(&closed, "a"), (Phase::Pending, Reason::WaitingForWindow));
        assert!(closed.clusters[0].record.succeeded(Stage::PreAction));
        // The checker has its own rule.
        let found = crate::check::check(at(7200), &policy, &done(), &open);
        let mut kinds = found.iter().map(|violation| violation.kind);
        assert!(kinds.any(|kind| kind == ViolationKind::StartedOutsideWindow));
    }
}

/// Somebody may have written that into its row. It stops nobody.
#[test]
fn a_cluster_that_is_done_waits_for_no_window_whatever_its_row_says() {
    let policy = policy().build();
    for phase in [Phase::Complete, Phase::Failed, Phase::Partial] {
        let done = record(phase)
            .reason(Reason::WaitingForWindow)
            .stage(Stage::Platform, 0);
        let fleet = fleet()
            .cluster("a")
            .calendar(second_hour())
            .record(done)
            .cluster("b")
            .build();
        let plan = plan_of(100, &policy, &fleet);
        assert!(starts(&plan).contains(&"b"), "{phase}");
        assert_eq!(plan.summary.waiting_for_window, 0, "{phase}");
    }
}

/// It waits for a human, and its pre-action is gone.
#[test]
fn a_cluster_whose_pre_action_is_degraded_waits_for_no_window_whatever_its_row_says() {
    let policy = policy().pre_action().build();
    let degraded = record(Phase::PreActionDegraded)
        .reason(Reason::WaitingForWindow)
        .done(Stage::PreAction, 0, Outcome::Failed);
    let fleet = fleet()
        .cluster("a")
        .calendar(second_hour())
        .record(degraded)
        .cluster("b")
        .build();
    let plan = plan_of(100, &policy, &fleet);
    assert_eq!(starts(&plan), ["b"]);
    assert_eq!(plan.summary.waiting_for_window, 0);
}

/// The pre-action and the update have ended in one reading, so that no record tells of the update yet. Somebody may have deleted its work
/// since.
#[test]
fn a_step_after_the_update_is_no_start_although_the_record_is_in_the_pre_action() {
    let policy = policy().pre_action().operators().build();
    let update = || work(7100).succeeded();
    for update in [update(), update().terminating(), update().vanished()] {
        let updated = fleet()
            .cluster("a")
            .calendar(second_hour())
            .work(Step::PreAction, work(7000).succeeded())
            .work(Step::Platform, update)
            .record(record(Phase::PreAction).succeeded(Stage::PreAction, 7000))
            .build();
        assert_eq!(
            super::writes(&plan_of(7300, &policy, &updated)),
            ["create a/Operators"]
        );
    }
}

/// It might begin the new update at once.
#[test]
fn an_edit_asks_a_cluster_in_flight_for_another_update_only_while_its_window_is_open() {
    let edited = || policy().edited("r2", &[Step::Platform]);
    let asked = |record: crate::Record| {
        let a = fleet().cluster("a").calendar(second_hour());
        a.work(Step::Platform, work(3700)).record(record).build()
    };
    let initialized = || record(Phase::Initialized).stage(Stage::Platform, 3700);
    let closed = plan_of(8000, &edited().build(), &asked(initialized().into()));
    let kept = record_of(&closed, "a").clone();
    assert_eq!((kept.phase, &*kept.attempt.revision), (Phase::Initialized, "r1"));
    assert!(closed.operations.is_empty());
    // The time of the earlier request is over before that.
    assert_eq!(closed.wake_at, Some(at(3700 + 10_800)));
    let slow = || edited().timeouts(1_000_000, 60);
    let closed = plan_of(8000, &slow().build(), &asked(initialized().into()));
    assert_eq!(closed.wake_at, Some(at(86_400 + 3600)), "the window opens");
    let mut asleep = closed;
    asleep.wake_at = Some(at(86_400 + 3601));
    let waiting = asked(initialized().into());
    let missed = crate::check::check(at(8000), &slow().build(), &waiting, &asleep);
    assert_eq!(missed[0].kind, ViolationKind::WakeMissed);
    let open = plan_of(3800, &edited().build(), &asked(initialized().into()));
    let announced = record_of(&open, "a").clone();
    assert_eq!(&*announced.attempt.revision, "r2");
    let open = plan_of(3801, &edited().build(), &asked(announced.clone()));
    assert_eq!(open.operations.len(), 1);
    // It has closed before the request was sent.
    let closed = plan_of(8000, &edited().build(), &asked(announced));
    assert!(closed.operations.is_empty());
    assert_eq!(
        stand(&closed, "a"),
        (Phase::Initialized, Reason::WaitingForWindow)
    );
}
