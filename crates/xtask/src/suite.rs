//! `cargo xtask test`: what CI runs, in the order in which failures are cheapest.
//!
//! The steps are here, with their order. A test target that needs a hub says so in its crate's `Cargo.toml`, as
//! `required-features = ["hub-tests"]`, or `["spoke-tests"]` if it needs clusters beside the hub. All others need neither.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use repository::{FEATURES, Metadata, Profile, Programs, SIMULATION, browser, cargo, data, root};

use crate::beside::{Beside, at_low_priority};
use crate::program::{self, command, tests_with};
use crate::{deny, e2e, fence, on_hub};

/// What a step does.
type Work = Box<dyn FnOnce() -> Result<()>>;

/// One step of the suite.
struct Step {
    name: &'static str,
    work: Work,
}

fn step(name: &'static str, work: impl FnOnce() -> Result<()> + 'static) -> Step {
    Step {
        name,
        work: Box::new(work),
    }
}

/// A step that has run.
struct Finished {
    name: &'static str,
    took: Duration,
    ok: bool,
}

/// How to run the suite.
#[derive(Clone, Copy, Debug, Args)]
pub struct TestArgs {
    /// Leave out everything that needs a hub.
    #[arg(long)]
    fast: bool,
    /// Continue after a failure and name all of them at the end
    #[arg(long)]
    keep_going: bool,
}

/// Runs the suite and stops at the first failure, or at the end if it is to keep going.
///
/// # Errors
/// A step fails; its output has been shown, the message names it.
pub fn run(args: TestArgs) -> Result<()> {
    let started = Instant::now();
    let mut steps = without_hub(args.keep_going);
    if !args.fast {
        steps.extend(with_hub(args.keep_going));
    }
    let total = steps.len();
    let mut finished: Vec<Finished> = Vec::new();
    for (number, Step { name, work }) in (1..).zip(steps) {
        eprintln!("\n==> {number}/{total} {name}");
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed();
        let ok = outcome.is_ok();
        finished.push(Finished { name, took, ok });
        match outcome {
            Ok(()) => eprintln!("<== {name}: ok in {}", seconds(took)),
            Err(error) if args.keep_going => {
                eprintln!("<== {name}: FAILED in {}: {error:#}", seconds(took));
            }
            Err(error) => {
                eprint!("{}", summary(&finished, started.elapsed()));
                return Err(error.context(format!("{name} failed")));
            }
        }
    }
    eprint!("{}", summary(&finished, started.elapsed()));
    let failed: Vec<&str> = finished
        .iter()
        .filter(|step| !step.ok)
        .map(|step| step.name)
        .collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn without_hub(keep_going: bool) -> Vec<Step> {
    vec![
        step("format", || command(cargo().args(["fmt", "--all", "--check"]))),
        step("clippy", || {
            command(
                cargo()
                    .args(["clippy", "--workspace", "--all-targets"])
                    .args(FEATURES)
                    .args(["--", "-D", "warnings"]),
            )
        }),
        step("fence", fence::run),
        step("drift", || {
            program::require("generate", Profile::Dev, &["crds", "--check"])?;
            program::require("generate", Profile::Dev, &["docs", "--check"])?;
            program::require("package", Profile::Dev, &["manifests", "--check"])
        }),
        step("deny", deny::run),
        step("tests", move || {
            let mut tests = cargo();
            tests.args(["test", "--workspace"]).args(FEATURES);
            tests
                .args(["--lib", "--bins"])
                .args(keep_going.then_some("--no-fail-fast"));
            for name in tests_with(&Metadata::load()?.packages, None) {
                tests.args(["--test", &name]);
            }
            command(&mut tests)
        }),
        // Seeds that nobody has run; the stories of earlier seeds are among the tests. The program is there, and to build an
        // optimised one takes many times what it would save.
        step("simulation", || {
            let first = first_seed(&commit());
            SWEEPS.into_iter().try_for_each(|(bits, seeds)| {
                let first = (first | bits).to_string();
                program::require(SIMULATION, Profile::Dev, &["--from", &first, "--seeds", seeds])
            })
        }),
        step("doc tests", || {
            command(cargo().args(["test", "--workspace"]).args(FEATURES).arg("--doc"))
        }),
    ]
}

/// The commit that is checked out; empty where git does not know.
fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "HEAD"]).output();
    output.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// How many seeds are played, and the bits that they have: 2^61 is for maintenance windows and approvals, 2^62 for preflight and worker
/// pools.
const SWEEPS: [(u64, &str); 4] = [(0, "280"), (1 << 61, "40"), (2 << 61, "40"), (3 << 61, "40")];

/// The first of the seeds for a commit: other seeds for each commit, and the same for the same commit, so that a failure
/// repeats.
fn first_seed(commit: &str) -> u64 {
    let digits: String = commit.chars().take(12).collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}

fn with_hub(keep_going: bool) -> Vec<Step> {
    vec![
        step("programs", || Programs::build(Profile::Dev).map(drop)),
        step("hub tools", e2e::tools),
        step("hub tests", move || on_hub::run(keep_going)),
        step("spokes", spokes),
        step("demo", || {
            program::require("demo", program::demo_profile(&[]), &["--json"])?;
            program::require("demo", Profile::Dev, &["--real-hub", "--json"])
        }),
        step("bench counts", || {
            program::require("bench", Profile::Dev, &["counts"])
        }),
        step("install", install),
    ]
}

/// The tests on real clusters wait most of their time. Beside them, the demo and the plugin are built, each alone, as for who
/// tries them first: the programs of the whole workspace would not show that a package lacks a feature.
fn spokes() -> Result<()> {
    let builds = [program::demo_profile(&[]).build(), plugin()];
    let beside = Beside::start("builds", builds.iter().map(at_low_priority).collect())?;
    let tested = e2e::run(&e2e::E2eArgs::default());
    tested.and(beside.end())
}

/// Where the plugin is installed.
fn installed() -> PathBuf {
    root().join("target/installed")
}

/// Installs the plugin as the README says, but without optimising it: with the profile of the demo, which needs most of the same.
fn plugin() -> Command {
    let mut install = cargo();
    install.args(["install", "--locked", "--path", "crates/cli"]);
    install
        .args(["--profile", "quick", "--force", "--root"])
        .arg(installed());
    install
}

/// Installs the plugin, which is built already, and runs it.
fn install() -> Result<()> {
    command(&mut plugin())?;
    let plugin = installed().join("bin/kubectl-mcu");
    let status = Command::new(&plugin).arg("--version").status();
    ensure!(
        status.is_ok_and(|status| status.success()),
        "{} does not run",
        plugin.display()
    );
    Ok(())
}

fn summary(finished: &[Finished], total: Duration) -> String {
    let line =
        |verdict: &str, name: &str, took: Duration| format!("  {verdict:<6} {name:<12} {}\n", seconds(took));
    let steps = finished
        .iter()
        .map(|step| line(if step.ok { "ok" } else { "FAILED" }, step.name, step.took));
    let had_tests = finished.iter().any(|step| step.name == "tests");
    let data = had_tests.then(|| format!("  {}\n  {}\n", data::summary(), browser::summary()));
    std::iter::once("\nsummary\n".to_owned())
        .chain(steps)
        .chain([line("", "total", total)])
        .chain(data)
        .collect()
}

fn seconds(duration: Duration) -> String {
    format!("{:>7.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests;
