//! Commands of cargo that run beside something that waits most of its time.

use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;

use anyhow::{Context as _, Result, anyhow, ensure};
use repository::Metadata;

use crate::program::line;

/// Commands that run, one after the other, until one fails.
pub struct Beside {
    output: PathBuf,
    commands: JoinHandle<Result<()>>,
}

impl Beside {
    /// Starts commands. What they print is kept until the end, in a file of this name in cargo's target directory.
    ///
    /// # Errors
    /// The file cannot be written; then none is started.
    pub fn start(name: &str, mut commands: Vec<Command>) -> Result<Self> {
        let output = Metadata::load()?.target_directory.join(format!("{name}.txt"));
        let file = File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
        for command in &mut commands {
            command.stdout(file.try_clone()?).stderr(file.try_clone()?);
        }
        let commands = std::thread::spawn(|| commands.into_iter().try_for_each(run));
        Ok(Self { output, commands })
    }

    /// Waits for the commands, and shows what they have printed.
    ///
    /// # Errors
    /// One of them failed.
    pub fn end(self) -> Result<()> {
        let ended = self.commands.join();
        let text = std::fs::read(&self.output)?;
        eprintln!(
            "\nthe output of what ran at the same time:\n{}",
            String::from_utf8_lossy(&text)
        );
        ended.map_err(|_| anyhow!("a command could not be waited for"))?
    }
}

fn run(mut command: Command) -> Result<()> {
    let name = line(&command);
    let status = command
        .status()
        .with_context(|| format!("{name} does not start"))?;
    ensure!(status.success(), "{name}: {status}");
    Ok(())
}

/// The same command at the lowest priority, so that nobody waits for it who has a deadline.
pub fn at_low_priority(command: &Command) -> Command {
    let mut nice = Command::new("nice");
    nice.args(["-n", "19"])
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(directory) = command.get_current_dir() {
        nice.current_dir(directory);
    }
    for (name, value) in command.get_envs() {
        set(&mut nice, name, value);
    }
    nice
}

fn set(command: &mut Command, name: &OsStr, value: Option<&OsStr>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("MCU_TEST", "1");
        shell
    }

    #[test]
    fn commands_run_one_after_the_other_until_one_fails() {
        let name = format!("beside-{}", std::process::id());
        let commands = ["echo a$MCU_TEST", "echo b; exit 3", "echo c"];
        let beside = Beside::start(
            &name,
            commands.map(|script| at_low_priority(&shell(script))).into(),
        )
        .unwrap();
        let output = beside.output.clone();
        let error = beside.end().unwrap_err().to_string();
        assert!(error.contains("exit 3"), "{error}");
        assert_eq!(std::fs::read_to_string(&output).unwrap(), "a1\nb\n");
        std::fs::remove_file(output).unwrap();
    }
}
