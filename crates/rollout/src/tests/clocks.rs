//! How wrong clocks, and agents that edit times, affect a plan: clocks that are not trusted, starts in the future,
//! edited starts.

use std::sync::Arc;

use chrono::TimeDelta;

use super::violations::{change, create, partial, refused};
use super::{planned, record_of, stand, writes};
use crate::check::ViolationKind as Kind;
use crate::model::{
    Busy, Operation, Outcome, Phase, Plan, Reason, Record, Stage, Step, StepRecord, StepStatus, Work,
};
use crate::testing::{FleetBuilder, RecordBuilder, at, fleet, policy, record, work};

/// A cluster in flight whose work has a clock that started at this time (seconds).
fn in_flight(started: i64) -> FleetBuilder {
    fleet()
        .cluster("a")
        .work(Step::Platform, work(started).running())
        .record(record(Phase::Partial).stage(Stage::Platform, 0))
}

#[test]
fn no_deadline_fires_by_a_clock_that_is_not_trusted() {
    let late = || in_flight(0).read(Step::Platform, 100);
    let asked = || policy().timeouts(60, 60);
    let plan = planned(100, asked().distrusted_clock(), late());
    assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::Running));
    assert_eq!(writes(&plan), Vec::<String>::new());
    let plan = planned(100, asked(), late());
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
}

#[test]
fn a_work_whose_attempt_and_start_an_agent_edits_moves_no_deadline() {
    let edited = |read: bool| {
        let edited = fleet()
            .cluster("a")
            .work(Step::Platform, work(1_000_000_000).revision("beef").running())
            .record(record(Phase::Partial).stage(Stage::Platform, 0));
        let edited = if read {
            edited.read(Step::Platform, 60)
        } else {
            edited
        };
        edited.cluster("b")
    };
    let asked = || policy().timeouts(60, 60).max_concurrency(2);
    let plan = planned(30, asked(), edited(false));
    assert_eq!(plan.wake_at, Some(at(60)));
    assert_eq!(writes(&plan), ["create b/Platform"], "the others continue");
    let plan = planned(60, asked(), edited(true));
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::ClusterUpgradeTimeout));
}

#[test]
fn no_job_counts_as_failed_by_a_clock_that_is_not_trusted() {
    let maybe_failed = || {
        let since = StepStatus::MaybeFailed(at(10));
        fleet()
            .cluster("a")
            .work(Step::Operators, work(0).status(since))
            .record(
                record(Phase::Operators)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Operators, 0),
            )
    };
    let asked = || policy().operators();
    let plan = planned(40, asked().distrusted_clock(), maybe_failed());
    assert_eq!(stand(&plan, "a").0, Phase::Operators);
    let plan = planned(40, asked(), maybe_failed());
    assert_eq!(stand(&plan, "a"), (Phase::Failed, Reason::OperatorsJobFailed));
}

#[test]
fn no_soak_ends_by_a_clock_that_is_not_trusted() {
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
    let plan = planned(100, policy().soak(30).distrusted_clock(), soaking());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    let plan = planned(100, policy().soak(30), soaking());
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
}

/// An earlier leader, whose clock was trusted, has ended the soak and died before it wrote the row.
#[test]
fn a_post_action_proves_that_the_soak_is_over_whatever_the_clock_says() {
    let followed = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded().soak(10))
        .work(Step::PostAction, work(41).running())
        .record(
            record(Phase::Soaking)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Soak, 10),
        );
    let asked = || policy().post_action().soak(30).distrusted_clock();
    let plan = planned(50, asked(), followed.clone());
    assert_eq!(stand(&plan, "a").0, Phase::PostAction);
    assert!(record_of(&plan, "a").succeeded(Stage::Soak));
    // Somebody has deleted it since.
    let deleted = work(41).succeeded().terminating();
    let plan = planned(50, asked(), followed.work(Step::PostAction, deleted));
    assert_eq!(stand(&plan, "a").0, Phase::Complete);
}

