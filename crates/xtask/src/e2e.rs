//! `cargo xtask e2e`: the tests on real clusters beside the hub, which are those that need feature `spoke-tests`.

use std::process::Command;

use anyhow::Result;
use clap::Args;
use repository::{
    CONTROLLER, FEATURES, Metadata, PLUGIN, Profile, Programs, SPOKE_SIM, SPOKE_TESTS, UPDATE_SERVICE, cargo,
};

use crate::program::{self, command, tests_with};

/// What to run.
#[derive(Debug, Default, Args)]
pub struct E2eArgs {
    /// Only tests whose name contains one of these.
    filters: Vec<String>,
    /// None of those whose name contains one of these.
    #[arg(long)]
    skip: Vec<String>,
}

/// Runs the tests on real clusters.
///
/// # Errors
/// A binary is missing and cannot be built, or a test fails; the output has been shown.
pub fn run(args: &E2eArgs) -> Result<()> {
    tools()?;
    let mut tests = cargo_test()?;
    tests.arg("--no-fail-fast");
    for name in tests_with(&Metadata::load()?.packages, Some(SPOKE_TESTS)) {
        tests.args(["--test", &name]);
    }
    tests.arg("--").args(&args.filters);
    for name in &args.skip {
        tests.args(["--skip", name]);
    }
    command(&mut tests)
}

/// Finds or builds every binary that any test needs, before tests with deadlines run beside the compiler.
///
/// # Errors
/// One is missing and cannot be built.
pub fn tools() -> Result<()> {
    program::require("testenv", Profile::Dev, &["assets"])
}

/// `cargo test` for tests that wait more than they work, with the programs of the workspace built.
///
/// # Errors
/// They do not build.
pub fn cargo_test() -> Result<Command> {
    let programs = Programs::build(Profile::Dev)?;
    let mut tests = cargo();
    tests
        // Not of one package alone: cargo would choose other features, and compile half of the dependencies again.
        .args(["test", "--workspace"])
        .args(FEATURES)
        // Far more of them than there are cores can run at once.
        .env("RUST_TEST_THREADS", "16")
        .env("MCU_CONTROLLER", programs.path(CONTROLLER))
        .env("MCU_CLI", programs.path(PLUGIN))
        .env("MCU_SPOKE_SIM", programs.path(SPOKE_SIM))
        .env("MCU_UPDATE_SERVICE", programs.path(UPDATE_SERVICE));
    Ok(tests)
}
