//! How a program ends.

use std::process::ExitCode;

use anyhow::Result;

/// Shows the error of a program, if there is one, in a line. Returned from `main`, it would be followed by a backtrace where
/// `RUST_BACKTRACE` is set.
#[must_use]
pub fn exit_code(outcome: Result<ExitCode>) -> ExitCode {
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
