//! The command line.
//!
//! Exit codes: 0 success, 1 the data has errors or the service failed, 2 the command line is invalid.

#![expect(
    clippy::doc_markdown,
    reason = "comments on flags are the help text, where backticks would show"
)]

pub mod build;
pub mod lint;
pub mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Serves the update graph of OpenShift releases: which release leads to which, and under which risks.
///
/// Reads releases (from files, a registry or another service) and graph-data (channels and blocked edges), and answers
/// clusters, consoles and other services over the Cincinnati protocol. Durations are written like 500ms, 30s or 5m.
#[derive(Clone, Debug, Parser)]
#[command(name = "update-service", version, max_term_width = 100)]
pub struct CommandLine {
    #[command(subcommand)]
    #[expect(missing_docs, reason = "the commands' own comments are the documentation")]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Serve the graph and keep it up to date.
    ///
    /// Example, disconnected: update-service serve --registry mirror.example.com/ocp/release
    /// --graph-data oci://mirror.example.com/ocp/graph-data:latest --credentials pull-secret.json
    /// --state-dir /var/lib/update-service
    Serve(Box<crate::config::ServeFlags>),
    /// Check graph-data: what is wrong, where, by which rule, and what to do. Exits with 1 on errors.
    Lint(lint::LintFlags),
    /// Write the graph of every channel and architecture as files for a static web server.
    Build(Box<build::BuildFlags>),
}

impl CommandLine {
    /// Does it.
    ///
    /// # Errors
    /// When it cannot be done.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        match &self.command {
            Command::Serve(flags) => serve::run(flags),
            Command::Lint(flags) => lint::run(flags),
            Command::Build(flags) => build::run(flags),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn help_explains_every_flag() {
        let command = CommandLine::command();
        command.clone().debug_assert();
        for command in command.get_subcommands() {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} has no help", argument.get_id());
            }
        }
    }
}
