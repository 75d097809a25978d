//! The life of the cluster-version operator: which payload's operator runs, when it hands over to the next one, and
//! when it is away.
//!
//! Pure. An operator that accepts a payload applies its first manifests, among them the Deployment of its successor,
//! which then starts anew: without memory, counting from the first manifest.

use chrono::TimeDelta;
use clusterversion::acceptance::Payload;

use super::apply::Apply;
use crate::fields::Time;

/// What the operator is about.
#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// It runs.
    Up,
    /// It runs, and its successor starts then.
    HandingOver { to: Payload, at: Time },
    /// It is away until then, and comes back with this payload.
    Away { with: Payload, until: Time },
}

/// How long its changes take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spans {
    /// From an accepted payload to the start of its operator.
    pub handover: TimeDelta,
    /// A start.
    pub restart: TimeDelta,
}

/// What came of a look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing new.
    Nothing,
    /// It started: its memory is empty.
    Started,
}

/// The operator.
#[derive(Clone, Debug)]
pub struct Life {
    running: Payload,
    phase: Phase,
    /// The count it is at.
    pub apply: Apply,
}

impl Life {
    /// An operator that runs. `completed`: its payload was applied as a whole before.
    #[must_use]
    pub fn new(running: Payload, completed: bool, now: Time) -> Self {
        let apply = Apply::new(&running.version, completed, now);
        Self {
            running,
            phase: Phase::Up,
            apply,
        }
    }

    /// The payload whose operator runs, or comes back.
    #[must_use]
    pub fn running(&self) -> &Payload {
        &self.running
    }

    /// The payload that is applied: its own, or that of its successor.
    #[must_use]
    pub fn applied(&self) -> &Payload {
        match &self.phase {
            Phase::HandingOver { to, .. } => to,
            Phase::Up | Phase::Away { .. } => &self.running,
        }
    }

    /// Whether it runs.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !matches!(self.phase, Phase::Away { .. })
    }

    /// When it next changes by itself.
    #[must_use]
    pub fn wake(&self) -> Option<Time> {
        match &self.phase {
            Phase::Up => None,
            Phase::HandingOver { at, .. } => Some(*at),
            Phase::Away { until, .. } => Some(*until),
        }
    }

    /// It accepted a payload. One that runs already changes nothing, unless its successor was about to start: then it
    /// stays, and applies its own payload again.
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

    /// Its machine is drained: it starts again elsewhere.
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

    /// Brings it up to `now`. `completed` is asked of the version that starts.
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
    use clusterversion::acceptance::Payload;

    use super::{Event, Life, Spans};
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
        let mut life = Life::new(payload("4.16.1"), true, at(0));
        life.begin(payload("4.16.2"), SPANS, at(0));
        assert!(life.is_up());
        assert_eq!(life.advance(SPANS, |_| false, at(80)), Event::Nothing);
        assert_eq!(life.running().version, "4.16.1");
        assert_eq!(life.advance(SPANS, |_| false, at(90)), Event::Nothing);
        assert!(!life.is_up());
        assert_eq!(life.wake(), Some(at(150)));
        assert_eq!(life.advance(SPANS, |_| false, at(150)), Event::Started);
        assert_eq!(
            (life.running().version.as_str(), life.is_up(), life.wake()),
            ("4.16.2", true, None)
        );
    }

    #[test]
    fn the_payload_that_runs_is_not_started_again() {
        let mut life = Life::new(payload("4.16.1"), true, at(0));
        life.begin(payload("4.16.1"), SPANS, at(0));
        assert_eq!(life.wake(), None);
    }

    #[test]
    fn a_retarget_back_to_what_runs_ends_the_handover() {
        let mut life = Life::new(payload("4.16.1"), true, at(0));
        life.begin(payload("4.16.2"), SPANS, at(0));
        life.begin(payload("4.16.1"), SPANS, at(30));
        assert_eq!(life.applied().version, "4.16.1");
        assert_eq!(life.apply.version(), "4.16.1");
        for seconds in [90, 150, 500] {
            assert_eq!(life.advance(SPANS, |_| false, at(seconds)), Event::Nothing);
        }
        assert_eq!((life.running().version.as_str(), life.wake()), ("4.16.1", None));
    }

    #[test]
    fn an_evicted_operator_comes_back_with_what_it_was_to_run() {
        let mut life = Life::new(payload("4.16.1"), true, at(0));
        life.evict(SPANS, at(0));
        assert!(!life.is_up());
        assert_eq!(life.advance(SPANS, |_| true, at(60)), Event::Started);
        assert_eq!(life.running().version, "4.16.1");
        life.begin(payload("4.16.2"), SPANS, at(60));
        life.evict(SPANS, at(70));
        assert_eq!(life.advance(SPANS, |_| false, at(130)), Event::Started);
        assert_eq!(life.running().version, "4.16.2");
    }

    #[test]
    fn a_retarget_hands_over_again() {
        let mut life = Life::new(payload("4.16.2"), false, at(0));
        life.begin(payload("4.16.3"), SPANS, at(10));
        life.advance(SPANS, |_| false, at(500));
        assert_eq!(
            life.advance(SPANS, |_| false, at(500)),
            Event::Nothing,
            "started in the first look"
        );
        assert_eq!(life.running().version, "4.16.3");
    }
}
