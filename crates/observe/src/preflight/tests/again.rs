//! Clusters that are asked again just before they start.

use api::names::ANNOTATION_ACCEPTED_RISKS;

use super::*;
use crate::index::WorkRequest;

/// A cluster with one risk that applies and that the author accepts, so that it must be asked by image.
fn accepted() -> World {
    let mut world = world(&["a"]);
    let mut question = Question::clone(&question());
    question.update.accepted_risks = ["Slow".to_owned()].into();
    world.questions.preflight = Some(Arc::new(question));
    world
}

pub(super) fn at_risk() -> Value {
    let mut status = status_of_probe();
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!(
        "offer/1\nupdate False quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nrisk T Slow It is slow."
    );
    status
}

impl World {
    fn tells_at(&mut self, uid: &str, created: i64) {
        self.tells_of(uid, at_risk(), created);
    }

    /// The cluster has a probe from the beginning, which says this.
    fn has_probe(&mut self, status: Option<Value>) {
        self.version += 1;
        let mut object = probe("a", UPGRADE, "h1", self.version);
        if let Some(status) = status {
            object = answered(object, status, self.version);
        }
        object.metadata.creation_timestamp = Some(api::time::from_chrono(at(0)));
        self.index.work(&Change::Applied(object), at(0));
    }

    fn tells_of(&mut self, uid: &str, status: Value, created: i64) {
        self.version += 1;
        let mut object = answered(probe("a", UPGRADE, "h1", self.version), status, self.version);
        object.metadata.creation_timestamp = Some(api::time::from_chrono(at(created)));
        object.metadata.uid = Some(uid.to_owned());
        self.index.work(&Change::Applied(object), at(0));
        self.refresh(created);
    }
}

#[test]
fn a_request_by_image_follows_from_answers_of_the_last_minutes_only() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    world.preflights.clamp_waits(at(-100));
    assert_eq!(world.says("a", -30), Preflight::Ready);
    assert_eq!(world.says("a", -31), Preflight::Stale, "the clock is behind");
    assert_eq!(world.says("a", 299), Preflight::Ready);
    assert_eq!(world.says("a", 300), Preflight::Stale);
    assert_eq!(world.due(300), Vec::<String>::new(), "it is not its turn");

    world.plan.ask_again = vec![Arc::from("a")];
    assert_eq!(world.due(400), ["delete a p1"]);
    world.index.remove_probe("a", "p1");
    world.ended("a", ProbeResult::Done, 401);
    assert_eq!(world.due(401), ["create a"]);
    assert_eq!(world.says("a", 402), Preflight::Stale, "its place is kept");
    world.ended("a", ProbeResult::Done, 402);
    world.tells_at("p2", 402);
    assert_eq!(world.due(410), Vec::<String>::new(), "it has answered");
    assert_eq!(world.says("a", 410), Preflight::Ready);
    let asked = world.preflights.request("a", true, at(410));
    assert_eq!(
        asked,
        WorkRequest::Image(
            "quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".into()
        )
    );
}

#[test]
fn it_is_looked_in_time_before_windows_open_whether_a_cluster_must_be_asked_again() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    assert_eq!(world.wake(10), None);
    world.plan.summary.next_opening = Some(at(1000));
    assert_eq!(world.wake(10), Some(at(820)));
    assert_eq!(world.wake(820), None);
}

#[test]
fn the_place_of_a_cluster_that_does_not_answer_again_is_kept_for_the_timeout_only() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    world.plan.ask_again = vec![Arc::from("a")];
    assert_eq!(world.due(400), ["delete a p1"]);
    world.index.remove_probe("a", "p1");
    world.refresh(401);
    let timeout = 600;
    assert_eq!(world.says("a", 400 + timeout - 1), Preflight::Stale);
    assert_eq!(world.says("a", 400 + timeout), Preflight::NotAsked);
}

#[test]
fn the_place_of_a_cluster_whose_earlier_probe_stays_is_kept_for_the_timeout_only() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    world.plan.ask_again = vec![Arc::from("a")];
    for second in [400, 402, 406] {
        assert_eq!(world.due(second), ["delete a p1"]);
        world.ended("a", ProbeResult::Failed("denied by policy".to_owned()), second);
    }
    world.plan.ask_again.clear();
    assert_eq!(world.says("a", 999), Preflight::Stale);
    assert_eq!(world.reason("a", 1000), Some((true, Reason::PreflightUnknown)));
    world.asker.clock_trusted = false;
    world.refresh(1000);
    assert_eq!(world.reason("a", 1000), Some((false, Reason::PreflightPending)));
    world.asker.clock_trusted = true;
    world.refresh(1000);
    assert!(!world.preflights.has_stale_image("a", &world.index, at(1000)));
    assert_eq!(world.due(1000), ["delete a p1"], "it is tried again");
    world.index.remove_probe("a", "p1");
    world.ended("a", ProbeResult::Done, 1001);
    assert_eq!(world.due(1001), ["create a"]);
    world.ended("a", ProbeResult::Done, 1002);
    world.tells_at("p2", 1002);
    assert_eq!(world.says("a", 1010), Preflight::Ready);
}

