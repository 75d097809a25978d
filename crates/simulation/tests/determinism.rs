//! The same seed gives the same trace: twice in one process, on any thread, and in other processes.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::process::Command;

use simulation::sweep::sweep;

const SEEDS: u64 = 20;
const PROCESSES: usize = 3;

/// The hash of the trace of each seed, run in this process.
fn hashes(jobs: usize) -> BTreeMap<u64, u64> {
    let totals = sweep(0, jobs, |begun| begun >= SEEDS, |_, _| Ok(())).unwrap();
    totals.hashes
}

/// The same, run in another process.
fn hashes_elsewhere() -> BTreeMap<u64, u64> {
    let output = Command::new(env!("CARGO_BIN_EXE_simulation"))
        .args(["--hashes", "--seeds", &SEEDS.to_string()])
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
    assert_eq!(first.len(), usize::try_from(SEEDS).unwrap());
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
    assert_eq!(all.len(), usize::try_from(SEEDS).unwrap());
}
