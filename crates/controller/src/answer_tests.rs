use std::sync::Arc;
use std::time::Duration;

use rollout::Phase;
use rollout::testing::record;
use serde_json::json;

use super::*;
use crate::desk::{Desk, LASTING};
use crate::fixture::{Given, hall, note, upgrade, work};
use crate::index::Change;
use crate::telemetry::labels::WriteOutcome;
use crate::works::WorkFlags;

fn cluster() -> Arc<str> {
    Arc::from("c1")
}

/// A hall with the upgrade `u1`, a write of which is under way for `c1`.
fn writing() -> Hall {
    let hall = hall(&["c1"]);
    hall.with(|state| {
        state.apply_upgrade(upgrade("u1", &["c1"]).view());
        let desk = state.desks.get_mut("u1").unwrap();
        desk.begin(&cluster(), true);
        desk.dirty = false;
    });
    hall
}

fn answered(hall: &Hall, effect: Effect, outcome: &Outcome) {
    let job = Job {
        upgrade: Arc::from("u1"),
        effect,
    };
    hall.with(|state| take(hall, state, job, outcome));
}

fn with_desk<T>(hall: &Hall, look: impl FnOnce(&mut Desk) -> T) -> T {
    hall.with(|state| look(state.desks.get_mut("u1").unwrap()))
}

fn create(hall: &Hall) -> Effect {
    let brief = with_desk(hall, |desk| Arc::clone(desk.brief.as_ref().unwrap()));
    Effect::Create {
        cluster: cluster(),
        step: Step::Platform,
        sheet: crate::apply::Sheet {
            brief,
            owner: Arc::from("ns/u1"),
            cluster_id: None,
            attempt: rollout::Attempt {
                revision: Arc::from("r1"),
                retry: Arc::from(""),
            },
            started: rollout::testing::at(0),
        },
        freed: None,
    }
}

fn delete() -> Effect {
    Effect::Delete {
        cluster: cluster(),
        step: Step::Platform,
        uid: Arc::from("c1-cluster-upgrade-u1"),
        halt: false,
    }
}

fn is_indexed(hall: &Hall) -> bool {
    hall.with(|state| state.index.work_of("c1", Step::Platform).is_some())
}

#[test]
fn a_created_work_is_seen_by_the_next_plan_and_its_cluster_is_free_for_writes() {
    let hall = writing();
    let work = Outcome::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    answered(&hall, create(&hall), &work);
    assert!(is_indexed(&hall));
    with_desk(&hall, |desk| assert!(desk.busy.is_empty() && desk.dirty));
}

#[test]
fn a_failed_write_is_not_repeated_before_its_wait_which_doubles() {
    let hall = writing();
    for expected in [1, 2, 4] {
        with_desk(&hall, |desk| desk.begin(&cluster(), true));
        let before = hall.now();
        answered(
            &hall,
            create(&hall),
            &Outcome::Failed("no".to_owned(), WriteOutcome::Error),
        );
        with_desk(&hall, |desk| {
            let waits = desk.backoff[&cluster()].until - before;
            assert!(
                (waits - TimeDelta::seconds(expected)).abs() < TimeDelta::seconds(1),
                "{waits}"
            );
            assert_eq!(&*desk.backoff[&cluster()].text, "no");
        });
    }
    with_desk(&hall, |desk| desk.begin(&cluster(), true));
    answered(&hall, create(&hall), &Outcome::Gone);
    with_desk(&hall, |desk| {
        assert!(desk.backoff.is_empty(), "a success ends it");
    });
}

#[test]
fn a_rivals_work_found_in_the_way_is_seen_as_such() {
    let hall = writing();
    with_desk(&hall, |desk| {
        desk.obstruct(&cluster(), Step::Platform, hall.now(), ObstacleKind::Foreign);
    });
    let work = Outcome::Rival(Box::new(work("c1", Step::Platform, "other", 5)));
    answered(&hall, create(&hall), &work);
    hall.with(|state| {
        let view = state.index.work_of("c1", Step::Platform).unwrap();
        assert_eq!(&*view.upgrade, "other");
        assert!(
            state.desks["u1"].obstacles.is_empty(),
            "it is nobody else's any more"
        );
    });
}