#[test]
fn what_has_been_unknown_for_too_long_gets_no_more_time_when_the_cluster_is_asked_again_for_its_image() {
    let mut world = accepted();
    let mut status = at_risk();
    status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"][3]["fieldValue"]["string"] =
        json!("Unknown");
    world.tells_of("p1", status.clone(), 0);
    assert_eq!(world.reason("a", 599), Some((false, Reason::PreflightPending)));
    assert_eq!(world.reason("a", 600), Some((true, Reason::PreflightUnknown)));
    world.plan.ask_again = vec![Arc::from("a")];
    assert_eq!(world.due(600), ["delete a p1"]);
    world.index.remove_probe("a", "p1");
    world.ended("a", ProbeResult::Done, 601);
    assert_eq!(world.due(601), ["create a"]);
    world.ended("a", ProbeResult::Done, 602);
    world.tells_of("p2", status, 602);
    assert_eq!(world.reason("a", 610), Some((true, Reason::PreflightUnknown)));
}

#[test]
fn a_request_by_version_alone_is_checked_by_the_cluster_and_needs_no_second_question() {
    let mut world = world(&["a"]);
    world.version += 1;
    let mut object = answered(probe("a", UPGRADE, "h1", 2), status_of_probe(), 2);
    object.metadata.creation_timestamp = Some(api::time::from_chrono(at(0)));
    world.index.work(&Change::Applied(object), at(0));
    world.refresh(1);
    assert_eq!(world.says("a", 90_000), Preflight::Ready);
}

#[test]
fn an_image_that_was_told_long_ago_or_by_a_clock_that_is_not_trusted_is_not_requested() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    let image = WorkRequest::Image(
        "quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".into(),
    );
    assert_eq!(world.preflights.request("a", true, at(299)), image);
    assert_eq!(
        world.preflights.request("a", true, at(300)),
        WorkRequest::AsPlanned
    );
    assert_eq!(
        world.preflights.request("a", false, at(10)),
        WorkRequest::AsPlanned
    );
}

#[test]
fn by_a_clock_that_is_not_trusted_no_cluster_is_ready_that_must_be_asked_by_its_image() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    assert_eq!(world.says("a", 10), Preflight::Ready);
    world.asker.clock_trusted = false;
    world.refresh(10);
    assert_eq!(world.says("a", 10), Preflight::Stale);
    world.asker.clock_trusted = true;
    world.refresh(20);
    assert_eq!(world.says("a", 20), Preflight::Ready);
}

#[test]
fn a_request_by_version_alone_needs_no_clock() {
    let mut world = world(&["a"]);
    world.asker.clock_trusted = false;
    world.answers("a", status_of_probe(), 1);
    assert_eq!(world.says("a", 2), Preflight::Ready);
}

#[test]
fn an_agent_may_take_longer_to_answer_than_answers_are_good_for() {
    let mut world = accepted();
    world.has_probe(None);
    world.refresh(1);
    world.has_probe(Some(at_risk()));
    world.refresh(400);
    assert_eq!(world.says("a", 699), Preflight::Ready);
    assert_eq!(world.says("a", 700), Preflight::Stale);
}

#[test]
fn an_answer_that_came_while_the_clock_was_ahead_is_no_younger_than_its_probe() {
    let mut world = accepted();
    world.has_probe(None);
    world.refresh(1);
    world.has_probe(Some(at_risk()));
    world.asker.clock_trusted = false;
    world.refresh(3600);
    world.asker.clock_trusted = true;
    world.preflights.clamp_waits(at(20));
    world.refresh(20);
    assert_eq!(world.says("a", 299), Preflight::Ready);
    assert_eq!(world.says("a", 300), Preflight::Stale);
    assert_eq!(world.says("a", 3600), Preflight::Stale, "it was told an hour ago");
}

