//! The handover between cluster-version operators: which payload's operator runs, when it is replaced by the next one, and
//! when none runs.
//!
//! This is a pure state machine. An operator that accepts a payload applies its first manifests. One of them is the Deployment
//! of its successor, which then starts without memory and from the first manifest.

use chrono::TimeDelta;
use cvo_model::acceptance::Payload;

use super::apply::Apply;
use crate::fields::Time;

/// The phase of the operator.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// It runs.
    Up,
    /// It runs until its successor replaces it at this time.
    HandingOver { to: Payload, at: Time },
    /// It is away until this time, and then runs with this payload.
    Away { with: Payload, until: Time },
}

/// How long the changes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// Time from the acceptance of a payload to the replacement of the operator.
    pub handover: TimeDelta,
    /// Duration of a start.
    pub restart: TimeDelta,
}

/// The result of an advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing happened.
    Nothing,
    /// The operator started, with empty memory.
    Started,
}

/// The operator and its handover.
#[derive(Clone, Debug)]
pub struct Handover {
    running: Payload,
    phase: Phase,
    /// The state of its apply loop.
    pub apply: Apply,
}

impl Handover {
    /// A running operator. `completed`: its payload was fully applied before.
    #[must_use]
    pub fn new(running: Payload, completed: bool, now: Time) -> Self {
        let apply = Apply::new(&running.version, completed, now);
        Self {
            running,
            phase: Phase::Up,
            apply,
        }
    }

    /// The payload whose operator runs or is restarting.
    #[must_use]
    pub fn running(&self) -> &Payload {
        &self.running
    }

    /// The payload that is being applied: that of the operator, or that of its successor.
    #[must_use]
    pub fn applied(&self) -> &Payload {
        match &self.phase {
            Phase::HandingOver { to, .. } => to,
            Phase::Up | Phase::Away { .. } => &self.running,
        }
    }

    /// Whether the operator runs.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !matches!(self.phase, Phase::Away { .. })
    }

    /// When it next changes without an event.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        match &self.phase {
            Phase::Up => None,
            Phase::HandingOver { at, .. } => Some(*at),
            Phase::Away { until, .. } => Some(*until),
        }
    }

    /// The operator accepted a payload. Its own payload changes nothing, unless a successor was about to start: then the operator
    /// stays and applies its own payload again.
    pub fn begin(&mut self, payload: Payload, spans: Spans, now: Time) {
        if payload.image == self.running.image && payload.version == self.running.version {
            if matches!(self.phase, Phase::HandingOver { .. }) {
                self.phase = Phase::Up;
                self.apply = Apply::new(&payload.version, false, now);
            }
            return;
        }
        self.apply = Apply::new(&payload.version, false, now);
        self.phase = Phase::HandingOver {
            to: payload,
            at: now + spans.handover,
        };
    }

    /// The operator's machine is drained, so it starts again elsewhere.
    pub fn evict(&mut self, spans: Spans, now: Time) {
        let with = match &self.phase {
            Phase::HandingOver { to, .. } => to.clone(),
            Phase::Away { with, .. } => with.clone(),
            Phase::Up => self.running.clone(),
        };
        self.phase = Phase::Away {
            with,
            until: now + spans.restart,
        };
    }

    /// Advances to `now`. `completed`: whether the payload of an operator that starts was fully applied before.
    pub fn advance(&mut self, spans: Spans, completed: impl Fn(&Payload) -> bool, now: Time) -> Event {
        if let Phase::HandingOver { to, at } = &self.phase
            && *at <= now
        {
            self.phase = Phase::Away {
                with: to.clone(),
                until: *at + spans.restart,
            };
        }
        let Phase::Away { with, until } = &self.phase else {
            return Event::Nothing;
        };
        if *until > now {
            return Event::Nothing;
        }
        self.running = with.clone();
        self.phase = Phase::Up;
        self.apply = Apply::new(&self.running.version, completed(&self.running), now);
        Event::Started
    }
}

#[cfg(test)]
mod tests {
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
}
