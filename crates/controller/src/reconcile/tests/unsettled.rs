//! Starts whose responses were lost, across several passes.

use api::names::Step;

use super::*;
use crate::fixture::spec;

/// One slot for two clusters; the creation for the first one had this result.
fn tried(outcome: &WriteResult) -> (TestHub, Given) {
    let mut hub = hub(&["c1", "c2"]);
    let mut given = upgrade("u1", &["c1", "c2"]);
    given.spec = spec(&["c1", "c2"]);
    given.spec["upgradeStrategy"] = json!({"maxConcurrency": 1});
    hub.add_upgrade(&given);
    for job in hub.reconcile() {
        if matches!(job.write, Write::Create { .. }) {
            hub.answer(job, outcome);
        } else {
            hub.carry_out(job);
        }
    }
    (hub, given)
}

fn of_works(jobs: &[WriteJob]) -> Vec<String> {
    let described = jobs.iter().map(line);
    described
        .filter(|one| ["create", "read", "delete"].iter().any(|word| one.contains(word)))
        .collect()
}

/// Ends the wait after the failure.
fn rest(hub: &TestHub) {
    hub.context.with(|state| {
        state.upgrades.get_mut("u1").unwrap().backoff.clear();
    });
}

#[tokio::test]
async fn a_start_without_an_answer_keeps_its_slot_and_is_the_next_to_be_tried() {
    for counted in [
        WriteErrorKind::Timeout,
        WriteErrorKind::Unavailable,
        WriteErrorKind::Broken,
        WriteErrorKind::Overloaded,
    ] {
        let (hub, _) = tried(&WriteResult::Failed(WriteError::new(counted, "no response")));
        assert_eq!(of_works(&hub.pass("u1")), [""; 0], "{counted:?}");
        rest(&hub);
        assert_eq!(of_works(&hub.pass("u1")), ["u1: create c1-cluster-upgrade"]);
        assert_eq!(of_works(&hub.pass("u1")), [""; 0], "it is under way");
    }
    let (hub, _) = tried(&WriteResult::GivenUp);
    assert_eq!(of_works(&hub.pass("u1")), ["u1: create c1-cluster-upgrade"]);
    let (hub, _) = tried(&WriteResult::Failed(WriteError::new(
        WriteErrorKind::Forbidden,
        "no",
    )));
    assert_eq!(
        of_works(&hub.pass("u1")),
        ["u1: create c2-cluster-upgrade"],
        "a rejection releases the slot"
    );
}

#[tokio::test]
async fn a_start_that_shows_up_while_paused_holds_its_slot_and_is_not_sent_again() {
    let (mut hub, mut given) = tried(&WriteResult::Failed(WriteError::new(
        WriteErrorKind::Timeout,
        "no response",
    )));
    given.version = 1_000;
    given.spec["paused"] = json!(true);
    let mut view = given.view();
    view.metadata.generation = Some(2);
    hub.context.with(|state| state.apply_upgrade(view.clone()));
    rest(&hub);
    let mut jobs = hub.pass("u1");
    assert_eq!(of_works(&jobs), ["u1: read c1-cluster-upgrade"]);
    jobs.retain(|job| matches!(job.write, Write::Read { .. }));
    hub.answer(jobs.remove(0), &WriteResult::Gone);
    rest(&hub);
    let mut jobs = hub.pass("u1");
    assert_eq!(
        of_works(&jobs),
        ["u1: read c1-cluster-upgrade"],
        "it may still take effect"
    );
    jobs.retain(|job| matches!(job.write, Write::Read { .. }));
    let attempt = hub.context.with(|state| {
        state.upgrades["u1"]
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
            api::time::to_rfc3339(hub.context.now()),
        ),
    ] {
        notes.insert(key.to_owned(), value);
    }
    hub.answer(jobs.remove(0), &WriteResult::Work(Box::new(late)));
    hub.pass("u1");
    assert_eq!(hub.phase("u1", "c1"), Some(Phase::Initialized));
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
    hub.context.with(|state| state.apply_upgrade(view));
    assert_eq!(of_works(&hub.pass("u1")), [""; 0], "the slot is held");
    hub.version += 1;
}

