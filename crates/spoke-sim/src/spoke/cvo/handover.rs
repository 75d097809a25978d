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
mod tests;
