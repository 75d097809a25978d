//! Starts whose answers were lost, through look, answer and look again.

use super::*;
use crate::fixture::spec;

/// A window of one over two clusters; the creation for the first ended so.
fn tried(outcome: &Outcome) -> (Desktop, Given) {
    let mut desktop = desktop(&["c1", "c2"]);
    let mut given = upgrade("u1", &["c1", "c2"]);
    given.spec = spec(&["c1", "c2"]);
    given.spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    desktop.knows(&given);
    for job in desktop.look() {
        if matches!(job.effect, Effect::Create { .. }) {
            desktop.answer(job, outcome);
        } else {
            desktop.carry_out(job);
        }
    }
    (desktop, given)
}

fn of_works(jobs: &[Job]) -> Vec<String> {
    let told = jobs.iter().map(told);
    told.filter(|one| ["create", "read", "delete"].iter().any(|word| one.contains(word)))
        .collect()
}

/// Ends the pause after the failure.
fn rest(desktop: &Desktop) {
    desktop.hall.with(|state| {
        state.desks.get_mut("u1").unwrap().backoff.clear();
    });
}

#[tokio::test]
async fn a_start_without_an_answer_keeps_its_slot_and_is_the_next_to_be_tried() {
    for counted in [
        WriteOutcome::Timeout,
        WriteOutcome::Unavailable,
        WriteOutcome::Error,
        WriteOutcome::Overloaded,
    ] {
        let (desktop, _) = tried(&Outcome::Failed("no answer".to_owned(), counted));
        assert_eq!(of_works(&desktop.look_at("u1")), [""; 0], "{counted:?}");
        rest(&desktop);
        assert_eq!(
            of_works(&desktop.look_at("u1")),
            ["u1: create c1-cluster-upgrade"]
        );
        assert_eq!(of_works(&desktop.look_at("u1")), [""; 0], "it is under way");
    }
    let (desktop, _) = tried(&Outcome::GivenUp);
    assert_eq!(
        of_works(&desktop.look_at("u1")),
        ["u1: create c1-cluster-upgrade"]
    );
    let (desktop, _) = tried(&Outcome::Failed("no".to_owned(), WriteOutcome::Forbidden));
    assert_eq!(
        of_works(&desktop.look_at("u1")),
        ["u1: create c2-cluster-upgrade"],
        "a refusal frees the slot"
    );
}

#[tokio::test]
async fn a_start_that_shows_up_while_paused_holds_its_slot_and_is_not_sent_again() {
    let (mut desktop, mut given) = tried(&Outcome::Failed("no answer".to_owned(), WriteOutcome::Timeout));
    given.version = 1_000;
    given.spec["paused"] = json!(true);
    let mut view = given.view();
    view.metadata.generation = Some(2);
    desktop.hall.with(|state| state.apply_upgrade(view.clone()));
    rest(&desktop);
    let mut jobs = desktop.look_at("u1");
    assert_eq!(of_works(&jobs), ["u1: read c1-cluster-upgrade"]);
    jobs.retain(|job| matches!(job.effect, Effect::Read { .. }));
    desktop.answer(jobs.remove(0), &Outcome::Gone);
    rest(&desktop);
    let mut jobs = desktop.look_at("u1");
    assert_eq!(
        of_works(&jobs),
        ["u1: read c1-cluster-upgrade"],
        "it may come yet"
    );
    jobs.retain(|job| matches!(job.effect, Effect::Read { .. }));
    let attempt = desktop.hall.with(|state| {
        state.desks["u1"]
            .unsettled
            .values()
            .flatten()
            .next()
            .unwrap()
            .attempt
            .clone()
    });
    let mut late = crate::fixture::work("c1", WireStep::Platform, "u1", 2_000);
    let notes = late.metadata.annotations.as_mut().unwrap();
    for (key, value) in [
        (api::names::ANNOTATION_REVISION, attempt.revision.to_string()),
        (
            api::names::ANNOTATION_STARTED_AT,
            api::time::to_rfc3339(desktop.hall.now()),
        ),
    ] {
        notes.insert(key.to_owned(), value);
    }
    desktop.answer(jobs.remove(0), &Outcome::Work(Box::new(late)));
    desktop.look_at("u1");
    assert_eq!(desktop.phase("u1", "c1"), Some(Phase::Initialized));
    view.spec = Given {
        spec: {
            given.spec["paused"] = json!(false);
            given.spec.clone()
        },
        ..given
    }
    .view()
    .spec;
    view.metadata.generation = Some(3);
    view.metadata.resource_version = Some("3000".to_owned());
    desktop.hall.with(|state| state.apply_upgrade(view));
    assert_eq!(of_works(&desktop.look_at("u1")), [""; 0], "the slot is held");
    desktop.version += 1;
}

#[test]
fn by_a_clock_that_has_jumped_no_lost_creation_is_over() {
    let index = crate::index::Index::default();
    let mut desk = upgrade("u1", &["c1"]).desk(&index);
    let (c1, now) = (Arc::<str>::from("c1"), Utc::now());
    let attempt = rollout::Attempt {
        revision: Arc::from("r1"),
        retry: Arc::from(""),
    };
    desk.weigh(&c1, api::names::Step::Platform, &attempt, &Outcome::GivenUp, now);
    let later = now + chrono::TimeDelta::hours(1);
    desk.skew = Some(chrono::TimeDelta::hours(1));
    desk.note_reading(&c1, api::names::Step::Platform, later, later, &index);
    assert!(desk.unsettled.contains_key(&c1));
    desk.skew = None;
    desk.note_reading(&c1, api::names::Step::Platform, later, later, &index);
    assert!(desk.unsettled.is_empty());
}
