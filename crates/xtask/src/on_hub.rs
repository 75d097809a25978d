//! The tests on a hub, as two runs of cargo at the same time. A run starts its test programs one after the other, and a few
//! programs wait most of their time, so these have a run of their own.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::Result;
use repository::{HUB_TESTS, Metadata};

use crate::beside::Beside;
use crate::e2e;
use crate::program::{command, tests_with};

/// Test targets whose longest test waits for a minute or more: for time limits of the controller, for listings, for agents.
const WAITING: [&str; 4] = ["acceptance", "guides", "hub_cluster", "registry"];

/// Runs all tests on a hub.
///
/// # Errors
/// They do not build, or one fails; the output has been shown.
pub fn run(keep_going: bool) -> Result<()> {
    let metadata = Metadata::load()?;
    let names = tests_with(&metadata.packages, Some(HUB_TESTS));
    let (waiting, working): (BTreeSet<String>, BTreeSet<String>) = names
        .into_iter()
        .partition(|name| WAITING.contains(&name.as_str()));
    let all: BTreeSet<String> = waiting.union(&working).cloned().collect();
    command(tests(&all, keep_going)?.arg("--no-run"))?;

    // Both before one starts: an error here would leave it behind.
    let (beside, mut others) = (tests(&waiting, keep_going)?, tests(&working, keep_going)?);
    let beside = Beside::start("waiting-hub-tests", vec![beside])?;
    let worked = command(&mut others);
    let waited = beside.end();
    worked.and(waited)
}

/// `cargo test` of these targets.
fn tests(names: &BTreeSet<String>, keep_going: bool) -> Result<Command> {
    let mut tests = e2e::cargo_test()?;
    tests.args(keep_going.then_some("--no-fail-fast"));
    for name in names {
        tests.args(["--test", name]);
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_that_waits_needs_a_hub() {
        let names = tests_with(&Metadata::load().unwrap().packages, Some(HUB_TESTS));
        for name in WAITING {
            assert!(names.contains(name), "{name}");
        }
    }
}
