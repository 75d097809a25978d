use chrono::TimeDelta;
use cvo_model::acceptance::Payload;

use super::{Event, Handover, Spans};
use crate::fields::{Time, from_unix};

const SPANS: Spans = Spans {
    handover: TimeDelta::seconds(90),
    restart: TimeDelta::seconds(60),
};

fn payload(version: &str) -> Payload {
    Payload {
        version: version.into(),
        image: format!("image-of-{version}"),
        ..Payload::default()
    }
}

fn at(seconds: i64) -> Time {
    from_unix(seconds)
}

#[test]
fn a_successor_starts_after_the_handover_and_counts_anew() {
    let mut handover = Handover::new(payload("4.16.1"), true, at(0));
    handover.begin(payload("4.16.2"), SPANS, at(0));
    assert!(handover.is_up());
    assert_eq!(handover.advance(SPANS, |_| false, at(80)), Event::Nothing);
    assert_eq!(handover.running().version, "4.16.1");
    assert_eq!(handover.advance(SPANS, |_| false, at(90)), Event::Nothing);
    assert!(!handover.is_up());
    assert_eq!(handover.wake(), Some(at(150)));
    assert_eq!(handover.advance(SPANS, |_| false, at(150)), Event::Started);
    assert_eq!(
        (
            handover.running().version.as_str(),
            handover.is_up(),
            handover.wake()
        ),
        ("4.16.2", true, None)
    );
}

#[test]
fn the_payload_that_runs_is_not_started_again() {
    let mut handover = Handover::new(payload("4.16.1"), true, at(0));
    handover.begin(payload("4.16.1"), SPANS, at(0));
    assert_eq!(handover.wake(), None);
}

#[test]
fn a_retarget_back_to_what_runs_ends_the_handover() {
    let mut handover = Handover::new(payload("4.16.1"), true, at(0));
    handover.begin(payload("4.16.2"), SPANS, at(0));
    handover.begin(payload("4.16.1"), SPANS, at(30));
    assert_eq!(handover.applied().version, "4.16.1");
    assert_eq!(handover.apply.version(), "4.16.1");
    for seconds in [90, 150, 500] {
        assert_eq!(handover.advance(SPANS, |_| false, at(seconds)), Event::Nothing);
    }
    assert_eq!(
        (handover.running().version.as_str(), handover.wake()),
        ("4.16.1", None)
    );
}

#[test]
fn an_evicted_operator_comes_back_with_what_it_was_to_run() {
    let mut handover = Handover::new(payload("4.16.1"), true, at(0));
    handover.evict(SPANS, at(0));
    assert!(!handover.is_up());
    assert_eq!(handover.advance(SPANS, |_| true, at(60)), Event::Started);
    assert_eq!(handover.running().version, "4.16.1");
    handover.begin(payload("4.16.2"), SPANS, at(60));
    handover.evict(SPANS, at(70));
    assert_eq!(handover.advance(SPANS, |_| false, at(130)), Event::Started);
    assert_eq!(handover.running().version, "4.16.2");
}

#[test]
fn a_retarget_hands_over_again() {
    let mut handover = Handover::new(payload("4.16.2"), false, at(0));
    handover.begin(payload("4.16.3"), SPANS, at(10));
    handover.advance(SPANS, |_| false, at(500));
    assert_eq!(
        handover.advance(SPANS, |_| false, at(500)),
        Event::Nothing,
        "started in the first look"
    );
    assert_eq!(handover.running().version, "4.16.3");
}
