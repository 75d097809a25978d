//! The same seed gives the same trace: twice in one process, on any thread, and in other processes.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;

use simulation::options::{ASKING, CONTROLLED, Options};
use simulation::sweep::{Seeds, sweep};

/// Seeds of a plain world, seeds in some of which starts depend on windows and approvals, and seeds in some of which clusters are
/// asked: from when on.
const FIRST: [u64; 3] = [0, CONTROLLED, ASKING];
/// How many of each.
const SEEDS: u64 = 20;
const PROCESSES: usize = 3;

/// The hash of the trace of each seed, run in this process.
fn hashes(jobs: usize) -> BTreeMap<u64, u64> {
    let runs = FIRST.map(|first| {
        let is_over = |begun| begun >= SEEDS;
        sweep(Seeds::From(first), jobs, is_over, |_, _| Ok(())).unwrap()
    });
    runs.into_iter().flat_map(|totals| totals.hashes).collect()
}

/// The same, run in another process.
fn hashes_elsewhere() -> BTreeMap<u64, u64> {
    FIRST.into_iter().flat_map(hashes_from).collect()
}

fn hashes_from(first: u64) -> BTreeMap<u64, u64> {
    let output = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args([
            "--hashes",
            "--seeds",
            &SEEDS.to_string(),
            "--from",
            &first.to_string(),
        ])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("seed "));
    let pairs = lines.filter_map(|line| line.split_once(" trace "));
    pairs
        .map(|(seed, hash)| (seed.parse().unwrap(), u64::from_str_radix(hash, 16).unwrap()))
        .collect()
}

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_in_other_processes() {
    let first = hashes(1);
    assert_eq!(first.len(), FIRST.len() * usize::try_from(SEEDS).unwrap());
    assert_eq!(first, hashes(2), "again in this process, on two threads");
    for number in 1..=PROCESSES {
        assert_eq!(first, hashes_elsewhere(), "in process {number}");
    }
}

#[test]
fn different_seeds_give_different_traces() {
    let mut all: Vec<u64> = hashes(2).into_values().collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), FIRST.len() * usize::try_from(SEEDS).unwrap());
}

#[test]
fn in_some_of_these_seeds_clusters_are_asked_and_worker_pools_are_waited_for() {
    let options = || (ASKING..ASKING + SEEDS).map(Options::of);
    assert!(options().any(|options| options.preflight.is_some()));
    assert!(options().any(|options| options.worker_pools));
}

#[test]
fn in_some_of_these_seeds_there_are_windows_and_in_some_approvals() {
    let options = || (CONTROLLED..CONTROLLED + SEEDS).map(Options::of);
    assert!(options().any(|options| options.window_minutes > 0));
    assert!(options().any(|options| options.approve_at.is_some()));
}
