//! `cargo xtask COMMAND`: everything that a developer or CI does to this repository.
//!
//! It contains the test suite's steps and the fence, and starts other programs of the workspace for everything else: `demo`,
//! `bench`, `simulation`, `testenv` (hubs) and `generate` (CRDs and reference). So it compiles in seconds.

mod beside;
mod deny;
mod e2e;
mod fence;
mod on_hub;
mod program;
mod suite;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use repository::{Profile, SIMULATION};

const AFTER_HELP: &str = "The commands demo, hub, crds, docs, manifests, image, plugin, bench and sim start \
programs of their own. Cargo builds them first, also for `COMMAND --help`.";

/// Tools of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Upgrade a fleet of simulated clusters while you watch, on a simulated hub or with --real-hub on a real one.
    Demo(Arguments),
    /// Run what CI runs: format, lints, fence, drift, dependencies, all tests and a short bench.
    Test(suite::TestArgs),
    /// Upgrade real clusters: a hub, three clusters with OCM's own agents, and everything that can go wrong.
    E2e(e2e::E2eArgs),
    /// Start and stop a hub by hand, a real or a simulated one, or print where its programs are.
    Hub(Arguments),
    /// Generate the CRDs in crds/; with --check only compare.
    Crds(Arguments),
    /// Generate the reference in docs/reference/; with --check only compare.
    Docs(Arguments),
    /// Generate install.yaml, the Helm chart and the OLM bundle in deploy/; with --check only compare.
    Manifests(Arguments),
    /// Build the image of the controller or the update service without a container runtime, and push it.
    Image(Arguments),
    /// Pack the kubectl plugin, with its krew manifest.
    Plugin(Arguments),
    /// Check dependencies between crates, what pure crates use, imports, names, style, and references to texts.
    Fence,
    /// Check licences, bans and advisories of dependencies with cargo-deny.
    Deny,
    /// Measure against the thresholds of docs/benchmarks.md.
    Bench(Arguments),
    /// Run the controller in virtual time on a simulated hub, with faults that follow from seeds, or replay one.
    Sim(Arguments),
}

/// Arguments of the program that a command starts, which also answers to --help.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let start = |name, before: &[&str], Arguments { arguments }: Arguments| {
        let all = before.iter().map(OsString::from).chain(arguments);
        program::start(name, Profile::Dev, &all.collect::<Vec<_>>())
    };
    match command {
        Command::Demo(Arguments { arguments }) => {
            return program::start("demo", program::demo_profile(&arguments), &arguments);
        }
        Command::Hub(Arguments { arguments }) => {
            return program::start("testenv", Profile::Quick(&["testenv"]), &arguments);
        }
        Command::Crds(arguments) => return start("generate", &["crds"], arguments),
        Command::Docs(arguments) => return start("generate", &["docs"], arguments),
        Command::Manifests(arguments) => return start("package", &["manifests"], arguments),
        Command::Image(arguments) => return start("package", &["image"], arguments),
        Command::Plugin(arguments) => return start("package", &["plugin"], arguments),
        Command::Bench(Arguments { arguments }) => {
            return program::start("bench", program::bench_profile(&arguments), &arguments);
        }
        Command::Sim(Arguments { arguments }) => {
            return program::start(SIMULATION, program::sim_profile(&arguments), &arguments);
        }
        Command::Test(args) => suite::run(args)?,
        Command::E2e(args) => e2e::run(&args)?,
        Command::Fence => fence::run()?,
        Command::Deny => deny::run()?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_names_the_commands_whose_own_help_is_built_first() {
        let cli = Cli::command();
        let text = cli.get_after_help().unwrap().to_string();
        let named = |name: &str| text.split([' ', ',']).any(|word| word == name);
        for command in cli.get_subcommands() {
            let name = command.get_name();
            assert_eq!(command.is_disable_help_flag_set(), named(name), "{name}");
        }
    }

    #[test]
    fn programs_get_their_arguments_as_they_are_help_included() {
        for line in [
            "demo --clusters 4 --json",
            "bench fleet --help",
            "hub --help",
            "crds --check",
            "image --arch amd64,arm64 --push registry.example.com/fleet/mcu-controller:0.1.0",
            "sim --seed 7 --trace",
        ] {
            let words = ["cargo xtask"].into_iter().chain(line.split(' '));
            let (Command::Demo(Arguments { arguments })
            | Command::Bench(Arguments { arguments })
            | Command::Hub(Arguments { arguments })
            | Command::Crds(Arguments { arguments })
            | Command::Image(Arguments { arguments })
            | Command::Sim(Arguments { arguments })) = Cli::try_parse_from(words).unwrap().command
            else {
                panic!("{line}");
            };
            let passed: Vec<OsString> = line.split(' ').skip(1).map(OsString::from).collect();
            assert_eq!(arguments, passed);
        }
    }
}