/// A write without an answer takes half a minute. If its leader dies meanwhile, the next one goes by the row.
#[test]
fn no_clock_of_a_next_step_begins_while_another_write_keeps_it_from_being_asked_for() {
    let asked = || policy().post_action().soak(20);
    let soaked = || {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded())
            .record(
                record(Phase::Soaking)
                    .succeeded(Stage::Platform, 0)
                    .stage(Stage::Soak, 10),
            )
    };
    for waits in [
        soaked().busy(Busy::Other),
        soaked().backoff(40),
        soaked().unsettled(Step::Platform),
    ] {
        let plan = planned(30, asked(), waits);
        assert_eq!(stand(&plan, "a").0, Phase::PostAction);
        assert_eq!(record_of(&plan, "a").stage(Stage::PostAction), None);
        assert!(!writes(&plan).contains(&"create a/PostAction".to_owned()));
    }
    let later = fleet().cluster("a").record(
        record(Phase::PostAction)
            .succeeded(Stage::Platform, 0)
            .succeeded(Stage::Soak, 10),
    );
    let plan = planned(200, asked(), later);
    assert_eq!(writes(&plan), ["create a/PostAction"]);
    let post_action = record_of(&plan, "a").stage(Stage::PostAction);
    assert_eq!(post_action.map(|stage| stage.started), Some(at(200)));
}

#[test]
fn a_start_in_the_future_is_put_on_record_as_now() {
    let adopted = fleet()
        .cluster("a")
        .work(Step::Platform, work(1_000_000).running());
    let plan = planned(20, policy(), adopted);
    let stage = record_of(&plan, "a").stage(Stage::Platform).copied();
    assert_eq!(stage.map(|stage| stage.started), Some(at(20)));
    assert_eq!(plan.wake_at, Some(at(20 + 3 * 3600)));
}

/// The leader that created the work had another clock, or does not trust its own, which may then go back a little.
#[test]
fn a_start_up_to_a_minute_ahead_is_put_on_record_as_the_work_has_it() {
    for (started, recorded) in [(21, 21), (80, 80), (81, 20)] {
        let adopted = fleet().cluster("a").work(Step::Platform, work(started).running());
        let plan = planned(20, policy(), adopted);
        let stage = record_of(&plan, "a").stage(Stage::Platform).copied();
        assert_eq!(stage.map(|stage| stage.started), Some(at(recorded)), "{started}");
        assert_eq!(plan.wake_at, Some(at(recorded + 3 * 3600)), "{started}");
    }
}

#[test]
fn an_action_whose_start_was_a_little_ahead_is_not_repeated_by_an_edit_of_another_step() {
    let asked = || policy().pre_action();
    let edited = || asked().edited("r2", &[Step::Platform]);
    let started = || fleet().cluster("a").work(Step::PreAction, work(21).running());
    let plan = planned(20, asked(), started());
    let adopted = started().record(record_of(&plan, "a").clone());
    let plan = planned(30, edited(), adopted);
    let announced = started().record(record_of(&plan, "a").clone());
    let plan = planned(31, edited(), announced);
    assert_eq!(writes(&plan), Vec::<String>::new());
    assert_eq!(stand(&plan, "a"), (Phase::PreAction, Reason::Running));
}

/// Its agent has edited the start of the work, or has set it in the future before it was recorded.
#[test]
fn an_action_that_has_succeeded_is_not_repeated_by_an_edit_whatever_start_its_work_names() {
    let edited = || policy().pre_action().edited("r2", &[Step::Platform]);
    for started in [-1_000_000, 1_000_000] {
        let acted = || {
            fleet()
                .cluster("a")
                .work(Step::PreAction, work(started).succeeded())
        };
        let before = record(Phase::PreAction).stage(Stage::PreAction, 0);
        let plan = planned(20, edited(), acted().record(before));
        assert_eq!(writes(&plan), Vec::<String>::new(), "not announced yet");
        let next = record_of(&plan, "a");
        assert_eq!(&*next.attempt.revision, "r2");
        assert!(next.succeeded(Stage::PreAction));
        let plan = planned(21, edited(), acted().record(next.clone()));
        assert_eq!(writes(&plan), ["create a/Platform"]);
    }
}

