//! Runs commands of pages in a shell.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, Result};
use testenv::process::tail;
use tokio::process::Command;

/// The exit code of most commands.
pub const SUCCESS: &[i32] = &[0];
/// Longest time for the commands of a block together, in seconds.
const LIMIT: &str = "180";
/// Lines of the output of a command that failed.
const LINES: usize = 12;
/// Programs without which a command is left out.
const OPTIONAL: [&str; 2] = ["curl", "jq"];

/// A command for the shell.
#[derive(Clone, Debug)]
pub struct Step {
    /// The line of the page that it is for.
    pub line: usize,
    pub text: String,
    /// The exit codes that it may have.
    pub codes: &'static [i32],
}

/// How commands are run.
pub struct Shell<'a> {
    /// Where.
    pub directory: &'a Path,
    /// Variables.
    pub environment: &'a [(&'static str, OsString)],
}

impl Shell<'_> {
    /// Runs commands one after the other in one bash, whatever each of them does. Returns what is wrong with those that failed.
    pub async fn run(&self, page: &str, steps: &[Step]) -> Result<Vec<String>> {
        let results = tempfile::tempdir()?;
        let script = results.path().join("script");
        std::fs::write(&script, text(steps)?)?;
        let mut bash = Command::new("timeout");
        bash.args(["-k", "5", LIMIT, "bash"]).arg(&script);
        for (name, value) in self.environment {
            bash.env(name, value);
        }
        bash.current_dir(self.directory)
            .env("RESULTS", results.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        bash.status().await.context("timeout, or bash, does not start")?;
        let failures = steps
            .iter()
            .enumerate()
            .filter_map(|(number, step)| failure(page, results.path(), number, step));
        Ok(failures.collect())
    }
}

/// The script: each command writes its output and its exit code to files. What still runs at the end is told to end.
fn text(steps: &[Step]) -> Result<String> {
    let mut script = String::from("set -o pipefail\ntrap 'kill $(jobs -p) 2>/dev/null' EXIT\n");
    for (number, step) in steps.iter().enumerate() {
        let missing = missing(&step.text);
        let text = missing.map_or(step.text.as_str(), |_| "true");
        if let Some(program) = missing {
            eprintln!("skipped: no {program} in PATH for {}", step.text);
        }
        writeln!(script, "exec >\"$RESULTS/{number}.log\" 2>&1")?;
        writeln!(script, "{text}")?;
        writeln!(script, "echo $? >\"$RESULTS/{number}.code\"")?;
    }
    Ok(script)
}

/// The program of a command that this machine does not have.
fn missing(text: &str) -> Option<&'static str> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_here = |program: &str| std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    OPTIONAL
        .into_iter()
        .find(|&program| text.split_whitespace().any(|word| word == program) && !is_here(program))
}

fn failure(page: &str, results: &Path, number: usize, step: &Step) -> Option<String> {
    let code = std::fs::read_to_string(results.join(format!("{number}.code"))).ok();
    let code = code.and_then(|code| code.trim().parse::<i32>().ok());
    if code.is_some_and(|code| step.codes.contains(&code)) {
        return None;
    }
    let how = code.map_or_else(
        || "did not run to its end".to_owned(),
        |code| format!("ended with {code} and not with one of {:?}", step.codes),
    );
    let told = tail(&results.join(format!("{number}.log")), LINES);
    Some(format!("{page}:{}: {how}: {}\n{told}\n", step.line, step.text))
}
