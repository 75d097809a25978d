//! `update-service`: serves the update graph. Everything is in the library.

use std::process::ExitCode;

use clap::Parser;
use update_service::command::CommandLine;
use update_service::output;

fn main() -> ExitCode {
    let line = CommandLine::parse();
    // The one provider of cryptography; nothing has installed another one yet.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match line.run() {
        Ok(code) => code,
        Err(error) => {
            output::complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
