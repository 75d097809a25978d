//! Limits how many requests the hub gets at a time. An overloaded hub slows all writers down: they wait as
//! long as the hub asks, and afterwards send fewer requests at a time until the hub keeps up again. No I/O.

use std::time::{Duration, Instant};

/// Shortest and longest wait if the hub does not say how long to wait.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest wait that the hub may ask for.
const MAX_PAUSE: Duration = Duration::from_mins(5);
/// Number of writers until [`OverloadGate::set_writers`] is called.
const WRITERS: usize = 32;

/// What the end of a request says about the load of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// The hub processed the request: it accepted it, or rejected it for reasons of its content.
    Served,
    /// The hub responded with 429 or 503, with the number of seconds to wait if it gave one, or did not
    /// respond in time.
    Overloaded(Option<Duration>),
    /// Nothing: the request was not sent, or the connection failed.
    Unknown,
}

/// Whether another request may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateState {
    /// It may start now.
    Open,
    /// It may start at this time at the earliest.
    ClosedUntil(Instant),
    /// It may start when a running request has ended.
    Full,
}

/// The gate that every request of a writer passes. The requests of the lease and of Events do not pass it.
#[derive(Debug)]
pub struct OverloadGate {
    /// Largest number of requests at a time: one for each writer. `limit` is the number that the hub can
    /// currently handle.
    max_limit: usize,
    limit: usize,
    under_way: usize,
    closed_until: Option<Instant>,
    /// When the gate was closed last. A response to a request that was sent before reports the same overload
    /// again.
    closed_at: Option<Instant>,
    /// How often the gate was closed since the last request that the hub processed.
    closures: u32,
    /// State of the random number generator for the jitter.
    rng: u64,
}

impl Default for OverloadGate {
    fn default() -> OverloadGate {
        OverloadGate {
            max_limit: WRITERS,
            limit: WRITERS,
            under_way: 0,
            closed_until: None,
            closed_at: None,
            closures: 0,
            rng: crate::lease::random(),
        }
    }
}

impl OverloadGate {
    /// Sets the number of writers.
    pub const fn set_writers(&mut self, writers: usize) {
        self.max_limit = writers;
        self.limit = writers;
    }

    /// Whether another request may start.
    #[must_use]
    pub fn state(&self, now: Instant) -> GateState {
        match self.closed_until {
            Some(until) if now < until => GateState::ClosedUntil(until),
            _ if self.under_way >= self.limit => GateState::Full,
            _ => GateState::Open,
        }
    }

    /// Records that a request starts.
    pub const fn begin(&mut self) {
        self.under_way += 1;
    }

    /// True when no other request may start until one has ended.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.under_way >= self.limit
    }

    /// True when only one more request may start.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.under_way + 1 >= self.limit
    }

    /// True while the number of requests at a time is limited to less than the number of writers.
    #[must_use]
    pub const fn is_narrowed(&self) -> bool {
        self.limit < self.max_limit
    }

    /// How many requests may run at a time.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Records that a request that started at `begun` has ended. Returns true if all writers pause because of
    /// it.
    pub fn end(&mut self, begun: Instant, now: Instant, load: Load) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        let is_new = self.closed_at.is_none_or(|closed| begun >= closed);
        match load {
            Load::Served => {
                self.limit = self.max_limit.min(self.limit + 1);
                if is_new {
                    self.closures = 0;
                }
                false
            }
            Load::Overloaded(asked) => {
                self.limit = (self.limit / 2).max(1);
                if is_new {
                    self.closures += 1;
                    self.closed_at = Some(now);
                }
                let pause = asked.map_or_else(|| self.pause(), |asked| asked.min(MAX_PAUSE));
                if is_new || asked.is_some() {
                    let until = now + pause;
                    self.closed_until = Some(self.closed_until.map_or(until, |known| known.max(until)));
                }
                is_new
            }
            Load::Unknown => false,
        }
    }

    /// A wait that doubles every time the gate closes, plus up to a quarter of it at random, so that replicas
    /// and controllers do not return at the same moment.
    fn pause(&mut self) -> Duration {
        let doublings = self.closures.saturating_sub(1).min(10);
        let pause = PAUSE.0.saturating_mul(1 << doublings).min(PAUSE.1);
        self.rng = self
            .rng
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = u32::try_from(self.rng >> 54).unwrap_or(0);
        pause + pause * share / 4096
    }
}

#[cfg(test)]
mod tests;
