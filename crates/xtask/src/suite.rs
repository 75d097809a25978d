//! `cargo xtask test`: what CI runs, in the order in which failures are cheapest.
//!
//! Owns the steps and their order. Hub tests are the test targets whose name begins with `hub`, and all of package
//! `e2e`; everything else runs without a hub.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::bench::fleet;
use crate::workspace::{Binaries, Metadata, Package, Profile, cargo, root};
use crate::{crds, deny, docs, e2e, fence};

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

/// How to run the suite.
#[derive(Clone, Copy, Debug, Args)]
pub struct TestArgs {
    /// Leave out everything that needs a hub.
    #[arg(long)]
    fast: bool,
    /// Go on after a failure and name all of them at the end: for machines that nobody watches.
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
    let mut done: Vec<(&'static str, Duration)> = Vec::new();
    let mut failed: Vec<&'static str> = Vec::new();
    for (number, Step { name, work }) in (1..).zip(steps) {
        eprintln!("\n==> {number}/{total} {name}");
        let begun = Instant::now();
        let outcome = work();
        let took = begun.elapsed();
        if let Err(error) = outcome {
            if !args.keep_going {
                summarize(&done, started.elapsed());
                eprintln!("  FAILED {name:<12} {}", seconds(took));
                return Err(error.context(format!("{name} failed")));
            }
            eprintln!("<== {name}: FAILED in {}: {error:#}", seconds(took));
            failed.push(name);
            continue;
        }
        eprintln!("<== {name}: ok in {}", seconds(took));
        done.push((name, took));
    }
    summarize(&done, started.elapsed());
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// `cargo test`'s argument for going on after a failure.
fn going_on(keep_going: bool) -> Option<&'static str> {
    keep_going.then_some("--no-fail-fast")
}

fn without_hub(keep_going: bool) -> Vec<Step> {
    vec![
        step("format", || command(cargo().args(["fmt", "--all", "--check"]))),
        step("clippy", || {
            command(
                cargo()
                    .args(["clippy", "--workspace", "--all-targets", "--"])
                    .args(["-D", "warnings"]),
            )
        }),
        step("fence", fence::run),
        step("drift", || {
            crds::check(root())?;
            docs::check(root())
        }),
        step("deny", deny::run),
        step("tests", move || {
            let targets = targets(&Metadata::load()?.packages);
            let mut tests = cargo();
            tests.args(["test", "--workspace", "--lib", "--bins"]);
            tests.args(going_on(keep_going));
            for name in &targets.plain {
                tests.args(["--test", name]);
            }
            command(&mut tests)
        }),
        step("doc tests", || {
            command(cargo().args(["test", "--workspace", "--doc"]))
        }),
    ]
}

fn with_hub(keep_going: bool) -> Vec<Step> {
    vec![
        step("hub tools", e2e::tools),
        step("programs", || Binaries::build(Profile::own()).map(drop)),
        step("hub tests", move || {
            let mut tests = e2e::cargo_test()?;
            tests.arg("--workspace").args(going_on(keep_going));
            for (_, names) in targets(&Metadata::load()?.packages).hub {
                for name in names {
                    tests.args(["--test", &name]);
                }
            }
            command(&mut tests)
        }),
        step("spokes", || e2e::run(&e2e::E2eArgs::default())),
        step("bench counts", || {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(fleet::check_counts())
        }),
    ]
}

/// The integration tests of the workspace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Targets {
    /// Need nothing.
    plain: Vec<String>,
    /// Need a hub: package and names.
    hub: Vec<(String, Vec<String>)>,
    /// Need spokes beside it.
    spokes: Vec<String>,
}

fn targets(packages: &[Package]) -> Targets {
    let mut found = Targets::default();
    for package in packages {
        let tests = package
            .targets
            .iter()
            .filter(|target| target.kind.iter().any(|kind| kind == "test"))
            .map(|target| target.name.clone());
        let (spokes, tests): (Vec<_>, Vec<_>) =
            tests.partition(|name| package.name == "e2e" && e2e::TESTS.contains(&name.as_str()));
        found.spokes.extend(spokes);
        let tests = tests.into_iter();
        let (hub, plain): (Vec<_>, Vec<_>) =
            tests.partition(|name| package.name == "e2e" || name.starts_with("hub"));
        found.plain.extend(plain);
        if !hub.is_empty() {
            found.hub.push((package.name.clone(), hub));
        }
    }
    found
}

/// Runs a command with our own standard streams.
pub(crate) fn command(command: &mut Command) -> Result<()> {
    let line = std::iter::once(command.get_program())
        .chain(command.get_args())
        .skip(1)
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ");
    eprintln!("$ cargo {line}");
    let status = command.status().context("cargo does not start")?;
    if !status.success() {
        bail!("cargo {line}: {status}");
    }
    Ok(())
}

fn summarize(done: &[(&'static str, Duration)], total: Duration) {
    eprintln!("\nsummary");
    for (name, took) in done {
        eprintln!("  ok     {name:<12} {}", seconds(*took));
    }
    eprintln!("         {:<12} {}", "total", seconds(total));
}

fn seconds(duration: Duration) -> String {
    format!("{:>7.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Target;

    fn package(name: &str, targets: &[(&str, &str)]) -> Package {
        Package {
            name: name.to_owned(),
            manifest_path: "Cargo.toml".into(),
            dependencies: Vec::new(),
            targets: targets
                .iter()
                .map(|(name, kind)| Target {
                    name: (*name).to_owned(),
                    kind: vec![(*kind).to_owned()],
                })
                .collect(),
        }
    }

    #[test]
    fn hub_tests_are_told_from_the_others_by_name_and_package() {
        let packages = [
            package("testenv", &[("testenv", "lib"), ("hub", "test")]),
            package("rollout", &[("goldens", "test")]),
            package(
                "e2e",
                &[("acceptance", "test"), ("fleet", "test"), ("e2e", "lib")],
            ),
        ];
        assert_eq!(
            targets(&packages),
            Targets {
                plain: vec!["goldens".to_owned()],
                hub: vec![
                    ("testenv".to_owned(), vec!["hub".to_owned()]),
                    ("e2e".to_owned(), vec!["acceptance".to_owned()]),
                ],
                spokes: vec!["fleet".to_owned()],
            }
        );
    }

    #[test]
    fn every_integration_test_of_the_workspace_is_in_exactly_one_step() {
        let packages = Metadata::load().unwrap().packages;
        let found = targets(&packages);
        let hub: usize = found.hub.iter().map(|(_, names)| names.len()).sum();
        let all = packages.iter().flat_map(|package| &package.targets);
        let tests = all.filter(|target| target.kind.contains(&"test".to_owned()));
        assert_eq!(found.spokes.len(), e2e::TESTS.len());
        assert_eq!(found.plain.len() + hub + found.spokes.len(), tests.count());
        assert!(found.hub.iter().any(|(package, _)| package == "testenv"));
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = command(cargo().arg("no-such-command-here")).unwrap_err();
        assert!(
            error.to_string().starts_with("cargo no-such-command-here"),
            "{error}"
        );
    }
}
