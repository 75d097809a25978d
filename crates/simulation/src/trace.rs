//! The trace of a run: a hash over all changes of the hub and all requests that it answered, by which two runs are compared, and
//! optionally a line for each thing that happened.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::fault::Occasion;

/// What happened in a run. Clones are the same trace.
#[derive(Clone, Debug, Default)]
pub struct Trace(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    hash: u64,
    lines: Option<String>,
    faults: Vec<Occasion>,
    requests: u64,
    count: u64,
}

/// A run in which more happens than this has come into a circle in which no time passes.
const MOST: u64 = 400_000;

impl Trace {
    /// A trace that also keeps its lines.
    #[must_use]
    pub fn with_lines() -> Self {
        let trace = Self::default();
        trace.with(|record| record.lines = Some(String::new()));
        trace
    }

    fn with<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a line. `at` is the virtual time.
    ///
    /// # Panics
    /// The run does not end.
    pub fn add(&self, at: Duration, line: &str) {
        self.with(|record| {
            let at = at.as_secs_f64();
            record.count += 1;
            let mut hash = record.hash ^ at.to_bits();
            for byte in line.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
            record.hash = hash;
            if let Some(lines) = &mut record.lines {
                let _ = writeln!(lines, "{at:>10.3} {line}");
            }
            assert!(record.count < MOST, "the run does not end: {line} at {at:.3} s");
        });
    }

    /// Adds a line that is no part of the hash: a fault shows in the hash only by what it changes.
    pub fn tell(&self, at: Duration, line: &str) {
        self.with(|record| {
            if let Some(lines) = &mut record.lines {
                let _ = writeln!(lines, "{:>10.3} {line}", at.as_secs_f64());
            }
        });
    }

    /// Adds to the line before what only people want to read: it is no part of the hash.
    pub fn explain(&self, text: impl FnOnce() -> String) {
        self.with(|record| {
            if let Some(lines) = &mut record.lines {
                let _ = writeln!(lines, "{:>12}{}", "", text());
            }
        });
    }

    /// Counts a request.
    pub fn count_request(&self) {
        self.with(|record| record.requests += 1);
    }

    /// Adds a fault that happened.
    pub fn add_fault(&self, occasion: Occasion) {
        self.with(|record| record.faults.push(occasion));
    }

    /// The hash of all lines.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.with(|record| record.hash)
    }

    /// The number of requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.with(|record| record.requests)
    }

    /// The faults that happened.
    #[must_use]
    pub fn faults(&self) -> Vec<Occasion> {
        self.with(|record| record.faults.clone())
    }

    /// The lines, if they were kept.
    #[must_use]
    pub fn lines(&self) -> String {
        self.with(|record| record.lines.clone().unwrap_or_default())
    }
}
