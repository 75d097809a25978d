//! cargo-deny at a pinned version: bans, licences and sources always, advisories where their database is reachable.
//!
//! The tool is built once, into the tool cache outside the repository, in exactly this version.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use repository::{cargo, root, tool_cache};

const VERSION: &str = "0.20.2";
/// How long the advisory database may take to arrive.
const FETCH_TIMEOUT: Duration = Duration::from_mins(1);

/// Checks the dependencies against `deny.toml`.
///
/// # Errors
/// The tool cannot be installed, or a check fails; its findings have been shown.
pub fn run() -> Result<()> {
    let cache = tool_cache()?;
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let tool = tool(&cache)?;
    check(&tool, &["bans", "licenses", "sources"])?;
    eprintln!("$ cargo deny fetch db");
    if fetch(&tool)? {
        check(&tool, &["advisories", "--disable-fetch"])
    } else {
        eprintln!("note: the advisory database is not reachable from here; advisories were not checked");
        Ok(())
    }
}

/// The tool; installed first if it is not there in this version.
fn tool(cache: &Path) -> Result<PathBuf> {
    let home = cache.join(format!("cargo-deny-{VERSION}"));
    let program = home.join("bin/cargo-deny");
    if version(&program).as_deref() == Some(VERSION) {
        return Ok(program);
    }
    eprintln!("installing cargo-deny {VERSION} into {}", home.display());
    let status = cargo()
        // Not optimised: it works for seconds, and is built for minutes.
        .args(["install", "--locked", "--debug", "cargo-deny", "--version", VERSION, "--root"])
        .arg(&home)
        .env("CARGO_PROFILE_DEV_DEBUG", "false")
        // Not in this workspace: it has its own dependencies.
        .current_dir(cache)
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .context("cargo does not start")?;
    match version(&program) {
        Some(found) if status.success() && found == VERSION => Ok(program),
        found => bail!("cargo-deny {VERSION} could not be installed ({status}, found {found:?})"),
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().strip_prefix("cargo-deny ")?.to_owned())
}

fn check(tool: &Path, which: &[&str]) -> Result<()> {
    eprintln!("$ cargo deny check {}", which.join(" "));
    let status = deny(tool)
        .args(["check", "--hide-inclusion-graph"])
        .args(which)
        .status()?;
    if !status.success() {
        bail!("cargo deny check {}: {status}", which.join(" "));
    }
    Ok(())
}

fn deny(tool: &Path) -> Command {
    let mut command = Command::new(tool);
    command.current_dir(root());
    command
}

/// Fetches the advisory database; false if that does not work in time.
fn fetch(tool: &Path) -> Result<bool> {
    let mut child = deny(tool)
        .args(["fetch", "db"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A private repository would ask for a password and wait.
        .env("GIT_TERMINAL_PROMPT", "0")
        .spawn()?;
    let deadline = Instant::now() + FETCH_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_not_there_has_no_version() {
        assert_eq!(version(Path::new("/no/such/cargo-deny")), None);
    }
}