#[test]
fn foreign_works_are_looked_at_ever_less_often() {
    let hall = writing();
    let mut waits = Vec::new();
    for _ in 0..6 {
        with_desk(&hall, |desk| desk.begin(&cluster(), true));
        let before = hall.now();
        answered(&hall, create(&hall), &Outcome::Foreign);
        let retry_at = with_desk(&hall, |desk| {
            desk.obstacles[&(cluster(), Step::Platform)].retry_at
        });
        waits.push((retry_at - before + TimeDelta::milliseconds(500)).num_seconds());
    }
    assert_eq!(waits, [30, 60, 120, 240, 300, 300]);
}

#[test]
fn a_refused_work_stands_in_the_way_until_the_spec_changes() {
    let hall = writing();
    let key = || (cluster(), Step::Platform);
    let of_this_spec = create(&hall);
    let of_an_earlier_spec = create(&hall);
    answered(
        &hall,
        of_this_spec,
        &Outcome::Refused("spec.x: is bad".to_owned()),
    );
    with_desk(&hall, |desk| {
        let refused = ObstacleKind::Refused(Arc::from("spec.x: is bad"));
        assert_eq!(desk.obstacles[&key()].kind, refused);
        let view = upgrade("u1", &["c1"]).view();
        let edited = crate::policy::brief(&view, &WorkFlags::default(), TimeDelta::zero());
        desk.take_spec(edited, true);
        assert!(desk.obstacles.is_empty(), "the new spec may do");
        desk.begin(&cluster(), true);
    });
    answered(
        &hall,
        of_an_earlier_spec,
        &Outcome::Refused("spec.x: is bad".to_owned()),
    );
    with_desk(&hall, |desk| {
        assert!(desk.obstacles.is_empty());
        assert!(desk.dirty && desk.busy.is_empty());
    });
}

#[test]
fn creations_that_stay_forbidden_for_a_minute_are_counted_and_other_failures_are_not() {
    let hall = writing();
    let failed = |counted| Outcome::Failed("may not".to_owned(), counted);
    let count = |outcome: &Outcome| {
        with_desk(&hall, |desk| desk.begin(&cluster(), true));
        answered(&hall, create(&hall), outcome);
        with_desk(&hall, |desk| {
            desk.backoff.get(&cluster()).map(|backoff| backoff.forbidden)
        })
    };
    for times in 1..=LASTING {
        assert_eq!(count(&failed(WriteOutcome::Forbidden)), Some(times));
    }
    assert_eq!(count(&failed(WriteOutcome::Unavailable)), Some(0));
    assert_eq!(count(&failed(WriteOutcome::Forbidden)), Some(1));
    with_desk(&hall, |desk| desk.begin(&cluster(), true));
    answered(&hall, delete(), &failed(WriteOutcome::Forbidden));
    with_desk(&hall, |desk| assert_eq!(desk.backoff[&cluster()].forbidden, 0));
    let made = Outcome::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    assert_eq!(count(&made), None);
}

#[test]
fn a_foreign_work_that_does_not_go_for_a_minute_waits_for_a_human() {
    let hall = writing();
    let mut kinds = Vec::new();
    for _ in 0..13 {
        with_desk(&hall, |desk| desk.begin(&cluster(), true));
        answered(&hall, create(&hall), &Outcome::ForeignTerminating);
        kinds.push(with_desk(&hall, |desk| {
            desk.obstacles[&(cluster(), Step::Platform)].kind.clone()
        }));
    }
    assert!(
        kinds[..12]
            .iter()
            .all(|kind| *kind == ObstacleKind::ForeignTerminating)
    );
    assert_eq!(kinds[12], ObstacleKind::Foreign);
}

#[test]
fn a_foreign_work_stays_in_the_way_of_an_edited_spec() {
    let hall = writing();
    answered(&hall, create(&hall), &Outcome::Foreign);
    with_desk(&hall, |desk| {
        let view = upgrade("u1", &["c1"]).view();
        let edited = crate::policy::brief(&view, &WorkFlags::default(), TimeDelta::zero());
        desk.take_spec(edited, true);
        assert_eq!(desk.obstacles.len(), 1);
    });
}

#[test]
fn a_missing_namespace_takes_the_cluster_out_whatever_was_written() {
    for effect in [create(&writing()), delete()] {
        let hall = writing();
        answered(&hall, effect, &Outcome::NamespaceGone);
        with_desk(&hall, |desk| {
            assert!(desk.missing.contains_key(&cluster()));
        });
    }
}

