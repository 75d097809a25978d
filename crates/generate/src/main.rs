//! The generated files of the repository: `crds/` from the types of crate `api`, `docs/reference/` from the code that it
//! describes. `cargo xtask crds` and `cargo xtask docs` start this program.

mod crds;
mod docs;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use repository::root;

/// Generated files.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
enum Command {
    /// Generate the CRDs in crds/.
    Crds(Mode),
    /// Generate the reference in docs/reference/.
    Docs(Mode),
}

/// What to do with the files.
#[derive(Debug, clap::Args)]
struct Mode {
    /// Only compare; fail if they differ.
    #[arg(long)]
    check: bool,
}

fn main() -> ExitCode {
    match run(&Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Crds(Mode { check: true }) => crds::check(root()),
        Command::Crds(Mode { check: false }) => crds::write(root()),
        Command::Docs(Mode { check: true }) => docs::check(root()),
        Command::Docs(Mode { check: false }) => docs::write(root()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }
}
