//! The trace of a run: a hash over all changes of the hub, with what the changed objects say, and over all requests that it
//! answered, by which two runs are compared, and optionally a line for each thing that happened.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::fault::Occasion;

/// What happened in a run. Clones are the same trace.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    record: Arc<Mutex<Record>>,
    /// Wakes whoever waits for the record to be full.
    full: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Record {
    hash: u64,
    lines: Option<String>,
    faults: Vec<Occasion>,
    requests: u64,
    count: u64,
    /// The last line, if more has happened than may.
    excess: Option<String>,
}

/// A run in which more happens than this has come into a circle in which no time passes.
const MOST: u64 = 400_000;
/// What is multiplied into the hash for each byte of a line, or for each eight bytes of an object.
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// A hash of a text by words of eight bytes, because objects are long.
fn hash_of(text: &str) -> u64 {
    let words = text.as_bytes().chunks(8);
    words.fold(text.len() as u64, |hash, word| {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        let mixed = (hash ^ u64::from_le_bytes(bytes)).wrapping_mul(PRIME);
        // A product has what differs in its upper bits alone; the next one would lose it.
        mixed ^ (mixed >> 32)
    })
}

impl Trace {
    /// A trace that also keeps its lines.
    #[must_use]
    pub fn with_lines() -> Self {
        let trace = Self::default();
        trace.with(|record| record.lines = Some(String::new()));
        trace
    }

    fn with<T>(&self, change: impl FnOnce(&mut Record) -> T) -> T {
        change(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds a line. `at` is the virtual time.
    ///
    /// # Panics
    /// The run does not end, and whoever adds lines gives nobody else a turn who could end it.
    pub fn add(&self, at: Duration, line: &str) {
        self.add_about(at, line, "");
    }

    /// The same. `text` is a part of the hash, and not of the line.
    ///
    /// # Panics
    /// As [`Trace::add`].
    pub fn add_about(&self, at: Duration, line: &str, text: &str) {
        let count = self.with(|record| {
            let at = at.as_secs_f64();
            record.count += 1;
            let mut hash = record.hash ^ at.to_bits() ^ hash_of(text).rotate_left(17);
            for byte in line.bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(PRIME);
            }
            record.hash = hash;
            if let Some(lines) = &mut record.lines {
                let _ = writeln!(lines, "{at:>10.3} {line}");
            }
            if record.count == MOST {
                record.excess = Some(format!("{line} at {at:.3} s"));
            }
            record.count
        });
        if count == MOST {
            self.full.notify_one();
        }
        assert!(count < 2 * MOST, "the run does not end: {line}");
    }

    /// Waits until more has happened than may in a run that ends, and returns the last line.
    pub async fn overrun(&self) -> String {
        loop {
            if let Some(line) = self.with(|record| record.excess.clone()) {
                return line;
            }
            self.full.notified().await;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_object_says_is_a_part_of_the_hash_wherever_it_differs() {
        let hash = |text: &str| {
            let trace = Trace::default();
            trace.add_about(Duration::from_secs(1), "managedclusters c1 Modified rv 7", text);
            trace.add(Duration::from_secs(2), "GET 200");
            trace.hash()
        };
        let text = r#"{"metadata":{"name":"c1"},"status":{"message":"one"}}"#;
        assert_eq!(hash(text), hash(text));
        for at in 0..text.len() {
            let mut other = text.as_bytes().to_vec();
            other[at] ^= 1;
            assert_ne!(hash(text), hash(&String::from_utf8(other).unwrap()), "byte {at}");
        }
        assert_ne!(hash(text), hash(&format!("{text}\0")));
    }

    #[tokio::test]
    async fn a_record_that_is_full_wakes_whoever_ends_the_run() {
        let trace = Trace::default();
        let waits = tokio::spawn({
            let trace = trace.clone();
            async move { trace.overrun().await }
        });
        tokio::task::yield_now().await;
        for _ in 0..MOST - 1 {
            trace.add(Duration::ZERO, "again");
        }
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        trace.add(Duration::ZERO, "again");
        assert_eq!(waits.await.unwrap(), "again at 0.000 s");
    }
}
