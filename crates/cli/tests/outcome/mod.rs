//! What a run of the plugin gave.

use std::process::Command;

#[derive(Debug)]
pub struct Outcome {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Outcome {
    /// Runs the plugin with these arguments, and what `change` does to the command.
    pub fn of(args: &[&str], change: impl FnOnce(&mut Command) -> &mut Command) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-mcu"));
        let output = change(command.args(args)).output().unwrap();
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
