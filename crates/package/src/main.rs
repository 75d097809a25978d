//! `cargo xtask manifests`, `cargo xtask image` and `cargo xtask plugin` start this program.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use package::image::{self, ImageArgs};
use package::manifests;
use package::plugin::{self, PluginArgs};
use repository::root;

/// What a release consists of.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
enum Command {
    /// Generate install.yaml, the Helm chart and the OLM bundle in deploy/.
    Manifests {
        /// Only compare; fail if they differ.
        #[arg(long)]
        check: bool,
    },
    /// Build the image of the controller or the update service without a container runtime, and push it.
    Image(ImageArgs),
    /// Pack the kubectl plugin for this machine, with its krew manifest where releases have an address.
    Plugin(PluginArgs),
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
        Command::Manifests { check: true } => manifests::check(root()),
        Command::Manifests { check: false } => manifests::write(root()),
        Command::Image(args) => image::run(args),
        Command::Plugin(args) => plugin::run(args),
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