/// An edit does not concern the step before. The hub has not taken the next one in time.
#[test]
fn an_edit_gives_a_fresh_clock_to_a_step_that_was_asked_for_and_whose_work_is_not_there() {
    let asked = || policy().pre_action().operators().timeouts(60, 60);
    let backed_up = || {
        let acted = work(0).succeeded();
        fleet().cluster("a").work(Step::PreAction, acted)
    };
    let updated = || {
        let updated = work(5).succeeded();
        backed_up().work(Step::Platform, updated)
    };
    let before = |phase: Phase| record(phase).succeeded(Stage::PreAction, 0);
    let partial = before(Phase::Partial).succeeded(Stage::Platform, 5);
    let table: [(Step, FleetBuilder, Record); 2] = [
        (
            Step::Platform,
            backed_up(),
            before(Phase::PreAction).stage(Stage::Platform, 5).into(),
        ),
        (
            Step::Operators,
            updated(),
            partial.stage(Stage::Operators, 10).into(),
        ),
    ];
    let edits = [Step::Platform, Step::Operators, Step::PostAction];
    for (step, works, record) in table {
        for edited in edits.into_iter().filter(|edited| *edited >= step) {
            let asked = || asked().edited("r2", &[edited]);
            let late = works.clone().record(record.clone()).read(step, 100);
            let plan = planned(100, asked(), late.clone());
            let next = record_of(&plan, "a").clone();
            assert_eq!((next.phase, &*next.attempt.revision), (record.phase, "r2"));
            assert_eq!(next.stage(step.into()), None, "{edited:?}");
            let plan = planned(101, asked(), works.clone().record(next));
            assert_eq!(writes(&plan), [format!("create a/{step:?}")]);
            let began = record_of(&plan, "a").stage(step.into()).copied();
            assert_eq!(began.map(|stage| stage.started), Some(at(101)), "{edited:?}");
            // What is on its way would not be known by its start any more.
            for waits in [late.clone().busy(Busy::Starting), late.unsettled(step)] {
                let plan = planned(100, asked(), waits);
                let kept = record_of(&plan, "a");
                assert_eq!((kept.phase, &kept.attempt), (record.phase, &record.attempt));
                assert_eq!(kept.stages, record.stages);
            }
        }
    }
}

/// It would count as the work of the new attempt.
#[test]
fn a_step_that_begins_anew_has_another_start_than_the_work_of_the_attempt_before() {
    let fleet = |record: Record| {
        let a = fleet().cluster("a").work(Step::Platform, work(20));
        a.record(record)
    };
    let edits_taken_back = record(Phase::Initialized).retry("~");
    let plan = planned(20, policy(), fleet(edits_taken_back.into()));
    assert_eq!(writes(&plan), ["update a/Platform Retry"]);
    let next = planned(20, policy(), fleet(record_of(&plan, "a").clone()));
    assert_eq!(writes(&next), ["update a/Platform Retry"]);
    assert_eq!(record_of(&next, "a"), record_of(&plan, "a"));
}

#[test]
fn a_start_that_is_edited_later_neither_moves_the_deadline_nor_the_record() {
    for edited in [1_000_000, 90, -1_000_000] {
        let asked = || policy().timeouts(60, 60);
        let plan = planned(30, asked(), in_flight(edited));
        assert_eq!(stand(&plan, "a"), (Phase::Partial, Reason::Running), "{edited}");
        let stage = record_of(&plan, "a").stage(Stage::Platform).copied();
        assert_eq!(stage.map(|stage| stage.started), Some(at(0)), "{edited}");
        assert_eq!(plan.wake_at, Some(at(60)), "{edited}");
        let late = in_flight(edited).read(Step::Platform, 60);
        let plan = planned(60, asked(), late);
        assert_eq!(stand(&plan, "a").0, Phase::Failed, "{edited}");
    }
}

/// A retry keeps the update that had succeeded, with the work of the attempt before.
#[test]
fn a_start_that_is_edited_after_its_step_does_not_move_the_soak_of_a_retry() {
    let retried = fleet()
        .cluster("a")
        .work(Step::Platform, work(1_000_000).succeeded())
        .work(Step::Operators, work(20).retry("again").succeeded())
        .record(
            record(Phase::Operators)
                .retry("again")
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Operators, 20),
        );
    let plan = planned(30, policy().operators().soak(30).retry("again"), retried);
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    let stage = record_of(&plan, "a").stage(Stage::Soak).copied();
    assert_eq!(stage.map(|stage| stage.started), Some(at(30)));
    assert_eq!(plan.wake_at, Some(at(60)));
}

/// A cluster that has just been upgraded and whose work's clock is ahead of the time of the plan.
fn upgraded_ahead(soak: Option<i64>) -> FleetBuilder {
    let done = work(120).succeeded();
    let done = match soak {
        Some(seconds) => done.soak(seconds),
        None => done,
    };
    fleet()
        .cluster("a")
        .work(Step::Platform, done)
        .record(record(Phase::Partial).stage(Stage::Platform, 120))
}

#[test]
fn the_note_of_a_soak_is_younger_than_a_clock_that_is_ahead() {
    let plan = planned(10, policy().soak(30), upgraded_ahead(None));
    let marks: Vec<_> = plan
        .operations
        .iter()
        .filter_map(|operation| match operation {
            Operation::MarkSoak { started, .. } => Some(*started),
            _ => None,
        })
        .collect();
    let noted = at(120) + TimeDelta::milliseconds(1);
    assert_eq!(marks, [noted]);
    let stage = record_of(&plan, "a").stage(Stage::Soak).copied();
    assert_eq!(stage.map(|stage| stage.started), Some(noted));
}

