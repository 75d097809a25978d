//! How much is asked of the hub at once. An overloaded hub slows every writer down: all wait as long as it asks for, and
//! after that fewer writes are under way, until it keeps up again. No I/O.

use std::time::{Duration, Instant};

/// First and longest wait where the hub does not say how long.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest wait that the hub may ask for.
const LONGEST: Duration = Duration::from_mins(5);
/// Writers, until the gate is told how many there are.
const WRITERS: usize = 32;

/// What the end of a request says of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It answered: yes, or no to this request alone.
    Served,
    /// It answered 429 or 503, with how long to wait, or not in time.
    Overloaded(Option<Duration>),
    /// Nothing: the request was not sent, or the connection failed.
    Unknown,
}

/// Whether another request may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Yes.
    Now,
    /// Not before then.
    At(Instant),
    /// When one of those that are under way has ended.
    AfterAnother,
}

/// The gate that every request of a writer passes. The lease's own requests and Events do not.
#[derive(Debug)]
pub struct Gate {
    /// Requests that may be under way: how many there are writers, and how many the hub can bear.
    most: usize,
    limit: usize,
    under_way: usize,
    closed_until: Option<Instant>,
    /// When it was closed last. Answers to older requests tell of the same overload.
    closed_at: Option<Instant>,
    /// How often it was closed without a served request in between.
    closures: u32,
    /// State of the generator of the jitter.
    dice: u64,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate {
            most: WRITERS,
            limit: WRITERS,
            under_way: 0,
            closed_until: None,
            closed_at: None,
            closures: 0,
            dice: crate::lease::random(),
        }
    }
}

impl Gate {
    /// Says how many writers there are.
    pub const fn widen(&mut self, writers: usize) {
        self.most = writers;
        self.limit = writers;
    }

    /// Whether another request may begin.
    #[must_use]
    pub fn opens(&self, now: Instant) -> Opening {
        match self.closed_until {
            Some(until) if now < until => Opening::At(until),
            _ if self.under_way >= self.limit => Opening::AfterAnother,
            _ => Opening::Now,
        }
    }

    /// Notes that a request begins.
    pub const fn begin(&mut self) {
        self.under_way += 1;
    }

    /// True when no other request may begin before one has ended.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.under_way >= self.limit
    }

    /// True when only one more request may begin.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.under_way + 1 >= self.limit
    }

    /// True while fewer requests may be under way than there are writers.
    #[must_use]
    pub const fn is_narrowed(&self) -> bool {
        self.limit < self.most
    }

    /// How many requests may be under way.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// Notes that a request that began then has ended. True when all writers pause because of it.
    pub fn end(&mut self, begun: Instant, now: Instant, load: Load) -> bool {
        self.under_way = self.under_way.saturating_sub(1);
        let news = self.closed_at.is_none_or(|closed| begun >= closed);
        match load {
            Load::Served => {
                self.limit = self.most.min(self.limit + 1);
                if news {
                    self.closures = 0;
                }
                false
            }
            Load::Overloaded(asked) => {
                self.limit = (self.limit / 2).max(1);
                if news {
                    self.closures += 1;
                    self.closed_at = Some(now);
                }
                let pause = asked.map_or_else(|| self.pause(), |asked| asked.min(LONGEST));
                if news || asked.is_some() {
                    let until = now + pause;
                    self.closed_until = Some(self.closed_until.map_or(until, |known| known.max(until)));
                }
                news
            }
            Load::Unknown => false,
        }
    }

    /// A wait that doubles with every closure, and up to a quarter more, so that replicas and controllers do not come back in
    /// step.
    fn pause(&mut self) -> Duration {
        let doublings = self.closures.saturating_sub(1).min(10);
        let pause = PAUSE.0.saturating_mul(1 << doublings).min(PAUSE.1);
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let share = u32::try_from(self.dice >> 54).unwrap_or(0);
        pause + pause * share / 4096
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
