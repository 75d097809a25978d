//! `cargo xtask e2e`: the tests on real spokes.
//!
//! Owns which tests those are and what they need before they start: the binaries of OCM and Prometheus, and the programs
//! of the workspace. `cargo xtask test` runs them as one of its steps.

use std::process::Command;

use anyhow::Result;
use clap::Args;
use testenv::assets::ToolCache;
use testenv::{Assets, Tool, stderr_progress};

use crate::suite::command;
use crate::workspace::{AGENTS, Binaries, CONTROLLER, Profile, UPDATE_SERVICE, cargo};

/// Test targets of package `e2e` that need spokes.
pub const TESTS: [&str; 2] = ["conformance", "fleet"];

/// What to run.
#[derive(Debug, Default, Args)]
pub struct E2eArgs {
    /// Only tests whose name contains one of these.
    filters: Vec<String>,
    /// None of those whose name contains one of these.
    #[arg(long)]
    skip: Vec<String>,
}

/// Runs the tests on real spokes.
///
/// # Errors
/// A binary is missing and cannot be built, or a test fails; the output has been shown.
pub fn run(args: &E2eArgs) -> Result<()> {
    tools()?;
    let mut tests = cargo_test()?;
    // Not of the package alone: other features would be chosen, and half the tree compiled again.
    tests.args(["--workspace", "--no-fail-fast"]);
    for test in TESTS {
        tests.args(["--test", test]);
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
    let located = async {
        let cache = ToolCache::from_env()?;
        Assets::locate_or_build_in(&cache, &Tool::ALL, &stderr_progress).await
    };
    tokio::runtime::Runtime::new()?.block_on(located).map(drop)
}

/// `cargo test` for tests that wait more than they work, with the programs of the workspace built.
///
/// # Errors
/// They do not build.
pub fn cargo_test() -> Result<Command> {
    let binaries = Binaries::build(Profile::own())?;
    let mut tests = cargo();
    tests
        .arg("test")
        // Far more of them than there are cores can run at once.
        .env("RUST_TEST_THREADS", "16")
        .env("MCU_CONTROLLER", binaries.path(CONTROLLER))
        .env("MCU_SPOKE_SIM", binaries.path(AGENTS))
        .env("MCU_UPDATE_SERVICE", binaries.path(UPDATE_SERVICE));
    Ok(tests)
}