#[test]
fn a_soak_that_is_noted_is_not_noted_again_though_the_clock_of_its_work_is_ahead() {
    // The row was lost in a crash, so only the note on the work is left.
    let plan = planned(11, policy().soak(30), upgraded_ahead(Some(121)));
    assert_eq!(writes(&plan), Vec::<String>::new());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    // The note of an earlier attempt, which is older than the clock, does not count.
    let plan = planned(130, policy().soak(30), upgraded_ahead(Some(50)));
    assert_eq!(writes(&plan), ["soak a/Platform"]);
}

/// An earlier leader whose clock was ahead has noted the soak, and has recorded it or died before.
#[test]
fn a_soak_that_begins_in_the_future_is_not_noted_again_and_counts_only_if_it_is_on_record() {
    let noted = |record: RecordBuilder| {
        fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded().soak(7_200))
            .record(record)
    };
    let start = |plan: &Plan| record_of(plan, "a").stage(Stage::Soak).map(|stage| stage.started);
    let recorded = record(Phase::Soaking)
        .succeeded(Stage::Platform, 0)
        .stage(Stage::Soak, 7_200);
    let plan = planned(10, policy().soak(30), noted(recorded));
    assert_eq!(writes(&plan), Vec::<String>::new());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    assert_eq!(start(&plan), Some(at(7_200)), "recorded starts are not moved");
    let lost = record(Phase::Partial).stage(Stage::Platform, 0);
    let plan = planned(10, policy().soak(30), noted(lost));
    assert_eq!(writes(&plan), ["soak a/Platform"]);
    assert_eq!(start(&plan), Some(at(10)));
}

/// An agent or a person has written a time that is finer than the milliseconds of a note.
#[test]
fn a_soak_whose_start_is_finer_than_its_note_is_not_noted_again() {
    let noted = at(20) + TimeDelta::milliseconds(1);
    let mut done = Work::from(work(0).succeeded());
    done.soak_started = Some(noted);
    let mut soaking = Record::from(record(Phase::Soaking).succeeded(Stage::Platform, 0));
    let began = noted + TimeDelta::microseconds(500);
    soaking.stages[Stage::Soak.index()] = Some(StepRecord::started(began));
    let known = fleet().cluster("a").work(Step::Platform, done).record(soaking);
    let plan = planned(30, policy().soak(30), known);
    assert_eq!(writes(&plan), Vec::<String>::new());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
}

#[test]
fn the_note_of_a_soak_proves_that_operators_succeeded_whose_work_somebody_deleted() {
    // The row was lost in a crash.
    let lost = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded().soak(50))
        .record(
            record(Phase::Operators)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Operators, 20),
        );
    let plan = planned(60, policy().operators().soak(30), lost);
    assert_eq!(writes(&plan), Vec::<String>::new());
    assert_eq!(stand(&plan, "a"), (Phase::Soaking, Reason::Soaking));
    assert_eq!(
        record_of(&plan, "a")
            .stage(Stage::Operators)
            .and_then(|stage| stage.outcome),
        Some(Outcome::Succeeded)
    );
}

#[test]
fn the_note_of_a_soak_proves_nothing_about_operators_that_were_edited_since() {
    for operators in [None, Some(work(100).revision("r2").running())] {
        let mut edited = fleet()
            .cluster("a")
            .work(Step::Platform, work(0).succeeded().soak(50));
        let is_there = operators.is_some();
        if let Some(operators) = operators {
            edited = edited.work(Step::Operators, operators);
        }
        let edited = edited.record(
            record(Phase::Operators)
                .revision("r2")
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Operators, 100),
        );
        let policy = policy().operators().edited("r2", &[Step::Operators]).soak(30);
        let plan = planned(110, policy, edited);
        assert_eq!(
            stand(&plan, "a").0,
            Phase::Operators,
            "the work is there: {is_there}"
        );
    }
}

#[test]
fn ends_by_a_clock_that_is_not_trusted() {
    let asked = || policy().timeouts(60, 60).soak(30).distrusted_clock();
    let late = partial(work(0).running()).read(Step::Platform, 60);
    refused(Kind::ClockDistrusted, 60, asked(), late, |plan| {
        change(plan, 0, |record| {
            record.phase = Phase::Failed;
            record.reason = Reason::ClusterUpgradeTimeout;
        });
    });
    let soaking = fleet()
        .cluster("a")
        .work(Step::Platform, work(0).succeeded().soak(10))
        .record(
            record(Phase::Soaking)
                .succeeded(Stage::Platform, 0)
                .stage(Stage::Soak, 10),
        );
    refused(Kind::ClockDistrusted, 60, asked(), soaking, |plan| {
        change(plan, 0, |record| {
            record.phase = Phase::Complete;
            let stage = record.stages[Stage::Soak.index()].as_mut().unwrap();
            stage.outcome = Some(Outcome::Succeeded);
        });
    });
}

