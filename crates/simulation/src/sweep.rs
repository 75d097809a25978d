//! Runs many seeds, on several threads. A run has one thread, so threads do not change what a seed does.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};

use crate::fault::{Fault, Faults};
use crate::options::{ASKING, CONTROLLED, Options};
use crate::oracle::Rule;
use crate::run::{Outcome, run};
use crate::trace::Trace;

/// The seeds of a sweep, by number.
#[derive(Clone, Copy, Debug)]
pub enum Seeds {
    /// From this one on.
    From(u64),
    /// From this one on, without and with [`CONTROLLED`] and [`ASKING`]: the four kinds of seeds in turn.
    InTurn(u64),
}

/// How many kinds of seeds there are.
const KINDS: u64 = 4;

impl Seeds {
    /// The seed with this number.
    #[must_use]
    pub const fn nth(self, number: u64) -> u64 {
        match self {
            Self::From(first) => first.wrapping_add(number),
            Self::InTurn(first) => (first | (CONTROLLED * (number % KINDS))).wrapping_add(number / KINDS),
        }
    }

    /// The first seeds: each begins a row of seeds of its own.
    fn firsts(self) -> Vec<u64> {
        let rows = match self {
            Self::From(_) => 1,
            Self::InTurn(_) => KINDS,
        };
        (0..rows).map(|number| self.nth(number)).collect()
    }

    /// Whether clusters may be asked in some of them.
    fn ask(self) -> bool {
        self.firsts().into_iter().any(|first| first >= ASKING)
    }

    /// Whether starts may depend on windows and approvals in some of them.
    fn are_controlled(self) -> bool {
        self.firsts().into_iter().any(|first| first & CONTROLLED != 0)
    }
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let firsts: Vec<String> = self.firsts().iter().map(ToString::to_string).collect();
        write!(f, "seeds from {} on", firsts.join(", "))?;
        match self {
            Self::From(_) => Ok(()),
            Self::InTurn(_) => f.write_str(" in turn"),
        }
    }
}

/// What all runs of a sweep did together.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Runs that violated a rule, or did not come to an end.
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
const WHOLE: u64 = 280;
/// In a sweep of this many, every fault happens.
const LARGE: u64 = 2000;

impl Totals {
    /// Rules that a sweep of many seeds has never tried, although it should: rules about what clusters are asked need seeds in which
    /// they are asked.
    #[must_use]
    pub fn untried(&self, seeds: Seeds) -> Vec<Rule> {
        let (asks, is_controlled) = (seeds.ask(), seeds.are_controlled());
        let rules = Rule::ALL.iter().filter(|_| self.runs >= WHOLE);
        let rules = rules.filter(|rule| match rule {
            Rule::Preflight | Rule::Probes | Rule::WorkerPools => asks,
            Rule::Windows | Rule::Approvals => is_controlled,
            _ => true,
        });
        rules
            .filter(|rule| !self.checked.contains_key(rule))
            .copied()
            .collect()
    }

    /// Faults that have never happened in a large sweep of these seeds, although they could.
    #[must_use]
    pub fn unseen(&self, seeds: Seeds) -> Vec<Fault> {
        let (asks, is_controlled) = (seeds.ask(), seeds.are_controlled());
        let faults = Fault::ALL.iter().filter(|_| self.runs >= LARGE);
        let possible = faults.filter(|fault| asks || !fault.is_of_probes());
        let possible = possible.filter(|fault| is_controlled || !fault.is_of_control());
        possible
            .filter(|fault| !self.faults.contains_key(fault))
            .copied()
            .collect()
    }

    fn add(&mut self, seed: u64, outcome: &Result<Outcome>) {
        self.runs += 1;
        let is_good = outcome
            .as_ref()
            .is_ok_and(|outcome| outcome.violations.is_empty());
        self.failed += u64::from(!is_good);
        let Ok(outcome) = outcome else { return };
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

/// Runs these seeds, with this many threads, until `is_over` says so of the number of seeds that were begun. `look`
/// gets every outcome, on the thread of its run; the other threads go on meanwhile.
///
/// # Errors
/// `look` fails; no other seed is begun then.
pub fn sweep(
    seeds: Seeds,
    jobs: usize,
    is_over: impl Fn(u64) -> bool + Sync,
    look: impl Fn(&Options, &Result<Outcome>) -> Result<()> + Sync,
) -> Result<Totals> {
    let begun = AtomicU64::new(0);
    let is_stopped = AtomicBool::new(false);
    let totals = Mutex::new(Totals::default());
    let work = || -> Result<()> {
        loop {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            if is_stopped.load(Ordering::Relaxed) || is_over(number) {
                return Ok(());
            }
            let options = Options::of(seeds.nth(number));
            let outcome = run(&options, &Faults::ByRate, Trace::default());
            totals
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(options.seed, &outcome);
            if let Err(error) = look(&options, &outcome) {
                is_stopped.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
    };
    thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        Ok(())
    })?;
    Ok(totals.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// What `work` makes of each item, in the order of the items, on as many threads as there are cores.
///
/// # Panics
/// `work` panics.
pub fn of_each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let begun = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let number = begun.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(number) else {
                return done;
            };
            done.push((number, work(item)));
        }
    };
    let mut done = Vec::new();
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(some)).collect();
        for thread in threads {
            match thread.join() {
                Ok(some) => done.extend(some),
                Err(cause) => resume_unwind(cause),
            }
        }
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_sweep_tells_which_faults_have_never_happened() {
        let mut totals = Totals {
            runs: LARGE,
            ..Totals::default()
        };
        let others = Fault::ALL.iter().filter(|fault| **fault != Fault::Kill);
        totals.faults = others.map(|fault| (*fault, 1)).collect();
        let plain = Seeds::From(0);
        assert_eq!(totals.unseen(plain), [Fault::Kill]);
        totals.faults.remove(&Fault::Withhold);
        totals.faults.remove(&Fault::Rewindow);
        assert_eq!(
            totals.unseen(plain),
            [Fault::Kill],
            "nobody is asked, and nothing is controlled"
        );
        assert!(totals.unseen(Seeds::From(CONTROLLED)).contains(&Fault::Rewindow));
        assert!(totals.unseen(Seeds::From(ASKING)).contains(&Fault::Withhold));
        for fault in [Fault::Rewindow, Fault::Withhold] {
            assert!(totals.unseen(Seeds::InTurn(0)).contains(&fault));
        }
        totals.runs = WHOLE;
        assert_eq!(totals.unseen(plain), []);
    }

    #[test]
    fn seeds_in_turn_are_of_four_kinds_and_each_row_of_them_can_be_played_alone() {
        let seeds = Seeds::InTurn(7);
        let all: Vec<u64> = (0..8).map(|number| seeds.nth(number)).collect();
        let both = ASKING | CONTROLLED;
        assert_eq!(all[..4], [7, CONTROLLED | 7, ASKING | 7, both | 7]);
        for (first, next) in all[..4].iter().zip(&all[4..]) {
            assert_eq!(Seeds::From(*first).nth(1), *next);
        }
        let text = format!("seeds from 7, {}, {}, {} on in turn", all[1], all[2], all[3]);
        assert_eq!(seeds.to_string(), text);
        assert_eq!(Seeds::From(7).to_string(), "seeds from 7 on");
    }

    #[test]
    fn each_item_is_worked_on_once_and_the_results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(
            of_each(&items, |item| item * 2),
            (0..2000).step_by(2).collect::<Vec<_>>()
        );
        assert_eq!(of_each(&[], |item: &u64| *item), [0_u64; 0]);
    }
}