/// The work that it creates is of its own attempt, whatever was asked for since.
#[test]
fn a_lost_creation_stays_in_doubt_with_its_attempt_when_the_work_is_changed_after_it() {
    let index = observe::index::Index::default();
    let mut entry = upgrade("u1", &["c1"]).entry(&index);
    let (c1, now) = (Arc::<str>::from("c1"), clock::now());
    let edited = rollout::Attempt {
        revision: Arc::from("r2"),
        ..first_attempt()
    };
    let done = || WriteResult::DeletionAccepted { version: 0 };
    for (kind, attempt, result) in [
        (OperationKind::Create, &first_attempt(), WriteResult::GivenUp),
        (OperationKind::Create, &first_attempt(), done()),
        (OperationKind::Update, &edited, WriteResult::GivenUp),
        (OperationKind::Update, &edited, done()),
    ] {
        entry.record_certainty(&c1, (Step::Platform, kind), attempt, &result, now);
    }
    let known = &entry.unsettled[&c1][0];
    assert_eq!(known.attempt, edited);
    assert_eq!(known.created, Some(first_attempt()));
}

/// The creation for `c1` had no response when its term ended.
fn in_doubt(index: &observe::index::Index, given_up: std::time::Instant) -> UpgradeEntry {
    let mut entry = upgrade("u1", &["c1"]).entry(index);
    let what = (Step::Platform, OperationKind::Create);
    let result = WriteResult::GivenUp;
    entry.record_certainty(&Arc::from("c1"), what, &first_attempt(), &result, given_up);
    entry
}

#[test]
fn by_a_clock_that_has_jumped_no_lost_creation_is_over() {
    let index = observe::index::Index::default();
    let (c1, begun) = (Arc::<str>::from("c1"), clock::now());
    let mut entry = in_doubt(&index, begun);
    let (later, at) = (Utc::now() + TimeDelta::hours(1), begun + Duration::from_hours(1));
    entry.skew = Some(TimeDelta::hours(1));
    entry.note_reading(&c1, Step::Platform, later, (later, at), &index);
    assert!(entry.unsettled.contains_key(&c1));
    entry.skew = None;
    entry.note_reading(&c1, Step::Platform, later, (later, at), &index);
    assert!(entry.unsettled.is_empty());
}

/// The hub may have carried it out between the reading and its response.
#[test]
fn a_lost_creation_is_over_only_by_a_reading_that_was_asked_for_when_it_could_not_be_carried_out_any_more() {
    let index = observe::index::Index::default();
    let (c1, begun, wall) = (Arc::<str>::from("c1"), clock::now(), Utc::now());
    let mut entry = in_doubt(&index, begun);
    for (asked, answered, is_over) in [(100, 125, false), (126, 127, true)] {
        let after = |seconds: u32| wall + TimeDelta::seconds(seconds.into());
        let at = begun + Duration::from_secs(u64::from(answered));
        entry.note_reading(&c1, Step::Platform, after(asked), (after(answered), at), &index);
        assert_eq!(entry.unsettled.is_empty(), is_over);
    }
}

#[test]
fn a_lost_creation_is_in_doubt_for_as_long_however_the_clock_is_set_meanwhile() {
    let index = observe::index::Index::default();
    let (c1, begun) = (Arc::<str>::from("c1"), clock::now());
    for jump in [-300, -25, 0, 25, 300].map(TimeDelta::seconds) {
        let mut entry = in_doubt(&index, begun);
        let mut read = |seconds: i64| {
            let now = Utc::now() + jump + TimeDelta::seconds(seconds);
            let at = begun + Duration::from_secs(seconds.unsigned_abs());
            entry.clamp_waits(now);
            entry.note_reading(&c1, Step::Platform, now, (now, at), &index);
            let left = entry.due_at(now, at).map(|due| due - now);
            (entry.unsettled.contains_key(&c1), left)
        };
        assert_eq!(read(119), (true, Some(TimeDelta::seconds(1))), "{jump}");
        assert_eq!(read(120), (false, None), "{jump}");
    }
}

#[tokio::test]
async fn a_quiet_upgrade_writes_nothing() {
    let mut hub = hub(&["c1"]);
    hub.add_upgrade(&upgrade("u1", &["c1"]));
    hub.settle();
    write_rows(&mut hub, "u1");
    hub.settle();
    for _ in 0..3 {
        assert!(hub.pass("u1").is_empty());
    }
}