#[test]
fn deadlines_that_are_overlooked() {
    let asked = || policy().timeouts(60, 60);
    refused(
        Kind::WakeMissed,
        10,
        asked(),
        partial(work(0).running()),
        |plan| {
            plan.wake_at = Some(at(61));
        },
    );
    refused(
        Kind::DeadlinePassed,
        60,
        asked(),
        partial(work(0).running()).read(Step::Platform, 60),
        |plan| {
            change(plan, 0, |record| {
                *record = crate::testing::record(Phase::Partial)
                    .stage(Stage::Platform, 0)
                    .into();
            });
        },
    );
    let maybe_failed = fleet()
        .cluster("a")
        .work(Step::Operators, work(0).status(StepStatus::MaybeFailed(at(5))))
        .record(record(Phase::Operators).stage(Stage::Operators, 0));
    let operators = policy().operators().without(Step::Platform);
    refused(Kind::WakeMissed, 10, operators, maybe_failed, |plan| {
        plan.wake_at = Some(at(21));
    });
    let resting = fleet().cluster("a").backoff(20);
    refused(Kind::WakeMissed, 10, policy(), resting, |plan| {
        plan.wake_at = None;
    });
}

#[test]
fn failures_by_time_that_nobody_confirmed() {
    let asked = || policy().timeouts(60, 60);
    let late = || partial(work(0).running());
    for fleet in [
        late(),
        late().read(Step::Platform, 59),
        late().read(Step::Operators, 60),
    ] {
        refused(Kind::FailedUnread, 60, asked(), fleet, |plan| {
            change(plan, 0, |record| {
                record.phase = Phase::Failed;
                record.reason = Reason::ClusterUpgradeTimeout;
            });
        });
    }
    refused(Kind::DeadlinePassed, 60, asked(), late(), |plan| {
        plan.operations.clear();
    });
}
#[test]
fn starts_while_an_earlier_creation_may_be_carried_out_yet() {
    let late = || fleet().cluster("a").late(Step::Platform).cluster("b");
    refused(
        Kind::TooManySlots,
        10,
        policy().max_concurrency(1),
        late(),
        |plan| {
            plan.operations.push(create("b", Step::Platform, 10));
        },
    );
    refused(Kind::UnsettledPassed, 10, policy(), late(), |plan| {
        plan.operations.push(create("a", Step::Platform, 10));
    });
    let queued = fleet().cluster("a").record(record(Phase::Pending).revision("r0"));
    refused(
        Kind::UnsettledPassed,
        10,
        policy(),
        queued.late(Step::Platform),
        |plan| {
            let state = &mut plan.clusters[0];
            Arc::make_mut(&mut state.record).attempt.revision = "r1".into();
            state.urgent = true;
        },
    );
}

/// The hub was out of reach when the step was to begin.
#[test]
fn the_time_of_a_step_that_was_never_asked_for_and_of_which_no_row_tells_runs_from_when_it_is_asked_for() {
    let told = || record(Phase::PreAction).succeeded(Stage::PreAction, 0);
    let begun = || told().stage(Stage::Platform, 10);
    let asked = || policy().pre_action().timeouts(60, 60);
    let a = || fleet().cluster("a").work(Step::PreAction, work(0).succeeded());
    let plan = planned(500, asked(), a().record(told()).draft(begun()));
    assert_eq!(writes(&plan), ["create a/Platform"]);
    let platform = record_of(&plan, "a").stages[Stage::Platform.index()].unwrap();
    assert_eq!(platform.started, at(500));
    let plan = planned(500, asked(), a().record(begun()));
    assert_eq!(
        stand(&plan, "a").0,
        Phase::PreAction,
        "its row tells of the start"
    );
    assert_eq!(writes(&plan), ["read a/Platform"]);
    let before_the_edit = begun().revision("r0");
    let plan = planned(500, asked(), a().record(before_the_edit).draft(begun()));
    let platform = record_of(&plan, "a").stages[Stage::Platform.index()].unwrap();
    assert_eq!(
        platform.started,
        at(10),
        "the row before the edit tells of the same start"
    );
    let doubtful = a().record(told()).draft(begun()).unsettled(Step::Platform);
    assert_eq!(writes(&planned(500, asked(), doubtful)), ["read a/Platform"]);
}
