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
            eprintln!("error: {}", shown(&format!("{error:#}")));
            ExitCode::FAILURE
        }
    }
}

/// A message for a terminal. It may contain what a registry answered, so nothing in it may control the terminal.
fn shown(message: &str) -> String {
    let mut shown = String::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '\n' | '"' | '\'' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
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

    #[test]
    fn an_error_cannot_control_the_terminal() {
        assert_eq!(shown("a \"b\"\nC:\\d größer"), "a \"b\"\nC:\\d größer");
        let message = shown("denied\u{1b}[2J\u{9b}1m\r\u{202e}x\u{200b}");
        assert_eq!(message, "denied\\u{1b}[2J\\u{9b}1m\\r\\u{202e}x\\u{200b}");
    }
}
