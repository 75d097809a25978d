//! Runs many seeds, on several threads. A run has one thread, so threads do not change what a seed does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};

use crate::fault::{Fault, Faults};
use crate::options::Options;
use crate::oracle::Rule;
use crate::run::{Outcome, run};
use crate::trace::Trace;

/// What all runs of a sweep did together.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Runs that violated a rule.
    pub failed: u64,
    /// Requests to the hub.
    pub requests: u64,
    /// How often each fault happened.
    pub faults: BTreeMap<Fault, u64>,
    /// How often each rule was tried.
    pub checked: BTreeMap<Rule, u64>,
    /// The hash of the trace of each seed.
    pub hashes: BTreeMap<u64, u64>,
}

/// A sweep of this many seeds tries every rule.
const WHOLE: u64 = 400;

impl Totals {
    /// Rules that a sweep of many seeds has never tried.
    #[must_use]
    pub fn untried(&self) -> Vec<Rule> {
        let rules = Rule::ALL.iter().filter(|_| self.runs >= WHOLE);
        rules
            .filter(|rule| !self.checked.contains_key(rule))
            .copied()
            .collect()
    }

    fn add(&mut self, seed: u64, outcome: &Outcome) {
        self.runs += 1;
        self.failed += u64::from(!outcome.violations.is_empty());
        self.requests += outcome.requests;
        for occasion in &outcome.faults {
            *self.faults.entry(occasion.fault).or_default() += 1;
        }
        for (rule, count) in &outcome.checked {
            *self.checked.entry(*rule).or_default() += count;
        }
        self.hashes.insert(seed, outcome.hash);
    }
}

/// Runs seeds from `first` on, with this many threads, until `is_over` says so of the number of seeds that were begun. `look`
/// gets every outcome, one at a time.
///
/// # Errors
/// `look` fails.
pub fn sweep(
    first: u64,
    jobs: usize,
    is_over: impl Fn(u64) -> bool + Sync,
    look: impl FnMut(&Options, &Outcome) -> Result<()> + Send,
) -> Result<Totals> {
    let begun = AtomicU64::new(0);
    let shared = Mutex::new((Totals::default(), look));
    let work = || -> Result<()> {
        loop {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if is_over(number) {
                return Ok(());
            }
            let options = Options::of(first.wrapping_add(number));
            let outcome = run(&options, &Faults::ByRate, Trace::default());
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            let (totals, look) = &mut *shared;
            let outcome = match outcome {
                Ok(outcome) => outcome,
                // A seed that cannot be run to its end does not stop the others.
                Err(error) => {
                    eprintln!("seed {}: {error:#}", options.seed);
                    totals.runs += 1;
                    totals.failed += 1;
                    continue;
                }
            };
            totals.add(options.seed, &outcome);
            look(&options, &outcome)?;
        }
    };
    thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a run panicked"))??;
        }
        Ok(())
    })?;
    let (totals, _) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(totals)
}
