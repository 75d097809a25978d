//! Starting cargo, and the programs that do the work of a command.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use repository::{Package, Profile, Programs, root};

/// What `cargo xtask bench` measures in seconds, and therefore on a release build.
const TIMED: [&str; 5] = ["fleet", "plan", "graph", "hub-sim", "dashboard"];

/// Builds and runs a program of the workspace with our own standard streams, and returns its exit code.
///
/// # Errors
/// It does not build or does not start.
pub fn start(name: &str, profile: Profile, arguments: &[OsString]) -> Result<ExitCode> {
    match profile {
        Profile::Release => {
            eprintln!("building everything in release mode, as measured times are those of release builds");
        }
        Profile::Quick(_) => eprintln!("building {name}; the first time takes some minutes"),
        Profile::Simulation => {
            eprintln!("building the simulation, optimised as a whole: the first time takes ten minutes");
        }
        Profile::Dev => {}
    }
    let status = Command::new(Programs::build(profile)?.path(name))
        .args(arguments)
        .current_dir(root())
        .status()
        .with_context(|| format!("{name} does not start"))?;
    // A program that a signal ended has no code.
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// As [`start`], for a step of the suite.
///
/// # Errors
/// As [`start`], or it fails; its own messages have been shown.
pub fn require(name: &str, profile: Profile, arguments: &[&str]) -> Result<()> {
    let line = arguments.join(" ");
    eprintln!("$ {name} {line}");
    let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
    if start(name, profile, &arguments)? != ExitCode::SUCCESS {
        bail!("{name} {line} failed");
    }
    Ok(())
}

/// The profile that the bench with these arguments needs.
pub fn bench_profile(arguments: &[OsString]) -> Profile {
    let is_timed = |first: &OsString| TIMED.iter().any(|name| OsStr::new(name) == first);
    if arguments.first().is_some_and(is_timed) && !asks_for_help(arguments) {
        Profile::Release
    } else {
        Profile::Dev
    }
}

/// The profile that the simulation with these arguments needs. Whoever asks for help does not wait for an optimised build.
pub fn sim_profile(arguments: &[OsString]) -> Profile {
    if asks_for_help(arguments) {
        Profile::Dev
    } else {
        Profile::Simulation
    }
}

fn asks_for_help(arguments: &[OsString]) -> bool {
    arguments
        .iter()
        .any(|argument| argument == "--help" || argument == "-h")
}

/// The profile that the demo with these arguments needs. A hub that is kept is looked at with the plugin.
pub fn demo_profile(arguments: &[OsString]) -> Profile {
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    if has("--real-hub") {
        Profile::Dev
    } else if has("--keep") {
        Profile::Quick(&["demo", "kubectl-mcu"])
    } else {
        Profile::Quick(&["demo"])
    }
}

/// Runs a command of cargo with our own standard streams.
pub fn command(command: &mut Command) -> Result<()> {
    let line = line(command);
    eprintln!("$ cargo {line}");
    let status = command.status().context("cargo does not start")?;
    if !status.success() {
        bail!("cargo {line}: {status}");
    }
    Ok(())
}

/// The arguments of a command, as people read them.
pub fn line(command: &Command) -> String {
    let parts = command.get_args().map(|part| part.to_string_lossy());
    parts.collect::<Vec<_>>().join(" ")
}

/// Names of the integration tests of the workspace that need a feature, or of those that need none.
pub fn tests_with(packages: &[Package], feature: Option<&str>) -> BTreeSet<String> {
    packages
        .iter()
        .flat_map(|package| &package.targets)
        .filter(|target| target.kind.iter().any(|kind| kind == "test"))
        .filter(|target| match feature {
            Some(feature) => target
                .required_features
                .iter()
                .any(|required| required == feature),
            None => target.required_features.is_empty(),
        })
        .map(|target| target.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use repository::cargo;

    #[test]
    fn only_what_is_timed_is_built_in_release_mode() {
        let profile = |line: &str| {
            let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            bench_profile(&arguments)
        };
        assert_eq!(profile("fleet --clusters 500"), Profile::Release);
        assert_eq!(profile("graph"), Profile::Release);
        assert_eq!(profile("dashboard"), Profile::Release);
        for line in ["", "--help", "day --seed 2", "fleet --help", "plan -h"] {
            assert_eq!(profile(line), Profile::Dev, "{line}");
        }
    }

    #[test]
    fn the_plain_demo_builds_itself_alone() {
        let profile = |line: &str| {
            let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            demo_profile(&arguments)
        };
        assert_eq!(profile("--clusters 6"), Profile::Quick(&["demo"]));
        assert_eq!(profile("--keep"), Profile::Quick(&["demo", "kubectl-mcu"]));
        assert_eq!(profile("--keep --real-hub"), Profile::Dev);
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
