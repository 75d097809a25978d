//! The same seed gives the same trace, in one process and in two.

// clippy knows tests by their functions only, not the helpers of a test crate
#![allow(clippy::unwrap_used)]

use std::process::Command;

use simulation::fault::Faults;
use simulation::options::Options;
use simulation::run::run;
use simulation::trace::Trace;

fn hash(seed: u64) -> u64 {
    let outcome = run(&Options::of(seed), &Faults::ByRate, Trace::default()).unwrap();
    outcome.hash
}

#[test]
fn the_same_seed_gives_the_same_trace_twice_and_in_another_process() {
    for seed in [1, 6] {
        let first = hash(seed);
        assert_eq!(first, hash(seed), "seed {seed} twice in this process");
        let other = Command::new(env!("CARGO_BIN_EXE_simulation"))
            .args(["--seed", &seed.to_string()])
            .output()
            .unwrap();
        let text = String::from_utf8(other.stdout).unwrap();
        assert!(
            text.contains(&format!("trace {first:016x}")),
            "seed {seed} in another process: {text}"
        );
    }
}

#[test]
fn different_seeds_give_different_traces() {
    assert_ne!(hash(2), hash(3));
}