#[test]
fn a_deletion_that_failed_leaves_the_work_as_it_was() {
    let hall = writing();
    hall.with(|state| {
        let work = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(work), hall.now());
        state.index.doom("c1", Step::Platform, "c1-cluster-upgrade-u1");
    });
    answered(
        &hall,
        delete(),
        &Outcome::Failed("no".to_owned(), WriteOutcome::Error),
    );
    let terminating = |hall: &Hall| {
        hall.with(|state| {
            state
                .index
                .work_of("c1", Step::Platform)
                .unwrap()
                .work
                .terminating
        })
    };
    assert!(!terminating(&hall));
    hall.with(|state| state.index.doom("c1", Step::Platform, "c1-cluster-upgrade-u1"));
    with_desk(&hall, |desk| desk.begin(&cluster(), false));
    answered(&hall, delete(), &Outcome::Doomed);
    assert!(terminating(&hall));
}

#[test]
fn a_work_that_is_gone_is_forgotten() {
    let hall = writing();
    hall.with(|state| {
        let work = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(work), hall.now());
    });
    answered(&hall, delete(), &Outcome::Gone);
    assert!(!is_indexed(&hall));
}

#[test]
fn an_answer_for_an_upgrade_that_is_gone_still_tells_of_the_work() {
    let hall = writing();
    let effect = create(&hall);
    hall.with(|state| state.delete_upgrade("u1"));
    let work = Outcome::Work(Box::new(work("c1", Step::Platform, "u1", 5)));
    answered(&hall, effect, &work);
    assert!(is_indexed(&hall));
}

#[test]
fn an_answer_to_a_report_of_an_earlier_term_is_let_pass() {
    let hall = writing();
    let due = with_desk(&hall, |desk| {
        note(desk, "c1", record(Phase::Complete));
        desk.rows.due(Instant::now() + Duration::from_secs(5)).remove(0)
    });
    hall.with(|state| {
        state.end_term();
        state.begin_term();
    });
    let effect = Effect::Report {
        namespace: Arc::from("ns"),
        due,
        body: None,
    };
    answered(&hall, effect, &Outcome::Report(5));
    with_desk(&hall, |desk| assert!(desk.rows.all().is_empty()));
}

#[test]
fn a_written_record_is_news_for_the_planner() {
    let hall = writing();
    let due = with_desk(&hall, |desk| {
        note(desk, "c1", record(Phase::Complete));
        desk.rows.due(Instant::now() + Duration::from_secs(5)).remove(0)
    });
    let effect = Effect::Report {
        namespace: Arc::from("ns"),
        due,
        body: None,
    };
    answered(&hall, effect, &Outcome::Report(5));
    with_desk(&hall, |desk| {
        assert!(desk.dirty);
        assert!(desk.rows.get("c1").unwrap().written.is_some());
    });
}

#[test]
fn finalizers_that_cannot_be_written_are_tried_ever_less_often() {
    let hall = writing();
    let effect = || Effect::Finalizers {
        namespace: Arc::from("ns"),
        name: Arc::from("u1"),
        version: "1".to_owned(),
        finalizers: Vec::new(),
        life: None,
    };
    for failures in [1, 2] {
        with_desk(&hall, |desk| desk.finalizing = true);
        answered(
            &hall,
            effect(),
            &Outcome::Failed("forbidden".to_owned(), WriteOutcome::Error),
        );
        with_desk(&hall, |desk| {
            assert!(!desk.finalizing);
            assert_eq!(desk.hurdle.as_ref().unwrap().failures, failures);
        });
    }
    let written = Given {
        version: 2,
        ..upgrade("u1", &["c1"])
    };
    answered(&hall, effect(), &Outcome::Upgrade(Box::new(written.view())));
    with_desk(&hall, |desk| assert!(desk.hurdle.is_none()));
}