#[test]
fn a_probe_stays_when_its_cluster_may_not_be_asked_again() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    world.asker.agents_can_read = false;
    world.plan.ask_again = vec![Arc::from("a")];
    assert_eq!(world.due(400), Vec::<String>::new());
    let keeps_no_place = Some((true, Reason::PreflightUnsupported));
    assert_eq!(world.reason("a", 400), keeps_no_place);
    assert!(
        !world.preflights.has_stale_image("a", &world.index, at(400)),
        "nor does it where nothing holds it back"
    );
}

#[test]
fn a_cluster_that_nothing_holds_back_is_asked_again_for_its_image_whatever_else_it_says() {
    let mut world = accepted();
    let mut status = at_risk();
    status["resourceStatus"]["manifests"][0]["statusFeedback"]["values"][3]["fieldValue"]["string"] =
        json!("True");
    world.answers("a", status, 0);
    assert_eq!(world.reason("a", 1), Some((true, Reason::Failing)));
    let asked = world.preflights.request("a", true, at(1));
    assert_eq!(
        asked,
        WorkRequest::Image(
            "quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".into()
        )
    );
    assert!(!world.preflights.has_stale_image("a", &world.index, at(299)));
    assert!(world.preflights.has_stale_image("a", &world.index, at(300)));
    assert_eq!(
        world.preflights.request("a", true, at(300)),
        WorkRequest::AsPlanned
    );
}

#[test]
fn a_long_timeout_does_not_keep_the_place_of_a_cluster_that_does_not_answer_again() {
    let mut world = accepted();
    let mut question = Question::clone(world.questions.preflight.as_ref().unwrap());
    question.timeout = TimeDelta::hours(24);
    world.questions.preflight = Some(Arc::new(question));
    world.tells_at("p1", 0);
    world.plan.ask_again = vec![Arc::from("a")];
    assert_eq!(world.due(400), ["delete a p1"]);
    world.index.remove_probe("a", "p1");
    world.ended("a", ProbeResult::Done, 401);
    world.due(401);
    assert_eq!(world.says("a", 400 + 599), Preflight::Stale);
    assert_ne!(world.says("a", 400 + 600), Preflight::Stale);
    assert_eq!(world.wake(500), Some(at(1000)));
}

/// In mode Require it would begin a pre-action that the edit has added, although it has said nothing to the new update.
#[test]
fn after_an_edit_no_cluster_keeps_a_place_for_what_was_asked_before() {
    let mut world = accepted();
    world.tells_at("p1", 0);
    world.plan.ask_again = vec![Arc::from("a")];
    assert_eq!(world.due(400), ["delete a p1"]);
    world.index.remove_probe("a", "p1");
    world.ended("a", ProbeResult::Done, 401);
    world.refresh(401);
    assert_eq!(world.says("a", 401), Preflight::Stale);
    let mut edited = Question::clone(world.questions.preflight.as_ref().unwrap());
    edited.hash = Arc::from("h2");
    edited.update.version = "4.20.5".to_owned();
    world.questions.preflight = Some(Arc::new(edited));
    world.refresh(402);
    assert_eq!(world.says("a", 402), Preflight::NotAsked);
}

/// The work of an attempt that failed accepts the risk, and the spec has accepted it only until then.
#[test]
fn a_risk_that_only_an_earlier_request_accepts_blocks_the_next_one() {
    let image = "quay.io/r@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    let mut world = accepted();
    let mut failed = crate::testing::work("a", Step::Platform, UPGRADE.0, 1);
    let notes = failed.metadata.annotations.get_or_insert_default();
    notes.insert(ANNOTATION_ACCEPTED_RISKS.to_owned(), "Gone Slow".to_owned());
    world.index.work(&Change::Applied(failed), at(0));
    let mut status = status_of_probe();
    status["resourceStatus"]["manifests"][0]["conditions"][2]["message"] = json!(format!(
        "offer/1\nlisted {image}\nupdate True {image}\nrisk F Slow It is slow."
    ));
    world.answers("a", status, 1);
    assert_eq!(world.says("a", 1), Preflight::Ready);
    world.questions.preflight = Some(question());
    world.refresh(2);
    assert_eq!(world.reason("a", 2), Some((true, Reason::RiskNotAccepted)));
    let message = world.message("a", 2);
    assert!(
        message.starts_with("Slow: ") && !message.contains("Gone"),
        "{message}"
    );
    // The way round that the guide names: no cluster checks a request by image.
    let mut by_image = Question::clone(&question());
    by_image.update.image = image.to_owned();
    world.questions.preflight = Some(Arc::new(by_image));
    world.refresh(3);
    assert_eq!(world.says("a", 3), Preflight::Ready);
}