#[test]
fn a_status_counts_as_written_only_when_the_hub_said_so() {
    let hall = writing();
    let status: api::ManagedClustersUpgradeStatus =
        serde_json::from_value(json!({"progress": "1/2"})).unwrap();
    for (round, outcome, repeated) in [
        (5, Outcome::Failed("no".to_owned(), WriteOutcome::Error), true),
        (
            10,
            Outcome::Upgrade(Box::new(
                Given {
                    version: 2,
                    status: json!({"progress": "1/2"}),
                    ..upgrade("u1", &["c1"])
                }
                .view(),
            )),
            false,
        ),
    ] {
        let later = Instant::now() + Duration::from_secs(round);
        let due = with_desk(&hall, |desk| {
            desk.status.set(status.clone());
            desk.status.due(later).unwrap()
        });
        let effect = Effect::Status {
            namespace: Arc::from("ns"),
            name: Arc::from("u1"),
            status: Box::new(due),
        };
        answered(&hall, effect, &outcome);
        with_desk(&hall, |desk| {
            assert_eq!(desk.status.due_at(later).is_some(), repeated);
        });
    }
}

fn failed(counted: WriteOutcome) -> Outcome {
    Outcome::Failed("no".to_owned(), counted)
}

fn tried(hall: &Hall, outcome: &Outcome) {
    with_desk(hall, |desk| desk.begin(&cluster(), true));
    answered(hall, create(hall), outcome);
}

#[test]
fn a_write_that_was_not_sent_ends_no_pause() {
    let hall = writing();
    tried(&hall, &failed(WriteOutcome::Forbidden));
    for outcome in [Outcome::NotLeading, Outcome::GivenUp] {
        for effect in [create(&hall), delete()] {
            with_desk(&hall, |desk| desk.begin(&cluster(), true));
            answered(&hall, effect, &outcome);
            with_desk(&hall, |desk| assert!(desk.backoff.contains_key(&cluster())));
        }
    }
}

fn read(hall: &Hall, uid: Option<&str>, outcome: &Outcome) {
    with_desk(hall, |desk| desk.begin(&cluster(), false));
    let effect = Effect::Read {
        cluster: cluster(),
        step: Step::Platform,
        owner: Arc::from("ns/u1"),
        uid: uid.map(Arc::from),
        asked: hall.now(),
    };
    answered(hall, effect, outcome);
}

#[test]
fn a_reading_is_remembered_for_a_deadline_unless_it_failed() {
    let hall = writing();
    let reading = |hall: &Hall| {
        let now = hall.now();
        with_desk(hall, |desk| desk.reading("c1", now).map(|(step, _)| step))
    };
    read(&hall, None, &failed(WriteOutcome::Error));
    assert_eq!(reading(&hall), None);
    with_desk(&hall, |desk| assert!(desk.backoff.contains_key(&cluster())));
    hall.with(|state| {
        let work = work("c1", Step::Platform, "u1", 5);
        state.index.work(&Change::Applied(work), hall.now());
    });
    read(&hall, Some("c1-cluster-upgrade-u1"), &Outcome::Gone);
    assert_eq!(reading(&hall), Some(Step::Platform));
    assert!(!is_indexed(&hall), "the watch has not said so");
    with_desk(&hall, |desk| assert!(desk.backoff.is_empty()));
    let later = hall.now() + TimeDelta::seconds(61);
    with_desk(&hall, |desk| {
        assert_eq!(desk.reading("c1", later), None, "old news");
    });
}

#[test]
fn only_a_deletion_that_the_hub_has_taken_leaves_the_work_doomed() {
    let here = || Box::new(work("c1", Step::Platform, "u1", 5));
    for (outcome, terminating) in [
        (Outcome::Doomed, Some(true)),
        (Outcome::Gone, None),
        (Outcome::Work(here()), Some(false)),
        (failed(WriteOutcome::Conflict), Some(false)),
        (Outcome::GivenUp, Some(false)),
        (Outcome::NotLeading, Some(false)),
        (Outcome::Foreign, Some(false)),
        (Outcome::Refused("no".to_owned()), Some(false)),
        (
            Outcome::Rival(Box::new(work("c1", Step::Platform, "other", 5))),
            None,
        ),
    ] {
        let hall = writing();
        hall.with(|state| {
            state.index.work(&Change::Applied(*here()), hall.now());
            state.index.doom("c1", Step::Platform, "c1-cluster-upgrade-u1");
        });
        answered(&hall, delete(), &outcome);
        let found = hall.with(|state| {
            let view = state.index.work_of("c1", Step::Platform);
            view.map(|view| view.work.terminating)
        });
        assert_eq!(found, terminating, "{outcome:?}");
    }
}

#[path = "answer_unsettled_tests.rs"]
mod unsettled;
